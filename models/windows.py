"""Lengths of texts in tokens, windows of long texts, and pairs of texts joined as tokens.

A passage is as relevant as its best window (MaxP: Callan 1994; Dai & Callan 2019). Windows overlap by half by default,
and the title precedes each.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.data.cache import cached_arrays, key_of
from mrc_workbench.data.texts import fingerprint_of, in_blocks
from mrc_workbench.models.inference import Precision, replaced
from mrc_workbench.models.sources import Meter, ModelSource, SourcedModel

Pair = tuple[str, str]
_LENGTHS_VERSION = 1  # raise when lengths of texts change
_BLOCK = 1024  # texts tokenized at a time
_MAX_WORD_TOKENS = 16  # a longer run without a space is cut inside
_MAX_CACHED_WINDOWS = 100_000
_LENGTH_STEP = 16  # rounds the length of windows beside a question: questions of similar length share windows
_MAX_CACHED_TOKENS = 64_000_000  # tokens, 4 bytes each
_PROBE = ("a b", "c d e")


@dataclass(frozen=True)
class WindowOptions:
    """Maximum `tokens` of a window without its title (0: all), and `stride` (0: half). Raises `ValueError`."""

    tokens: int = 0
    stride: int = 0

    def __post_init__(self) -> None:
        if self.tokens < 0 or self.stride < 0:
            raise ValueError(f"tokens and stride must be 0 or more, not {self.tokens} and {self.stride}")
        if self.tokens and self.stride > self.tokens:
            raise ValueError(f"a stride of {self.stride} would skip tokens between windows of {self.tokens}")


class Window(NamedTuple):
    """Characters `start` to `end` of a text, after its first `title_length` characters, the title."""

    title_length: int
    start: int
    end: int

    def text(self, full_text: str) -> str:
        return full_text[: self.title_length] + full_text[self.start : self.end]


@dataclass(frozen=True)
class Windows:
    """The windows of texts that are too long for a model.

    `rows` `(n_windows,)` int64, ascending, are their texts; `windows` `(n_windows, 3)` int64 are `Window`s. With
    `first_is_prefix`, the first window of a text equals the prefix that the model reads of the text.
    """

    rows: np.ndarray
    windows: np.ndarray
    first_is_prefix: bool = True

    @classmethod
    def empty(cls) -> "Windows":
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_added(self) -> np.ndarray:
        """Windows to encode in addition to the texts, `(n_windows,)` bool."""
        firsts: np.ndarray = np.diff(self.rows, prepend=-1) != 0
        return ~(firsts & self.first_is_prefix)

    def whole_rows(self, n_texts: int) -> np.ndarray:
        rows = np.arange(n_texts)
        return rows if self.first_is_prefix else np.setdiff1d(rows, self.rows)

    def added_windows(self) -> Iterator[tuple[int, Window]]:
        for row, window in zip(self.rows[self.is_added].tolist(), self.windows[self.is_added].tolist(), strict=True):
            yield row, Window(*window)

    def texts(self, texts: Sequence[str]) -> list[str]:
        return [window.text(texts[row]) for row, window in self.added_windows()]

    def windows_of(self, row: int) -> list[Window]:
        first, last = np.searchsorted(self.rows, [row, row + 1])
        return [Window(*window) for window in self.windows[first:last].tolist()]


class WindowCutter:
    """Cuts texts for a fast tokenizer and `prompt`; windows start with the title unless it exceeds half of a window."""

    def __init__(self, tokenizer: Any, options: WindowOptions, prompt: str = "") -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._prompt = prompt
        max_length = int(tokenizer.model_max_length)
        self.max_text_tokens = max_length - int(tokenizer.num_special_tokens_to_add(pair=False))
        self.max_pair_tokens = max_length - int(tokenizer.num_special_tokens_to_add(pair=True))
        self._lengths: dict[str, int] = {}  # in tokens
        self._cut: dict[tuple[str, int, int], list[Window]] = {}

    def windows(self, texts: Sequence[str], title_lengths: np.ndarray) -> Windows:
        """Cut texts that are too long; `title_lengths` is `(n_texts,)`, in characters."""
        rows: list[int] = []
        all_windows: list[Window] = []
        for row, encoding, text in self._encoded(texts):
            if len(encoding.ids) > self.max_text_tokens:
                windows = self._windows(text, int(title_lengths[row]), encoding, self.max_text_tokens)
                rows += [row] * len(windows)
                all_windows += windows
        spans = np.array(all_windows, dtype=np.int64).reshape(-1, 3)
        return Windows(np.array(rows, dtype=np.int64), spans, not self._options.tokens)

    def windows_beside(self, question: str, text: str, title_length: int) -> list[Window]:
        """Cut a text that is too long beside a question, which gets at most half of a pair; else no windows."""
        room = max(self.max_pair_tokens - self._length(question), self.max_pair_tokens // 2)
        if self._length(text) <= room:
            return []
        room = max(room // _LENGTH_STEP * _LENGTH_STEP, min(room, _LENGTH_STEP))
        if len(self._cut) > _MAX_CACHED_WINDOWS:
            self._cut.clear()
        key = (text, title_length, room)
        if key not in self._cut:
            ((_, encoding, _),) = self._encoded([text])
            self._cut[key] = self._windows(text, title_length, encoding, room)
        return self._cut[key]

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(encoding.ids) for _, encoding, _ in self._encoded(texts)], dtype=np.int64)

    def _length(self, text: str) -> int:
        if text not in self._lengths:
            self._lengths[text] = int(self.lengths([text])[0])
        return self._lengths[text]

    def _encoded(self, texts: Sequence[str]) -> Iterator[tuple[int, Any, str]]:
        row = 0
        for block in in_blocks(texts, _BLOCK):
            batch = self._tokenizer(
                [self._prompt + text for text in block], add_special_tokens=False, truncation=False, verbose=False
            )
            for encoding, text in zip(batch.encodings, block, strict=True):
                yield row, encoding, text
                row += 1

    def _windows(self, text: str, title_length: int, encoding: Any, room: int) -> list[Window]:
        """Cut smaller and smaller windows until each fits: windows may have other tokens than the text."""
        reduction = 0
        while True:
            windows = self._cut_once(text, title_length, encoding, room - reduction)
            longest = int(self.lengths([window.text(text) for window in windows]).max())
            if longest <= room or reduction > room // 2:
                return windows
            reduction += longest - room

    def _cut_once(self, text: str, title_length: int, encoding: Any, room: int) -> list[Window]:
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) - len(self._prompt)
        n_before, prompt = (int(np.count_nonzero(offsets[:, 0] < limit)) for limit in (title_length, 0))
        if n_before - prompt > room // 2:
            title_length = 0
            n_before = prompt
        size = max(1, room - n_before)
        size = min(size, self._options.tokens or size)
        stride = min(size, self._options.stride or max(1, size // 2))
        character_spans = offsets[n_before:]
        words = encoding.word_ids[n_before:]
        windows = []
        for first, last in _bounds(words, size, stride):
            start = int(character_spans[first, 0]) if first else title_length
            end = int(character_spans[first:last, 1].max()) if last < len(character_spans) else len(text)
            windows.append(Window(title_length, start + len(text[start:end]) - len(text[start:end].lstrip()), end))
        return windows


class TokenLengths(NamedTuple):
    """Tokens of each text, `(n_texts,)` int64, and a model's limits for a text and for a pair."""

    tokens: np.ndarray
    max_text_tokens: int
    max_pair_tokens: int

    @property
    def n_truncated(self) -> int:
        return int(np.count_nonzero(self.tokens > self.max_text_tokens))


