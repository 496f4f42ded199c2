"""The untrained mix as a teacher: what BM25, late interaction and a bi-encoder say together of a question's candidates.

Candidates are the passages of the question's article and the passages that BM25 and the bi-encoder rank first. Of each
signal the z-score among the candidates counts, by `WEIGHTS`: BM25 and late interaction rank better than the vectors
that are about to be trained. The teacher reads no label.
"""

from dataclasses import dataclass

import numpy as np

from models.encoders.bi_encoder import BiEncoder
from models.encoders.token_encoder import TokenEncoder
from models.sources import find_model
from models.windows import WindowOptions
from retrieval.late import max_sim
from training.base import Examples, OnProgress
from training.rankers.material import Material

CANDIDATES = 48  # of a question, those of its article among them
OF_ARTICLE = 24  # passages of the question's article, at most
WEIGHTS = {"bm25": 0.4, "late": 0.5, "dense": 0.1}
_SECONDS_A_QUESTION = 0.01  # to compare its tokens with those of the candidates, on one core


@dataclass(frozen=True)
class MixTeacher:
    """Labels of examples: the example's passage, its question's candidates, and their scores, higher is better.

    A label is `[passage, candidates..., scores...]`, `1 + 2 * CANDIDATES` numbers; missing candidates are -1.
    """

    base: str
    material: Material
    examples: Examples
    windows: WindowOptions | None = None

    def labels(self, on_progress: OnProgress) -> list[list[float]]:
        asked = [question.text for question in self.material.train.questions]
        bm25, dense = self._bm25(asked), self._dense(asked)
        tokens = TokenEncoder(find_model(self.base), self.material.texts, windows=self.windows)
        passages = tokens.encode_passages(self.material.texts, self.material.heads)
        questions = tokens.encode_questions(asked)
        candidates = self._candidates(bm25, dense)
        scores = np.zeros(candidates.shape, dtype=np.float32)
        for row, some in enumerate(candidates):
            rows = some[some >= 0]
            late = max_sim(questions.between(row, row + 1), passages.at(rows))[0]
            signals = {"bm25": bm25[row, rows], "late": late, "dense": dense[row, rows]}
            scores[row, : len(rows)] = sum(weight * _z_scores(signals[name]) for name, weight in WEIGHTS.items())
            on_progress((row + 1) / len(candidates))
        return self._as_labels(candidates, scores)

    def stand_ins(self) -> list[list[float]]:
        candidates = np.full((len(self.material.train.questions), CANDIDATES), -1)
        candidates[:, : min(CANDIDATES, len(self.material.texts))] = np.arange(
            min(CANDIDATES, len(self.material.texts))
        )
        return self._as_labels(candidates, np.zeros(candidates.shape))

    def seconds(self) -> float:
        """Seconds that the labels take if the vectors are stored, as they are once the base has been measured."""
        return _SECONDS_A_QUESTION * len(self.material.train.questions)

    def _as_labels(self, candidates: np.ndarray, scores: np.ndarray) -> list[list[float]]:
        questions = self.examples.question
        columns = (self.examples.passages[:, :1], candidates[questions], scores[questions])
        labels: list[list[float]] = np.hstack(columns).astype(np.float64).tolist()
        return labels

    def _bm25(self, asked: list[str]) -> np.ndarray:
        scores = np.concatenate(list(self.material.first_stage.score_blocks(asked)))
        return np.asarray(np.where(np.isfinite(scores), scores, 0.0), dtype=np.float32)

    def _dense(self, asked: list[str]) -> np.ndarray:
        encoder = BiEncoder(find_model(self.base), self.material.texts)
        return np.asarray(encoder.encode_questions(asked) @ encoder.encode_passages(self.material.texts).T)

    def _candidates(self, bm25: np.ndarray, dense: np.ndarray) -> np.ndarray:
        """Rows of passages by question, `(n_questions, CANDIDATES)`; -1 where there are fewer."""
        together = _z_scores(bm25) + _z_scores(dense)
        candidates = np.full((len(bm25), CANDIDATES), -1, dtype=np.int64)
        positive = dict(zip(self.examples.question.tolist(), self.examples.passages[:, 0].tolist(), strict=True))
        article_of = self.material.article_of_passage
        for row, scores in enumerate(together):
            own = np.array([positive[row]] if row in positive else [], dtype=np.int64)
            if article_of is not None and len(own):
                same = np.flatnonzero(article_of == article_of[own[0]])
                own = np.concatenate([own, same[same != own[0]][: OF_ARTICLE - 1]])
            best = np.argsort(-scores, kind="stable")
            chosen = np.concatenate([own, best[~np.isin(best, own)]])[:CANDIDATES]
            candidates[row, : len(chosen)] = chosen
        return candidates


def _z_scores(scores: np.ndarray) -> np.ndarray:
    """Scores less their mean over their deviation, along the last axis; 0 if all are equal."""
    centred = scores - scores.mean(axis=-1, keepdims=True)
    deviation = scores.std(axis=-1, keepdims=True)
    return np.asarray(np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0))
