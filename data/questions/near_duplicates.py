"""Texts that nearly repeat each other: MinHash over character shingles, for any script.

Signatures are made by one permutation hashing (Li, Owen and Zhang 2012) with densification by rotation (Shrivastava and
Li 2014): one hash a shingle, whatever the length of the signature. Texts that share a band of their signatures are
candidates; their Jaccard similarity is then computed from the shingles themselves.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

SIMILARITY = 0.8  # Jaccard, from which on two texts are near-duplicates: about one word in ten differs
_BINS, _BAND = 64, 4  # of a signature; 16 bands of 4 find 99.9% of the pairs with a similarity of 0.8
_ESTIMATE = SIMILARITY - 0.15  # three standard errors of an estimate from 64 bins
_MOST_COMPARED = 5_000  # candidate pairs that are compared by their shingles; of more the estimate counts
_LONGEST = 20_000  # characters of a text that are looked at
_BLOCK = 100_000  # characters hashed at a time: their arrays fit into a processor's cache
_CHUNK = 200_000  # pairs estimated at a time
_DIGITS = re.compile(r"\d+")
_SPACE = re.compile(r"[\x00- ]+")
_EMPTY = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class NearDuplicates:
    """Near-duplicates among `n` texts: pairs of rows, the earlier first, and the cluster of each text.

    Texts of one cluster are linked by pairs; a text without a near-duplicate is a cluster of its own.
    """

    pairs: np.ndarray = field(repr=False)  # (n_pairs, 2) int64, ascending
    cluster: np.ndarray = field(repr=False)  # (n,) int32

    @property
    def repeated(self) -> int:
        """The number of texts that nearly repeat an earlier text."""
        return len(self.cluster) - int(self.cluster.max(initial=-1) + 1)


def near_duplicates(texts: Sequence[str], *, shingle: int = 5, numbers: float = 0.5) -> NearDuplicates:
    """Find the texts with a Jaccard similarity of `SIMILARITY` or more, over shingles of so many characters.

    White space, case and the composition of letters do not count. Texts that differ in their numbers tell different
    things in the same words: the Jaccard similarity of their numbers must be `numbers` or more. Memory: 128 bytes a
    text, and 16 a candidate pair.
    """
    signatures, has_shingles = _signatures(texts, shingle)
    pairs = _candidates(signatures, np.flatnonzero(has_shingles))
    estimates = _estimates(signatures, pairs)
    pairs, estimates = pairs[estimates >= _ESTIMATE], estimates[estimates >= _ESTIMATE]
    is_similar = estimates >= SIMILARITY
    compared = min(len(pairs), _MOST_COMPARED)
    is_similar[:compared] = [
        _similarity(texts[a], texts[b], shingle) >= SIMILARITY for a, b in pairs[:compared].tolist()
    ]
    pairs = pairs[is_similar]
    numbers_in = {row: set(_DIGITS.findall(texts[row])) for row in np.unique(pairs).tolist()}
    has_numbers = [_jaccard(numbers_in[a], numbers_in[b]) >= numbers for a, b in pairs.tolist()]
    pairs = pairs[np.array(has_numbers, dtype=bool)]
    links = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(len(texts),) * 2)
    return NearDuplicates(pairs, connected_components(links, directed=False)[1])


def _plain(text: str) -> str:
    """Compose letters, turn all spaces into " " and lower the case."""
    return unicodedata.normalize("NFKC", text[:_LONGEST]).lower()


def _similarity(a: str, b: str, shingle: int) -> float:
    """Jaccard similarity of the shingles of two texts."""
    first, second = (_SPACE.sub("", _plain(text)) for text in (a, b))
    return _jaccard(_shingles(first, shingle), _shingles(second, shingle))


def _shingles(text: str, length: int) -> set[str]:
    return {text[start : start + length] for start in range(len(text) - length + 1)}


def _jaccard(first: set[str], second: set[str]) -> float:
    """Jaccard similarity of two sets, 1 if both are empty."""
    return len(first & second) / len(first | second) if first or second else 1.0


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield plain texts, as many at a time as have `_BLOCK` characters."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(_plain(text))
        size += len(block[-1])
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _signatures(texts: Sequence[str], shingle: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the signature of each text, `(n, _BINS)` uint16, and whether it has a shingle at all, `(n,)` bool."""
    signatures = np.zeros((len(texts), _BINS), dtype=np.uint16)
    has_shingles = np.zeros(len(texts), dtype=bool)
    start = 0
    for block in _blocks(texts):
        codes, lengths = _without_space(block)
        hashes, rows = _shingle_hashes(codes, lengths, shingle)
        least = np.full(len(block) * _BINS, _EMPTY, dtype=np.uint64)
        bins = (hashes >> np.uint64(58)).astype(np.int64)
        np.minimum.at(least, rows * _BINS + bins, hashes << np.uint64(6))
        end = start + len(block)
        has_shingles[start:end] = lengths >= shingle
        known = np.flatnonzero(has_shingles[start:end])
        signatures[start + known] = _densified(least.reshape(len(block), _BINS)[known])
        start = end
    return signatures, has_shingles


