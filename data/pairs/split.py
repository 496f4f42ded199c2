"""Splits of pairs by the sentences they share, so that no sentence of a test pair is ever trained on."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data.pairs.records import PARTS, PairSet
from data.pairs.sentences import numbers_of
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
        drawn = _drawn(order[is_free[order]], sizes, share * n_rows)
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


def _drawn(order: np.ndarray, sizes: np.ndarray, wanted: float) -> np.ndarray:
    """The first groups of `order` whose rows come nearest to as many as wanted."""
    fitting = order[sizes[order] < 2 * wanted]
    middles = np.cumsum(sizes[fitting]) - sizes[fitting] / 2
    drawn: np.ndarray = fitting[middles < wanted]
    return drawn
