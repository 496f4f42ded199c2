"""Statistics of question sets, the wording that questions and passages share, and reports as lines and as JSON.

Wording is counted in the units of the set's analyzer: words for languages with spaces between words, such as English;
otherwise pairs of neighbouring letters, which match a Korean word with any ending. Alphabets have so few letters that
nearly every English passage contains most letter pairs of a question, so pairs would not be informative there.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from mrc_workbench.data.formats import rows as reports
from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.problems import DataError, Problem
from mrc_workbench.data.questions.read import QuestionSetReading
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod, few_questions
from mrc_workbench.data.subprocess_reader import UnusableFileError
from mrc_workbench.data.texts import Script, script_of

_WORD = re.compile(r"[^\W_]+")
_CHANCE_SAMPLE_SIZE = 1000  # questions that are compared with a random passage
_MAX_LABELS = 5
_MIN_MEAN_REPETITIONS = 5  # of a label
_SPECIAL_CHARACTER = re.compile(r"[\s'()\[\]{}<>&|;*?$`!#~]")  # of a shell
_NO_QUESTION = "No questions: these passages can be searched, and `mrc data generate` generates some to train with"
_MAX_DISPLAYED_PROBLEMS = 10
_MAX_LISTED_FILES = 20
_SAMPLE_ROWS = 2
_SAMPLE_CHARACTERS = 60
OVERLAP_WIDTH = 0.05
MIN_QUESTIONS_FOR_OVERLAP = 30  # with fewer questions the mean overlap is too uncertain


class OverlapUnit(StrEnum):
    """The unit in which wording is counted."""

    WORDS = "words"
    PAIRS = "pairs"


@dataclass(frozen=True)
class Overlap:
    """Fractions of the questions' wording that occur in their passages, 0 to 1; means are NaN without any value."""

    unit: OverlapUnit
    fractions: np.ndarray = field(repr=False)  # (n_answerable,) float64, NaN for a question without any unit
    mean: float
    by_chance: float  # mean over questions, each with a random passage that is not relevant

    @property
    def measured(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.fractions)))


def measure_overlap(question_set: QuestionSet) -> Overlap:
    """Measure the overlap of questions with their passages (`word_overlap`), and of a sample with random passages."""
    unit = overlap_unit(question_set)
    overlaps = word_overlap(question_set)
    rng = np.random.default_rng(0)
    by_chance: list[float] = []
    for row in rng.permutation(question_set.answerable)[:_CHANCE_SAMPLE_SIZE].tolist():
        passage = int(rng.integers(len(question_set.passages)))
        if passage not in relevant_rows(question_set, row):
            by_chance += _overlaps(unit, question_set.passages.texts[passage], [question_set.questions[row].text])
    return Overlap(unit, overlaps, _mean(overlaps), _mean(np.array(by_chance, dtype=np.float64)))


def overlap_unit(question_set: QuestionSet) -> OverlapUnit:
    """Return the unit for the script of a set's passages."""
    return OverlapUnit.WORDS if script_of(question_set.passages.texts) is Script.SPACED else OverlapUnit.PAIRS


def word_overlap(question_set: QuestionSet) -> np.ndarray:
    """Return the fraction of each question's wording that occurs in its passage, `(n_answerable,)` float64, 0 to 1.

    Overlap = |U(question) ∩ U(passage)| / |U(question)|, where U(text) are the distinct words of the lower-cased text,
    or the pairs of neighbouring letters or digits in words (`overlap_unit`). The relevant passage with the highest
    value counts; questions without units are NaN. High values favour lexical search.
    """
    unit = overlap_unit(question_set)
    overlap = np.full(len(question_set.questions), np.nan)
    by_passage = question_set.relevance.tocsc()
    for column in np.flatnonzero(np.diff(by_passage.indptr)).tolist():
        rows = by_passage.indices[by_passage.indptr[column] : by_passage.indptr[column + 1]].tolist()
        texts = [question_set.questions[row].text for row in rows]
        overlap[rows] = np.fmax(overlap[rows], _overlaps(unit, question_set.passages.texts[column], texts))
    return np.asarray(overlap[question_set.answerable])


