"""`python -m data make-questions SET`: questions made of the passages of a set, kept as a set of their own.

The title of an article can ask for its passages, a sentence for the rest of its passage (inverse cloze task), or a
language model at a chat endpoint writes what a passage answers. The endpoint comes from the environment alone:
OPENAI_BASE_URL, OPENAI_MODEL (or --model) and, where it wants one, OPENAI_API_KEY.
"""

import argparse
import os
import sys
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from chat.endpoint import MODEL, Endpoint
from chat.problems import EndpointError
from data.made import Maker
from data.problems import DataError
from data.store import find, keep
from data.terminal import Parser, tell
from questions.make import MadeQuestions, make_questions
from questions.options import MakerOptions, QuestionsError

_PREVIEWED = 5  # passages
_SHOWN = 5  # questions, and passages without one


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, 1 where no question could be made, 130 where it was stopped."""
    given = _parser().parse_args(arguments)
    try:
        return _made(given)
    except (DataError, EndpointError, QuestionsError, OSError) as error:
        tell(f"error: {error}", error=True)
        return 1
    except KeyboardInterrupt:
        tell("\nstopped; what a language model wrote is kept, and the same command goes on", error=True)
        return 130


def _made(given: argparse.Namespace) -> int:
    options = _options(given)
    question_set = find(given.set)
    endpoint = Endpoint.of() if options.by is Maker.MODEL and not given.no_calls else None
    found = make_questions(question_set, options, endpoint, name=given.name, on_progress=_follow)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    tell("\n".join(_told(found)))
    if not given.preview:
        kept = keep(found.question_set, source=question_set.name)
        tell(f"Kept as {kept.key}: `python -m training bi-encoder --data {kept.key}` trains with them")
    return 0


def _options(given: argparse.Namespace) -> MakerOptions:
    values = {known.name: getattr(given, known.name) for known in fields(MakerOptions) if known.name != "prompt"}
    if given.prompt:
        values["prompt"] = given.prompt.read_text(encoding="utf-8")
    if given.preview:
        values["most"] = min(_PREVIEWED, given.most or _PREVIEWED)
    return MakerOptions(**values)


def _told(found: MadeQuestions) -> list[str]:
    questions = found.question_set.questions
    lines = [f"{len(questions):,} questions of {found.passages_asked:,} passages: {found.question_set.name}"]
    lines += [f"  {question.text}" for question in questions[:_SHOWN]]
    if len(questions) > _SHOWN:
        lines.append(f"  and {len(questions) - _SHOWN:,} more")
    if found.left:
        lines.append(f"Passages not asked about yet: {found.left:,}")
    if found.unanswered:
        lines.append(f"Passages of which no question came: {len(found.unanswered):,}")
        ids = found.question_set.passages.ids
        lines += [f"  {ids[one.row]}: {one.code}: {one.said}" for one in found.unanswered[:_SHOWN]]
    return [*lines, "They are made, not asked: good to train with, and no test of a search"]


def _follow(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,} passages", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m data make-questions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("set", help="a file, or a name of the catalog or the workspace")
    parser.add_argument("--name", default="", help="name of the new set")
    parser.add_argument("--preview", action="store_true", help=f"only show questions of {_PREVIEWED} passages")
    parser.add_argument("--no-calls", action="store_true", help="model: only what was written before")
    parser.add_argument("--prompt", type=Path, help="model: a file with what it is told, {n} for how many")
    for known in fields(MakerOptions):
        if known.name != "prompt":
            _add_option(parser, known.name, known.default, known.metadata["help"])
    return parser


def _add_option(parser: argparse.ArgumentParser, name: str, default: Any, text: str) -> None:
    kind = type(default)
    choices = [choice.value for choice in kind] if issubclass(kind, StrEnum) else None
    parser.add_argument(
        f"--{name.replace('_', '-')}",
        type=str if choices else kind,
        choices=choices,
        default=os.environ.get(MODEL, "") if name == "model" else default,
        required=name == "by",
        help=text if name in ("by", "model") else f"{text} (default: {default})",
    )


if __name__ == "__main__":
    sys.exit(main())
