"""The questions of a comparison: their ranks, slices of similar questions, and the step that loses each of them.

A retriever finds a question if a relevant passage is in its top K (Hit@K). A hybrid or a reranker misses a passage if
none of its components returns it, or if it ranks the passage too low.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.questions import word_overlap
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import PLAIN_PART, Analyzer, resolve_analyzer
from mrc_workbench.retrieval.comparison.compare import Comparison, values_by_retriever
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.lexical.terms import shared_terms
from mrc_workbench.retrieval.measures import Scores, first_relevant_ranks
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.significance import LEVEL, difference_intervals, holm, pair_tests, proportion_intervals

BANDS = (1, 5, 10, 20, 50, 100)  # last rank of each band; one more band holds deeper ranks and misses
DEPTHS = (1, 2, 5, 10, 20, 50, 100)


class Quadrant(StrEnum):
    """Which of two retrievers find a question."""

    BOTH = "both"
    ONLY_FIRST = "only_first"
    ONLY_SECOND = "only_second"
    NEITHER = "neither"


@dataclass(frozen=True)
class RankBlock:
    """Adjacent questions of the map, from `start` up to `end`, that one retriever (a column) ranks in one band."""

    column: int
    start: int
    end: int
    band: int


@dataclass(frozen=True)
class RankMap:
    """Ranks `(n_questions, n_retrievers)` int64 of the first relevant passage, 0 for none.

    `order` are the question rows sorted by the band of the first retriever, then of the second and so on.
    """

    ranks: np.ndarray
    order: np.ndarray

    def blocks(self) -> list[RankBlock]:
        bands = rank_bands(self.ranks)[self.order]
        blocks: list[RankBlock] = []
        for number, column in enumerate(bands.T):
            changes = (np.flatnonzero(np.diff(column)) + 1).tolist()
            ends = pairwise([0, *changes, len(column)] if len(column) else [])
            blocks += [RankBlock(number, start, end, int(column[start])) for start, end in ends]
        return blocks


def rank_map(rankings: Sequence[Rankings], question_set: QuestionSet) -> RankMap:
    """Return the ranks of one or more retrievers."""
    ranks = np.stack([first_relevant_ranks(ranking, question_set) for ranking in rankings], axis=1)
    return RankMap(ranks, np.lexsort(rank_bands(ranks).T[::-1]))


def rank_bands(ranks: np.ndarray) -> np.ndarray:
    """Return the position of each rank's band in `BANDS`, `len(BANDS)` for deeper ranks and 0."""
    return np.where(ranks == 0, len(BANDS), np.searchsorted(BANDS, ranks))


def quadrants(first: np.ndarray, second: np.ndarray, k: int) -> dict[Quadrant, np.ndarray]:
    """Return ascending rows of the questions that both, one or none of two retrievers find, from their ranks."""
    a, b = (_is_within(ranks, k) for ranks in (first, second))
    masks = (a & b, a & ~b, ~a & b, ~a & ~b)  # in the order of `Quadrant`
    return {quadrant: np.flatnonzero(mask) for quadrant, mask in zip(Quadrant, masks, strict=True)}


def band_counts(ranks: np.ndarray) -> np.ndarray:
    """Count the questions of each retriever in each band of ranks, `(n_retrievers, n_bands)` int64."""
    return np.stack([np.bincount(column, minlength=len(BANDS) + 1) for column in rank_bands(ranks).T])


def most_different_retriever(ranks: np.ndarray, first: int, k: int) -> int:
    """Return the column (`first` if single) with the most questions that only it or only `first` finds in the top k."""
    hits = _is_within(ranks, k)
    differences = (hits != hits[:, [first]]).sum(axis=0)
    differences[first] = -1
    return int(differences.argmax())


def spread(ranks: np.ndarray, depth: int) -> np.ndarray:
    """Return `log(worst rank / best rank)` of each question, `(n_questions,)`; deeper ranks are `depth + 1`."""
    capped = np.where((ranks == 0) | (ranks > depth), depth + 1, ranks)
    ratio = capped.max(axis=1) / capped.min(axis=1)  # a ratio, so that ties stay ties
    return np.asarray(np.log(ratio))


def question_table(question_set: QuestionSet, ranks: np.ndarray, names: Sequence[str], depth: int) -> pd.DataFrame:
    """Return a row for each question, most disputed first; the index is its row in the set.

    Columns: "id", "question", "kind", a rank for each retriever, `rank_0` ... (Int64, missing for none), "overlap".
    """
    rows = [(question.id, question.text, question.kind) for question in question_set.questions]
    table = pd.DataFrame(rows, columns=["id", "question", "kind"])
    for column in range(len(names)):
        table[f"rank_{column}"] = pd.Series(ranks[:, column], dtype="Int64").where(ranks[:, column] > 0)
    table["overlap"] = word_overlap(question_set)
    return table.iloc[np.argsort(-spread(ranks, depth), kind="stable")]


