"""The figures of an audit and of a split as tables, ready to be drawn or saved."""

from enum import StrEnum

import numpy as np
import pandas as pd

from data.audit.audit import Audit
from data.audit.overlap import Overlap
from data.records import QuestionSet
from data.split import Part, Split

OVERLAP_WIDTH = 0.05
PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)


class Level(StrEnum):
    """What a mean overlap, above that by chance, lets expect of lexical search.

    KorQuAD's is 0.67, and BM25 is hard to beat there; the sample's questions that say the same in other words have
    0.17, and it finds few of them first. The borders lie between such sets: a guide, not a law.
    """

    HIGH = "high"
    MIDDLE = "middle"
    LOW = "low"
    UNKNOWN = "unknown"


def overlap_level(overlap: Overlap) -> Level:
    """Return where an overlap stands: its mean less chance, `(mean - by_chance) / (1 - by_chance)`."""
    chance = 0.0 if np.isnan(overlap.by_chance) else overlap.by_chance
    if np.isnan(overlap.mean) or chance >= 1:
        return Level.UNKNOWN
    above = (overlap.mean - chance) / (1 - chance)
    if above >= 0.55:
        return Level.HIGH
    return Level.MIDDLE if above >= 0.35 else Level.LOW


def histogram(values: np.ndarray, width: float = 0.0, most_bins: int = 40) -> pd.DataFrame:
    """Count values by range; columns "from", "to" and "count", a row a range, empty ranges included.

    A range holds `from` and not `to`; only where the highest value ends a range of a given `width`, that one holds
    it. `width` 0 takes the smallest of 1, 2, 5, 10, 20, 50... that needs no more than `most_bins` ranges. NaN are
    passed over.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return pd.DataFrame({"from": [], "to": [], "count": []})
    step = width or _round_width(float(known.max() - known.min()), most_bins)
    first = int(known.min() / step)
    last = int(np.ceil(known.max() / step)) if width else int(known.max() / step) + 1
    edges = np.arange(first, max(last, first + 1) + 1) * step
    counts, _ = np.histogram(known, edges)
    return pd.DataFrame({"from": edges[:-1], "to": edges[1:], "count": counts})


def kinds_table(question_set: QuestionSet, figures: Audit) -> pd.DataFrame:
    """Tell the question kinds apart: columns "kind", "count", "share" of all questions, and mean "overlap"."""
    kinds = [question_set.questions[row].kind for row in question_set.answerable]
    overlap = pd.Series(figures.overlap.shares).groupby(kinds).mean()
    rows = [
        {"kind": kind, "count": count, "share": count / figures.question_count, "overlap": overlap.get(kind, np.nan)}
        for kind, count in figures.kinds.items()
    ]
    return pd.DataFrame(rows, columns=["kind", "count", "share", "overlap"])


def parts_table(found: Split) -> pd.DataFrame:
    """Tell the parts of a split: columns "part", "groups", "share" of the groups, and "questions"."""
    all_groups = max(1, found.group_counts[Part.ALL])
    return pd.DataFrame(
        {
            "part": [part.value for part in PARTS],
            "groups": [found.group_counts[part] for part in PARTS],
            "share": [found.group_counts[part] / all_groups for part in PARTS],
            "questions": [len(found.rows[part]) for part in PARTS],
        }
    )


def split_table(question_set: QuestionSet, found: Split) -> pd.DataFrame:
    """Tell the part of every answerable question, in the set's order: columns "question_id" and "part"."""
    part_of = {int(row): part.value for part in PARTS for row in found.rows[part]}
    rows = sorted(part_of)
    return pd.DataFrame(
        {"question_id": [question_set.questions[row].id for row in rows], "part": [part_of[row] for row in rows]}
    )


def _round_width(spread: float, most_bins: int) -> float:
    widths = (step * 10**power for power in range(18) for step in (1, 2, 5))
    return float(next(width for width in widths if spread / width <= most_bins - 2))
