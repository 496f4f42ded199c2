"""Reads question sets from files, and exports them as zip archives in the layout of BEIR or MTEB with a card."""

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

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.opening import Format, Proposal, name_file_in_errors, recognise
from mrc_workbench.data.formats.rows import FileReading, reading_fields
from mrc_workbench.data.formats.tables import OTHER_IDS, display_text
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.jobs.processes import without_garbage_collection
from mrc_workbench.data.layouts import sources
from mrc_workbench.data.layouts.builder import QuestionSetBuilder
from mrc_workbench.data.layouts.members import data_files, list_files, list_files_of_paths, propose_or_encodings
from mrc_workbench.data.layouts.reading import Layout, SelectedSources, select_rows, select_sources
from mrc_workbench.data.layouts.references import Role
from mrc_workbench.data.layouts.roles import Selection, candidate_columns, holds_texts, missing_passages_error
from mrc_workbench.data.layouts.sighting import DetectedFile, has_sheets, row_source
from mrc_workbench.data.layouts.sources import ColumnReport, DataSource, SourceShape
from mrc_workbench.data.problems import DataError, Problem
from mrc_workbench.data.records import Question, QuestionSet, open_question_set, write_question_set
from mrc_workbench.data.subprocess_reader import File, OnFilesRead, ReadingTask, report_files_read, run_in_subprocess
from mrc_workbench.data.texts import Script, script_of


