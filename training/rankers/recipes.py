"""The recipes of encoders that rank passages: of texts, of tokens and of terms."""

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
from mrc_workbench.training.engine.adaptation import adapt, live_bi_encoder, pool
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    LATE_INTERACTION,
    SPARSE_ENCODER,
    BiEncoderOptions,
    LateOptions,
    QuestionSide,
    SparseEncoderOptions,
)
from mrc_workbench.training.rankers.examples import ANCHOR, encoder_examples
from mrc_workbench.training.rankers.losses import (
    bi_encoder_loss,
    by_idf,
    has_routes,
    late_loss,
    project,
    sparse_encoder_loss,
)
from mrc_workbench.training.rankers.material import RANKERS, Material, Reached
from mrc_workbench.training.rankers.shown import ShownPassages, cut_of, held_out, lesson_of

if TYPE_CHECKING:
    from mrc_workbench.training.engine.speed import LowerStates

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
