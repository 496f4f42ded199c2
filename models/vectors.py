"""Vectors of texts: what encoders and scorers offer a search, and how vectors are computed and stored block by block.

The blocks are the same whoever computes them: the texts by length, the longest first, `BLOCK` at a time. Each is
written under a temporary name, sealed and renamed, so a part that is there is whole; several processes, also of several
machines that share the folder, need nothing else to work together, and an interrupted one continues. All parts become
one sealed `.npy` file, which is mapped into memory: processes share its pages. Each reads it once: it must be sound.
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
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.cache import is_intact, load_arrays, save_arrays, sealing
from mrc_workbench.data.workspace import read_json, read_number, replacing, write_text
from mrc_workbench.models.windows import Pair, WindowOptions, Windows

if TYPE_CHECKING:
    pass
if TYPE_CHECKING:
    pass

_COST_PER_TEXT = 12.0  # characters' worth of what each text brings: special tokens, a prompt, a row of its own
_QUADRATIC_LENGTH = (
    1200.0  # characters at which attention, which grows with the square of the length, costs as much as the rest
)
_MAX_CHARACTERS = 2000  # characters: of more, models read the beginning, or windows that are texts of their own
logger = logging.getLogger(__name__)
Block = tuple[np.ndarray, float]  # vectors, and the seconds they took
_in_memory = partial(np.zeros, dtype=np.float32)
BLOCK = 256  # texts, a minute's work for a large model on a small machine: what is lost at most when it ends


@dataclass(frozen=True)
class TokenVectors:
    """Vectors of the tokens of some texts: `vectors` `(n_tokens, dimensions)` float16 of length 1, one text's after the
    other's, and `starts` `(n_texts + 1,)` int64, the first row of each text and the one after the last's.
    """

    vectors: np.ndarray
    starts: np.ndarray

    @classmethod
    def from_texts(cls, texts: Sequence[np.ndarray]) -> "TokenVectors":
        starts = np.concatenate([[0], np.cumsum([len(vectors) for vectors in texts])]).astype(np.int64)
        return cls(np.concatenate(texts), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def between(self, first: int, last: int) -> "TokenVectors":
        """Return the vectors of the texts from `first` to before `last`, or to the end."""
        starts = self.starts[first : min(last, len(self)) + 1]
        return TokenVectors(self.vectors[starts[0] : starts[-1]], starts - starts[0])

    def select(self, rows: np.ndarray) -> "TokenVectors":
        if not len(rows):
            return TokenVectors(self.vectors[:0], np.zeros(1, dtype=np.int64))
        return TokenVectors.from_texts([self.vectors[self.starts[row] : self.starts[row + 1]] for row in rows])


class Fingerprinted(Protocol):
    """Computes something of texts; its fingerprint changes whenever a result would."""

    @property
    def fingerprint(self) -> str: ...


class Encoder(Fingerprinted, Protocol):
    """Turns texts into vectors of length 1, `(n_texts, dimensions)` float32; zeros if nothing is known of a text."""

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray: ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray: ...


class TermEncoder(Fingerprinted, Protocol):
    """Turns texts into weights of the terms of one vocabulary, `(n_texts, n_terms)` float32, few of them not 0."""

    def encode_questions(self, texts: Sequence[str]) -> csr_array: ...

    def encode_passages(self, texts: Sequence[str]) -> csr_array: ...


class TokenVectorEncoder(Fingerprinted, Protocol):
    """Turns texts into vectors of their tokens, passages first; `heads` are the lengths of the passages' titles."""

    def encode_questions(self, texts: Sequence[str]) -> TokenVectors: ...

    def encode_passages(self, texts: Sequence[str], title_lengths: np.ndarray) -> TokenVectors: ...

    def passage_blocks(
        self, texts: Sequence[str], title_lengths: np.ndarray
    ) -> Iterator[tuple[np.ndarray, TokenVectors]]:
        """Yield the rows of some passages at a time, from all over, and what `encode_passages` returns of them."""

    def key_of_passages(self, texts: Sequence[str], title_lengths: np.ndarray) -> str: ...


