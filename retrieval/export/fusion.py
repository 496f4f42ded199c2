"""The fusion of each engine, computed here, to measure how much the results of an engine differ.

An engine searches the top `depth` passages of every signal. The fused score of a passage is the sum of weight * value
over the signals that return it; higher is better. The value of a score s in the list of its question is

- Elasticsearch, `minmax`: min-max; if all scores are equal, the score itself;
- OpenSearch, `min_max`: min-max, at least .001; `z_score`: (s - mean) / sample standard deviation, at least .001;
- Weaviate, `relativeScoreFusion`: min-max;
- Milvus, `WeightedRanker`: 1/2 + arctan(s) / pi;
- Vespa, `normalize_linear`: min-max over all candidates, which all signals score.

Each engine can fuse by rank instead: the sum of weight / (60 + rank).

The score of a mix rises with a signal's score by a slope that may differ between questions. An engine has one weight:
the mean over questions of slope * range of the list, divided by the mean range of the engine's values, so that the
first and the last passage of a list have the same distance as here, on average. Weights sum to 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.combine import RRF_CONSTANT, Fusion, normalize_scores, sum_by_passage
from mrc_workbench.retrieval.export import signals
from mrc_workbench.retrieval.export.signals import ExportPlan, Signal, WeightedSignal
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, concatenate, rank_candidates, top_k
from mrc_workbench.retrieval.significance import difference_intervals, question_groups

MEASURE = f"ndcg@{DEFAULT_CUTOFF}"
_MIN_VALUE = 0.001  # of a result in OpenSearch
_WEIGHT_DIGITS = 6


class ExportTarget(StrEnum):
    """The target of an export."""

    ELASTICSEARCH = "elasticsearch"
    OPENSEARCH = "opensearch"
    VESPA = "vespa"
    WEAVIATE = "weaviate"
    MILVUS = "milvus"
    LANGCHAIN = "langchain"
    LLAMAINDEX = "llamaindex"
    ONNX = "onnx"  # its models, without the search

    @property
    def is_library(self) -> bool:
        """Whether it calls the search of this program, with the same results."""
        return self in (ExportTarget.LANGCHAIN, ExportTarget.LLAMAINDEX)


ScoreTransform = Callable[[Rankings], np.ndarray]  # the value of every score, NaN for missing results


def _min_max(rankings: Rankings) -> np.ndarray:
    return normalize_scores(rankings, Fusion.MIN_MAX)[0]


def _elasticsearch_values(rankings: Rankings) -> np.ndarray:
    scores = _scores(rankings)
    return np.where(_score_range(scores)[:, None] > 0, _min_max(rankings), scores)


def _opensearch_values(rankings: Rankings) -> np.ndarray:
    return np.asarray(np.maximum(_min_max(rankings), _MIN_VALUE))


def _opensearch_z_scores(rankings: Rankings) -> np.ndarray:
    scores = _scores(rankings)
    count = np.maximum((~np.isnan(scores)).sum(axis=1, keepdims=True), 1)
    centred = scores - np.nansum(scores, axis=1, keepdims=True) / count
    deviation = np.sqrt(np.nansum(centred**2, axis=1, keepdims=True) / np.maximum(count - 1, 1))
    values = np.maximum(centred / np.where(deviation > 0, deviation, 1), _MIN_VALUE)
    return np.where(np.isnan(scores), np.nan, np.where(deviation > 0, values, scores))


def _milvus_values(rankings: Rankings) -> np.ndarray:
    return np.asarray(0.5 + np.arctan(_scores(rankings)) / np.pi)


def _by_rank(rankings: Rankings) -> np.ndarray:
    return normalize_scores(rankings, Fusion.RRF)[0]


class Traits(NamedTuple):
    """The fusion of an engine, and the maximum number of signals of each kind.

    `address` is the default one of its server. `rounds`: it stores lengths and weights in Lucene's precision.
    """

    value: ScoreTransform
    technique: str
    address: str
    terms: int = 100
    vectors: int = 100
    signals: int = 100
    tokens: int = 0
    sparse: int = 0
    rounds: bool = False


_LUCENE: dict[str, Any] = {"address": "http://127.0.0.1:9200", "tokens": 100, "sparse": 100, "rounds": True}
TRAITS = {
    ExportTarget.ELASTICSEARCH: Traits(_elasticsearch_values, "minmax", **_LUCENE),
    ExportTarget.OPENSEARCH: Traits(_opensearch_values, "min_max", signals=5, **_LUCENE),
    ExportTarget.VESPA: Traits(_min_max, "normalize_linear", "http://127.0.0.1:8080", tokens=100, sparse=100),
    ExportTarget.WEAVIATE: Traits(_min_max, "relativeScoreFusion", "http://127.0.0.1:8080", terms=1, vectors=1),
    ExportTarget.MILVUS: Traits(_milvus_values, "weighted", "", sparse=100),
}
_OPENSEARCH_Z_SCORE = TRAITS[ExportTarget.OPENSEARCH]._replace(value=_opensearch_z_scores, technique="z_score")


@dataclass(frozen=True)
class Mix:
    """The signals of an engine, their weights of sum 1, and the fusion of their top `depth` passages.

    `units` are the mean ranges of the signals' lists, `(n_signals,)`, by which Vespa's first phase divides scores.
    `left_out` and `differences` are those of the plan and of the engine.
    """

    engine: ExportTarget
    signals: tuple[Signal, ...]
    weights: tuple[float, ...]
    units: tuple[float, ...]
    depth: int
    technique: str
    by_rank: bool = False
    left_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class EngineMetrics:
    """nDCG@10 of the compared questions, 0 to 1, here and in the engine, and the 95% interval of the difference."""

    engine: ExportTarget
    workbench_score: float
    engine_score: float
    low: float
    high: float
    left_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    _earlier = accept_earlier_names({"here": "workbench_score", "there": "engine_score", "differs": "differences"})


class SignalRankings:
    """The cached rankings of a plan's signals for some questions."""

    def __init__(self, plan: ExportPlan, questions: Sequence[str]) -> None:
        self.plan = plan
        self.questions = questions
        self._cache: dict[tuple[str, bool], Rankings] = {}

    def rankings_for(self, signal: Signal, *, rounded: bool = False) -> Rankings:
        key = signal.field, rounded and isinstance(signal, signals.Terms | signals.SparseTerms)
        if key not in self._cache:
            blocks = signal.score_blocks(self.questions, rounded=rounded)
            rankings = [top_k(scores, self.plan.depth) for scores in blocks]
            self._cache[key] = concatenate(rankings or [Rankings.empty(0, self.plan.depth)])
        return self._cache[key]


