"""What readers find in passages: of each question and passage that was found the best span, read once.

And in the passage that a question was asked of, where a reader may say that there is no answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from data.cache import key_of
from data.records import QuestionSet
from data.texts import Texts
from models.reader import SpanReader
from reading.rules import Rules, judged
from retrieval.rankings import NOT_FOUND, Rankings
from retrieval.rerank import KnownPairs

_BLOCK = 16  # questions between two words of progress
_START, _END, _SCORE, _NOTHING = range(4)
_LEAST = -1e9  # of a passage without any span: a number, since what is not known yet is none


@dataclass(frozen=True)
class Readings:
    """Of each question and each of its passages `(n_questions, depth)`: the letters that the best span begins with and
    ends before (int64), its score and that of "no answer" (float32, see `models.reader.Spans`).

    Where there is no passage both letters are 0, and the scores -inf and 0.
    """

    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    nothing: np.ndarray


class CorpusReader:
    """Lets a reader read passages of a corpus, `texts` with the fingerprint `corpus`, and keeps what it said.

    It is kept by what reader, corpus and questions are: another retriever, or a greater depth, reads only pairs that
    are new.
    """

    def __init__(
        self, reader: SpanReader, texts: Texts, corpus: str, on_progress: Callable[[float], None] | None = None
    ) -> None:
        self._reader, self._texts, self._corpus, self._on_progress = reader, texts, corpus, on_progress

    def of(self, questions: Sequence[str], found: Rankings) -> Readings:
        """Raises `ModelError`."""
        key = key_of(self._reader.fingerprint, self._corpus, list(questions))
        known = KnownPairs(len(self._texts), key, kind="readings", width=4)
        values = known.of(found.indices)
        try:
            for first in range(0, len(questions), _BLOCK):
                rows, places = np.nonzero(np.isnan(values[first : first + _BLOCK, :, _SCORE]))
                rows += first
                if len(rows):
                    passages = found.indices[rows, places]
                    asked = [questions[row] for row in rows.tolist()]
                    spans = self._reader.read(list(zip(asked, self._texts.at(passages), strict=True)))
                    best = np.maximum(spans.scores[:, 0], _LEAST)
                    said = np.stack([spans.starts[:, 0], spans.ends[:, 0], best, spans.nothing], 1).astype(np.float32)
                    known.add(rows, passages, said, load_seconds=0.0, seconds=0.0)
                    values[rows, places] = said
                if self._on_progress:
                    self._on_progress(min(1.0, (first + _BLOCK) / len(questions)))
        finally:
            known.write()
        missing = found.indices == NOT_FOUND
        letters = np.where(missing[..., None], 0, values[..., :_SCORE]).astype(np.int64)
        scores = np.where(missing, -np.inf, values[..., _SCORE])
        return Readings(letters[..., _START], letters[..., _END], scores, np.where(missing, 0, values[..., _NOTHING]))


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
    for row, text, start, end in zip(known, texts, spans.starts[:, 0], spans.ends[:, 0], strict=True):
        answers[row] = text[start:end]
    return ReadPassages(answers, scores, nothing)


def own_passages(question_set: QuestionSet) -> np.ndarray:
    """Rows of the passage that each question was asked of, `(n_questions,)` int64; -1 where none is known."""
    row_of = question_set.row_of_passage
    asked = [next(iter((*question.relevant, *question.rejected)), "") for question in question_set.questions]
    rows: np.ndarray = row_of.rows(asked)
    return rows


def best_threshold(read: ReadPassages, question_set: QuestionSet, rules: Rules) -> float | None:
    """The threshold of the highest mean overlap on these questions, None where every question has an answer.

    Rajpurkar et al. 2018 choose theirs so, on the development set.
    """
    questions = question_set.questions
    if all(question.answers for question in questions):
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
