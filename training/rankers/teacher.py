"""A cross-encoder's scores of the training examples, which another model learns: each pair is scored once.

BM25 can have a share `b` in them: of the passages of an example, with scores `t` of the teacher and `l` of BM25, it is
`(1 - b) * t + b * deviation(t) * z(l)`, where `z` is the score less the mean, by the deviation. So BM25's scores have
the spread of the teacher's, whose scale and temperature stay as they are; where BM25 tells none apart it adds nothing.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from models.encoders.cross_encoder import CrossEncoderScorer
from models.encoders.vector_blocks import Meter
from models.sources import find_model
from models.windows import WindowOptions
from retrieval.rankings import NOT_FOUND, Rankings
from retrieval.rerank import PairScores
from training.engine.task import Examples
from training.rankers.material import Material

_PROBED = 64  # pairs


def with_bm25(taught: np.ndarray, lexical: np.ndarray, share: float) -> np.ndarray:
    """Mix the scores of each row's passages, `(n_examples, n_passages)`; see above."""
    if not share:
        return taught
    centred, deviation = lexical - lexical.mean(axis=1, keepdims=True), lexical.std(axis=1, keepdims=True)
    standard = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
    return np.asarray((1 - share) * taught + share * taught.std(axis=1, keepdims=True) * standard)


class TeachersScores:
    """The lesson of examples: the teacher's logits of each one's passages, `(n_examples, 1 + n_negatives)`.

    With `differences` they are the positive's less the negative's, one an example. Scores are kept in the workspace by
    the teacher's content, the corpus and the training questions: a training that is resumed, or another of the same
    questions, asks only for pairs that are new. With `windows` a passage that the teacher does not read whole has the
    score of its best window.
    """

    def __init__(
        self,
        teacher: str,
        material: Material,
        examples: Examples,
        windows: WindowOptions | None = None,
        *,
        bm25: float = 0.0,
        differences: bool = False,
    ) -> None:
        self._scorer = CrossEncoderScorer(find_model(teacher), material.texts)
        self._texts, self._differences = material.texts, differences
        self._windows, self._heads = windows, material.heads
        self._bm25, self._lexical = bm25, material.first_stage
        self._asked = [question.text for question in material.train.questions]
        self._codes = examples.question[:, None] * len(self._texts) + examples.passages.astype(np.int64)

    def labels(self, on_progress: Callable[[float], None]) -> list[Any]:
        """Ask the teacher; `on_progress` is told the share of the questions done."""
        rows, places, candidates = self._candidates()
        scores = self._pairs(on_progress).of(self._asked, candidates)
        taught = self._by_example(scores[rows, places])
        return self._as_labels(with_bm25(taught, self._by_example(self._bm25_scores()), self._bm25))

    def stand_ins(self) -> list[Any]:
        """Return labels of the same shape, all 0."""
        return self._as_labels(np.zeros(self._codes.shape, dtype=np.float32))

    def seconds(self) -> float:
        """Seconds that asking would take, by the time that a few pairs take."""
        candidates = self._candidates()[2]
        missing = self._pairs().missing(self._asked, candidates)
        if not missing:
            return 0.0
        chosen = np.random.default_rng(0).permutation(np.unique(self._codes))[:_PROBED]
        rows, passages = np.divmod(chosen, len(self._texts))
        pairs = [(self._asked[row], self._texts[passage]) for row, passage in zip(rows, passages, strict=True)]
        self._scorer.load()
        began = time.perf_counter()
        if self._windows:
            self._scorer.score_windows(pairs, self._heads[passages].tolist(), self._windows)
        else:
            self._scorer.score(pairs)
        return (time.perf_counter() - began) / len(pairs) * missing

    def _pairs(self, on_progress: Callable[[float], None] | None = None) -> PairScores:
        meter, windows, heads = Meter(), self._windows, self._heads
        return PairScores(self._scorer, self._texts, meter, on_progress, windows=windows, heads=heads)

    def _candidates(self) -> tuple[np.ndarray, np.ndarray, Rankings]:
        """Every pair once: the rows of their questions and their places there, by code, and what stands in them."""
        rows, passages = np.divmod(np.unique(self._codes), len(self._texts))
        counts = np.bincount(rows, minlength=len(self._asked))
        places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        indices = np.full((len(self._asked), counts.max()), NOT_FOUND, dtype=np.int32)
        indices[rows, places] = passages
        return rows, places, Rankings(indices, np.zeros(indices.shape, dtype=np.float32))

    def _bm25_scores(self) -> np.ndarray:
        """BM25's scores of the pairs, by code; 0 where a passage has no word of the question."""
        rows, passages = np.divmod(np.unique(self._codes), len(self._texts))
        scores, first = np.zeros(len(rows), dtype=np.float32), 0
        for block in self._lexical.score_blocks(self._asked) if self._bm25 else ():
            here = slice(*np.searchsorted(rows, (first, first + len(block))))
            scores[here] = block[rows[here] - first, passages[here]]
            first += len(block)
        return np.where(np.isfinite(scores), scores, 0.0)

    def _by_example(self, by_code: np.ndarray) -> np.ndarray:
        return np.asarray(by_code[np.searchsorted(np.unique(self._codes), self._codes)])

    def _as_labels(self, scores: np.ndarray) -> list[Any]:
        found: list[Any] = (scores[:, 0] - scores[:, 1] if self._differences else scores).tolist()
        return found
