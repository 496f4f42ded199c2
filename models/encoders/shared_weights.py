"""One copy of a transformer's weights for all encoders of a process that read the same model.

Dense retrieval and late interaction often use the same base model. Each encoder loads its own network, because the two
configure it differently; the weights behind the networks are equal, and a second copy only costs memory.
"""

from collections.abc import Iterator
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

_networks: WeakValueDictionary[tuple[str, int], Any] = WeakValueDictionary()
_lock = Lock()


def share_weights(model: Any, content: str) -> None:
    """Make the transformers of `model` use the weights of an encoder that is loaded with the same `content`.

    `content` is the fingerprint of the model's files. Only for models that are not trained: a change of the weights
    would reach every encoder that shares them.
    """
    with _lock:
        for number, network in enumerate(_transformers(model)):
            loaded = _networks.setdefault((content, number), network)
            if loaded is not network:
                _use_weights(network, loaded)


def _transformers(model: Any) -> Iterator[Any]:
    for module in model.modules():
        if network := getattr(module, "auto_model", None):
            yield network


def _use_weights(network: Any, loaded: Any) -> None:
    """Point the parameters of `network` at those of `loaded`, where name, shape, type and device are the same."""
    weights = dict(loaded.named_parameters())
    for name, parameter in network.named_parameters():
        other = weights.get(name)
        if other is not None and _layout(other) == _layout(parameter):
            parameter.data = other.data


def _layout(parameter: Any) -> tuple[Any, ...]:
    return parameter.shape, parameter.dtype, parameter.device