@dataclass(frozen=True)
class CollectionFile:
    """A file of a collection, with the number of its rows and of its unusable rows."""

    name: str
    role: Role
    format: Format
    encoding: str
    row_count: int
    left_out: int
    first_rows: tuple[dict[str, str], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class QuestionSetReading(FileReading):
    """A question set, its columns and layout, and the problems of its files.

    `row_count` counts rows (questions in SQuAD files), including skipped rows; `paragraph_count` counts contexts before
    equal contexts are merged. `columns` is None for SQuAD files and collections, `layout` is None for single tables.
    `gaps` are missing relations between files.
    """

    question_set: InstanceOf[QuestionSet]
    columns: QuestionColumns | None
    paragraph_count: int
    layout: Layout | None = None
    files: tuple[CollectionFile, ...] = ()
    judgement_count: int = 0
    gaps: tuple[Problem, ...] = ()


def read_file(path: Path, columns: QuestionColumns | None = None) -> QuestionSetReading:
    """Read a file from disk, or the files of a folder; see `read_files`. Raises `DataError`, also for no file."""
    return read_files(list_files(path), columns)


def read(content: bytes | Content, name: str, columns: QuestionColumns | None = None) -> QuestionSetReading:
    """Read the content of a file, which determines the format; `name` only names the set. See `read_files`."""
    return read_files([File(Content.from_bytes(content), name)], columns)


def read_files(files: Sequence[File], columns: QuestionColumns | None = None) -> QuestionSetReading:
    """Read a file of questions and passages, or the files of a collection; archives are unpacked.

    Columns of a single file are guessed unless given. Unusable rows are listed in `problems`. Raises `DataError` if a
    file cannot be read, the column of passages is missing, or no row is left.
    """
    return _read(files, {} if columns is None else asdict(columns))


def read_paths_in_subprocess(
    paths: Sequence[Path], selection: Selection | None = None, encoding: str = "", report: OnFilesRead | None = None
) -> QuestionSetReading:
    """Read files and folders, see `read_files_in_subprocess`; an empty `encoding` is detected."""
    files = [file.with_encoding(encoding) for file in list_files_of_paths(paths)]
    return read_files_in_subprocess(files, selection, report)


def read_files_in_subprocess(
    files: Sequence[File], selection: Selection | None = None, report: OnFilesRead | None = None
) -> QuestionSetReading:
    """Run `read_files` in a subprocess. Raises `UnusableFileError`, also for exceeded limits, and `OSError`."""
    return run_in_subprocess(WORK, files, selection or {}, report)


def _select_sources(files: Sequence[File], selection: Selection, *, is_single: bool = False) -> SelectedSources:
    inner = data_files(files)
    if len(inner) == 1 and is_single:
        return select_rows(DetectedFile(inner[0]), "", selection)
    if len(inner) == 1 and selection:
        recognised = recognise(inner[0].content, name=inner[0].name)
        if not has_sheets(recognised):
            return select_rows(DetectedFile(inner[0], (), recognised), "", selection)
    is_archive = len(files) == 1 and (len(inner) > 1 or inner[0].content is not files[0].content)
    return select_sources(inner, files[0].name if is_archive else "", selection)


def propose_columns(content: bytes | Content) -> Proposal[QuestionColumns]:
    """Return the selectable columns of a file, also if `read` misses a column. Raises `DataError` for other errors."""
    return _propose_from_source(row_source(DetectedFile(File(Content.from_bytes(content), "")), {}))


def _propose_from_source(source: DataSource) -> Proposal[QuestionColumns]:
    columns = source.columns
    candidates = candidate_columns(columns, source.names, source.sample)
    has_texts = any(holds_texts(candidate.context or "", source.sample) for candidate in candidates)
    if columns.question is None and not has_texts:
        candidates = ()  # for example a table of judgements
    return Proposal(columns, source.names, source.first_rows, candidates)


def _propose_from_files(files: Sequence[File]) -> Proposal[QuestionColumns]:
    """Return the selectable columns of a single file, or of the file with the error if there are several files."""
    try:
        selected = _select_sources(files, {}, is_single=True)
        return _propose_from_source(selected.sources[0]) if selected.layout is None else Proposal(QuestionColumns())
    except DataError as error:
        for file in data_files(files):
            if display_text(file.name, 80) == error.problem.details.get("file"):
                return propose_columns(file.content)
        raise


@without_garbage_collection()
def _read(files: Sequence[File], selection: Selection) -> QuestionSetReading:
    selected = _select_sources(files, selection)
    rows = selected.sources[0] if selected.layout is None else None  # a single table
    if rows is not None and not rows.columns.has_passages:
        raise missing_passages_error(rows.columns, rows.names, rows.sample)
    builder = QuestionSetBuilder(names_files=len(selected.sources) > 1)
    collection_files, report, unread = _read_sources(builder, selected, selection)
    question_set = builder.build(selected.name)
    names, first_rows = (rows.names, rows.first_rows) if rows is not None else ((), ())
    return QuestionSetReading(
        question_set=question_set,
        columns=None if rows is None or rows.shape is SourceShape.NESTED else rows.columns,
        paragraph_count=builder.passage_rows if rows is not None else builder.passage_rows or len(builder.passages),
        layout=selected.layout,
        files=() if rows is not None else tuple(collection_files),
        judgement_count=builder.questions.judgement_count if rows is None or rows.columns.label else 0,
        gaps=(*builder.gaps(), *unread, *selected.skipped),
        **report._asdict(),
        **reading_fields(selected.sources[0].recognised, builder.rejection, names, first_rows, builder.row_count),
    )


def _read_sources(
    builder: QuestionSetBuilder, selected: SelectedSources, selection: Selection
) -> tuple[list[CollectionFile], ColumnReport, list[Problem]]:
    """Read all sources; return their files, the use of their columns, and the problems of unreadable documents."""
    files: list[CollectionFile] = []
    reports: dict[str, ColumnReport] = {}
    inputs = [*selected.sources, *(selected.skipped if selected.layout else ())]  # errors name a file among several
    unread: list[Problem] = []  # documents that are broken, encrypted or without text
    for number, given in enumerate(selected.sources, start=1):
        source = sources.with_references(given, builder.names, selection)
        try:
            with name_file_in_errors(source.name, inputs):
                rows, left_out = builder.add(source)
        except DataError as error:
            if source.shape is not SourceShape.DOCUMENT or len(inputs) == 1:
                raise
            unread.append(error.problem)
            continue
        finally:
            report_files_read(number, len(selected.sources))
        reports[source.name] = sources.column_report(source)
        file = source.recognised
        first_rows = source.first_rows
        files.append(CollectionFile(source.name, source.role, file.format, file.encoding, rows, left_out, first_rows))
    if unread and not len(builder.passages):
        raise DataError(unread[0], [*unread, *selected.skipped])
    return files, sources.join_reports(reports), unread


def _save_result(folder: Path, reading: QuestionSetReading) -> dict[str, Any]:
    write_question_set(folder, reading.question_set)
    content = _READING.dump_python(reading, exclude={"question_set"}, mode="json")
    return {"name": reading.question_set.name, "reading": content}


def _load_result(folder: Path, saved: dict[str, Any]) -> QuestionSetReading:
    question_set = open_question_set(folder, saved["name"])
    return _READING.validate_python(saved["reading"] | {"question_set": question_set})


_READING = TypeAdapter(QuestionSetReading)
_PROPOSE = partial(propose_or_encodings, _propose_from_files, QuestionColumns())
WORK = ReadingTask("questions", QuestionColumns, _read, _PROPOSE, _save_result, _load_result)
EXPORT_LAYOUTS = (Layout.BEIR, Layout.MTEB)
_METADATA_FIELDS = ("answers", "kind", "generator", "hidden", "starts", "rejected", "groups", "part")  # of a question
_UNSAFE = re.compile(r"[^\w.+-]+")
_MAX_NAME_LENGTH = 60
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_JUDGEMENTS = ("query-id", "corpus-id", "score")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest possible, so that equal sets give equal bytes
_Writer = Callable[[QuestionSet, IO[bytes]], None]


def export_archive(question_set: QuestionSet, layout: Layout) -> bytes:
    """Return a zip archive of a folder in one of `EXPORT_LAYOUTS`, with a card, all judgements and all metadata."""
    out = io.BytesIO()
    folder = folder_name(question_set.name)
    files = _export_files(question_set, layout)
    card = _card(question_set, layout, files).encode()
    readme = _ExportFile("", "", "README.md", lambda file: file.write(card))
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for export_file in (readme, *files):
            info = ZipInfo(f"{folder}/{export_file.name}", _ZIP_TIME)
            info.compress_type = ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                export_file.write(file)
    return out.getvalue()


@dataclass(frozen=True)
class _ExportFile:
    """A file of a layout: its configuration and split in the card, its name, and a function that writes it."""

    config: str
    split: str
    name: str
    write: Callable[[IO[bytes]], object]


def _export_files(question_set: QuestionSet, layout: Layout) -> list[_ExportFile]:
    files = []
    for config, (name, write) in _WRITERS[layout].items():
        if config == "default":
            sets = _sets_by_published_part(question_set) if question_set.questions else {}
            for part, part_set in sets.items():
                files.append(_ExportFile(config, part, name.format(part=part), partial(write, part_set)))
        elif config == "corpus" or question_set.questions:
            files.append(_ExportFile(config, config, name, partial(write, question_set)))
    return files


def _sets_by_published_part(question_set: QuestionSet) -> dict[str, QuestionSet]:
    """Return the published parts by their BEIR names; a set without parts for all judged questions is a test part."""
    parts = [question.part for question in question_set.questions if question.grade_of]
    if "" in parts or len(set(parts)) < 2:
        return {"test": question_set}
    sets = {}
    for part in sorted(set(parts)):
        rows = [row for row, question in enumerate(question_set.questions) if question.part == part]
        sets["dev" if part == "validation" else part] = question_set.with_questions(rows)
    return sets


def folder_name(name: str) -> str:
    """Return the name of a set without the characters that file names may not contain."""
    return _UNSAFE.sub("_", name).strip("._")[:_MAX_NAME_LENGTH] or "collection"


def _card(question_set: QuestionSet, layout: Layout, files: Sequence[_ExportFile]) -> str:
    passages = question_set.passages
    questions = question_set.questions
    size = next((name for limit, name in _SIZES if len(passages) < limit), "n>1M")
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
    if question_set.generated_counts:
        counts = [f"{generator} {count:,}" for generator, count in question_set.generated_counts.items()]
        notes.append(f"Synthetic questions, generated from passages: {_escape_markdown(', '.join(counts))}.")
    content = f"Content (sha256): `{question_set.fingerprint}`."
    notes.append(f"{content} The licence of the passages is that of their source.")
    return f"---\n{front}---\n\n# {_escape_markdown(question_set.name)}\n\n" + "\n\n".join(notes) + "\n"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~$:&])", r"\\\1", " ".join(text.split()))


