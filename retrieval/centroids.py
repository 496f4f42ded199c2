"""Late interaction with many passages: candidates by the centroids of their tokens (PLAID: Santhanam et al. 2022).

Every token of a passage is assigned to one of some thousands of centroids. The sum of a question's best cosines with a
passage's centroids selects the passages that are compared token by token. Unlike PLAID, which first searches the lists
of a few centroids, this scores every passage: 300 tokens have about 100 centroids, which take less than a microsecond.

Tokens are stored in half precision, 2d bytes each, or as their centroid and the residual of each dimension in one or
two bits (ColBERTv2: Santhanam et al. 2022), 2 + d / 8 or 2 + d / 4 bytes. The centroids form a tree of two levels: a
token is compared with the coarse centroids, then with the centroids below the nearest one.
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

from mrc_workbench.data.cache import cached_folder, key_of
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.lexical import Array, Write, collect_arrays, compiled, write_arrays
from mrc_workbench.retrieval.rankings import Rankings, rank_candidates

CANDIDATES = 512  # passages that are compared token by token, at least 2 k
Block = tuple[np.ndarray, TokenVectors]  # rows of passages, and the vectors of their tokens

_VERSION = 2  # raise when the arrays of the same vectors change
_MAX_STORED_INDEXES = 4  # indexes: those of 100,000 passages in half precision take 9 GB
_METADATA_FILE = "about.json"
_MAX_CENTROIDS = 1 << 14  # a question's similarities with them fit into the processor's cache
_TOKENS_PER_CENTROID = 32  # training sample
_ITERATIONS = 8  # of k-means
_LANES = 32  # a question is padded to a multiple of so many tokens, for vector instructions
_SCALE = 32767  # of a cosine as a number of 16 bits
_PASSAGES = 32  # compared at a time, token by token


class _Arrays(NamedTuple):
    """The stored arrays; passages are in the order of encoding, `rows` are their corpus rows."""

    centroids: Array  # (n_centroids, dimensions) float32 of length 1
    levels: Array  # (2 ** bits,) float32: the residual of a dimension by its bits
    rows: Array  # (n_passages,) int32
    starts: Array  # (n_passages + 1,) int64: the first token of each
    passage_centroids: Array  # (n_passage_centroids,) uint16: the centroids of each passage, ascending, each once
    passage_centroid_starts: Array  # (n_passages + 1,) int64
    vectors: Array  # (n_tokens, dimensions) uint16, the bits of float16; empty with residuals
    codes: Array  # (n_tokens,) uint16: the centroid of each token; empty in half precision
    residuals: Array  # (n_tokens, bytes) uint8: the bits of its dimensions; empty in half precision


_DTYPES = dict(zip(_Arrays._fields, ("<f4", "<f4", "<i4", "<i8", "<u2", "<i8", "<u2", "<u2", "u1"), strict=True))


class TokenIndex:
    """The tokens of passages, and a search of candidates by centroids."""

    def __init__(self, arrays: dict[str, Array], dimensions: int, bits: int) -> None:
        widths = {"centroids": dimensions, "vectors": dimensions, "residuals": _packed_size(dimensions, bits) or 1}
        self._arrays = _Arrays(**arrays | {name: arrays[name].reshape(-1, width) for name, width in widths.items()})
        self._bits = bits
        self._cores = os.cpu_count() or 1
        for array in self._arrays:
            array.flags.writeable = False  # as mapped arrays: functions are compiled for a single kind
        self._positions = np.argsort(self._arrays.rows, kind="stable")  # of each row of the corpus

    @classmethod
    def from_blocks(cls, blocks: Iterable[Block], n_passages: int, bits: int = 0) -> "TokenIndex":
        tree, blocks = _fit_centroids(iter(blocks), n_passages, bits)
        arrays = collect_arrays(_DTYPES, lambda write: _write_index(tree, blocks, bits, write))
        return cls(arrays, tree.centroids.shape[1], bits)

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def __len__(self) -> int:
        return len(self._positions)

    def search(self, question: np.ndarray, k: int) -> Rankings:
        rows = self.candidates(question, max(CANDIDATES, 2 * k))
        return rank_candidates(rows[None], self.scores(question, rows)[None], k)

    def candidates(self, question: np.ndarray, count: int) -> np.ndarray:
        """Return ascending rows of the `count` passages with the best centroids for a question's tokens."""
        arrays = self._arrays
        scores = np.full(len(self), -np.inf, dtype=np.float32)
        # weighted vectors of a question may be longer than 1: scale them, so that products fit into 16 bits
        longest = max(1.0, float(np.linalg.norm(question.astype(np.float32), axis=1).max(initial=0.0)))
        table = np.rint(arrays.centroids @ (_pad_query(question) / longest).T * _SCALE).astype(np.int16)

        def sum_part(part: tuple[int, int]) -> None:
            sum_maxima(
                table,
                arrays.passage_centroids,
                arrays.passage_centroid_starts[part[0] : part[1] + 1],
                scores[part[0] : part[1]],
            )

        if len(question):
            with ThreadPoolExecutor(self._cores) as pool:
                list(pool.map(sum_part, pairwise(np.linspace(0, len(self), self._cores + 1).astype(int).tolist())))
        positions = np.argpartition(-scores, count)[:count] if count < len(scores) else np.arange(len(scores))
        return np.sort(arrays.rows[positions[np.isfinite(scores[positions])]])

    def scores(self, question: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Score passages for the tokens of a question as `dense.max_sim` does, `(len(rows),)` float32."""
        positions = self._positions[rows]
        scores = np.full(len(rows), -np.inf, dtype=np.float32)
        query_vectors = np.ascontiguousarray(_pad_query(question).T)
        # sequentially, as the matrix product uses all cores
        for first in range(0, len(rows) if len(question) else 0, _PASSAGES):
            vectors, starts = self._vectors_of(positions[first : first + _PASSAGES])
            similarities = vectors @ query_vectors
            all_rows = np.arange(len(similarities), dtype=np.uint64)
            sum_maxima(similarities, all_rows, starts, scores[first : first + _PASSAGES])
        scores /= np.float32(max(1, len(question)))
        return scores

    def _vectors_of(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of passages' tokens, `(n, dimensions)` float32, and where each passage begins."""
        arrays = self._arrays
        starts = np.concatenate([[0], np.cumsum(arrays.starts[positions + 1] - arrays.starts[positions])])
        vectors = np.empty((starts[-1], arrays.centroids.shape[1]), dtype=np.float32)
        if not self._bits:
            _float16_to_float32(arrays.vectors, arrays.starts[positions], starts, vectors)
            return vectors, starts
        _unpack(arrays, arrays.starts[positions], starts, vectors)
        vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return vectors, starts


def mapped_index(key: str, blocks: Callable[[], Iterable[Block]], n_passages: int, bits: int = 0) -> TokenIndex:
    """Return the index stored under the key of its content, built if missing; in memory on a read-only disk."""

    def write(folder: Path) -> None:
        tree, all_blocks = _fit_centroids(iter(blocks()), n_passages, bits)
        write_arrays(folder, _DTYPES, lambda write_part: _write_index(tree, all_blocks, bits, write_part))
        (folder / _METADATA_FILE).write_text(json.dumps({"dimensions": tree.centroids.shape[1]}), encoding="utf-8")

    with cached_folder("token-index", key_of(_VERSION, key, n_passages, bits), write, _MAX_STORED_INDEXES) as folder:
        if folder is None:
            return TokenIndex.from_blocks(blocks(), n_passages, bits)
        arrays = {name: np.zeros(0, dtype) for name, dtype in _DTYPES.items()}
        for name in arrays:
            if (folder / name).stat().st_size:  # an empty file cannot be mapped
                arrays[name] = np.asarray(np.memmap(folder / name, _DTYPES[name], mode="r"))
        return TokenIndex(arrays, read_json(folder / _METADATA_FILE)["dimensions"], bits)


def _write_index(tree: "_Tree", blocks: Iterable[Block], bits: int, write: Write) -> None:
    write("centroids", tree.centroids)
    write("levels", tree.levels)
    for name in ("starts", "passage_centroid_starts"):
        write(name, np.zeros(1))
    n_tokens = n_passage_centroids = 0
    for rows, tokens in blocks:
        vectors = tokens.vectors.astype(np.float32)
        codes = tree.nearest(vectors)
        passage_of_token = np.repeat(np.arange(len(tokens)), np.diff(tokens.starts))
        pairs = np.unique(passage_of_token * len(tree.centroids) + codes)
        passages, passage_centroids = np.divmod(pairs, max(1, len(tree.centroids)))
        counts = np.bincount(passages, minlength=len(tokens))
        write("rows", rows)
        write("starts", tokens.starts[1:] + n_tokens)
        write("passage_centroids", passage_centroids)
        write("passage_centroid_starts", np.cumsum(counts) + n_passage_centroids)
        n_tokens += len(codes)
        n_passage_centroids += len(passage_centroids)
        if bits:
            write("codes", codes)
            write("residuals", pack(vectors - tree.centroids[codes], tree.cuts, bits))
        else:
            write("vectors", tokens.vectors.astype(np.float16, copy=False).view(np.uint16))


@dataclass(frozen=True)
class _Tree:
    """Coarse centroids, the centroids below each from `offsets[h]` on, and the quantization of residuals."""

    coarse: np.ndarray
    centroids: np.ndarray
    offsets: np.ndarray
    cuts: np.ndarray
    levels: np.ndarray

    def nearest(self, vectors: np.ndarray) -> np.ndarray:
        codes = np.zeros(len(vectors), dtype=np.int64)
        nearest_coarse = (vectors @ self.coarse.T).argmax(axis=1) if len(vectors) else codes
        order = np.argsort(nearest_coarse, kind="stable")
        ends = np.searchsorted(nearest_coarse[order], np.arange(len(self.coarse) + 1))
        for (begin, end), (first, last) in zip(pairwise(ends), pairwise(self.offsets), strict=True):
            if begin < end:
                members = order[begin:end]
                codes[members] = first + (vectors[members] @ self.centroids[first:last].T).argmax(axis=1)
        return codes


def _fit_centroids(blocks: Iterator[Block], n_passages: int, bits: int) -> tuple[_Tree, Iterable[Block]]:
    """Fit the centroids to the first blocks, each of which samples the whole corpus; return all blocks, too."""
    first_blocks: list[Block] = []
    n_passages_seen = n_tokens = n_centroids = 0
    for block in blocks:
        first_blocks.append(block)
        n_passages_seen += len(block[1])
        n_tokens += len(block[1].vectors)
        total_tokens = max(1, n_tokens * n_passages // max(1, n_passages_seen))
        # like PLAID: a power of two near 16 times the square root of the number of tokens
        n_centroids = min(_MAX_CENTROIDS, 1 << math.ceil(math.log2(16 * math.sqrt(total_tokens))))
        if n_tokens >= _TOKENS_PER_CENTROID * n_centroids:
            break
    vectors = np.concatenate([tokens.vectors for _, tokens in first_blocks])
    sample = np.random.default_rng(0).permutation(len(vectors))[: _TOKENS_PER_CENTROID * n_centroids]
    return _build_tree(vectors[sample].astype(np.float32), n_centroids, bits), chain(first_blocks, blocks)


def _build_tree(vectors: np.ndarray, count: int, bits: int) -> _Tree:
    count = min(count, len(vectors))
    coarse = _k_means(vectors, min(count, 1 << round(math.log2(max(1, count)) / 2)))
    nearest_coarse = (vectors @ coarse.T).argmax(axis=1) if len(vectors) else np.zeros(0, dtype=np.int64)
    fractions = np.bincount(nearest_coarse, minlength=len(coarse)) / max(1, len(vectors))
    leaves = []
    for cluster, fraction in enumerate(fractions.tolist()):
        members = vectors[nearest_coarse == cluster]
        n_centroids = max(1, min(round(count * fraction), len(members)))
        leaves.append(_k_means(members, n_centroids) if fraction else coarse[cluster : cluster + 1])
    centroids = np.concatenate([*leaves, coarse[:0]])
    tree = _Tree(coarse, centroids, np.cumsum([0, *map(len, leaves)]), np.zeros(0), np.zeros(0))
    if not bits or not len(vectors):
        return tree
    residuals = (vectors - centroids[tree.nearest(vectors)]).ravel()
    cuts = np.quantile(residuals, np.arange(1, 1 << bits) / (1 << bits)).astype(np.float32)
    bins = np.searchsorted(cuts, residuals)
    levels = np.bincount(bins, residuals, 1 << bits) / np.maximum(1, np.bincount(bins, minlength=1 << bits))
    return _Tree(coarse, centroids, tree.offsets, cuts, levels.astype(np.float32))


def _k_means(vectors: np.ndarray, count: int) -> np.ndarray:
    if not count:
        return vectors[:0]
    import faiss

    settings = {"niter": _ITERATIONS, "seed": 1, "spherical": True, "min_points_per_centroid": 1}
    means = faiss.Kmeans(vectors.shape[1], count, max_points_per_centroid=len(vectors), **settings)
    means.train(np.ascontiguousarray(vectors))
    return np.asarray(means.centroids)


def _pad_query(question: np.ndarray) -> np.ndarray:
    padded = np.zeros((-(-max(1, len(question)) // _LANES) * _LANES, question.shape[1]), dtype=np.float32)
    padded[: len(question)] = question
    return padded


def _packed_size(dimensions: int, bits: int) -> int:
    return -(-dimensions * bits // 8)


def pack(residuals: np.ndarray, cuts: np.ndarray, bits: int) -> np.ndarray:
    """Quantize residuals to `bits` per dimension, `(n, bytes)` uint8; byte b has the dimensions b + i * bytes."""
    size = _packed_size(residuals.shape[1], bits)
    per_byte = 8 // bits
    packed = np.zeros((len(residuals), size), dtype=np.uint8)
    for part in range(per_byte):
        columns = residuals[:, part * size : (part + 1) * size]
        for cut in cuts:
            packed[:, : columns.shape[1]] += (columns > cut).astype(np.uint8) << np.uint8(part * bits)
    return packed


@compiled
def sum_maxima(table: Array, rows: Array, starts: Array, sums: Array) -> None:
    """Add up, for each passage i, the maxima of the columns among `table[rows[starts[i]:starts[i + 1]]]`."""
    width = table.shape[1]
    best = np.empty(width, dtype=table.dtype)
    for passage in range(len(sums)):
        if starts[passage] == starts[passage + 1]:
            continue
        best[:] = table[rows[starts[passage]]]
        for position in range(starts[passage] + 1, starts[passage + 1]):
            row = table[rows[position]]
            for column in range(width):
                value = row[column]
                maximum = best[column]
                best[column] = value if value > maximum else maximum
        total = np.float32(0)
        for column in range(width):
            total += best[column]
        sums[passage] = total


@compiled
def _float16_to_float32(vectors: Array, begins: Array, starts: Array, target: Array) -> None:
    """Write float16 vectors as float32: their shifted bits are a number that is 2 ** 112 times too small."""
    for passage in range(len(begins)):
        for offset in range(starts[passage + 1] - starts[passage]):
            source = vectors[begins[passage] + offset]
            out = target[starts[passage] + offset]
            for column in range(len(out)):
                bits = np.uint32(source[column])
                size = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13))
                sign = np.uint32((bits & np.uint32(0x8000)) << np.uint32(16))
                out[column] = np.uint32(size | sign).view(np.float32) * np.float32(2.0**112)


@compiled
def _unpack(arrays: _Arrays, begins: Array, starts: Array, target: Array) -> None:
    mask = np.uint8(len(arrays.levels) - 1)
    per_byte = 8 if len(arrays.levels) == 2 else 4
    size = arrays.residuals.shape[1]
    for passage in range(len(begins)):
        for offset in range(starts[passage + 1] - starts[passage]):
            token = begins[passage] + offset
            out = target[starts[passage] + offset]
            centroid = arrays.centroids[arrays.codes[token]]
            packed = arrays.residuals[token]
            for part in range(per_byte):
                shift = np.uint8(part * (8 // per_byte))
                first = part * size
                for column in range(min(size, len(out) - first)):
                    level = arrays.levels[(packed[column] >> shift) & mask]
                    out[first + column] = centroid[first + column] + level
