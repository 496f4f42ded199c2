"""Sentences as vectors, by every layer of a transformer and pooled in every way."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from language.inside.network import Network


class Pooling(StrEnum):
    """How a sentence's pieces become one vector; those that the tokenizer adds count, as in sentence-transformers."""

    MEAN = "mean"
    CLS = "cls"  # the first piece
    MAX = "max"  # the largest value of each dimension


def points(network: Network, sentences: Sequence[str]) -> np.ndarray:
    """Return vectors of length 1 by layer and `Pooling`, `(n_layers + 1, 3, n_sentences, dimensions)` float64.

    Layer 0 is what goes into the first.
    """
    import torch

    features = network.features(sentences)
    mask = features["attention_mask"][..., None].bool()
    with torch.inference_mode():
        states = network.model(**features, output_hidden_states=True).hidden_states
        vectors = np.stack([[one.double().cpu().numpy() for one in _pool(state, mask)] for state in states])
    found: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return found


def _pool(state: Any, mask: Any) -> tuple[Any, Any, Any]:
    """In the order of `Pooling`; `state` `(n, width, dimensions)`, `mask` `(n, width, 1)`."""
    mean = state.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1)
    return mean, state[:, 0], state.masked_fill(~mask, float("-inf")).amax(dim=1)
