"""Where questions are lost on their way through retrievers that wrap others.

A question counts as found where one of its relevant passages is among the first K (Hit@K). What a hybrid or a reranker
cannot find because no part of it brought the passage is one thing; what it was given and put too low is another.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import pandas as pd

from retrieval.comparison.compare import Comparison
from retrieval.comparison.kinds.spec import Spec
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
    ranks, depths, experiment = _ranks(compared), _depths(compared), compared.experiment
    traced = [name for name in ranks if all(spec.name in ranks for spec in experiment.needed([name]))]
    return {name: _fate(experiment.specs, ranks, name, k) for name in traced if depths[name] >= k}


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
        if spec.name in ranks and all(name in ranks for name in spec.sources):
            deepest = min(searched[name] for name in spec.sources)
            shares = [
                _any_within(ranks, spec.sources, depth).mean() if depth <= deepest else np.nan for depth in depths
            ]
            found[spec.name] = np.array(shares)
    return found


def _ranks(compared: Comparison) -> dict[str, np.ndarray]:
    return {name: first_relevant_ranks(one, compared.question_set) for name, one in compared.rankings.items()}


def _depths(compared: Comparison) -> dict[str, int]:
    return {name: one.indices.shape[1] for name, one in compared.rankings.items()}


def _within(ranks: np.ndarray, depth: int) -> np.ndarray:
    within: np.ndarray = (ranks > 0) & (ranks <= depth)
    return within


def _any_within(ranks: Mapping[str, np.ndarray], names: Sequence[str], depth: int) -> np.ndarray:
    return np.any([_within(ranks[name], depth) for name in names], axis=0)  # type: ignore[no-any-return]


def _fate(specs: Mapping[str, Spec], ranks: Mapping[str, np.ndarray], name: str, k: int) -> np.ndarray:
    spec = specs[name]
    depth = spec.candidates(k)
    if len(spec.parts) > 1:
        given = _any_within(ranks, spec.sources, depth)
        lost = np.where(given, _PLACE[Fate.LOST_IN_FUSION], _PLACE[Fate.NOT_A_CANDIDATE])
    elif spec.parts:
        before = _fate(specs, ranks, spec.parts[0], depth)
        never_near = np.isin(before, (_PLACE[Fate.BELOW], _PLACE[Fate.NOT_FOUND]))
        lost = np.where(never_near, _PLACE[Fate.NOT_A_CANDIDATE], before)
        lost = np.where(before == _PLACE[Fate.FOUND], _PLACE[Fate.LOST_IN_RERANKING], lost)
    else:
        lost = np.where(ranks[name] > 0, _PLACE[Fate.BELOW], _PLACE[Fate.NOT_FOUND])
    return np.where(_within(ranks[name], k), _PLACE[Fate.FOUND], lost)
