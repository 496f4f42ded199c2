"""The untrained mix as a teacher: what BM25, late interaction and a bi-encoder say together of a question's candidates.

Candidates are the passages of the question's article and the passages that BM25 and the bi-encoder rank first. Of each
signal the z-score among the candidates counts, by `WEIGHTS`: BM25 and late interaction rank better than the vectors
that are about to be trained. The teacher reads no label.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.dense import max_sim
from mrc_workbench.training.base import Examples, OnProgress
from mrc_workbench.training.rankers.material import Material

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
        texts = [question.text for question in self.material.train.questions]
        encoder = BiEncoder(find_model(self.base), self.material.texts)
        questions, passages = encoder.encode_questions(texts), encoder.encode_passages(self.material.texts)
        tokens = TokenEncoder(find_model(self.base), self.material.texts, windows=self.windows)
        token_passages = tokens.encode_passages(self.material.texts, self.material.heads)
        token_questions = tokens.encode_questions(texts)
        candidates = np.full((len(texts), CANDIDATES), -1, dtype=np.int64)
        scores = np.zeros(candidates.shape, dtype=np.float32)
        row = 0
        for block in self.material.first_stage.score_blocks(texts):  # scores of all pairs would fill the memory
            of_terms = np.where(np.isfinite(block), block, 0.0)
            for bm25, dense in zip(of_terms, questions[row : row + len(block)] @ passages.T, strict=True):
                rows = self._candidates(row, bm25, dense)
                late = max_sim(token_questions.between(row, row + 1), token_passages.at(rows))[0]
                signals = {"bm25": bm25[rows], "late": late, "dense": dense[rows]}
                candidates[row, : len(rows)] = rows
                scores[row, : len(rows)] = sum(weight * _z_scores(signals[name]) for name, weight in WEIGHTS.items())
                row += 1
            on_progress(row / len(texts))
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

    def _candidates(self, row: int, bm25: np.ndarray, dense: np.ndarray) -> np.ndarray:
        """Rows of the passages to score for a training question, at most `CANDIDATES`, those of its article first.

        `bm25` and `dense` are the question's scores of all passages, `(n_passages,)`.
        """
        own = self._positive_of.get(row)
        of_article = np.array([] if own is None else [own], dtype=np.int64)
        article_of = self.material.article_of_passage
        if article_of is not None and own is not None:
            same = np.flatnonzero(article_of == article_of[own])
            of_article = np.concatenate([of_article, same[same != own][: OF_ARTICLE - 1]])
        best = np.argsort(-(_z_scores(bm25) + _z_scores(dense)), kind="stable")[: 2 * CANDIDATES]
        return np.concatenate([of_article, best[~np.isin(best, of_article)]])[:CANDIDATES]

    @cached_property
    def _positive_of(self) -> dict[int, int]:
        return dict(zip(self.examples.question.tolist(), self.examples.passages[:, 0].tolist(), strict=True))


def _z_scores(scores: np.ndarray) -> np.ndarray:
    """Scores less their mean over their deviation, along the last axis; 0 if all are equal."""
    centred = scores - scores.mean(axis=-1, keepdims=True)
    deviation = scores.std(axis=-1, keepdims=True)
    return np.asarray(np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0))