def rows_with_text(question_set: QuestionSet, text: str) -> np.ndarray:
    """Return rows of the questions that contain `text` in their words, id or answers, in any case."""
    text = text.strip().lower()
    fields = [(question.id, (question.text, *question.answers)) for question in question_set.questions]
    has_text = [text == id_.lower() or any(text in field.lower() for field in texts) for id_, texts in fields]
    return np.flatnonzero(has_text)


def same_article_rows(question_set: QuestionSet, row: int) -> frozenset[int]:
    """Return rows of the other passages in the articles of a question's relevant passages."""
    relevant = {question_set.row_of_passage[id_] for id_ in question_set.questions[row].relevant}
    titles = question_set.passages.titles
    relevant_titles = set(titles.at(sorted(relevant))) - {""}
    same_title = {passage for passage, title in enumerate(titles) if title in relevant_titles}
    return frozenset(same_title - relevant)


def most_disputed(rankings: Sequence[Rankings], question_set: QuestionSet, count: int) -> list[int]:
    """Return rows of the questions with the largest `spread` of ranks, at the depth of all rankings, widest first.

    The list includes a question for each retriever that is best on some question, so that none looks always best.
    """
    depth = min(ranking.indices.shape[1] for ranking in rankings)
    ranks = rank_map([full_ranking.first(depth) for full_ranking in rankings], question_set).ranks
    spreads = spread(ranks, depth)
    order = [row for row in np.argsort(-spreads, kind="stable").tolist() if spreads[row] > 0]
    leaders = np.where(ranks == 0, depth + 1, ranks).argmin(axis=1)
    first_led = {leaders[row]: row for row in reversed(order)}
    selected = sorted(first_led.values(), key=order.index)[:count]
    others = [row for row in order if row not in selected][: count - len(selected)]
    return sorted([*selected, *others], key=order.index)


class RetrievalOutcome(StrEnum):
    """The outcome of a question. Only retrievers that wrap no other have `BELOW` and `NOT_FOUND`."""

    FOUND = "found"
    BELOW = "below"  # a relevant passage ranks below the top K
    NOT_FOUND = "not_found"
    NOT_A_CANDIDATE = "not_a_candidate"  # no component returns a relevant passage
    LOST_IN_FUSION = "lost_in_fusion"
    LOST_IN_RERANKING = "lost_in_reranking"


OUTCOMES = tuple(RetrievalOutcome)
_FOUND, _BELOW, _NOT_FOUND, _NOT_A_CANDIDATE, _LOST_IN_FUSION, _LOST_IN_RERANKING = range(len(OUTCOMES))


def find_outcomes(compared: Comparison, k: int) -> dict[str, np.ndarray]:
    """Return the outcome of every question by retriever, as positions in `OUTCOMES`, `(n_questions,)`.

    Rankings with fewer than k results, and retrievers with a component without rankings, are left out. Raises
    `ValueError` for k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    ranks = _ranks(compared)
    experiment = compared.experiment
    return {
        name: _outcome(experiment.specs, ranks, name, k)
        for name in ranks
        if compared.rankings[name].indices.shape[1] >= k
        and all(spec.name in ranks for spec in experiment.with_dependencies([name]))
    }


def count_outcomes(outcomes: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Count outcomes: a row for each retriever, by name, and a column for each of `OUTCOMES`, by value."""
    counts = {name: np.bincount(outcome, minlength=len(OUTCOMES)) for name, outcome in outcomes.items()}
    return pd.DataFrame.from_dict(counts, orient="index", columns=[outcome.value for outcome in OUTCOMES])


def ceilings(compared: Comparison, depths: Sequence[int] = DEPTHS) -> dict[str, np.ndarray]:
    """Return the fraction of questions with a relevant passage among the candidates at each depth, `(len(depths),)`.

    No order of so many candidates can exceed it. Candidates are the top passages of a reranker's first stage, of all
    components of a hybrid together, or its own. NaN below the stored depth.
    """
    ranks = _ranks(compared)
    limits = {}
    for spec in compared.experiment.retriever:
        if spec.name in ranks and all(name in ranks for name in spec.sources):
            deepest = min(compared.rankings[name].indices.shape[1] for name in spec.sources)
            hits = [_is_any_within(ranks, spec.sources, depth).mean() for depth in depths]
            limits[spec.name] = np.where(np.array(depths) <= deepest, hits, np.nan)
    return limits


def _ranks(compared: Comparison) -> dict[str, np.ndarray]:
    return {name: first_relevant_ranks(rankings, compared.question_set) for name, rankings in compared.rankings.items()}


