"""The recipes of rankers: bi-encoders, late interaction, sparse encoders and cross-encoders."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mrc_workbench.models.encoders import BiEncoder, SparseTextEncoder
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.loading import load_bi_encoder, load_sparse_encoder, load_token_encoder, prompts_of
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_MASKED_LANGUAGE_MODEL, ModelSource
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import Windows
from mrc_workbench.retrieval.comparison.first_stage import LateSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.dense import Dense, Late, LateIndex
from mrc_workbench.retrieval.lexical.engines import LearnedSparse
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import Recipe, Task, dense_retrievers, finished, processes, seconds_for
from mrc_workbench.training.engine.adaptation import adapt, by_idf, has_routes, live_bi_encoder, pool, project
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    LATE_INTERACTION,
    SPARSE_ENCODER,
    BiEncoderOptions,
    LateOptions,
    QuestionSide,
    SparseEncoderOptions,
)
from mrc_workbench.training.recipes.examples import ANCHOR, encoder_examples
from mrc_workbench.training.recipes.material import RANKERS, Material, Reached
from mrc_workbench.training.recipes.shown import ShownPassages, cut_of, held_out, lesson_of

if TYPE_CHECKING:
    from mrc_workbench.training.engine.speed import LowerStates
from mrc_workbench.models.encoders.cross_encoder import CrossEncoderScorer
from mrc_workbench.models.loading import load_cross_encoder
from mrc_workbench.models.sources import DEFAULT_CROSS_ENCODER
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.evaluation.measures import CUT
from mrc_workbench.retrieval.rankings import Rankings, ranked
from mrc_workbench.retrieval.rerank import Reranked, interpolated, recommend_weight
from mrc_workbench.training.base import Examples, TeacherLabels
from mrc_workbench.training.engine.adaptation import live_scorer
from mrc_workbench.training.ranker_options import CROSS_ENCODER, CrossEncoderObjective, CrossEncoderOptions
from mrc_workbench.training.recipes.examples import cross_encoder_examples
from mrc_workbench.training.recipes.shown import Cut, TeachersScores

# trained, and measured before it: question tokens count alike, as in the loss
TRAINED_LAYERS = TokenLayers.UPPER
Chosen = TypeVar("Chosen", BiEncoderOptions, LateOptions, SparseEncoderOptions)


class _EncoderRecipe(Recipe[Chosen, Material]):
    """How anything is trained that encodes questions and passages apart. Encoders are of the kind's own class."""

    family = RANKERS

    def measured(self, source: ModelSource) -> Reached:
        """Measure a model over the whole corpus, on the test questions, too: the passages are encoded already."""
        return self._measured(self._saving_encoder(source), tested=True)

    def task(self, source: ModelSource) -> Task:
        options, material = self._options, self._material
        columns, examples = encoder_examples(options, material)
        model = self._loaded(source)
        settled = adapt(model, options)
        cut = cut_of(self._live(model), options.window_options, material) if options.window_options else None
        loss, shown, lesson = self._loss(model), ShownPassages(material, cut), partial(lesson_of, options)
        question, passage = prompts_of(model)
        return Task(
            *(model, loss, shown.columns(columns, examples), examples),
            lambda trained: self._measured(self._live(trained)),
            prompts={name: question if name == ANCHOR else passage for name in columns},
            settled=settled,
            told=shown.told,
            lesson=lesson(examples, material),
            held_out=held_out(material, lambda few: encoder_examples(options, few), cut, lesson),
            lower_states=self._lower_states,
        )

    @cached_property
    def _lower_states(self) -> "LowerStates | None":
        """What the frozen layers make of each text: the same before, during and after the training."""
        from mrc_workbench.training.engine.speed import LowerStates

        return LowerStates(self._options.frozen_layers) if self._options.frozen_layers else None

    def _saving_encoder(self, source: ModelSource) -> Any:
        """An encoder of the base or of the finished model, whose results are saved."""
        encoder = self._encoder(source)
        encoder.stored_work = self._lower_states
        return encoder

    def seconds_to_measure(self, model: Any) -> float:
        material, encoder = self._material, self._live(model)
        rows = sorted(range(len(material.texts)), key=lambda row: len(material.texts[row]))
        asked = [question.text for question in material.measured.questions]
        return seconds_for(partial(self._read, encoder), rows) + seconds_for(encoder.encode_questions, asked)

    def _loaded(self, source: ModelSource) -> Any:
        """The base, changed in its parts as the options say."""
        raise NotImplementedError

    def _loss(self, model: Any) -> Any:
        raise NotImplementedError

    def _encoder(self, source: ModelSource) -> Any:
        raise NotImplementedError

    def _live(self, model: Any) -> Any:
        """What encodes with a loaded model as it is, in the middle of its training."""
        raise NotImplementedError

    def _measured(self, encoder: Any, *, tested: bool = False) -> Reached:
        raise NotImplementedError

    def _read(self, encoder: Any, rows: Sequence[int]) -> object:
        """Encode the passages in these rows as they are for a search."""
        raise NotImplementedError