def words(text: str) -> frozenset[str]:
    """Return the distinct words, in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def bigrams(text: str) -> frozenset[str]:
    """Return the distinct pairs of neighbouring letters or digits inside the words, in lower case."""
    return frozenset(chain.from_iterable(map(add, word, word[1:]) for word in words(text)))


def _overlaps(unit: OverlapUnit, passage: str, questions: list[str]) -> list[float]:
    """Return the fraction of each question's units that occur in a passage, NaN for a question without units."""
    # a pair of letters never spans two words
    passage_units = words(passage) if unit is OverlapUnit.WORDS else passage.lower()
    question_units = map(words if unit is OverlapUnit.WORDS else bigrams, questions)
    return [sum(map(passage_units.__contains__, units)) / len(units) if units else np.nan for units in question_units]


def _mean(overlaps: np.ndarray) -> float:
    measured = overlaps[~np.isnan(overlaps)]
    return float(measured.mean()) if len(measured) else float("nan")


@dataclass(frozen=True)
class Audit:
    """The statistics of a question set; lengths are in characters."""

    passage_count: int
    question_count: int
    unanswerable_count: int
    article_count: int  # different titles
    passages_without_question: int
    questions_per_passage: np.ndarray = field(repr=False)  # (n_passages,) int64
    passage_lengths: np.ndarray = field(repr=False)  # (n_passages,) int64
    question_lengths: np.ndarray = field(repr=False)  # (n_questions,) int64
    overlap: Overlap
    duplicate_questions: dict[str, tuple[str, ...]]  # text -> the ids of the questions that ask it
    missing_answer_ids: tuple[str, ...]  # ids of questions with an answer in none of their passages
    labels: tuple[str, ...]  # the answers, if they are a few labels such as True and False, and not in the passages
    kinds: dict[str, int]  # question kind -> count, the most frequent first
    generated_counts: dict[str, int]  # generator -> number of its questions, the most frequent first


def audit(question_set: QuestionSet) -> Audit:
    """Compute the statistics of a question set."""
    passages = question_set.passages
    questions = question_set.questions
    question_counts = np.bincount(question_set.relevance.indices, minlength=len(passages))
    missing_answer_ids = _ids_with_missing_answers(question_set)
    ids = defaultdict(list)
    for question in questions:
        ids[question.text].append(question.id)
    return Audit(
        passage_count=len(passages),
        question_count=len(questions),
        unanswerable_count=len(questions) - len(question_set.answerable),
        article_count=len(set(pc.unique(passages.titles.column).to_pylist()) - {""}),
        passages_without_question=int((question_counts == 0).sum()),
        questions_per_passage=question_counts.astype(np.int64),
        passage_lengths=passages.texts.lengths(),
        question_lengths=np.array([len(question.text) for question in questions], dtype=np.int64),
        overlap=measure_overlap(question_set),
        duplicate_questions={text: tuple(same) for text, same in ids.items() if len(same) > 1},
        missing_answer_ids=missing_answer_ids,
        labels=_labels(question_set, missing_answer_ids),
        kinds=dict(Counter(question.kind for question in questions if question.kind).most_common()),
        generated_counts=question_set.generated_counts,
    )


def _ids_with_missing_answers(question_set: QuestionSet) -> tuple[str, ...]:
    text_at = lru_cache(maxsize=1_024)(question_set.passages.texts.__getitem__)  # questions often share a passage
    ids = []
    for row, question in enumerate(question_set.questions):
        passages = [text_at(column) for column in relevant_rows(question_set, row)] if question.answers else []
        if passages and any(all(answer not in text for text in passages) for answer in question.answers):
            ids.append(question.id)
    return tuple(ids)


