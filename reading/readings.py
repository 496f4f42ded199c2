"""What a reader finds in passages that were found: for each question and passage its best span, read once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from data.cache import key_of
from data.texts import Texts
from models.readers.reader import SpanReader
from retrieval.rankings import NOT_FOUND, Rankings
from retrieval.rerank import KnownPairs

_BLOCK = 16  # questions between two words of progress
_START, _END, _SCORE, _NOTHING = range(4)


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
        """Read every passage found. Raises `ModelError`."""
        key = key_of(self._reader.fingerprint, self._corpus, list(questions))
        known = KnownPairs(len(self._texts), key, kind="readings", width=4)
        values = known.of(found.indices)
        try:
            for first in range(0, len(questions), _BLOCK):
                rows, places = np.nonzero(np.isnan(values[first : first + _BLOCK, :, _SCORE]))
                rows += first
                if len(rows):
                    passages = found.indices[rows, places]
                    said = self._read([questions[row] for row in rows.tolist()], passages)
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

    def _read(self, questions: Sequence[str], passages: np.ndarray) -> np.ndarray:
        pairs = list(zip(questions, self._texts.at(passages), strict=True))
        spans = self._reader.read(pairs)
        said = (spans.starts[:, 0], spans.ends[:, 0], np.maximum(spans.scores[:, 0], _LEAST), spans.nothing)
        return np.stack(said, axis=1).astype(np.float32)


_LEAST = -1e9  # of a passage without any span: a number, since what is not known yet is none
