"""The cross-encoder recipe: BM25's first passages read again, and the weight for mixing both scores."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models.cross_encoder import CrossEncoderScorer
from models.loading import load_cross_encoder
from models.sources import ModelSource
from retrieval.evaluation.measures import CUT, Scores
from retrieval.multistage.rerank import Reranked, interpolated
from retrieval.multistage.weight import recommend_weight
from retrieval.rankings import Rankings, ranked
from training.engine.adaptation import adapt
from training.engine.trainers import Task
from training.options.cross_encoder import CrossEncoderOptions
from training.rankers.examples import cross_encoder_examples
from training.rankers.losses import cross_encoder_loss
from training.rankers.material import Material
from training.runs.runs import Run

_PROBED = 64  # pairs
WEIGHTS = tuple(step / 20 for step in range(21))


class CrossEncoderRecipe:
    """How a cross-encoder is trained: in turn `measured(source)`, `task(source)`, and `concluded(run)` at the end."""

    def __init__(self, options: CrossEncoderOptions, material: Material) -> None:
        self._options, self._material = options, material

    def measured(self, source: ModelSource) -> Scores:
        """Measure a reranker alone over BM25's first passages of the validation questions."""
        return self._reranked(self._scorer(source)).scores(1.0)

    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs. Raises `OptionError`."""
        columns, examples = cross_encoder_examples(self._options, self._material)
        model = load_cross_encoder(source, self._material.texts)
        adapt(model, self._options)
        loss = cross_encoder_loss(model, self._options)
        return Task(model, loss, columns, examples, lambda trained: self._reranked(self._live(trained)).scores(1.0))

    def concluded(self, run: Run) -> tuple[dict[str, Scores], dict[str, Any]]:
        """Measure the finished model, alone and mixed with BM25.

        The mixing weight is the one that is best on these same validation questions; it is kept with the model.
        """
        source = ModelSource(run.id, folder=run.model_folder)
        reranked = self._reranked(self._scorer(source))
        weight = reranked.best_weight()
        recommend_weight(
            run.model_folder, weight, chosen_on=f"validation questions, BM25's first {self._options.depth}"
        )
        return {"after": reranked.scores(1.0), "interpolated": reranked.scores(weight)}, {"weight": weight}

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a few pairs take."""
        question = self._material.validation.questions[0].text
        pairs = [(question, text) for text in self._material.texts[:_PROBED]]
        began = time.perf_counter()
        self._live(model).score(pairs)
        everything = len(self._material.validation.questions) * self._options.depth
        return (time.perf_counter() - began) / len(pairs) * everything

    @cached_property
    def _candidates(self) -> Rankings:
        return self._material.candidates(self._material.validation, self._options.depth)

    def _reranked(self, scorer: CrossEncoderScorer) -> "_Reranked":
        material = self._material
        reranked = Reranked(
            "reranked", material.first_stage, scorer, material.question_set.passages, title=self._options.title
        )
        questions = [question.text for question in material.validation.questions]
        return _Reranked(material, self._candidates, reranked.candidate_scores(questions, self._candidates))

    def _scorer(self, source: ModelSource) -> CrossEncoderScorer:
        return CrossEncoderScorer(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> CrossEncoderScorer:
        return _LiveScorer(model, self._material.texts, self._options)


class _LiveScorer(CrossEncoderScorer):
    """A model in the middle of its training."""

    def __init__(self, model: Any, corpus: Sequence[str], options: CrossEncoderOptions) -> None:
        batch_size, precision = options.evaluation_batch_size, options.precision
        super().__init__(ModelSource("live"), corpus, precision=precision, batch_size=batch_size)
        self.model = model


@dataclass(frozen=True)
class _Reranked:
    """BM25's candidates of the validation questions and a reranker's scores of them."""

    material: Material
    candidates: Rankings
    reranker_scores: np.ndarray

    def scores(self, weight: float) -> Scores:
        """Score the candidates in the order that the mixed scores give them."""
        mixed = interpolated(self.candidates, self.reranker_scores, weight)
        return self.material.evaluated(ranked(self.candidates.indices, mixed, max(CUT, mixed.shape[1])))

    def best_weight(self) -> float:
        """Return the weight with the best nDCG@10; among equals the one nearest to an even mix."""
        return max(WEIGHTS, key=lambda weight: (self.scores(weight).means()[f"ndcg@{CUT}"], -abs(weight - 0.5)))
