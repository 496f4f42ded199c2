"""The recipes of rankers: bi-encoders, late interaction, sparse encoders and cross-encoders."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mrc_workbench.models import loading, sources
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import Windows
from mrc_workbench.retrieval.combine import RerankedRetriever, interpolate_scores, recommend_weight
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.dense import Dense, LateIndex, LateInteraction, SparseRetriever
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF
from mrc_workbench.retrieval.rankings import Rankings, Retriever, rank_candidates
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training import ranker_options
from mrc_workbench.training.base import Recipe, Task, estimate_seconds, finished_model_source
from mrc_workbench.training.engine import adaptation
from mrc_workbench.training.recipes.examples import ANCHOR, cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.passage_windows import (
    PassageWindowCutter,
    PassageWindows,
    make_teacher,
    make_validation_examples,
    make_window_cutter,
)
from mrc_workbench.training.recipes.training_data import RANKER_FAMILY, QuestionMeasurement, TrainingData

if TYPE_CHECKING:
    from mrc_workbench.training.engine.speed import LowerStates

TRAINED_LAYERS = TokenLayers.UPPER  # question tokens have equal weights, as in the loss
INTERPOLATION_WEIGHTS = tuple(step / 20 for step in range(21))  # of a cross-encoder's scores; the rest is BM25's
EncoderOptions = TypeVar(
    "EncoderOptions", ranker_options.BiEncoderOptions, ranker_options.LateOptions, ranker_options.SparseEncoderOptions
)


class _EncoderRecipe(Recipe[EncoderOptions, TrainingData]):
    """The training of models that encode questions and passages separately."""

    family = RANKER_FAMILY

    def evaluate(self, source: sources.ModelSource) -> QuestionMeasurement:
        """Evaluate a model over the whole corpus, also on test questions: the passages are encoded anyway."""
        return self._data.evaluate(self._make_retriever(self._make_cached_encoder(source)), with_test=True)

    def build_task(self, source: sources.ModelSource) -> Task:
        from mrc_workbench.training.recipes.losses import encoder_loss  # imports torch

        options = self._options
        data = self._data
        columns, examples = encoder_examples(options, data)
        model = self._load_model(source)
        resolved_options = adaptation.adapt(model, options)
        windows = options.window_options
        window_cutter = make_window_cutter(self._wrap_model(model), windows, data) if windows else None
        passage_windows = PassageWindows(data, window_cutter)
        question, passage = loading.prompts_of(model)
        return Task(
            model=model,
            loss=encoder_loss(model, options, data),
            columns=passage_windows.columns(columns, examples),
            examples=examples,
            evaluate=lambda trained: self._data.evaluate(self._make_retriever(self._wrap_model(trained))),
            prompts={name: question if name == ANCHOR else passage for name in columns},
            resolved_options=resolved_options,
            metadata=passage_windows.metadata,
            teacher=make_teacher(options, examples, data),
            held_out=make_validation_examples(options, data, encoder_examples, window_cutter),
            lower_states=self._lower_states,
        )

    @cached_property
    def _lower_states(self) -> "LowerStates | None":
        """The states of the frozen layers by text, shared by evaluation and training."""
        from mrc_workbench.training.engine.speed import LowerStates

        return LowerStates(self._options.frozen_layers) if self._options.frozen_layers else None

    def _make_cached_encoder(self, source: sources.ModelSource) -> Any:
        encoder = self._make_encoder(source)
        encoder.stored_work = self._lower_states
        return encoder

    def estimate_evaluation_seconds(self, model: Any) -> float:
        data = self._data
        encoder = self._wrap_model(model)
        rows = sorted(range(len(data.texts)), key=lambda row: len(data.texts[row]))
        questions = [question.text for question in data.evaluation_questions.questions]
        seconds = estimate_seconds(partial(self._encode_passages, encoder), rows)
        return seconds + estimate_seconds(encoder.encode_questions, questions)

    @abstractmethod
    def _load_model(self, source: sources.ModelSource) -> Any: ...

    @abstractmethod
    def _make_encoder(self, source: sources.ModelSource) -> Any: ...

    @abstractmethod
    def _wrap_model(self, model: Any) -> Any:
        """Return an encoder of a model in training."""

    @abstractmethod
    def _make_retriever(self, encoder: Any) -> Retriever: ...

    @abstractmethod
    def _encode_passages(self, encoder: Any, rows: Sequence[int]) -> object:
        """Encode the passages in these rows as for a search."""


class BiEncoderRecipe(_EncoderRecipe[ranker_options.BiEncoderOptions]):
    """The training of a bi-encoder."""

    kind = ranker_options.BI_ENCODER
    options = ranker_options.BiEncoderOptions
    base = sources.DEFAULT_BI_ENCODER
    measure = "recall@10"
    colour = PALETTE[1]  # of Dense on the other pages
    retriever_spec = ("Dense", partial(DenseSpec, windows=True))

    def _load_model(self, source: sources.ModelSource) -> Any:
        model = loading.load_bi_encoder(source, self._data.texts)
        adaptation.set_pooling(model, self._options.pooling.value)
        return model

    def _make_encoder(self, source: sources.ModelSource) -> BiEncoder:
        return BiEncoder(source, self._data.texts, precision=self._options.precision)

    def _wrap_model(self, model: Any) -> BiEncoder:
        return adaptation.live_bi_encoder(model, self._options, self._data.texts)

    def _make_retriever(self, encoder: BiEncoder) -> Dense:
        passages = self._data.question_set.passages
        options = self._options
        return Dense("dense", passages, encoder, title=options.title, windows=options.window_options)

    def _encode_passages(self, encoder: BiEncoder, rows: Sequence[int]) -> object:
        texts = [self._data.texts[row] for row in rows]
        options = self._options.window_options
        title_lengths = self._data.title_lengths[list(rows)]
        windows = encoder.windows_of(texts, title_lengths, options) if options else Windows.empty()
        return encoder.encode_windows(texts, windows)


class LateRecipe(_EncoderRecipe[ranker_options.LateOptions]):
    """The training of a late-interaction encoder (ColBERT: Khattab & Zaharia 2020)."""

    kind = ranker_options.LATE_INTERACTION
    options = ranker_options.LateOptions
    base = sources.DEFAULT_BI_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[2]

    retriever_spec = ("Late", partial(LateSpec, windows=True))

    def _load_model(self, source: sources.ModelSource) -> Any:
        model = loading.load_token_encoder(source, TRAINED_LAYERS)
        if self._options.dimensions:
            adaptation.add_projection(model, self._options.dimensions, self._data.texts)
        return model

    def _make_encoder(self, source: sources.ModelSource, model: Any = None) -> TokenEncoder:
        windows = self._options.window_options
        precision = self._options.precision
        return TokenEncoder(
            source, self._data.texts, precision=precision, windows=windows, layers=TRAINED_LAYERS, loaded_model=model
        )

    def _wrap_model(self, model: Any) -> TokenEncoder:
        return self._make_encoder(sources.ModelSource(self._options.base), model)

    def _make_retriever(self, encoder: TokenEncoder) -> LateInteraction:
        title = self._options.title
        # exact: no index is stored of a model in training
        return LateInteraction("late", self._data.question_set.passages, encoder, title=title, index=LateIndex.EXACT)

    def _encode_passages(self, encoder: TokenEncoder, rows: Sequence[int]) -> object:
        return encoder.encode_passages([self._data.texts[row] for row in rows], self._data.title_lengths[list(rows)])


class SparseEncoderRecipe(_EncoderRecipe[ranker_options.SparseEncoderOptions]):
    """The training of a sparse encoder."""

    kind = ranker_options.SPARSE_ENCODER
    options = ranker_options.SparseEncoderOptions
    base = sources.DEFAULT_MASKED_LANGUAGE_MODEL
    measure = "recall@10"
    colour = PALETTE[4]
    retriever_spec = ("Sparse", SparseSpec)

    def build_task(self, source: sources.ModelSource) -> Task:
        task = super().build_task(source)
        routes = {name: "query" if name == ANCHOR else "document" for name in task.columns}
        return replace(task, routes=routes if adaptation.has_routes(task.model) else {})

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        encoder = self._make_cached_encoder(finished_model_source(model_folder))
        scores = {"after": self._data.evaluate(self._make_retriever(encoder), with_test=True)}  # stores its texts
        questions = [question.text for question in self._data.validation.questions]
        passages = self._data.texts
        vectors = {"question": encoder.encode_questions(questions), "passage": encoder.encode_passages(passages)}
        active_terms = {side: float(np.diff(matrix.indptr).mean()) for side, matrix in vectors.items()}
        return scores, {"active_terms": active_terms}

    def _load_model(self, source: sources.ModelSource) -> Any:
        model = loading.load_sparse_encoder(source)
        uses_idf = self._options.question_side is ranker_options.QuestionSide.IDF
        return adaptation.weight_questions_by_idf(model, self._data.texts) if uses_idf else model

    def _make_encoder(self, source: sources.ModelSource) -> SparseTextEncoder:
        return SparseTextEncoder(source, self._data.texts, precision=self._options.precision)

    def _wrap_model(self, model: Any) -> SparseTextEncoder:
        options = self._options
        source = sources.ModelSource(self._options.base)
        size = options.evaluation_batch_size
        encoder = _LiveSparseEncoder(source, self._data.texts, precision=options.precision, batch_size=size)
        encoder.model = model
        return encoder

    def _make_retriever(self, encoder: SparseTextEncoder) -> SparseRetriever:
        return SparseRetriever("sparse", self._data.question_set.passages, encoder, title=self._options.title)

    def _encode_passages(self, encoder: SparseTextEncoder, rows: Sequence[int]) -> object:
        return encoder.encode_passages([self._data.texts[row] for row in rows])


class _LiveSparseEncoder(SparseTextEncoder):
    """An encoder of a model in training: it stores no vectors."""

    def _block(self, side: str, texts: list[str], *, store: bool) -> dict[str, np.ndarray]:
        return super()._block(side, texts, store=False)


class CrossEncoderRecipe(Recipe[ranker_options.CrossEncoderOptions, TrainingData]):
    """The training of a cross-encoder."""

    kind = ranker_options.CROSS_ENCODER
    family = RANKER_FAMILY
    options = ranker_options.CrossEncoderOptions
    base = sources.DEFAULT_CROSS_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[3]  # of Reranked on the other pages

    def evaluate(self, source: sources.ModelSource) -> QuestionMeasurement:
        """Evaluate a reranker on BM25's first passages; a base without a head gets a random one."""
        return self._evaluate_scores(self._score_candidates(self._make_scorer(source, new_head=True)))

    def build_task(self, source: sources.ModelSource) -> Task:
        from mrc_workbench.training.recipes.losses import cross_encoder_loss  # imports torch

        options = self._options
        data = self._data
        columns, examples = cross_encoder_examples(options, data)
        model = loading.load_cross_encoder(source, data.texts, new_head=True)
        resolved_options = adaptation.adapt(model, options)
        window_cutter = self._make_window_cutter(model)
        passage_windows = PassageWindows(data, window_cutter)
        return Task(
            model=model,
            loss=cross_encoder_loss(model, options),
            columns=passage_windows.columns(columns, examples),
            examples=examples,
            evaluate=lambda trained: self._evaluate_scores(self._score_candidates(self._wrap_model(trained))),
            resolved_options=resolved_options,
            metadata=passage_windows.metadata,
            teacher=make_teacher(options, examples, data),
            held_out=make_validation_examples(options, data, cross_encoder_examples, window_cutter),
        )

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        """Evaluate the model without BM25, and interpolated with BM25 by the best weight on validation questions."""
        candidate_scores = self._score_candidates(self._make_scorer(finished_model_source(model_folder)))
        measurements = {weight: self._evaluate_scores(candidate_scores, weight) for weight in INTERPOLATION_WEIGHTS}
        # the best nDCG@10; of equal ones, the weight nearest to 0.5
        ndcg = {weight: result.validation.means()[f"ndcg@{DEFAULT_CUTOFF}"] for weight, result in measurements.items()}
        weight = max(ndcg, key=lambda weight: (ndcg[weight], -abs(weight - 0.5)))
        recommend_weight(model_folder, weight, selected_on=f"validation questions, BM25's first {self._options.depth}")
        return {"after": measurements[1.0], "interpolated": measurements[weight]}, {"weight": weight}

    def estimate_evaluation_seconds(self, model: Any) -> float:
        data = self._data
        scorer = self._wrap_model(model)
        options = self._options.window_options
        questions = data.evaluation_questions.questions
        first_passages = self._candidates.indices[:, 0].tolist()  # of typical length
        pairs_to_score = [(query.text, row) for query, row in zip(questions, first_passages, strict=True) if row >= 0]
        pairs_to_score.sort(key=lambda pair: len(pair[0]) + len(data.texts[pair[1]]))

        def score(sample: Sequence[tuple[str, int]]) -> object:
            pairs = [(question, data.texts[row]) for question, row in sample]
            title_lengths = [int(data.title_lengths[row]) for _, row in sample]
            return scorer.score_windows(pairs, title_lengths, options) if options else scorer.score(pairs)

        return estimate_seconds(score, pairs_to_score) * len(questions) * self._options.depth / len(pairs_to_score)

    @classmethod
    def retrievers(cls, model: str, first: str, *, title: bool, name_for: Callable[[str], str]) -> list[Spec]:
        return [RerankSpec(name=name_for("Reranked"), first_stage=first, model=model, title=title, windows=True)]

    @cached_property
    def _candidates(self) -> Rankings:
        return self._data.candidates(self._data.evaluation_questions, self._options.depth)

    def _score_candidates(self, scorer: CrossEncoderScorer) -> np.ndarray:
        """Return a reranker's scores of the BM25 candidates of the evaluation questions, `(n_questions, depth)`."""
        data = self._data
        title = self._options.title
        windows = self._options.window_options
        passages = data.question_set.passages
        reranked = RerankedRetriever("reranked", data.first_stage, scorer, passages, title=title, windows=windows)
        queries = [question.text for question in data.evaluation_questions.questions]
        return reranked.candidate_scores(queries, self._candidates)

    def _evaluate_scores(self, candidate_scores: np.ndarray, weight: float = 1.0) -> QuestionMeasurement:
        """Evaluate the candidates ranked by the scores, interpolated with BM25's; `weight` is that of the reranker."""
        interpolated_scores = interpolate_scores(self._candidates, candidate_scores, weight)
        depth = max(DEFAULT_CUTOFF, interpolated_scores.shape[1])
        return self._data.evaluate_rankings(rank_candidates(self._candidates.indices, interpolated_scores, depth))

    def _make_window_cutter(self, model: Any) -> PassageWindowCutter | None:
        """Return a cutter for passages that the model does not read whole together with a question."""
        if not (options := self._options.window_options):
            return None
        scorer = self._wrap_model(model)
        texts = self._data.texts
        title_lengths = self._data.title_lengths
        return lambda question, row: scorer.windows_of(question, texts[row], int(title_lengths[row]), options)

    def _make_scorer(self, source: sources.ModelSource, *, new_head: bool = False) -> CrossEncoderScorer:
        return CrossEncoderScorer(source, self._data.texts, precision=self._options.precision, new_head=new_head)

    def _wrap_model(self, model: Any) -> CrossEncoderScorer:
        return adaptation.live_scorer(model, self._options, self._data.texts)
