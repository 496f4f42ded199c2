"""Read a question set from files, and write it as a zip archive in the layout of BEIR or MTEB with a card."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import InstanceOf, TypeAdapter

from mrc_workbench.data.apart import File, Report, Work, carried_out, report_files_read
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import Format, Proposal, recognise, told_of
from mrc_workbench.data.formats.rows import FileReading, understood
from mrc_workbench.data.formats.tables import OTHER_IDS, shown
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.jobs.processes import without_collections
from mrc_workbench.data.layouts.builder import QuestionSetBuilder
from mrc_workbench.data.layouts.members import data_files, files_of, files_of_paths, propose_or_encodings
from mrc_workbench.data.layouts.reading import Layout, SelectedSources, select_rows, select_sources
from mrc_workbench.data.layouts.references import Role
from mrc_workbench.data.layouts.roles import Chosen, candidate_columns, holds_texts, missing_passages
from mrc_workbench.data.layouts.sighting import Sighted, has_sheets, row_source
from mrc_workbench.data.layouts.sources import ColumnReport, Shape, Source, column_report, join_reports, with_references
from mrc_workbench.data.problems import DataError, Problem
from mrc_workbench.data.records import Question, QuestionSet, open_question_set, write_question_set
from mrc_workbench.data.texts import Script, script_of


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

    Columns of a single file are guessed unless given. Rows that cannot be used are listed in `problems`. Raises
    `DataError` if a file cannot be read, the column of the passages is missing, or nothing is left.
    """
    return _read(files, {} if columns is None else asdict(columns))


def read_paths_apart(
    paths: Sequence[Path], chosen: Chosen | None = None, encoding: str = "", report: Report | None = None
) -> Reading:
    """Read files and folders in a process of its own, see `read_files_apart`; an empty `encoding` is detected."""
    return read_files_apart([file.with_encoding(encoding) for file in files_of_paths(paths)], chosen, report)


def read_files_apart(files: Sequence[File], chosen: Chosen | None = None, report: Report | None = None) -> Reading:
    """Read files as `read_files` does, in a process of its own; `report` gets the number of files read and of all
    files.

    Raises `UnusableFileError`, also if reading takes more than its `Limits`, and `OSError` if the disk is full.
    """
    return carried_out(WORK, files, chosen or {}, report)


def _selected(files: Sequence[File], chosen: Chosen, *, is_alone: bool = False) -> SelectedSources:
    inner = data_files(files)
    if len(inner) == 1 and is_alone:
        return select_rows(Sighted(inner[0]), "", chosen)
    if len(inner) == 1 and chosen:
        recognised = recognise(inner[0].content, name=inner[0].name)
        if not has_sheets(recognised):
            return select_rows(Sighted(inner[0], (), recognised), "", chosen)
    is_archive = len(files) == 1 and (len(inner) > 1 or inner[0].content is not files[0].content)
    return select_sources(inner, files[0].name if is_archive else "", chosen)


def propose_columns(content: bytes | Content) -> Proposal[Columns]:
    """Return what can be chosen of a file, also if `read` misses a column. Raises `DataError` if it cannot be read."""
    return _proposal(row_source(Sighted(File(Content.of(content), "")), {}))


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
        for file in data_files(files):
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
        judgement_count=builder.questions.judgement_count if rows is None or rows.columns.label else 0,
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
    return files, join_reports(reports), unread


def _leave(folder: Path, reading: Reading) -> dict[str, Any]:
    write_question_set(folder, reading.question_set)
    content = _READING.dump_python(reading, exclude={"question_set"}, mode="json")
    return {"name": reading.question_set.name, "reading": content}


def _open_left(folder: Path, left: dict[str, Any]) -> Reading:
    question_set = open_question_set(folder, left["name"])
    return _READING.validate_python(left["reading"] | {"question_set": question_set})


