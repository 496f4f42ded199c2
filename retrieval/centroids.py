"""Late interaction among many passages: candidates by the centroids of their tokens (PLAID: Santhanam et al. 2022).

Every token of a passage is assigned to one of some thousands of centroids. The sum of a question's best cosines among a
passage's centroids selects the passages that are compared token by token. Unlike PLAID, which looks into the lists of a
few centroids first, every passage is scored: 300 tokens have about a hundred different centroids, which take a fraction
of a microsecond.

Tokens are stored in half precision, 2d bytes each, or as their centroid and the residual of each dimension in one or
two bits (ColBERTv2: Santhanam et al. 2022), 2 + d / 8 or 2 + d / 4 bytes. The centroids are a tree of two levels: a
token is compared with the heads, then with the centroids below the nearest head.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mrc_workbench.data.cache import kept_folder, key_of
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.lexical import Array, Write, compiled, in_files, in_memory
from mrc_workbench.retrieval.rankings import Rankings, ranked

CANDIDATES = 512  # passages that are compared token by token, or twice as many as are asked for
BITS = (0, 1, 2)  # a dimension; 0: half precision
Block = tuple[np.ndarray, TokenVectors]  # rows of passages, and the vectors of their tokens

_VERSION = 1  # raise when the arrays of the same vectors would be others
_KEPT = 4  # indexes: those of 100,000 passages in half precision take 9 GB
_ABOUT = "about.json"
_MOST_CENTROIDS = 1 << 14  # what a question makes of them stays in the processor's cache
_TOKENS_A_CENTROID = 32  # that it is placed by
_ROUNDS = 8  # of k-means
_LANES = 32  # a question's tokens are filled up to so many: the processor takes them at once
_SCALE = 32767  # of a cosine as a number of 16 bits
_PASSAGES = 32  # compared at a time, token by token


class _Arrays(NamedTuple):
    """What is kept: passages stand in the order in which they came, `rows` are those of the corpus."""

    centroids: Array  # (n_centroids, dimensions) float32 of length 1
    levels: Array  # (2 ** bits,) float32: what is left of a dimension, by its bits
    rows: Array  # (n_passages,) int32
    starts: Array  # (n_passages + 1,) int64: the first token of each
    held: Array  # (n_held,) uint16: the centroids of each passage, ascending, each once
    held_starts: Array  # (n_passages + 1,) int64
    vectors: Array  # (n_tokens, dimensions) uint16, float16 as it lies in memory; nothing where there are bits
    codes: Array  # (n_tokens,) uint16: the centroid of each token; nothing in half precision
    residuals: Array  # (n_tokens, bytes) uint8: the bits of its dimensions; nothing in half precision


_DTYPES = dict(zip(_Arrays._fields, ("<f4", "<f4", "<i4", "<i8", "<u2", "<i8", "<u2", "<u2", "u1"), strict=True))


class TokenIndex:
    """The tokens of passages, and which passages might be the best for a question."""

    def __init__(self, arrays: dict[str, Array], dimensions: int, bits: int) -> None:
        wide = {"centroids": dimensions, "vectors": dimensions, "residuals": _packed_size(dimensions, bits) or 1}
        shaped = {name: array.reshape(-1, wide[name]) if name in wide else array for name, array in arrays.items()}
        self._arrays, self._bits, self._cores = _Arrays(**shaped), bits, os.cpu_count() or 1
        for array in self._arrays:
            array.flags.writeable = False  # those of a file are: a function is compiled for one kind
        self._place = np.argsort(self._arrays.rows, kind="stable")  # of each row of the corpus

    @classmethod
    def of(cls, blocks: Iterable[Block], n_passages: int, bits: int = 0) -> "TokenIndex":
        tree, blocks = _placed(iter(blocks), n_passages, bits)
        arrays = in_memory(_DTYPES, lambda write: _put_together(tree, blocks, bits, write))
        return cls(arrays, tree.centroids.shape[1], bits)

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def __len__(self) -> int:
        return len(self._place)

    def search(self, question: np.ndarray, k: int) -> Rankings:
        rows = self.candidates(question, max(CANDIDATES, 2 * k))
        return ranked(rows[None], self.scores(question, rows)[None], k)

    def candidates(self, question: np.ndarray, count: int) -> np.ndarray:
        """Ascending rows of at most so many passages whose centroids are best for a question's tokens."""
        kept, scores = self._arrays, np.full(len(self), -np.inf, dtype=np.float32)
        # weighted vectors of a question are longer than 1, and products with them would not fit into 16 bits
        longest = max(1.0, float(np.linalg.norm(question.astype(np.float32), axis=1).max(initial=0.0)))
        table = np.rint(kept.centroids @ (_filled(question) / longest).T * _SCALE).astype(np.int16)

        def some(part: tuple[int, int]) -> None:
            best_sums(table, kept.held, kept.held_starts[part[0] : part[1] + 1], scores[part[0] : part[1]])

        if len(question):
            with ThreadPoolExecutor(self._cores) as pool:
                list(pool.map(some, pairwise(np.linspace(0, len(self), self._cores + 1).astype(int).tolist())))
        places = np.argpartition(-scores, count)[:count] if count < len(scores) else np.arange(len(scores))
        return np.sort(kept.rows[places[np.isfinite(scores[places])]])

    def scores(self, question: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Score passages for the tokens of a question as `late.max_sim` does, `(len(rows),)` float32."""
        places, scores = self._place[rows], np.full(len(rows), -np.inf, dtype=np.float32)
        asked = np.ascontiguousarray(_filled(question).T)

        # one part after the other: the product takes all cores itself, and two at once wait for each other
        for first in range(0, len(rows) if len(question) else 0, _PASSAGES):
            vectors, starts = self._vectors_of(places[first : first + _PASSAGES])
            similar = vectors @ asked
            best_sums(similar, np.arange(len(similar), dtype=np.uint64), starts, scores[first : first + _PASSAGES])
        scores /= np.float32(max(1, len(question)))
        return scores

    def _vectors_of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of passages' tokens, `(n, dimensions)` float32, and where each passage begins."""
        kept = self._arrays
        starts = np.concatenate([[0], np.cumsum(kept.starts[places + 1] - kept.starts[places])])
        vectors = np.empty((starts[-1], kept.centroids.shape[1]), dtype=np.float32)
        if not self._bits:
            _widen(kept.vectors, kept.starts[places], starts, vectors)
            return vectors, starts
        _unpack(kept, kept.starts[places], starts, vectors)
        vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return vectors, starts


def mapped_index(key: str, blocks: Callable[[], Iterable[Block]], n_passages: int, bits: int = 0) -> TokenIndex:
    """Return the index stored under a key of all it is made from, built if missing; in memory on a read-only disk."""

    def write(folder: Path) -> None:
        tree, all_blocks = _placed(iter(blocks()), n_passages, bits)
        in_files(folder, _DTYPES, lambda write_part: _put_together(tree, all_blocks, bits, write_part))
        (folder / _ABOUT).write_text(json.dumps({"dimensions": tree.centroids.shape[1]}), encoding="utf-8")

    with kept_folder("token-index", key_of(_VERSION, key, n_passages, bits), write, _KEPT) as folder:
        if folder is None:
            return TokenIndex.of(blocks(), n_passages, bits)
        arrays = {name: np.zeros(0, dtype) for name, dtype in _DTYPES.items()}
        for name in arrays:
            if (folder / name).stat().st_size:  # nothing cannot be mapped
                arrays[name] = np.asarray(np.memmap(folder / name, _DTYPES[name], mode="r"))
        return TokenIndex(arrays, read_json(folder / _ABOUT)["dimensions"], bits)


def _put_together(tree: "_Tree", blocks: Iterable[Block], bits: int, put: Write) -> None:
    put("centroids", tree.centroids)
    put("levels", tree.levels)
    for name in ("starts", "held_starts"):
        put(name, np.zeros(1))
    n_tokens = n_held = 0
    for rows, tokens in blocks:
        vectors = tokens.vectors.astype(np.float32)
        codes = tree.nearest(vectors)
        of = np.repeat(np.arange(len(tokens)), np.diff(tokens.starts))
        passages, held = np.divmod(np.unique(of * len(tree.centroids) + codes), max(1, len(tree.centroids)))
        counts = np.bincount(passages, minlength=len(tokens))
        put("rows", rows)
        put("starts", tokens.starts[1:] + n_tokens)
        put("held", held)
        put("held_starts", np.cumsum(counts) + n_held)
        n_tokens, n_held = n_tokens + len(codes), n_held + len(held)
        if bits:
            put("codes", codes)
            put("residuals", pack(vectors - tree.centroids[codes], tree.cuts, bits))
        else:
            put("vectors", tokens.vectors.astype(np.float16, copy=False).view(np.uint16))


@dataclass(frozen=True)
class _Tree:
    """Heads and the centroids below each, those of head h from `firsts[h]` on, and how residuals are cut into bits."""

    heads: np.ndarray
    centroids: np.ndarray
    firsts: np.ndarray
    cuts: np.ndarray
    levels: np.ndarray

    def nearest(self, vectors: np.ndarray) -> np.ndarray:
        codes = np.zeros(len(vectors), dtype=np.int64)
        head = (vectors @ self.heads.T).argmax(axis=1) if len(vectors) else codes
        order = np.argsort(head, kind="stable")
        ends = np.searchsorted(head[order], np.arange(len(self.heads) + 1))
        for (begin, end), (first, last) in zip(pairwise(ends), pairwise(self.firsts), strict=True):
            some = order[begin:end]
            codes[some] = first + (vectors[some] @ self.centroids[first:last].T).argmax(axis=1) if len(some) else first
        return codes


def _placed(blocks: Iterator[Block], n_passages: int, bits: int) -> tuple[_Tree, Iterable[Block]]:
    """Place the centroids by the first blocks, each of which has passages from all over; returns all blocks, too."""
    first: list[Block] = []
    n_seen = n_tokens = wanted = 0
    for block in blocks:
        first.append(block)
        n_seen, n_tokens = n_seen + len(block[1]), n_tokens + len(block[1].vectors)
        of_all = max(1, n_tokens * n_passages // max(1, n_seen))
        # as PLAID, a power of two about 16 times the square root of the tokens
        wanted = min(_MOST_CENTROIDS, 1 << math.ceil(math.log2(16 * math.sqrt(of_all))))
        if n_tokens >= _TOKENS_A_CENTROID * wanted:
            break
    vectors = np.concatenate([tokens.vectors for _, tokens in first])
    drawn = np.random.default_rng(0).permutation(len(vectors))[: _TOKENS_A_CENTROID * wanted]
    return _tree(vectors[drawn].astype(np.float32), wanted, bits), chain(first, blocks)


def _tree(vectors: np.ndarray, count: int, bits: int) -> _Tree:
    count = min(count, len(vectors))
    heads = _k_means(vectors, min(count, 1 << round(math.log2(max(1, count)) / 2)))
    head = (vectors @ heads.T).argmax(axis=1) if len(vectors) else np.zeros(0, dtype=np.int64)
    shares = np.bincount(head, minlength=len(heads)) / max(1, len(vectors))
    below = [
        _k_means(vectors[head == one], max(1, min(round(count * share), np.count_nonzero(head == one))))
        if share
        else heads[one : one + 1]
        for one, share in enumerate(shares.tolist())
    ]
    centroids = np.concatenate([*below, heads[:0]])
    tree = _Tree(heads, centroids, np.cumsum([0, *map(len, below)]), np.zeros(0), np.zeros(0))
    if not bits or not len(vectors):
        return tree
    left = (vectors - centroids[tree.nearest(vectors)]).ravel()
    cuts = np.quantile(left, np.arange(1, 1 << bits) / (1 << bits)).astype(np.float32)
    of = np.searchsorted(cuts, left)
    levels = np.bincount(of, left, 1 << bits) / np.maximum(1, np.bincount(of, minlength=1 << bits))
    return _Tree(heads, centroids, tree.firsts, cuts, levels.astype(np.float32))


def _k_means(vectors: np.ndarray, count: int) -> np.ndarray:
    """Return so many centroids of length 1; the same vectors give the same."""
    if not count:
        return vectors[:0]
    import faiss

    settings = {"niter": _ROUNDS, "seed": 1, "spherical": True, "min_points_per_centroid": 1}
    means = faiss.Kmeans(vectors.shape[1], count, max_points_per_centroid=len(vectors), **settings)
    means.train(np.ascontiguousarray(vectors))
    return np.asarray(means.centroids)


def _filled(question: np.ndarray) -> np.ndarray:
    """Return a question's vectors and as many of zeros, which add nothing to a sum, as fill it up, in float32."""
    filled = np.zeros((-(-max(1, len(question)) // _LANES) * _LANES, question.shape[1]), dtype=np.float32)
    filled[: len(question)] = question
    return filled


def _packed_size(dimensions: int, bits: int) -> int:
    return -(-dimensions * bits // 8)


def pack(left: np.ndarray, cuts: np.ndarray, bits: int) -> np.ndarray:
    """Cut residuals into so many bits a dimension, `(n, bytes)` uint8; byte b has the dimensions b + i * bytes."""
    size, per = _packed_size(left.shape[1], bits), 8 // bits
    packed = np.zeros((len(left), size), dtype=np.uint8)
    for place in range(per):
        here = left[:, place * size : (place + 1) * size]
        for cut in cuts:
            packed[:, : here.shape[1]] += (here > cut).astype(np.uint8) << np.uint8(place * bits)
    return packed


@compiled
def best_sums(table: Array, held: Array, starts: Array, sums: Array) -> None:
    """Add up, for each passage i, the best of each column among the rows `held[starts[i]:starts[i + 1]]`."""
    width = table.shape[1]
    best = np.empty(width, dtype=table.dtype)
    for passage in range(len(sums)):
        if starts[passage] == starts[passage + 1]:
            continue
        best[:] = table[held[starts[passage]]]
        for place in range(starts[passage] + 1, starts[passage + 1]):
            row = table[held[place]]
            for column in range(width):
                one, other = row[column], best[column]
                best[column] = one if one > other else other
        total = np.float32(0)
        for column in range(width):
            total += best[column]
        sums[passage] = total


@compiled
def _widen(vectors: Array, begins: Array, starts: Array, wide: Array) -> None:
    """Write float16 vectors as float32: their bits, shifted, are 2 ** 112 times too small a number."""
    for passage in range(len(begins)):
        for place in range(starts[passage + 1] - starts[passage]):
            half, out = vectors[begins[passage] + place], wide[starts[passage] + place]
            for column in range(len(out)):
                bits = np.uint32(half[column])
                size = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13))
                sign = np.uint32((bits & np.uint32(0x8000)) << np.uint32(16))
                out[column] = np.uint32(size | sign).view(np.float32) * np.float32(2.0**112)


@compiled
def _unpack(kept: _Arrays, begins: Array, starts: Array, wide: Array) -> None:
    mask = np.uint8(len(kept.levels) - 1)
    per = 8 if len(kept.levels) == 2 else 4
    size = kept.residuals.shape[1]
    for passage in range(len(begins)):
        for place in range(starts[passage + 1] - starts[passage]):
            token, out = begins[passage] + place, wide[starts[passage] + place]
            centroid, packed = kept.centroids[kept.codes[token]], kept.residuals[token]
            for part in range(per):
                shift, first = np.uint8(part * (8 // per)), part * size
                for column in range(min(size, len(out) - first)):
                    level = kept.levels[(packed[column] >> shift) & mask]
                    out[first + column] = centroid[first + column] + level