def _without_space(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the characters of all texts without white space, uint64, and how many each text has, `(n,)` int64."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ends = np.cumsum([len(text) for text in texts])
    is_kept = codes > ord(" ")
    kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    return codes[is_kept].astype(np.uint64), np.diff(kept_before[ends], prepend=0)


def _shingle_hashes(codes: np.ndarray, lengths: np.ndarray, shingle: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of every shingle of the joined texts, uint64, and the row of its text."""
    count = max(0, len(codes) - shingle + 1)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(shingle):  # polynomial, modulo 2**64
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes += codes[offset : offset + count]
    hashes ^= hashes >> np.uint64(30)  # the finalizer of SplitMix64
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(27)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    rows = np.repeat(np.arange(len(lengths)), lengths)[:count]
    ends = np.cumsum(lengths)
    is_whole = np.arange(count) + shingle <= ends[rows]
    return hashes[is_whole], rows[is_whole]


def _densified(least: np.ndarray) -> np.ndarray:
    """Return 16 bits of the least hash of each bin; an empty bin takes those of the next one that is not empty."""
    places = np.arange(2 * _BINS)
    is_known = least != _EMPTY
    following = np.where(np.hstack([is_known, is_known]), places, 2 * _BINS)
    following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1][:, :_BINS]
    taken = np.take_along_axis(least, following % _BINS, axis=1)
    taken += (following - places[:_BINS]).astype(np.uint64)  # a borrowed value differs from that of the lender
    taken *= np.uint64(0xD6E8FEB86659FD93)
    return (taken >> np.uint64(48)).astype(np.uint16)


def _candidates(signatures: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the pairs of rows that share a band, `(n_pairs, 2)` int64.

    Each row is paired with the first and the previous one of its bucket, so many equal texts give few pairs.
    """
    n = len(signatures)
    bands = signatures[rows].view(np.uint64).reshape(len(rows), _BINS // _BAND)
    found = [np.zeros(0, dtype=np.int64)]
    for band in bands.T:
        order = np.argsort(band, kind="stable")
        repeats = np.flatnonzero(band[order][1:] == band[order][:-1]) + 1
        if not len(repeats):
            continue
        is_first = np.ones(len(order), dtype=bool)
        is_first[repeats] = False
        first = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))[repeats]
        for partner in (first, repeats - 1):
            found.append(rows[order[partner]] * n + rows[order[repeats]])
    keys = np.unique(np.concatenate(found))
    return np.stack([keys // max(1, n), keys % max(1, n)], axis=1)


def _estimates(signatures: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return the share of bins that the two texts of each pair have in common, `(n_pairs,)` float64."""
    chunks = (pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK))
    shares = [(signatures[chunk[:, 0]] == signatures[chunk[:, 1]]).mean(axis=1) for chunk in chunks]
    return np.concatenate([np.zeros(0), *shares])
