"""Sets of sentence pairs: what their rows hold, the file that keeps them, their parts, and what they are like.

Rows are scored or labelled pairs, triplets, translations, or sentences alone. Parts are drawn by the sentences they
share; sizes, lengths, labels, scores and leaks are counted.
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
    """What a row holds, and so what can be learned and measured with it."""

    SCORED = "scored"  # two sentences and how alike people found them
    LABELLED = "labelled"  # a premise, a hypothesis, and what follows
    TRIPLETS = "triplets"  # a sentence, one that means the same, one that does not
    PARALLEL = "parallel"  # a sentence and its translation
    SENTENCES = "sentences"  # one sentence

    @property
    def width(self) -> int:
        return {PairKind.SENTENCES: 1, PairKind.TRIPLETS: 3}.get(self, 2)


class Label(IntEnum):
    """What a premise says of a hypothesis, numbered as XNLI does."""

    ENTAILMENT = 0
    NEUTRAL = 1
    CONTRADICTION = 2


@dataclass(frozen=True)
class PairSet:
    """Rows of sentences. Raises `ValueError` if the columns do not fit each other.

    `values` are scores (float32, on `scale`), labels (int8, see `Label`), or empty. `published` is the part that a row
    was published in: int8, a position in `PARTS`, -1 for none.
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
        expected_lengths = {"texts": self.kind.width, "values": rows * has_values, "published": rows}
        if wrong := [name for name, length in expected_lengths.items() if len(getattr(self, name)) != length]:
            raise ValueError(f"{', '.join(wrong)}: not of the length that {rows} rows of {self.kind} have")
        if any(len(column) != rows for column in self.texts):
            raise ValueError("the columns of sentences differ in length")
        if self.kind is PairKind.SCORED:
            (low, high) = self.scale
            scores = self.values
            # beyond float32 a score is infinite, and lies within no scale
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
        normalized: np.ndarray = (self.values - low) / (high - low)
        return normalized

    def at(self, rows: np.ndarray) -> "PairSet":
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


def write_pairs(folder: Path, pairs: PairSet) -> None:
    """Write the pairs into a folder that is not in use yet."""
    columns = {_SENTENCE.format(number): texts.column for number, texts in enumerate(pairs.texts, start=1)}
    columns |= {_VALUE: pa.array(pairs.values)} if len(pairs.values) else {}
    table = pa.table(columns | {_PUBLISHED: pa.array(pairs.published)})
    metadata = json.dumps({"kind": pairs.kind, "scale": pairs.scale}).encode()
    table = table.replace_schema_metadata({_METADATA_KEY: metadata})
    with pa.OSFile(str(folder / FILE), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BLOCK_ROWS)


def open_pairs(folder: Path, name: str) -> PairSet:
    """Map the pairs of a folder into memory. Raises `OSError`, an Arrow error, or one of Python's."""
    table = pa.ipc.open_file(pa.memory_map(str(folder / FILE))).read_all()
    table.validate(full=True)  # a damaged file may point anywhere
    metadata = json.loads(table.schema.metadata[_METADATA_KEY])
    kind = PairKind(metadata["kind"])
    values = table[_VALUE].to_numpy() if _VALUE in table.column_names else np.zeros(0, dtype=np.int8)
    texts = tuple(Texts(table[_SENTENCE.format(number)]) for number in range(1, kind.width + 1))
    return PairSet(name, kind, texts, values, table[_PUBLISHED].to_numpy(), tuple(metadata["scale"]))


def number_sentences(*sets: PairSet) -> list[np.ndarray]:
    """Number the sentences of some sets, equal ones alike, in order: `(n_rows, kind.width)` int64 for each set."""
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
    """Make a set of plain sentences: each different one once, in order, without those that hold nothing."""
    different = dict.fromkeys(stripped for sentence in sentences if (stripped := sentence.strip()))
    return PairSet.from_columns(name, PairKind.SENTENCES, [list(different)])


def split_pairs(pairs: PairSet, options: SplitOptions | None = None) -> dict[Part, np.ndarray]:
    """Return the rows of every part, ascending int64; those of `Part.ALL` are all.

    Published parts stay as they are, so that metrics compare with those of others. A part that was not published is
    drawn, seeded, from the rows published for training or for nothing: whole groups of rows that share a sentence,
    directly or through others, unless they reach into a published part. `options` give fractions of these rows. Groups
    are shuffled with `numpy.random.default_rng(seed).permutation`; the first go to test, the next to validation, and
    one larger than twice the fraction is skipped.
    """
    options = options or SplitOptions()
    part_of_row = np.maximum(pairs.published, 0)  # what was published for nothing is for training
    groups = row_groups(number_sentences(pairs)[0])
    missing = [
        (part, fraction)
        for part, fraction in ((Part.TEST, options.test), (Part.VALIDATION, options.validation))
        if not (pairs.published == PARTS.index(part)).any()
    ]
    sizes = np.bincount(groups)
    is_free = np.bincount(groups, weights=part_of_row > 0, minlength=len(sizes)) == 0
    order = np.random.default_rng(options.seed).permutation(len(sizes))
    n_rows = int((part_of_row == 0).sum())
    for part, fraction in missing:
        free = order[is_free[order]]
        target_count = fraction * n_rows
        fitting = free[sizes[free] < 2 * target_count]
        middles = np.cumsum(sizes[fitting]) - sizes[fitting] / 2
        sampled = fitting[middles < target_count]  # the first groups whose rows come nearest to as many as wanted
        is_free[sampled] = False
        part_of_row[np.isin(groups, sampled)] = PARTS.index(part)
    rows = {part: np.flatnonzero(part_of_row == index) for index, part in enumerate(PARTS)}
    return {Part.ALL: np.arange(len(pairs)), **rows}


