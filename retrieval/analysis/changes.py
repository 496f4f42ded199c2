"""A comparison beside an earlier one: what the same questions say before and after."""

from dataclasses import dataclass

from retrieval.comparison.compare import Comparison
from retrieval.comparison.store import StoredComparison
from retrieval.evaluation.significance import Pair, PairTest, paired_tests, question_groups

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

    The retrievers are tested together, for each measure. Raises `ValueError` where the questions or passages are
    not the same.
    """
    if before.question_set.fingerprint != after.question_set.fingerprint:
        raise ValueError("the two comparisons asked other questions, or searched other passages")
    groups = question_groups(after.question_set)
    old, new = before.scores, after.scores
    pairs = {
        (name, measure): Pair(AFTER, BEFORE, measure, values, old[name].per_question[measure])
        for name in (name for name in new if name in old)
        for measure, values in new[name].per_question.items()
        if measure in old[name].per_question
    }
    tests = paired_tests([*pairs.values()], groups)
    return [
        Change(name, float(pair.of_b.mean()), float(pair.of_a.mean()), test)
        for (name, _), pair, test in zip(pairs, pairs.values(), tests, strict=True)
    ]
