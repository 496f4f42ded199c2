"""The recipe of cross-encoders, which rank passages that another retriever found."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.models.cross_encoder import CrossEncoderScorer
from mrc_workbench.models.loading import load_cross_encoder
from mrc_workbench.models.sources import DEFAULT_CROSS_ENCODER, ModelSource
from mrc_workbench.retrieval.combine import Reranked, interpolated, recommend_weight
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import CUT
from mrc_workbench.retrieval.rankings import Rankings, ranked
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.retrieval.rerank import Reranked, interpolated, recommend_weight
from mrc_workbench.training.base import Examples, Recipe, Task, TeacherLabels, finished, seconds_for
from mrc_workbench.training.engine.adaptation import adapt, live_scorer
from mrc_workbench.training.ranker_options import CROSS_ENCODER, CrossEncoderObjective, CrossEncoderOptions
from mrc_workbench.training.rankers.examples import cross_encoder_examples
from mrc_workbench.training.rankers.losses import cross_encoder_loss
from mrc_workbench.training.rankers.material import RANKERS, Material, Reached
from mrc_workbench.training.rankers.shown import Cut, ShownPassages, TeachersScores, held_out

WEIGHTS = tuple(step / 20 for step in range(21))


class CrossEncoderRecipe(Recipe[CrossEncoderOptions, Material]):
    """How a cross-encoder is trained."""

    kind = CROSS_ENCODER
    family = RANKERS
    options = CrossEncoderOptions
    base = DEFAULT_CROSS_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[3]  # of Reranked on the other pages
    does = "A cross-encoder: it reads a question and a passage together and scores how well they fit."
    hub_task = "text-ranking"
    loading = ("from sentence_transformers import CrossEncoder", 'CrossEncoder("{folder}")')
    loading_a_starter = (
        "from mrc_workbench.models.loading import load_cross_encoder\n"
        "from mrc_workbench.models.sources import find_model",
        'load_cross_encoder(find_model("{folder}"), [])',
    )
    usage = 'print(model.predict([("a question", "a passage"), ("a question", "another one")]))  # higher is better'

    def measured(self, source: ModelSource) -> Reached:
        """Measure a reranker alone over BM25's first passages; a base with the head drawn for it."""
        return self._scores(self._read(self._scorer(source, new_head=True)), 1.0)

    def task(self, source: ModelSource) -> Task:
        options, material = self._options, self._material
        columns, examples = cross_encoder_examples(options, material)
        model = load_cross_encoder(source, material.texts, new_head=True)
        settled = adapt(model, options)
        cut = self._cut(model)
        shown, loss = ShownPassages(material, cut), cross_encoder_loss(model, options)
        return Task(
            *(model, loss, shown.columns(columns, examples), examples),
            lambda trained: self._scores(self._read(self._live(trained)), 1.0),
            settled=settled,
            told=shown.told,
            lesson=self._lesson(examples, material),
            held_out=held_out(material, lambda few: cross_encoder_examples(options, few), cut, self._lesson),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
        """Measure the finished model, alone and mixed with BM25.

        The mixing weight is the one that is best on these same validation questions; it is kept with the model.
        """
        read = self._read(self._scorer(finished(model_folder)))
        scores = {weight: self._scores(read, weight) for weight in WEIGHTS}
        # the best nDCG@10; among equals the one nearest to an even mix
        weight = max(scores, key=lambda weight: (scores[weight].validation.means()[f"ndcg@{CUT}"], -abs(weight - 0.5)))
        recommend_weight(model_folder, weight, chosen_on=f"validation questions, BM25's first {self._options.depth}")
        return {"after": scores[1.0], "interpolated": scores[weight]}, {"weight": weight}

    def seconds_to_measure(self, model: Any) -> float:
        material, scorer, options = self._material, self._live(model), self._options.window_options
        asked = material.measured.questions
        found = self._candidates.indices[:, 0]  # of each question one: as long as those that BM25 finds
        every = [(one.text, row) for one, row in zip(asked, found.tolist(), strict=True) if row >= 0]
        every.sort(key=lambda pair: len(pair[0]) + len(material.texts[pair[1]]))

        def score(some: Sequence[tuple[str, int]]) -> object:
            pairs = [(question, material.texts[row]) for question, row in some]
            heads = [int(material.heads[row]) for _, row in some]
            return scorer.score_windows(pairs, heads, options) if options else scorer.score(pairs)

        return seconds_for(score, every) * len(asked) * self._options.depth / len(every)

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        return [RerankSpec(name=named("Reranked"), first=first, model=model, title=title, windows=True)]

    @cached_property
    def _candidates(self) -> Rankings:
        return self._material.candidates(self._material.measured, self._options.depth)

    def _read(self, scorer: CrossEncoderScorer) -> np.ndarray:
        """A reranker's scores of BM25's candidates of the questions that are measured, `(n_questions, depth)`."""
        material, title = self._material, self._options.title
        told = ("reranked", material.first_stage, scorer, material.question_set.passages)
        reranked = Reranked(*told, title=title, windows=self._options.window_options)
        return reranked.candidate_scores([question.text for question in material.measured.questions], self._candidates)

    def _scores(self, read: np.ndarray, weight: float) -> Reached:
        """Score the candidates in the order that the mixed scores give them."""
        mixed = interpolated(self._candidates, read, weight)
        return self._material.evaluated(ranked(self._candidates.indices, mixed, max(CUT, mixed.shape[1])))

    def _lesson(self, examples: Examples, material: Material) -> TeacherLabels | None:
        if self._options.objective is not CrossEncoderObjective.MARGIN_MSE:
            return None
        windows = self._options.window_options
        return TeachersScores(self._options.teacher, material, examples, windows, differences=True)

    def _cut(self, model: Any) -> Cut | None:
        """Windows of the passages that do not fit beside a question into what the model, as it is adapted, reads."""
        if not (options := self._options.window_options):
            return None
        scorer, texts, heads = self._live(model), self._material.texts, self._material.heads
        return lambda question, row: scorer.windows_of(question, texts[row], int(heads[row]), options)

    def _scorer(self, source: ModelSource, *, new_head: bool = False) -> CrossEncoderScorer:
        precision = self._options.precision
        return CrossEncoderScorer(source, self._material.texts, precision=precision, new_head=new_head)

    def _live(self, model: Any) -> CrossEncoderScorer:
        return live_scorer(model, self._options, self._material.texts)
