"""`python -m data inspect FILE`: what is understood of a file, what is wrong with it, and what it is like.

`keep` puts a file among the sets of the workspace, such as one too large to be uploaded; `write` writes a set as BEIR
or MTEB do; `inspect-pairs` and `keep-pairs` are for sentence pairs; `make-questions` makes questions of a set's
passages.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from data.commands import (
    SHOWN_PROBLEMS,
    AsJson,
    column_words,
    columns_of,
    commands_of,
    problem_lines,
    reading_as_json,
    run,
)
from data.formats.columns import Columns
from data.layouts.reading import Layout
from data.layouts.writing import written
from data.pairs.command import inspect_pairs, keep_pairs
from data.problems import DataError
from data.questions.audit import PARTS, Audit, Unit, audit
from data.questions.read import Reading, read_paths_apart
from data.split import Split, split
from data.store import find, keep, note_used
from data.terminal import tell
from data.workspace import is_of_the_disk, replacing

_NO_QUESTION = "No questions: these passages can be searched, and `make-questions` makes some to train with"

commands = commands_of("data", "Look at question sets and sets of sentence pairs.")
_FILE_HELP = "SQuAD JSON, JSON, JSONL, CSV, TSV, Excel, Parquet or text; of a collection its folder or a zip archive"
File = Annotated[Path, Parameter(help=_FILE_HELP)]
Files = Annotated[Path, Parameter(help="more files of the same collection")]
Data = Annotated[str, Parameter(help="a path, a set of the catalog or of the workspace")]
Out = Annotated[Path, Parameter(help="the zip archive to be written")]
NamedColumns = Annotated[dict[str, str] | None, columns_of(Columns)]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 where the data cannot be used, or not be kept, 2 where the words make no sense."""
    return run(commands, words, _refused)


def _refused(error: Exception) -> int:
    if isinstance(error, DataError):
        rows = [problem.message for problem in error.others if problem.leaves_out_row][:SHOWN_PROBLEMS]
        for line in (str(error), *(f"  {row}" for row in rows)):
            tell(line, error=True)
    elif isinstance(error, OSError) and is_of_the_disk(error):
        tell(f"The disk cannot be written to ({error.strerror}). Nothing that was kept is lost.", error=True)
    else:
        tell(f"error: {error}", error=True)
    return 1


@commands.command
def inspect(file: File, /, *files: Files, columns: NamedColumns = None, as_json: AsJson = False) -> int:
    """Tell what a file holds, or several of a collection."""
    reading = read_paths_apart((file, *files), columns or {})
    figures, parts = audit(reading.question_set), split(reading.question_set)
    if as_json:
        tell(json.dumps(_as_json(reading, figures, parts), ensure_ascii=False, indent=1))
    else:
        counts = ", ".join(f"{part} {len(parts.rows[part]):,} ({parts.group_counts[part]:,} groups)" for part in PARTS)
        told = f"Split of the answerable questions by article, seed {parts.options.seed}: {counts}"
        tell("\n".join([*_understood(reading), *_gaps(reading), *problem_lines(reading), *_figures(figures), told]))
    return 0


@commands.command(name="keep")
def keep_file(file: File, /, *files: Files, columns: NamedColumns = None) -> int:
    """Put a file, or several of a collection, among the sets of the workspace."""
    reading = read_paths_apart((file, *files), columns or {})
    kept = keep(reading.question_set, source=", ".join(path.name for path in (file, *files)))
    note_used(kept.key)  # as on the Data page
    tell("\n".join([*_understood(reading), *_gaps(reading), *problem_lines(reading), f"Kept as {kept.key}"]))
    return 0


@commands.command
def write(data: Data, /, *, out: Out, layout: Literal["beir", "mteb"] = "beir") -> int:
    """Write a set as BEIR or MTEB have it, with a card, for others to use."""
    question_set = find(data)
    content = written(question_set, Layout(layout))
    with replacing(out) as new:
        new.write_bytes(content)
    tell(f"{question_set.name}: {len(question_set.passages):,} passages, {len(question_set.questions):,} questions")
    tell(f"Written to {out}")
    return 0


commands.command(inspect_pairs, name="inspect-pairs")
commands.command(keep_pairs, name="keep-pairs")
about = "make questions of the passages of a set, to train with"
commands.command("questions.__main__:make_questions", name="make-questions", help=about)  # of a room above this one


