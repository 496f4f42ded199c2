"""Tokens of question-passage pairs: each question and each passage is tokenized once, not once for every pair."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from models.inference import replaced
from models.windows import Joint, joint_of

_REMEMBERED = 64_000_000  # tokens, 4 bytes each
_PROBE = ("a b", "c d e")
Pair = tuple[str, str]


class PairTokens:
    """Remembers the tokens of texts and joins them as a tokenizer would, for a cross-encoder that `takes_rows`."""

    def __init__(self, model: Any) -> None:
        self._model, self._tokenizer = model, model[0].tokenizer
        self._plain: Callable[..., dict[str, Any]] = model[0].preprocess
        self._rows: dict[str, np.ndarray] = {}
        self._held = 0
        self._joint = joint_of(self._tokenizer)
        told = self._plain([_PROBE])
        self._names = [name for name in self._tokenizer.model_input_names if name in told]
        self.usable = self._joint is not None and self._agrees()

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Within the block the model reads pairs this way, where it can be `usable`."""
        with replaced(self._model[0], "preprocess", self) if self.usable else nullcontext():
            yield

    def __call__(self, inputs: Sequence[Pair], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Features as the model's own `preprocess` gives them."""
        if prompt or kwargs:
            return self._plain(inputs, prompt=prompt, **kwargs)
        self._tokenize({text for pair in inputs for text in pair})
        pieces = [self._pieces(self._rows[question], self._rows[passage]) for question, passage in inputs]
        width = max(sum(map(len, row)) for row in pieces)
        features = {name: np.zeros((len(pieces), width), dtype=np.int64) for name in self._names}
        features["input_ids"][:] = self._tokenizer.pad_token_id or 0
        for row, parts in enumerate(pieces):
            ids = np.concatenate(parts)
            features["input_ids"][row, : len(ids)] = ids
            features["attention_mask"][row, : len(ids)] = 1
            if "token_type_ids" in features:
                features["token_type_ids"][row, : len(ids)] = np.repeat(self._known.segments, [*map(len, parts)])
        return {name: torch.from_numpy(value) for name, value in features.items()} | {"modality": "text"}

    @property
    def _known(self) -> Joint:
        assert self._joint is not None  # noqa: S101 - `usable` says so
        return self._joint

    def _tokenize(self, texts: set[str]) -> None:
        if self._held > _REMEMBERED:
            self._rows.clear()
            self._held = 0
        new = [text for text in texts if text not in self._rows]
        if new:
            told = self._tokenizer(new, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
            self._rows |= {text: np.array(ids, dtype=np.int32) for text, ids in zip(new, told, strict=True)}
            self._held += sum(map(len, told))

    def _pieces(self, question: np.ndarray, passage: np.ndarray) -> tuple[np.ndarray, ...]:
        room = self._tokenizer.model_max_length - self._known.length
        first, second = longest_first(len(question), len(passage), room)
        return self._known.first, question[:first], self._known.between, passage[:second], self._known.last

    def _agrees(self) -> bool:
        """Whether pairs, short, empty and truncated on either side, come out as the model itself reads them."""
        long = "a " * min(2 * self._tokenizer.model_max_length, 4096)
        pairs = [_PROBE, (long, "b"), ("b", long), (long, long), ("", "b")]
        ours, theirs = self(pairs), self._plain(pairs)
        return set(ours) == set(theirs) and all(
            torch.equal(ours[name], theirs[name]) for name in ours if isinstance(ours[name], torch.Tensor)
        )


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths of two texts cut to fit into `room` tokens: the longer loses first, until both are as long."""
    if first + second <= room:
        return first, second
    shorter = min(first, second)
    if 2 * shorter > room:  # both are cut; an odd token goes to the longer, or to the second
        less, more = room // 2, room - room // 2
        return (more, less) if first > second else (less, more)
    return (first, room - first) if first <= second else (room - second, second)
