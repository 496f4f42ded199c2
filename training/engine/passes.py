"""Passes of a training step: texts of like length together, as when texts are encoded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from models.inference import Features, passes_of_like_length, replaced, takes_rows


@contextmanager
def short_passes(model: Any, *, twice: bool = False) -> Iterator[None]:
    """Within the block a step's texts are computed in passes of like length, so that a long one costs only itself.

    `twice`: what a pass holds for its gradient is given up and computed again when its turn comes (Chen et al. 2016),
    so that memory no longer grows with the batch. Losses and gradients are those of one pass; only dropout draws other
    numbers. A model that reads texts in its own way, such as a starter, is left as it is.
    """
    from sentence_transformers import CrossEncoder

    if not takes_rows(model):
        yield
        return
    of_texts = "scores" if isinstance(model, CrossEncoder) else "sentence_embedding"
    output = getattr(model, "trained_by", of_texts)
    again = replaced(model, "forward", _recomputed(model.forward, output)) if twice else nullcontext()
    with again, passes_of_like_length(model, output):
        yield


def _recomputed(forward: Callable[..., Features], output: str) -> Callable[..., Features]:
    def recomputed(features: Features, **kwargs: Any) -> Features:
        def wanted() -> Any:
            return forward(dict(features), **kwargs)[output]

        return {output: checkpoint(wanted, use_reentrant=False) if torch.is_grad_enabled() else wanted()}

    return recomputed
