"""A comparison beside an earlier one: what the same questions say before and after."""

from dataclasses import dataclass, replace

import numpy as np

from retrieval.comparison.compare import Comparison
from retrieval.comparison.store import StoredComparison
from retrieval.evaluation.significance import PairTest, holm, pair_tests, question_groups

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Change:
    """One figure of one retriever, before and after. `test` is of after against before."""

    retriever: str
    before: float
    after: float
    test: PairTest


def comparable(a: StoredComparison, b: StoredComparison) -> str | None:
    """Return None where two comparisons asked the same questions of the same passages, else why they cannot be set side
    by side: `other_passages`, `other_part` or `other_questions` (another split, or the data changed).
    """
    if a.fingerprint == b.fingerprint:
        return None
    if a.corpus_fingerprint != b.corpus_fingerprint:
        return "other_passages"
    return "other_part" if a.part is not b.part else "other_questions"


def changes(before: Comparison, after: Comparison) -> list[Change]:
    """Test retrievers of one name in two comparisons by every measure both have, in the order of `after`.

    Holm's correction is over the retrievers, for each measure. Raises `ValueError` where the questions or passages are
    not the same.
    """
    if before.question_set.fingerprint != after.question_set.fingerprint:
        raise ValueError("the two comparisons asked other questions, or searched other passages")
    groups = question_groups(after.question_set)
    old, new = before.scores, after.scores
    found = []
    for name in (name for name in new if name in old):
        shared = [measure for measure in new[name].per_question if measure in old[name].per_question]
        means = (old[name].means(), new[name].means())
        for test in pair_tests({AFTER: new[name], BEFORE: old[name]}, shared, groups):
            found.append(Change(name, means[0][test.measure], means[1][test.measure], test))
    return _corrected(found)


def _corrected(found: list[Change]) -> list[Change]:
    p_holm: dict[tuple[str, str], float] = {}
    for measure in {change.test.measure for change in found}:
        family = [change for change in found if change.test.measure == measure]
        corrected = holm(np.array([change.test.p for change in family]))
        p_holm |= {(c.retriever, measure): float(p) for c, p in zip(family, corrected, strict=True)}
    return [
        replace(change, test=replace(change.test, p_holm=p_holm[change.retriever, change.test.measure]))
        for change in found
    ]
