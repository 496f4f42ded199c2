"""From a comparison down to single questions: their ranks, which to look at, and where each retriever loses them.

A question counts as found if one of its relevant passages is among the first K (Hit@K). A hybrid or a reranker misses a
passage because no part of it brought the passage, or because it ranks the passage too low.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd

from mrc_workbench.data.questions import word_overlap
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import first_relevant_ranks
from mrc_workbench.retrieval.rankings import Findings, Rankings

BANDS = (1, 5, 10, 20, 50, 100)  # last rank of each band; one band more holds what lies deeper or was not found


class Quadrant(StrEnum):
    """Which of two retrievers find a question."""

    BOTH = "both"
    ONLY_FIRST = "only_first"
    ONLY_SECOND = "only_second"
    NEITHER = "neither"


@dataclass(frozen=True)
class Block:
    """Neighbouring questions of the map, from `start` up to `end`, that one retriever (a column) ranks in one band."""

    column: int
    start: int
    end: int
    band: int


@dataclass(frozen=True)
class RankMap:
    """Ranks `(n_questions, n_retrievers)` int64 of the first relevant passage, 0 if none was found.

    `order` are the question rows as the map shows them, sorted by the band of the first retriever, then of the second
    and so on.
    """

    ranks: np.ndarray
    order: np.ndarray

    def blocks(self) -> list[Block]:
        bands = bands_of(self.ranks)[self.order]
        blocks: list[Block] = []
        for number, column in enumerate(bands.T):
            edges = (np.flatnonzero(np.diff(column)) + 1).tolist()
            ends = pairwise([0, *edges, len(column)] if len(column) else [])
            blocks += [Block(number, start, end, int(column[start])) for start, end in ends]
        return blocks


def rank_map(rankings: Sequence[Rankings], question_set: QuestionSet) -> RankMap:
    """Make the map of one or more retrievers' rankings."""
    ranks = np.stack([first_relevant_ranks(one, question_set) for one in rankings], axis=1)
    return RankMap(ranks, np.lexsort(bands_of(ranks).T[::-1]))


def bands_of(ranks: np.ndarray) -> np.ndarray:
    """Return the band of each rank: its position in `BANDS`, `len(BANDS)` if it is deeper or 0 (not found)."""
    return np.where(ranks == 0, len(BANDS), np.searchsorted(BANDS, ranks))


def quadrants(first: np.ndarray, second: np.ndarray, k: int) -> dict[Quadrant, np.ndarray]:
    """Return question rows (ascending) by which of two retrievers, given by ranks, finds them among its first k."""
    a, b = (_within(ranks, k) for ranks in (first, second))
    return {
        Quadrant.BOTH: np.flatnonzero(a & b),
        Quadrant.ONLY_FIRST: np.flatnonzero(a & ~b),
        Quadrant.ONLY_SECOND: np.flatnonzero(~a & b),
        Quadrant.NEITHER: np.flatnonzero(~a & ~b),
    }


def band_counts(ranks: np.ndarray) -> np.ndarray:
    """Count the questions of each retriever in each band of ranks, `(n_retrievers, n_bands)` int64."""
    found = bands_of(ranks)
    return np.stack([np.bincount(column, minlength=len(BANDS) + 1) for column in found.T])


def most_unlike(ranks: np.ndarray, first: int, k: int) -> int:
    """Return the retriever (a column) with most questions that it alone or `first` alone finds among the first k.

    `ranks` are those of a `RankMap`. A single retriever is returned itself.
    """
    hits = _within(ranks, k)
    differences = (hits != hits[:, [first]]).sum(axis=0)
    differences[first] = -1
    return int(differences.argmax())


def spread(ranks: np.ndarray, depth: int) -> np.ndarray:
    """Return how much the retrievers disagree on each question, `(n_questions,)`: `log(worst rank / best rank)`.

    Passages not among the first `depth` count as one past them.
    """
    placed = np.where((ranks == 0) | (ranks > depth), depth + 1, ranks)
    logs: np.ndarray = np.log(placed.max(axis=1) / placed.min(axis=1))  # of the ratio: equal ones stay equal
    return logs


def question_table(question_set: QuestionSet, ranks: np.ndarray, names: Sequence[str], depth: int) -> pd.DataFrame:
    """One row a question, most disputed first; the index is its row in the set.

    Columns: "id", "question", "kind", one a retriever, `rank_0`, `rank_1`, ... (Int64, missing where not found), and
    "overlap" (`data.questions.word_overlap`, 0 to 1).
    """
    rows = [(question.id, question.text, question.kind) for question in question_set.questions]
    table = pd.DataFrame(rows, columns=["id", "question", "kind"])
    for column in range(len(names)):
        table[f"rank_{column}"] = pd.Series(ranks[:, column], dtype="Int64").where(ranks[:, column] > 0)
    table["overlap"] = word_overlap(question_set)
    return table.iloc[np.argsort(-spread(ranks, depth), kind="stable")]


