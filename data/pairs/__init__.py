"""Sets of sentence pairs: their content, storage, split and statistics.

Rows are scored or labelled pairs, triplets, translations, or single sentences. Rows that share sentences belong to the
same part. The audit counts sizes, lengths, labels, scores and leaks.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from mrc_workbench.data.split import PARTS, Part, SplitOptions
from mrc_workbench.data.split.partition import linked_groups
from mrc_workbench.data.texts import Texts, column_of

FILE = "pairs.arrow"
_BLOCK_ROWS = 1 << 16
_METADATA_KEY = b"pairs"
_PUBLISHED = "published"
_VALUE = "value"
_SENTENCE = "sentence{}"
BINS = 10  # of the histogram of scores


class PairKind(StrEnum):
    """The content of a row."""

    SCORED = "scored"  # two sentences and the similarity that people assigned
    LABELLED = "labelled"  # a premise, a hypothesis, and their relation
    TRIPLETS = "triplets"  # a sentence, a similar sentence, a different sentence
    PARALLEL = "parallel"  # a sentence and its translation
    SENTENCES = "sentences"  # one sentence

    @property
    def width(self) -> int:
        return {PairKind.SENTENCES: 1, PairKind.TRIPLETS: 3}.get(self, 2)


class Label(IntEnum):
    """The relation of a premise to a hypothesis, with XNLI's numbers."""

    ENTAILMENT = 0
    NEUTRAL = 1
    CONTRADICTION = 2


