"""Inference of transformers: precision, layers that represent tokens, batches by length, and shared weights.

Texts of similar length form a batch, in bfloat16 if that is faster. This replaces only the `forward` of a
sentence-transformers model and of its first module. torch is imported lazily.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from mrc_workbench.data.cache import is_caching

if TYPE_CHECKING:
    import torch

_TURNS = 15
_GAIN = 1.25  # least speedup that justifies the lower precision of bfloat16
Features = dict[str, Any]
ProgressCallback = Callable[[float], None]
TOKENS_A_PASS = {"cpu": 4096, "cuda": 65536}  # positions, including padding
_PASS_COSTS = {"cpu": 64, "cuda": 4096}  # overhead of a pass, in positions
_MULTIPLE = 8  # of the length of a pass, for matrix units
_ROWS = {"input_ids", "attention_mask", "token_type_ids"}
_HEADS = ("classifier", "score", "qa_outputs")  # names of a task's last layer in transformers
TOKEN_OUTPUTS = ("token_embeddings", "attention_mask")  # of late interaction: a value for each position
_networks: WeakValueDictionary[tuple[str, int], Any] = WeakValueDictionary()
_lock = Lock()


class Precision(StrEnum):
    """Precision of matrix products; weights, vectors and scores stay float32."""

    AUTO = "auto"  # bfloat16 if it is faster; never for a starter
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def in_bfloat16(precision: Precision) -> bool:
    """Whether matrix products use bfloat16; `AUTO` decides by speed, and is float32 without caching."""
    if precision is not Precision.AUTO:
        return precision is Precision.BFLOAT16
    if not is_caching():
        return False
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported()) and _bfloat16_is_faster()


@cache
def _bfloat16_is_faster() -> bool:
    """Compare the CPU times of a thread: bfloat16 is 4 times as fast with matrix units, but slower without."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns = [(_measure_seconds(torch.float32), _measure_seconds(torch.bfloat16)) for _ in range(_TURNS)]
    finally:
        torch.set_num_threads(threads)
    float32_seconds, bfloat16_seconds = np.min(turns, axis=0)  # minima exclude other load
    return bool(float32_seconds > bfloat16_seconds * _GAIN)


def _measure_seconds(dtype: Any) -> float:
    import torch

    tokens = torch.ones(128, 384, dtype=dtype)
    weights = torch.ones(1536, 384, dtype=dtype)
    began = time.thread_time()
    torch.nn.functional.linear(tokens, weights)
    return time.thread_time() - began


class TokenLayers(StrEnum):
    """The layers that represent a token, and whether the question's tokens are weighted by IDF.

    In the `last` layer of a model trained with pooling, a token's vector also represents the whole text, so it matches
    other words of similar meaning. `upper` adds the layer at 2/3 of the depth with weight 1/3 (BERTScore, Zhang et al.
    2020, also uses lower layers), which favours passages with the words of the question. `balanced` adds the layer at
    5/6 with weight 0.1. Vectors of layers are divided by their mean lengths.

    With `balanced` and `-idf`, a token of the question is weighted by the square root of its inverse document frequency
    in the corpus; special tokens and the prompt have weight 0. Otherwise weights are equal.
    """

    BALANCED = "balanced"
    LAST_IDF = "last-idf"
    UPPER_IDF = "upper-idf"
    LAST = "last"
    UPPER = "upper"

    @property
    def are_weighted(self) -> bool:
        return self in (TokenLayers.BALANCED, TokenLayers.LAST_IDF, TokenLayers.UPPER_IDF)

    @property
    def of_passages(self) -> "TokenLayers":
        """The layers without weights of a question's tokens."""
        return TokenLayers(self.removesuffix("-idf"))


# depth of the lower layer, as a fraction, and its weight
LOWER = {TokenLayers.UPPER: (2 / 3, 1 / 3), TokenLayers.BALANCED: (5 / 6, 0.1)}
_SAMPLE_TEXT = "어느 층의 벡터가 얼마나 긴지 이 문장으로 잰다. How long the vectors of a layer are is measured on this."


