"""TREC files: writes judgements and runs, and reads imported runs.

A run may also be JSON lines of texts or ids: `{"question": "...", "passages": ["...", "..."]}`, best first.
"""

import codecs
import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ValidationError

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet, composed
from mrc_workbench.data.workspace import replacing, write_text
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, positions_within_groups

_SPACE = re.compile(r"\s+")
_UNSAFE = re.compile(r"[^\w.+-]+")
_QRELS = "qrels"
_BLOCK = 100_000  # lines written at a time
_MAX_STEM = 60  # a file name has at most 255 bytes, and a Korean character takes 3
_COLUMNS = ["question", "Q0", "passage", "rank", "score", "name"]
_EXTRA_COLUMN = "more"
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")


def write_qrels(path: Path, question_set: QuestionSet) -> None:
    """Write `question 0 passage grade` for every judged passage; the grade is 1 if judgements are binary."""
    questions, passages = trec_ids(question_set)
    row_of = question_set.row_of_passage
    lines = [
        f"{id_} 0 {passages[row_of[passage_id]]} {grade}\n"
        for id_, question in zip(questions, question_set.questions, strict=True)
        for passage_id, grade in question.grade_of.items()
    ]
    write_text(path, "".join(lines))


def write_run(path: Path, rankings: Rankings, question_set: QuestionSet, name: str) -> None:
    """Write `question Q0 passage rank score name`; tied scores are lowered, as tools break ties by id."""
    questions, passages = (pa.array(ids, pa.large_string()) for ids in trec_ids(question_set))
    rows, positions = np.nonzero(rankings.indices != NOT_FOUND)
    scores = without_ties(rankings.scores)
    last = pa.scalar(_SPACE.sub("_", name) + "\n", pa.large_string())
    with replacing(path) as new, new.open("wb") as file:
        for start in range(0, len(rows), _BLOCK):
            row = rows[start : start + _BLOCK]
            position = positions[start : start + _BLOCK]
            columns = (
                questions.take(pa.array(row)),
                pa.scalar("Q0", pa.large_string()),
                passages.take(pa.array(rankings.indices[row, position])),
                pc.cast(pa.array(position + 1), pa.large_string()),
                pc.cast(pa.array(scores[row, position]), pa.large_string()),  # round-trips float32
                last,
                pa.scalar(" ", pa.large_string()),
            )
            # no CSV writer, as quotation marks in ids have no meaning here
            file.write("".join(pc.binary_join_element_wise(*columns).to_pylist()).encode())


def without_ties(scores: np.ndarray) -> np.ndarray:
    """Lower each score that is not below its left neighbour to the next float32 below it."""
    scores = scores.copy()
    for column in range(1, scores.shape[1]):
        next_lower = np.nextafter(scores[:, column - 1], np.float32(-np.inf))
        scores[:, column] = np.minimum(scores[:, column], next_lower)
    return scores


def trec_ids(question_set: QuestionSet) -> tuple[list[str], list[str]]:
    """Return distinct ids of questions and passages without white space, which separates columns."""
    question_ids = [question.id for question in question_set.questions]
    return _without_space(question_ids), _without_space(list(question_set.passages.ids), question_set.aliases)


def changed_ids(question_set: QuestionSet) -> pd.DataFrame:
    """List the ids that differ in TREC files: columns "kind" (question or passage), "id" and "trec_id"."""
    question_ids, passage_ids = trec_ids(question_set)
    pairs = [("question", question.id, id_) for question, id_ in zip(question_set.questions, question_ids, strict=True)]
    pairs += [("passage", id_, written) for id_, written in zip(question_set.passages.ids, passage_ids, strict=True)]
    changed = [pair for pair in pairs if pair[1] != pair[2]]
    return pd.DataFrame(changed, columns=["kind", "id", "trec_id"])


