"""Scores of answers: exact match and overlap by the rules of a published script, intervals of the means, and slices.

All scripts fold case, remove ASCII punctuation and collapse white space. Their other rules differ:
- KorQuAD 1.0 (Lim et al. 2019): quotation marks and brackets, Korean ones among them, become spaces first. F1 counts
  characters without spaces, since a Korean word carries its particle.
- SQuAD (Rajpurkar et al. 2016, 2018): a, an and the are removed. F1 counts words.
- KLUE-MRC (Park et al. 2021): no other rule. ROUGE-W, as in their script, is the F1 of the longest common substring,
  spaces included.

For a question without answer, only the empty text is right. If normalization empties both texts, the value differs by
script, and these functions return the same.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import write_text
from mrc_workbench.labs.reading.labels import LabelKind, label_questions
from mrc_workbench.retrieval.analysis.questions import Slice, slice_table, slice_tests
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import Pair, PairTest, paired_tests, proportion_intervals, question_groups

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
# the pattern of their script, which hardly matches: one of the marks followed by all of ()‘’
_KLUE_MARKS = re.compile(r"['\"《》<>〈〉]\(\)‘’")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PREDICTIONS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
EXACT = "em"
MIN_SLICE_QUESTIONS = 5  # smaller slices have meaningless means and weaken the other tests


class ReadingError(Failure):
    """Answers that cannot be generated, read or judged; `code` is a key of `reading.` in the locale files."""


class ScoringRules(StrEnum):
    """Published scoring scripts."""

    KORQUAD = "korquad"
    SQUAD = "squad"
    KLUE = "klue"

    @property
    def overlap_name(self) -> str:
        return "rouge_w" if self is ScoringRules.KLUE else "f1"


def normalize_answer(answer: str, rules: ScoringRules) -> str:
    """Return the normalized text for comparison."""
    text = answer.lower()
    if rules is ScoringRules.KORQUAD:
        text = text.translate(_MARKS)
    elif rules is ScoringRules.KLUE:
        text = _KLUE_MARKS.sub(" ", text)
    text = text.translate(_PUNCTUATION)
    if rules is ScoringRules.SQUAD:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split())


def score_answer(prediction: str, gold_answers: Sequence[str], rules: ScoringRules) -> tuple[float, float]:
    """Return exact match and overlap with the best matching right answer, 0 to 1."""
    answer = normalize_answer(prediction, rules)
    references = _normalized_references(tuple(gold_answers), rules)
    if not references:
        is_empty = float(not answer)
        return is_empty, is_empty
    return float(answer in references), max(_overlap(answer, reference, rules) for reference in references)


@lru_cache(maxsize=1 << 16)
def _normalized_references(gold_answers: tuple[str, ...], rules: ScoringRules) -> tuple[str, ...]:
    unique = tuple(dict.fromkeys(normalize_answer(gold_answer, rules) for gold_answer in gold_answers))
    # the script of 2018 skips right answers that normalization empties
    return tuple(filter(None, unique)) if rules is ScoringRules.SQUAD else unique


def _characters(text: str) -> list[str]:
    return list(text.replace(" ", ""))


def _overlap(prediction: str, reference: str, rules: ScoringRules) -> float:
    """Return F1 = 2 P R / (P + R) with P = common / prediction and R = common / reference."""
    if rules is ScoringRules.KLUE:
        if not prediction or not reference:
            return float(prediction == reference)
        common = SequenceMatcher(None, prediction, reference).find_longest_match().size
        total = len(prediction) + len(reference)
    else:
        split = str.split if rules is ScoringRules.SQUAD else _characters
        counts = [Counter(split(text)) for text in (prediction, reference)]
        common = (counts[0] & counts[1]).total()
        total = counts[0].total() + counts[1].total()
    return 2 * common / total if common else 0.0


def read_predictions(path: Path) -> dict[str, str]:
    """Read the answers of a file; the empty text is "no answer". Raises `ReadingError`, `OSError`."""
    try:
        return _PREDICTIONS.validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" at {part!r}" for part in first["loc"][:1])
        form = 'one object of question ids and answers is needed, as {"q1": "서울", "q2": ""}'
        raise ReadingError("bad_predictions", f"{path.name}{where}: {first['msg']}; {form}") from error


def write_predictions(answers: Mapping[str, str], path: Path) -> None:
    """Write answers for `read_predictions` and the published scripts. Raises `OSError`."""
    write_text(path, json.dumps(answers, ensure_ascii=False, indent=1))


@dataclass(frozen=True)
class AnswerScores:
    """Exact match and the rules' overlap of each question, `(n_questions,)` float64 from 0 to 1.

    `intervals` are 95% intervals of the means, with questions about the same passages as groups. `n_missing` questions
    have no prediction and count as wrong. `is_unanswerable` is `(n_questions,)` bool.
    """

    per_question: dict[str, np.ndarray]
    intervals: dict[str, tuple[float, float]]
    n_missing: int
    is_unanswerable: np.ndarray

    def means(self) -> dict[str, float]:
        """Return the means, also of answerable and of unanswerable questions if both exist."""
        means = {name: float(values.mean()) for name, values in self.per_question.items()}
        if self.is_unanswerable.any() and not self.is_unanswerable.all():
            exact = self.per_question[EXACT]
            means["no_answer_accuracy"] = float(exact[self.is_unanswerable].mean())
            for name, values in self.per_question.items():
                means[f"{name}_answerable"] = float(values[~self.is_unanswerable].mean())
        return means


def score_answers(question_set: QuestionSet, answers: Mapping[str, str], rules: ScoringRules) -> AnswerScores:
    """Score answers by question id; a missing answer is wrong, even if "no answer" would be right.

    Raises `ReadingError`: `no_questions`, or `other_questions` if no answer is of the set.
    """
    questions = question_set.questions
    if not questions:
        raise ReadingError("no_questions", f"{question_set.name!r} holds no question")
    predictions = [answers.get(question.id) for question in questions]
    n_missing = sum(prediction is None for prediction in predictions)
    if n_missing == len(questions):
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    values = np.zeros((len(questions), 2))
    for row, (prediction, question) in enumerate(zip(predictions, questions, strict=True)):
        if prediction is not None:
            values[row] = score_answer(prediction, question.answers, rules)
    intervals = proportion_intervals(values, question_groups(question_set))
    names = (EXACT, rules.overlap_name)
    return AnswerScores(
        {name: values[:, column] for column, name in enumerate(names)},
        {name: (float(low), float(high)) for name, (low, high) in zip(names, intervals, strict=True)},
        n_missing,
        np.array([not question.answers for question in questions]),
    )


def compare_readers(question_set: QuestionSet, scores: Mapping[str, AnswerScores]) -> list[PairTest]:
    """Test every pair of readers, scored by the same rules, by each metric."""
    measures: Sequence[str] = [*next(iter(scores.values())).per_question] if scores else []
    pairs = []
    for measure, (a, b) in product(measures, combinations(scores, 2)):
        pairs.append(Pair(a, b, measure, scores[a].per_question[measure], scores[b].per_question[measure]))
    return paired_tests(pairs, question_groups(question_set))


def slice_questions(question_set: QuestionSet, by: LabelKind) -> list[Slice]:
    """Return the slices with at least `MIN_SLICE_QUESTIONS` questions, in the order of the labels."""
    labelled = label_questions(question_set, by)
    parts = (Slice(np.flatnonzero(labelled.codes == code), name) for code, name in enumerate(labelled.names))
    return [part for part in parts if len(part.rows) >= MIN_SLICE_QUESTIONS]


def score_slices(question_set: QuestionSet, scores: Mapping[str, AnswerScores], by: LabelKind) -> pd.DataFrame:
    """Score every reader, by the same rules, on every slice.

    Columns: "measure", "slice" (its label), "questions", "reader", "mean" with its 95% interval "low" to "high", and
    "difference" from the first reader with "difference_low" and "difference_high", as fractions. "p_holm" is corrected
    for all slices and readers of a measure; NaN for the first reader.
    """
    parts = slice_questions(question_set, by)
    groups = question_groups(question_set)
    values = {name: Scores((), reader_scores.per_question) for name, reader_scores in scores.items()}
    tables = []
    measures = [measure for reader_scores in scores.values() for measure in reader_scores.per_question]
    for measure in dict.fromkeys(measures):
        table = slice_table(parts, values, measure, groups).rename(columns={"retriever": "reader"})
        table.insert(0, "measure", measure)
        tables.append(table.assign(p_holm=slice_tests(parts, values, measure, groups)))
    slice_scores = pd.concat(tables, ignore_index=True)
    return slice_scores.assign(slice=[parts[index].label for index in slice_scores["slice"]])
