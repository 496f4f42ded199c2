"""The recipes of rankers: bi-encoders, late interaction, sparse encoders and cross-encoders."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.loading import (
    load_bi_encoder,
    load_cross_encoder,
    load_sparse_encoder,
    load_token_encoder,
    prompts_of,
)
from mrc_workbench.models.sources import (
    DEFAULT_BI_ENCODER,
    DEFAULT_CROSS_ENCODER,
    DEFAULT_MASKED_LANGUAGE_MODEL,
    ModelSource,
)
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import Windows
from mrc_workbench.retrieval.combine import Reranked, interpolated, recommend_weight
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.dense import Dense, Late, LateIndex, LearnedSparse
from mrc_workbench.retrieval.measures import CUT
from mrc_workbench.retrieval.rankings import Rankings, Retriever, ranked
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import Recipe, Task, finished, seconds_for
from mrc_workbench.training.engine.adaptation import (
    adapt,
    by_idf,
    has_routes,
    live_bi_encoder,
    live_scorer,
    pool,
    project,
)
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    LATE_INTERACTION,
    SPARSE_ENCODER,
    BiEncoderOptions,
    CrossEncoderOptions,
    LateOptions,
    QuestionSide,
    SparseEncoderOptions,
)
from mrc_workbench.training.recipes.examples import ANCHOR, cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.material import RANKERS, Material, QuestionMeasurement
from mrc_workbench.training.recipes.shown import Cut, ShownPassages, cut_of, held_out, teacher_of

if TYPE_CHECKING:
    from mrc_workbench.training.engine.speed import LowerStates

# trained, and measured before it: question tokens count alike, as in the loss
TRAINED_LAYERS = TokenLayers.UPPER
WEIGHTS = tuple(step / 20 for step in range(21))  # of a cross-encoder's scores beside BM25's
Chosen = TypeVar("Chosen", BiEncoderOptions, LateOptions, SparseEncoderOptions)


class _EncoderRecipe(Recipe[Chosen, Material]):
    """How anything is trained that encodes questions and passages apart. Encoders are of the kind's own class."""

    family = RANKERS

    def measured(self, source: ModelSource) -> QuestionMeasurement:
        """Measure a model over the whole corpus, also on test questions: the passages are encoded already."""
        return self._material.measure(self._retriever(self._stored_encoder(source)), tested=True)

    def task(self, source: ModelSource) -> Task:
        from mrc_workbench.training.recipes.losses import encoder_loss  # imports torch

        options, material = self._options, self._material
        columns, examples = encoder_examples(options, material)
        model = self._loaded(source)
        settled = adapt(model, options)
        cut = cut_of(self._live(model), options.window_options, material) if options.window_options else None
        shown = ShownPassages(material, cut)
        question, passage = prompts_of(model)
        return Task(
            model=model,
            loss=encoder_loss(model, options, material),
            columns=shown.columns(columns, examples),
            examples=examples,
            measure=lambda trained: self._material.measure(self._retriever(self._live(trained))),
            prompts={name: question if name == ANCHOR else passage for name in columns},
            settled=settled,
            metadata=shown.metadata,
            teacher=teacher_of(options, examples, material),
            held_out=held_out(options, material, encoder_examples, cut),
            lower_states=self._lower_states,
        )

    @cached_property
    def _lower_states(self) -> "LowerStates | None":
        """The frozen layers' states of each text: the same before, during and after the training."""
        from mrc_workbench.training.engine.speed import LowerStates

        return LowerStates(self._options.frozen_layers) if self._options.frozen_layers else None

    def _stored_encoder(self, source: ModelSource) -> Any:
        encoder = self._encoder(source)
        encoder.stored_work = self._lower_states
        return encoder

    def seconds_to_measure(self, model: Any) -> float:
        material, encoder = self._material, self._live(model)
        rows = sorted(range(len(material.texts)), key=lambda row: len(material.texts[row]))
        questions = [question.text for question in material.measured.questions]
        return seconds_for(partial(self._read, encoder), rows) + seconds_for(encoder.encode_questions, questions)

    @abstractmethod
    def _loaded(self, source: ModelSource) -> Any: ...

    @abstractmethod
    def _encoder(self, source: ModelSource) -> Any: ...

    @abstractmethod
    def _live(self, model: Any) -> Any:
        """Return an encoder of a loaded model, in the middle of its training."""

    @abstractmethod
    def _retriever(self, encoder: Any) -> Retriever: ...

    @abstractmethod
    def _read(self, encoder: Any, rows: Sequence[int]) -> object:
        """Encode the passages in these rows as they are for a search."""


