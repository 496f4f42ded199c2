"""Text as a model reads it: rows of tokens, cut from a file of tokens that is never in memory as a whole."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from language.masking.masker import words_of
from language.masking.token_file import Specials, TokenFile
from language.problems import LanguageError

NEXT, RANDOM = 0, 1  # what a second segment is, as BERT numbers it


class Rows(NamedTuple):
    """What is read at once. `tokens`, `segments` and `words` are `(n, width)`, `lengths` and `follows` `(n,)`."""

    tokens: np.ndarray  # int64, padded on the right
    segments: np.ndarray  # int64, 1 of a second segment
    words: np.ndarray  # int64, the number of each token's word in its row
    lengths: np.ndarray
    follows: np.ndarray | None  # `NEXT` or `RANDOM`, None where there are no pairs


class Blocks(Protocol):
    """Rows by number."""

    def __len__(self) -> int: ...

    def lengths(self) -> np.ndarray:
        """Tokens of every row, `(n,)`."""

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        """Return some rows; what is left to chance is drawn from `rng`."""


@dataclass(frozen=True)
class PackedBlocks:
    """Documents joined by [SEP] and cut into rows of one length: [CLS] ... [SEP], none of it padding.

    What is left at the end is a row only where there is no other. Raises `LanguageError` `no_tokens`.
    """

    file: TokenFile
    length: int
    specials: Specials

    def __post_init__(self) -> None:
        if not len(self.file.tokens):
            raise LanguageError("no_tokens", "no token is left to learn from or to measure on: give more text")

    def __len__(self) -> int:
        return max(1, len(self.file.tokens) // self._room)

    def lengths(self) -> np.ndarray:
        """All the same."""
        return np.full(len(self), min(len(self.file.tokens), self._room) + 2)

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        """Return some rows; nothing is left to chance."""
        del rng
        bodies = [slice(row * self._room, (row + 1) * self._room) for row in rows]
        return _joined(self.file, [[body] for body in bodies], self.specials)._replace(follows=None)

    @property
    def _room(self) -> int:
        return self.length - 2


@dataclass(frozen=True)
class SegmentPairs:
    """Two segments of about half a row each: [CLS] a [SEP] b [SEP] (Devlin et al. 2019, 3.1).

    A document is cut into segments of equal size that begin with words, and every two of them are a row. As often as
    not, the second one is shown; else one of another document is, by chance of all segments: never one of the same
    document, or of a copy of it. Raises `LanguageError` `one_document`.
    """

    file: TokenFile
    length: int
    specials: Specials
    pairs: np.ndarray = field(init=False, repr=False)  # (n, 3) where the first begins, the second, and where that ends
    document: np.ndarray = field(init=False, repr=False)  # (n,) rows of `TokenFile.same`

    def __post_init__(self) -> None:
        room, found, document = self.length - 3, array("q"), array("q")
        for number, (start, end) in enumerate(zip(self.file.bounds[:-1], self.file.bounds[1:] - 1, strict=True)):
            pairs = _segments(int(start), self.file.starts[start:end], room)
            found.extend(pairs.ravel().tolist())
            document.extend([number] * len(pairs))
        object.__setattr__(self, "pairs", np.array(found, dtype=np.int64).reshape(-1, 3))
        object.__setattr__(self, "document", np.array(document, dtype=np.int64))
        if len(np.unique(self._same)) < 2:
            message = "one document has no segment of another beside it: give several, or learn without pairs"
            raise LanguageError("one_document", message)

    def __len__(self) -> int:
        return len(self.pairs)

    def lengths(self) -> np.ndarray:
        """Of the pairs as they stand in their documents."""
        return np.asarray(np.minimum(self.pairs[:, 2] - self.pairs[:, 0], self.length - 3) + 3)

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        """Return some pairs, of which about half are `NEXT`."""
        follows = np.where(rng.random(len(rows)) < 0.5, RANDOM, NEXT)
        firsts = [slice(*self.pairs[row, :2].tolist()) for row in rows]
        seconds = [
            slice(*self.pairs[row, 1:].tolist()) if follow == NEXT else self._of_another(row, rng)
            for row, follow in zip(rows, follows.tolist(), strict=True)
        ]
        room = self.length - 3
        bodies = [list(_fitted(first, second, room)) for first, second in zip(firsts, seconds, strict=True)]
        return _joined(self.file, bodies, self.specials)._replace(follows=follows)

    @property
    def _same(self) -> np.ndarray:
        return np.asarray(self.file.same[self.document])

    def _of_another(self, row: int, rng: np.random.Generator) -> slice:
        own = self.file.same[self.document[row]]
        while self.file.same[self.document[other := int(rng.integers(len(self.pairs)))]] == own:
            pass
        side = int(rng.integers(2))
        return slice(*self.pairs[other, side : side + 2].tolist())


def _segments(first: int, starts: np.ndarray, room: int) -> np.ndarray:
    """Bounds of the pairs of a document of tokens from `first` on, `(n_pairs, 3)`; none of a single token."""
    size = len(starts)
    if size < 2:
        return np.zeros((0, 3), dtype=np.int64)
    count = 2 * -(-size // room)
    even = size * np.arange(count + 1) // count
    words = np.append(np.flatnonzero(starts), size)
    bounds = words[np.maximum(np.searchsorted(words, even, side="right") - 1, 0)]
    bounds = even if (np.diff(bounds) <= 0).any() else bounds
    return np.asarray(first + np.stack([bounds[:-2:2], bounds[1:-1:2], bounds[2::2]], axis=1))


def _fitted(first: slice, second: slice, room: int) -> tuple[slice, slice]:
    """Cut off the ends of what is too long together, of the longer one first."""
    sizes = [first.stop - first.start, second.stop - second.start]
    while sum(sizes) > room:
        sizes[sizes[0] < sizes[1]] -= 1
    return slice(first.start, first.start + sizes[0]), slice(second.start, second.start + sizes[1])


def _joined(file: TokenFile, bodies: Sequence[Sequence[slice]], specials: Specials) -> Rows:
    """Put [CLS] before and [SEP] after the segments of every row, and pad them to the longest."""
    lengths = np.array([1 + sum(len(range(*one.indices(len(file.tokens)))) + 1 for one in body) for body in bodies])
    shape = (len(bodies), int(lengths.max()))
    tokens, segments = np.full(shape, specials.pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    starts = np.ones(shape, dtype=bool)
    for row, body in enumerate(bodies):
        tokens[row, 0], place = specials.begin, 1
        for number, part in enumerate(body):
            ids = file.tokens[part]
            end = place + len(ids)
            tokens[row, place:end], tokens[row, end] = ids, specials.end
            starts[row, place + 1 : end] = file.starts[part][1:]
            segments[row, place : end + 1] = number
            place = end + 1
    return Rows(tokens, segments, words_of(starts), lengths, None)
