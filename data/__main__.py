"""`python -m data inspect FILE`: what is understood of a file, what is wrong with it, and what it is like.

`keep` puts a file among the sets of the workspace, such as one too large to be uploaded; `write` writes a set as BEIR
or MTEB do; `inspect-pairs` and `keep-pairs` are for files of sentence pairs; `make-questions` makes questions of a
set's passages.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import CoercionError, Parameter, Token

from data.apart import File as SourceFile
from data.commands import AsJson, columns_of, commands_of, one_of, run
from data.formats.columns import Columns, PairColumns
from data.formats.encodings import ENCODINGS
from data.formats.rows import FileReading
from data.formats.text import Content
from data.layouts.reading import Layout
from data.layouts.writing import written
from data.pairs.reading import PairOptions, PairReading, read_pair_files_apart, read_pairs_apart
from data.pairs.records import PairAudit, PairKind, audit_pairs, split_pairs
from data.pairs.store import PAIR_CATALOG, obtain_files
from data.pairs.store import keep as keep_set_of_pairs
from data.problems import DataError, Problem
from data.questions.audit import Audit, Unit, audit
from data.questions.content import content_notes
from data.questions.read import Reading, read_files_apart, read_paths_apart
from data.split import PARTS, Part, Split, SplitMethod, SplitOptions, few_questions, split
from data.store import CATALOG, find, keep, note_used, obtain
from data.terminal import tell
from data.workspace import is_of_the_disk, replacing

_SHOWN_PROBLEMS = 10

commands = commands_of("data", "Look at question sets and sets of sentence pairs.")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 where the data cannot be used, or not be kept, 2 where the words make no sense."""
    return run(commands, words, _refused)


def _refused(error: Exception) -> int:
    if isinstance(error, DataError):
        rows = [problem.message for problem in error.others if problem.leaves_out_row][:_SHOWN_PROBLEMS]
        for line in (str(error), *(f"  {row}" for row in rows)):
            tell(line, error=True)
    elif isinstance(error, OSError) and is_of_the_disk(error):
        tell(f"The disk cannot be written to ({error.strerror}). Nothing that was kept is lost.", error=True)
    else:
        tell(f"error: {error}", error=True)
    return 1


_NO_QUESTION = "No questions: these passages can be searched, and `make-questions` makes some to train with"
_FILE_HELP = (
    "SQuAD JSON, JSON, JSONL, CSV, TSV, Excel, Parquet or text; the folder or a zip archive of a collection; "
    f"or a dataset of the catalog: {', '.join(CATALOG)}"
)
File = Annotated[Path, Parameter(help=_FILE_HELP)]
Files = Annotated[Path, Parameter(help="more files of the same collection")]
NamedColumns = Annotated[dict[str, str] | None, columns_of(Columns)]
NamedEncoding = Annotated[str, Parameter(help=f"encoding of the text, if it is not detected: {', '.join(ENCODINGS)}")]
Data = Annotated[str, Parameter(help="a path, a set of the catalog or of the workspace")]
Out = Annotated[Path, Parameter(help="the zip archive to be written")]


@commands.command
def inspect(
    file: File,
    /,
    *files: Files,
    columns: NamedColumns = None,
    encoding: NamedEncoding = "",
    as_json: AsJson = False,
) -> int:
    """Tell what a file holds, or several of a collection."""
    reading = _read_questions((file, *files), columns, encoding)
    figures, parts = audit(reading.question_set), split(reading.question_set)
    notes = content_notes(reading.question_set, parts)
    if as_json:
        tell(json.dumps(_as_json(reading, figures, parts, notes), ensure_ascii=False, indent=1))
    else:
        about_texts = [f"  {note.message}" for note in notes]
        tell("\n".join([*_understood(reading), *_figures(figures), *_split_lines(parts), *about_texts]))
    return 0


@commands.command(name="keep")
def keep_file(file: File, /, *files: Files, columns: NamedColumns = None, encoding: NamedEncoding = "") -> int:
    """Put a file, or several of a collection, among the sets of the workspace."""
    reading = _read_questions((file, *files), columns, encoding)
    kept = keep(reading.question_set, source=", ".join(path.name for path in (file, *files)))
    note_used(kept.key)  # as on the Data page
    tell("\n".join([*_understood(reading), f"Kept as {kept.key}"]))
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


