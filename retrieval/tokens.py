"""Analyzed texts as arrays, kept on disk a part at a time: an interrupted analysis goes on with the next part, and a
corpus that grew analyzes what is new.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from data.texts import fingerprint_of, in_blocks
from retrieval.analyzers import VERSION, Analyzer, analyze
from retrieval.cache import cached_arrays, key_of

PART = 1 << 16  # texts kept together: with Kiwi, a minute or two of work


@dataclass(frozen=True)
class Tokens:
    """Analyzed texts as arrays: text i holds `vocabulary[ids[offsets[i]:offsets[i + 1]]]`."""

    vocabulary: list[str]
    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_texts + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self) -> list[list[str]]:
        """Tokens of each text as strings."""
        words = np.asarray(self.vocabulary, dtype=object)[self.ids]
        return [list(part) for part in np.split(words, self.offsets[1:-1])] if len(self) else []

    def at(self, rows: np.ndarray) -> "Tokens":
        """Tokens of some texts, with no more of the vocabulary than these hold."""
        starts, lengths = self.offsets[rows], np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        numbers, ids = np.unique(self.ids[places], return_inverse=True)
        return Tokens([self.vocabulary[number] for number in numbers.tolist()], ids.astype(np.int32), offsets)

    def flat_ids_in(self, vocabulary: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Ids in another vocabulary, of the tokens it knows, and offsets `(n_texts + 1,)` of each text among them."""
        translation = np.array([vocabulary.get(token, -1) for token in self.vocabulary], dtype=np.int64)
        ids = translation[self.ids]
        known = ids >= 0
        return ids[known], np.concatenate([[0], np.cumsum(known)])[self.offsets]

    def ids_in(self, vocabulary: dict[str, int]) -> list[np.ndarray]:
        """Ids of each text in another vocabulary; tokens it does not know are left out."""
        ids, offsets = self.flat_ids_in(vocabulary)
        return np.split(ids, offsets[1:-1]) if len(self) else []


def tokens_of(analyzer: Analyzer, texts: Sequence[str], on_progress: Callable[[float], None] | None = None) -> Tokens:
    """Return the tokens of `texts`, from the disk cache where these texts were analyzed before.

    `on_progress` is told the share of the texts that are analyzed.
    """
    return _joined(list(token_parts(analyzer, texts, on_progress)))


def tokens_at(analyzer: Analyzer, texts: Sequence[str], rows: np.ndarray) -> Tokens:
    """Return the tokens of the texts in some rows, ascending; all are analyzed, as for `tokens_of`, but not held."""
    first = range(0, max(1, len(texts)), PART)
    within = (rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + PART)] - start for start in first)
    parts = zip(token_parts(analyzer, texts), within, strict=True)
    return _joined([part.at(wanted) for part, wanted in parts])


def token_parts(
    analyzer: Analyzer, texts: Sequence[str], on_progress: Callable[[float], None] | None = None
) -> Iterator[Tokens]:
    """Yield the tokens of `PART` texts at a time, each part with a vocabulary of its own; at least one part."""
    for start in range(0, max(1, len(texts)), PART):

        def tell(done: int, start: int = start) -> None:
            if on_progress:
                on_progress((start + done) / len(texts))

        yield _part(analyzer, texts[start : start + PART], tell)


def _part(analyzer: Analyzer, texts: Sequence[str], tell: Callable[[int], None]) -> Tokens:
    def compute() -> dict[str, np.ndarray]:
        number: dict[str, int] = {}
        ids, lengths = [np.zeros(0, dtype=np.int32)], [0]
        for block in in_blocks(texts):  # tokens take far more memory as strings than as numbers
            documents = analyze(analyzer, block)
            lengths += map(len, documents)
            found = (number.setdefault(token, len(number)) for document in documents for token in document)
            ids.append(np.fromiter(found, dtype=np.int32))
            tell(len(lengths) - 1)
        return {
            "vocabulary": np.frombuffer("\n".join(number).encode(), dtype=np.uint8),  # no analyzer keeps a newline
            "ids": np.concatenate(ids),
            "offsets": np.cumsum(lengths, dtype=np.int64),
        }

    key = key_of(VERSION, analyzer, fingerprint_of(texts))
    arrays = cached_arrays("tokens", key, compute, keep=len(texts) > 1)
    vocabulary = arrays["vocabulary"].tobytes().decode().split("\n") if len(arrays["vocabulary"]) else []
    return Tokens(vocabulary, arrays["ids"], arrays["offsets"])


def _joined(parts: list[Tokens]) -> Tokens:
    """Join parts in one vocabulary, in the order in which its tokens first occur. Empties the list."""
    if len(parts) == 1:
        return parts.pop()
    ids = np.empty(sum(len(part.ids) for part in parts), dtype=np.int32)
    offsets, number, start = [np.zeros(1, dtype=np.int64)], dict[str, int](), 0
    while parts:
        part = parts.pop(0)  # let go, so that at no time all tokens are held twice
        translation = np.array([number.setdefault(token, len(number)) for token in part.vocabulary], dtype=np.int32)
        ids[start : start + len(part.ids)] = translation[part.ids]
        offsets.append(part.offsets[1:] + start)
        start += len(part.ids)
    return Tokens(list(number), ids, np.concatenate(offsets))
