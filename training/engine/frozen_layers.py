"""Hidden states of frozen lower layers, computed once for each distinct text.

Texts repeat every epoch, and what frozen layers make of them never changes. Within `cached_lower_layers` their output
is stored, and each training step computes the layers above them alone. Frozen layers apply no dropout. With dropout off
everywhere, losses and gradients are those of the uncached forward pass, rounded to bfloat16 if matrix products are.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
import torch
from torch import Tensor

from models.inference import replaced
from training.engine.layers import MEMORY_FRACTION, transformer_layers

_TEXT = {"input_ids", "attention_mask", "token_type_ids"}

Features = dict[str, Any]


class _ReachedUpperLayersError(Exception):
    """Ends a forward pass at the first trained layer and carries that layer's input."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class LowerLayers:
    """The forward pass of a transformer module of sentence-transformers whose lowest `count` layers are frozen.

    `seconds` and `tokens` tell how long it took to compute the states of how many tokens; `bytes` how much is stored.
    Stored states have the type that the layers compute in, `(n_tokens, hidden)` for each text.
    """

    def __init__(self, module: Any, layers: Any, count: int, limit: float) -> None:
        self._module, self._layers, self._count = module, layers, count
        self._forward: Callable[..., Features] = module.forward
        self._states: dict[bytes, Tensor] = {}
        self._limit = limit
        self._returns_tuple = False
        self.bytes = 0
        self.seconds = 0.0
        self.tokens = 0

    def __call__(self, features: Features, **kwargs: Any) -> Features:
        keys = _keys_of_rows(features)
        if keys is None:
            return self._forward(features, **kwargs)
        states = self._states_of(features, keys, kwargs)
        with ExitStack() as stack:
            for number, layer in enumerate(self._layers[: self._count]):
                stack.enter_context(replaced(layer, "forward", self._skipped(states if number == 0 else None)))
            return self._forward(features, **kwargs)

    def _skipped(self, states: Tensor | None) -> Callable[..., Any]:
        """A layer's forward that returns the given states, or its input if there are none."""

        def forward(hidden_states: Tensor, *_: Any, **__: Any) -> Any:
            result = hidden_states if states is None else states
            return (result,) if self._returns_tuple else result

        return forward

    def _states_of(self, features: Features, keys: list[bytes], kwargs: dict[str, Any]) -> Tensor:
        """The input of the first trained layer, `(n_texts, n_tokens, hidden)`; zeros at padding."""
        missing = [row for row, key in enumerate(keys) if key not in self._states]
        new: dict[bytes, Tensor] = {}
        if missing:
            computed = self._computed(_some_rows(features, missing), kwargs)
            lengths = features["attention_mask"][missing].sum(dim=1).tolist()
            new = {keys[row]: computed[place, : lengths[place]] for place, row in enumerate(missing)}
            for key, states in new.items():
                self._store(key, states)
        rows = [new[key] if key in new else self._states[key] for key in keys]
        table = rows[0].new_zeros((len(rows), features["input_ids"].shape[1], rows[0].shape[1]), dtype=torch.float32)
        for row, states in enumerate(rows):
            table[row, : len(states)] = states
        return table

    def _computed(self, features: Features, kwargs: dict[str, Any]) -> Tensor:
        began = time.perf_counter()
        network, first_trained = self._module.auto_model, self._layers[self._count]
        was_training = network.training
        network.eval()
        try:
            with torch.no_grad(), replaced(first_trained, "forward", self._stop):
                self._forward(features, **kwargs)
        except _ReachedUpperLayersError as reached:
            self.seconds += time.perf_counter() - began
            self.tokens += int(features["attention_mask"].sum())
            return reached.states
        finally:
            network.train(was_training)
        raise RuntimeError("the first trained layer was not called")

    def _stop(self, hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        raise _ReachedUpperLayersError(hidden_states)

    def _store(self, key: bytes, states: Tensor) -> None:
        device = states.device.type
        dtype = torch.bfloat16 if torch.is_autocast_enabled(device) else states.dtype
        size = states.numel() * dtype.itemsize
        if self.bytes + size > self._limit:
            return
        self._states[key] = states.to(dtype, copy=True)  # a copy: a view would keep the whole pass
        self.bytes += size

    def detect_tuples(self) -> None:
        """Find out whether a layer returns its states alone or in a tuple, by reading one token."""
        last_frozen = self._layers[self._count - 1]
        handle = last_frozen.register_forward_hook(self._note_output)
        try:
            self._computed(_on_device(self._module.preprocess(["a"]), self._module.auto_model.device), {})
        finally:
            handle.remove()
            self.seconds, self.tokens = 0.0, 0

    def _note_output(self, _layer: Any, _inputs: Any, output: Any) -> None:
        self._returns_tuple = isinstance(output, tuple)


@contextmanager
def cached_lower_layers(model: Any, count: int) -> Iterator[LowerLayers | None]:
    """Within the block a loaded model computes its `count` frozen layers once for each distinct text.

    Yields None and changes nothing if no layer is frozen, all are, or the model reads the states of frozen layers.
    """
    if not count:
        yield None
        return
    module = model[0]
    network = getattr(module, "auto_model", None)
    layers = transformer_layers(network) if network is not None else None
    if layers is None or count >= len(layers) or _reads_below(model, count):
        yield None
        return
    limit = MEMORY_FRACTION * float(psutil.virtual_memory().available)
    lower = LowerLayers(module, layers, count, limit)
    lower.detect_tuples()
    with replaced(module, "forward", lower):
        yield lower


def _reads_below(model: Any, count: int) -> bool:
    """Whether a module behind the transformer reads the states of a layer below the highest frozen one."""
    starts = [module.layer_start for module in model.modules() if hasattr(module, "layer_start")]
    return any(start < count for start in starts)


def _keys_of_rows(features: Features) -> list[bytes] | None:
    """What identifies each text: its tokens, and their segments if it has two; None unless padded on the right."""
    tensors = {name for name, value in features.items() if isinstance(value, Tensor)}
    if not {"input_ids", "attention_mask"} <= tensors <= _TEXT or features["input_ids"].ndim != 2:
        return None
    mask = features["attention_mask"]
    lengths = mask.sum(dim=1)
    if not torch.equal(mask.bool(), torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]):
        return None
    tokens = features["input_ids"].to("cpu", torch.int32).numpy()
    segments = features.get("token_type_ids")
    kinds = segments.to("cpu", torch.int8).numpy() if segments is not None and segments.any() else None
    keys = []
    for row, length in enumerate(lengths.tolist()):
        key = tokens[row, :length].tobytes()
        keys.append(key if kinds is None else key + b"|" + kinds[row, :length].tobytes())
    return keys


def _some_rows(features: Features, rows: list[int]) -> Features:
    """The features of some texts, without the padding that only others need."""
    width = int(features["attention_mask"][rows].sum(dim=1).max())
    return {name: value[rows, :width] if isinstance(value, Tensor) else value for name, value in features.items()}


def _on_device(features: Features, device: torch.device) -> Features:
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in features.items()}
