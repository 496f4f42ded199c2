"""One question asked of one retriever, and what the question set knows about that question."""

import threading
from dataclasses import dataclass

import numpy as np

from data.records import QuestionSet, composed
from retrieval.rankings import NOT_FOUND, Retriever

DEPTH = 100  # passages fetched, however few are shown: the rank of the answer passage is looked up among them

# a page that is drawn anew while a search goes on asks the same retriever from a second thread
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Findings:
    """Rows of the corpus found, best first, and their scores, higher is better."""

    rows: tuple[int, ...]
    scores: tuple[float, ...]

    def rank_of(self, row: int) -> int | None:
        """Rank (1 is best) of a passage; None where it was not found."""
        return self.rows.index(row) + 1 if row in self.rows else None


@dataclass(frozen=True)
class Truth:
    """What a question set says of a question: its answers and the corpus rows of its relevant passages."""

    answers: tuple[str, ...]
    rows: tuple[int, ...]


def ask(retriever: Retriever, question: str) -> Findings:
    """Search the first `DEPTH` passages of one question. Raises whatever building the retriever raises."""
    with _one_at_a_time:
        rankings = retriever.search([question], DEPTH)
    found = np.flatnonzero(rankings.indices[0] != NOT_FOUND)
    return Findings(tuple(rankings.indices[0, found].tolist()), tuple(rankings.scores[0, found].tolist()))


def truth_of(question_set: QuestionSet, text: str) -> Truth | None:
    """Return what the set says of the questions with this text; None where it has none."""
    wanted = composed(text)
    same = [question for question in question_set.questions if composed(question.text) == wanted]
    if not same:
        return None
    answers = dict.fromkeys(answer for question in same for answer in question.answers)
    rows = dict.fromkeys(question_set.row_of_passage[id_] for question in same for id_ in question.relevant)
    return Truth(tuple(answers), tuple(rows))
