"""Where questions are lost on their way through retrievers that wrap others.

A question counts as found where one of its relevant passages is among the first K (Hit@K). What a hybrid or a reranker
cannot find because no part of it brought the passage is one thing; what it was given and put too low is another.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import pandas as pd

from retrieval.comparison.compare import Comparison
from retrieval.comparison.experiment import HybridSpec, RerankSpec, Spec
from retrieval.evaluation.measures import first_relevant_ranks

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
_PLACE = {fate: place for place, fate in enumerate(FATES)}


def fates(compared: Comparison, k: int) -> dict[str, np.ndarray]:
    """Tell the fate of every question with every retriever, as places in `FATES` `(n_questions,)`.

    A retriever that was not searched k deep has none, nor has one that wraps a retriever without rankings: what became
    of its questions is not known. Raises `ValueError` where k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    ranks, depths = _ranks(compared), _depths(compared)
    specs = {spec.name: spec for spec in compared.experiment.retriever}
    return {name: _fate(specs, ranks, name, k) for name in ranks if depths[name] >= k and _traced(specs, ranks, name)}


def fate_counts(found: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Count the fates of `fates`: a row a retriever, by name, a column each of `FATES`, by its value."""
    counts = {name: np.bincount(places, minlength=len(FATES)) for name, places in found.items()}
    return pd.DataFrame.from_dict(counts, orient="index", columns=[fate.value for fate in FATES])


def ceilings(compared: Comparison, depths: Sequence[int] = DEPTHS) -> dict[str, np.ndarray]:
    """Share of questions with a relevant passage among the candidates at each depth, `(len(depths),)`.

    That is what no order of so many candidates can exceed: of a reranker the first so many of the retriever it reads,
    of a hybrid the first so many of every part together, of any other its own. NaN past the depth searched.
    """
    ranks, searched = _ranks(compared), _depths(compared)
    found: dict[str, np.ndarray] = {}
    for spec in compared.experiment.retriever:
        sources = candidate_sources(spec)
        if spec.name in ranks and all(name in ranks for name in sources):
            deepest = min(searched[name] for name in sources)
            shares = [_any_within(ranks, sources, depth).mean() if depth <= deepest else np.nan for depth in depths]
            found[spec.name] = np.array(shares)
    return found


def candidate_sources(spec: Spec) -> tuple[str, ...]:
    """Names of the retrievers whose passages this one orders: itself where it wraps no other."""
    if isinstance(spec, HybridSpec) and spec.weights:  # a part of weight 0 brings no candidates
        return tuple(name for name, weight in zip(spec.of, spec.weights, strict=True) if weight)
    return spec.parts or (spec.name,)


def candidate_depth(spec: Spec, k: int) -> int:
    """How many passages of each source a retriever orders to find its first k; 0 where it wraps no other."""
    if isinstance(spec, RerankSpec):
        return max(spec.depth, k)  # those below the candidates keep their order, and may be among the first k
    return spec.depth if isinstance(spec, HybridSpec) else 0


def _ranks(compared: Comparison) -> dict[str, np.ndarray]:
    return {
        one.name: first_relevant_ranks(one.rankings, compared.question_set) for one in compared.results if one.rankings
    }


def _depths(compared: Comparison) -> dict[str, int]:
    return {one.name: one.rankings.indices.shape[1] for one in compared.results if one.rankings}


def _traced(specs: Mapping[str, Spec], ranks: Mapping[str, np.ndarray], name: str) -> bool:
    return name in ranks and all(_traced(specs, ranks, part) for part in specs[name].parts)


def _within(ranks: np.ndarray, depth: int) -> np.ndarray:
    within: np.ndarray = (ranks > 0) & (ranks <= depth)
    return within


def _any_within(ranks: Mapping[str, np.ndarray], names: Sequence[str], depth: int) -> np.ndarray:
    return np.any([_within(ranks[name], depth) for name in names], axis=0)  # type: ignore[no-any-return]


def _fate(specs: Mapping[str, Spec], ranks: Mapping[str, np.ndarray], name: str, k: int) -> np.ndarray:
    spec = specs[name]
    depth = candidate_depth(spec, k)
    if isinstance(spec, HybridSpec):
        given = _any_within(ranks, candidate_sources(spec), depth)
        lost = np.where(given, _PLACE[Fate.LOST_IN_FUSION], _PLACE[Fate.NOT_A_CANDIDATE])
    elif isinstance(spec, RerankSpec):
        before = _fate(specs, ranks, spec.first, depth)
        never_near = np.isin(before, (_PLACE[Fate.BELOW], _PLACE[Fate.NOT_FOUND]))
        lost = np.where(never_near, _PLACE[Fate.NOT_A_CANDIDATE], before)
        lost = np.where(before == _PLACE[Fate.FOUND], _PLACE[Fate.LOST_IN_RERANKING], lost)
    else:
        lost = np.where(ranks[name] > 0, _PLACE[Fate.BELOW], _PLACE[Fate.NOT_FOUND])
    return np.where(_within(ranks[name], k), _PLACE[Fate.FOUND], lost)
