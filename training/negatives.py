"""Hard negatives: passages that a retriever ranks high for a question they do not answer."""

import numpy as np

from data.records import QuestionSet
from retrieval.rankings import NOT_FOUND, Rankings


def hard_negatives(
    rankings: Rankings, question_set: QuestionSet, count: int, seed: int, allowed: np.ndarray | None = None
) -> np.ndarray:
    """Draw `count` passages a question from its ranking, none of them relevant to it, seeded.

    `allowed` says of each passage whether it may be drawn, `(n_passages,)` bool; left out, all may. Returns rows of the
    corpus `(n_questions, count)` int32, -1 where the ranking holds fewer.
    """
    rows = np.arange(len(rankings.indices))[:, None]
    relevant = np.asarray(question_set.relevance[rows, np.maximum(rankings.indices, 0)].todense())
    usable = (rankings.indices != NOT_FOUND) & ~relevant
    if allowed is not None:
        usable &= allowed[rankings.indices]
    lottery = np.where(usable, np.random.default_rng(seed).random(usable.shape), np.inf)
    drawn = np.argsort(lottery, axis=1)[:, :count]
    negatives = np.where(
        np.take_along_axis(usable, drawn, 1), np.take_along_axis(rankings.indices, drawn, 1), NOT_FOUND
    ).astype(np.int32)
    return np.pad(negatives, ((0, 0), (0, count - negatives.shape[1])), constant_values=NOT_FOUND)
