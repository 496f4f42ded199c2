"""The public way in: the bytes of a file become a question set, and a list of what was wrong with them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import InstanceOf, TypeAdapter

from data.apart import File, Work, carried_out
from data.files.progress import Report
from data.formats.columns import Columns
from data.formats.encodings.detection import ENCODING_PROBLEMS
from data.formats.opening import Proposal, collector_paused, set_name
from data.formats.rows import FileReading, understood
from data.formats.tables import shown
from data.formats.text import Content, encodings_to_choose
from data.layouts.builder import DatasetBuilder
from data.layouts.column_use import column_report
from data.layouts.columns.roles import candidate_columns, holds_texts, missing_passages
from data.layouts.members import files_of, files_of_paths, unpacked, with_distinct_names
from data.layouts.reading import Alone, Collected, CollectionFile, Layout, collected
from data.layouts.sighting import Sighted, row_source
from data.layouts.sources import Shape
from data.problems import DataError, Problem, ProblemCode
from data.records import QuestionSet, open_question_set, write_question_set


@dataclass(frozen=True, kw_only=True)
class Reading(FileReading):
    """A question set and what was understood on the way.

    `row_count` counts rows (questions in SQuAD files) with those left out, `paragraph_count` the contexts before equal
    ones were made one. `columns` is None for SQuAD files, whose layout fixes the names; they have no `first_rows`.

    Of a collection, several files as a rule, `layout` tells whose it is; `columns` is None, and `gaps` say what the
    files lack of each other: passages that are judged and not there, questions that nobody judged.

    Every input column or key is in exactly one of `used_columns`, `metadata_columns` (stored with the passage or
    question but not searched) and `unused_columns`. `published_split` is true where the files name the part of each
    question.
    """

    question_set: InstanceOf[QuestionSet]
    columns: Columns | None
    paragraph_count: int
    layout: Layout | None = None
    files: tuple[CollectionFile, ...] = ()
    judgement_count: int = 0
    gaps: tuple[Problem, ...] = ()
    used_columns: tuple[str, ...] = ()
    metadata_columns: tuple[str, ...] = ()
    unused_columns: tuple[str, ...] = ()
    published_split: bool = False


def read_file(path: Path, columns: Columns | None = None) -> Reading:
    """Read a file from disk, or the files of a folder; see `read_files`. Raises `DataError`, as where none is there."""
    return read_files(files_of(path), columns)


def read(content: bytes | Content, name: str, columns: Columns | None = None) -> Reading:
    """Read the content of a file, whose format is told by content; `name` only names the set. See `read_files`."""
    return read_files([File(Content.of(content), name)], columns)


def read_files(files: Sequence[File], columns: Columns | None = None) -> Reading:
    """Read a file of questions and passages, or several that are a collection together; archives are unpacked.

    Columns of a single file are guessed unless given. Rows that cannot be used are left out and listed in `problems`.
    A file without a question, or a table without a column of them, is read as passages only. Raises `DataError` where a
    file cannot be read, the column of the passages is missing, or nothing is left.
    """
    return _read_chosen(files, {} if columns is None else asdict(columns))


def read_file_apart(path: Path, chosen: Mapping[str, str | None] | None = None) -> Reading:
    """Read a file from disk, or a folder, in a process of its own; see `read_files_apart`."""
    return read_paths_apart([path], chosen)


def read_paths_apart(
    paths: Sequence[Path],
    chosen: Mapping[str, str | None] | None = None,
    encoding: str = "",
    report: Report | None = None,
) -> Reading:
    """Read files and folders from disk together, in a process of its own; see `read_files_apart`.

    `encoding` is that of their text; if empty, it is detected.
    """
    return read_files_apart([file.with_encoding(encoding) for file in files_of_paths(paths)], chosen, report)


def read_files_apart(
    files: Sequence[File],
    chosen: Mapping[str, str | None] | None = None,
    report: Report | None = None,
) -> Reading:
    """Read files as `read_files` does, in a process of its own.

    `chosen` names columns of a single one by role; those of the other roles are guessed. `report` is called with the
    number of files read and of all files. Raises `UnusableFileError`, also where reading takes more than its `Limits`
    or the process ends, and `OSError` where the disk is full.
    """
    return carried_out(WORK, files, chosen or {}, report)


def _found(files: Sequence[File], chosen: Mapping[str, str | None], *, is_alone: bool = False) -> Collected | Alone:
    """Return the collection that files make, or the single file whose rows hold all; `chosen` names its columns."""
    inner = with_distinct_names(unpacked(files))
    if not inner:
        raise DataError.of(ProblemCode.NOT_A_WORKBOOK)
    if (is_alone or chosen) and len(inner) == 1:
        return Alone(inner[0], Sighted([]))
    is_archive = len(files) == 1 and (len(inner) > 1 or inner[0].content is not files[0].content)
    found = collected(inner, files[0].name if is_archive else "", chosen)
    if is_archive and isinstance(found, Alone):
        return replace(found, file=found.file._replace(name=files[0].name))
    return found


def _read_rows(alone: Alone, chosen: Mapping[str, str | None]) -> Reading:
    """Read the one file whose rows hold questions and passages."""
    source = row_source(alone.file, alone.seen, chosen)
    columns = source.fields
    if not isinstance(columns, Columns):
        raise TypeError("a source of rows has `Columns`")
    if columns.context is None and columns.positives is None and columns.candidates is None:
        raise missing_passages(columns, source.names, source.sample)
    with collector_paused():
        builder = DatasetBuilder(names_files=False)
        builder.add(source)
        question_set = builder.question_set(set_name(alone.file.name, "questions"))
    return Reading(
        question_set=question_set,
        columns=None if source.shape is Shape.NESTED else columns,
        paragraph_count=builder.passage_rows,
        gaps=(*builder.gaps(), *alone.aside),
        judgement_count=builder.judgement_count if columns.label else 0,
        published_split=any(question.part for question in question_set.questions),
        **column_report(source)._asdict(),
        **understood(source.recognised, builder.rejection, source.names, source.first_rows, builder.row_count),
    )


def propose_columns(content: bytes | Content) -> Proposal[Columns]:
    """Return what can be chosen, also where `read` misses a column; no columns for SQuAD files.

    Raises `DataError` where the file cannot be read.
    """
    source = row_source(File(Content.of(content), ""), Sighted([]), {})
    columns = source.fields if isinstance(source.fields, Columns) else Columns()
    candidates = candidate_columns(columns, source.names, source.sample)
    if columns.question is None and not any(holds_texts(one.context or "", source.sample) for one in candidates):
        candidates = ()  # such as a table of judgements: ids and grades are no passages
    return Proposal(columns, source.names, source.first_rows, candidates)


def _proposed(files: Sequence[File]) -> Proposal[Columns]:
    """What can be chosen of a file that is read by itself, or of the one for which several files are refused."""
    try:
        found = _found(files, {}, is_alone=True)
        return propose_columns(found.file.content) if isinstance(found, Alone) else Proposal(Columns())
    except DataError as error:
        inner = with_distinct_names(unpacked(files))
        if error.problem.code in ENCODING_PROBLEMS:
            return Proposal(Columns(), encodings=encodings_to_choose(file.content for file in inner))
        for file in inner:
            if shown(file.name, 80) == error.problem.details.get("file"):
                return propose_columns(file.content)
        raise


def _read(files: Sequence[File], chosen: Mapping[str, str | None]) -> Reading:
    return _read_chosen(files, chosen) if chosen else read_files(files)


def _read_chosen(files: Sequence[File], chosen: Mapping[str, str | None]) -> Reading:
    found = _found(files, chosen)
    if isinstance(found, Alone):
        return _read_rows(found, chosen)
    return Reading(
        question_set=found.question_set,
        columns=None,
        paragraph_count=found.passage_rows,
        layout=found.layout,
        files=found.files,
        judgement_count=found.judgement_count,
        gaps=found.gaps,
        **found.columns._asdict(),
        published_split=any(question.part for question in found.question_set.questions),
        **understood(found.recognised, found.rejection, (), (), found.row_count),
    )


def _leave(folder: Path, reading: Reading) -> dict[str, Any]:
    write_question_set(folder, reading.question_set)
    told = _READING.dump_python(reading, exclude={"question_set"}, mode="json")
    return {"name": reading.question_set.name, "reading": told}


def _open_left(folder: Path, found: dict[str, Any]) -> Reading:
    question_set = open_question_set(folder, found["name"])
    return _READING.validate_python(found["reading"] | {"question_set": question_set})


_READING = TypeAdapter(Reading)
WORK = Work("questions", Columns, _read, _proposed, _leave, _open_left)