def build_mix(engine: ExportTarget, signal_rankings: SignalRankings) -> Mix:
    """Return the engine's mix of a plan: supported signals, those with the highest weights if it supports few.

    Raises `ExportError` (`nothing_to_take`) if it supports none.
    """
    plan = signal_rankings.plan
    traits = _engine_traits(engine, plan)
    selected, omitted = _select_signals(plan.parts, signal_rankings, traits)
    if not selected:
        message = (
            f"{engine.value} supports no component of {plan.name!r}: `export` writes signals of BM25 and of "
            "bi-encoders, late interaction for elasticsearch, opensearch and vespa, and sparse encoders for these and "
            "milvus; langchain and llamaindex search by all of it"
        )
        raise signals.ExportError("nothing_to_take", message, name=plan.name)
    value = _by_rank if plan.by_rank else traits.value
    rankings = [signal_rankings.rankings_for(part.signal) for part in selected]
    pairs = list(zip(selected, rankings, strict=True))
    weights = np.array([_signal_weight(part, ranking, value, by_rank=plan.by_rank) for part, ranking in pairs])
    rounded = np.round(weights / weights.sum(), _WEIGHT_DIGITS)
    rounded[-1] = round(1 - rounded[:-1].sum(), _WEIGHT_DIGITS)  # engines require a sum of 1
    units = tuple(float(np.nanmean(_score_range(_scores(ranking)))) or 1.0 for ranking in rankings)
    selected_signals = tuple(part.signal for part in selected)
    is_min_max = all(part.per_range for part in selected) and traits.value is not _milvus_values
    applicable = {
        "left_out": omitted and "left_out" not in plan.differences,
        "lengths": traits.rounds and any(isinstance(signal, signals.Terms) for signal in selected_signals),
        "term_weights": traits.rounds and any(isinstance(signal, signals.SparseTerms) for signal in selected_signals),
        "normalised": len(selected_signals) > 1 and not plan.by_rank and not is_min_max,
        "candidates": len(selected_signals) > 1 and engine is ExportTarget.VESPA,
    }
    differences = (*plan.differences, *(code for code, applies in applicable.items() if applies))
    technique = "rrf" if plan.by_rank else traits.technique
    fused = tuple(rounded.tolist()), units, plan.depth, technique, plan.by_rank
    return Mix(engine, selected_signals, *fused, left_out=(*plan.left_out, *omitted), differences=differences)


