"""A cross-encoder's scores of question-passage pairs, each computed once on this machine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple

import numpy as np

from data.cache import key_of
from data.texts import fingerprint_of
from models.meter import Meter
from models.protocols import ForeseeingScorer, PairScorer, WindowScorer
from models.windows import WindowOptions
from retrieval.multistage.known_pairs import KnownPairs
from retrieval.rankings import NOT_FOUND, Rankings

_BLOCK = 64  # questions between two words of progress


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
        scores = known.of(candidates.indices)[..., 0]
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

    def _known(self, questions: Sequence[str]) -> KnownPairs:
        if self._meter is None or len(questions) == 1:  # one question typed by a person is not worth a file
            return KnownPairs(len(self._texts))
        told = [self._scorer.fingerprint, fingerprint_of(self._texts), list(questions)]
        return KnownPairs(len(self._texts), key_of(*told, *([astuple(self._windows)] if self._windows else [])))

    def _score(self, questions: Sequence[str], rows: np.ndarray, passages: np.ndarray, known: KnownPairs) -> np.ndarray:
        began = time.perf_counter()
        self._scorer.load()
        if len(questions) > 1 and isinstance(self._scorer, ForeseeingScorer):
            self._scorer.foresee(questions)
        loaded = time.perf_counter()
        drawn = zip(rows.tolist(), passages.tolist(), strict=True)
        pairs = [(questions[row], self._texts[passage]) for row, passage in drawn]
        if self._windows and isinstance(self._scorer, WindowScorer):
            scores = self._scorer.score_windows(pairs, self._heads[passages].tolist(), self._windows)
        else:
            scores = self._scorer.score(pairs)
        known.add(rows, passages, scores[:, None], load_seconds=loaded - began, seconds=time.perf_counter() - loaded)
        return scores