def _without_space(ids: list[str], reserved: Iterable[str] = ()) -> list[str]:
    """Replace white space by "_"; other ids stay unchanged, so that other engines share them."""
    if not any(map(_SPACE.search, ids)):
        return ids
    taken = {id_ for id_ in chain(ids, reserved) if not _SPACE.search(id_)}
    written = []
    for id_ in ids:
        if _SPACE.search(id_):
            id_ = next(choice for choice in _candidate_names(_SPACE.sub("_", id_)) if choice not in taken)  # noqa: PLW2901
            taken.add(id_)
        written.append(id_)
    return written


def _candidate_names(stem: str) -> Iterator[str]:
    return chain([stem], (f"{stem}-{number}" for number in count(2)))


def file_names(names: list[str]) -> list[str]:
    """Return a safe, distinct file stem for each retriever's name, other than that of the judgements."""
    stems = {_QRELS: _QRELS}  # by lower-case form: file systems may ignore case
    for name in names:
        stem = _UNSAFE.sub("_", name).strip(".")[:_MAX_STEM] or "retriever"
        free = next(choice for choice in _candidate_names(stem) if choice.casefold() not in stems)
        stems[free.casefold()] = free
    return list(stems.values())[1:]


class RunError(Failure):
    """A run that cannot be used; details are its path (`run`) and the first wrong `line`, from 1, else 0."""

    def __init__(self, code: str, message: str, run: str, line: int = 0) -> None:
        super().__init__(code, message, run=run, line=line)


@dataclass(frozen=True)
class RunNotes:
    """The coverage of an imported run."""

    depth: int  # most passages of any question
    questions: int  # with results
    other_questions: int  # that are not in the dataset
    unknown_passages: int  # lines of passages that are not in the corpus
    repeated: int  # duplicate lines of a passage, which counts once, at its best rank
    aliases: int = 0  # lines of merged copies, which count as the stored passage


class ImportedRun:
    """The rankings of a TREC run: `question Q0 passage rank score name` in lines of any order.

    As in trec_eval, passages are ordered by score (float32), ties by descending id, and ranks are ignored; tied scores
    are lowered. Rankings have at least `depth` columns, the depth of the original search. `measured_seconds` of a
    search follow from `seconds_per_query`.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        question_set: QuestionSet,
        reference: str = "",
        *,
        seconds_per_query: float = 0.0,
        depth: int = 0,
    ) -> None:
        self.name = name
        self.measured_seconds = 0.0
        self._seconds_per_query = seconds_per_query
        self._texts = [question.text for question in question_set.questions]
        self._row_of_text = {text: row for row, text in reversed(list(enumerate(self._texts)))}
        rankings, known = read_run(path, question_set, reference)
        self._rankings = rankings.padded(min(depth, len(question_set.passages)))
        self.notes = asdict(known)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        if list(questions) == self._texts:  # also if two questions have the same text
            rows = np.arange(len(self._texts))
        else:
            rows = np.array([self._row_of_text.get(text, -1) for text in questions], dtype=np.int64)
        self.measured_seconds = self._seconds_per_query * len(rows)
        indices = np.where(rows[:, None] < 0, NOT_FOUND, self._rankings.indices[rows, :k])
        scores = np.where(rows[:, None] < 0, np.float32(-np.inf), self._rankings.scores[rows, :k])
        return Rankings(indices, scores)


def find_run(reference: str, base: Path | None) -> Path:
    """Return the path of a run, relative to `base` or absolute. Raises `RunError` (`run_not_found`)."""
    path = (base or Path()) / reference
    if not os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        raise RunError("run_not_found", f"there is no file {reference!r}; give the path of a TREC run", reference)
    return path


def fingerprint(path: Path) -> str:
    """Return a key of a run's content, by size and time, as for models."""
    status = path.stat()
    return key_of(status.st_size, status.st_mtime_ns)


def read_run(path: Path, question_set: QuestionSet, reference: str = "") -> tuple[Rankings, RunNotes]:
    """Read a run of the set's questions, by ids or texts. Raises `RunError`."""
    reference = reference or path.name
    table, is_of_texts = read_run_table(path, reference)
    return rankings_from_table(table, question_set, reference, is_of_texts=is_of_texts)


