"""A cross-encoder's scores of question-passage pairs, each computed once on this machine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple

import numpy as np

from data.cache import key_of, read_arrays, write_arrays
from data.texts import fingerprint_of
from models.meter import Meter
from models.protocols import PairScorer, WindowScorer
from models.windows import WindowOptions
from retrieval.rankings import NOT_FOUND, Rankings

_BLOCK = 64  # questions between two words of progress
_SECONDS_BETWEEN_WRITING = 30.0  # what is lost at most when the process is ended


class PairScores:
    """Scores of pairs of a question and a passage of the corpus `texts`.

    With a `meter` they are kept on disk by what the scorer, the corpus and the questions are, whoever brought the
    candidates: another weight, a smaller depth or another first stage scores only pairs that are new. The meter is told
    what scoring the pairs takes. `on_progress` is told the share of the questions done.
    With `windows` the score of a passage that the scorer does not read whole is that of its best window; `heads` are
    the lengths of the passages' titles, `(n_passages,)`, none where no title is indexed.
    """

    def __init__(
        self,
        scorer: PairScorer,
        texts: Sequence[str],
        meter: Meter | None = None,
        on_progress: Callable[[float], None] | None = None,
        *,
        windows: WindowOptions | None = None,
        heads: np.ndarray | None = None,
    ) -> None:
        self._scorer, self._texts, self._meter, self._on_progress = scorer, texts, meter, on_progress
        self._windows = windows if isinstance(scorer, WindowScorer) else None
        self._heads = np.zeros(len(texts), dtype=np.int64) if heads is None else heads

    def of(self, questions: Sequence[str], candidates: Rankings) -> np.ndarray:
        """Scores `(n_questions, depth)` float32 of the candidates, -inf where there is none."""
        began = time.perf_counter()
        known = self._known(questions)
        scores = known.of(candidates.indices)
        try:
            for start in range(0, len(questions), _BLOCK):
                rows, places = np.nonzero(np.isnan(scores[start : start + _BLOCK]))
                rows += start
                if len(rows):
                    scores[rows, places] = self._score(questions, rows, candidates.indices[rows, places], known)
                if self._on_progress:
                    self._on_progress(min(1.0, (start + _BLOCK) / len(questions)))
        finally:
            known.write()
        if self._meter:
            pairs = np.count_nonzero(candidates.indices != NOT_FOUND)
            self._meter.note(time.perf_counter() - began, known.load_seconds, pairs * known.seconds_a_pair)
        return scores

    def missing(self, questions: Sequence[str], candidates: Rankings) -> int:
        """How many pairs are not known yet."""
        return int(np.count_nonzero(np.isnan(self._known(questions).of(candidates.indices))))

    def _known(self, questions: Sequence[str]) -> "_Known":
        if self._meter is None or len(questions) == 1:  # one question typed by a person is not worth a file
            return _Known(len(self._texts))
        told = [self._scorer.fingerprint, fingerprint_of(self._texts), list(questions)]
        return _Known(len(self._texts), key_of(*told, *([astuple(self._windows)] if self._windows else [])))

    def _score(self, questions: Sequence[str], rows: np.ndarray, passages: np.ndarray, known: "_Known") -> np.ndarray:
        began = time.perf_counter()
        self._scorer.load()
        loaded = time.perf_counter()
        drawn = zip(rows.tolist(), passages.tolist(), strict=True)
        pairs = [(questions[row], self._texts[passage]) for row, passage in drawn]
        if self._windows and isinstance(self._scorer, WindowScorer):
            scores = self._scorer.score_windows(pairs, self._heads[passages].tolist(), self._windows)
        else:
            scores = self._scorer.score(pairs)
        known.add(rows, passages, scores, load_seconds=loaded - began, seconds=time.perf_counter() - loaded)
        return scores


class _Known:
    """Scores by pair and what they cost, kept on disk where there is a `key`.

    A pair's code is `question row * n_passages + passage row`; codes ascend.
    """

    def __init__(self, n_passages: int, key: str | None = None) -> None:
        kept = read_arrays("pairs", key) if key else None
        self._n_passages, self._key = n_passages, key
        self._codes = kept["codes"] if kept else np.zeros(0, dtype=np.int64)
        self._scores = kept["scores"] if kept else np.zeros(0, dtype=np.float32)
        self.load_seconds = float(kept["seconds"][0]) if kept else 0.0
        self._seconds = float(kept["seconds"][1]) if kept else 0.0
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        self._count, self._written = len(self._codes), time.perf_counter()

    @property
    def seconds_a_pair(self) -> float:
        return self._seconds / max(1, self._count)

    def of(self, indices: np.ndarray) -> np.ndarray:
        """Scores of candidates `(n_questions, depth)`: NaN where not known, -inf where there is no candidate."""
        scores = np.where(indices == NOT_FOUND, -np.inf, np.nan).astype(np.float32)
        rows, places = np.nonzero(indices != NOT_FOUND)
        wanted = self._codes_of(rows, indices[rows, places])
        place = np.searchsorted(self._codes, wanted)
        there = place < len(self._codes)
        there[there] = self._codes[place[there]] == wanted[there]
        scores[rows[there], places[there]] = self._scores[place[there]]
        return scores

    def add(
        self, rows: np.ndarray, passages: np.ndarray, scores: np.ndarray, *, load_seconds: float, seconds: float
    ) -> None:
        """Take in new scores and the seconds they took; write them where the last time is long ago."""
        self._new.append((self._codes_of(rows, passages), scores))
        self.load_seconds = max(self.load_seconds, load_seconds)
        self._seconds += seconds
        self._count += len(rows)
        if time.perf_counter() - self._written > _SECONDS_BETWEEN_WRITING:
            self.write()

    def write(self) -> None:
        """Write what is new."""
        if self._key and self._new:
            codes = np.concatenate([self._codes, *(codes for codes, _ in self._new)])
            scores = np.concatenate([self._scores, *(scores for _, scores in self._new)])
            order = np.argsort(codes)
            self._codes, self._scores, self._new = codes[order], scores[order], []
            seconds = np.array([self.load_seconds, self._seconds])
            write_arrays("pairs", self._key, {"codes": self._codes, "scores": self._scores, "seconds": seconds})
            self._written = time.perf_counter()

    def _codes_of(self, rows: np.ndarray, passages: np.ndarray) -> np.ndarray:
        codes: np.ndarray = rows * self._n_passages + passages
        return codes