def _gaps(reading: Reading) -> list[str]:
    return [f"  {gap.message}" for gap in reading.gaps]


def _collection(reading: Reading) -> list[str]:
    files = [
        f"  {file.name}: {file.role}, {file.format}{file.encoding and f', {file.encoding}'}; {file.row_count:,} rows"
        for file in reading.files
    ]
    questions = reading.question_set.questions
    counts = [f"{len(reading.question_set.passages):,} passages", f"{len(questions):,} questions"]
    graded, grouped = sum(bool(one.grades) for one in questions), sum(bool(one.groups) for one in questions)
    more = [f"{graded:,} questions with grades"] * bool(graded) + [f"{grouped:,} with groups"] * bool(grouped)
    told = ", ".join([*counts, f"{reading.judgement_count:,} judgements", *more])
    return [f"{reading.question_set.name}: laid out as {reading.layout}", told, *files]


def _understood(reading: Reading) -> list[str]:
    if reading.layout is not None:
        return [*_collection(reading), *([] if reading.question_set.questions else [_NO_QUESTION])]
    named = column_words(reading.columns) if reading.columns else ""
    return [
        f"{reading.question_set.name}: {reading.format}{reading.encoding and f', {reading.encoding}'}",
        f"{reading.paragraph_count:,} paragraphs -> {len(reading.question_set.passages):,} passages; "
        f"{reading.row_count:,} rows -> {len(reading.question_set.questions):,} questions",
        *([f"Columns: {named}"] if named else []),
        *([] if reading.question_set.questions else [_NO_QUESTION]),
    ]


def _figures(figures: Audit) -> list[str]:
    overlap = "not measurable"
    if not math.isnan(figures.overlap.mean):
        counted = {Unit.WORDS: "words", Unit.PAIRS: "letter pairs"}[figures.overlap.unit]
        overlap = f"{figures.overlap.mean:.1%} of the {counted}; by chance {figures.overlap.by_chance:.1%}"
    return [
        f"Articles: {figures.article_count:,}; passages without a question: "
        f"{figures.passages_without_question:,}; unanswerable questions: {figures.unanswerable_count:,}",
        f"Characters a passage: {_spread(figures.passage_lengths)}; a question: {_spread(figures.question_lengths)}",
        f"Wording that question and passage share: {overlap}",
        f"Questions asked more than once: {len(figures.duplicate_questions):,}; "
        f"answers not found in their passage: {len(figures.answers_not_found):,}",
        *([f"The answers are labels, not parts of passages: {', '.join(figures.labels)}"] if figures.labels else []),
        *([f"Kinds: {_counts(figures.kinds)}"] if figures.kinds else []),
        *([f"Made of passages, asked by nobody: {_counts(figures.made)}"] if figures.made else []),
    ]


def _spread(lengths: np.ndarray) -> str:
    return f"median {np.median(lengths):,.0f}, {lengths.min():,} to {lengths.max():,}" if len(lengths) else "none"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _as_json(reading: Reading, figures: Audit, parts: Split) -> dict[str, Any]:
    return {
        "name": reading.question_set.name,
        "fingerprint": reading.question_set.fingerprint,
        "paragraph_count": reading.paragraph_count,
        **reading_as_json(reading, reading.columns),
        "layout": reading.layout,
        "judgement_count": reading.judgement_count,
        "files": [
            {"name": one.name, "role": one.role, "format": one.format, "rows": one.row_count, "left_out": one.left_out}
            for one in reading.files
        ],
        "gaps": [{"code": gap.code, "message": gap.message, **gap.details} for gap in reading.gaps],
        "audit": _plain(figures),
        "split": {
            "seed": parts.options.seed,
            "questions": {part: len(rows) for part, rows in parts.rows.items()},
            "groups": parts.group_counts,
        },
    }


def _plain(value: object) -> object:
    """A dataclass by its fields, arrays as a few figures, and null for what could not be measured."""
    if isinstance(value, np.ndarray):
        numbers = value[~np.isnan(value)]
        names = ("min", "median", "mean", "max") if len(numbers) else ()
        return {name: float(getattr(np, name)(numbers)) for name in names} or None
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return None if isinstance(value, float) and math.isnan(value) else value


if __name__ == "__main__":
    sys.exit(main())
