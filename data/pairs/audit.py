"""Splits of pairs by the sentences they share, and what a set is like: sizes, lengths, labels, scores, leaks."""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data.pairs.records import PARTS, Label, PairKind, PairSet, numbers_of
from data.split import Part, SplitOptions


def split_pairs(pairs: PairSet, options: SplitOptions | None = None) -> dict[Part, np.ndarray]:
    """Return the rows of every part, ascending int64; those of `Part.ALL` are all.

    Published parts are kept as they are, also where they share sentences: figures compare with those of others only so.
    A part of which nothing was published is drawn, seeded, from the rows that were published for training or for
    nothing; never from those of another published part. So KorSTS is kept whole, of a set published without validation
    rows some training rows become them, and a development set alone is for validation: there is nothing to train on.

    Drawn are groups of rows that share a sentence, directly or through others, so that no sentence stands on both
    sides; a group that reaches into a published part stays with the training rows. `options` give shares of the rows
    that can be drawn. Groups are shuffled with `numpy.random.default_rng(seed).permutation`; the first go to test, the
    next to validation, and one larger than twice the share that is wanted is passed over.
    """
    options = options or SplitOptions()
    part_of_row = np.maximum(pairs.published, 0)  # what was published for nothing is for training
    groups = row_groups(numbers_of(pairs)[0])
    missing = [
        (part, share)
        for part, share in ((Part.TEST, options.test), (Part.VALIDATION, options.validation))
        if not (pairs.published == PARTS.index(part)).any()
    ]
    sizes = np.bincount(groups)
    is_free = np.bincount(groups, weights=part_of_row > 0, minlength=len(sizes)) == 0
    order = np.random.default_rng(options.seed).permutation(len(sizes))
    n_rows = int((part_of_row == 0).sum())
    for part, share in missing:
        free, wanted = order[is_free[order]], share * n_rows
        fitting = free[sizes[free] < 2 * wanted]
        middles = np.cumsum(sizes[fitting]) - sizes[fitting] / 2
        drawn = fitting[middles < wanted]  # the first groups whose rows come nearest to as many as wanted
        is_free[drawn] = False
        part_of_row[np.isin(groups, drawn)] = PARTS.index(part)
    rows = {part: np.flatnonzero(part_of_row == place) for place, part in enumerate(PARTS)}
    return {Part.ALL: np.arange(len(pairs)), **rows}


def part_to_measure(rows: dict[Part, np.ndarray]) -> Part:
    """Return what figures are told of: the test rows, the validation rows where there are none, or else all."""
    return next((part for part in (Part.TEST, Part.VALIDATION) if len(rows[part])), Part.ALL)


def row_groups(numbers: np.ndarray) -> np.ndarray:
    """Number the groups of rows that share sentences, directly or through others, `(n_rows,)` int64.

    `numbers` are those of the rows' sentences by `numbers_of`, `(n_rows, width)`.
    """
    count = int(numbers.max(initial=-1)) + 1
    first = np.repeat(numbers[:, :1], numbers.shape[1], axis=1)
    links = coo_array((np.ones(numbers.size, dtype=bool), (first.ravel(), numbers.ravel())), shape=(count, count))
    group_of_sentence = connected_components(links, directed=False)[1] if count else np.zeros(0, dtype=np.int64)
    groups: np.ndarray = group_of_sentence[numbers[:, 0]].astype(np.int64)
    return groups


BINS = 10  # of the histogram of scores


@dataclass(frozen=True)
class Leak:
    """What one set, or part, has in common with another: different sentences, and the rows of the other with any.

    `repeated` counts those of the rows whose sentences are all those of one row of the first.
    """

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
    """Measure a set of pairs; `rows` are those of its parts, by `split_pairs` where they are not given.

    Two scored sentences are the same pair in either order; of other kinds the order counts.
    """
    rows = rows or split_pairs(pairs)
    (numbers,) = numbers_of(pairs)
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
        published=tuple(part for place, part in enumerate(PARTS) if (pairs.published == place).any()),
        lengths=tuple(texts.lengths() for texts in pairs.texts),
        labels={label: int(count) for label, count in zip(Label, labels, strict=False)},
        score_counts=counts,
        score_edges=edges,
        equal_count=int((np.diff(np.sort(numbers, axis=1), axis=1) == 0).any(axis=1).sum()),
        repeated=np.flatnonzero(pd.Series(pair_numbers).duplicated()),
        disputed_count=int((judged["pair"].value_counts() > 1).sum()),
        leaks={
            (first, second): _leak(numbers, pair_numbers, rows[first], rows[second])
            for first, second in combinations(PARTS, 2)
        },
    )


def leak(first: PairSet, second: PairSet) -> Leak:
    """Return what the second set has of the first one's sentences, for example a test set of a training set's."""
    numbers = numbers_of(first, second)
    width = max(one.shape[1] for one in numbers)
    both = np.concatenate([np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=-1) for one in numbers])
    pair_numbers = _pair_numbers(both, ordered=PairKind.SCORED not in (first.kind, second.kind))
    found = _leak(both, pair_numbers, np.arange(len(first)), np.arange(len(first), len(both)))
    return Leak(found.sentences, found.rows - len(first), found.repeated)


def _pair_numbers(numbers: np.ndarray, *, ordered: bool) -> np.ndarray:
    """Number the rows so that those of the same sentences have one number, `(n_rows,)`."""
    table = pd.DataFrame(numbers if ordered else np.sort(numbers, axis=1))
    found: np.ndarray = table.groupby(list(table.columns), sort=False).ngroup().to_numpy()
    return found


def _leak(numbers: np.ndarray, pair_numbers: np.ndarray, first: np.ndarray, second: np.ndarray) -> Leak:
    known = np.unique(numbers[first])
    is_known = np.isin(numbers[second], known[known >= 0])  # -1 fills up rows of fewer sentences
    return Leak(
        sentences=len(np.unique(numbers[second][is_known])),
        rows=second[is_known.any(axis=1)],
        repeated=int(np.isin(pair_numbers[second], pair_numbers[first]).sum()),
    )
