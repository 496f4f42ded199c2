"""Vectors of texts: protocols of encoders and scorers, and vectors that are computed and stored block by block.

Blocks are deterministic: the texts by length, the longest first, `BLOCK` at a time. Each is written under a temporary
name, sealed and renamed, so an existing part is complete. Processes, also of machines that share the folder, cooperate
through these files, and an interrupted one continues. All parts become a sealed `.npy` file, which is mapped into
memory after a check of its content.
"""

import json
import logging
import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.cache import is_intact, load_arrays, save_arrays, sealing
from mrc_workbench.data.workspace import read_json, read_number, replacing, write_text
from mrc_workbench.models.windows import Pair, WindowOptions, Windows

_COST_PER_TEXT = 12.0  # characters, for special tokens and the prompt
_QUADRATIC_LENGTH = 1200.0  # characters at which attention, with quadratic cost, costs as much as the rest
_MAX_CHARACTERS = 2000  # models read only the beginning of longer texts
logger = logging.getLogger(__name__)
Block = tuple[np.ndarray, float]  # vectors, and the seconds they took
_in_memory = partial(np.zeros, dtype=np.float32)
BLOCK = 256  # texts: a minute of a large model on a small machine


@dataclass(frozen=True)
class TokenVectors:
    """Token vectors `(n_tokens, dimensions)` float16 of length 1; text i has rows `starts[i]` to `starts[i + 1]`."""

    vectors: np.ndarray
    starts: np.ndarray

    @classmethod
    def from_texts(cls, texts: Sequence[np.ndarray]) -> "TokenVectors":
        starts = np.concatenate([[0], np.cumsum([len(vectors) for vectors in texts])]).astype(np.int64)
        return cls(np.concatenate(texts), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def between(self, first: int, last: int) -> "TokenVectors":
        starts = self.starts[first : min(last, len(self)) + 1]
        return TokenVectors(self.vectors[starts[0] : starts[-1]], starts - starts[0])

    def select(self, rows: np.ndarray) -> "TokenVectors":
        if not len(rows):
            return TokenVectors(self.vectors[:0], np.zeros(1, dtype=np.int64))
        return TokenVectors.from_texts([self.vectors[self.starts[row] : self.starts[row + 1]] for row in rows])


TokenBlocks = Iterator[tuple[np.ndarray, TokenVectors]]  # rows of texts, and the vectors of their tokens


class Fingerprinted(Protocol):
    """A computation on texts; the fingerprint changes with its results."""

    @property
    def fingerprint(self) -> str: ...


class Encoder(Fingerprinted, Protocol):
    """Encodes texts as vectors of length 1, `(n_texts, dimensions)` float32; zeros for texts without known tokens."""

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray: ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray: ...


class TermEncoder(Fingerprinted, Protocol):
    """Encodes texts as sparse weights of terms, `(n_texts, n_terms)` float32."""

    def encode_questions(self, texts: Sequence[str]) -> csr_array: ...

    def encode_passages(self, texts: Sequence[str]) -> csr_array: ...


class TokenVectorEncoder(Fingerprinted, Protocol):
    """Encodes texts as vectors of their tokens, passages first."""

    def encode_questions(self, texts: Sequence[str]) -> TokenVectors: ...

    def encode_passages(self, texts: Sequence[str], title_lengths: np.ndarray) -> TokenVectors: ...

    def passage_blocks(self, texts: Sequence[str], title_lengths: np.ndarray) -> TokenBlocks:
        """Yield blocks of rows that sample the whole corpus, and their vectors as of `encode_passages`."""

    def key_of_passages(self, texts: Sequence[str], title_lengths: np.ndarray) -> str: ...


@runtime_checkable
class WindowEncoder(Encoder, Protocol):
    """Encodes long passages as windows; `title_lengths` is `(n_texts,)`."""

    def windows_of(self, texts: Sequence[str], title_lengths: np.ndarray, options: WindowOptions) -> Windows:
        """Return the windows of passages that are too long, if any."""

    def encode_windows(self, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of passages and windows, and the passage of each, `(n_vectors,)` int64."""


@runtime_checkable
class WindowScorer(Protocol):
    """Scores pairs, `(n_pairs,)` float32, long passages by their best window."""

    def score_windows(
        self, pairs: Sequence[Pair], title_lengths: Sequence[int], options: WindowOptions
    ) -> np.ndarray: ...


@runtime_checkable
class LimitedEncoder(Protocol):
    """Reads only the beginning of long passages."""

    def count_truncated(self, texts: Sequence[str]) -> int: ...


@runtime_checkable
class LimitedScorer(Protocol):
    """Truncates passages beside a question; `candidates` are rows of `texts`, -1 if missing."""

    def count_truncated(self, questions: Sequence[str], texts: Sequence[str], candidates: np.ndarray) -> int: ...


@runtime_checkable
class PreloadingScorer(Protocol):
    """Scores pairs faster if it knows the questions in advance."""

    def preload_questions(self, questions: Sequence[str]) -> None: ...


class PairScorer(Fingerprinted, Protocol):
    """Scores question-passage pairs together, `(n_pairs,)` float32; higher is more relevant."""

    def load(self) -> None:
        """Load the model once; this counts as building an index."""

    def score(self, pairs: Sequence[Pair]) -> np.ndarray: ...


def reading_costs(lengths: np.ndarray) -> np.ndarray:
    """Return the relative cost of texts with so many characters, `(n_texts,)` float64.

    cost(n) = 12 + n + n^2 / 1200, which is accurate within 10 % for texts of 15 to 800 Korean characters, a transformer
    of 12 layers of 384 dimensions, and bfloat16 on a CPU.
    """
    read = np.minimum(np.asarray(lengths, dtype=np.float64), _MAX_CHARACTERS)
    return _COST_PER_TEXT + read + read**2 / _QUADRATIC_LENGTH


@dataclass(frozen=True)
class StoredVectors:
    """Vectors `(n_texts, dimensions)` float32 in the order of the texts, and the seconds of computing them."""

    vectors: np.ndarray
    load_seconds: float
    seconds: float  # of all processes together
    elsewhere: bool = False  # they ship with the sample: seconds are of another machine


@dataclass(frozen=True)
class ProcessRank:
    """A process of several: each encodes every `world_size`-th block, and `rank` 0 assembles them."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def from_environment(cls) -> "ProcessRank":
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


SINGLE_PROCESS = ProcessRank()


class VectorBlocks:
    """Encodes texts by `encode(texts)`, `(n_texts, dimensions)` float32, after `load()`, the longest texts first."""

    def __init__(
        self,
        texts: Sequence[str],
        encode: Callable[[list[str]], np.ndarray],
        load: Callable[[], None],
        on_progress: Callable[[float], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        lengths = np.array([max(1, len(text)) for text in texts], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        self._rows = np.split(order, range(BLOCK, len(order), BLOCK))
        costs = reading_costs(lengths)
        self._fractions = np.array([costs[rows].sum() for rows in self._rows]) / max(1.0, costs.sum())
        self._texts = texts
        self._encode = encode
        self._load = load
        self._on_progress = on_progress
        self._clock = clock
        self._load_seconds = 0.0
        self._done = self._block_fraction = 0.0  # fractions of the work: before the current block, and in it
        self._unwritten: dict[int, Block] = {}  # after disk errors

    def report_block_progress(self, fraction: float) -> None:
        self._on_progress(min(1.0, self._done + self._block_fraction * fraction))

    def computed(self) -> StoredVectors:
        vectors, seconds = self._fill(self._block)
        self._on_progress(1.0)
        return StoredVectors(vectors, self._load_seconds, seconds)

    def load_or_compute(self, path: Path, process: ProcessRank = SINGLE_PROCESS) -> StoredVectors:
        """Return the vectors at `path`, computing missing blocks; only the first process returns vectors."""
        if stored := read_vectors(path):
            return stored
        parts = path.with_suffix(".parts")
        for number in self._blocks_for(process):
            # the first process removes the parts after assembling them
            if not (is_intact(_part(parts, number)) or path.is_file()):
                vectors, seconds = self._block(number)
                try:
                    save_arrays(_part(parts, number), {"vectors": vectors, "seconds": np.array(seconds)})
                except OSError as error:
                    logger.warning("part %s of %s cannot be written: %s", number, parts, error)
                    self._unwritten[number] = vectors, seconds
            self._done = round(self._done + float(self._fractions[number]), 9)
            self._on_progress(min(1.0, self._done))
        if process.rank > 0:
            if path.is_file():  # the first process did not wait for this part
                shutil.rmtree(parts, ignore_errors=True)
            return StoredVectors(np.zeros((0, 0), dtype=np.float32), self._load_seconds, 0.0)
        return self._assemble(path, parts)

    def _read(self, parts: Path, number: int) -> Block:
        if number in self._unwritten:
            return self._unwritten[number]
        path = _part(parts, number)
        if part := load_arrays(path):
            return part["vectors"], float(part["seconds"])
        if not path.is_file():  # another process removed it
            raise FileNotFoundError(path)
        return self._block(number)

    def _blocks_for(self, process: ProcessRank) -> list[int]:
        """Return the blocks of a process; the first also takes unfinished ones of others, from the end."""
        numbers = range(len(self._rows))
        own_blocks = [number for number in numbers if number % process.world_size == process.rank]
        others = [] if process.rank else [number for number in reversed(numbers) if number % process.world_size]
        return own_blocks + others

    def _block(self, number: int) -> Block:
        began = self._clock()
        self._load()
        loaded = self._clock()
        self._load_seconds = max(self._load_seconds, loaded - began)
        self._block_fraction = self._fractions[number]
        vectors = self._encode([self._texts[row] for row in self._rows[number]])
        return vectors, self._clock() - loaded

    def _assemble(self, path: Path, parts: Path) -> StoredVectors:
        try:
            with sealing(path) as new:
                mapped = partial(np.lib.format.open_memmap, new, "w+", np.float32)
                seconds = self._fill(partial(self._read, parts), mapped)[1]
                write_text(_seconds_of(path), json.dumps({"load": self._load_seconds, "work": seconds}))
        except OSError as error:
            if (stored := read_vectors(path)) is not None:  # another process assembled the parts
                return stored
            logger.warning("vectors %s cannot be written: %s", path, error)
            vectors, seconds = self._fill(partial(self._read, parts))
            return StoredVectors(vectors, self._load_seconds, seconds)
        shutil.rmtree(parts, ignore_errors=True)
        return read_vectors(path) or self.computed()

    def _fill(
        self, block_of: Callable[[int], Block], make: Callable[[tuple[int, int]], np.ndarray] = _in_memory
    ) -> tuple[np.ndarray, float]:
        all_vectors = np.zeros((0, 0), dtype=np.float32)
        total = 0.0
        for number, rows in enumerate(self._rows):
            vectors, seconds = block_of(number)
            if not number:
                all_vectors = make((len(self._texts), vectors.shape[-1]))
            all_vectors[rows] = vectors
            total += seconds
        return all_vectors, total


def read_vectors(path: Path) -> StoredVectors | None:
    """Map the vectors at `path` into memory; None if they are missing or damaged."""
    if not path.is_file():
        return None
    try:
        if not is_intact(path):
            raise ValueError("the content changed")
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        logger.warning("vectors %s cannot be used (%s); computing them anew", path, error)
        with suppress(OSError):
            path.unlink()
        return None
    seconds = read_json(_seconds_of(path))
    return StoredVectors(vectors, read_number(seconds, "load"), read_number(seconds, "work"))


def copy_vectors(path: Path, other: Path) -> None:
    """Link or copy the vectors to another path."""
    if not other.is_file():
        for old, new in ((_seconds_of(path), _seconds_of(other)), (path, other)):
            with replacing(new) as target:
                try:
                    os.link(old, target)
                except OSError:
                    shutil.copyfile(old, target)


def _seconds_of(path: Path) -> Path:
    return path.with_suffix(".json")


def _part(parts: Path, number: int) -> Path:
    return parts / f"{number:08}.npz"


class RecentVectors:
    """The vectors of the last `max_texts` texts, of one model and prompt; not thread-safe."""

    def __init__(self, max_texts: int = 4096) -> None:
        self._max_texts = max_texts
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def lookup(self, texts: Sequence[str], encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        encoded = dict(zip(new, encode(new), strict=True)) if new else {}
        vectors = [encoded[text] if text in encoded else self._vectors[text] for text in texts]
        for text, vector in zip(texts, vectors, strict=True):
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
        while len(self._vectors) > self._max_texts:
            self._vectors.popitem(last=False)
        return np.stack(vectors)
