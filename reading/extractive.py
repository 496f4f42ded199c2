"""Reading the passage that a question was asked of: what a reader says, and whether it says that there is no answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.records import Question, QuestionSet
from models.readers.reader import SpanReader, Spans
from reading.judge.rules import Rules, judged


@dataclass(frozen=True)
class ReadPassages:
    """What a reader says of one passage for each question.

    `answers` are its best spans, "" of a question without a passage; `scores` `(n_questions,)` those of the spans and
    `nothing` that of no answer, both as in `models.reader.Spans`: -inf and 0 of a question without a passage.
    """

    answers: list[str]
    scores: np.ndarray
    nothing: np.ndarray

    def said(self, threshold: float | None) -> list[str]:
        """The answers; "" where no answer is likelier by more than `threshold`, which None never lets happen."""
        if threshold is None:
            return self.answers
        silent = self.nothing - self.scores > threshold
        return ["" if none else answer for answer, none in zip(self.answers, silent.tolist(), strict=True)]


def read_own_passages(reader: SpanReader, question_set: QuestionSet) -> ReadPassages:
    """Let a reader read, for each question, the first passage that answers it, or else the first told not to."""
    questions = question_set.questions
    rows = own_passages(question_set)
    known = np.flatnonzero(rows >= 0)
    texts = question_set.passages.texts.at(rows[known])
    spans = reader.read([(questions[row].text, text) for row, text in zip(known.tolist(), texts, strict=True)])
    answers, scores, nothing = [""] * len(questions), np.full(len(questions), -np.inf), np.zeros(len(questions))
    scores[known], nothing[known] = spans.scores[:, 0], spans.nothing
    for row, said in zip(known.tolist(), texts_of(spans, texts), strict=True):
        answers[row] = said
    return ReadPassages(answers, scores, nothing)


def own_passages(question_set: QuestionSet) -> np.ndarray:
    """Rows of the passage that each question was asked of, `(n_questions,)` int64; -1 where none is known."""
    row_of = question_set.row_of_passage
    asked = [next(iter((*question.relevant, *question.rejected)), "") for question in question_set.questions]
    rows: np.ndarray = row_of.rows(asked)
    return rows


def texts_of(spans: Spans, passages: Sequence[str], place: int = 0) -> list[str]:
    """The text of one of the spans of each pair, the best unless told otherwise."""
    ends = zip(passages, spans.starts[:, place].tolist(), spans.ends[:, place].tolist(), strict=True)
    return [passage[start:end] for passage, start, end in ends]


def has_unanswerable(questions: Sequence[Question]) -> bool:
    """Whether "no answer" is the right one for some question."""
    return any(not question.answers for question in questions)


def best_threshold(read: ReadPassages, question_set: QuestionSet, rules: Rules) -> float | None:
    """The threshold of the highest mean overlap on these questions, None where every question has an answer.

    Rajpurkar et al. 2018 choose theirs so, on the development set.
    """
    questions = question_set.questions
    if not has_unanswerable(questions):
        return None
    spoken = [judged(said, one.answers, rules)[1] for said, one in zip(read.answers, questions, strict=True)]
    silent = [judged("", one.answers, rules)[1] for one in questions]
    margins = read.nothing - read.scores
    order = np.argsort(margins, kind="stable")
    rising = margins[order]
    # of every way to cut, the first so many by margin speak, and the others are silent; equal ones are not cut apart
    gained = np.concatenate([[0.0], np.cumsum((np.array(spoken) - np.array(silent))[order])])
    cut = np.concatenate([[True], rising[:-1] < rising[1:], [True]])
    best = int(np.where(cut, gained, -np.inf).argmax())
    if best == 0:
        return float(rising[0] - 1)
    low, high = rising[best - 1], rising[best] if best < len(rising) else np.inf
    return float((low + high) / 2 if np.isfinite(high) else low + 1)
