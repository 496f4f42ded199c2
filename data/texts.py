"""Texts of any script and length: what is counted in them, how they are cut into blocks."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, islice
from typing import Any, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex

BLOCK = 8_192  # texts made at a time: some megabytes
_HANGUL = regex.compile(r"\p{Hangul}")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_LETTER = regex.compile(r"\p{L}")
# that are looked at
_TEXTS = 2000
_CHARACTERS = 300

_T = TypeVar("_T")


class Texts(Sequence[str]):
    """The texts of an Arrow column without nulls; with `titles`, each known one stands on the line before its text."""

    def __init__(self, texts: Any, titles: Any = None) -> None:
        self._texts = texts
        self._titles = titles

    @property
    def column(self) -> Any:
        """The texts as an Arrow column, made in memory where there are titles."""
        if self._titles is None:
            return self._texts
        known = pc.if_else(pc.equal(self._titles, ""), pa.scalar(None, pa.large_string()), self._titles)
        newline = pa.scalar("\n", pa.large_string())
        return pc.binary_join_element_wise(known, self._texts, newline, null_handling="skip")

    @cached_property
    def fingerprint(self) -> str:
        return _digest((np.asarray(pc.utf8_length(part)), _utf8(part)) for part in self._parts(BLOCK))

    def lengths(self) -> np.ndarray:
        return self._computed(pc.utf8_length, np.int64)

    def containing(self, substring: str) -> np.ndarray:
        """Return which texts hold `wanted` somewhere, in any case, `(n_texts,)` bool."""
        # with case Arrow searches ten times as long
        return self._computed(partial(pc.match_substring, pattern=substring, ignore_case=True), np.bool_)

    def matching(self, pattern: str) -> np.ndarray:
        """Return which texts match a regular expression (RE2) somewhere, `(n_texts,)` bool."""
        return self._computed(partial(pc.match_substring_regex, pattern=pattern), np.bool_)

    def _computed(self, compute: Callable[[Any], Any], dtype: type[np.generic]) -> np.ndarray:
        values = (np.asarray(compute(part)) for part in self._parts(BLOCK))
        return np.concatenate([np.zeros(0, dtype=dtype), *values])

    def hashes(self) -> np.ndarray:
        """Python's hash of every text, `(n_texts,)` int64: the same within a process, and only there."""
        return np.fromiter(map(hash, self), dtype=np.int64, count=len(self))

    def repeated_row(self) -> int | None:
        """Return the first row whose text an earlier one has; None where all differ."""
        hashes = self.hashes()
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        rows = np.sort(order[np.union1d(same, same + 1)])  # few, unless the texts repeat
        seen: set[str] = set()
        for row, text in zip(rows.tolist(), self.at(rows), strict=True):
            if text in seen:
                return int(row)
            seen.add(text)
        return None

    def blocks(self, size: int = BLOCK) -> Iterator[list[str]]:
        return (part.to_pylist() for part in self._parts(size))

    def at(self, rows: Sequence[int] | np.ndarray) -> list[str]:
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) < BLOCK:  # few are made sooner one by one
            return [self[row] for row in rows.tolist()]
        texts = np.empty(len(rows), dtype=object)
        order = np.argsort(rows, kind="stable")
        # block by block: Arrow's `take` would first copy all texts into one piece
        for same in np.split(order, np.flatnonzero(np.diff(rows[order] // BLOCK)) + 1):
            start = int(rows[same[0]] // BLOCK) * BLOCK
            columns = (column.slice(start, BLOCK).take(rows[same] - start) for column in self._columns)
            texts[same] = Texts(*columns).column.to_pylist()
        return texts.tolist()

    @property
    def _columns(self) -> tuple[Any, ...]:
        return (self._texts,) if self._titles is None else (self._texts, self._titles)

    def _parts(self, size: int) -> Iterator[Any]:
        return (self[start : start + size].column for start in range(0, len(self), size))

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Texts": ...
    def __getitem__(self, index: int | slice) -> "str | Texts":
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return Texts(pa.chunked_array([column_of(self.at(range(start, stop, step)))]))
            return Texts(*(column.slice(start, max(0, stop - start)) for column in self._columns))
        text, *title = (column[int(index)].as_py() for column in self._columns)
        return f"{title[0]}\n{text}" if title and title[0] else str(text)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.blocks())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __repr__(self) -> str:
        return f"Texts({len(self):,})"


def fingerprint_of(texts: Iterable[str]) -> str:
    """sha256 (hexadecimal) of texts in order: of each `BLOCK` the lengths in characters (int64, little-endian), then
    UTF-8."""
    if isinstance(texts, Texts):
        return texts.fingerprint
    blocks = in_blocks(texts)
    return _digest(
        (np.array([len(text) for text in block]), "".join(block).encode("utf-8", "surrogatepass")) for block in blocks
    )


def _digest(blocks: Iterable[tuple[np.ndarray, Any]]) -> str:
    digest = sha256()
    for lengths, content in blocks:
        digest.update(lengths.astype("<i8").tobytes())
        digest.update(content)
    return digest.hexdigest()


def _utf8(column: Any) -> memoryview:
    """The texts of an Arrow column in UTF-8 without a gap, where they lie: strings would take several times as long."""
    texts = pc.cast(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, pa.large_string())
    _, offsets, content = texts.buffers()
    start, end = np.frombuffer(offsets, dtype=np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    return memoryview(content or b"")[start:end]


def in_blocks(values: Iterable[_T], size: int = BLOCK) -> Iterator[list[_T]]:
    """Yield the values in order, `size` at a time."""
    rest = iter(values)
    while block := list(islice(rest, size)):
        yield block


def column_of(texts: Sequence[str]) -> Any:
    """Return texts as an Arrow array of exactly their size, half of Arrow's own. `ValueError` for a lone surrogate."""
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in encoded], dtype=np.int64)]).astype(np.int64)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


class Script(StrEnum):
    """How words stand in a text."""

    KOREAN = "korean"  # spaced, with endings that grow onto them
    UNSPACED = "unspaced"  # one after the other
    SPACED = "spaced"


def sample_beginnings(texts: Iterable[str]) -> list[str]:
    """Return the beginnings of the first texts, composed (NFC): what tells the script and the language of a corpus."""
    return [unicodedata.normalize("NFC", text[:_CHARACTERS]) for text in islice(texts, _TEXTS)]


def script_of(texts: Iterable[str]) -> Script:
    """Return the script of a tenth of the letters or more: Korean text is full of Latin names, and not reversed."""
    sample = "".join(sample_beginnings(texts))
    letter_count = max(1, len(_LETTER.findall(sample)))
    if len(_HANGUL.findall(sample)) >= letter_count / 10:
        return Script.KOREAN
    return Script.UNSPACED if len(_UNSPACED.findall(sample)) >= letter_count / 10 else Script.SPACED
