"""What a model said of pairs of a question and a passage, each computed once on this machine."""

import time

import numpy as np

from data.cache import read_arrays, write_arrays
from retrieval.rankings import NOT_FOUND

_SECONDS_BETWEEN_WRITING = 30.0  # what is lost at most when the process is ended


class KnownPairs:
    """Numbers by pair, `width` of them, and what they cost; kept on disk as `kind` where there is a `key`.

    A pair's code is `question row * n_passages + passage row`; codes ascend.
    """

    def __init__(self, n_passages: int, key: str | None = None, *, kind: str = "pairs", width: int = 1) -> None:
        kept = read_arrays(kind, key) if key else None
        self._n_passages, self._key, self._kind = n_passages, key, kind
        self._codes = kept["codes"] if kept else np.zeros(0, dtype=np.int64)
        kept_scores = kept["scores"] if kept else np.zeros(0, dtype=np.float32)
        self._scores = kept_scores.reshape(-1, width)
        self.load_seconds = float(kept["seconds"][0]) if kept else 0.0
        self._seconds = float(kept["seconds"][1]) if kept else 0.0
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        self._count, self._written = len(self._codes), time.perf_counter()

    @property
    def seconds_a_pair(self) -> float:
        """What a pair took, on average."""
        return self._seconds / max(1, self._count)

    def of(self, indices: np.ndarray) -> np.ndarray:
        """Numbers of candidates `(n_questions, depth, width)`: NaN where not known, -inf where there is none."""
        missing = np.where(indices == NOT_FOUND, -np.inf, np.nan).astype(np.float32)
        scores = np.repeat(missing[..., None], self._scores.shape[1], axis=2)
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
        """Take in numbers `(n_pairs, width)` and the seconds they took; write them where the last time is long ago."""
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
            write_arrays(self._kind, self._key, {"codes": self._codes, "scores": self._scores, "seconds": seconds})
            self._written = time.perf_counter()

    def _codes_of(self, rows: np.ndarray, passages: np.ndarray) -> np.ndarray:
        codes: np.ndarray = rows * self._n_passages + passages
        return codes
