"""The sparse encoder recipe: a masked language model learns which terms, in a text or not, tell passages apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from models.encoders.bi_encoder import prompts_of
from models.encoders.sparse_encoder import SparseTextEncoder
from models.loading import load_sparse_encoder
from models.sources import DEFAULT_MASKED_LANGUAGE_MODEL, ModelSource
from retrieval.comparison.first_stage import SparseSpec
from retrieval.comparison.multistage import HybridSpec
from retrieval.comparison.spec import Spec
from retrieval.lexical.learned import LearnedSparse
from retrieval.report.colours import PALETTE
from training.base import Recipe, finished
from training.engine.adaptation import adapt
from training.engine.task import Task, processes, seconds_for
from training.options.rankers import SPARSE_ENCODER, QuestionSide, SparseEncoderOptions
from training.rankers.examples import ANCHOR, encoder_examples
from training.rankers.losses import by_idf, has_routes, sparse_encoder_loss
from training.rankers.material import RANKERS, Material, Reached
from training.rankers.shown import held_out


class SparseEncoderRecipe(Recipe[SparseEncoderOptions, Material]):
    """How a sparse encoder is trained; see `training.base.Recipe`."""

    kind = SPARSE_ENCODER
    family = RANKERS
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

    def measured(self, source: ModelSource) -> Reached:
        """Measure a model over the whole corpus, on the test questions, too: the passages are encoded already."""
        return self._measured(self._encoder(source), tested=True)

    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs. Raises `OptionError`, `ModelError`."""
        columns, examples = encoder_examples(self._options, self._material)
        model = load_sparse_encoder(source)
        if self._options.question_side is QuestionSide.IDF:
            model = by_idf(model, self._material.texts)
        settled = adapt(model, self._options)
        loss = sparse_encoder_loss(model, self._options, processes=processes())
        question, passage = prompts_of(model)
        prompts = {name: question if name == ANCHOR else passage for name in columns}
        routes = {name: "query" if name == ANCHOR else "document" for name in columns} if has_routes(model) else {}
        return Task(
            *(model, loss, columns, examples, lambda trained: self._measured(self._live(trained)), prompts),
            routes=routes,
            settled=settled,
            held_out=held_out(self._material, lambda few: encoder_examples(self._options, few)),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
        """Measure the finished model, and how many terms are active in a text on average."""
        encoder = self._encoder(finished(model_folder))
        scores = {"after": self._measured(encoder, tested=True)}  # its texts are kept from here on
        asked = [question.text for question in self._material.validation.questions]
        sides = {
            "question": encoder.encode_questions(asked),
            "passage": encoder.encode_passages(self._material.texts),
        }
        return scores, {
            "active_terms": {side: float(np.diff(weights.indptr).mean()) for side, weights in sides.items()}
        }

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a few texts take."""
        asked = [question.text for question in self._material.measured.questions]
        encoder, texts = self._live(model), sorted(self._material.texts, key=len)
        return seconds_for(encoder.encode_passages, texts) + seconds_for(encoder.encode_questions, asked)

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        """Search with its terms, alone and together with BM25."""
        sparse = SparseSpec(name=named("Sparse"), model=model, title=title)
        return [sparse, HybridSpec(name=named("Hybrid"), of=(first, sparse.name))]

    def _measured(self, encoder: SparseTextEncoder, *, tested: bool = False) -> Reached:
        passages = self._material.question_set.passages
        sparse = LearnedSparse("sparse", passages, encoder, title=self._options.title)
        return self._material.measure(sparse, tested=tested)

    def _encoder(self, source: ModelSource) -> SparseTextEncoder:
        return SparseTextEncoder(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> SparseTextEncoder:
        size, precision = self._options.evaluation_batch_size, self._options.precision
        source = ModelSource(self._options.base)
        encoder = _LiveSparseEncoder(source, self._material.texts, precision=precision, batch_size=size)
        encoder.model = model
        return encoder


class _LiveSparseEncoder(SparseTextEncoder):
    """A model in the middle of its training: nothing it says is kept."""

    def _block(self, side: str, texts: list[str], *, keep: bool) -> dict[str, np.ndarray]:
        del keep
        return super()._block(side, texts, keep=False)
