"""Why a hybrid or a reranker puts a passage where it does: what each of its parts adds to the score."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.hybrid import Fusion, min_max, normalised
from retrieval.rankings import Rankings


@dataclass(frozen=True)
class PartContribution:
    """The rank and score of a passage in one part's own list, and `value = weight * normalised`, what the part adds.

    Rank (1 is best) and score are None where the list does not hold the passage, or where there is no such list;
    `normalised` is None where a part weighs nothing and its scores were not kept.
    """

    rank: int | None
    score: float | None
    normalised: float | None
    weight: float
    value: float


@dataclass(frozen=True)
class FusionExplanation:
    """What each retriever, by name, adds to the fused score of a passage; their values sum to it."""

    parts: Mapping[str, PartContribution]

    @property
    def score(self) -> float:
        return math.fsum(part.value for part in self.parts.values())

    @property
    def found(self) -> bool:
        """Whether a retriever that counts brought the passage; if none did, the hybrid does not find it."""
        return any(part.rank is not None and part.weight > 0 for part in self.parts.values())


@dataclass(frozen=True)
class RerankExplanation:
    """Where a passage stood before and after reranking, None where it was not found or lies past the list kept.

    `score` is the one in the new list. `first` and `reranker` add up to it; they are None for a passage that the
    reranker did not read (past its depth: its score only keeps the order) and one past the new list.
    """

    rank_before: int | None
    rank_after: int | None
    score: float | None
    first: PartContribution | None = None
    reranker: PartContribution | None = None


def fusion_contributions(
    lists: Mapping[str, Rankings],
    question: int,
    passage: int,
    *,
    depth: int,
    fusion: Fusion,
    weights: Sequence[float] | None = None,
) -> FusionExplanation:
    """Explain the score that a hybrid of these retrievers gives a passage; question and passage are rows.

    `lists` holds the rankings of each retriever by name, in the hybrid's order, at least as deep as the `depth` it
    fuses: a list that was cut above has another range and deviation. `weights` None means 1 each.
    """
    parts = {}
    for (name, rankings), weight in zip(lists.items(), weights or [1.0] * len(lists), strict=True):
        one = _of_question(rankings, question).first(depth)
        values, absent = normalised(one, fusion)
        rank, score = _standing(one, passage)
        value = float(values[0, rank - 1] if rank else absent[0])
        parts[name] = PartContribution(rank, score, value, weight, weight * value)
    return FusionExplanation(parts)


def rerank_contributions(
    before: Rankings, after: Rankings, question: int, passage: int, *, depth: int, weight: float
) -> RerankExplanation:
    """Explain the move of a passage from the first retriever's ranking to the reranked one, without the model.

    The new score is `weight * r + (1 - weight) * f` with f the first retriever's score brought to 0..1 over the `depth`
    passages read, so the two lists also tell r, the reranker's. `before` must be at least `depth` deep.
    """
    before, after = _of_question(before, question), _of_question(after, question)
    (rank, first_score), (new_rank, score) = (_standing(one, passage) for one in (before, after))
    if rank is None or rank > depth or score is None:
        return RerankExplanation(rank, new_rank, score)
    normal = float(min_max(before.first(depth).scores)[0, rank - 1])
    first_value = (1 - weight) * normal
    value = score - first_value if weight else 0.0
    return RerankExplanation(
        rank,
        new_rank,
        score,
        PartContribution(rank, first_score, normal, 1 - weight, first_value),
        PartContribution(None, None, value / weight if weight else None, weight, value),
    )


def _of_question(rankings: Rankings, question: int) -> Rankings:
    return Rankings(rankings.indices[[question]], rankings.scores[[question]])


def _standing(rankings: Rankings, passage: int) -> tuple[int | None, float | None]:
    """Rank (1 is best) and score of a passage in the rankings of one question."""
    places = np.flatnonzero(rankings.indices[0] == passage)
    return (int(places[0]) + 1, float(rankings.scores[0, places[0]])) if len(places) else (None, None)
