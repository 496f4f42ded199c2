"""How a transformer computes: its precision, the layers that represent tokens, its passes, and shared weights.

Texts of like length are computed together, in bfloat16 where that is faster. Only the `forward` of a
sentence-transformers model and of its first module is replaced for that: prompts, tasks, truncation, pooling and
activation are the library's own. torch is imported when something is computed.
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
_GAIN = 1.25  # of float32's time to that of bfloat16, from which its coarser numbers are worth it
Features = dict[str, Any]
ProgressCallback = Callable[[float], None]
TOKENS_A_PASS = {"cpu": 4096, "cuda": 65536}  # places, padding among them
_PASS_COSTS = {"cpu": 64, "cuda": 4096}  # places that could be computed while a pass is begun
_MULTIPLE = 8  # of which a pass's length is: what matrix units work in
_ROWS = {"input_ids", "attention_mask", "token_type_ids"}
_HEADS = ("classifier", "score", "qa_outputs")  # what transformers call the last layer of a task
TOKEN_OUTPUTS = ("token_embeddings", "attention_mask")  # wanted of late interaction: a value for each place of a text
_networks: WeakValueDictionary[tuple[str, int], Any] = WeakValueDictionary()
_lock = Lock()


class Precision(StrEnum):
    """The numbers matrix products are computed in; weights, vectors and scores stay float32."""

    AUTO = "auto"  # bfloat16 where the processor or GPU is quicker in it; never for a starter
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def in_bfloat16(precision: Precision) -> bool:
    """Whether matrix products of a transformer are computed in bfloat16: as told, or where this machine is quicker so.

    The first `AUTO` imports torch and takes some hundredths of a second. Where nothing is stored it is float32: coarse
    numbers depend on the other texts of a batch.
    """
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
    """Measure it: with matrix units a processor is four times as fast, with mere instructions perhaps half as fast.

    One thread is timed by the time that it computes, so that other load does not decide the precision.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns = [(_measure_seconds(torch.float32), _measure_seconds(torch.bfloat16)) for _ in range(_TURNS)]
    finally:
        torch.set_num_threads(threads)
    float32_seconds, bfloat16_seconds = np.min(turns, axis=0)  # the least: whatever else runs only adds to it
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

    `last` is the last layer. A model that was trained to be pooled has drawn its tokens together there, so that a
    token's vector also represents the whole text: it matches other words of like meaning. `upper` adds the layer two
    thirds of the way up with a third of the weight (Zhang et al. 2020, BERTScore, take a layer below the last of most
    models): it favours passages worded like the question. `balanced` adds a tenth of the layer five sixths of the way
    up. Layers count by their directions: the mean lengths of their vectors, which differ, are divided out.

    With `balanced` and `-idf`, a token of the question counts by the square root of its inverse document frequency in
    the corpus; special tokens and the prompt do not count. Otherwise all count alike.
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
        """The first of those that represent passages alike, whatever the weights of a question's tokens."""
        return TokenLayers(self.removesuffix("-idf"))


# the layer below the last, as a fraction of all, and its share
LOWER = {TokenLayers.UPPER: (2 / 3, 1 / 3), TokenLayers.BALANCED: (5 / 6, 0.1)}
_SAMPLE_TEXT = "어느 층의 벡터가 얼마나 긴지 이 문장으로 잰다. How long the vectors of a layer are is measured on this."


def layer_modules(transformer: Any, layers: Sequence[TokenLayers]) -> list[Any]:
    """Return the modules after a transformer that represent tokens by these layers, side by side if several."""
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
            return features | {
                "token_embeddings": torch.cat([normalize(embedding, dim=-1) for embedding in embeddings], dim=-1)
            }

    return [SideBySide()]


def _two_layers(transformer: Any, depth_fraction: float, weight: float) -> Any:
    """Return the module that mixes the last layer with a lower one, each divided by its mean vector length."""
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
    """Whether a model reads a text as one row of tokens and a mask, which can be put in any batch."""
    if getattr(model[0], "tokenizer", None) is None or not hasattr(model[0], "auto_model"):
        return False  # a starter's bag of words, among others
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
    """Within the block, the model, which `takes_rows`, computes in this precision and batches all texts itself.

    `output` is `sentence_embedding` or `scores`; `tokens` are the most positions of a pass by device; `on_progress`
    gets the fraction of positions done.
    """
    with in_precision(model[0], precision), length_batched_passes(model, (output,), tokens, on_progress):
        yield


def in_precision(module: Any, precision: Precision) -> AbstractContextManager[None]:
    """Within the block, the module with the transformer computes in this precision, its last layer in float32."""
    return _bfloat16(module) if in_bfloat16(precision) else nullcontext()


@contextmanager
def length_batched_passes(
    model: Any,
    outputs: Sequence[str],
    tokens: Mapping[str, int] = TOKENS_A_PASS,
    on_progress: ProgressCallback | None = None,
) -> Iterator[None]:
    """Within the block, the model takes rows of similar length together, at most so many `tokens` a pass by device."""
    import torch

    forward = model.forward

    def as_wide(values: Any, name: str, width: int) -> Any:
        """Fill up what a pass returns for each position with zeros, as for padding."""
        if name not in TOKEN_OUTPUTS or values.shape[1] == width:
            return values
        return torch.nn.functional.pad(values, (*(0, 0) * (values.ndim - 2), 0, width - values.shape[1]))

    def split(features: Features, **kwargs: Any) -> Features:
        mask = features["attention_mask"]
        # places up to the last that is read: of rows padded on the left, all
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
        return {
            name: torch.cat([as_wide(part[name], name, width) for part in results])[inverse_order] for name in outputs
        }

    with replaced(model, "forward", split):
        yield


def passes_on(
    device: "torch.device", widths: Sequence[int], tokens: Mapping[str, int] = TOKENS_A_PASS
) -> list[tuple[int, int]]:
    """Cut rows of falling widths into passes for a device, `[start, end)` each; see `passes`."""
    kind = device.type if device.type in _PASS_COSTS else "cpu"
    return passes(widths, tokens[kind], _PASS_COSTS[kind])


def passes(widths: Sequence[int], max_positions: int, cost: int) -> list[tuple[int, int]]:
    """Cut rows of falling widths into passes, `[start, end)` each, of `most` places, where beginning one costs `cost`.

    The sum of places and beginnings is least: a shortest path (Bellman 1957) over the rows. Of a training batch of
    KorQuAD's passages it leaves 4 % padding, where one full pass after the other leaves 17 % and a single pass 38 %.
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
    """Compute a transformer in bfloat16, all after it and its last layer in float32.

    Weights stay as they are: converting the model itself is no faster (4 %) and less exact, and the model may be in
    training. A score of 8 bits would tie with its neighbours.
    """

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
    """Within the block the module has another method of this name; after it the one it had."""
    original = vars(module).get(name)
    setattr(module, name, value)
    try:
        yield
    finally:
        delattr(module, name)  # the class's own is there again
        if original is not None:
            setattr(module, name, original)


def transformers_in(model: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the modules of a sentence-transformers model that hold a transformer, each with its transformer."""
    for module in model.modules():
        if network := getattr(module, "auto_model", None):
            yield module, network


def share_weights(model: Any, content: str) -> None:
    """Make the transformers of `model` use the weights of an encoder that is loaded with the same `content`.

    Dense retrieval and late interaction often use the same base model; `content` is the fingerprint of its files. Only
    for models that are not trained: a change of the weights would reach every encoder that shares them.
    """
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
