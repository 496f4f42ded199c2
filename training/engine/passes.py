"""Passes of a training step: texts of like length together, as when texts are encoded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from models.inference import passes_of_like_length, takes_rows


@contextmanager
def short_passes(model: Any) -> Iterator[None]:
    """Within the block a step's texts are computed in passes of like length, so that a long one costs only itself.

    Losses and gradients are those of one pass; only dropout draws other numbers. A model that reads texts in its own
    way, such as a starter, is left as it is.
    """
    from sentence_transformers import CrossEncoder

    if not takes_rows(model):
        yield
        return
    output = "scores" if isinstance(model, CrossEncoder) else "sentence_embedding"
    with passes_of_like_length(model, output):
        yield
