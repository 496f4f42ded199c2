"""Rows of sentences: pairs with a score or a label, triplets, translations, or sentences alone; and their file."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from data.split import Part
from data.texts import Texts, column_of


class PairKind(StrEnum):
    """What a row holds, and so what can be learned and measured with it."""

    SCORED = "scored"  # two sentences and how alike people found them
    LABELLED = "labelled"  # a premise, a hypothesis, and what follows
    TRIPLETS = "triplets"  # a sentence, one that means the same, one that does not
    PARALLEL = "parallel"  # a sentence and its translation
    SENTENCES = "sentences"  # one sentence

    @property
    def width(self) -> int:
        """How many sentences a row has."""
        return {PairKind.SENTENCES: 1, PairKind.TRIPLETS: 3}.get(self, 2)


class Label(IntEnum):
    """What a premise says of a hypothesis, numbered as XNLI does."""

    ENTAILMENT = 0
    NEUTRAL = 1
    CONTRADICTION = 2


PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)  # a published part is a place in here, -1 where none was published


@dataclass(frozen=True)
class PairSet:
    """Rows of sentences. Raises `ValueError` where the columns do not fit each other.

    `values` are scores (float32, between the two ends of `scale`), labels (int8, see `Label`), or empty for the other
    kinds. `published` says which part of its publisher's split a row belongs to: int8, a place in `PARTS` or -1.
    """

    name: str
    kind: PairKind
    texts: tuple[Texts, ...]  # `kind.width` columns of `(n_rows,)`
    values: np.ndarray
    published: np.ndarray
    scale: tuple[float, float] = (0.0, 0.0)  # the lowest and the highest score there can be

    def __post_init__(self) -> None:
        rows = len(self.texts[0]) if self.texts else 0
        has_values = self.kind in (PairKind.SCORED, PairKind.LABELLED)
        wanted = {"texts": self.kind.width, "values": rows * has_values, "published": rows}
        if wrong := [name for name, length in wanted.items() if len(getattr(self, name)) != length]:
            raise ValueError(f"{', '.join(wrong)}: not of the length that {rows} rows of {self.kind} have")
        if any(len(column) != rows for column in self.texts):
            raise ValueError("the columns of sentences differ in length")
        if self.kind is PairKind.SCORED and not self._within_scale:
            raise ValueError(f"a score lies outside of {self.scale}")

    def __len__(self) -> int:
        return len(self.published)

    @classmethod
    def of(
        cls,
        name: str,
        kind: PairKind,
        columns: Sequence[Sequence[str]],
        values: Sequence[float] | np.ndarray = (),
        *,
        published: Sequence[int] | np.ndarray | None = None,
        scale: tuple[float, float] = (0.0, 0.0),
    ) -> "PairSet":
        """Make a set of any sequences."""
        dtype = np.float32 if kind is PairKind.SCORED else np.int8
        parts = np.full(len(columns[0]), -1) if published is None else published
        texts = tuple(Texts(pa.chunked_array([column_of(list(column))])) for column in columns)
        return cls(name, kind, texts, np.asarray(values, dtype=dtype), np.asarray(parts, dtype=np.int8), scale)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hexadecimal) of the content in order; the name is none."""
        digest = hashlib.sha256()
        head = [self.kind.value, list(map(float, self.scale)), [column.fingerprint for column in self.texts]]
        digest.update(json.dumps(head).encode())
        digest.update(self.values.astype("<f4").tobytes() + self.published.tobytes())
        return digest.hexdigest()

    @cached_property
    def gold(self) -> np.ndarray:
        """The scores brought to 0 (lowest of the scale) to 1 (highest), `(n_rows,)` float32."""
        low, high = self.scale
        shares: np.ndarray = (self.values - low) / (high - low)
        return shares

    def at(self, rows: np.ndarray) -> "PairSet":
        """Return the set with only these rows, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        if np.array_equal(rows, np.arange(len(self))):
            return self
        texts = tuple(Texts(pa.chunked_array([column_of(column.at(rows))])) for column in self.texts)
        values = self.values[rows] if len(self.values) else self.values
        return replace(self, texts=texts, values=values, published=self.published[rows])

    @property
    def sentences(self) -> list[str]:
        """Every different sentence once, in order of first appearance, row by row."""
        return list(dict.fromkeys(text for row in zip(*self.texts, strict=True) for text in row))

    @property
    def _within_scale(self) -> bool:
        low, high = self.scale
        if not -np.inf < low < high < np.inf or not np.isfinite(self.values).all():
            return False  # beyond float32 a score is infinite, and lies within no scale
        return not len(self.values) or bool(low <= self.values.min() and self.values.max() <= high)


FILE = "pairs.arrow"
_BLOCK_ROWS = 1 << 16
_MEANING, _PUBLISHED, _VALUE, _SENTENCE = b"pairs", "published", "value", "sentence{}"


def write_pairs(folder: Path, pairs: PairSet) -> None:
    """Write the pairs into a folder that is not in use yet."""
    columns = {_SENTENCE.format(place): texts.column for place, texts in enumerate(pairs.texts, start=1)}
    columns |= {_VALUE: pa.array(pairs.values)} if len(pairs.values) else {}
    table = pa.table(columns | {_PUBLISHED: pa.array(pairs.published)})
    meaning = json.dumps({"kind": pairs.kind, "scale": pairs.scale}).encode()
    table = table.replace_schema_metadata({_MEANING: meaning})
    with pa.OSFile(str(folder / FILE), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BLOCK_ROWS)


def open_pairs(folder: Path, name: str) -> PairSet:
    """Map the pairs of a folder into memory, under this name.

    Raises `OSError`, an Arrow error, or one of Python's where there are none to be read.
    """
    table = pa.ipc.open_file(pa.memory_map(str(folder / FILE))).read_all()
    table.validate(full=True)  # a damaged file may point anywhere
    meaning = json.loads(table.schema.metadata[_MEANING])
    kind = PairKind(meaning["kind"])
    values = table[_VALUE].to_numpy() if _VALUE in table.column_names else np.zeros(0, dtype=np.int8)
    texts = tuple(Texts(table[_SENTENCE.format(place)]) for place in range(1, kind.width + 1))
    return PairSet(name, kind, texts, values, table[_PUBLISHED].to_numpy(), tuple(meaning["scale"]))


def numbers_of(*sets: PairSet) -> list[np.ndarray]:
    """Number the sentences of some sets: equal ones, letter by letter, have one number, in every column and set.

    Returns an array for each set, `(n_rows, kind.width)` int64, counting from 0 in order of first appearance.
    """
    columns = [texts.column.cast(pa.large_string()) for pairs in sets for texts in pairs.texts]
    chunks = [chunk for column in columns for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    encoded = pa.chunked_array(chunks, pa.large_string()).combine_chunks().dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    found, start = [], 0
    for pairs in sets:
        end = start + len(pairs) * pairs.kind.width
        found.append(numbers[start:end].reshape(pairs.kind.width, len(pairs)).T)
        start = end
    return found


def sentence_set(name: str, sentences: Iterable[str]) -> PairSet:
    """Make a set of plain sentences: each different one once, in order, without those that hold nothing."""
    different = dict.fromkeys(stripped for one in sentences if (stripped := one.strip()))
    return PairSet.of(name, PairKind.SENTENCES, [list(different)])
