"""Slices of judged answers: parts of the questions that are alike in something, where readers do well or badly."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from data.records import QuestionSet
from reading.judge.labels import Property, labels
from reading.scores import AnswerScores
from retrieval.analysis.slices import Slice, slice_table, slice_tests
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.significance import question_groups

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