def evaluation_part(rows: dict[Part, np.ndarray]) -> Part:
    """Return the part that metrics are of: the test rows, the validation rows if there are none, or else all."""
    return next((part for part in (Part.TEST, Part.VALIDATION) if len(rows[part])), Part.ALL)


def row_groups(numbers: np.ndarray) -> np.ndarray:
    """Number the groups of rows that share sentences (see `numbers_of`), also through others, `(n_rows,)` int64."""
    count = int(numbers.max(initial=-1)) + 1
    first = np.repeat(numbers[:, :1], numbers.shape[1], axis=1)
    groups = linked_groups(first.ravel(), numbers.ravel(), count) if count else np.zeros(0, dtype=np.int64)
    group_of_row: np.ndarray = groups[numbers[:, 0]].astype(np.int64)
    return group_of_row


@dataclass(frozen=True)
class Leak:
    """What a set has in common with another: sentences, the other's rows with any, and `repeated` whole rows."""

    sentences: int
    rows: np.ndarray = field(repr=False)  # ascending
    repeated: int


@dataclass(frozen=True)
class PairAudit:
    """The figures of a set of pairs; lengths are in characters."""

    row_count: int
    sentence_count: int  # different ones
    part_counts: dict[Part, int]
    published: tuple[Part, ...]  # the parts that were published, and not drawn
    lengths: tuple[np.ndarray, ...] = field(repr=False)  # a column of sentences each, (n_rows,) int64
    labels: dict[Label, int]  # none where rows have no label
    score_counts: np.ndarray = field(repr=False)  # (BINS,) int64, empty where rows have no score
    score_edges: np.ndarray = field(repr=False)  # (BINS + 1,) float64 from one end of the scale to the other
    equal_count: int  # rows with the same sentence twice
    repeated: np.ndarray = field(repr=False)  # rows whose sentences an earlier row has, ascending
    disputed_count: int  # pairs that stand in several rows with other scores or labels
    leaks: dict[tuple[Part, Part], Leak]  # of each part into a later one


def audit_pairs(pairs: PairSet, rows: dict[Part, np.ndarray] | None = None) -> PairAudit:
    """Measure a set of pairs and its parts, `rows`; only of scored sentences either order is the same pair."""
    import pandas as pd  # only who measures waits for it

    rows = rows or split_pairs(pairs)
    (numbers,) = number_sentences(pairs)
    pair_numbers = _pair_numbers(numbers, ordered=pairs.kind is not PairKind.SCORED)
    scores = pairs.values if pairs.kind is PairKind.SCORED else None
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


def measure_leak(first: PairSet, second: PairSet) -> Leak:
    """Return what the second set has of the first one's sentences, for example a test set of a training set's."""
    numbers = number_sentences(first, second)
    width = max(sentence_numbers.shape[1] for sentence_numbers in numbers)
    both = np.concatenate(
        [
            np.pad(sentence_numbers, ((0, 0), (0, width - sentence_numbers.shape[1])), constant_values=-1)
            for sentence_numbers in numbers
        ]
    )
    pair_numbers = _pair_numbers(both, ordered=PairKind.SCORED not in (first.kind, second.kind))
    joint_leak = _measure_leak(both, pair_numbers, np.arange(len(first)), np.arange(len(first), len(both)))
    return Leak(joint_leak.sentences, joint_leak.rows - len(first), joint_leak.repeated)


def _pair_numbers(numbers: np.ndarray, *, ordered: bool) -> np.ndarray:
    """Number the rows so that those of the same sentences have one number, `(n_rows,)`."""
    import pandas as pd

    table = pd.DataFrame(numbers if ordered else np.sort(numbers, axis=1))
    pair_numbers: np.ndarray = table.groupby(list(table.columns), sort=False).ngroup().to_numpy()
    return pair_numbers


def _measure_leak(numbers: np.ndarray, pair_numbers: np.ndarray, first: np.ndarray, second: np.ndarray) -> Leak:
    known = np.unique(numbers[first])
    is_known = np.isin(numbers[second], known[known >= 0])  # -1 fills up rows of fewer sentences
    return Leak(
        sentences=len(np.unique(numbers[second][is_known])),
        rows=second[is_known.any(axis=1)],
        repeated=int(np.isin(pair_numbers[second], pair_numbers[first]).sum()),
    )