def layer_modules(transformer: Any, layers: Sequence[TokenLayers]) -> list[Any]:
    """Return the modules after a transformer that represent tokens by these layers, concatenated if several."""
    import torch
    from torch.nn.functional import normalize

    modules = [_two_layers(transformer, *LOWER[layer]) if layer in LOWER else None for layer in layers]
    if len(modules) == 1:
        return [module for module in modules if module is not None]

    class SideBySide(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of_layers = torch.nn.ModuleList(module or torch.nn.Identity() for module in modules)

        def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
            embeddings = [module(dict(features))["token_embeddings"] for module in self.of_layers]
            return features | {"token_embeddings": torch.cat([normalize(part, dim=-1) for part in embeddings], dim=-1)}

    return [SideBySide()]


def _two_layers(transformer: Any, depth_fraction: float, weight: float) -> Any:
    """Return a module that mixes the last layer with a lower one, each divided by its mean vector length."""
    import torch
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
    from sentence_transformers.util import batch_to_device

    config = transformer.auto_model.config
    config.output_hidden_states = True
    last = config.num_hidden_layers
    lower = max(1, int(last * depth_fraction + 1e-9))
    with torch.inference_mode():
        text = batch_to_device(transformer.preprocess([_SAMPLE_TEXT]), transformer.auto_model.device)
        states = transformer(text)["all_layer_embeddings"]
    weights = torch.zeros(last + 1 - lower)
    weights[0] += weight / states[lower].norm(dim=-1).mean()
    weights[-1] += (1 - weight) / states[last].norm(dim=-1).mean()
    return WeightedLayerPooling(config.hidden_size, last, lower, torch.nn.Parameter(weights, requires_grad=False))


def takes_rows(model: Any) -> bool:
    """Whether a model reads a text as a row of tokens and a mask, which can be in any batch."""
    if getattr(model[0], "tokenizer", None) is None or not hasattr(model[0], "auto_model"):
        return False  # such as a starter
    import torch

    features = model.preprocess(["a"])
    tensors = {name for name, value in features.items() if isinstance(value, torch.Tensor)}
    return {"input_ids", "attention_mask"} <= tensors <= _ROWS


@contextmanager
def fast_passes(
    model: Any,
    output: str,
    precision: Precision,
    tokens: Mapping[str, int] = TOKENS_A_PASS,
    on_progress: ProgressCallback | None = None,
) -> Iterator[None]:
    """Within the block, a model that `takes_rows` computes in this precision and batches texts by length.

    `output` is `sentence_embedding` or `scores`; `tokens` is the maximum of positions per pass by device; `on_progress`
    gets the fraction of positions.
    """
    with in_precision(model[0], precision), length_batched_passes(model, (output,), tokens, on_progress):
        yield


def in_precision(module: Any, precision: Precision) -> AbstractContextManager[None]:
    """Within the block, a transformer's module computes in this precision, its last layer in float32."""
    return _bfloat16(module) if in_bfloat16(precision) else nullcontext()


@contextmanager
def length_batched_passes(
    model: Any,
    outputs: Sequence[str],
    tokens: Mapping[str, int] = TOKENS_A_PASS,
    on_progress: ProgressCallback | None = None,
) -> Iterator[None]:
    """Within the block, the model batches rows by length, at most so many `tokens` per pass by device."""
    import torch

    forward = model.forward

    def pad(values: Any, name: str, width: int) -> Any:
        """Pad values of each position with zeros."""
        if name not in TOKEN_OUTPUTS or values.shape[1] == width:
            return values
        return torch.nn.functional.pad(values, (*(0, 0) * (values.ndim - 2), 0, width - values.shape[1]))

    def split(features: Features, **kwargs: Any) -> Features:
        mask = features["attention_mask"]
        # positions up to the last unmasked one
        lengths = (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(dim=1)
        order = torch.argsort(lengths, descending=True, stable=True)
        widths = (-(-lengths[order] // _MULTIPLE) * _MULTIPLE).tolist()
        results: list[Features] = []
        pass_bounds = passes_on(lengths.device, widths, tokens)
        done = 0
        total = sum((end - start) * widths[start] for start, end in pass_bounds)
        for start, end in pass_bounds:
            rows = {
                name: value[order[start:end], : widths[start]] if isinstance(value, torch.Tensor) else value
                for name, value in features.items()
            }
            results.append(forward(rows, **kwargs))
            done += (end - start) * widths[start]
            if on_progress:
                on_progress(done / total)
        inverse_order = torch.argsort(order)
        width = mask.shape[1]
        return {name: torch.cat([pad(part[name], name, width) for part in results])[inverse_order] for name in outputs}

    with replaced(model, "forward", split):
        yield


def passes_on(
    device: "torch.device", widths: Sequence[int], tokens: Mapping[str, int] = TOKENS_A_PASS
) -> list[tuple[int, int]]:
    """Cut rows of descending widths into passes for a device, `[start, end)` each; see `passes`."""
    kind = device.type if device.type in _PASS_COSTS else "cpu"
    return passes(widths, tokens[kind], _PASS_COSTS[kind])


def passes(widths: Sequence[int], max_positions: int, cost: int) -> list[tuple[int, int]]:
    """Cut rows of descending widths into passes, `[start, end)` each, of at most `max_positions`, with overhead `cost`.

    Minimises the sum of positions and overheads as a shortest path (Bellman 1957) over the rows. A training batch of
    KorQuAD's passages has 4 % padding; full passes in order would have 17 %, a single pass 38 %.
    """
    width = np.maximum(widths, 1)
    minimal_costs = np.zeros(len(width) + 1)
    predecessors = np.zeros(len(width) + 1, dtype=np.int64)
    first = 0
    for end in range(1, len(width) + 1):
        while first < end - 1 and (end - first) * width[first] > max_positions:
            first += 1
        spent = minimal_costs[first:end] + width[first:end] * np.arange(end - first, 0, -1) + cost
        predecessors[end] = first + int(spent.argmin())
        minimal_costs[end] = spent.min()
    cut = []
    end = len(width)
    while end:
        cut.append((int(predecessors[end]), end))
        end = int(predecessors[end])
    return cut[::-1]


@contextmanager
def _bfloat16(module: Any) -> Iterator[None]:
    """Compute a transformer in bfloat16, but its last layer and later modules in float32; weights stay float32."""
    import torch

    def autocast(forward: Callable[..., Features]) -> Callable[..., Features]:
        def cast(features: Features, **kwargs: Any) -> Features:
            with torch.autocast(features["input_ids"].device.type, torch.bfloat16):
                features = forward(features, **kwargs)
            return {
                name: value.float() if getattr(value, "dtype", None) is torch.bfloat16 else value
                for name, value in features.items()
            }

        return cast

    def exact(forward: Callable[..., Any]) -> Callable[..., Any]:
        def widened(hidden: Any, *rest: Any, **kwargs: Any) -> Any:
            with torch.autocast(hidden.device.type, enabled=False):
                return forward(hidden.float(), *rest, **kwargs)

        return widened

    head = next((getattr(module.auto_model, name) for name in _HEADS if hasattr(module.auto_model, name)), None)
    last = replaced(head, "forward", exact(head.forward)) if head is not None else nullcontext()
    with replaced(module, "forward", autocast(module.forward)), last:
        yield


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module within the block."""
    original = vars(module).get(name)
    setattr(module, name, value)
    try:
        yield
    finally:
        delattr(module, name)  # restores the attribute of the class
        if original is not None:
            setattr(module, name, original)


def transformers_in(model: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the modules of a sentence-transformers model that hold a transformer, each with its transformer."""
    for module in model.modules():
        if network := getattr(module, "auto_model", None):
            yield module, network


def share_weights(model: Any, content: str) -> None:
    """Let a `model` that is not trained share weights with a loaded one of the same `content`, a fingerprint."""
    with _lock:
        for number, (_, network) in enumerate(transformers_in(model)):
            loaded = _networks.setdefault((content, number), network)
            if loaded is network:
                continue
            weights = dict(loaded.named_parameters())
            for name, own in network.named_parameters():
                other = weights.get(name, own)
                if (other.shape, other.dtype, other.device) == (own.shape, own.dtype, own.device):
                    own.data = other.data