class TruncatingModel(SourcedModel):
    """A model that reads only the beginning of long texts; `_cutter` cuts texts for it, None if that is impossible.

    A `loaded_model`, such as one in training, is not loaded again, and its results are not stored. `batch_size` is for
    models that cannot choose batches by length. `passages_fraction` is the fraction of the progress for passages.
    """

    def __init__(
        self,
        source: ModelSource,
        corpus: Sequence[str],
        *,
        precision: Precision = Precision.AUTO,
        batch_size: int = 64,
        on_progress: Callable[[float], None] | None = None,
        passages_fraction: float = 0.8,
        loaded_model: Any = None,
    ) -> None:
        super().__init__(source, corpus, precision)
        self._is_given = loaded_model is not None
        if self._is_given:
            self.model = loaded_model
        self._batch_size = batch_size
        self._passages_fraction = passages_fraction
        self.meter = Meter()
        self._on_progress = on_progress

    def _cutter(self, options: WindowOptions) -> WindowCutter | None:
        raise NotImplementedError

    def _report_progress(self, progress_range: tuple[float, float], fraction: float) -> None:
        if self._on_progress:
            start, end = progress_range
            self._on_progress(start + (end - start) * fraction)

    def cut(self, texts: Sequence[str], title_lengths: np.ndarray, options: WindowOptions) -> Windows:
        cutter = self._cutter(options)
        return cutter.windows(texts, title_lengths) if cutter else Windows.empty()

    def lengths_of(self, texts: Sequence[str]) -> TokenLengths:
        """Return the lengths of texts, 0 of a slow tokenizer. Loads the model unless lengths are stored."""

        def count() -> dict[str, np.ndarray]:
            self.load()
            cutter = self._cutter(WindowOptions())
            if not cutter:
                return {"tokens": np.zeros(len(texts), dtype=np.int64), "rooms": np.zeros(2, dtype=np.int64)}
            return {
                "tokens": cutter.lengths(texts),
                "rooms": np.array([cutter.max_text_tokens, cutter.max_pair_tokens]),
            }

        key = key_of(_LENGTHS_VERSION, type(self).__name__, self.fingerprint, fingerprint_of(texts))
        stored = cached_arrays("lengths", key, count, store=len(texts) > 1)
        return TokenLengths(stored["tokens"], *stored["rooms"].tolist())