def _question_metadata(question: Question) -> dict[str, Any]:
    return {name: value for name in _METADATA_FIELDS if (value := getattr(question, name))}


def _judgement_rows(question_set: QuestionSet) -> Iterator[tuple[str, str, int]]:
    for question in question_set.questions:
        yield from ((question.id, id_, grade) for id_, grade in question.grade_of.items())


def _write_jsonl(entries: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    for entry in entries:
        file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")


def corpus_entries(question_set: QuestionSet, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the passages in BEIR's format, under the given ids; their metadata list all other ids."""
    merged = question_set.merged_ids
    for id_, passage in zip(ids, question_set.passages, strict=True):
        entry: dict[str, Any] = {"_id": id_, "title": passage.title, "text": passage.text}
        others = [passage.id] if passage.id != id_ else []
        others += merged.get(passage.id, [])
        yield entry | ({"metadata": {OTHER_IDS: others}} if others else {})


def _write_queries_jsonl(question_set: QuestionSet, file: IO[bytes]) -> None:
    for question in question_set.questions:
        metadata = _question_metadata(question)
        entry = {"_id": question.id, "text": question.text}
        _write_jsonl([entry | ({"metadata": metadata} if metadata else {})], file)


def _write_qrels_tsv(question_set: QuestionSet, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    # readers need quotes around carriage returns, but the writer adds none
    has_carriage_returns = any("\r" in question + passage for question, passage, _ in _judgement_rows(question_set))
    new_writer = partial(csv.writer, text, delimiter="\t", lineterminator="\n")
    rows = new_writer(quoting=csv.QUOTE_NONNUMERIC) if has_carriage_returns else new_writer()
    rows.writerow(_JUDGEMENTS)
    rows.writerows(_judgement_rows(question_set))
    text.detach()


def _write_corpus_parquet(question_set: QuestionSet, file: IO[bytes]) -> None:
    table = question_set.passages.table.select(["id", "title", "text"]).rename_columns(["_id", "title", "text"])
    if merged := question_set.merged_ids:
        metadata = ({OTHER_IDS: merged[id_]} if id_ in merged else {} for id_ in question_set.passages.ids)
        column = pa.array([json.dumps(entry, ensure_ascii=False) for entry in metadata], pa.large_string())
        table = table.append_column("metadata", column)
    pq.write_table(table, file, compression="zstd")


def _write_queries_parquet(question_set: QuestionSet, file: IO[bytes]) -> None:
    questions = question_set.questions
    columns = {"_id": [item.id for item in questions], "text": [item.text for item in questions]}
    metadata = [json.dumps(_question_metadata(item), ensure_ascii=False) for item in questions]
    columns |= {"metadata": metadata} if any(item != "{}" for item in metadata) else {}
    pq.write_table(pa.table(columns), file, compression="zstd")


def _write_qrels_parquet(question_set: QuestionSet, file: IO[bytes]) -> None:
    schema = pa.schema(zip(_JUDGEMENTS, (pa.string(), pa.string(), pa.int64()), strict=True))
    rows = [dict(zip(_JUDGEMENTS, row, strict=True)) for row in _judgement_rows(question_set)]
    pq.write_table(pa.Table.from_pylist(rows, schema), file, compression="zstd")


_WRITERS: dict[Layout, dict[str, tuple[str, _Writer]]] = {
    Layout.BEIR: {
        "corpus": ("corpus.jsonl", lambda held, file: _write_jsonl(corpus_entries(held, held.passages.ids), file)),
        "queries": ("queries.jsonl", _write_queries_jsonl),
        "default": ("qrels/{part}.tsv", _write_qrels_tsv),
    },
    Layout.MTEB: {
        "corpus": ("corpus/corpus.parquet", _write_corpus_parquet),
        "queries": ("queries/queries.parquet", _write_queries_parquet),
        "default": ("default/{part}.parquet", _write_qrels_parquet),
    },
}
