"""The public way in: the bytes of a file become a question set, and a list of what was wrong with them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import InstanceOf, TypeAdapter

from mrc_workbench.data.apart import File, Report, Work, carried_out, report_files_read
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import Format, Proposal, recognise, told_of
from mrc_workbench.data.formats.rows import FileReading, understood
from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.jobs.processes import without_collections
from mrc_workbench.data.layouts.builder import QuestionSetBuilder
from mrc_workbench.data.layouts.members import (
    files_of,
    files_of_paths,
    propose_or_encodings,
    unpacked,
    with_distinct_names,
)
from mrc_workbench.data.layouts.reading import Layout, SelectedSources, select_rows, select_sources
from mrc_workbench.data.layouts.roles import Chosen, candidate_columns, holds_texts, missing_passages
from mrc_workbench.data.layouts.sighting import Sighted, has_sheets, row_source
from mrc_workbench.data.layouts.sources import (
    ColumnReport,
    Role,
    Shape,
    Source,
    column_report,
    joined_report,
    with_references,
)
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.records import QuestionSet, open_question_set, write_question_set


@dataclass(frozen=True)
class CollectionFile:
    """One file of a collection, what it holds, and how many of its rows could not be used."""

    name: str
    role: Role
    format: Format
    encoding: str
    row_count: int
    left_out: int
    first_rows: tuple[dict[str, str], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Reading(FileReading):
    """A question set and what was understood on the way.

    `row_count` counts rows (questions in SQuAD files) with those left out, `paragraph_count` contexts before equal ones
    are merged. `columns` is None for SQuAD files and collections. A collection has a `layout`, and `gaps` say what its
    files lack of each other. `published_split` is whether files name the part of each question.
    """

    question_set: InstanceOf[QuestionSet]
    columns: Columns | None
    paragraph_count: int
    layout: Layout | None = None
    files: tuple[CollectionFile, ...] = ()
    judgement_count: int = 0
    gaps: tuple[Problem, ...] = ()
    published_split: bool = False


def read_file(path: Path, columns: Columns | None = None) -> Reading:
    """Read a file from disk, or the files of a folder; see `read_files`. Raises `DataError`, as where none is there."""
    return read_files(files_of(path), columns)


def read(content: bytes | Content, name: str, columns: Columns | None = None) -> Reading:
    """Read the content of a file, whose format is told by content; `name` only names the set. See `read_files`."""
    return read_files([File(Content.of(content), name)], columns)


def read_files(files: Sequence[File], columns: Columns | None = None) -> Reading:
    """Read a file of questions and passages, or several that are a collection together; archives are unpacked.

    Columns of a single file are guessed unless given. Rows that cannot be used are listed in `problems`. Files without
    questions are read as passages only. Raises `DataError` if a file cannot be read, the column of the passages is
    missing, or nothing is left.
    """
    return _read(files, {} if columns is None else asdict(columns))


def read_file_apart(path: Path, chosen: Chosen | None = None) -> Reading:
    """Read a file from disk, or a folder, in a process of its own; see `read_files_apart`."""
    return read_paths_apart([path], chosen)


def read_paths_apart(
    paths: Sequence[Path], chosen: Chosen | None = None, encoding: str = "", report: Report | None = None
) -> Reading:
    """Read files and folders in a process of its own, see `read_files_apart`; an empty `encoding` is detected."""
    return read_files_apart([file.with_encoding(encoding) for file in files_of_paths(paths)], chosen, report)


def read_files_apart(files: Sequence[File], chosen: Chosen | None = None, report: Report | None = None) -> Reading:
    """Read files as `read_files` does, in a process of its own.

    `chosen` names columns of a single file by role. `report` gets the number of files read and of all files. Raises
    `UnusableFileError`, also if reading takes more than its `Limits`, and `OSError` if the disk is full.
    """
    return carried_out(WORK, files, chosen or {}, report)


def _selected(files: Sequence[File], chosen: Chosen, *, is_alone: bool = False) -> SelectedSources:
    inner = with_distinct_names(unpacked(files))
    if not inner:
        raise DataError.of(ProblemCode.NOT_A_WORKBOOK)
    if len(inner) == 1 and is_alone:
        return select_rows(inner[0], Sighted([]), "", chosen)
    if len(inner) == 1 and chosen:
        recognised = recognise(inner[0].content, name=inner[0].name)
        if not has_sheets(recognised):
            return select_rows(inner[0], Sighted([], recognised), "", chosen)
    is_archive = len(files) == 1 and (len(inner) > 1 or inner[0].content is not files[0].content)
    return select_sources(inner, files[0].name if is_archive else "", chosen)


def propose_columns(content: bytes | Content) -> Proposal[Columns]:
    """Return what can be chosen of a file, also if `read` misses a column. Raises `DataError` if it cannot be read."""
    return _proposal(row_source(File(Content.of(content), ""), Sighted([]), {}))


def _proposal(source: Source) -> Proposal[Columns]:
    columns = source.columns
    candidates = candidate_columns(columns, source.names, source.sample)
    if columns.question is None and not any(holds_texts(one.context or "", source.sample) for one in candidates):
        candidates = ()  # such as a table of judgements: ids and grades are no passages
    return Proposal(columns, source.names, source.first_rows, candidates)


def _proposed(files: Sequence[File]) -> Proposal[Columns]:
    """What can be chosen of a file that is read by itself, or of the one for which several files are refused."""
    try:
        found = _selected(files, {}, is_alone=True)
        return _proposal(found.sources[0]) if found.layout is None else Proposal(Columns())
    except DataError as error:
        for file in with_distinct_names(unpacked(files)):
            if shown(file.name, 80) == error.problem.details.get("file"):
                return propose_columns(file.content)
        raise


@without_collections()
def _read(files: Sequence[File], chosen: Chosen) -> Reading:
    found = _selected(files, chosen)
    rows = found.sources[0] if found.layout is None else None  # the one file that is read by itself
    if rows is not None and not rows.columns.has_passages:
        raise missing_passages(rows.columns, rows.names, rows.sample)
    builder = QuestionSetBuilder(names_files=len(found.sources) > 1)
    read, report, unread = _read_sources(builder, found, chosen)
    question_set = builder.question_set(found.name)
    names, first_rows = (rows.names, rows.first_rows) if rows is not None else ((), ())
    return Reading(
        question_set=question_set,
        columns=None if rows is None or rows.shape is Shape.NESTED else rows.columns,
        paragraph_count=builder.passage_rows if rows is not None else builder.passage_rows or len(builder.passages),
        layout=found.layout,
        files=() if rows is not None else tuple(read),
        judgement_count=builder.judgement_count if rows is None or rows.columns.label else 0,
        gaps=(*builder.gaps(), *unread, *found.aside),
        published_split=any(question.part for question in question_set.questions),
        **report._asdict(),
        **understood(found.sources[0].recognised, builder.rejection, names, first_rows, builder.row_count),
    )


def _read_sources(
    builder: QuestionSetBuilder, found: SelectedSources, chosen: Chosen
) -> tuple[list[CollectionFile], ColumnReport, list[Problem]]:
    """Read all sources; return what became of each and of its columns, and why documents could not be read."""
    files: list[CollectionFile] = []
    reports: dict[str, ColumnReport] = {}
    given = [*found.sources, *(found.aside if found.layout else ())]  # an error names its file beside others
    unread: list[Problem] = []  # of documents that are broken, have a password or contain no text
    for number, source in enumerate(found.sources, start=1):
        whole = with_references(source, builder.names, chosen)
        try:
            with told_of(source.name, given):
                rows, left_out = builder.add(whole)
        except DataError as error:
            if source.shape is not Shape.DOCUMENT or len(given) == 1:
                raise
            unread.append(error.problem)
            continue
        finally:
            report_files_read(number, len(found.sources))
        reports[source.name] = column_report(whole)
        kind = whole.role, source.recognised.format, source.recognised.encoding
        files.append(CollectionFile(source.name, *kind, rows, left_out, source.first_rows))
    if unread and not len(builder.passages):
        raise DataError(unread[0], [*unread, *found.aside])
    return files, joined_report(reports), unread


def _leave(folder: Path, reading: Reading) -> dict[str, Any]:
    write_question_set(folder, reading.question_set)
    content = _READING.dump_python(reading, exclude={"question_set"}, mode="json")
    return {"name": reading.question_set.name, "reading": content}


def _open_left(folder: Path, found: dict[str, Any]) -> Reading:
    question_set = open_question_set(folder, found["name"])
    return _READING.validate_python(found["reading"] | {"question_set": question_set})


_READING = TypeAdapter(Reading)
WORK = Work("questions", Columns, _read, partial(propose_or_encodings, _proposed, Columns()), _leave, _open_left)
