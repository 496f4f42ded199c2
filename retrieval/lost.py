"""Where questions are lost on their way through retrievers that wrap others.

A question counts as found where one of its relevant passages is among the first K (Hit@K). What a hybrid or a reranker
cannot find because no part of it brought the passage is one thing; what it was given and put too low is another.
"""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from retrieval.compare import Comparison
from retrieval.experiment import HybridSpec, RerankSpec, Spec
from retrieval.metrics import first_relevant_ranks

DEPTHS = (1, 2, 5, 10, 20, 50, 100)


class Fate(StrEnum):
    """What became of a question. `BELOW` and `NOT_FOUND` are of retrievers that wrap no other."""

    FOUND = "found"
    BELOW = "below"  # found, but below the first K
    NOT_FOUND = "not_found"
    NOT_A_CANDIDATE = "not_a_candidate"  # no part of it brought the passage
    LOST_IN_FUSION = "lost_in_fusion"
    LOST_IN_RERANKING = "lost_in_reranking"


FATES = tuple(Fate)


def fates(compared: Comparison, k: int) -> dict[str, np.ndarray]:
    """Tell the fate of every question with every retriever that has rankings, as places in `FATES` `(n_questions,)`.

    Raises `ValueError` where k is not within 1 and the depth of the rankings.
    """
    ranks = _ranks(compared)
    if k < 1 or any(k > one.rankings.indices.shape[1] for one in compared.results if one.rankings):
        raise ValueError(f"k={k} is not within the depth of the rankings")
    specs = {spec.name: spec for spec in compared.experiment.retriever}
    return {name: _fate(specs, ranks, name, k) for name in ranks}


def ceilings(compared: Comparison, depths: tuple[int, ...] = DEPTHS) -> dict[str, np.ndarray]:
    """Share of questions with a relevant passage among the candidates at each depth, `(len(depths),)`.

    That is what no reranking of so many candidates can exceed: of a reranker the first so many of the retriever it
    reads, of a hybrid the first so many of every part together, of any other its own. NaN past the depth searched.
    """
    ranks = _ranks(compared)
    searched = {one.name: one.rankings.indices.shape[1] for one in compared.results if one.rankings}
    found: dict[str, np.ndarray] = {}
    for spec in compared.experiment.retriever:
        parts = [name for name in spec.parts if name in ranks] or [spec.name]
        if spec.name in ranks:
            deepest = min(searched[name] for name in parts)
            shares = [_any_within(ranks, parts, depth).mean() if depth <= deepest else np.nan for depth in depths]
            found[spec.name] = np.array(shares)
    return found


def _ranks(compared: Comparison) -> dict[str, np.ndarray]:
    return {one.name: first_relevant_ranks(one.rankings, compared.asked) for one in compared.results if one.rankings}


def _within(ranks: np.ndarray, depth: int) -> np.ndarray:
    within: np.ndarray = (ranks > 0) & (ranks <= depth)
    return within


def _any_within(ranks: Mapping[str, np.ndarray], names: list[str], depth: int) -> np.ndarray:
    return np.any([_within(ranks[name], depth) for name in names], axis=0)  # type: ignore[no-any-return]


def _fate(specs: Mapping[str, Spec], ranks: Mapping[str, np.ndarray], name: str, k: int) -> np.ndarray:
    spec = specs[name]
    if isinstance(spec, HybridSpec):
        given = _any_within(ranks, list(spec.of), max(spec.depth, k))
        lost = np.where(given, FATES.index(Fate.LOST_IN_FUSION), FATES.index(Fate.NOT_A_CANDIDATE))
    elif isinstance(spec, RerankSpec):
        depth = max(spec.depth, k)
        before = _fate(specs, ranks, spec.first, depth)
        never_near = (FATES.index(Fate.BELOW), FATES.index(Fate.NOT_FOUND))
        before = np.where(np.isin(before, never_near), FATES.index(Fate.NOT_A_CANDIDATE), before)
        lost = np.where(_within(ranks[spec.first], depth), FATES.index(Fate.LOST_IN_RERANKING), before)
    else:
        lost = np.where(ranks[name] > 0, FATES.index(Fate.BELOW), FATES.index(Fate.NOT_FOUND))
    return np.where(_within(ranks[name], k), FATES.index(Fate.FOUND), lost)