def _is_within(ranks: np.ndarray, depth: int) -> np.ndarray:
    return np.asarray((ranks > 0) & (ranks <= depth))


def _is_any_within(ranks: Mapping[str, np.ndarray], names: Sequence[str], depth: int) -> np.ndarray:
    return np.asarray(np.any([_is_within(ranks[name], depth) for name in names], axis=0))


def _outcome(specs: Mapping[str, Spec], ranks: Mapping[str, np.ndarray], name: str, k: int) -> np.ndarray:
    spec = specs[name]
    depth = spec.candidate_depth(k)
    if len(spec.components) > 1:
        if_missed = np.where(_is_any_within(ranks, spec.sources, depth), _LOST_IN_FUSION, _NOT_A_CANDIDATE)
    elif spec.components:
        first_stage = _outcome(specs, ranks, spec.components[0], depth)
        if_missed = np.where(np.isin(first_stage, (_BELOW, _NOT_FOUND)), _NOT_A_CANDIDATE, first_stage)
        if_missed = np.where(first_stage == _FOUND, _LOST_IN_RERANKING, if_missed)
    else:
        if_missed = np.where(ranks[name] > 0, _BELOW, _NOT_FOUND)
    return np.where(_is_within(ranks[name], k), _FOUND, if_missed)


class SliceProperty(StrEnum):
    """A property that slices questions. Lengths are in characters."""

    KIND = "kind"
    QUESTION_LENGTH = "question_length"
    PASSAGE_LENGTH = "passage_length"
    OVERLAP = "overlap"
    MATCHED_TERMS = "terms_found"
    ARTICLE = "article"


@dataclass(frozen=True)
class Slice:
    """Questions at `rows` (ascending) with a `label`, or else with a value from `low` to `high`, both included."""

    rows: np.ndarray
    label: str = ""
    low: float = float("nan")
    high: float = float("nan")


def properties(question_set: QuestionSet) -> list[SliceProperty]:
    """Return the properties that can slice these questions: kinds and articles only if the set has at least two."""
    labels = {name: {*labels_of(question_set)} - {""} for name, labels_of in _LABEL_PROPERTIES.items()}
    return [name for name in SliceProperty if name not in labels or len(labels[name]) > 1]


def slices(question_set: QuestionSet, slice_property: SliceProperty) -> list[Slice]:
    """Cut questions that all have a relevant passage into slices.

    Kinds and articles are sorted by size; numbers make up to four ranges of about as many questions each. Equal values
    are in the same range, and a question without a value is in no slice.
    """
    if slice_property in _LABEL_PROPERTIES:
        labels = _LABEL_PROPERTIES[slice_property](question_set)
        rows = pd.Series(range(len(labels))).groupby(pd.Series(labels, dtype=object)).indices
        named = [Slice(np.sort(label_rows), str(label)) for label, label_rows in rows.items() if label]
        return sorted(named, key=lambda part: -len(part.rows))
    values = _NUMERIC_PROPERTIES[slice_property](question_set)
    known = np.flatnonzero(~np.isnan(values))
    # equal values have the same rank, which never separates them
    quantiles = (pd.Series(values[known]).rank().to_numpy() - 0.5) / max(1, len(known))
    quarters = (quantiles * 4).astype(np.int64)
    parts = [known[quarters == number] for number in np.unique(quarters)]
    return [Slice(rows, low=float(values[rows].min()), high=float(values[rows].max())) for rows in parts]


def slice_table(
    parts: Sequence[Slice], scores: Mapping[str, Scores], measure: str, groups: np.ndarray | None = None
) -> pd.DataFrame:
    """Measure every retriever that has the measure on every slice, a row each, with `groups` as in `significance`.

    Columns: "slice" (its position in `parts`), "questions", "retriever", "mean" with its 95% interval "low" to "high",
    and "difference" from the first retriever with its uncorrected interval "difference_low" to "difference_high".
    """
    columns = ["slice", "questions", "retriever", "mean", "low", "high"]
    columns += ["difference", "difference_low", "difference_high"]
    known = values_by_retriever(scores, measure)
    if not known:
        return pd.DataFrame(columns=columns)
    values = np.stack([*known.values()], axis=1)
    rows: list[tuple[object, ...]] = []
    for number, part in enumerate(parts):
        slice_values = values[part.rows]
        differences = slice_values - slice_values[:, :1]
        intervals = proportion_intervals(slice_values, _groups_in(groups, part))
        difference_bounds = difference_intervals(differences, _groups_in(groups, part))
        for column, name in enumerate(known):
            mean = slice_values[:, column].mean(), *intervals[column]
            difference = differences[:, column].mean(), *difference_bounds[column]
            rows.append((number, len(part.rows), name, *mean, *difference))
    return pd.DataFrame(rows, columns=columns)


