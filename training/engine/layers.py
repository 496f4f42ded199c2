"""Where a transformer of any usual architecture holds its layers, and how much memory their states may take."""

from typing import Any

MEMORY_FRACTION = 0.25  # of the free memory, for stored states of frozen layers; more texts are computed every time


def transformer_layers(network: Any) -> Any:
    """The layers of a transformer, lowest first, as a `ModuleList`; None of an unknown architecture."""
    backbone = getattr(network, network.base_model_prefix, network)
    encoder = getattr(backbone, "encoder", None) or getattr(backbone, "transformer", None) or backbone
    layers = getattr(encoder, "layer", None)
    return layers if layers is not None else getattr(backbone, "layers", None)
