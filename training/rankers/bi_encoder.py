"""The bi-encoder recipe: what is loaded, measured and made smaller."""

import time
from collections.abc import Sequence
from typing import Any

from models.bi_encoder import BiEncoder
from models.loading import load_bi_encoder
from models.sources import ModelSource
from models.vector_blocks import StoredVectors, VectorBlocks
from retrieval.dense.retriever import Dense
from retrieval.evaluation.measures import Scores
from training.engine.adaptation import adapt
from training.engine.arguments import processes
from training.engine.trainers import Task
from training.options.bi_encoder import BiEncoderOptions
from training.rankers.examples import bi_encoder_examples
from training.rankers.losses import bi_encoder_loss
from training.rankers.material import Material
from training.runs.runs import Run

_PROBED = 64  # texts


class BiEncoderRecipe:
    """How a bi-encoder is trained: in turn `measured(source)`, `task(source)`, and `concluded(run)` at the end."""

    def __init__(self, options: BiEncoderOptions, material: Material) -> None:
        self._options, self._material = options, material

    def measured(self, source: ModelSource) -> Scores:
        """Measure a model on the validation questions, over the whole corpus."""
        return self._measured(BiEncoder(source, self._material.texts, precision=self._options.precision))

    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs. Raises `OptionError`."""
        columns, examples = bi_encoder_examples(self._options, self._material)
        model = load_bi_encoder(source, self._material.texts)
        adapt(model, self._options)
        loss = bi_encoder_loss(model, self._options, self._material, processes=processes())
        return Task(model, loss, columns, examples, lambda trained: self._measured(self._live(trained)))

    def concluded(self, run: Run) -> tuple[dict[str, Scores], dict[str, Any]]:
        """Measure the finished model; nothing else is to be found out."""
        return {"after": self.measured(ModelSource(run.id, folder=run.model_folder))}, {}

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a few texts take."""
        texts = self._material.texts[:_PROBED]
        began = time.perf_counter()
        self._live(model).encode_passages(texts)
        everything = len(self._material.texts) + len(self._material.validation.questions)
        return (time.perf_counter() - began) / len(texts) * everything

    def _measured(self, encoder: BiEncoder) -> Scores:
        passages = self._material.question_set.passages
        return self._material.measure(Dense("dense", passages, encoder, title=self._options.title))

    def _live(self, model: Any) -> BiEncoder:
        return _LiveBiEncoder(model, self._material.texts, self._options)


class _LiveBiEncoder(BiEncoder):
    """A model in the middle of its training: nothing it says is kept."""

    def __init__(self, model: Any, corpus: Sequence[str], options: BiEncoderOptions) -> None:
        batch_size, precision = options.evaluation_batch_size, options.precision
        super().__init__(ModelSource("live"), corpus, precision=precision, batch_size=batch_size)
        self.model = model

    def _kept(self, side: str, texts: Sequence[str], blocks: VectorBlocks) -> StoredVectors:
        del side, texts
        return blocks.computed()