def search_mix(mix: Mix, signal_rankings: SignalRankings, k: int) -> Rankings:
    """Return the top k passages of each question by the engine's fusion."""
    rounded = TRAITS[mix.engine].rounds
    rankings = [signal_rankings.rankings_for(signal, rounded=rounded) for signal in mix.signals]
    if len(rankings) == 1:
        return rankings[0].first(k)
    if mix.engine is ExportTarget.VESPA:
        return _mix_candidates(mix, signal_rankings.questions, k)
    value = _by_rank if mix.by_rank else _engine_traits(mix.engine, signal_rankings.plan).value
    zeros = np.zeros(len(signal_rankings.questions))
    weighted = zip(rankings, mix.weights, strict=True)
    components = [(ranking, value(ranking), zeros, weight) for ranking, weight in weighted]
    return sum_by_passage(components, mix.signals[0].n_passages, k)


def measure_engine(
    mix: Mix, here: Rankings, signal_rankings: SignalRankings, question_set: QuestionSet
) -> EngineMetrics:
    """Compare the engine's results with the rankings `here`."""
    there = search_mix(mix, signal_rankings, DEFAULT_CUTOFF)
    values = [evaluate(item, question_set, (DEFAULT_CUTOFF,)).per_question[MEASURE] for item in (here, there)]
    ((low, high),) = difference_intervals((values[1] - values[0])[:, None], question_groups(question_set)).tolist()
    here_mean, there_mean = (float(item.mean()) for item in values)
    return EngineMetrics(mix.engine, here_mean, there_mean, low, high, mix.left_out, mix.differences)


def _engine_traits(engine: ExportTarget, plan: ExportPlan) -> Traits:
    by_deviation = all(part.per_deviation and not part.constant for part in plan.parts)
    return _OPENSEARCH_Z_SCORE if engine is ExportTarget.OPENSEARCH and by_deviation else TRAITS[engine]


def _select_signals(
    parts: Sequence[WeightedSignal], signal_rankings: SignalRankings, traits: Traits
) -> tuple[list[WeightedSignal], list[str]]:
    free_slots = {
        signals.Terms.kind: traits.terms,
        signals.Vectors.kind: traits.vectors,
        signals.LateTokens.kind: traits.tokens,
        signals.SparseTerms.kind: traits.sparse,
    }
    weight = {
        part.signal.field: _signal_weight(part, signal_rankings.rankings_for(part.signal), _min_max, by_rank=False)
        for part in parts
    }
    fields = set[str]()
    for part in sorted(parts, key=lambda part: -weight[part.signal.field]):
        free_slots[part.signal.kind] -= 1
        is_useful = weight[part.signal.field] > 0 or not fields  # weights of engines are not negative
        if is_useful and free_slots[part.signal.kind] >= 0 and len(fields) < traits.signals:
            fields.add(part.signal.field)
    omitted = [part.signal.name for part in parts if part.signal.field not in fields]
    return [part for part in parts if part.signal.field in fields], omitted