def _read_questions(files: tuple[Path, ...], columns: NamedColumns, encoding: str) -> Reading:
    """Read files, or the catalog's dataset of this name. Raises `DataError`."""
    entry = CATALOG.get(_catalog_name(files))
    if entry is None:
        return read_paths_apart(files, columns or {}, encoding)
    reading = read_files_apart([SourceFile(Content(obtain(entry)), entry.path.name)], columns or {})
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def _catalog_name(files: tuple[Path, ...]) -> str:
    """Return what may be a name of the catalog; empty where several files, or one that exists, are given."""
    return str(files[0]) if len(files) == 1 and not files[0].exists() else ""


def _understood(reading: Reading) -> list[str]:
    """What the files hold, then what they lack of each other and what is wrong with them."""
    questions, passages = reading.question_set.questions, f"{len(reading.question_set.passages):,} passages"
    encoding = f", {reading.encoding}" if reading.encoding else ""
    if reading.layout is None:
        lines = [
            f"{reading.question_set.name}: {reading.format}{encoding}",
            f"{reading.paragraph_count:,} paragraphs -> {passages}; "
            f"{reading.row_count:,} rows -> {len(questions):,} questions",
        ]
        if reading.columns and (named := _column_words(reading.columns)):
            lines.append(f"Columns: {named}")
    else:
        graded, grouped = sum(bool(one.grades) for one in questions), sum(bool(one.groups) for one in questions)
        counts = [passages, f"{len(questions):,} questions", f"{reading.judgement_count:,} judgements"]
        counts += [f"{graded:,} questions with grades"] * bool(graded) + [f"{grouped:,} with groups"] * bool(grouped)
        lines = [f"{reading.question_set.name}: laid out as {reading.layout}", ", ".join(counts)]
        for file in reading.files:
            form = ", ".join(filter(None, (file.format, file.encoding)))
            lines.append(f"  {file.name}: {file.role}, {form}; {file.row_count:,} rows")
    lines += [] if questions else [_NO_QUESTION]
    return [*lines, *(f"  {gap.message}" for gap in reading.gaps), *_problem_lines(reading)]


def _figures(figures: Audit) -> list[str]:
    overlap = "not measurable"
    if not math.isnan(figures.overlap.mean):
        counted = {Unit.WORDS: "words", Unit.PAIRS: "letter pairs"}[figures.overlap.unit]
        by_chance = "-" if math.isnan(figures.overlap.by_chance) else f"{figures.overlap.by_chance:.1%}"
        overlap = f"{figures.overlap.mean:.1%} of the {counted}; by chance {by_chance}"
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


def _split_lines(parts: Split) -> list[str]:
    """How the answerable questions are split, and which parts have too few of them."""
    of = "groups" if parts.method is SplitMethod.GROUPED else "relevant passages"
    counts = (f"{part} {len(parts.rows[part]):,} ({parts.group_counts[part]:,} {of})" for part in PARTS)
    return [f"Split of the answerable questions, {parts.description}: {', '.join(counts)}", *_split_warnings(parts)]


def _split_warnings(parts: Split) -> list[str]:
    if not len(parts.rows[Part.ALL]):
        return []
    warnings = (few_questions(len(parts.rows[part]), f"{part} questions") for part in PARTS)
    return [warning for warning in warnings if warning]


def _spread(lengths: np.ndarray) -> str:
    return f"median {np.median(lengths):,.0f}, {lengths.min():,} to {lengths.max():,}" if len(lengths) else "none"