def _bounds(word_ids: Sequence[int | None], size: int, stride: int) -> list[tuple[int, int]]:
    start = 0
    bounds = []
    while True:
        end = len(word_ids) if len(word_ids) - start <= size else _word_start(word_ids, start, start + size)
        bounds.append((start, end))
        if end == len(word_ids):
            return bounds
        start = _word_start(word_ids, start, start + stride)


def _word_start(word_ids: Sequence[int | None], minimum: int, position: int) -> int:
    """Return the start of the word at a position, if it is after `minimum` and the word is not too long."""
    first = position
    while first > minimum and position - first < _MAX_WORD_TOKENS and word_ids[first - 1] == word_ids[position]:
        first -= 1
    return first if first > minimum and word_ids[first - 1] != word_ids[position] else position


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens around and between two texts, and the segments of all five pieces."""

    first: np.ndarray
    between: np.ndarray
    last: np.ndarray
    segments: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.first) + len(self.between) + len(self.last)

    def join(self, first_ids: np.ndarray, second_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pieces = (self.first, first_ids, self.between, second_ids, self.last)
        return np.concatenate(pieces), np.repeat(np.array(self.segments, dtype=np.int32), [*map(len, pieces)])


def padded(rows: Sequence[tuple[np.ndarray, np.ndarray]], pad: int) -> dict[str, np.ndarray]:
    """Return rows of ids and segments as `input_ids`, `attention_mask` and `token_type_ids`, `(n, width)` int64."""
    shape = (len(rows), max(len(ids) for ids, _ in rows))
    features = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    features["input_ids"][:] = pad
    for row, (ids, segments) in enumerate(rows):
        features["input_ids"][row, : len(ids)] = ids
        features["attention_mask"][row, : len(ids)] = 1
        features["token_type_ids"][row, : len(ids)] = segments
    return features


def pair_template(tokenizer: Any) -> PairTemplate | None:
    """Derive the template from a tokenized pair; None if the tokenizer does not assign tokens to texts."""
    if not getattr(tokenizer, "is_fast", False) or tokenizer.padding_side != "right":
        return None
    encoded = tokenizer("a b", "c d e")
    owners = encoded.sequence_ids()
    ids = np.array(encoded["input_ids"], dtype=np.int32)
    segments = encoded.get("token_type_ids", [0] * len(ids))
    firsts, seconds = ([position for position, owner in enumerate(owners) if owner == text] for text in (0, 1))
    if not firsts or not seconds:
        return None
    bounds = [0, firsts[0], firsts[-1] + 1, seconds[0], seconds[-1] + 1, len(ids)]
    spans = [ids[start:end] for start, end in pairwise(bounds)]
    of_pieces = tuple(segments[min(start, len(ids) - 1)] for start in bounds[:-1])
    return PairTemplate(spans[0], spans[2], spans[4], of_pieces)


class PairTokenizer:
    """Caches the tokens of texts and joins them like the tokenizer, for a cross-encoder that `takes_rows`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokenizer = model[0].tokenizer
        self._plain: Callable[..., dict[str, Any]] = model[0].preprocess
        self._rows: dict[str, np.ndarray] = {}
        self._n_tokens = 0
        self._joint = pair_template(self._tokenizer)
        features = self._plain([_PROBE])
        self._names = [name for name in self._tokenizer.model_input_names if name in features]
        self.is_usable = self._joint is not None and self._agrees()

    def joining(self) -> AbstractContextManager[None]:
        return replaced(self._model[0], "preprocess", self) if self.is_usable else nullcontext()

    def __call__(self, inputs: Sequence[Pair], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        import torch

        joint = self._joint
        if prompt or kwargs or joint is None:
            return self._plain(inputs, prompt=prompt, **kwargs)
        self._tokenize({text for pair in inputs for text in pair})
        rows = []
        room = self._tokenizer.model_max_length - joint.length
        for question, passage in inputs:
            question_ids = self._rows[question]
            passage_ids = self._rows[passage]
            first, second = longest_first(len(question_ids), len(passage_ids), room)
            rows.append(joint.join(question_ids[:first], passage_ids[:second]))
        features = padded(rows, self._tokenizer.pad_token_id or 0)
        return {name: torch.from_numpy(features[name]) for name in self._names} | {"modality": "text"}

    def _tokenize(self, texts: set[str]) -> None:
        if self._n_tokens > _MAX_CACHED_TOKENS:
            self._rows.clear()
            self._n_tokens = 0
        new = [text for text in texts if text not in self._rows]
        if new:
            encoded = self._tokenizer(new, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
            self._rows |= {text: np.array(ids, dtype=np.int32) for text, ids in zip(new, encoded, strict=True)}
            self._n_tokens += sum(map(len, encoded))

    def _agrees(self) -> bool:
        """Whether pairs that are short, empty or truncated on either side equal those of the model."""
        import torch

        long = "a " * min(2 * self._tokenizer.model_max_length, 4096)
        pairs = [_PROBE, (long, "b"), ("b", long), (long, long), ("", "b")]
        ours = self(pairs)
        theirs = self._plain(pairs)
        return set(ours) == set(theirs) and all(
            torch.equal(ours[name], theirs[name]) for name in ours if isinstance(ours[name], torch.Tensor)
        )


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return the lengths of two texts after truncation to `room` tokens, the longer one first."""
    if first + second <= room:
        return first, second
    if 2 * min(first, second) > room:  # both are cut; an odd token goes to the longer, or to the second
        half = room // 2
        return (room - half, half) if first > second else (half, room - half)
    return (first, room - first) if first <= second else (room - second, second)