def relevant_rows(question_set: QuestionSet, row: int) -> list[int]:
    """Return the rows of the passages that are relevant to the question at a row."""
    starts = question_set.relevance.indptr
    rows: list[int] = question_set.relevance.indices[starts[row] : starts[row + 1]].tolist()
    return rows


def _labels(question_set: QuestionSet, missing_answer_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the answers, the most frequent first, if they are few, repeated, and mostly in no passage."""
    given = [answer for question in question_set.questions for answer in question.answers]
    counts = Counter(answer.strip() for answer in given)
    answered = sum(bool(question.answers) for question in question_set.questions)
    are_few = 0 < len(counts) <= _MAX_LABELS and len(given) >= _MIN_MEAN_REPETITIONS * len(counts)
    are_labels = are_few and 2 * len(missing_answer_ids) > answered
    return tuple(label for label, _ in counts.most_common()) if are_labels else ()


class OverlapLevel(StrEnum):
    """The level of a mean overlap above chance: lexical search is strong on KorQuAD (0.67), weak at 0.17."""

    HIGH = "high"
    MIDDLE = "middle"
    LOW = "low"
    UNKNOWN = "unknown"
    FEW = "few"  # too few questions


def overlap_level(overlap: Overlap) -> OverlapLevel:
    """Return the level of the mean above chance, `(mean - by_chance) / (1 - by_chance)`."""
    chance = 0.0 if np.isnan(overlap.by_chance) else overlap.by_chance
    if np.isnan(overlap.mean) or chance >= 1:
        return OverlapLevel.UNKNOWN
    if overlap.measured < MIN_QUESTIONS_FOR_OVERLAP:
        return OverlapLevel.FEW
    above = (overlap.mean - chance) / (1 - chance)
    return OverlapLevel.HIGH if above >= 0.55 else OverlapLevel.MIDDLE if above >= 0.35 else OverlapLevel.LOW


def histogram(values: np.ndarray, width: float = 0.0, max_bins: int = 40) -> pd.DataFrame:
    """Count values by range: a row per range, also empty ones, with the columns "from", "to" and "count".

    A range includes `from` and excludes `to`; with a given `width` the last range includes both. `width` 0 selects the
    smallest of 1, 2, 5, 10, 20, 50... that needs at most `max_bins` ranges. NaN are skipped.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return pd.DataFrame({"from": [], "to": [], "count": []})
    widths = (step * 10**power for power in range(18) for step in (1, 2, 5))
    spread = float(known.max() - known.min())
    step = width or float(next(candidate for candidate in widths if spread / candidate <= max_bins - 2))
    first = int(known.min() / step)
    last = int(np.ceil(known.max() / step)) if width else int(known.max() / step) + 1
    edges = np.arange(first, max(last, first + 1) + 1) * step
    counts, _ = np.histogram(known, edges)
    return pd.DataFrame({"from": edges[:-1], "to": edges[1:], "count": counts})


def kinds_table(question_set: QuestionSet, result: Audit) -> pd.DataFrame:
    """Return a row per question kind: columns "kind", "count", "share" of all questions, and mean "overlap"."""
    kinds = [question_set.questions[row].kind for row in question_set.answerable]
    overlap = pd.Series(result.overlap.fractions).groupby(kinds).mean()
    counts = result.kinds.items()
    rows = [(kind, count, count / result.question_count, overlap.get(kind, np.nan)) for kind, count in counts]
    return pd.DataFrame(rows, columns=["kind", "count", "share", "overlap"])


def find_passage_rows(question_set: QuestionSet, text: str) -> np.ndarray:
    """Return the rows, ascending, of passages with `text` in their text, title or questions, ignoring case."""
    query = text.strip().lower()
    passages = question_set.passages
    if not query:
        return np.arange(len(passages))
    is_match = passages.texts.containing(query) | passages.titles.containing(query)
    question_rows = [row for row, question in enumerate(question_set.questions) if query in question.text.lower()]
    is_match[question_set.relevance[question_rows].indices] = True
    return np.flatnonzero(is_match)


def group_questions_by_passage(question_set: QuestionSet, rows: Sequence[int]) -> dict[int, list[Question]]:
    """Return the questions about each passage at `rows`, in the set's order."""
    by_passage = question_set.relevance[:, list(rows)].tocsc()
    rows_by_passage = np.split(by_passage.indices, by_passage.indptr[1:-1])
    return {
        row: [question_set.questions[question_row] for question_row in sorted(question_rows)]
        for row, question_rows in zip(rows, rows_by_passage, strict=False)
    }


def reading_lines(reading: QuestionSetReading) -> list[str]:
    """Return lines about the content of the files, the columns, and the problems."""
    questions = reading.question_set.questions
    passages = f"{len(reading.question_set.passages):,} passages"
    encoding = f", {reading.encoding}" if reading.encoding else ""
    if reading.layout is None:
        rows = f"{reading.row_count:,} rows -> {len(questions):,} questions"
        lines = [f"{reading.question_set.name}: {reading.format}{encoding}"]
        lines.append(f"{reading.paragraph_count:,} paragraphs -> {passages}; {rows}")
        if reading.columns and (named := reports.format_columns(reading.columns)):
            lines.append(f"Columns: {named}")
    else:
        graded = sum(bool(question.grades) for question in questions)
        grouped = sum(bool(question.groups) for question in questions)
        counts = [passages, f"{len(questions):,} questions", f"{reading.judgement_count:,} judgements"]
        counts += [f"{graded:,} questions with grades"] if graded else []
        counts += [f"{grouped:,} with groups"] if grouped else []
        lines = [f"{reading.question_set.name}: laid out as {reading.layout}", ", ".join(counts)]
    row_counts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)  # many files are grouped by form
    for file in reading.files:
        form = ", ".join(filter(None, (file.role, file.format, file.encoding)))
        row_counts[file.name if len(reading.files) <= _MAX_LISTED_FILES else "", form].append(file.row_count)
    for (name, form), counted in row_counts.items():
        lines.append(f"  {name or f'{len(counted):,} files'}: {form}; {sum(counted):,} rows")
    lines += reports.column_lines(reading, reading.columns)
    lines += [] if questions else [_NO_QUESTION]
    return [*lines, *(f"  {gap.message}" for gap in reading.gaps), *reports.problem_lines(reading)]


