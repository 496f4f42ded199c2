"""What is changed of a sentence encoder before it is trained: how it pools, and how much it forgets at random."""

from typing import Any

from training.engine.adaptation import pool
from training.options.common import OptionError
from training.options.sentences import SentencePooling


def pool_sentences(model: Any, pooling: SentencePooling) -> None:
    """Let a loaded `SentenceTransformer` pool so. Raises `OptionError` where its modules do not allow it.

    The average of the first and the last layer is a weighted mean of layers, a module of the library like any other, of
    which no weight is learned.
    """
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

    averages = [module for module in model if isinstance(module, WeightedLayerPooling)]
    if pooling is not SentencePooling.FIRST_LAST_AVERAGE:
        if averages and pooling is not SentencePooling.BASE:
            raise OptionError("pooling", "starter", "pooling must be base: the model pools in its own way")
        pool(model, pooling.value)
    elif not averages:
        pool(model, SentencePooling.MEAN.value)
        model.insert(1, _first_and_last(model))
    for module in (one for one in model if isinstance(one, WeightedLayerPooling)):
        module.requires_grad_(False)


def forget(model: Any, share: float) -> None:
    """Set the dropout of hidden values, not that of attention. Raises `OptionError` where the base has none to set."""
    import torch

    found = [
        module
        for parent in model[0].auto_model.modules()
        if "Attention" not in type(parent).__name__
        for module in parent.children()
        if isinstance(module, torch.nn.Dropout)
    ]
    if not found:
        raise OptionError("dropout", "no_dropout", "dropout cannot be set: the base has none between its layers")
    for module in found:
        module.p = share


def _first_and_last(model: Any) -> Any:
    import torch
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

    config = model[0].auto_model.config
    config.output_hidden_states = True
    weights = torch.zeros(config.num_hidden_layers)
    weights[[0, -1]] = 1.0
    return WeightedLayerPooling(
        config.hidden_size, config.num_hidden_layers, layer_start=1, layer_weights=torch.nn.Parameter(weights)
    ).to(model.device)
