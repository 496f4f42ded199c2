"""Question sets with known shared passages."""

from collections.abc import Iterable, Sequence

import numpy as np

from mrc_workbench.data.records import Passage, Question, QuestionSet


def set_of(
    relevant: Iterable[Iterable[int]], n_passages: int, titles: Sequence[str] = (), parts: Sequence[str] = ()
) -> QuestionSet:
    """Return a set by the rows of the passages that are relevant to each question; titles repeat in their order."""
    title_of = [titles[row % len(titles)] if titles else "" for row in range(n_passages)]
    passages = tuple(Passage(f"p{row}", f"passage {row}", title) for row, title in enumerate(title_of))
    questions = []
    for row, of_question in enumerate(relevant):
        ids = tuple(f"p{index}" for index in of_question)
        questions.append(Question(f"q{row}", f"question {row}", relevant=ids, part=parts[row] if parts else ""))
    return QuestionSet("world", passages, tuple(questions))


def chain(n_questions: int, more_passages: int = 0, parts: Sequence[str] = ()) -> QuestionSet:
    """Each question shares a passage with the previous and the next question."""
    rows = ((row, row + 1) for row in range(n_questions))
    return set_of(rows, n_questions + 1 + more_passages, parts=parts)


def faq(answers: int, questions_each: int) -> QuestionSet:
    """Each passage answers several questions."""
    return set_of(([row % answers] for row in range(answers * questions_each)), answers)


def tangle(n_questions: int, seed: int = 0) -> QuestionSet:
    """All questions share a passage and have further random passages."""
    rng = np.random.default_rng(seed)
    return set_of(([0, *rng.choice(np.arange(1, 400), 5, replace=False)] for _ in range(n_questions)), 400)
