"""A question set as lines for a terminal, as JSON, and as a zip archive in the layout of BEIR or MTEB with a card."""

import csv
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow as pa
import pyarrow.parquet as pq

from mrc_workbench.data.apart import UnusableFileError
from mrc_workbench.data.formats.rows import (
    column_lines,
    column_words,
    columns_as_json,
    count_words,
    problem_lines,
    reading_as_json,
    spread,
    value_as_json,
)
from mrc_workbench.data.formats.tables import OTHER_IDS, shown
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, Problem
from mrc_workbench.data.questions.audit import Audit, Unit
from mrc_workbench.data.questions.read import Reading
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod, few_questions
from mrc_workbench.data.texts import Script, script_of

_NO_QUESTION = "No questions: these passages can be searched, and `mrc data generate` generates some to train with"
_SHOWN_PROBLEMS = 10
_LISTED_FILES = 20
_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 2, 60  # of each candidate reading
WRITTEN = (Layout.BEIR, Layout.MTEB)
_METADATA = ("answers", "kind", "made", "hidden", "starts", "rejected", "groups", "part")  # of a question
_UNSAFE = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 60
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_JUDGEMENTS = ("query-id", "corpus-id", "score")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest: the same set makes the same bytes
_Write = Callable[[QuestionSet, IO[bytes]], None]


def reading_lines(reading: Reading) -> list[str]:
    """Return what the files hold, which columns are used, what the files lack of each other, and the problems."""
    questions, passages = reading.question_set.questions, f"{len(reading.question_set.passages):,} passages"
    encoding = f", {reading.encoding}" if reading.encoding else ""
    if reading.layout is None:
        lines = [
            f"{reading.question_set.name}: {reading.format}{encoding}",
            f"{reading.paragraph_count:,} paragraphs -> {passages}; "
            f"{reading.row_count:,} rows -> {len(questions):,} questions",
        ]
        if reading.columns and (named := column_words(reading.columns)):
            lines.append(f"Columns: {named}")
    else:
        graded = sum(bool(question.grades) for question in questions)
        grouped = sum(bool(question.groups) for question in questions)
        counts = [passages, f"{len(questions):,} questions", f"{reading.judgement_count:,} judgements"]
        counts += [f"{graded:,} questions with grades"] * bool(graded) + [f"{grouped:,} with groups"] * bool(grouped)
        lines = [f"{reading.question_set.name}: laid out as {reading.layout}", ", ".join(counts)]
    lines += _file_lines(reading) + column_lines(reading, reading.columns)
    lines += [] if questions else [_NO_QUESTION]
    return [*lines, *(f"  {gap.message}" for gap in reading.gaps), *problem_lines(reading)]


def _file_lines(reading: Reading) -> list[str]:
    """A line for each file; of many files one for all of the same role, format and encoding."""
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for file in reading.files:
        form = ", ".join(filter(None, (file.role, file.format, file.encoding)))
        counts[file.name if len(reading.files) <= _LISTED_FILES else "", form].append(file.row_count)
    named = ((name or f"{len(rows):,} files", form, sum(rows)) for (name, form), rows in counts.items())
    return [f"  {name}: {form}; {rows:,} rows" for name, form, rows in named]


def audit_lines(figures: Audit) -> list[str]:
    """Return counts, lengths, shared wording and doubtful questions."""
    overlap = "not measurable"
    if not math.isnan(figures.overlap.mean):
        counted = {Unit.WORDS: "words", Unit.PAIRS: "letter pairs"}[figures.overlap.unit]
        by_chance = "-" if math.isnan(figures.overlap.by_chance) else f"{figures.overlap.by_chance:.1%}"
        overlap = f"{figures.overlap.mean:.1%} of the {counted}; by chance {by_chance}"
    return [
        f"Articles: {figures.article_count:,}; passages without a question: "
        f"{figures.passages_without_question:,}; unanswerable questions: {figures.unanswerable_count:,}",
        f"Characters a passage: {spread(figures.passage_lengths)}; a question: {spread(figures.question_lengths)}",
        f"Wording that question and passage share: {overlap}",
        f"Questions asked more than once: {len(figures.duplicate_questions):,}; "
        f"answers not found in their passage: {len(figures.answers_not_found):,}",
        *([f"The answers are labels, not parts of passages: {', '.join(figures.labels)}"] if figures.labels else []),
        *([f"Kinds: {count_words(figures.kinds)}"] if figures.kinds else []),
        *([f"Made of passages, asked by nobody: {count_words(figures.made)}"] if figures.made else []),
    ]


