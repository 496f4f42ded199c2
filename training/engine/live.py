"""Models in the middle of their training, measured as finished ones are: nothing they say is kept."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.encoders.vector_blocks import StoredVectors, VectorBlocks
from models.sources import ModelSource
from models.windows import WindowOptions, Windows
from training.options.common import TrainingOptions


def live_bi_encoder(model: Any, options: TrainingOptions, texts: Sequence[str]) -> BiEncoder:
    """Return what encodes with a loaded model as it is; `texts` are those of the corpus."""
    size, precision = options.evaluation_batch_size, options.precision
    encoder = _LiveBiEncoder(ModelSource(options.base), texts, precision=precision, batch_size=size)
    encoder.model = model
    return encoder


def live_scorer(model: Any, options: TrainingOptions, texts: Sequence[str], labels: int = 1) -> CrossEncoderScorer:
    """Return what scores pairs with a loaded model as it is."""
    size, precision = options.evaluation_batch_size, options.precision
    source = ModelSource(options.base)
    scorer = CrossEncoderScorer(source, texts, precision=precision, batch_size=size, labels=labels)
    scorer.model = model
    return scorer


class _LiveBiEncoder(BiEncoder):
    def _kept(self, side: str, texts: Sequence[str], blocks: VectorBlocks) -> StoredVectors:
        del side, texts
        return blocks.computed()

    def windows_of(self, texts: Sequence[str], heads: np.ndarray, options: WindowOptions) -> Windows:
        """Cut passages anew."""
        return self.cut(texts, heads, options)
