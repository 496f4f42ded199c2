"""What makes steps quicker: texts are cut into tokens once, and texts of like length are computed together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from models.inference import Features, passes_of_like_length, replaced, takes_rows

_REMEMBERED = 500_000  # texts; past that, memory is worth more
_KNOWN = {"input_ids", "attention_mask", "token_type_ids"}


@contextmanager
def tokenized_once(model: Any) -> Iterator[None]:
    """Within the block, the model remembers the tokens of the texts and pairs it has read.

    A starter does so by itself; a model that makes more of a text than tokens in one row is left as it is.
    """
    module = model[0]
    if getattr(getattr(module, "tokenizer", None), "padding_side", None) != "right":
        yield
        return
    module.preprocess = _Remembering(module.preprocess, module.tokenizer.pad_token_id or 0)
    try:
        yield
    finally:
        del module.preprocess  # the class's own is there again


class _Remembering:
    def __init__(self, preprocess: Callable[..., dict[str, Any]], pad: int) -> None:
        self._preprocess, self._pad = preprocess, pad
        self._rows: dict[Any, dict[str, Tensor]] = {}
        self._more: dict[Any, dict[str, Any]] = {}  # what is the same for all texts of the same settings

    def __call__(self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        settings = (prompt, *((name, str(value)) for name, value in sorted(kwargs.items())))
        keys = [(one if isinstance(one, str) else tuple(one), settings) for one in inputs]
        if len(self._rows) > _REMEMBERED:
            self._rows.clear()
        new = {key: one for key, one in zip(keys, inputs, strict=True) if key not in self._rows}
        if new:
            features = self._preprocess(list(new.values()), prompt=prompt, **kwargs)
            tensors = {name: value for name, value in features.items() if isinstance(value, Tensor)}
            if not tensors.keys() <= _KNOWN or "attention_mask" not in tensors:
                return self._preprocess(inputs, prompt=prompt, **kwargs)
            self._more[settings] = {name: value for name, value in features.items() if name not in tensors}
            lengths = tensors["attention_mask"].sum(dim=1).tolist()
            for row, (key, length) in enumerate(zip(new, lengths, strict=True)):
                self._rows[key] = {name: tensor[row, :length].to(torch.int32) for name, tensor in tensors.items()}
        rows = [self._rows[key] for key in keys]
        return {name: self._padded(name, rows) for name in rows[0]} | self._more[settings]

    def _padded(self, name: str, rows: list[dict[str, Tensor]]) -> Tensor:
        empty = self._pad if name == "input_ids" else 0
        return pad_sequence([row[name].long() for row in rows], batch_first=True, padding_value=empty)


@contextmanager
def short_passes(model: Any, *, twice: bool = False) -> Iterator[None]:
    """Within the block a step's texts are computed in passes of like length, so that a long one costs only itself.

    `twice`: what a pass holds for its gradient is given up and computed again when its turn comes (Chen et al. 2016),
    so that memory no longer grows with the batch. Losses and gradients are those of one pass; only dropout draws other
    numbers. A model that reads texts in its own way, such as a starter, is left as it is.
    """
    from sentence_transformers import CrossEncoder

    if not takes_rows(model):
        yield
        return
    of_texts = "scores" if isinstance(model, CrossEncoder) else "sentence_embedding"
    output = getattr(model, "trained_by", of_texts)
    again = replaced(model, "forward", _recomputed(model.forward, output)) if twice else nullcontext()
    with again, passes_of_like_length(model, output):
        yield


def _recomputed(forward: Callable[..., Features], output: str) -> Callable[..., Features]:
    def recomputed(features: Features, **kwargs: Any) -> Features:
        def wanted() -> Any:
            return forward(dict(features), **kwargs)[output]

        return {output: checkpoint(wanted, use_reentrant=False) if torch.is_grad_enabled() else wanted()}

    return recomputed