def rows_with_text(question_set: QuestionSet, text: str) -> np.ndarray:
    """Return rows of the questions whose words, id or answers hold `text`, in any case."""
    text = text.strip().lower()
    return np.flatnonzero(
        [
            text == question.id.lower() or any(text in one.lower() for one in (question.text, *question.answers))
            for question in question_set.questions
        ]
    )


def rows_in_all(count: int, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return those of `count` rows that are in every part, `(n,)` bool as a mask of all rows."""
    rows = np.arange(count)
    return np.isin(rows, reduce(np.intersect1d, parts, rows))


def findings_of(compared: Comparison, row: int) -> dict[str, Findings]:
    """Return the stored results of every retriever that has rankings for the question at `row`."""
    return {
        name: Findings.of(Rankings(one.indices[[row]], one.scores[[row]])) for name, one in compared.rankings.items()
    }


def same_article(question_set: QuestionSet, row: int) -> frozenset[int]:
    """Return rows of the passages from the articles of a question's relevant passages that are not relevant."""
    relevant = {question_set.row_of_passage[id_] for id_ in question_set.questions[row].relevant}
    titles = set(question_set.passages.titles.at(sorted(relevant))) - {""}
    return frozenset(
        place for place, title in enumerate(question_set.passages.titles) if title in titles and place not in relevant
    )


def most_disputed(rankings: Sequence[Rankings], question_set: QuestionSet, count: int) -> list[int]:
    """Return rows of the questions with the largest `spread` of ranks, as deep as all the retrievers go, widest first.

    Each retriever that is best on some question leads once before any leads twice, so that none looks always best.
    """
    depth = min(ranking.indices.shape[1] for ranking in rankings)
    ranks = np.stack([first_relevant_ranks(one.first(depth), question_set) for one in rankings], axis=1)
    spreads = spread(ranks, depth)
    order = [int(row) for row in np.argsort(-spreads, kind="stable") if spreads[row] > 0]
    leaders = np.where(ranks == 0, depth + 1, ranks).argmin(axis=1)
    first_led = {leaders[row]: row for row in reversed(order)}
    selected = sorted(first_led.values(), key=order.index)[:count]
    selected += [row for row in order if row not in selected][: count - len(selected)]
    return sorted(selected, key=order.index)


DEPTHS = (1, 2, 5, 10, 20, 50, 100)


class Fate(StrEnum):
    """The fate of a question. `BELOW` and `NOT_FOUND` are of retrievers that wrap no other."""

    FOUND = "found"
    BELOW = "below"  # found, but below the first K
    NOT_FOUND = "not_found"
    NOT_A_CANDIDATE = "not_a_candidate"  # no part of it brought the passage
    LOST_IN_FUSION = "lost_in_fusion"
    LOST_IN_RERANKING = "lost_in_reranking"


FATES = tuple(Fate)
_PLACE = {fate: place for place, fate in enumerate(FATES)}


def fates(compared: Comparison, k: int) -> dict[str, np.ndarray]:
    """Return the fate of every question by retriever, as positions in `FATES` `(n_questions,)`.

    Left out are retrievers that were not searched k deep, and those that wrap one without rankings. Raises `ValueError`
    if k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    ranks, experiment = _ranks(compared), compared.experiment
    traced = [name for name in ranks if all(spec.name in ranks for spec in experiment.needed([name]))]
    deep = [name for name in traced if compared.rankings[name].indices.shape[1] >= k]
    return {name: _fate(experiment.specs, ranks, name, k) for name in deep}


def fate_counts(found: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Count the fates of `fates`: a row a retriever, by name, a column each of `FATES`, by its value."""
    counts = {name: np.bincount(places, minlength=len(FATES)) for name, places in found.items()}
    return pd.DataFrame.from_dict(counts, orient="index", columns=[fate.value for fate in FATES])


def ceilings(compared: Comparison, depths: Sequence[int] = DEPTHS) -> dict[str, np.ndarray]:
    """Return the fraction of questions with a relevant passage among the candidates at each depth, `(len(depths),)`.

    No order of so many candidates can exceed it. Candidates are the first of the retriever that a reranker reads, of
    every part of a hybrid together, or its own. NaN past the depth searched.
    """
    ranks = _ranks(compared)
    limits: dict[str, np.ndarray] = {}
    for spec in compared.experiment.retriever:
        if spec.name in ranks and all(name in ranks for name in spec.sources):
            deepest = min(compared.rankings[name].indices.shape[1] for name in spec.sources)
            hits = [_any_within(ranks, spec.sources, depth).mean() for depth in depths]
            limits[spec.name] = np.where(np.array(depths) <= deepest, hits, np.nan)
    return limits


def _ranks(compared: Comparison) -> dict[str, np.ndarray]:
    return {name: first_relevant_ranks(one, compared.question_set) for name, one in compared.rankings.items()}


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