def _counts(counts: dict[Any, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _as_json(reading: Reading, figures: Audit, parts: Split, notes: Sequence[Problem]) -> dict[str, Any]:
    return {
        "name": reading.question_set.name,
        "fingerprint": reading.question_set.fingerprint,
        "paragraph_count": reading.paragraph_count,
        **_reading_as_json(reading, reading.columns),
        "layout": reading.layout,
        "judgement_count": reading.judgement_count,
        "files": [
            {"name": one.name, "role": one.role, "format": one.format, "rows": one.row_count, "left_out": one.left_out}
            for one in reading.files
        ],
        "gaps": [{"code": gap.code, "message": gap.message, **gap.details} for gap in reading.gaps],
        "notices": [{"code": note.code, "message": note.message, **note.details} for note in notes],
        "audit": _plain(figures),
        "split": {
            "seed": parts.options.seed,
            **parts.summary(),
            "groups": parts.group_counts,
            "warnings": _split_warnings(parts),
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


_NO_PART = "none"


def _parts_named(_: Any, tokens: Sequence[Token]) -> tuple[Part | None, ...]:
    for token in tokens:
        if token.value not in (*PARTS, _NO_PART):
            raise CoercionError(msg=f"{token.value!r} is none of {', '.join(PARTS)} and {_NO_PART}")
    return tuple(None if token.value == _NO_PART else Part(token.value) for token in tokens)


_PAIR_FILE_HELP = f"TSV, CSV, JSON, JSONL, Parquet, Excel or text; or a set of the catalog: {', '.join(PAIR_CATALOG)}"
PairFile = Annotated[Path, Parameter(help=_PAIR_FILE_HELP)]
PairFiles = Annotated[Path, Parameter(help="more files of the same set")]
Kind = Annotated[PairKind | None, one_of(PairKind, help="what the pairs are judged by; told by the columns otherwise")]
Scale = Annotated[tuple[float, float] | None, Parameter(help="lowest and highest score there can be")]
NamedPairColumns = Annotated[dict[str, str] | None, columns_of(PairColumns)]
_PARTS_HELP = f"what each file was published for: {', '.join(PARTS)}, or {_NO_PART}; told by their names otherwise"
Parts = Annotated[
    tuple[Part | None, ...], Parameter(converter=_parts_named, n_tokens=-1, help=_PARTS_HELP, metavar="PART")
]


@commands.command
def inspect_pairs(
    file: PairFile,
    /,
    *files: PairFiles,
    kind: Kind = None,
    scale: Scale = None,
    columns: NamedPairColumns = None,
    parts: Parts = (),
    encoding: NamedEncoding = "",
    as_json: AsJson = False,
) -> int:
    """Tell what files of sentence pairs hold; several are parts of one set."""
    reading = _read_pairs((file, *files), kind, scale, columns, parts, encoding=encoding)
    rows = split_pairs(reading.pairs)
    figures = audit_pairs(reading.pairs, rows)
    if as_json:
        tell(json.dumps(_pairs_as_json(reading, figures, rows), ensure_ascii=False, indent=1))
    else:
        tell("\n".join([*_understood_pairs(reading), *_pair_figures(figures), *_pair_parts(figures)]))
    return 0


@commands.command
def keep_pairs(
    file: PairFile,
    /,
    *files: PairFiles,
    kind: Kind = None,
    scale: Scale = None,
    columns: NamedPairColumns = None,
    parts: Parts = (),
    encoding: NamedEncoding = "",
) -> int:
    """Keep sentence pairs as a set of the workspace; several files are parts of one set."""
    reading = _read_pairs((file, *files), kind, scale, columns, parts, encoding=encoding)
    kept = keep_set_of_pairs(reading.pairs, source=", ".join(path.name for path in (file, *files)))
    tell("\n".join([*_understood_pairs(reading), f"Kept as {kept.key}"]))
    return 0


about = "make questions of the passages of a set, to train with"
commands.command("questions.__main__:make_questions", name="make-questions", help=about)  # of a room above this one


def _read_pairs(
    files: tuple[Path, ...], kind: Kind, scale: Scale, columns: NamedPairColumns, parts: Parts, *, encoding: str
) -> PairReading:
    if parts and len(parts) != len(files) and _catalog_name(files) not in PAIR_CATALOG:
        raise CoercionError(msg=f"--parts names {len(parts)} parts of {len(files)} files")
    try:
        options = PairOptions(columns or {}, kind, scale, parts)
    except ValueError as error:
        raise CoercionError(msg=str(error)) from error
    entry = PAIR_CATALOG.get(_catalog_name(files))
    if entry is None:
        return read_pair_files_apart(files, options, encoding)
    told = {name: value for name in ("kind", "scale", "parts") if (value := getattr(options, name))}
    reading = read_pairs_apart(obtain_files(entry), replace(entry.options, columns=options.columns, **told))
    return replace(reading, pairs=replace(reading.pairs, name=entry.title))


def _understood_pairs(reading: PairReading) -> list[str]:
    pairs, several = reading.pairs, len(reading.files) > 1
    scale = f", scale {pairs.scale[0]:g} to {pairs.scale[1]:g}" if pairs.kind is PairKind.SCORED else ""
    lines = [f"{pairs.name}: {len(pairs):,} rows, {pairs.kind}{scale}"]
    for file in reading.files:
        form = ", ".join(filter(None, (file.format, file.encoding, file.part and f"published for {file.part}")))
        lines.append(f"  {file.name}: {form}; {file.row_count:,} rows; {_column_words(file.columns)}")
    for file in reading.files:
        lines += _problem_lines(file, f" in {file.name}" if several else "")
    return lines


def _pair_figures(figures: PairAudit) -> list[str]:
    labels = _counts({label.name.lower(): count for label, count in figures.labels.items()})
    bins = zip(figures.score_edges, figures.score_edges[1:], figures.score_counts, strict=False)
    scores = ", ".join(f"{low:g} to {high:g}: {count:,}" for low, high, count in bins)
    return [
        f"Different sentences: {figures.sentence_count:,}; characters: {'; '.join(map(_spread, figures.lengths))}",
        *([f"Labels: {labels}"] if labels else []),
        *([f"Scores: {scores}"] if scores else []),
        f"Rows that repeat an earlier one's sentences: {len(figures.repeated):,}; pairs judged differently: "
        f"{figures.disputed_count:,}; rows with the same sentence twice: {figures.equal_count:,}",
    ]


def _pair_parts(figures: PairAudit) -> list[str]:
    drawn = [part for part in PARTS if part not in figures.published and figures.part_counts[part]]
    told = [f"{', '.join(figures.published)} as published"] if figures.published else []
    told += [f"{', '.join(drawn)} drawn by shared sentences, seed {SplitOptions().seed}"] if drawn else []
    leaks = [
        f"  {len(found.rows):,} {second} rows hold {found.sentences:,} sentences of {first} rows, "
        f"{found.repeated:,} a whole row"
        for (first, second), found in figures.leaks.items()
        if found.sentences
    ]
    shared = leaks or ["  no sentence stands in two parts"]
    return [f"Split: {_counts(figures.part_counts)}; {'; '.join(told)}", *shared]


def _pairs_as_json(reading: PairReading, figures: PairAudit, rows: dict[Part, np.ndarray]) -> dict[str, Any]:
    pairs = reading.pairs
    return {
        "name": pairs.name,
        "fingerprint": pairs.fingerprint,
        "kind": pairs.kind,
        "scale": pairs.scale if pairs.kind is PairKind.SCORED else None,
        "row_count": len(pairs),
        "rows_left_out": reading.left_out,
        "files": [
            {"name": file.name, "part": file.part} | _reading_as_json(file, file.columns) for file in reading.files
        ],
        "audit": {
            "sentence_count": figures.sentence_count,
            "lengths": [_plain(lengths) for lengths in figures.lengths],
            "labels": {label.name.lower(): count for label, count in figures.labels.items()},
            "score_counts": figures.score_counts.tolist(),
            "score_edges": figures.score_edges.tolist(),
            "equal_count": figures.equal_count,
            "repeated_count": len(figures.repeated),
            "disputed_count": figures.disputed_count,
            "leaks": [
                {
                    "from": first,
                    "into": second,
                    "sentences": found.sentences,
                    "rows": len(found.rows),
                    "repeated": found.repeated,
                }
                for (first, second), found in figures.leaks.items()
            ],
        },
        "split": {"published": figures.published, "rows": {part: len(found) for part, found in rows.items()}},
    }


def _column_words(columns: Any) -> str:
    return ", ".join(f"{role} <- {name}" for role, name in asdict(columns).items() if name is not None)


def _problem_lines(reading: FileReading, of: str = "") -> list[str]:
    if not reading.problems:
        return [f"Problems{of}: none"]
    shown = [f"  {problem.message}" for problem in reading.problems[:_SHOWN_PROBLEMS]]
    more = reading.problem_count - len(shown)
    lines = [f"Problems{of}: {reading.problem_count:,}; rows left out: {reading.left_out:,}", *shown]
    return [*lines, f"  and {more:,} more"] if more else lines


def _reading_as_json(reading: FileReading, columns: Any) -> dict[str, Any]:
    """What was understood of a file; `columns` is a dataclass of names by role, or None."""
    return {
        "format": reading.format,
        "encoding": reading.encoding,
        "columns": asdict(columns) if columns else None,
        "available_columns": reading.available_columns,
        "row_count": reading.row_count,
        "rows_left_out": reading.left_out,
        "problem_count": reading.problem_count,
        "problems": [{"code": one.code, "row": one.row, "message": one.message} for one in reading.problems],
    }


if __name__ == "__main__":
    sys.exit(main())
