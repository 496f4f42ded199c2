"""Hidden states of frozen lower layers, computed once for each distinct text.

Texts repeat every epoch, and the output of frozen layers never changes. Within `cached_lower_layers` it is stored as
`LowerStates`, and each training step computes the layers above alone. The base, measured before the training, and the
trained model, measured after it, have the same frozen layers: an encoder that is given the same states computes each
text's lower layers once for all of that. Frozen layers apply no dropout. With dropout off everywhere, losses and
gradients are those of the uncached forward pass, rounded to bfloat16 if matrix products are.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
import torch
from torch import Tensor

from mrc_workbench.models.inference import replaced
from mrc_workbench.training.engine.layers import MEMORY_FRACTION, transformer_layers

_FULL = 0.9  # of the memory for states: with less used, no text was left out
_TEXT = {"input_ids", "attention_mask", "token_type_ids"}

Features = dict[str, Any]


class _ReachedUpperLayersError(Exception):
    """Ends a forward pass at the first trained layer and carries that layer's input."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class LowerStates:
    """States of frozen layers by the tokens of a text, `(n_tokens, hidden)` each, in the type the layers compute in.

    Models share them if their `count` lowest layers and embeddings have the same weights. `seconds` tells how long it
    took to compute the states of `tokens` tokens, `seconds_reused` how long computing those again would have taken that
    were stored; `bytes` is how much is stored.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._limit = -1.0  # bytes; not known before the device is
        self._states: dict[bytes, Tensor] = {}
        self.seconds_reused = 0.0
        self.bytes = 0
        self.seconds = 0.0
        self.tokens = 0

    def attach(self, model: Any) -> None:
        """Let a loaded model take the states of its frozen layers from here for as long as it exists."""
        if isinstance(vars(model[0]).get("forward"), LowerLayers):
            return
        if lower := _lower_layers(model, self._count, self):
            model[0].forward = lower

    def clock(self) -> float:
        """Seconds that pass, and those that computing each stored state anew would have taken."""
        return time.perf_counter() + self.seconds_reused

    def find(self, key: bytes) -> Tensor | None:
        states = self._states.get(key)
        if states is not None and self.tokens:
            self.seconds_reused += len(states) * self.seconds / self.tokens
        return states

    def add(self, key: bytes, states: Tensor) -> None:
        """Store a text's states, unless the memory they may take is full."""
        device = states.device.type
        dtype = torch.bfloat16 if torch.is_autocast_enabled(device) else states.dtype
        size = states.numel() * dtype.itemsize
        if self._limit < 0:
            self._limit = MEMORY_FRACTION * _free_memory(states.device)
        if self.bytes + size <= self._limit:
            self._states[key] = states.to(dtype, copy=True)  # a copy: a view would keep the whole pass
            self.bytes += size

    def make_room(self) -> None:
        """Forget all states if there was no room for some: a training repeats its own texts most."""
        if self.bytes > _FULL * self._limit:
            self._states.clear()
            self.bytes = 0


class LowerLayers:
    """The forward pass of a transformer module of sentence-transformers whose lowest `count` layers are frozen."""

    def __init__(self, module: Any, layers: Any, count: int, states: LowerStates) -> None:
        self._module, self._layers, self._count, self._stored = module, layers, count, states
        self._forward: Callable[..., Features] = module.forward
        self._returns_tuple = self._layer_returns_tuple()

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
        row_of = {key: row for row, key in enumerate(keys)}
        states_of = {key: states for key in row_of if (states := self._stored.find(key)) is not None}
        missing = [row for key, row in row_of.items() if key not in states_of]
        if missing:
            computed = self._computed(_some_rows(features, missing), kwargs)
            lengths = features["attention_mask"][missing].sum(dim=1).tolist()
            for place, row in enumerate(missing):
                states = computed[place, : lengths[place]]
                states_of[keys[row]] = states
                self._stored.add(keys[row], states)
        rows = [states_of[key] for key in keys]
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
            self._stored.seconds += time.perf_counter() - began
            self._stored.tokens += int(features["attention_mask"].sum())
            return reached.states
        finally:
            network.train(was_training)
        raise RuntimeError("the first trained layer was not called")

    def _stop(self, hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        raise _ReachedUpperLayersError(hidden_states)

    def _layer_returns_tuple(self) -> bool:
        """Whether a layer returns its states in a tuple, found out by reading one token."""
        outputs: list[Any] = []
        handle = self._layers[0].register_forward_hook(lambda _layer, _inputs, output: outputs.append(output))
        try:
            features = _on_device(self._module.preprocess(["a"]), self._module.auto_model.device)
            with torch.no_grad():
                self._forward(features)
        finally:
            handle.remove()
        return isinstance(outputs[0], tuple)


@contextmanager
def cached_lower_layers(model: Any, count: int, states: LowerStates | None = None) -> Iterator[LowerStates | None]:
    """Within the block a loaded model computes its `count` frozen layers once for each distinct text.

    Texts that the given `states` hold are not computed again. Yields the states. Yields None and changes nothing if no
    layer is frozen, all are, or the model reads the output of a layer below the highest frozen one.
    """
    states = states or LowerStates(count)
    states.make_room()
    lower = _lower_layers(model, count, states)
    if lower is None:
        yield None
        return
    with replaced(model[0], "forward", lower):
        yield states


def _lower_layers(model: Any, count: int, states: LowerStates) -> LowerLayers | None:
    network = getattr(model[0], "auto_model", None)
    layers = transformer_layers(network) if count and network is not None else None
    if layers is None or count >= len(layers) or _reads_below(model, count):
        return None
    return LowerLayers(model[0], layers, count, states)


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


def _free_memory(device: torch.device) -> float:
    """Bytes that are free where tensors of this device are stored."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return float(psutil.virtual_memory().available)


def _some_rows(features: Features, rows: list[int]) -> Features:
    """The features of some texts, without the padding that only others need."""
    width = int(features["attention_mask"][rows].sum(dim=1).max())
    return {name: value[rows, :width] if isinstance(value, Tensor) else value for name, value in features.items()}


def _on_device(features: Features, device: torch.device) -> Features:
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in features.items()}
