"""Text as a model that learns to guess hidden tokens reads it: what is hidden, a file of tokens, and rows cut from it.

Text of any size is cut once into tokens that lie in a file, never in memory as a whole. Which tokens are hidden
is as in Devlin et al. 2019, 3.1.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xxhash

from mrc_workbench.data.text.analyzers import kiwi_tokens
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, Split, composed_letters, marked

IGNORED = -100  # the label where nothing is to be guessed, as torch's cross-entropy has it


class WholeWords(StrEnum):
    """What is hidden at once, so that no rest of a word gives it away (Cui et al. 2021)."""

    OFF = "off"  # each token by itself
    SPACES = "spaces"  # words between spaces, an eojeol of Korean
    MORPHEMES = "morphemes"  # as Kiwi parts them


@dataclass(frozen=True)
class MaskingOptions:
    """The share of tokens to guess, and the shares of these that are shown as [MASK] and as any other token."""

    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1  # the rest is shown as it is


@dataclass(frozen=True)
class Masker:
    """Hides tokens by chance. Special tokens are never hidden, and never shown in place of another."""

    options: MaskingOptions
    mask: int  # the id of [MASK]
    special: np.ndarray = field(repr=False)  # (vocabulary,) bool, true of the ids that are no text

    def masked(self, tokens: np.ndarray, words: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return what is shown, and the labels: the ids to guess, `IGNORED` elsewhere; both like `tokens` `(n, width)`.

        `words`, of the same shape, numbers the word of each token, from 0 in each row and below the width: a word is
        hidden as a whole with the probability `share`, so that this is the share of tokens, too. What its tokens are
        shown as is drawn for each of them.
        """
        drawn = np.take_along_axis(rng.random(tokens.shape), words, axis=1)
        chosen = (drawn < self.options.share) & ~self.special[tokens]
        labels = np.where(chosen, tokens, IGNORED)
        fate = rng.random(tokens.shape)
        others = np.flatnonzero(~self.special)
        shown = np.where(chosen & (fate < self.options.masked), self.mask, tokens)
        is_random = chosen & (fate >= self.options.masked) & (fate < self.options.masked + self.options.random)
        shown[is_random] = others[rng.integers(len(others), size=int(is_random.sum()))]
        return shown, labels


def word_starts(texts: Sequence[str], letters: Sequence[np.ndarray], whole_words: WholeWords) -> list[np.ndarray]:
    """Say of every token of each text whether a word begins with it, `(n_tokens,)` bool.

    `letters` holds the first and the last letter and one of every token, `(n_tokens, 2)`. Words that share a token, or
    a letter, as morphemes may, are one. Where `whole_words` is off, words are those between spaces.
    """
    if whole_words is WholeWords.MORPHEMES:
        begins = _morpheme_starts(texts)
    else:
        begins = [np.zeros(len(text), dtype=bool) for text in texts]
    numbered = [_numbered(text, starts) for text, starts in zip(texts, begins, strict=True)]
    return [_starts(numbers, spans) for numbers, spans in zip(numbered, letters, strict=True)]


def words_of(starts: np.ndarray) -> np.ndarray:
    """Number the words of rows of tokens from 0, `(n, width)`, by where they start: `(n, width)` bool."""
    return np.asarray(np.maximum(np.cumsum(starts, axis=1) - 1, 0))


def _morpheme_starts(texts: Sequence[str]) -> list[np.ndarray]:
    """The letters that morphemes begin with, bool: as they are marked, or as Kiwi finds them where nothing is."""
    told = iter(kiwi_tokens([text for text in texts if BOUNDARY not in text]))
    found = []
    for text in texts:
        starts, end = np.array([letter == BOUNDARY for letter in text], dtype=bool), 0
        for token in () if BOUNDARY in text else next(told):
            starts[token.start : token.start + 1] |= token.start >= end  # 했 is 하 and 었: they share a letter
            end = max(end, token.start + token.len)
        found.append(starts)
    return found


def _numbered(text: str, starts: np.ndarray) -> np.ndarray:
    """The number of the word of each letter: one begins at `starts` or after a blank, which belongs to what follows."""
    blank = np.fromiter(map(str.isspace, text), dtype=bool, count=len(text))
    starts = starts | (~blank & np.concatenate([[True], blank[:-1]])[: len(text)])
    return np.asarray(np.cumsum(starts) + blank)


def _starts(numbers: np.ndarray, letters: np.ndarray) -> np.ndarray:
    if not len(letters):
        return np.zeros(0, dtype=bool)
    first, last = letters[:, 0], np.maximum(letters[:, 1] - 1, letters[:, 0])
    reached = np.concatenate([[-1], np.maximum.accumulate(numbers[last])[:-1]])
    return np.asarray(numbers[first] > reached)


