"""How right answers are: exact match and overlap, question by question, how sure the means are, and slices of them.

Slices are parts of the questions that are alike in something, where readers do well or badly. Of generated answers it
is counted besides what they cite, and where they refuse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.labs.reading.generator import GeneratedAnswer, Support, checked, contains
from mrc_workbench.labs.reading.labels import Property, labels
from mrc_workbench.labs.reading.rules import ReadingError, Rules, judged
from mrc_workbench.retrieval.analysis.questions import Slice, slice_table, slice_tests
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import (
    Pair,
    PairTest,
    paired_tests,
    question_groups,
    share_intervals,
)

EXACT = "em"


@dataclass(frozen=True)
class AnswerScores:
    """Values of each question by measure, `(n_questions,)` float64 from 0 to 1: exact match, and the rules' overlap.

    `intervals` are those of the means, at 95%, with questions about the same passages drawn together. `unsaid` counts
    the questions that nothing was said of, which is wrong. `without_answer` `(n_questions,)` bool are those that nobody
    can answer.
    """

    per_question: dict[str, np.ndarray]
    intervals: dict[str, tuple[float, float]]
    unsaid: int
    without_answer: np.ndarray

    def means(self) -> dict[str, float]:
        """Of every measure; of questions with and without answers alone, too, where there are both."""
        told = {name: float(values.mean()) for name, values in self.per_question.items()}
        if self.without_answer.any() and not self.without_answer.all():
            exact = self.per_question[EXACT]
            told["no_answer_accuracy"] = float(exact[self.without_answer].mean())
            for name, values in self.per_question.items():
                told[f"{name}_answerable"] = float(values[~self.without_answer].mean())
        return told


def scored(question_set: QuestionSet, answers: Mapping[str, str], rules: Rules) -> AnswerScores:
    """Judge answers by question id. A question that has none is wrong, also where "no answer" would be right.

    Raises `ReadingError` where the set has no questions (`no_questions`), or no answer is of any of them
    (`other_questions`).
    """
    questions = question_set.questions
    if not questions:
        raise ReadingError("no_questions", f"{question_set.name!r} holds no question")
    said = [answers.get(question.id) for question in questions]
    unsaid = sum(one is None for one in said)
    if unsaid == len(questions):
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    answered = zip(said, questions, strict=True)
    values = np.array([(0, 0) if one is None else judged(one, of.answers, rules) for one, of in answered], np.float64)
    intervals = share_intervals(values, question_groups(question_set))
    names = (EXACT, rules.overlap_name)
    return AnswerScores(
        {name: values[:, place] for place, name in enumerate(names)},
        {name: (float(low), float(high)) for name, (low, high) in zip(names, intervals, strict=True)},
        unsaid,
        np.array([not question.answers for question in questions]),
    )


def compared(question_set: QuestionSet, scores: Mapping[str, AnswerScores]) -> list[PairTest]:
    """Test every two readers, judged by the same rules, by each measure; see `retrieval.significance`."""
    measures: Sequence[str] = [*next(iter(scores.values())).per_question] if scores else []
    pairs = [
        Pair(a, b, measure, scores[a].per_question[measure], scores[b].per_question[measure])
        for measure in measures
        for a, b in combinations(scores, 2)
    ]
    return paired_tests(pairs, question_groups(question_set))


FEWEST = 5  # questions of a slice: of fewer a mean says nothing, and every test made takes from the others


def slices(question_set: QuestionSet, by: Property) -> list[Slice]:
    """Cut a set into slices of at least `FEWEST` questions, by label in its order; smaller ones are left out."""
    found = labels(question_set, by)
    parts = (Slice(np.flatnonzero(found.codes == code), name) for code, name in enumerate(found.names))
    return [part for part in parts if len(part.rows) >= FEWEST]


def slice_figures(question_set: QuestionSet, scores: Mapping[str, AnswerScores], by: Property) -> pd.DataFrame:
    """Measure every reader on every slice, a row for each of their measures: those of the same rules.

    Columns: "measure", "slice" (its label), "questions", "reader", "mean" with its 95% interval "low" to "high", and
    "difference" from the first reader with "difference_low" to "difference_high", as `slice_table` of retrieval has
    them: shares, questions about the same passages drawn together. "p_holm" is for whoever looks at all slices and
    readers of a measure; NaN for the first reader. There is at least one reader.
    """
    parts, groups = slices(question_set, by), question_groups(question_set)
    values = {name: Scores((), one.per_question) for name, one in scores.items()}
    tables = []
    for measure in dict.fromkeys(measure for one in values.values() for measure in one.per_question):
        table = slice_table(parts, values, measure, groups).rename(columns={"retriever": "reader"})
        table.insert(0, "measure", measure)
        tables.append(table.assign(p_holm=slice_tests(parts, values, measure, groups)))
    figures = pd.concat(tables, ignore_index=True)
    return figures.assign(slice=[parts[place].label for place in figures["slice"]])


CONTAINS = "contains"
CITES = "cites"
CITATIONS_HOLD = "citations_hold"
CITES_NEVER_SENT = "cites_never_sent"
REFUSED_WITH_PASSAGE = "refused_with_passage"
REFUSED_WITHOUT_PASSAGE = "refused_without_passage"


@dataclass(frozen=True)
class GeneratedScores:
    """Values of each question by measure, `(n_questions,)` float64 from 0 to 1, NaN where a measure is not about it.

    Of every question with an answer: exact match and the rules' overlap, of the answer without citations, a refusal
    being no answer; `contains`: a right answer is in it, see `contains`. Of those that did not
    refuse: `cites` any passage, `cites_never_sent`: a number that was never sent. Of those that cite:
    `citations_hold`, the share of its citations that hold its words. Of those to whom a relevant passage was sent,
    `refused_with_passage`; of the others `refused_without_passage`, which is right. Higher is better but for
    `cites_never_sent` and `refused_with_passage`.

    `intervals` are those of the means, at 95%, with questions about the same passages drawn together. `unanswered`
    counts the questions without an answer, which no measure is about: nobody knows what would have been said.
    """

    per_question: dict[str, np.ndarray]
    intervals: dict[str, tuple[float, float]]
    unanswered: int

    def means(self) -> dict[str, float]:
        """Of every measure that is about any question."""
        return {name: float(np.nanmean(self.per_question[name])) for name in self.intervals}


def generated_scores(
    question_set: QuestionSet, answers: Mapping[str, GeneratedAnswer], rules: Rules
) -> GeneratedScores:
    """Judge answers by question id. Raises `ReadingError` (`other_questions`) where none is of the set."""
    questions = question_set.questions
    rows = [row for row, question in enumerate(questions) if question.id in answers]
    if not rows:
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    told = [_measured(questions[row], answers[questions[row].id], rules) for row in rows]
    citing = (CITES, CITATIONS_HOLD, CITES_NEVER_SENT)
    names = (EXACT, rules.overlap_name, CONTAINS, *citing, REFUSED_WITH_PASSAGE, REFUSED_WITHOUT_PASSAGE)
    per_question = {name: np.full(len(questions), np.nan) for name in names}
    for row, values in zip(rows, told, strict=True):
        for name, value in values.items():
            per_question[name][row] = value
    groups = question_groups(question_set)
    intervals = {name: _interval(values, groups) for name, values in per_question.items() if not np.isnan(values).all()}
    return GeneratedScores(per_question, intervals, len(questions) - len(rows))


def _measured(question: Question, answer: GeneratedAnswer, rules: Rules) -> dict[str, float]:
    exact, overlap = judged(answer.prediction, question.answers, rules)
    held = any(contains(answer.prediction, right, rules) for right in question.answers)
    values = {EXACT: exact, rules.overlap_name: overlap, CONTAINS: float(held) if question.answers else exact}
    found = any(passage.id in question.relevant for passage in answer.sent)
    values[REFUSED_WITH_PASSAGE if found else REFUSED_WITHOUT_PASSAGE] = float(answer.refused)
    if not answer.refused:
        support = [citation.support for citation in checked(answer.cited, answer.sent, rules)]
        values |= {CITES: float(bool(support)), CITES_NEVER_SENT: float(Support.NEVER_SENT in support)}
        if support:
            values[CITATIONS_HOLD] = support.count(Support.HOLDS) / len(support)
    return values


def _interval(values: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    about = ~np.isnan(values)
    _, drawn = np.unique(groups[about], return_inverse=True)  # without gaps
    ((low, high),) = share_intervals(values[about, None], drawn)
    return float(low), float(high)