def read_run_table(path: Path, reference: str) -> tuple[pd.DataFrame, bool]:
    """Read a run as a table for `rankings_from_table`; return also whether it is JSON lines. Raises `RunError`."""
    try:
        with path.open("rb") as file:
            is_of_texts = file.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
    except OSError as error:
        raise RunError("run_unreadable", f"{reference} cannot be read: {error}", reference) from error
    return (_read_json_lines(path, reference) if is_of_texts else _read_table(path, reference)), is_of_texts


def rankings_from_table(
    table: pd.DataFrame, question_set: QuestionSet, reference: str, *, is_of_texts: bool = True
) -> tuple[Rankings, RunNotes]:
    """Return rankings of a table of "question", "passage" (categories) and "score". Raises `RunError`."""
    question_ids, passage_ids = trec_ids(question_set)
    question = _rows_of_ids(table["question"], question_ids)
    passage = _rows_of_ids(table["passage"], passage_ids)
    if is_of_texts:  # ids in JSON may contain white space
        row_of_question = {item.id: row for row, item in enumerate(question_set.questions)}
        question = _fill_missing(question, table["question"], row_of_question)
        passage = _fill_missing(passage, table["passage"], question_set.row_of_passage)
    is_unknown = passage < 0
    passage = _fill_missing(passage, table["passage"], _rows_of_aliases(question_set))
    is_alias = is_unknown & (passage >= 0)
    if is_of_texts:
        question_texts = [item.text for item in question_set.questions]
        question = np.where(question < 0, _rows_of_texts(table["question"], question_texts), question)
        passage = np.where(passage < 0, _rows_of_texts(table["passage"], question_set.passages.texts), passage)
    known = (question >= 0) & (passage >= 0)
    if not known.any():
        column, ids = ("passage", passage_ids) if (question >= 0).any() else ("question", question_ids)
        example = table[column].iloc[int((question >= 0).argmax())]
        known_ids = f"its ids are like {example!r}, those of the dataset like {ids[0]!r}"
        raise RunError("run_other_ids", f"{reference} names no {column} of the dataset: {known_ids}", reference)
    scores = table["score"].to_numpy()[known]
    rankings, repeated = _rank_rows(question[known], passage[known], scores, len(question_ids), passage_ids)
    notes = RunNotes(
        depth=rankings.indices.shape[1],
        questions=int((rankings.indices[:, 0] != NOT_FOUND).sum()),
        other_questions=int(table["question"][question < 0].nunique()),
        unknown_passages=int(((question >= 0) & (passage < 0)).sum()),
        repeated=repeated,
        aliases=int((is_alias & known).sum()),
    )
    return rankings, notes


def _rows_of_aliases(question_set: QuestionSet) -> dict[str, int]:
    """Map each alias to its passage's row, also in the form of TREC files, without ambiguous ones."""
    stored = question_set.row_of_passage.rows([*question_set.aliases.values()])
    rows = dict(zip(question_set.aliases, stored, strict=True))
    written: dict[str, int] = {}
    for alias, row in rows.items():
        if _SPACE.search(alias):
            stem = _SPACE.sub("_", alias)
            written[stem] = row if written.get(stem, row) == row else NOT_FOUND
    return written | rows


def _fill_missing(rows: np.ndarray, column: "pd.Series[str]", row_of: Mapping[str, int]) -> np.ndarray:
    if not len(row_of) or (rows >= 0).all():
        return rows
    category_rows = np.array([row_of.get(id_, NOT_FOUND) for id_ in column.cat.categories], dtype=np.int64)
    return np.where(rows < 0, category_rows[column.cat.codes.to_numpy()], rows)


class _Line(BaseModel):
    question: str
    passages: list[str]