_READING = TypeAdapter(Reading)
WORK = Work("questions", Columns, _read, partial(propose_or_encodings, _proposed, Columns()), _leave, _open_left)
WRITTEN = (Layout.BEIR, Layout.MTEB)
_METADATA = ("answers", "kind", "made", "hidden", "starts", "rejected", "groups", "part")  # of a question
_UNSAFE = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 60
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_JUDGEMENTS = ("query-id", "corpus-id", "score")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest: the same set makes the same bytes
_Write = Callable[[QuestionSet, IO[bytes]], None]


def written(question_set: QuestionSet, layout: Layout) -> bytes:
    """Return a zip archive of a folder in one of the layouts `WRITTEN`, with a card.

    Every judgement is written, 0 too; metadata hold what else questions say, and the aliases of passages.
    """
    out, folder = io.BytesIO(), folder_name(question_set.name)
    files = _files(question_set, layout)
    card = _card(question_set, layout, files).encode()
    readme = _File("", "", "README.md", lambda file: file.write(card))
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for written_file in (readme, *files):
            info = ZipInfo(f"{folder}/{written_file.name}", _ZIP_TIME)
            info.compress_type = ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                written_file.write(file)
    return out.getvalue()


@dataclass(frozen=True)
class _File:
    """A file of a layout: its configuration and split, as a card lists them, its name, and what writes it."""

    config: str
    split: str
    name: str
    write: Callable[[IO[bytes]], object]


def _files(question_set: QuestionSet, layout: Layout) -> list[_File]:
    """Return the files of a layout; the judgements of published parts are a file each."""
    files = []
    for config, (name, write) in _PARTS[layout].items():
        if config == "default":
            sets = _judged_parts(question_set) if question_set.questions else {}
            files += [_File(config, part, name.format(part=part), partial(write, of)) for part, of in sets.items()]
        elif config == "corpus" or question_set.questions:
            files.append(_File(config, config, name, partial(write, question_set)))
    return files


def _judged_parts(question_set: QuestionSet) -> dict[str, QuestionSet]:
    """Return the published parts by the names of BEIR; the whole set as its test part if a judged question has none."""
    parts = [question.part for question in question_set.questions if question.grade_of]
    if "" in parts or len(set(parts)) < 2:
        return {"test": question_set}
    return {
        "dev" if part == "validation" else part: question_set.with_questions(
            [row for row, question in enumerate(question_set.questions) if question.part == part]
        )
        for part in sorted(set(parts))
    }


def folder_name(name: str) -> str:
    """Return what the folder of a set is called: its name without what a file's name may not hold."""
    return _UNSAFE.sub("_", name).strip("._")[:_LONGEST_NAME] or "collection"


def _card(question_set: QuestionSet, layout: Layout, files: Sequence[_File]) -> str:
    """The card of a set (Markdown led by YAML) that lies in these files."""
    passages, questions = question_set.passages, question_set.questions
    size = next((name for most, name in _SIZES if len(passages) < most), "n>1M")
    metadata: dict[str, Any] = {"pretty_name": question_set.name, "tags": [layout.value]}
    metadata |= {"language": ["ko"]} if script_of(passages.texts) is Script.KOREAN else {}
    metadata |= {"task_categories": ["text-retrieval"], "task_ids": ["document-retrieval"], "size_categories": [size]}
    metadata["configs"] = []
    for config, group in groupby(files, key=attrgetter("config")):
        paths = [{"split": file.split, "path": file.name} for file in group]
        separator = {"sep": "\t"} if paths[0]["path"].endswith(".tsv") else {}
        metadata["configs"].append({"config_name": config, "data_files": paths} | separator)
    front = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in metadata.items())
    graded = sum(len(question.grade_of) for question in questions)
    counts = [f"{len(passages):,} passages", f"{len(questions):,} questions", f"{graded:,} judgements"]
    notes = [
        f"{', '.join(counts)}, in the layout of {layout.name}. A score of 0 says that a passage was judged and is not "
        "relevant; 1 and more say how relevant it is."
    ]
    if any(question.groups for question in questions):
        notes.append("Some questions need one passage of each of several groups: `metadata` lists them as `groups`.")
    if question_set.made:
        made = ", ".join(f"{how} {count:,}" for how, count in question_set.made.items())
        notes.append(f"Questions that were made of passages, and asked by nobody: {_plain(made)}.")
    content = f"Content (sha256): `{question_set.fingerprint}`."
    notes.append(f"{content} The licence of the passages is that of their source.")
    return f"---\n{front}---\n\n# {_plain(question_set.name)}\n\n" + "\n\n".join(notes) + "\n"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~$:&])", r"\\\1", " ".join(text.split()))


