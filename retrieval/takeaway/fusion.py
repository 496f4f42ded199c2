"""How each engine mixes what its signals find, computed here, so that what changes there is known as a figure.

An engine asks every signal for its first `depth` passages and adds up, over the signals that found a passage, weight *
value, higher is better. The value of a score s in the list of its question, beside `retrieval.combine`'s min-max, is

- Elasticsearch, `minmax`: min-max; where all scores are equal, the score itself;
- OpenSearch, `min_max`: min-max, at least .001; `z_score`: (s - mean) / standard deviation (of a sample), and .001 for
  what is not above the mean;
- Weaviate, `relativeScoreFusion`: min-max;
- Milvus, `WeightedRanker`: 1/2 + arctan(s) / pi;
- Vespa, `normalize_linear`: min-max, but of all candidates together: every signal says something of each of them.

Each can fuse by rank instead: the sum of weight / (60 + rank).

A mix rises with a signal's score by a slope that may be another for each question. There it is one weight: the mean
over questions of slope * range of the list, divided by the mean range of its values there, so that the best and the
last of a list are as far apart as here, on average. Weights are brought to the sum 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.combine import RRF_CONSTANT, Fusion, normalised, summed
from mrc_workbench.retrieval.measures import CUT, evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, joined, ranked, top_k
from mrc_workbench.retrieval.significance import difference_intervals, question_groups
from mrc_workbench.retrieval.takeaway.signals import (
    LateTokens,
    Part,
    Plan,
    Signal,
    SparseTerms,
    TakeAwayError,
    Terms,
    Vectors,
)

MEASURE = f"ndcg@{CUT}"
_LEAST = 0.001  # that OpenSearch gives to what it found
_DIGITS = 6  # of a weight


class Engine(StrEnum):
    """What a retriever is taken away for."""

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
        """Whether it asks this program's own search, which changes nothing."""
        return self in (Engine.LANGCHAIN, Engine.LLAMAINDEX)


Value = Callable[[Rankings], np.ndarray]  # of every score found, NaN where nothing was


def _min_max(rankings: Rankings) -> np.ndarray:
    return normalised(rankings, Fusion.MIN_MAX)[0]


def _of_elasticsearch(rankings: Rankings) -> np.ndarray:
    scores = _scores(rankings)
    return np.where(_range(scores)[:, None] > 0, _min_max(rankings), scores)


def _of_opensearch(rankings: Rankings) -> np.ndarray:
    return np.asarray(np.maximum(_min_max(rankings), _LEAST))


def _z_of_opensearch(rankings: Rankings) -> np.ndarray:
    scores = _scores(rankings)
    count = np.maximum((~np.isnan(scores)).sum(axis=1, keepdims=True), 1)
    centred = scores - np.nansum(scores, axis=1, keepdims=True) / count
    deviation = np.sqrt(np.nansum(centred**2, axis=1, keepdims=True) / np.maximum(count - 1, 1))
    values = np.maximum(centred / np.where(deviation > 0, deviation, 1), _LEAST)
    return np.where(np.isnan(scores), np.nan, np.where(deviation > 0, values, scores))


def _of_milvus(rankings: Rankings) -> np.ndarray:
    return np.asarray(0.5 + np.arctan(_scores(rankings)) / np.pi)


def _by_rank(rankings: Rankings) -> np.ndarray:
    return normalised(rankings, Fusion.RRF)[0]


class Traits(NamedTuple):
    """How an engine mixes: `value` by its `technique`; how many signals of each kind it takes.

    `address` is the default one of its server. `rounds`: it stores lengths and weights in Lucene's precision.
    """

    value: Value
    technique: str
    address: str
    terms: int = 100
    vectors: int = 100
    signals: int = 100
    tokens: int = 0
    sparse: int = 0
    rounds: bool = False


TRAITS = {
    Engine.ELASTICSEARCH: Traits(
        _of_elasticsearch, "minmax", "http://127.0.0.1:9200", tokens=100, sparse=100, rounds=True
    ),
    Engine.OPENSEARCH: Traits(
        _of_opensearch, "min_max", "http://127.0.0.1:9200", signals=5, tokens=100, sparse=100, rounds=True
    ),
    Engine.VESPA: Traits(_min_max, "normalize_linear", "http://127.0.0.1:8080", tokens=100, sparse=100),
    Engine.WEAVIATE: Traits(_min_max, "relativeScoreFusion", "http://127.0.0.1:8080", terms=1, vectors=1),
    Engine.MILVUS: Traits(_of_milvus, "weighted", "", sparse=100),
}
_BY_DEVIATION = TRAITS[Engine.OPENSEARCH]._replace(value=_z_of_opensearch, technique="z_score")