@runtime_checkable
class WindowEncoder(Encoder, Protocol):
    """Encodes passages that it cannot read whole as windows; `heads` `(n_texts,)` are their titles' lengths."""

    def windows_of(self, texts: Sequence[str], title_lengths: np.ndarray, options: WindowOptions) -> Windows:
        """Windows of the passages that are too long; none of a model that reads texts of any length."""

    def encode_windows(self, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of passages and of windows, and the row of the passage of each, `(n_vectors,)` int64."""


@runtime_checkable
class WindowScorer(Protocol):
    """Scores pairs, `(n_pairs,)` float32, a long passage by its best window; `heads` are the lengths of titles."""

    def score_windows(
        self, pairs: Sequence[Pair], title_lengths: Sequence[int], options: WindowOptions
    ) -> np.ndarray: ...


@runtime_checkable
class LimitedEncoder(Protocol):
    """Reads only the beginning of long passages; `count_truncated` returns how many of the texts are too long."""

    def count_truncated(self, texts: Sequence[str]) -> int: ...


@runtime_checkable
class LimitedScorer(Protocol):
    """Cuts off passages that are too long beside a question; `candidates` are rows of `texts`, -1 if missing."""

    def count_truncated(self, questions: Sequence[str], texts: Sequence[str], candidates: np.ndarray) -> int: ...


@runtime_checkable
class PreloadingScorer(Protocol):
    """Scores pairs sooner, but not differently, if it knows beforehand which questions will be asked."""

    def preload_questions(self, questions: Sequence[str]) -> None: ...


class PairScorer(Fingerprinted, Protocol):
    """Scores question-passage pairs together, `(n_pairs,)` float32; higher is more relevant."""

    def load(self) -> None:
        """Make ready to score, which counts as building an index; called again it does nothing."""

    def score(self, pairs: Sequence[Pair]) -> np.ndarray: ...


def reading_costs(lengths: np.ndarray) -> np.ndarray:
    """Return the cost of texts of so many characters, `(n_texts,)` float64; a cost of 1 is a character's.

    cost(n) = 12 + n + n^2 / 1200, which tells within a tenth what texts of 15 to 800 Korean characters take relative to
    each other with a transformer of 12 layers of 384 dimensions, in bfloat16 on a processor.
    """
    read = np.minimum(np.asarray(lengths, dtype=np.float64), _MAX_CHARACTERS)
    return _COST_PER_TEXT + read + read**2 / _QUADRATIC_LENGTH


@dataclass(frozen=True)
class StoredVectors:
    """Vectors `(n_texts, dimensions)` float32 in the order of the texts, and what they took when they were made."""

    vectors: np.ndarray
    load_seconds: float
    seconds: float  # of all processes together
    elsewhere: bool = False  # they ship with the sample: another machine took these seconds


@dataclass(frozen=True)
class ProcessRank:
    """Which process of how many this is: every `of`-th block is its own. The first, `rank` 0, assembles."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def from_environment(cls) -> "ProcessRank":
        """Return the share that `torchrun` assigns to this process."""
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


SINGLE_PROCESS = ProcessRank()


class VectorBlocks:
    """Texts to be encoded by `encode(texts)`, `(n_texts, dimensions)` float32, after `load()`.

    `on_progress` gets the fraction of the work, the longest texts first; `clock` returns the seconds that are stored.
    """

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
        self._done = self._block_fraction = 0.0  # shares of the work: before the block at work, and in it
        self._unwritten: dict[int, Block] = {}  # what the disk had no place for

    def report_block_progress(self, fraction: float) -> None:
        """Hear of `encode` how much of the block at work is done, 0 to 1: a block may take a minute."""
        self._on_progress(min(1.0, self._done + self._block_fraction * fraction))

    def computed(self) -> StoredVectors:
        vectors, seconds = self._fill(self._block)
        self._on_progress(1.0)
        return StoredVectors(vectors, self._load_seconds, seconds)

    def load_or_compute(self, path: Path, process: ProcessRank = SINGLE_PROCESS) -> StoredVectors:
        """Return the vectors stored at `path`; compute and store missing blocks first.

        One of several processes that is not the first computes its own blocks and returns no vectors. If the disk
        cannot be written, the result is only not stored.
        """
        if stored := read_vectors(path):
            return stored
        parts = path.with_suffix(".parts")
        for number in self._blocks_for(process):
            # the parts go when the first process has assembled them
            if not (is_intact(_part(parts, number)) or path.is_file()):
                vectors, seconds = self._block(number)
                try:
                    save_arrays(_part(parts, number), {"vectors": vectors, "seconds": np.array(seconds)})
                except OSError as error:
                    logger.warning("part %s of %s cannot be written: %s", number, parts, error)
                    self._unwritten[number] = vectors, seconds
            self._done = round(self._done + float(self._fractions[number]), 9)  # the last one makes it whole
            self._on_progress(min(1.0, self._done))
        if process.rank > 0:
            if path.is_file():  # the first did not wait for the last part of this one
                shutil.rmtree(parts, ignore_errors=True)
            return StoredVectors(np.zeros((0, 0), dtype=np.float32), self._load_seconds, 0.0)
        return self._assemble(path, parts)

    def _read(self, parts: Path, number: int) -> Block:
        if number in self._unwritten:
            return self._unwritten[number]
        path = _part(parts, number)
        if part := load_arrays(path):
            return part["vectors"], float(part["seconds"])
        if not path.is_file():  # another process took it away
            raise FileNotFoundError(path)
        return self._block(number)

    def _blocks_for(self, process: ProcessRank) -> list[int]:
        """Return the blocks of a process: its own, then, for the first, the unfinished ones of others from the end."""
        numbers = range(len(self._rows))
        own_blocks = [number for number in numbers if number % process.world_size == process.rank]
        return (
            own_blocks
            if process.rank
            else [*own_blocks, *(number for number in reversed(numbers) if number % process.world_size)]
        )

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
            if (stored := read_vectors(path)) is not None:  # another process was first, and took the parts away
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
    """Map the vectors kept as `path` into memory; None where there are none that can be read."""
    if not path.is_file():
        return None
    try:
        if not is_intact(path):
            raise ValueError("they are not as they were sealed")
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        logger.warning("vectors %s cannot be used (%s); computing them anew", path, error)
        with suppress(OSError):
            path.unlink()
        return None
    seconds = read_json(_seconds_of(path))
    return StoredVectors(vectors, read_number(seconds, "load"), read_number(seconds, "work"))


def copy_vectors(path: Path, other: Path) -> None:
    """Keep the vectors in another place too, without a second copy where both are on one disk."""
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
    """The vectors of the last `most` texts, for one model and one prompt, and for one thread at a time."""

    def __init__(self, max_texts: int = 4096) -> None:
        self._most = max_texts
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
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
        return np.stack(vectors)
