"""Questions, question sets and their files; generators of synthetic questions."""

import hashlib
import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from mrc_workbench.data.passages import Passage, Passages, RowOfId, open_passages, write_passages

__all__ = ["Passage", "Passages", "Question", "QuestionSet", "composed"]
RELEVANT_GRADE = 1  # the lowest relevant grade
_PUBLISHED_PARTS = ("", "train", "validation", "test")  # values of `Question.part`
FILE = "questions.parquet"
_TEXT = pa.string()
_TEXTS = pa.list_(pa.string())
_SCHEMA = pa.schema(
    {"id": _TEXT, "text": _TEXT, "answers": _TEXTS, "relevant": _TEXTS, "kind": _TEXT, "generator": _TEXT}
    | {"hidden": pa.bool_(), "starts": pa.list_(pa.int32()), "rejected": _TEXTS}
)
_GRADES = pa.list_(pa.struct([("id", _TEXT), ("grade", pa.int32())]))
# stored only if a question has them, so that earlier versions open the other files
_EARLIER_COLUMNS = {"made": "generator"}  # of stored files
_OPTIONAL = pa.schema({"grades": _GRADES, "groups": pa.list_(_TEXTS), "part": _TEXT})
ALIASES = "aliases.parquet"
_ALIAS_SCHEMA = pa.schema([("alias", pa.large_string()), ("passage", pa.large_string())])


def composed(text: str) -> str:
    """Normalize a question for comparisons: NFC, single spaces, no line breaks."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True, slots=True)
class Question:
    """One question, its answers, and the ids of the relevant passages, which hold an answer.

    One passage of each of the `groups` is needed: AND between groups, OR within. An empty group has no passage in the
    corpus and lowers the recall. Grades and groups are empty if all grades are 1 and a single passage is a group.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    relevant: tuple[str, ...] = ()  # passages with `RELEVANT_GRADE` or more; empty for an unanswerable question
    kind: str = ""
    generator: str = ""  # of a synthetic question, see `QuestionGenerator`; empty if a person wrote it
    hidden: bool = False  # whether training removes its text, words or title of its passages, from them
    starts: tuple[int, ...] = ()  # of answers in the first relevant passage, -1 if unknown; not fingerprinted
    rejected: tuple[str, ...] = ()  # passages without an answer, as in SQuAD 2.0; not fingerprinted
    grades: tuple[tuple[str, int], ...] = ()  # of the judged passages
    groups: tuple[tuple[str, ...], ...] = ()
    part: str = ""  # the published part, one of `_PUBLISHED_PARTS`; empty if unknown

    def __post_init__(self) -> None:
        if self.part not in _PUBLISHED_PARTS:
            raise ValueError(f"{self.part[:80]!r} is not a part: use one of {_PUBLISHED_PARTS}")
        if self.grades:
            plain = dict.fromkeys(self.relevant, RELEVANT_GRADE)
            grades = tuple((plain | dict(self.grades)).items())  # the relevant ones first
            object.__setattr__(self, "grades", () if grades == tuple(plain.items()) else grades)
        if len(self.groups) == 1 and self.groups[0] == self.relevant[:1] == self.relevant:
            object.__setattr__(self, "groups", ())

    @classmethod
    def from_grades(cls, id_: str, text: str, grades: Mapping[str, int], **more: Any) -> "Question":
        relevant = tuple([passage for passage, grade in grades.items() if grade >= RELEVANT_GRADE])
        return cls(id_, text, relevant=relevant, grades=tuple(grades.items()), **more)

    @property
    def grade_of(self) -> dict[str, int]:
        """The grade of every judged passage by id; 1 for relevant passages without grades."""
        return dict(self.grades) if self.grades else dict.fromkeys(self.relevant, RELEVANT_GRADE)

    def relevant_from(self, grade: int) -> "Question":
        """Return the question with only passages of at least this grade as relevant ones."""
        grades = self.grade_of
        relevant = tuple(id_ for id_ in self.relevant if grades.get(id_, RELEVANT_GRADE) >= grade)
        groups = [(group, tuple(id_ for id_ in group if id_ in relevant)) for group in self.groups]
        remaining_groups = tuple(relevant_group for group, relevant_group in groups if relevant_group or not group)
        starts = self.starts if relevant[:1] == self.relevant[:1] else ()  # positions in the first relevant passage
        return replace(self, relevant=relevant, grades=tuple(grades.items()), groups=remaining_groups, starts=starts)

    @property
    def content(self) -> tuple[object, ...]:
        """The fingerprinted values. Optional ones are left out if empty, so that fingerprints of earlier sets stay."""
        values: tuple[object, ...] = (self.id, self.text, self.answers, self.relevant, self.kind)
        values += (self.generator, self.hidden) if self.generator else ()
        optional: dict[str, object] = {}
        optional |= {"grades": self.grades, "groups": self.groups} if self.grades or self.groups else {}
        optional |= {"part": self.part} if self.part else {}
        return (*values, optional) if optional else values


