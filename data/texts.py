"""Texts as Arrow columns, processed in blocks; the script of texts."""

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

BLOCK = 8_192  # texts in memory at a time: some megabytes
_HANGUL = regex.compile(r"\p{Hangul}")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_LETTER = regex.compile(r"\p{L}")
# the sample that determines script and language
_SAMPLE_TEXTS = 2000
_SAMPLE_CHARACTERS = 300

_T = TypeVar("_T")


class Texts(Sequence[str]):
    """The texts of an Arrow column without nulls; with `titles`, known titles precede the texts on their own line."""

    def __init__(self, texts: Any, titles: Any = None) -> None:
        self._texts = texts
        self._titles = titles

    @property
    def column(self) -> Any:
        """The texts as an Arrow column, which is built in memory if there are titles."""
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
        """Return which texts contain a substring, ignoring case, `(n_texts,)` bool."""
        # Arrow is ten times faster if it ignores case
        return self._computed(partial(pc.match_substring, pattern=substring, ignore_case=True), np.bool_)

    def matching(self, pattern: str) -> np.ndarray:
        """Return which texts contain a match of a regular expression (RE2), `(n_texts,)` bool."""
        return self._computed(partial(pc.match_substring_regex, pattern=pattern), np.bool_)

    def _computed(self, compute: Callable[[Any], Any], dtype: type[np.generic]) -> np.ndarray:
        values = (np.asarray(compute(part)) for part in self._parts(BLOCK))
        return np.concatenate([np.zeros(0, dtype=dtype), *values])

    def hashes(self) -> np.ndarray:
        """Python's hash of every text, `(n_texts,)` int64; valid only within this process."""
        return np.fromiter(map(hash, self), dtype=np.int64, count=len(self))

    def repeated_row(self) -> int | None:
        """Return the first row that repeats an earlier text; None if all texts differ."""
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
        if len(rows) < BLOCK:  # faster for few rows
            return [self[row] for row in rows.tolist()]
        texts = np.empty(len(rows), dtype=object)
        order = np.argsort(rows, kind="stable")
        # block by block: Arrow's `take` would first copy all texts into one chunk
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
    """sha256 (hexadecimal) of texts: per block of `BLOCK` texts, the lengths in characters (int64, little-endian) and
    the texts in UTF-8."""
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
    """The texts of an Arrow column as contiguous UTF-8, without a copy: several times faster than strings."""
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
    """Return texts as an Arrow array without spare capacity. Raises `ValueError` for a lone surrogate."""
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in encoded], dtype=np.int64)]).astype(np.int64)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


class Script(StrEnum):
    """How a script separates words."""

    KOREAN = "korean"  # spaces between words with agglutinated endings
    UNSPACED = "unspaced"
    SPACED = "spaced"


def sample_beginnings(texts: Iterable[str]) -> list[str]:
    """Return the beginnings of the first texts in NFC, a sample for the script and the language of a corpus."""
    return [unicodedata.normalize("NFC", text[:_SAMPLE_CHARACTERS]) for text in islice(texts, _SAMPLE_TEXTS)]


def script_of(texts: Iterable[str]) -> Script:
    """Return the script of at least a tenth of the letters: Korean texts contain many Latin names."""
    sample = "".join(sample_beginnings(texts))
    letter_count = max(1, len(_LETTER.findall(sample)))
    if len(_HANGUL.findall(sample)) >= letter_count / 10:
        return Script.KOREAN
    return Script.UNSPACED if len(_UNSPACED.findall(sample)) >= letter_count / 10 else Script.SPACED
