"""`mrc data generate DATA`: generate questions for the passages of a dataset, and store them as a dataset."""

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import stop_message, takes
from mrc_workbench.data.generate.make import MadeQuestions, MakerOptions, make_questions
from mrc_workbench.data.records import Maker
from mrc_workbench.data.store import find, keep
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.models.llm.endpoint import MODEL, Endpoint

_PREVIEWED = 5  # passages
_SHOWN = 5  # questions, and passages without one


@takes(MakerOptions, without=("prompt",), required=("by",), suited=MakerOptions(model=os.environ.get(MODEL, "")))
def generate(
    data: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")],
    /,
    *,
    name: Annotated[str, Parameter(help="name of the new dataset")] = "",
    preview: Annotated[bool, Parameter(negative="", help=f"only show questions of {_PREVIEWED} passages")] = False,
    no_calls: Annotated[bool, Parameter(negative="", help="model: use stored answers only")] = False,
    prompt: Annotated[
        Path | None, Parameter(help="model: file with the prompt; {n} is the number of questions")
    ] = None,
    **chosen: Any,
) -> int:
    """Generate questions for the passages of a dataset.

    The title of an article asks for its passages, a sentence for the rest of its passage (inverse cloze task), or a
    language model at a chat endpoint writes questions that a passage answers. Environment variables name the endpoint:
    OPENAI_BASE_URL, OPENAI_MODEL (or --model) and, if it needs one, OPENAI_API_KEY.
    """
    chosen.setdefault("model", os.environ.get(MODEL, ""))
    if prompt:
        chosen["prompt"] = prompt.read_text(encoding="utf-8")
    if preview:
        chosen["most"] = min(_PREVIEWED, chosen.get("most", 0) or _PREVIEWED)
    options, question_set = MakerOptions(**chosen), find(data)
    endpoint = Endpoint.of() if options.by is Maker.MODEL and not no_calls else None
    with stop_message("Stopped. Answers of the language model are kept: run the same command again to continue."):
        found = make_questions(question_set, options, endpoint, name=name, on_progress=_report)
    end_progress_line()
    tell("\n".join(_lines(found)))
    if not preview:
        kept = keep(found.question_set, source=question_set.name)
        tell(f"stored as {kept.key}: `mrc train bi-encoder --data {kept.key}` trains with them")
    return 0


def _lines(found: MadeQuestions) -> list[str]:
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


def _report(done: int, total: int) -> None:
    report_progress(f"{done:,} of {total:,} passages", done / max(1, total))