def audit_lines(result: Audit) -> list[str]:
    """Return lines about counts, lengths, shared wording and questionable questions."""
    overlap = "not measurable"
    if not math.isnan(result.overlap.mean):
        unit_noun = {OverlapUnit.WORDS: "words", OverlapUnit.PAIRS: "letter pairs"}[result.overlap.unit]
        by_chance = "-" if math.isnan(result.overlap.by_chance) else f"{result.overlap.by_chance:.1%}"
        overlap = f"{result.overlap.mean:.1%} of the {unit_noun}; by chance {by_chance}"
    passage_lengths = reports.format_range(result.passage_lengths)
    lines = [
        f"Articles: {result.article_count:,}; passages without a question: "
        f"{result.passages_without_question:,}; unanswerable questions: {result.unanswerable_count:,}",
        f"Characters a passage: {passage_lengths}; a question: {reports.format_range(result.question_lengths)}",
        f"Wording that question and passage share: {overlap}",
        f"Questions asked more than once: {len(result.duplicate_questions):,}; "
        f"answers not found in their passage: {len(result.missing_answer_ids):,}",
    ]
    if result.labels:
        lines.append(f"The answers are labels, not parts of passages: {', '.join(result.labels)}")
    if result.kinds:
        lines.append(f"Kinds: {reports.format_counts(result.kinds)}")
    if result.generated_counts:
        lines.append(f"Synthetic questions, generated from passages: {reports.format_counts(result.generated_counts)}")
    return lines