_CHARACTERS_AT_ONCE = 1 << 18  # of documents tokenized together


class Specials(NamedTuple):
    """Ids that a tokenizer puts around texts."""

    pad: int
    begin: int  # [CLS]
    end: int  # [SEP]


@dataclass(frozen=True)
class TokenFile:
    """Tokens of documents, each followed by [SEP], one after the other.

    `bounds` says where documents begin and where the last one ends, `(n_documents + 1,)`; `same`, `(n_documents,)`, is
    equal for those of the same text; `counts` how often every token of the vocabulary occurs, [SEP] left out.
    """

    tokens: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)  # like `tokens`, bool: whether a word begins
    bounds: np.ndarray = field(repr=False)
    same: np.ndarray = field(repr=False)
    counts: np.ndarray = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> "TokenFile":
        """Mapped into memory, from a folder that `write_tokens` wrote."""
        dtype = np.dtype(read_json(folder / "about.json")["dtype"])
        mapped = (_mapped(folder / "tokens.bin", dtype), _mapped(folder / "starts.bin", np.dtype(bool)))
        return cls(*mapped, *(np.load(folder / f"{name}.npy") for name in ("bounds", "same", "counts")))


def write_tokens(
    folder: Path, documents: Iterable[str], tokenizer: Any, specials: Specials, whole_words: WholeWords
) -> None:
    """Write the tokens of documents into a folder, some documents at a time.

    `tokenizer` is a fast one of transformers; morphemes are marked for one that was trained so
    (`models.language.tokenizer_training`).
    """
    morphemes = getattr(tokenizer, "init_kwargs", {}).get("trained", {}).get("split") == Split.MORPHEMES
    size = len(tokenizer)
    dtype = np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)
    folder.mkdir(parents=True, exist_ok=True)
    counts, lengths, same = np.zeros(size, dtype=np.int64), array("q"), array("Q")  # of numbers, not of objects
    with (folder / "tokens.bin").open("wb") as tokens, (folder / "starts.bin").open("wb") as starts:
        for some in _some(documents):
            texts = marked(some) if morphemes else [composed_letters(text) for text in some]
            told = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False).encodings
            letters = [np.array(one.offsets, dtype=np.int64).reshape(-1, 2) for one in told]
            for text, one, begins in zip(texts, told, word_starts(texts, letters, whole_words), strict=True):
                ids = np.array(one.ids, dtype=np.int64)
                counts += np.bincount(ids, minlength=size)
                tokens.write(np.append(ids, specials.end).astype(dtype).tobytes())
                starts.write(np.append(begins, True).tobytes())
                lengths.append(len(ids) + 1)
                same.append(xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")))
    np.save(folder / "bounds.npy", np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]))
    np.save(folder / "same.npy", np.array(same, dtype=np.uint64))
    np.save(folder / "counts.npy", counts)
    write_json(folder / "about.json", {"dtype": dtype.name})


def _some(documents: Iterable[str]) -> Iterator[list[str]]:
    texts, characters = list[str](), 0
    for document in documents:
        texts.append(document)
        characters += len(document)
        if characters > _CHARACTERS_AT_ONCE:
            yield texts
            texts, characters = [], 0
    if texts:
        yield texts


def _mapped(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype))


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
        return np.full(len(self), min(len(self.file.tokens), self._room) + 2)

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        del rng  # nothing is left to chance
        bodies = [slice(row * self._room, (row + 1) * self._room) for row in rows]
        return _rows(self.file, [[body] for body in bodies], self.specials)._replace(follows=None)

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
        if len(np.unique(self.file.same[self.document])) < 2:
            message = "one document has no segment of another beside it: give several, or learn without pairs"
            raise LanguageError("one_document", message)

    def __len__(self) -> int:
        return len(self.pairs)

    def lengths(self) -> np.ndarray:
        """As the pairs stand in their documents."""
        return np.asarray(np.minimum(self.pairs[:, 2] - self.pairs[:, 0], self.length - 3) + 3)

    def read(self, rows: Sequence[int], rng: np.random.Generator) -> Rows:
        """About half are `NEXT`."""
        follows = np.where(rng.random(len(rows)) < 0.5, RANDOM, NEXT)
        firsts = [slice(*self.pairs[row, :2].tolist()) for row in rows]
        seconds = [
            slice(*self.pairs[row, 1:].tolist()) if follow == NEXT else self._of_another(row, rng)
            for row, follow in zip(rows, follows.tolist(), strict=True)
        ]
        room = self.length - 3
        bodies = [list(_fitted(first, second, room)) for first, second in zip(firsts, seconds, strict=True)]
        return _rows(self.file, bodies, self.specials)._replace(follows=follows)

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


def _rows(file: TokenFile, bodies: Sequence[Sequence[slice]], specials: Specials) -> Rows:
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