def _signal_weight(part: WeightedSignal, rankings: Rankings, value: ScoreTransform, *, by_rank: bool) -> float:
    if by_rank:
        return part.per_range
    scores = _scores(rankings)
    ranges = _score_range(scores)
    known = ranges > 0
    if not known.any():
        return part.per_deviation + part.per_range + part.constant
    deviations = np.nanstd(scores[known], axis=1)
    contributions = part.per_deviation * ranges[known] / deviations + part.per_range + part.constant * ranges[known]
    values = value(Rankings(rankings.indices[known], rankings.scores[known]))
    return float(contributions.mean() / _score_range(values).mean())


def _mix_candidates(mix: Mix, questions: Sequence[str], k: int) -> Rankings:
    """Mix as Vespa: the first phase ranks the results of all signals, the global phase mixes the best of them."""
    blocks = zip(*(signal.score_blocks(questions) for signal in mix.signals), strict=True)
    indices = []
    values = []
    for scores in blocks:
        finite_scores = [np.where(np.isfinite(entry), entry, 0.0) for entry in scores]  # 0 without a shared term
        first_phase_scores = np.zeros(finite_scores[0].shape)
        is_candidate = np.zeros(finite_scores[0].shape, dtype=bool)
        for index in first_phase_signals(mix):
            first_phase_scores += mix.weights[index] / mix.units[index] * finite_scores[index]
            known = np.isfinite(scores[index])
            if isinstance(mix.signals[index], signals.Vectors):
                known = _top_mask(scores[index], mix.depth)
            elif isinstance(mix.signals[index], signals.SparseTerms):
                known = np.ones_like(known)  # Vespa scores all passages with a tensor
            is_candidate |= known
        candidates = top_k(np.where(is_candidate, first_phase_scores, -np.inf), candidate_count(mix))
        total = np.zeros(candidates.indices.shape)
        for weight, signal_scores in zip(mix.weights, finite_scores, strict=True):
            candidate_scores = np.take_along_axis(signal_scores, np.maximum(candidates.indices, 0), axis=1)
            order = Rankings(candidates.indices, np.where(candidates.indices != NOT_FOUND, candidate_scores, -np.inf))
            # the lists are not sorted: ranks follow scores
            ranks = np.argsort(np.argsort(-order.scores, axis=1, kind="stable"), axis=1, kind="stable")
            total += weight * (1 / (RRF_CONSTANT + 1.0 + ranks) if mix.by_rank else _min_max(order))
        indices.append(candidates.indices)
        values.append(np.where(candidates.indices != NOT_FOUND, total, -np.inf))
    return rank_candidates(np.concatenate(indices), np.concatenate(values), k)


def first_phase_signals(mix: Mix) -> list[int]:
    """Return the positions of the signals that return Vespa's candidates: all but tokens, if there are others."""
    indices = [index for index, signal in enumerate(mix.signals) if not isinstance(signal, signals.LateTokens)]
    return indices or [*range(len(mix.signals))]


def candidate_count(mix: Mix) -> int:
    """Return the number of candidates that Vespa mixes."""
    return mix.depth * len(mix.signals)


def _top_mask(scores: np.ndarray, depth: int) -> np.ndarray:
    """Return a mask of the top `depth` scores of each row."""
    best = top_k(scores, depth).indices
    is_top = np.zeros(scores.shape, dtype=bool)
    positions = np.where(best == NOT_FOUND, best[:, :1], best)
    is_any = np.isfinite(scores).any(axis=1)[:, None]
    np.put_along_axis(is_top, positions, is_any, 1)
    return is_top


def _scores(rankings: Rankings) -> np.ndarray:
    return np.where(rankings.indices != NOT_FOUND, rankings.scores, np.nan).astype(np.float64)


def _score_range(scores: np.ndarray) -> np.ndarray:
    """Return the difference of the first and the last score of each list, `(n_questions,)`, 0 for empty ones."""
    extremes = [reducer.reduce(scores, axis=1, initial=np.nan) for reducer in (np.fmax, np.fmin)]
    return np.asarray(np.nan_to_num(extremes[0] - extremes[1]))