@dataclass(frozen=True)
class PairSet:
    """Rows of sentences. Raises `ValueError` if the columns do not fit each other.

    `values` are scores (float32, on `scale`), labels (int8, see `Label`), or empty. `published` is the published part
    of each row: int8, a position in `PARTS`, -1 for none.
    """

    name: str
    kind: PairKind
    texts: tuple[Texts, ...]  # `kind.width` columns of `(n_rows,)`
    values: np.ndarray
    published: np.ndarray
    scale: tuple[float, float] = (0.0, 0.0)  # the lowest and highest possible score

    def __post_init__(self) -> None:
        rows = len(self.texts[0]) if self.texts else 0
        has_values = self.kind in (PairKind.SCORED, PairKind.LABELLED)
        expected_lengths = {"texts": self.kind.width, "values": rows * has_values, "published": rows}
        if wrong := [name for name, length in expected_lengths.items() if len(getattr(self, name)) != length]:
            raise ValueError(f"{', '.join(wrong)}: not of the length that {rows} rows of {self.kind} have")
        if any(len(column) != rows for column in self.texts):
            raise ValueError("the columns of sentences differ in length")
        if self.kind is PairKind.SCORED:
            low, high = self.scale
            scores = self.values
            # a score beyond float32 is infinite
            is_within = np.isfinite(scores) & (low <= scores) & (scores <= high)
            if not (-np.inf < low < high < np.inf and is_within.all()):
                raise ValueError(f"a score lies outside of {self.scale}")

    def __len__(self) -> int:
        return len(self.published)

    @classmethod
    def from_columns(
        cls,
        name: str,
        kind: PairKind,
        columns: Sequence[Sequence[str]],
        values: Sequence[float] | np.ndarray = (),
        *,
        published: Sequence[int] | np.ndarray | None = None,
        scale: tuple[float, float] = (0.0, 0.0),
    ) -> "PairSet":
        dtype = np.float32 if kind is PairKind.SCORED else np.int8
        parts = np.full(len(columns[0]), -1) if published is None else published
        texts = tuple(Texts(pa.chunked_array([column_of(list(column))])) for column in columns)
        return cls(name, kind, texts, np.asarray(values, dtype=dtype), np.asarray(parts, dtype=np.int8), scale)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hexadecimal) of the content in order, without the name."""
        digest = hashlib.sha256()
        head = [self.kind.value, list(map(float, self.scale)), [column.fingerprint for column in self.texts]]
        digest.update(json.dumps(head).encode())
        digest.update(self.values.astype("<f4").tobytes() + self.published.tobytes())
        return digest.hexdigest()

    @cached_property
    def gold(self) -> np.ndarray:
        """The scores, normalized from 0 (lowest of the scale) to 1 (highest), `(n_rows,)` float32."""
        low, high = self.scale
        return np.asarray((self.values - low) / (high - low))

    def at(self, rows: np.ndarray) -> "PairSet":
        rows = np.asarray(rows, dtype=np.int64)
        if np.array_equal(rows, np.arange(len(self))):
            return self
        texts = tuple(Texts(pa.chunked_array([column_of(column.at(rows))])) for column in self.texts)
        values = self.values[rows] if len(self.values) else self.values
        return replace(self, texts=texts, values=values, published=self.published[rows])

    @property
    def sentences(self) -> list[str]:
        """The distinct sentences in order of first appearance, row by row."""
        return list(dict.fromkeys(text for row in zip(*self.texts, strict=True) for text in row))


def write_pairs(folder: Path, pairs: PairSet) -> None:
    """Write the pairs into a new folder."""
    columns = {_SENTENCE.format(number): texts.column for number, texts in enumerate(pairs.texts, start=1)}
    columns |= {_VALUE: pa.array(pairs.values)} if len(pairs.values) else {}
    table = pa.table(columns | {_PUBLISHED: pa.array(pairs.published)})
    metadata = json.dumps({"kind": pairs.kind, "scale": pairs.scale}).encode()
    table = table.replace_schema_metadata({_METADATA_KEY: metadata})
    with pa.OSFile(str(folder / FILE), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BLOCK_ROWS)


def open_pairs(folder: Path, name: str) -> PairSet:
    """Map the pairs of a folder into memory. A damaged file raises `OSError`, an Arrow error, or a builtin error."""
    table = pa.ipc.open_file(pa.memory_map(str(folder / FILE))).read_all()
    table.validate(full=True)  # a damaged file may point anywhere
    metadata = json.loads(table.schema.metadata[_METADATA_KEY])
    kind = PairKind(metadata["kind"])
    values = table[_VALUE].to_numpy() if _VALUE in table.column_names else np.zeros(0, dtype=np.int8)
    texts = tuple(Texts(table[_SENTENCE.format(number)]) for number in range(1, kind.width + 1))
    return PairSet(name, kind, texts, values, table[_PUBLISHED].to_numpy(), tuple(metadata["scale"]))


def number_sentences(*sets: PairSet) -> list[np.ndarray]:
    """Number the sentences of all sets, with equal numbers for equal sentences: `(n_rows, kind.width)` int64 each."""
    columns = [texts.column.cast(pa.large_string()) for pairs in sets for texts in pairs.texts]
    chunks = [chunk for column in columns for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    encoded = pa.chunked_array(chunks, pa.large_string()).combine_chunks().dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    numbers_by_set = []
    start = 0
    for pairs in sets:
        end = start + len(pairs) * pairs.kind.width
        numbers_by_set.append(numbers[start:end].reshape(pairs.kind.width, len(pairs)).T)
        start = end
    return numbers_by_set


def sentence_set(name: str, sentences: Iterable[str]) -> PairSet:
    """Return a set of the distinct sentences that are not blank, in order."""
    different = dict.fromkeys(stripped for sentence in sentences if (stripped := sentence.strip()))
    return PairSet.from_columns(name, PairKind.SENTENCES, [list(different)])


def split_pairs(pairs: PairSet, options: SplitOptions | None = None) -> dict[Part, np.ndarray]:
    """Return the rows of every part, ascending int64; `Part.ALL` has all rows.

    Published parts remain, so that metrics are comparable. A missing part is drawn, seeded, from the other rows: whole
    groups of rows that share a sentence, directly or through other rows, unless they reach into a published part.
    `options` give fractions of these rows. Groups are shuffled with `numpy.random.default_rng(seed).permutation`; the
    first go to test, the next to validation. A group larger than twice the fraction is skipped.
    """
    options = options or SplitOptions()
    part_of_row = np.maximum(pairs.published, 0)  # rows without a part are for training
    groups = row_groups(number_sentences(pairs)[0])
    sizes = np.bincount(groups)
    is_free = np.bincount(groups, weights=part_of_row > 0, minlength=len(sizes)) == 0
    order = np.random.default_rng(options.seed).permutation(len(sizes))
    n_rows = int((part_of_row == 0).sum())
    for part, fraction in ((Part.TEST, options.test), (Part.VALIDATION, options.validation)):
        if (pairs.published == PARTS.index(part)).any():
            continue
        free = order[is_free[order]]
        target_count = fraction * n_rows
        fitting = free[sizes[free] < 2 * target_count]
        middles = np.cumsum(sizes[fitting]) - sizes[fitting] / 2
        sampled = fitting[middles < target_count]  # together they have about `target_count` rows
        is_free[sampled] = False
        part_of_row[np.isin(groups, sampled)] = PARTS.index(part)
    rows = {part: np.flatnonzero(part_of_row == index) for index, part in enumerate(PARTS)}
    return {Part.ALL: np.arange(len(pairs)), **rows}


def evaluation_part(rows: dict[Part, np.ndarray]) -> Part:
    """Return the part for evaluation: test if it has rows, else validation if it has rows, else all."""
    return next((part for part in (Part.TEST, Part.VALIDATION) if len(rows[part])), Part.ALL)


def row_groups(numbers: np.ndarray) -> np.ndarray:
    """Number the groups of rows that share sentences, directly or through other rows, `(n_rows,)` int64."""
    count = int(numbers.max(initial=-1)) + 1
    first = np.repeat(numbers[:, :1], numbers.shape[1], axis=1)
    groups = linked_groups(first.ravel(), numbers.ravel(), count) if count else np.zeros(0, dtype=np.int64)
    return np.asarray(groups[numbers[:, 0]], dtype=np.int64)


@dataclass(frozen=True)
class Leak:
    """The sentences that two sets share, the rows of the second set with any of them, and its repeated whole rows."""

    sentences: int
    rows: np.ndarray = field(repr=False)  # ascending
    repeated: int


@dataclass(frozen=True)
class PairAudit:
    """The statistics of a set of pairs; lengths are in characters."""

    row_count: int
    sentence_count: int  # distinct sentences
    part_counts: dict[Part, int]
    published: tuple[Part, ...]  # published parts; other parts are drawn
    lengths: tuple[np.ndarray, ...] = field(repr=False)  # (n_rows,) int64 per column of sentences
    labels: dict[Label, int]  # empty for rows without labels
    score_counts: np.ndarray = field(repr=False)  # (BINS,) int64, empty for rows without scores
    score_edges: np.ndarray = field(repr=False)  # (BINS + 1,) float64 from the lowest to the highest score
    equal_count: int  # rows with the same sentence twice
    repeated: np.ndarray = field(repr=False)  # rows with the sentences of an earlier row, ascending
    disputed_count: int  # pairs of several rows with different scores or labels
    leaks: dict[tuple[Part, Part], Leak]  # from each part into a later part


def audit_pairs(pairs: PairSet, rows: dict[Part, np.ndarray] | None = None) -> PairAudit:
    """Compute the statistics of a set of pairs and its parts, `rows`. The order of scored sentences is ignored."""
    import pandas as pd

    rows = rows or split_pairs(pairs)
    (numbers,) = number_sentences(pairs)
    scores = pairs.values if pairs.kind is PairKind.SCORED else None
    table = pd.DataFrame(numbers if scores is None else np.sort(numbers, axis=1))
    pair_numbers = np.asarray(table.groupby([*table.columns], sort=False).ngroup())  # equal for the same sentences
    labels = np.bincount(pairs.values, minlength=len(Label)) if pairs.kind is PairKind.LABELLED else ()
    none = np.zeros(0, dtype=np.int64), np.zeros(0)
    counts, edges = none if scores is None else np.histogram(scores, bins=BINS, range=pairs.scale)
    judged = pd.DataFrame({"pair": pair_numbers, "value": pairs.values if len(pairs.values) else 0}).drop_duplicates()
    return PairAudit(
        row_count=len(pairs),
        sentence_count=int(numbers.max(initial=-1)) + 1,
        part_counts={part: len(rows[part]) for part in PARTS},
        published=tuple(part for index, part in enumerate(PARTS) if (pairs.published == index).any()),
        lengths=tuple(texts.lengths() for texts in pairs.texts),
        labels={label: int(count) for label, count in zip(Label, labels, strict=False)},
        score_counts=counts,
        score_edges=edges,
        equal_count=int((np.diff(np.sort(numbers, axis=1), axis=1) == 0).any(axis=1).sum()),
        repeated=np.flatnonzero(pd.Series(pair_numbers).duplicated()),
        disputed_count=int((judged["pair"].value_counts() > 1).sum()),
        leaks={
            (first, second): _measure_leak(numbers, pair_numbers, rows[first], rows[second])
            for first, second in combinations(PARTS, 2)
        },
    )


def _measure_leak(numbers: np.ndarray, pair_numbers: np.ndarray, first: np.ndarray, second: np.ndarray) -> Leak:
    is_known = np.isin(numbers[second], numbers[first])
    return Leak(
        sentences=len(np.unique(numbers[second][is_known])),
        rows=second[is_known.any(axis=1)],
        repeated=int(np.isin(pair_numbers[second], pair_numbers[first]).sum()),
    )
