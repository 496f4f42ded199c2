"""`mrc data inspect FILE`: what is understood of a file, what is wrong with it, and what it is like.

`keep` puts a file among the sets of the workspace, such as one too large to be uploaded; `write` writes a set as BEIR
or MTEB do; `inspect-pairs` and `keep-pairs` are for files of sentence pairs; `make-questions` makes questions of a
set's passages.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import CoercionError, Parameter, Token

from mrc_workbench.data.apart import File as SourceFile
from mrc_workbench.data.commands import AsJson, columns_of, commands_of, one_of, run
from mrc_workbench.data.formats.columns import Columns, PairColumns
from mrc_workbench.data.formats.encodings.detection import ENCODINGS
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.layouts.writing import written
from mrc_workbench.data.pairs import report as pair_report
from mrc_workbench.data.pairs.reading import PairOptions, PairReading, read_pair_files_apart, read_pairs_apart
from mrc_workbench.data.pairs.records import PairKind, audit_pairs, split_pairs
from mrc_workbench.data.pairs.store import PAIR_CATALOG, obtain_files
from mrc_workbench.data.pairs.store import keep as keep_set_of_pairs
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions import report
from mrc_workbench.data.questions.audit import audit
from mrc_workbench.data.questions.content import content_notes
from mrc_workbench.data.questions.read import Reading, read_files_apart, read_paths_apart
from mrc_workbench.data.split import PARTS, Part, split
from mrc_workbench.data.store import CATALOG, find, keep, note_used, obtain
from mrc_workbench.data.terminal import report_progress, tell
from mrc_workbench.data.workspace import is_of_the_disk, replacing

commands = commands_of("data", "Look at question sets and sets of sentence pairs.")


def main(words: Sequence[str]) -> int:
    """Run the command; return 0, 1 where the data cannot be used, or not be kept, 2 where the words make no sense."""
    return run(commands, words)


def _refused(error: Exception) -> int:
    if isinstance(error, DataError):
        for line in report.refusal_lines(error):
            tell(line, error=True)
    elif isinstance(error, OSError) and is_of_the_disk(error):
        tell(f"The disk cannot be written to ({error.strerror}). Nothing that was kept is lost.", error=True)
    else:
        tell(f"error: {error}", error=True)
    return 1


commands.refused = _refused

_FILE_HELP = (
    "SQuAD JSON, JSON, JSONL, CSV, TSV, Excel, Parquet, Arrow or text; documents (Markdown, web pages, PDF, Word, "
    "PowerPoint, Hangul); the folder or a zip archive of a collection, of documents or of `save_to_disk`; "
    f"or a dataset of the catalog: {', '.join(CATALOG)}"
)
File = Annotated[Path, Parameter(help=_FILE_HELP)]
Files = Annotated[Path, Parameter(help="more files of the same collection")]
NamedColumns = Annotated[dict[str, str] | None, columns_of(Columns)]
NamedEncoding = Annotated[str, Parameter(help=f"encoding of the text, if it is not detected: {', '.join(ENCODINGS)}")]
Data = Annotated[str, Parameter(help="a path, a set of the catalog or of the workspace")]
Out = Annotated[Path, Parameter(help="the zip archive to be written")]
Records = Annotated[bool, Parameter(help="with --json: print every passage and question, too")]


@commands.command
def inspect(
    file: File,
    /,
    *files: Files,
    columns: NamedColumns = None,
    encoding: NamedEncoding = "",
    as_json: AsJson = False,
    records: Records = False,
) -> int:
    """Tell what a file holds, or several of a collection."""
    if records and not as_json:
        raise CoercionError(msg="--records needs --json")
    reading = _read_questions((file, *files), columns, encoding)
    figures, parts = audit(reading.question_set), split(reading.question_set)
    notes = content_notes(reading.question_set, parts)
    if as_json:
        printed = report.as_json(reading, figures, parts, notes)
        printed["dataset"] = report.dataset_as_json(reading, figures, parts, [path.name for path in (file, *files)])
        if records:
            printed["records"] = report.records_as_json(reading.question_set)
        tell(json.dumps(printed, ensure_ascii=False, indent=1))
    else:
        lines = [*report.reading_lines(reading), *report.audit_lines(figures), *report.split_lines(parts)]
        tell("\n".join([*lines, *(f"  {note.message}" for note in notes)]))
    return 0


@commands.command(name="keep")
def keep_file(file: File, /, *files: Files, columns: NamedColumns = None, encoding: NamedEncoding = "") -> int:
    """Put a file, or several of a collection, among the sets of the workspace."""
    reading = _read_questions((file, *files), columns, encoding)
    kept = keep(reading.question_set, source=", ".join(path.name for path in (file, *files)))
    note_used(kept.key)  # as on the Data page
    tell("\n".join([*report.reading_lines(reading), f"Kept as {kept.key}"]))
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
        return read_paths_apart(files, columns or {}, encoding, _report_reading)
    reading = read_files_apart([SourceFile(Content(obtain(entry)), entry.path.name)], columns or {})
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def _report_reading(read: int, total: int) -> None:
    report_progress("Reading files", read / total, is_total=False)


def _catalog_name(files: tuple[Path, ...]) -> str:
    """Return what may be a name of the catalog; empty where several files, or one that exists, are given."""
    return str(files[0]) if len(files) == 1 and not files[0].exists() else ""


_NO_PART = "none"


def _parts_named(_: Any, tokens: Sequence[Token]) -> tuple[Part | None, ...]:
    for token in tokens:
        if token.value not in (*PARTS, _NO_PART):
            raise CoercionError(msg=f"{token.value!r} is none of {', '.join(PARTS)} and {_NO_PART}")
    return tuple(None if token.value == _NO_PART else Part(token.value) for token in tokens)


_PAIR_FILE_HELP = (
    "TSV, CSV, JSON, JSONL, Parquet, Excel or text, a folder or zip archive of them; "
    f"or a set of the catalog: {', '.join(PAIR_CATALOG)}"
)
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
        tell(json.dumps(pair_report.as_json(reading, figures, rows), ensure_ascii=False, indent=1))
    else:
        tell("\n".join([*pair_report.reading_lines(reading), *pair_report.audit_lines(figures)]))
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
    tell("\n".join([*pair_report.reading_lines(reading), f"Kept as {kept.key}"]))
    return 0


about = "make questions of the passages of a set, to train with"
commands.command(
    "mrc_workbench.data.generate.cli:make_questions", name="make-questions", help=about
)  # read when it is called


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
