"""A transformer's forward passes, made fast: texts of like length together, in bfloat16.

What is replaced within these blocks are the `forward` of a sentence-transformers model and of its first module, so all
else (prompts, tasks, truncation, pooling, activation) is the library's own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrc_workbench.models.precision import Precision, in_bfloat16

Features = dict[str, Any]
Told = Callable[[float], None]
TOKENS_A_PASS = {"cpu": 4096, "cuda": 65536}  # places, padding among them
_PASS_COSTS = {"cpu": 64, "cuda": 4096}  # places that could be computed while a pass is begun
_MULTIPLE = 8  # of which a pass's length is: what matrix units work in
_ROWS = {"input_ids", "attention_mask", "token_type_ids"}
_HEADS = ("classifier", "score", "qa_outputs")  # what transformers call the last layer of a task
OF_TOKENS = ("token_embeddings", "attention_mask")  # wanted of late interaction: a value for each place of a text


def takes_rows(model: Any) -> bool:
    """Whether a model reads a text as one row of tokens and a mask, which can be put in any batch."""
    if getattr(model[0], "tokenizer", None) is None or not hasattr(model[0], "auto_model"):
        return False  # a starter's bag of words, among others
    features = model.preprocess(["a"])
    tensors = {name for name, value in features.items() if isinstance(value, Tensor)}
    return {"input_ids", "attention_mask"} <= tensors <= _ROWS


@contextmanager
def fast_passes(
    model: Any,
    output: str,
    precision: Precision,
    tokens: Mapping[str, int] = TOKENS_A_PASS,
    on_progress: Told | None = None,
) -> Iterator[None]:
    """Within the block, the model computes in this precision and takes all at once, in batches of its own.

    `output` is what is wanted of a pass, a row for each text or pair: `sentence_embedding` or `scores`; `tokens` says
    for each device how many places a pass has, and `on_progress` is told the share of all places that is done. The
    model is one that `takes_rows`.
    """
    with in_precision(model[0], precision), passes_of_like_length(model, (output,), tokens, on_progress):
        yield


def in_precision(module: Any, precision: Precision) -> AbstractContextManager[None]:
    """Within the block, the module with the transformer computes in this precision, its last layer in float32."""
    return _bfloat16(module) if in_bfloat16(precision) else nullcontext()


@contextmanager
def passes_of_like_length(
    model: Any, outputs: Sequence[str], tokens: Mapping[str, int] = TOKENS_A_PASS, on_progress: Told | None = None
) -> Iterator[None]:
    """Within the block, the model takes rows of like length together, so that a long text does not make others long.

    A pass has at most as many places as `tokens` says for the device. Vectors, scores and gradients are those of one
    pass.
    """
    forward = model.forward

    def split(features: Features, **kwargs: Any) -> Features:
        mask = features["attention_mask"]
        # places up to the last that is read: of rows padded on the left, all
        lengths = (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(dim=1)
        order = torch.argsort(lengths, descending=True, stable=True)
        widths = (-(-lengths[order] // _MULTIPLE) * _MULTIPLE).tolist()
        found: list[Features] = []
        cut = passes_on(lengths.device, widths, tokens)
        done, places = 0, sum((end - start) * widths[start] for start, end in cut)
        for start, end in cut:
            rows = {
                name: value[order[start:end], : widths[start]] if isinstance(value, Tensor) else value
                for name, value in features.items()
            }
            found.append(forward(rows, **kwargs))
            done += (end - start) * widths[start]
            if on_progress:
                on_progress(done / places)
        again, width = torch.argsort(order), mask.shape[1]
        return {name: torch.cat([_as_wide(one[name], name, width) for one in found])[again] for name in outputs}

    with replaced(model, "forward", split):
        yield


def _as_wide(values: Tensor, name: str, width: int) -> Tensor:
    """Fill up what a pass says of each place with zeros, as of padding."""
    if name not in OF_TOKENS or values.shape[1] == width:
        return values
    return torch.nn.functional.pad(values, (*(0, 0) * (values.ndim - 2), 0, width - values.shape[1]))


def passes_on(
    device: torch.device, widths: Sequence[int], tokens: Mapping[str, int] = TOKENS_A_PASS
) -> list[tuple[int, int]]:
    """Cut rows of falling widths into passes for a device, `[start, end)` each; see `passes`."""
    kind = device.type if device.type in _PASS_COSTS else "cpu"
    return passes(widths, tokens[kind], _PASS_COSTS[kind])


def passes(widths: Sequence[int], most: int, cost: int) -> list[tuple[int, int]]:
    """Cut rows of falling widths into passes, `[start, end)` each, of `most` places, where beginning one costs `cost`.

    The sum of places and beginnings is least: a shortest path (Bellman 1957) over the rows. Of a training batch of
    KorQuAD's passages it leaves 4 % padding, where one full pass after the other leaves 17 % and a single pass 38 %.
    """
    width = np.maximum(widths, 1)
    least, via = np.zeros(len(width) + 1), np.zeros(len(width) + 1, dtype=np.int64)
    first = 0
    for end in range(1, len(width) + 1):
        while first < end - 1 and (end - first) * width[first] > most:
            first += 1
        spent = least[first:end] + width[first:end] * np.arange(end - first, 0, -1) + cost
        via[end] = first + int(spent.argmin())
        least[end] = spent.min()
    cut, end = [], len(width)
    while end:
        cut.append((int(via[end]), end))
        end = int(via[end])
    return cut[::-1]


@contextmanager
def _bfloat16(module: Any) -> Iterator[None]:
    """Compute a transformer in bfloat16, all after it and its last layer in float32.

    Weights stay as they are and are converted once for a block: converting the model itself is no faster (4 %), less
    exact, and the model may be one that is being trained. A score of 8 bits would tie with its neighbours.
    """

    def autocast(forward: Callable[..., Features]) -> Callable[..., Features]:
        def cast(features: Features, **kwargs: Any) -> Features:
            with torch.autocast(features["input_ids"].device.type, torch.bfloat16):
                told = forward(features, **kwargs)
            reduced = {
                name for name, value in told.items() if isinstance(value, Tensor) and value.dtype is torch.bfloat16
            }
            return {name: value.float() if name in reduced else value for name, value in told.items()}

        return cast

    def exact(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def widened(hidden: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
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
    before = vars(module).get(name)
    setattr(module, name, value)
    try:
        yield
    finally:
        delattr(module, name)  # the class's own is there again
        if before is not None:
            setattr(module, name, before)