class BiEncoderRecipe(_EncoderRecipe[BiEncoderOptions]):
    """How a bi-encoder is trained."""

    kind = BI_ENCODER
    options = BiEncoderOptions
    base = DEFAULT_BI_ENCODER
    measure = "recall@10"
    colour = PALETTE[1]  # of Dense on the other pages
    searched = ("Dense", partial(DenseSpec, windows=True))

    def _loaded(self, source: ModelSource) -> Any:
        model = load_bi_encoder(source, self._material.texts)
        pool(model, self._options.pooling.value)
        return model

    def _encoder(self, source: ModelSource) -> BiEncoder:
        return BiEncoder(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> BiEncoder:
        return live_bi_encoder(model, self._options, self._material.texts)

    def _retriever(self, encoder: BiEncoder) -> Dense:
        passages, options = self._material.question_set.passages, self._options
        return Dense("dense", passages, encoder, title=options.title, windows=options.window_options)

    def _read(self, encoder: BiEncoder, rows: Sequence[int]) -> object:
        texts, options = [self._material.texts[row] for row in rows], self._options.window_options
        heads = self._material.heads[list(rows)]
        windows = encoder.windows_of(texts, heads, options) if options else Windows.none()
        return encoder.encode_windows(texts, windows)


class LateRecipe(_EncoderRecipe[LateOptions]):
    """How an encoder of late interaction is trained: each token's vector learns (ColBERT: Khattab & Zaharia 2020)."""

    kind = LATE_INTERACTION
    options = LateOptions
    base = DEFAULT_BI_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[2]

    searched = ("Late", partial(LateSpec, windows=True))

    def _loaded(self, source: ModelSource) -> Any:
        model = load_token_encoder(source, TRAINED_LAYERS)
        if self._options.dimensions:
            project(model, self._options.dimensions, self._material.texts)
        return model

    def _encoder(self, source: ModelSource, model: Any = None) -> TokenEncoder:
        texts, windows, precision = self._material.texts, self._options.window_options, self._options.precision
        return TokenEncoder(source, texts, precision=precision, windows=windows, layers=TRAINED_LAYERS, at_hand=model)

    def _live(self, model: Any) -> TokenEncoder:
        return self._encoder(ModelSource(self._options.base), model)

    def _retriever(self, encoder: TokenEncoder) -> Late:
        passages, title = self._material.question_set.passages, self._options.title
        # exact: no index is stored of a model in training
        return Late("late", passages, encoder, title=title, index=LateIndex.EXACT)

    def _read(self, encoder: TokenEncoder, rows: Sequence[int]) -> object:
        return encoder.encode_passages([self._material.texts[row] for row in rows], self._material.heads[list(rows)])


class SparseEncoderRecipe(_EncoderRecipe[SparseEncoderOptions]):
    """How a sparse encoder is trained."""

    kind = SPARSE_ENCODER
    options = SparseEncoderOptions
    base = DEFAULT_MASKED_LANGUAGE_MODEL
    measure = "recall@10"
    colour = PALETTE[4]
    searched = ("Sparse", SparseSpec)

    def task(self, source: ModelSource) -> Task:
        task = super().task(source)
        routes = {name: "query" if name == ANCHOR else "document" for name in task.columns}
        return replace(task, routes=routes if has_routes(task.model) else {})

    def concluded(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        encoder = self._stored_encoder(finished(model_folder))
        scores = {"after": self._material.measure(self._retriever(encoder), tested=True)}  # stores its texts
        questions = [question.text for question in self._material.validation.questions]
        sides = {
            "question": encoder.encode_questions(questions),
            "passage": encoder.encode_passages(self._material.texts),
        }
        return scores, {"active_terms": {side: float(np.diff(of.indptr).mean()) for side, of in sides.items()}}

    def _loaded(self, source: ModelSource) -> Any:
        model = load_sparse_encoder(source)
        return by_idf(model, self._material.texts) if self._options.question_side is QuestionSide.IDF else model

    def _encoder(self, source: ModelSource) -> SparseTextEncoder:
        return SparseTextEncoder(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> SparseTextEncoder:
        options, source = self._options, ModelSource(self._options.base)
        size, precision = options.evaluation_batch_size, options.precision
        encoder = _LiveSparseEncoder(source, self._material.texts, precision=precision, batch_size=size)
        encoder.model = model
        return encoder

    def _retriever(self, encoder: SparseTextEncoder) -> LearnedSparse:
        return LearnedSparse("sparse", self._material.question_set.passages, encoder, title=self._options.title)

    def _read(self, encoder: SparseTextEncoder, rows: Sequence[int]) -> object:
        return encoder.encode_passages([self._material.texts[row] for row in rows])


class _LiveSparseEncoder(SparseTextEncoder):
    """A model in the middle of its training: none of its vectors is stored."""

    def _block(self, side: str, texts: list[str], *, keep: bool) -> dict[str, np.ndarray]:
        return super()._block(side, texts, keep=False)


class CrossEncoderRecipe(Recipe[CrossEncoderOptions, Material]):
    """How a cross-encoder is trained."""

    kind = CROSS_ENCODER
    family = RANKERS
    options = CrossEncoderOptions
    base = DEFAULT_CROSS_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[3]  # of Reranked on the other pages

    def measured(self, source: ModelSource) -> QuestionMeasurement:
        """Measure a reranker alone over BM25's first passages; a base with the head drawn for it."""
        return self._scores(self._read(self._scorer(source, new_head=True)))

    def task(self, source: ModelSource) -> Task:
        from mrc_workbench.training.recipes.losses import cross_encoder_loss  # imports torch

        options, material = self._options, self._material
        columns, examples = cross_encoder_examples(options, material)
        model = load_cross_encoder(source, material.texts, new_head=True)
        settled = adapt(model, options)
        cut = self._cut(model)
        shown = ShownPassages(material, cut)
        return Task(
            model=model,
            loss=cross_encoder_loss(model, options),
            columns=shown.columns(columns, examples),
            examples=examples,
            measure=lambda trained: self._scores(self._read(self._live(trained))),
            settled=settled,
            metadata=shown.metadata,
            teacher=teacher_of(options, examples, material),
            held_out=held_out(options, material, cross_encoder_examples, cut),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        """Measure the finished model, alone and mixed with BM25 by the weight that is best on validation questions."""
        read = self._read(self._scorer(finished(model_folder)))
        scores = {weight: self._scores(read, weight) for weight in WEIGHTS}
        # the best nDCG@10; among equals the one nearest to an even mix
        weight = max(scores, key=lambda weight: (scores[weight].validation.means()[f"ndcg@{CUT}"], -abs(weight - 0.5)))
        recommend_weight(model_folder, weight, chosen_on=f"validation questions, BM25's first {self._options.depth}")
        return {"after": scores[1.0], "interpolated": scores[weight]}, {"weight": weight}

    def seconds_to_measure(self, model: Any) -> float:
        material, scorer, options = self._material, self._live(model), self._options.window_options
        questions = material.measured.questions
        first = self._candidates.indices[:, 0].tolist()  # one of each question: as long as those that BM25 finds
        every = [(question.text, row) for question, row in zip(questions, first, strict=True) if row >= 0]
        every.sort(key=lambda pair: len(pair[0]) + len(material.texts[pair[1]]))

        def score(some: Sequence[tuple[str, int]]) -> object:
            pairs = [(question, material.texts[row]) for question, row in some]
            heads = [int(material.heads[row]) for _, row in some]
            return scorer.score_windows(pairs, heads, options) if options else scorer.score(pairs)

        return seconds_for(score, every) * len(questions) * self._options.depth / len(every)

    @classmethod
    def retrievers(cls, model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        return [RerankSpec(name=named("Reranked"), first=first, model=model, title=title, windows=True)]

    @cached_property
    def _candidates(self) -> Rankings:
        return self._material.candidates(self._material.measured, self._options.depth)

    def _read(self, scorer: CrossEncoderScorer) -> np.ndarray:
        """A reranker's scores of BM25's candidates of the questions that are measured, `(n_questions, depth)`."""
        material, title, windows = self._material, self._options.title, self._options.window_options
        passages = material.question_set.passages
        reranked = Reranked("reranked", material.first_stage, scorer, passages, title=title, windows=windows)
        return reranked.candidate_scores([question.text for question in material.measured.questions], self._candidates)

    def _scores(self, read: np.ndarray, weight: float = 1.0) -> QuestionMeasurement:
        """Score the candidates in the order of the scores mixed with BM25's; `weight` is that of the reranker."""
        mixed = interpolated(self._candidates, read, weight)
        return self._material.evaluated(ranked(self._candidates.indices, mixed, max(CUT, mixed.shape[1])))

    def _cut(self, model: Any) -> Cut | None:
        """Windows of the passages that the adapted model does not read whole beside a question."""
        if not (options := self._options.window_options):
            return None
        scorer, texts, heads = self._live(model), self._material.texts, self._material.heads
        return lambda question, row: scorer.windows_of(question, texts[row], int(heads[row]), options)

    def _scorer(self, source: ModelSource, *, new_head: bool = False) -> CrossEncoderScorer:
        return CrossEncoderScorer(source, self._material.texts, precision=self._options.precision, new_head=new_head)

    def _live(self, model: Any) -> CrossEncoderScorer:
        return live_scorer(model, self._options, self._material.texts)