@dataclass(frozen=True)
class Mix:
    """What an engine is given: signals, their weights of sum 1, and how their first `depth` passages are mixed.

    `units` are the usual ranges of the signals' lists, `(n_signals,)`: a first look at many candidates divides by them.
    `left_out` and `differs` are those of the plan, and the engine's own.
    """

    engine: Engine
    signals: tuple[Signal, ...]
    weights: tuple[float, ...]
    units: tuple[float, ...]
    depth: int
    technique: str
    by_rank: bool = False
    left_out: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """nDCG@10 of the questions compared, 0 to 1: here, there, and the 95% interval of what there is more or less."""

    engine: Engine
    here: float
    there: float
    low: float
    high: float
    left_out: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()


class Lists:
    """What the signals of a plan find for some questions, each searched once, whoever asks."""

    def __init__(self, plan: Plan, questions: Sequence[str]) -> None:
        self.plan, self.questions = plan, questions
        self._found: dict[tuple[str, bool], Rankings] = {}

    def of(self, signal: Signal, *, rounded: bool = False) -> Rankings:
        key = signal.field, rounded and isinstance(signal, Terms | SparseTerms)
        if key not in self._found:
            blocks = signal.score_blocks(self.questions, rounded=rounded)
            found = [top_k(scores, self.plan.depth) for scores in blocks]
            self._found[key] = joined(found or [Rankings.of_nothing(0, self.plan.depth)])
        return self._found[key]


def mix_of(engine: Engine, lists: Lists) -> Mix:
    """Return what the engine is given of a plan: the signals it takes, the weightiest where it takes few.

    Raises `TakeAwayError` (`nothing_to_take`) where it takes none.
    """
    plan, traits = lists.plan, _traits(engine, lists.plan)
    taken, lost = _taken(plan.parts, lists, traits)
    if not taken:
        message = (
            f"a folder for {engine.value} carries nothing of {plan.name!r}: take-away writes signals of BM25 and of "
            "bi-encoders, late interaction for elasticsearch, opensearch and vespa, and sparse encoders for these and "
            "milvus; langchain and llamaindex search by all of it"
        )
        raise TakeAwayError("nothing_to_take", message, name=plan.name)
    value = _by_rank if plan.by_rank else traits.value
    weights = np.array([_weight(part, lists.of(part.signal), value, by_rank=plan.by_rank) for part in taken])
    rounded = np.round(weights / weights.sum(), _DIGITS)
    rounded[-1] = round(1 - rounded[:-1].sum(), _DIGITS)  # engines want a sum of 1
    units = tuple(float(np.nanmean(_range(_scores(lists.of(part.signal))))) or 1.0 for part in taken)
    signals = tuple(part.signal for part in taken)
    differs = [*plan.differs, *(["left_out"] if lost and "left_out" not in plan.differs else [])]
    differs += ["lengths"] if traits.rounds and any(isinstance(one, Terms) for one in signals) else []
    differs += ["term_weights"] if traits.rounds and any(isinstance(one, SparseTerms) for one in signals) else []
    same = all(part.of_range for part in taken) and traits.value is not _of_milvus  # min-max is fused by min-max
    differs += ["normalised"] if len(signals) > 1 and not plan.by_rank and not same else []
    differs += ["candidates"] if len(signals) > 1 and engine is Engine.VESPA else []
    left_out = (*plan.left_out, *lost)
    technique = "rrf" if plan.by_rank else traits.technique
    return Mix(
        engine, signals, tuple(rounded.tolist()), units, plan.depth, technique, plan.by_rank, left_out, tuple(differs)
    )


def searched(mix: Mix, lists: Lists, k: int) -> Rankings:
    """Return the best k passages of each question, as the engine mixes them."""
    rounded = TRAITS[mix.engine].rounds
    found = [lists.of(signal, rounded=rounded) for signal in mix.signals]
    if len(found) == 1:
        return found[0].first(k)
    if mix.engine is Engine.VESPA:
        return _of_candidates(mix, lists.questions, k)
    value = _by_rank if mix.by_rank else _traits(mix.engine, lists.plan).value
    nothing = np.zeros(len(lists.questions))
    given = [(one, value(one), nothing, weight) for one, weight in zip(found, mix.weights, strict=True)]
    return summed(given, mix.signals[0].n_passages, k)


def figure_of(mix: Mix, here: Rankings, lists: Lists, question_set: QuestionSet) -> Figure:
    """Measure what the engine finds for the questions of the set against what is found `here`."""
    there = searched(mix, lists, CUT)
    values = [evaluate(one, question_set, (CUT,)).per_question[MEASURE] for one in (here, there)]
    ((low, high),) = difference_intervals((values[1] - values[0])[:, None], question_groups(question_set)).tolist()
    here_mean, there_mean = (float(one.mean()) for one in values)
    return Figure(mix.engine, here_mean, there_mean, low, high, mix.left_out, mix.differs)


