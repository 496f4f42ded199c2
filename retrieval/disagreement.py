"""Which questions tell retrievers apart."""

from collections.abc import Sequence

import numpy as np

from data.records import QuestionSet
from retrieval.metrics import first_relevant_ranks
from retrieval.rankings import Rankings


def most_disputed(rankings: Sequence[Rankings], question_set: QuestionSet, count: int) -> list[int]:
    """Return rows of the questions whose first relevant passage stands at the most different ranks, widest first.

    The spread of a question is `log(worst rank / best rank)` over the retrievers, a passage that was not found counting
    as one past the last: from 1 to 10 is as far as from 10 to 100. Ranks count as deep as all the retrievers go. Each
    retriever that is best somewhere leads once before any leads twice, so that no single one looks like the answer to
    everything.
    """
    depth = min(ranking.indices.shape[1] for ranking in rankings)
    ranks = np.stack([_ranks(ranking.first(depth), question_set) for ranking in rankings])
    spread = np.log(ranks.max(axis=0)) - np.log(ranks.min(axis=0))
    order = [int(row) for row in np.argsort(-spread, kind="stable") if spread[row] > 0]
    chosen: list[int] = []
    led: set[int] = set()
    for row in order:
        leader = int(ranks[:, row].argmin())
        if leader not in led and len(chosen) < count:
            led.add(leader)
            chosen.append(row)
    chosen += [row for row in order if row not in chosen][: count - len(chosen)]
    return sorted(chosen, key=order.index)


def _ranks(rankings: Rankings, question_set: QuestionSet) -> np.ndarray:
    ranks = first_relevant_ranks(rankings, question_set)
    return np.where(ranks == 0, rankings.indices.shape[1] + 1, ranks)