def split_lines(parts: Split) -> list[str]:
    """Return lines about the split of the answerable questions, and warnings of small parts."""
    group_noun = "groups" if parts.method is SplitMethod.GROUPED else "relevant passages"
    counts = (f"{part} {len(parts.rows[part]):,} ({parts.group_counts[part]:,} {group_noun})" for part in PARTS)
    return [f"Split of the answerable questions, {parts.description}: {', '.join(counts)}", *_split_warnings(parts)]


def _split_warnings(parts: Split) -> list[str]:
    counts = {part: len(parts.rows[part]) for part in PARTS} if len(parts.rows[Part.ALL]) else {}
    return [warning for part, count in counts.items() if (warning := few_questions(count, f"{part} questions"))]


def rejection_lines(error: DataError) -> list[str]:
    """Return lines with an error, the first unusable rows, and flags that select columns or an encoding."""
    rows = [problem.message for problem in error.others if problem.leaves_out_row][:_MAX_DISPLAYED_PROBLEMS]
    lines = [str(error), *(f"  {row}" for row in rows), *(problem.message for problem in error.file_problems)]
    if not isinstance(error, UnusableFileError):
        return lines
    proposal = error.proposal
    if proposal.candidates:
        lines.append("Possible readings:")
    for columns in proposal.candidates:
        roles = {role: name for role, name in asdict(columns).items() if name is not None}
        named = [f"{role}={name}" for role, name in roles.items()]
        quoted = [f'"{word}"' if _SPECIAL_CHARACTER.search(word) else word for word in named]
        lines.append(f"  --columns {' '.join(quoted)}")
        for row in proposal.first_rows[:_SAMPLE_ROWS]:
            cells = (f"{role}: {display_text(row.get(name, ''), _SAMPLE_CHARACTERS)}" for role, name in roles.items())
            lines.append(f"    {' | '.join(cells)}")
    if proposal.encodings:
        lines.append("Possible encodings:")
    return [*lines, *(f"  --encoding {encoding.name}    {encoding.sample}" for encoding in proposal.encodings)]


def as_json(reading: QuestionSetReading, result: Audit, parts: Split, notes: Sequence[Problem]) -> dict[str, Any]:
    """Return the content of the files, the audit, the split, and notes about the texts."""
    split = {"seed": parts.options.seed, **parts.summary(), "groups": parts.group_counts}
    columns = ["name", "role", "format", "rows", "left_out"]
    files = [(file.name, file.role, file.format, file.row_count, file.left_out) for file in reading.files]
    return {
        "name": reading.question_set.name,
        "fingerprint": reading.question_set.fingerprint,
        "paragraph_count": reading.paragraph_count,
        **reports.reading_as_json(reading, reading.columns),
        "layout": reading.layout,
        "judgement_count": reading.judgement_count,
        "files": [dict(zip(columns, values, strict=True)) for values in files],
        "gaps": [{"code": gap.code, "message": gap.message, **gap.details} for gap in reading.gaps],
        "notices": [{"code": note.code, "message": note.message, **note.details} for note in notes],
        "audit": reports.value_as_json(result),
        "split": {**split, "warnings": _split_warnings(parts)},
    }


def dataset_as_json(reading: QuestionSetReading, result: Audit, parts: Split, names: Sequence[str]) -> dict[str, Any]:
    """Return counts, files and columns; `names` are the files of a reading that does not list them."""
    return {
        "articles": result.article_count,
        "split": {part: len(parts.rows[part]) for part in PARTS},
        "published_split": parts.is_published,
        "files": [file.name for file in reading.files] or list(names),
        **reports.columns_as_json(reading),
    }


def records_as_json(question_set: QuestionSet) -> dict[str, Any]:
    """Return all passages, and all questions with the grade of every judged passage."""
    passages = [{"id": known.id, "title": known.title, "text": known.text} for known in question_set.passages]
    questions = []
    for question in question_set.questions:
        grades = {**question.grade_of, **dict.fromkeys(question.rejected, 0)}
        answers = {"answers": question.answers, "starts": question.starts}
        questions.append({"id": question.id, "text": question.text, "grades": grades, **answers})
    return {"passages": passages, "questions": questions}
