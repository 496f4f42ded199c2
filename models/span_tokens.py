"""A question and the windows of a passage as a reader of spans takes them: tokens, and the letters they stand for.

A passage that does not fit beside its question is read in windows that overlap, as Devlin et al. 2019 did for SQuAD:
each is as long as fits, and the next begins where the overlap does. Every question and passage is tokenized once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.hub import ModelError
from models.windows import joint_of

_REMEMBERED = 32_000_000  # tokens; 12 bytes each


@dataclass(frozen=True)
class SpanOptions:
    """How passages are cut: tokens that the reader takes at once (0: as many as it can), those in two windows, and how
    many an answer has at most. Raises `ValueError` where windows would not move on.
    """

    length: int = 384
    overlap: int = 128
    longest_answer: int = 30

    def __post_init__(self) -> None:
        if self.length < 0 or self.overlap < 0 or self.longest_answer < 1:
            raise ValueError("length and overlap must be 0 or more, and an answer has at least one token")
        if self.length and self.overlap > self.length // 2:
            raise ValueError(f"windows of {self.length} tokens must overlap by half of them at most")


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text, `(n_tokens,)` int32, and the letters of it that each stands for, `(n_tokens, 2)` int32."""

    ids: np.ndarray
    letters: np.ndarray


@dataclass(frozen=True)
class SpanWindow:
    """What is read at once: `ids`, and `segments` where the model has them, `(width,)` each.

    The passage's tokens `first` to `last` (exclusive) stand from place `start` on; place 0 stands for "no answer".
    """

    ids: np.ndarray
    segments: np.ndarray
    start: int
    first: int
    last: int

    @property
    def width(self) -> int:
        """How many tokens are read."""
        return len(self.ids)


class SpanTokens:
    """Remembers the tokens of texts, and joins them to windows. Raises `ModelError` `no_letters`.

    That is where the tokenizer cannot tell which letters a token stands for.
    """

    def __init__(self, tokenizer: Any, most: int, options: SpanOptions, reference: str) -> None:
        self._tokenizer, self._joint = tokenizer, joint_of(tokenizer)
        if self._joint is None:
            message = f"the tokenizer of {reference!r} does not tell which letters a token stands for"
            raise ModelError("no_letters", message, model=reference)
        self._length = min(options.length or most, most)
        self._overlap = min(options.overlap, self._length // 4 if self._length < options.length else options.overlap)
        self._known: dict[str, Tokens] = {}
        self._held = 0

    def remember(self, texts: Iterable[str]) -> None:
        """Tokenize those that are new, together."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if not new:
            return
        if self._held > _REMEMBERED:
            self._known.clear()
            self._held = 0
            new = list(dict.fromkeys(texts))
        told = self._tokenizer(
            new, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
        )
        for text, ids, letters in zip(new, told["input_ids"], told["offset_mapping"], strict=True):
            self._known[text] = Tokens(np.array(ids, np.int32), np.array(letters, np.int32).reshape(-1, 2))
            self._held += len(ids)

    def of(self, text: str) -> Tokens:
        """The tokens of a text."""
        if text not in self._known:
            self.remember([text])
        return self._known[text]

    def windows(self, question: str, passage: str) -> Iterator[SpanWindow]:
        """Cut a passage beside a question, of which at most half of what is read is kept."""
        joint, asked, read = self._joint, self.of(question).ids, self.of(passage).ids
        assert joint is not None  # noqa: S101 - else there is no such object
        asked = asked[: (self._length - joint.length) // 2]
        room = self._length - joint.length - len(asked)
        step = max(1, room - min(self._overlap, room // 2))
        start = len(joint.first) + len(asked) + len(joint.between)
        for first in range(0, max(1, len(read) - room + step), step):
            part = read[first : first + room]
            pieces = (joint.first, asked, joint.between, part, joint.last)
            segments = np.repeat(np.array(joint.segments, dtype=np.int32), [*map(len, pieces)])
            yield SpanWindow(np.concatenate(pieces), segments, start, first, first + len(part))


def batch(windows: Sequence[SpanWindow], pad: int, *, segments: bool) -> dict[str, np.ndarray]:
    """Windows as rows of one width: `input_ids`, `attention_mask`, the `allowed` places of an answer or of none, and
    `token_type_ids` where there are `segments`; `(n_windows, width)` int64, the allowed ones bool.
    """
    shape = (len(windows), max(window.width for window in windows))
    made = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    made["input_ids"][:] = pad
    allowed = np.zeros(shape, dtype=bool)
    allowed[:, 0] = True
    for row, window in enumerate(windows):
        made["input_ids"][row, : window.width] = window.ids
        made["attention_mask"][row, : window.width] = 1
        made["token_type_ids"][row, : window.width] = window.segments
        allowed[row, window.start : window.start + window.last - window.first] = True
    if not segments:
        del made["token_type_ids"]
    return made | {"allowed": allowed}
