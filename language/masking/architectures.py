"""The sizes of BERT that the literature compares."""

from enum import StrEnum
from typing import Any, NamedTuple

_HEAD = 64  # dimensions of an attention head, in all sizes
_POSITIONS = 512


class Size(StrEnum):
    """BERT by its size: base and large of Devlin et al. 2019, the smaller ones of Turc et al. 2019."""

    TINY = "tiny"
    MINI = "mini"
    SMALL = "small"
    MEDIUM = "medium"
    BASE = "base"
    LARGE = "large"


class Shape(NamedTuple):
    """Layers, and the dimensions of their vectors."""

    layers: int
    hidden: int


SHAPES = {
    Size.TINY: Shape(2, 128),
    Size.MINI: Shape(4, 256),
    Size.SMALL: Shape(4, 512),
    Size.MEDIUM: Shape(8, 512),
    Size.BASE: Shape(12, 768),
    Size.LARGE: Shape(24, 1024),
}


def configuration(size: Size, vocabulary: int, length: int, pad: int) -> dict[str, Any]:
    """Return what transformers' `BertConfig` is made of, for so many pieces and texts of `length` tokens at most."""
    shape = SHAPES[size]
    return {
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.hidden // _HEAD,
        "intermediate_size": 4 * shape.hidden,
        "max_position_embeddings": max(_POSITIONS, length),
        "pad_token_id": pad,
    }
