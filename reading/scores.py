"""How right answers are: exact match and overlap, question by question, how sure the means are, and slices of them.

Slices are parts of the questions that are alike in something, where readers do well or badly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from data.records import QuestionSet
from reading.labels import Property, labels
from reading.rules import ReadingError, Rules, judged
from retrieval.analysis.slices import Slice, slice_table, slice_tests
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.significance import Pair, PairTest, paired_tests, question_groups, share_intervals

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
    """Test every two readers, judged by the same rules, by each measure; see `retrieval.evaluation.significance`."""
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
