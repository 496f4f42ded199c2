"""What was judged of what retrievers found: who is at a disadvantage where much was not, and what to judge next.

A passage that nobody judged counts as not relevant. A collection's judgements are of what some systems found, and a new
one that finds other right passages looks worse than it is (Zobel 1998); so the first K of all are judged together,
without saying who found what: pooling (Sparck Jones & van Rijsbergen 1975).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from retrieval.comparison.compare import Comparison
from retrieval.evaluation.measures import CUT, Measure, Scores
from retrieval.evaluation.significance import PairTest, pair_tests
from retrieval.rankings import NOT_FOUND

JUDGED = f"judged@{CUT}"
_CLEARLY = 1 / CUT  # one passage of the first ten, for a question on average


def judged_measures(scores: Mapping[str, Scores]) -> list[str]:
    """Return what is told only where judgements are known, of what was measured: at `CUT`, and Bpref."""
    found = dict.fromkeys(measure for of in scores.values() for measure in of.per_question)
    told = [one for one in map(Measure.parse, found) if one.by_judgements]
    return [str(one) for one in told if one.cut == CUT or one.name == "bpref"]


def at_disadvantage(scores: Mapping[str, Scores], groups: np.ndarray) -> list[PairTest]:
    """Return the test of each retriever whose Judged@10 is clearly below the highest, against that one.

    Clearly is by a tenth or more, which is one of the first ten passages of a question on average: if that one is
    right, by the usual measures another retriever is ahead by no more than having been judged. And surely, by the test
    of all against the best, so that it is not the luck of which questions were asked.
    """
    means = {name: of.means()[JUDGED] for name, of in scores.items() if JUDGED in of.per_question}
    if not means:
        return []
    tests = pair_tests(scores, [JUDGED], groups, baseline=max(means, key=means.__getitem__))
    return [test for test in tests if test.sure and round(-test.difference, 6) >= _CLEARLY]


class Pooled(NamedTuple):
    """What is to be judged: a row of the comparison's questions, and a row of its corpus."""

    question: int
    passage: int


def pool(comparison: Comparison, questions: int, depth: int, seed: int = 0) -> list[Pooled]:
    """Return what all retrievers found among their first `depth` and nobody judged, for so many questions.

    Questions, and the passages of each, come in an order drawn by the seed: nothing of it tells who found a passage, or
    how high. The questions of a smaller pool are the first of a larger one. One with nothing to judge is passed over.
    Where only relevant passages are known, all others are unjudged.
    """
    asked = comparison.question_set
    known = asked.relevance if asked.judged is None else asked.judged

    def pools() -> Iterator[list[Pooled]]:
        for row in np.random.default_rng(seed).permutation(len(asked.questions)).tolist():
            found = [one.indices[row, :depth] for one in comparison.rankings.values()]
            judged = [NOT_FOUND, *known.indices[known.indptr[row] : known.indptr[row + 1]]]
            left = np.setdiff1d(np.concatenate(found), judged) if found else np.array([], dtype=np.int64)
            if len(left):
                yield [Pooled(row, one) for one in np.random.default_rng([seed, row]).permutation(left).tolist()]

    return [pair for _, pairs in zip(range(questions), pools(), strict=False) for pair in pairs]