def _traits(engine: Engine, plan: Plan) -> Traits:
    by_deviation = engine is Engine.OPENSEARCH and all(part.of_deviation and not part.constant for part in plan.parts)
    return _BY_DEVIATION if by_deviation else TRAITS[engine]


def _taken(parts: Sequence[Part], lists: Lists, traits: Traits) -> tuple[list[Part], list[str]]:
    places = {
        Terms.kind: traits.terms,
        Vectors.kind: traits.vectors,
        LateTokens.kind: traits.tokens,
        SparseTerms.kind: traits.sparse,
    }
    weight = {part.signal.field: _weight(part, lists.of(part.signal), _min_max, by_rank=False) for part in parts}
    fields = set[str]()
    for part in sorted(parts, key=lambda part: -weight[part.signal.field]):
        places[part.signal.kind] -= 1
        is_useful = weight[part.signal.field] > 0 or not fields  # an engine takes nothing from a passage
        if is_useful and places[part.signal.kind] >= 0 and len(fields) < traits.signals:
            fields.add(part.signal.field)
    lost = [part.signal.name for part in parts if part.signal.field not in fields]
    return [part for part in parts if part.signal.field in fields], lost


def _weight(part: Part, rankings: Rankings, value: Value, *, by_rank: bool) -> float:
    if by_rank:
        return part.of_range
    scores = _scores(rankings)
    ranges = _range(scores)
    known = ranges > 0
    if not known.any():
        return part.of_deviation + part.of_range + part.constant
    deviations = np.nanstd(scores[known], axis=1)
    apart = part.of_deviation * ranges[known] / deviations + part.of_range + part.constant * ranges[known]
    return float(apart.mean() / _range(value(Rankings(rankings.indices[known], rankings.scores[known]))).mean())


def _of_candidates(mix: Mix, questions: Sequence[str], k: int) -> Rankings:
    """Mix as Vespa does: a first look orders all that any signal finds, and the best of it are mixed by all signals."""
    blocks = zip(*(signal.score_blocks(questions) for signal in mix.signals), strict=True)
    indices, values = [], []
    for scores in blocks:
        said = [np.where(np.isfinite(one), one, 0.0) for one in scores]  # of no shared term, BM25 says 0
        first, among = np.zeros(said[0].shape), np.zeros(said[0].shape, dtype=bool)
        for place in first_look(mix):
            first += mix.weights[place] / mix.units[place] * said[place]
            known = np.isfinite(scores[place])
            if isinstance(mix.signals[place], Vectors):
                known = _best(scores[place], mix.depth)
            elif isinstance(mix.signals[place], SparseTerms):
                known = np.ones_like(known)  # a tensor is compared with every passage
            among |= known
        candidates = top_k(np.where(among, first, -np.inf), candidates_of(mix))
        total = np.zeros(candidates.indices.shape)
        for weight, one in zip(mix.weights, said, strict=True):
            of = np.take_along_axis(one, np.maximum(candidates.indices, 0), axis=1)
            order = Rankings(candidates.indices, np.where(candidates.indices != NOT_FOUND, of, -np.inf))
            # they stand in no order: the rank of each is that of its score
            places = np.argsort(np.argsort(-order.scores, axis=1, kind="stable"), axis=1, kind="stable")
            total += weight * (1 / (RRF_CONSTANT + 1.0 + places) if mix.by_rank else _min_max(order))
        indices.append(candidates.indices)
        values.append(np.where(candidates.indices != NOT_FOUND, total, -np.inf))
    return ranked(np.concatenate(indices), np.concatenate(values), k)


def first_look(mix: Mix) -> list[int]:
    """Return the places of the signals that find Vespa's candidates: all but tokens, which are compared after that."""
    found = [place for place, signal in enumerate(mix.signals) if not isinstance(signal, LateTokens)]
    return found or [*range(len(mix.signals))]


def candidates_of(mix: Mix) -> int:
    """How many candidates Vespa mixes: as many as the lists hold together."""
    return mix.depth * len(mix.signals)


def _best(scores: np.ndarray, depth: int) -> np.ndarray:
    """Return which of the scores are among the first `depth` of their row."""
    best = top_k(scores, depth).indices
    among = np.zeros(scores.shape, dtype=bool)
    places, is_any = np.where(best == NOT_FOUND, best[:, :1], best), np.isfinite(scores).any(axis=1)[:, None]
    np.put_along_axis(among, places, is_any, 1)
    return among


def _scores(rankings: Rankings) -> np.ndarray:
    return np.where(rankings.indices != NOT_FOUND, rankings.scores, np.nan).astype(np.float64)


def _range(scores: np.ndarray) -> np.ndarray:
    """How far apart the best and the last of each list are, `(n_questions,)`; 0 of an empty one."""
    ends = [at.reduce(scores, axis=1, initial=np.nan) for at in (np.fmax, np.fmin)]
    return np.asarray(np.nan_to_num(ends[0] - ends[1]))