@dataclass(frozen=True)
class QuestionSet:
    """Questions over a corpus. Raises `ValueError` for repeated ids or texts and unknown relevant ids.

    `aliases` maps the id of a merged copy to the id of the passage with its text; no alias is the id of a passage.
    Aliases do not change the fingerprint.
    """

    name: str
    passages: Passages  # any sequence of passages may be given
    questions: tuple[Question, ...]
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "passages", Passages.from_passages(self.passages))
        row_of = self.row_of_passage
        if self.aliases and (row_of.rows(list(self.aliases)) >= 0).any():
            raise ValueError("an alias is the id of another passage")
        if self.aliases and (row_of.rows(list(self.aliases.values())) < 0).any():
            raise ValueError("an alias names an unknown passage")
        if repeated := self.passages.duplicate:
            raise ValueError(f"{repeated} occurs twice")
        seen: set[str] = set()
        for question in self.questions:
            if question.id in seen:
                raise ValueError(f"question id {question.id[:80]!r} occurs twice")
            seen.add(question.id)
        if (self._relevant_rows < 0).any():
            for question in self.questions:
                if unknown := [id_ for id_ in question.relevant if id_ not in row_of]:
                    raise ValueError(f"question {question.id!r} names unknown passages {unknown}")
        named = [id_ for question in self.questions for id_ in chain(dict(question.grades), *question.groups)]
        if (row_of.rows(named) < 0).any():
            unknown = [id_ for id_ in named if id_ not in row_of]
            raise ValueError(f"grades or groups name unknown passages {unknown[:10]}")

    def passage_id(self, id_: str) -> str:
        """Return the id of the stored passage if `id_` is a merged copy, else `id_`."""
        return self.aliases.get(id_, id_)

    @cached_property
    def merged_ids(self) -> dict[str, list[str]]:
        merged = defaultdict[str, list[str]](list)
        for alias, id_ in self.aliases.items():
            merged[id_].append(alias)
        return dict(merged)

    @cached_property
    def alias_fingerprint(self) -> str:
        """sha256 (hexadecimal) of the aliases, for results that depend on them; empty if there are none."""
        pairs = json.dumps(sorted(self.aliases.items()))
        return hashlib.sha256(pairs.encode()).hexdigest() if self.aliases else ""

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hexadecimal) of passages and questions, in order; the name is not content."""
        digest = hashlib.sha256()
        for part in (self.corpus_fingerprint, *(question.content for question in self.questions)):
            digest.update(json.dumps(part, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()

    @property
    def corpus_fingerprint(self) -> str:
        """sha256 (hexadecimal) of the passages without the questions, the key of everything built from the corpus."""
        return self.passages.fingerprint

    @property
    def row_of_passage(self) -> RowOfId:
        return self.passages.row_of

    @cached_property
    def relevance(self) -> csr_array:
        """Relevant passages, boolean `(n_questions, n_passages)`."""
        lengths = [len(question.relevant) for question in self.questions]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shape = (len(self.questions), len(self.passages))
        columns = self._relevant_rows
        matrix = csr_array((np.ones(len(columns), dtype=bool), columns, indptr), shape=shape)
        matrix.sum_duplicates()
        return matrix

    @cached_property
    def gains(self) -> csr_array | None:
        """Grades of the relevant passages, float64 `(n_questions, n_passages)`; None if the data has no grades."""
        if not any(question.grades for question in self.questions):
            return None
        return self._graded(RELEVANT_GRADE)

    @cached_property
    def judged(self) -> csr_array | None:
        """Judged passages, boolean `(n_questions, n_passages)`; None if only relevant ones are known."""
        if self.gains is None:
            return None
        judged = self._graded(0)
        return csr_array((np.ones(judged.nnz, dtype=bool), judged.indices, judged.indptr), shape=judged.shape)

    def _graded(self, min_grade: int) -> csr_array:
        """Grades of at least `min_grade`, float64 `(n_questions, n_passages)`; a grade 0 is stored explicitly."""
        judged = [(row, *pair) for row, question in enumerate(self.questions) for pair in question.grade_of.items()]
        graded = [(row, id_, grade) for row, id_, grade in judged if grade >= min_grade]
        rows, ids, grades = zip(*graded, strict=True) if graded else ((), (), ())
        columns = self.passages.row_of.rows(list(ids))
        values = np.array(grades, dtype=np.float64)
        return csr_array((values, (np.array(rows, dtype=np.int64), columns)), shape=self.relevance.shape)

    @cached_property
    def answerable(self) -> np.ndarray:
        """Rows of the questions with at least one relevant passage, `(n,)` int64."""
        return np.flatnonzero(np.diff(self.relevance.indptr))

    @cached_property
    def generated_counts(self) -> dict[str, int]:
        """The number of synthetic questions by generator, the most frequent first."""
        return dict(Counter(question.generator for question in self.questions if question.generator).most_common())

    def with_questions(self, rows: Sequence[int] | np.ndarray) -> "QuestionSet":
        return replace(self, questions=tuple(self.questions[int(row)] for row in rows))

    def relevant_from(self, grade: int) -> "QuestionSet":
        """Return the set with only passages of at least this grade as relevant ones, without unanswerable questions."""
        if grade == RELEVANT_GRADE:
            return self
        questions = (question.relevant_from(grade) for question in self.questions)
        return replace(self, questions=tuple(question for question in questions if question.relevant))

    @cached_property
    def _relevant_rows(self) -> np.ndarray:
        """Rows of the relevant passages of all questions, concatenated, -1 for unknown ids."""
        return self.passages.row_of.rows([id_ for question in self.questions for id_ in question.relevant])


class QuestionGenerator(StrEnum):
    """How synthetic questions are generated from passages."""

    TITLE = "title"  # the title of an article, for its passages
    SENTENCE = "sentence"  # a sentence, for the rest of its passage: inverse cloze task, Lee et al. 2019
    MODEL = "model"  # written by a language model: doc2query, Nogueira & Lin 2019


_MODEL_PREFIX = f"{QuestionGenerator.MODEL}: "


def generator_label(generator: QuestionGenerator, model: str = "") -> str:
    """Return the value of `Question.generator`, which names the language model if there is one."""
    return f"{_MODEL_PREFIX}{model}" if generator is QuestionGenerator.MODEL else generator.value


def generator_model(label: str) -> str:
    """Return the language model in a value of `Question.generator`, empty if there is none."""
    return label.removeprefix(_MODEL_PREFIX) if label.startswith(_MODEL_PREFIX) else ""


def is_generator_label(text: str) -> bool:
    """Whether `generator_label` returns such a text."""
    return text in (QuestionGenerator.TITLE, QuestionGenerator.SENTENCE) or bool(generator_model(text))


def strip_hidden_text(question_set: QuestionSet) -> QuestionSet:
    """Return the set with the passages for training: without the text of hidden questions.

    Sentences are removed from their passages. If a question is a title, all titles are removed, because passages
    without a title would stand out. Ids, rows and questions stay.
    """
    hidden = [question for question in question_set.questions if question.hidden]
    if not hidden:
        return question_set
    sentence_questions = [question for question in hidden if question.generator != QuestionGenerator.TITLE]
    sentences: defaultdict[str, list[str]] = defaultdict(list)
    for question in sentence_questions:
        for id_ in question.relevant:
            sentences[id_].append(question.text)
    has_titles = len(sentence_questions) == len(hidden)
    passages = Passages.from_passages(
        Passage(p.id, remove_sentences(p.text, sentences.get(p.id, ())), p.title if has_titles else "")
        for p in question_set.passages
    )
    # with a known fingerprint they are not checked for duplicates: two passages may differ only in removed sentences
    return replace(question_set, passages=Passages(passages.table, known=passages.fingerprint))


def remove_sentences(text: str, sentences: Iterable[str]) -> str:
    """Replace every occurrence of the sentences in a text by a space."""
    longest_first = sorted(filter(str.strip, sentences), key=len, reverse=True)
    while match := next((sentence for sentence in longest_first if sentence in text), None):
        text = " ".join(filter(None, map(str.strip, text.split(match))))
    return text


def write_questions(folder: Path, questions: tuple[Question, ...]) -> None:
    """Write the questions into a new folder."""
    fields = [*_SCHEMA, *(field for field in _OPTIONAL if any(getattr(question, field.name) for question in questions))]
    columns = [[getattr(question, field.name) for question in questions] for field in fields]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), folder / FILE, compression="zstd")


def open_questions(folder: Path) -> tuple[Question, ...]:
    """Read the questions of a folder. Raises `OSError`, `TypeError`, `ValueError` or an Arrow error."""
    lists = ("answers", "relevant", "starts", "rejected")  # earlier versions wrote only the first two
    table = pq.read_table(folder / FILE)
    rows = table.rename_columns([_EARLIER_COLUMNS.get(name, name) for name in table.column_names]).to_pylist()
    for row in rows:
        row |= {name: tuple(row.get(name) or ()) for name in lists}
        if row.get("grades") is not None:
            row["grades"] = tuple((entry["id"], entry["grade"]) for entry in row["grades"])
        if row.get("groups") is not None:
            row["groups"] = tuple(map(tuple, row["groups"]))
    return tuple(Question(**row) for row in rows)


def write_question_set(folder: Path, question_set: QuestionSet) -> None:
    """Write a question set without its name into a new folder."""
    write_passages(folder, question_set.passages)
    write_questions(folder, question_set.questions)
    if question_set.aliases:
        columns = [list(question_set.aliases), list(question_set.aliases.values())]
        pq.write_table(pa.table(columns, schema=_ALIAS_SCHEMA), folder / ALIASES, compression="zstd")


def open_question_set(folder: Path, name: str) -> QuestionSet:
    """Open the question set of a folder. Raises `OSError`, `ValueError` or an Arrow error if it cannot be read."""
    aliases: dict[str, str] = {}
    if (folder / ALIASES).exists():  # folders of earlier versions have no aliases
        table = pq.read_table(folder / ALIASES, schema=_ALIAS_SCHEMA)
        aliases = dict(zip(*table.to_pydict().values(), strict=True))
    return QuestionSet(name, open_passages(folder), open_questions(folder), aliases)
