"""Looking around in a question set: passages that hold a text, their questions, and where the answers stand."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from data.records import Question, QuestionSet


def passages_with(question_set: QuestionSet, text: str) -> np.ndarray:
    """Return the rows of the passages whose text, title or questions hold `text`, in any case; "" is in all.

    Ascending, `(n_found,)` int64.
    """
    wanted, passages = text.strip().lower(), question_set.passages
    if not wanted:
        return np.arange(len(passages))
    held = passages.texts.holding(wanted) | passages.titles.holding(wanted)
    asked = [place for place, question in enumerate(question_set.questions) if wanted in question.text.lower()]
    held[question_set.relevance[asked].indices] = True
    return np.flatnonzero(held)


def questions_of(question_set: QuestionSet, rows: Sequence[int]) -> dict[int, list[Question]]:
    """Return the questions about each of the passages at `rows`, in the set's order."""
    asked: defaultdict[int, list[Question]] = defaultdict(list)
    by_passage = question_set.relevance[:, list(rows)].tocsc()
    for place, row in enumerate(rows):
        found = by_passage.indices[by_passage.indptr[place] : by_passage.indptr[place + 1]]
        asked[row] = [question_set.questions[question] for question in sorted(found)]
    return dict(asked)