def _metadata(question: Question) -> dict[str, Any]:
    return {name: value for name in _METADATA if (value := getattr(question, name))}


def _judgements(question_set: QuestionSet) -> Iterator[tuple[str, str, int]]:
    for question in question_set.questions:
        yield from ((question.id, id_, grade) for id_, grade in question.grade_of.items())


def _jsonl(entries: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    for entry in entries:
        file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")


def corpus_entries(question_set: QuestionSet, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the passages as BEIR has them, under these ids; their metadata list all other ids."""
    merged = question_set.merged_ids
    for id_, passage in zip(ids, question_set.passages, strict=True):
        entry: dict[str, Any] = {"_id": id_, "title": passage.title, "text": passage.text}
        others = [passage.id] if passage.id != id_ else []
        others += merged.get(passage.id, [])
        yield entry | ({"metadata": {OTHER_IDS: others}} if others else {})


def _query_lines(question_set: QuestionSet, file: IO[bytes]) -> None:
    for question in question_set.questions:
        metadata = _metadata(question)
        entry = {"_id": question.id, "text": question.text}
        _jsonl([entry | ({"metadata": metadata} if metadata else {})], file)


def _qrels(question_set: QuestionSet, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    # a carriage return is no reason for quotation marks to the writer, and one to readers
    returns = any("\r" in question + passage for question, passage, _ in _judgements(question_set))
    opened = partial(csv.writer, text, delimiter="\t", lineterminator="\n")
    rows = opened(quoting=csv.QUOTE_NONNUMERIC) if returns else opened()
    rows.writerow(_JUDGEMENTS)
    rows.writerows(_judgements(question_set))
    text.detach()


def _corpus_table(question_set: QuestionSet, file: IO[bytes]) -> None:
    table = question_set.passages.table.select(["id", "title", "text"]).rename_columns(["_id", "title", "text"])
    if merged := question_set.merged_ids:
        metadata = ({OTHER_IDS: merged[id_]} if id_ in merged else {} for id_ in question_set.passages.ids)
        column = pa.array([json.dumps(one, ensure_ascii=False) for one in metadata], pa.large_string())
        table = table.append_column("metadata", column)
    pq.write_table(table, file, compression="zstd")


def _query_table(question_set: QuestionSet, file: IO[bytes]) -> None:
    questions = question_set.questions
    columns = {"_id": [one.id for one in questions], "text": [one.text for one in questions]}
    metadata = [json.dumps(_metadata(one), ensure_ascii=False) for one in questions]
    columns |= {"metadata": metadata} if any(one != "{}" for one in metadata) else {}
    pq.write_table(pa.table(columns), file, compression="zstd")


def _judgement_table(question_set: QuestionSet, file: IO[bytes]) -> None:
    schema = pa.schema(zip(_JUDGEMENTS, (pa.string(), pa.string(), pa.int64()), strict=True))
    rows = [dict(zip(_JUDGEMENTS, row, strict=True)) for row in _judgements(question_set)]
    pq.write_table(pa.Table.from_pylist(rows, schema), file, compression="zstd")


_PARTS: dict[Layout, dict[str, tuple[str, _Write]]] = {
    Layout.BEIR: {
        "corpus": ("corpus.jsonl", lambda held, file: _jsonl(corpus_entries(held, held.passages.ids), file)),
        "queries": ("queries.jsonl", _query_lines),
        "default": ("qrels/{part}.tsv", _qrels),
    },
    Layout.MTEB: {
        "corpus": ("corpus/corpus.parquet", _corpus_table),
        "queries": ("queries/queries.parquet", _query_table),
        "default": ("default/{part}.parquet", _judgement_table),
    },
}