def split_lines(parts: Split) -> list[str]:
    """Return how the answerable questions are split, published or drawn, and which parts have too few of them."""
    of = "groups" if parts.method is SplitMethod.GROUPED else "relevant passages"
    counts = (f"{part} {len(parts.rows[part]):,} ({parts.group_counts[part]:,} {of})" for part in PARTS)
    return [f"Split of the answerable questions, {parts.description}: {', '.join(counts)}", *_split_warnings(parts)]


def _split_warnings(parts: Split) -> list[str]:
    warnings = (few_questions(len(parts.rows[part]), f"{part} questions") for part in PARTS)
    return [*filter(None, warnings)] if len(parts.rows[Part.ALL]) else []


def refusal_lines(error: DataError) -> list[str]:
    """Return why data is refused, its first unusable rows, and the flags to choose a reading or an encoding."""
    rows = [problem.message for problem in error.others if problem.leaves_out_row][:_SHOWN_PROBLEMS]
    lines = [str(error), *(f"  {row}" for row in rows), *(problem.message for problem in error.file_problems)]
    if not isinstance(error, UnusableFileError):
        return lines
    proposal = error.proposal
    if proposal.candidates:
        lines.append("Possible readings:")
    for columns in proposal.candidates:
        roles = {role: name for role, name in asdict(columns).items() if name is not None}
        lines.append(f"  --columns {' '.join(_quoted(f'{role}={name}') for role, name in roles.items())}")
        for row in proposal.first_rows[:_SAMPLE_ROWS]:
            cells = (f"{role}: {shown(row.get(name, ''), _SAMPLE_CHARACTERS)}" for role, name in roles.items())
            lines.append(f"    {' | '.join(cells)}")
    if proposal.encodings:
        lines.append("Possible encodings:")
    lines += [f"  --encoding {encoding.name}    {encoding.sample}" for encoding in proposal.encodings]
    return lines


def _quoted(word: str) -> str:
    return f'"{word}"' if any(character.isspace() or character in "'()[]{}<>&|;*?$`!#~" for character in word) else word


def as_json(reading: Reading, figures: Audit, parts: Split, notes: Sequence[Problem]) -> dict[str, Any]:
    """Return what was understood of the files, the audit, the split, and notes about the texts."""
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
        "notices": [{"code": note.code, "message": note.message, **note.details} for note in notes],
        "audit": value_as_json(figures),
        "split": {
            "seed": parts.options.seed,
            **parts.summary(),
            "groups": parts.group_counts,
            "warnings": _split_warnings(parts),
        },
    }


def dataset_as_json(reading: Reading, figures: Audit, parts: Split, file_names: Sequence[str]) -> dict[str, Any]:
    """Return counts, files and columns; `file_names` are for a reading that does not list its files."""
    return {
        "articles": figures.article_count,
        "split": {part: len(parts.rows[part]) for part in PARTS},
        "published_split": parts.is_published,
        "files": [file.name for file in reading.files] or list(file_names),
        **columns_as_json(reading),
    }


def records_as_json(question_set: QuestionSet) -> dict[str, Any]:
    """Return all passages, and all questions with the grade of every judged passage."""
    return {
        "passages": [
            {"id": passage.id, "title": passage.title, "text": passage.text} for passage in question_set.passages
        ],
        "questions": [
            {
                "id": question.id,
                "text": question.text,
                "grades": {**question.grade_of, **dict.fromkeys(question.rejected, 0)},
                "answers": question.answers,
                "starts": question.starts,
            }
            for question in question_set.questions
        ],
    }


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


def _corpus_lines(question_set: QuestionSet, file: IO[bytes]) -> None:
    _jsonl(corpus_entries(question_set, question_set.passages.ids), file)


def _query_lines(question_set: QuestionSet, file: IO[bytes]) -> None:
    entries = ({"_id": one.id, "text": one.text, "metadata": _metadata(one)} for one in question_set.questions)
    _jsonl(({name: value for name, value in entry.items() if name != "metadata" or value} for entry in entries), file)


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
        "corpus": ("corpus.jsonl", _corpus_lines),
        "queries": ("queries.jsonl", _query_lines),
        "default": ("qrels/{part}.tsv", _qrels),
    },
    Layout.MTEB: {
        "corpus": ("corpus/corpus.parquet", _corpus_table),
        "queries": ("queries/queries.parquet", _query_table),
        "default": ("default/{part}.parquet", _judgement_table),
    },
}