class BiEncoderRecipe(_EncoderRecipe[BiEncoderOptions]):
    """How a bi-encoder is trained."""

    kind = BI_ENCODER
    options = BiEncoderOptions
    base = DEFAULT_BI_ENCODER
    measure = "recall@10"
    colour = PALETTE[1]  # of Dense on the other pages
    does = "A bi-encoder: it turns questions and passages into vectors whose cosine says how well they fit."
    hub_task = "sentence-similarity"
    loading = ("from sentence_transformers import SentenceTransformer", 'SentenceTransformer("{folder}")')
    loading_a_starter = (
        "from mrc_workbench.models.loading import load_bi_encoder\nfrom mrc_workbench.models.sources import find_model",
        'load_bi_encoder(find_model("{folder}"), [])',
    )
    usage = """questions = model.encode_query(["a question"], normalize_embeddings=True)
passages = model.encode_document(["a passage", "another one"], normalize_embeddings=True)
print(questions @ passages.T)  # cosines, higher is better"""

    retrievers = staticmethod(dense_retrievers)

    def _loaded(self, source: ModelSource) -> Any:
        model = load_bi_encoder(source, self._material.texts)
        pool(model, self._options.pooling.value)
        return model

    def _loss(self, model: Any) -> Any:
        from mrc_workbench.training.recipes.losses import bi_encoder_loss  # imports torch

        return bi_encoder_loss(model, self._options, self._material, processes=processes())

    def _encoder(self, source: ModelSource) -> BiEncoder:
        return BiEncoder(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> BiEncoder:
        return live_bi_encoder(model, self._options, self._material.texts)

    def _measured(self, encoder: BiEncoder, *, tested: bool = False) -> Reached:
        passages, options = self._material.question_set.passages, self._options
        dense = Dense("dense", passages, encoder, title=options.title, windows=options.window_options)
        return self._material.measure(dense, tested=tested)

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
    does = "An encoder of late interaction: each token of a question is compared with each token of a passage."
    hub_task = "feature-extraction"
    loading = ("from sentence_transformers import MultiVectorEncoder", 'MultiVectorEncoder("{folder}")')
    usage = """questions = model.encode_query(["a question"])
passages = model.encode_document(["a passage", "another one"])
print(model.similarity(questions, passages))  # mean of each token's best cosine, higher is better"""

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        late = LateSpec(name=named("Late"), model=model, title=title, windows=True)
        return [late, HybridSpec(name=named("Hybrid"), of=(first, late.name))]

    def _loaded(self, source: ModelSource) -> Any:
        model = load_token_encoder(source, TRAINED_LAYERS)
        if self._options.dimensions:
            project(model, self._options.dimensions, self._material.texts)
        return model

    def _loss(self, model: Any) -> Any:
        from mrc_workbench.training.recipes.losses import late_loss  # imports torch

        return late_loss(model, self._options, processes=processes())

    def _encoder(self, source: ModelSource, at_hand: Any = None) -> TokenEncoder:
        texts, windows = self._material.texts, self._options.window_options
        precision = self._options.precision
        return TokenEncoder(source, texts, precision=precision, windows=windows, layers=TRAINED_LAYERS, at_hand=at_hand)

    def _live(self, model: Any) -> TokenEncoder:
        return self._encoder(ModelSource(self._options.base), at_hand=model)

    def _measured(self, encoder: TokenEncoder, *, tested: bool = False) -> Reached:
        passages, title = self._material.question_set.passages, self._options.title
        # exact: of a model in training no index is kept
        late = Late("late", passages, encoder, title=title, index=LateIndex.EXACT)
        return self._material.measure(late, tested=tested)

    def _read(self, encoder: TokenEncoder, rows: Sequence[int]) -> object:
        return encoder.encode_passages([self._material.texts[row] for row in rows], self._material.heads[list(rows)])


class SparseEncoderRecipe(_EncoderRecipe[SparseEncoderOptions]):
    """How a sparse encoder is trained."""

    kind = SPARSE_ENCODER
    options = SparseEncoderOptions
    base = DEFAULT_MASKED_LANGUAGE_MODEL
    measure = "recall@10"
    colour = PALETTE[4]
    does = "A sparse encoder: it turns questions and passages into few weighed terms, searched as words are."
    hub_task = "feature-extraction"
    loading = ("from sentence_transformers import SparseEncoder", 'SparseEncoder("{folder}")')
    usage = """questions = model.encode_query(["a question"])
passages = model.encode_document(["a passage", "another one"])
print(model.similarity(questions, passages))  # dot products, higher is better
print(model.decode(passages[0], top_k=10))  # its terms of most weight"""

    def task(self, source: ModelSource) -> Task:
        task = super().task(source)
        routes = {name: "query" if name == ANCHOR else "document" for name in task.columns}
        return replace(task, routes=routes if has_routes(task.model) else {})

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
        encoder = self._saving_encoder(finished(model_folder))
        scores = {"after": self._measured(encoder, tested=True)}  # its texts are kept from here on
        asked = [question.text for question in self._material.validation.questions]
        sides = {"question": encoder.encode_questions(asked), "passage": encoder.encode_passages(self._material.texts)}
        active = {side: float(np.diff(weights.indptr).mean()) for side, weights in sides.items()}
        return scores, {"active_terms": active}

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        sparse = SparseSpec(name=named("Sparse"), model=model, title=title)
        return [sparse, HybridSpec(name=named("Hybrid"), of=(first, sparse.name))]

    def _loaded(self, source: ModelSource) -> Any:
        model = load_sparse_encoder(source)
        return by_idf(model, self._material.texts) if self._options.question_side is QuestionSide.IDF else model

    def _loss(self, model: Any) -> Any:
        from mrc_workbench.training.recipes.losses import sparse_encoder_loss  # imports torch

        return sparse_encoder_loss(model, self._options, processes=processes())

    def _encoder(self, source: ModelSource) -> SparseTextEncoder:
        return SparseTextEncoder(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> SparseTextEncoder:
        size, precision = self._options.evaluation_batch_size, self._options.precision
        source = ModelSource(self._options.base)
        encoder = _LiveSparseEncoder(source, self._material.texts, precision=precision, batch_size=size)
        encoder.model = model
        return encoder

    def _measured(self, encoder: SparseTextEncoder, *, tested: bool = False) -> Reached:
        passages = self._material.question_set.passages
        sparse = LearnedSparse("sparse", passages, encoder, title=self._options.title)
        return self._material.measure(sparse, tested=tested)

    def _read(self, encoder: SparseTextEncoder, rows: Sequence[int]) -> object:
        return encoder.encode_passages([self._material.texts[row] for row in rows])


class _LiveSparseEncoder(SparseTextEncoder):
    """A model in the middle of its training: nothing it says is kept."""

    def _block(self, side: str, texts: list[str], *, keep: bool) -> dict[str, np.ndarray]:
        del keep
        return super()._block(side, texts, keep=False)


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
        from mrc_workbench.training.recipes.losses import cross_encoder_loss  # imports torch

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