def _read_json_lines(path: Path, reference: str) -> pd.DataFrame:
    questions = list[str]()
    passages = list[str]()
    scores = list[int]()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                entry = _Line.model_validate_json(line.removeprefix(codecs.BOM_UTF8))
            except ValidationError as error:
                expected = 'expected {"question": "...", "passages": ["...", "..."]}'
                message = f"{reference}, line {number}: {expected}, not {line[:80].decode(errors='replace')!r}"
                raise RunError("run_broken_line", message, reference, number) from error
            questions += [entry.question] * len(entry.passages)
            passages += entry.passages
            scores += range(0, -len(entry.passages), -1)
    if not passages:
        raise RunError("run_unreadable", f"{reference} names no passage", reference)
    table = pd.DataFrame({"question": questions, "passage": passages}, dtype="category")
    return table.assign(score=np.array(scores, dtype=np.float32))


def _rows_of_texts(column: "pd.Series[str]", texts: Iterable[str]) -> np.ndarray:
    row_of = {composed(text): row for row, text in reversed(list(enumerate(texts)))}
    rows = np.array([row_of.get(composed(text), -1) for text in column.cat.categories], dtype=np.int64)
    return np.asarray(rows[column.cat.codes.to_numpy()])


def _read_table(path: Path, reference: str) -> pd.DataFrame:
    names = [*_COLUMNS, _EXTRA_COLUMN]
    try:
        table: pd.DataFrame = pd.read_csv(
            path,
            sep=r"\s+",
            header=None,
            names=names,
            dtype={name: "float64" if name == "score" else "str" for name in names},
            keep_default_na=False,
            quoting=csv.QUOTE_NONE,
            encoding="utf-8-sig",
            float_precision="round_trip",
        )
    except UnicodeDecodeError as error:
        raise RunError("run_unreadable", f"{reference} is no UTF-8 text: {error}", reference) from error
    except OSError as error:
        raise RunError("run_unreadable", f"{reference} cannot be read: {error}", reference) from error
    except ValueError as error:  # also a pandas error: a line with more fields, or a score that is no number
        raise _find_broken_line(path, reference) from error
    # text first: categories of numbers would lose leading zeros
    table = table.astype(dict.fromkeys((name for name in names if name != "score"), "category"))
    with np.errstate(over="ignore"):
        table["score"] = table["score"].astype(np.float32)
    good = np.isfinite(table["score"]) & (table["name"] != "") & (table[_EXTRA_COLUMN] == "")
    if not good.all() or not len(table):
        raise _find_broken_line(path, reference)
    return table


def _find_broken_line(path: Path, reference: str) -> RunError:
    expected = f"expected six columns: {' '.join(_COLUMNS)}"
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            fields = _BETWEEN_COLUMNS.split(line.strip(" \t\r\n"))
            if fields != [""] and (len(fields) != len(_COLUMNS) or not _is_number(fields[4])):
                message = f"{reference}, line {number}: {expected}, with a number as score, not {line.strip()[:80]!r}"
                return RunError("run_broken_line", message, reference, number)
    return RunError("run_unreadable", f"{reference} is no TREC run; {expected}", reference)


def _is_number(text: str) -> bool:
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.float32(text)))
    except ValueError:
        return False


def _rows_of_ids(column: "pd.Series[str]", ids: list[str]) -> np.ndarray:
    of_category = pd.Index(ids).get_indexer(column.cat.categories)
    return np.asarray(of_category[column.cat.codes.to_numpy()])


def _rank_rows(
    question: np.ndarray, passage: np.ndarray, score: np.ndarray, n_questions: int, passage_ids: list[str]
) -> tuple[Rankings, int]:
    id_order = np.empty(len(passage_ids), dtype=np.int64)
    id_order[sorted(range(len(passage_ids)), key=passage_ids.__getitem__)] = np.arange(len(passage_ids))
    order = np.lexsort((-id_order[passage], -score, question))
    codes = (question * len(passage_ids) + passage)[order]
    best = order[np.sort(np.unique(codes, return_index=True)[1])]
    repeated = len(order) - len(best)
    question = question[best]
    counts = np.bincount(question, minlength=n_questions)
    rankings = Rankings.empty(n_questions, int(counts.max()))
    position = positions_within_groups(counts)
    rankings.indices[question, position] = passage[best]
    rankings.scores[question, position] = score[best]
    return Rankings(rankings.indices, without_ties(rankings.scores)), repeated