def slice_tests(
    parts: Sequence[Slice], scores: Mapping[str, Scores], measure: str, groups: np.ndarray | None = None
) -> np.ndarray:
    """Test each difference of `slice_table` as `pair_tests` does: p-values in the order of its rows.

    They are Holm-corrected over all slices and retrievers; NaN for the first retriever.
    """
    known = values_by_retriever(scores, measure)
    p_values: list[float] = []
    for part in parts if known else []:
        slice_scores = {name: Scores((), {measure: values[part.rows]}) for name, values in known.items()}
        tests = pair_tests(slice_scores, [measure], _groups_in(groups, part))
        first, *others = known
        p_of = {test.b: test.p for test in tests if test.a == first}
        p_values += [np.nan, *(p_of[name] for name in others)]
    p = np.array(p_values)
    p[~np.isnan(p)] = holm(p[~np.isnan(p)])
    return p


def largest_significant_difference(table: pd.DataFrame) -> "pd.Series[Any] | None":
    """Return the row of a `slice_table` with "p_holm" that has the largest significant difference, or None."""
    excludes_zero = (table["difference_low"] > 0) | (table["difference_high"] < 0)
    significant = table[excludes_zero & (table["p_holm"] < 1 - LEVEL)]
    return significant.iloc[int(significant["difference"].abs().to_numpy().argmax())] if len(significant) else None


def most_contested_slices(table: pd.DataFrame, count: int) -> list[int]:
    """Return the `count` slices with the largest difference in questions from the first retriever, then in size."""
    changed = (table["difference"].abs() * table["questions"]).groupby(table["slice"]).max()
    contested = pd.DataFrame({"changed": changed, "size": table.groupby("slice")["questions"].first()})
    ranked = contested.sort_values(["changed", "size"], ascending=False, kind="stable")
    return [int(slice_index) for slice_index in ranked.index[:count]]


def matched_terms(question_set: QuestionSet) -> np.ndarray:
    """Return the number of distinct content words that each question shares with its passage, `(n_questions,)` float64.

    Words are Kiwi's content morphemes in Korean, else those of the default analyzer. The best relevant passage counts.
    """
    analyzer = resolve_analyzer(Analyzer.AUTO, question_set.passages.indexed_texts(title=True))
    rows, counts = shared_terms(question_set, PLAIN_PART.get(analyzer, analyzer))  # words, not bigrams
    most = np.zeros(len(question_set.questions))
    np.maximum.at(most, rows, counts)
    return most


def _groups_in(groups: np.ndarray | None, part: Slice) -> np.ndarray | None:
    return None if groups is None else np.unique(groups[part.rows], return_inverse=True)[1]


def first_relevant_passages(question_set: QuestionSet) -> list[Passage]:
    """Return the first relevant passage of each question; all questions have one."""
    row_of = question_set.row_of_passage
    return [question_set.passages[row_of[question.relevant[0]]] for question in question_set.questions]


def _text_lengths(items: Sequence[Question | Passage]) -> np.ndarray:
    return np.array([len(item.text) for item in items], dtype=np.float64)


_LABEL_PROPERTIES: dict[SliceProperty, Callable[[QuestionSet], list[str]]] = {
    SliceProperty.KIND: lambda questions: [question.kind for question in questions.questions],
    SliceProperty.ARTICLE: lambda questions: [passage.title for passage in first_relevant_passages(questions)],
}
_NUMERIC_PROPERTIES: dict[SliceProperty, Callable[[QuestionSet], np.ndarray]] = {
    SliceProperty.QUESTION_LENGTH: lambda questions: _text_lengths(questions.questions),
    SliceProperty.PASSAGE_LENGTH: lambda questions: _text_lengths(first_relevant_passages(questions)),
    SliceProperty.OVERLAP: word_overlap,
    SliceProperty.MATCHED_TERMS: matched_terms,
}


def slice_labels(parts: Sequence[Slice], slice_property: SliceProperty) -> list[str]:
    """Return the label of each slice, or its range with the fewest decimals that distinguish all of them."""
    for decimals in range(4):
        number_format = f".{decimals}%" if slice_property is SliceProperty.OVERLAP else f",.{decimals}f"
        bounds = [(f"{part.low:{number_format}}", f"{part.high:{number_format}}") for part in parts]
        ranges = [low if low == high else f"{low.removesuffix('%')}–{high}" for low, high in bounds]
        labels = [part.label or range_ for part, range_ in zip(parts, ranges, strict=True)]
        if len(set(labels)) == len(labels):
            break
    return labels
