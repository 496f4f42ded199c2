"""The carrier of sentence data: pairs with a score or a label, triplets, translations, or sentences alone."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import cached_property

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
