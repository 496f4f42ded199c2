"""`python -m language tokenizers --data DATA`: which tokenizer cuts a text well."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.terminal import tell, tell_progress
from language.corpus import find_corpus
from language.tokenizers.comparison import Measured, Request, compare
from language.tokenizers.kinds import Split, TokenizerKind
from language.tokenizers.material import Sample

HELP = "train tokenizers on a text, and compare how they cut what they were not trained on"
_COLUMNS = ("tokens_per_word", "unknown_words", "whole_words", "precision", "recall", "f1", "longer_than_512")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Let a command be told what to train, and carry it out."""
    command.set_defaults(run=_compare)
    command.add_argument(
        "--data",
        required=True,
        help="a text: a file (.txt), or text: and the key of a kept one; or a question set: a file, or a name of the "
        "catalog or workspace",
    )
    command.add_argument(
        "--vocabulary",
        type=int,
        nargs="+",
        action="extend",
        metavar="PIECES",
        help="pieces, 1000 to 64000, one number or several: 8000",
    )
    for name, values, default in (("--kind", TokenizerKind, "all of them"), ("--split", Split, Split.WORDS)):
        command.add_argument(
            name, type=values, choices=[*values], nargs="+", action="extend", help=f"one or several: {default}"
        )
    command.add_argument(
        "--against",
        action="append",
        metavar="MODEL",
        help="compare with the tokenizer of a model as well; several times",
    )
    command.add_argument("--lowercase", action="store_true", help="write all in small letters")
    command.add_argument("--held-out", type=float, default=0.1, help="share of documents to measure on: %(default)s")
    command.add_argument("--seed", type=int, default=0, help="which documents these are: %(default)s")
    command.add_argument(
        "--most-characters",
        type=int,
        default=Sample.most_characters,
        help="of a larger text a part is learned from, which bounds the memory: %(default)s",
    )
    command.add_argument("--out", type=Path, help="folder for the tokenizers, each in a folder of its own")
    command.add_argument("--json", action="store_true", help="print JSON: shares from 0 to 1")


def _compare(options: argparse.Namespace) -> int:
    sample = Sample(
        lowercase=options.lowercase,
        held_out=options.held_out,
        seed=options.seed,
        most_characters=options.most_characters,
    )
    asked = {
        "kinds": options.kind,
        "splits": options.split,
        "vocabularies": options.vocabulary,
        "against": options.against,
    }
    given: dict[str, Any] = {name: tuple(dict.fromkeys(values)) for name, values in asked.items() if values}
    request = replace(Request(sample=sample), **given)
    corpus = find_corpus(options.data)
    found = compare(corpus, request, out=options.out, on_progress=tell_progress)
    told = {
        "data": corpus.name,
        "fingerprint": corpus.fingerprint,
        "tokenizers": {one.name: one.as_dict() for one in found},
    }
    tell(json.dumps(told, ensure_ascii=False, indent=2) if options.json else table(found))
    failed = {one.name: one.refusal.failure for one in found if one.refusal}
    for name, error in failed.items():
        tell(f"{name} failed: {error}", error=True)
    return int(bool(failed))


def table(found: list[Measured]) -> str:
    """Return the figures as lines of text, shares in percent."""
    width = max(len(one.name) for one in found)
    lines = [" ".join([" " * width, *(f"{name:>15}" for name in _COLUMNS)])]
    for one in found:
        figures = one.as_dict()
        cells = [_cell(name, figures.get(name)) for name in _COLUMNS] if one.figures else [f"{'failed':>15}"]
        lines.append(" ".join([f"{one.name:<{width}}", *cells]))
    return "\n".join(lines)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return f"{'-':>15}"
    return f"{value:15.3f}" if name == "tokens_per_word" else f"{100 * value:15.2f}"
