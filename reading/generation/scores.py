"""How good generated answers are: are they right, do their citations hold, and do they refuse where they should?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data.records import Question, QuestionSet
from reading.generation.citations import Support, checked
from reading.generation.containment import contains
from reading.generation.generator import GeneratedAnswer
from reading.judge.rules import ReadingError, Rules, judged
from reading.judge.scores import EXACT
from retrieval.evaluation.significance import question_groups, share_intervals

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
    being no answer; `contains`: a right answer is in it, see `reading.generation.containment`. Of those that did not
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
        """The mean of every measure that is about any question."""
        return {name: float(np.nanmean(self.per_question[name])) for name in self.intervals}


def generated_scores(
    question_set: QuestionSet, answers: Mapping[str, GeneratedAnswer], rules: Rules
) -> GeneratedScores:
    """Judge answers by question id.

    Raises `ReadingError` where none is of a question of the set (`other_questions`).
    """
    questions = question_set.questions
    rows = [row for row, question in enumerate(questions) if question.id in answers]
    if not rows:
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    told = [_measured(questions[row], answers[questions[row].id], rules) for row in rows]
    per_question = {name: np.full(len(questions), np.nan) for name in _names(rules)}
    for row, values in zip(rows, told, strict=True):
        for name, value in values.items():
            per_question[name][row] = value
    groups = question_groups(question_set)
    intervals = {name: _interval(values, groups) for name, values in per_question.items() if not np.isnan(values).all()}
    return GeneratedScores(per_question, intervals, len(questions) - len(rows))


def _names(rules: Rules) -> tuple[str, ...]:
    cited = (CONTAINS, CITES, CITATIONS_HOLD, CITES_NEVER_SENT)
    return EXACT, rules.overlap_name, *cited, REFUSED_WITH_PASSAGE, REFUSED_WITHOUT_PASSAGE


def _measured(question: Question, answer: GeneratedAnswer, rules: Rules) -> dict[str, float]:
    """The values of the measures that are about an answer."""
    exact, overlap = judged(answer.prediction, question.answers, rules)
    held = any(contains(answer.prediction, right, rules) for right in question.answers)
    values = {EXACT: exact, rules.overlap_name: overlap, CONTAINS: float(held) if question.answers else exact}
    found = any(passage.id in question.relevant for passage in answer.sent)
    values[REFUSED_WITH_PASSAGE if found else REFUSED_WITHOUT_PASSAGE] = float(answer.refused)
    return values if answer.refused else values | _citations(answer, rules)


def _citations(answer: GeneratedAnswer, rules: Rules) -> dict[str, float]:
    support = [citation.support for citation in checked(answer.cited, answer.sent, rules)]
    values = {CITES: float(bool(support)), CITES_NEVER_SENT: float(Support.NEVER_SENT in support)}
    return values | ({CITATIONS_HOLD: support.count(Support.HOLDS) / len(support)} if support else {})


def _interval(values: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    about = ~np.isnan(values)
    _, drawn = np.unique(groups[about], return_inverse=True)  # without gaps
    ((low, high),) = share_intervals(values[about, None], drawn)
    return float(low), float(high)
