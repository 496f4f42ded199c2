"""What each engine's mixing comes to, against loops that follow the engines' own formulas one question at a time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import build_context, compare
from mrc_workbench.retrieval.export import fusion, signals
from mrc_workbench.retrieval.export.fusion import ExportTarget, Mix, SignalRankings, build_mix, search_mix
from mrc_workbench.retrieval.export.signals import ExportError, ExportPlan, WeightedSignal, plan_export
from mrc_workbench.retrieval.mix import LearnedMix
from tests.doubles import small_set, texts_of
from tests.engines.base import nine_bits
from tests.retrieval.compared import BIGRAMS, WORDS, experiment_of, many_questions

N = 30
DEPTH = 8
K = 10
WEIGHTS = (0.7, 0.3)


class Given:
    """A signal whose scores are given, `(n_questions, n_passages)`."""

    def __init__(self, field: str, scores: np.ndarray) -> None:
        self.field = self.name = field
        self.scores = scores
        self.n_passages = scores.shape[1]

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        del questions, rounded
        yield self.scores


class Scored(Given, signals.Vectors): ...


class LateScored(Given, signals.LateTokens): ...


class TermsScored(Given, signals.SparseTerms): ...


def scores_of_signals(seed: int, few: bool = False) -> list[np.ndarray]:
    """Scores of two signals for six questions; with `few`, some lists hold one passage, equal scores, or nothing."""
    draw = np.random.default_rng(seed)
    score_arrays = [draw.normal(3, 2, (6, N)), draw.uniform(-1, 1, (6, N))]
    if few:
        score_arrays[0][0] = -np.inf
        score_arrays[0][1, 1:] = -np.inf
        score_arrays[1][2] = 0.25
    return score_arrays


def lists_of(scores: list[np.ndarray], slope: str, *, by_rank: bool = False) -> SignalRankings:
    fields = [Scored(f"signal_{number}", score_array) for number, score_array in enumerate(scores)]
    parts = [WeightedSignal(field, **{slope: weight}) for field, weight in zip(fields, WEIGHTS, strict=True)]
    return SignalRankings(ExportPlan("mix", tuple(parts), DEPTH, by_rank), [""] * len(scores[0]))


def first(scores: np.ndarray, depth: int = DEPTH) -> dict[int, float]:
    order = sorted(range(N), key=lambda row: (-scores[row], row))[:depth]
    return {row: float(scores[row]) for row in order if math.isfinite(scores[row])}


def value(technique: str, scores_by_row: dict[int, float], row: int) -> float:
    """The engine's value of a passage in the list that one signal found."""
    scores = list(scores_by_row.values())
    score = scores_by_row[row]
    low = min(scores)
    high = max(scores)
    mean = sum(scores) / len(scores)
    if technique == "rrf":
        return 1 / (61 + list(scores_by_row).index(row))
    if technique == "weighted":
        return 0.5 + math.atan(score) / math.pi
    if technique == "z_score":
        deviation = math.sqrt(sum((listed_score - mean) ** 2 for listed_score in scores) / max(1, len(scores) - 1))
        return max(0.001, (score - mean) / deviation) if deviation else score
    if low == high:
        return score if technique == "minmax" else 1.0
    scaled = (score - low) / (high - low)
    return max(0.001, scaled) if technique == "min_max" else scaled


def weight_by_loop(technique: str, scores: np.ndarray, slope: str, weight: float) -> float:
    """Mean of slope * range, divided by the mean range of the values."""
    ranges = []
    engine_ranges = []
    for row in scores:
        scores_by_row = first(row)
        ends = list(scores_by_row.values())
        if not ends or max(ends) == min(ends):
            continue
        spread = max(ends) - min(ends)
        deviation = float(np.std(ends))
        ranges.append(weight * {"per_range": 1.0, "per_deviation": spread / deviation}[slope])
        values = [value(technique, scores_by_row, row_in_list) for row_in_list in scores_by_row]
        engine_ranges.append(max(values) - min(values))
    return sum(ranges) / sum(engine_ranges)


def mixed_by_loop(technique: str, scores: list[np.ndarray], weights: Sequence[float]) -> list[list[int]]:
    mixed_rows = []
    for question in range(len(scores[0])):
        total: dict[int, float] = {}
        for score_array, weight in zip(scores, weights, strict=True):
            of = first(score_array[question])
            for row in of:
                total[row] = total.get(row, 0.0) + weight * value(technique, of, row)
        mixed_rows.append(sorted(total, key=lambda row: (-np.float32(total[row]), row))[:K])
    return mixed_rows


def rows_of(indices: np.ndarray) -> list[list[int]]:
    return [[row for row in ranked_rows if row >= 0] for ranked_rows in indices.tolist()]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("slope", ["per_range", "per_deviation"])
@pytest.mark.parametrize("engine", [ExportTarget.ELASTICSEARCH, ExportTarget.OPENSEARCH, ExportTarget.MILVUS])
@pytest.mark.parametrize("seed", range(3))
def test_mixes_by_engine_formula(engine: ExportTarget, slope: str, few: bool, seed: int) -> None:
    scores = scores_of_signals(seed, few)
    lists = lists_of(scores, slope)
    mix = build_mix(engine, lists)
    expected = [weight_by_loop(mix.technique, *item) for item in zip(scores, [slope] * 2, WEIGHTS, strict=True)]
    is_z_score = (engine, slope) == (ExportTarget.OPENSEARCH, "per_deviation")
    assert mix.technique == ("z_score" if is_z_score else fusion.TRAITS[engine].technique)
    assert mix.weights == pytest.approx([item / sum(expected) for item in expected], abs=1e-5)
    assert sum(mix.weights) == pytest.approx(1, abs=1e-9)
    assert rows_of(search_mix(mix, lists, K).indices) == mixed_by_loop(mix.technique, scores, mix.weights)


@pytest.mark.parametrize("engine", [ExportTarget.ELASTICSEARCH, ExportTarget.OPENSEARCH, ExportTarget.MILVUS])
def test_fuses_ranks_alike_in_every_engine(engine: ExportTarget) -> None:
    scores = scores_of_signals(0)
    lists = lists_of(scores, "per_range", by_rank=True)
    mix = build_mix(engine, lists)
    assert (mix.technique, mix.weights, mix.differences) == ("rrf", WEIGHTS, ())
    assert rows_of(search_mix(mix, lists, K).indices) == mixed_by_loop("rrf", scores, WEIGHTS)


def vespa_by_loop(mix: Mix, scores: list[np.ndarray], technique: str, *, every: bool = False) -> list[list[int]]:
    """Mix the candidates that the first two signals order: all passages with `every`, else those they find."""
    expected = []
    for question in range(6):
        of = [score_array[question] for score_array in scores]
        looking = list(zip(mix.weights, mix.units, of, strict=True))[:2]
        looked = {row: sum(weight / unit * own[row] for weight, unit, own in looking) for row in range(N)}
        among = [row for row in looked if every or any(row in first(score_array) for score_array in of[:2])]
        candidates = sorted(among, key=lambda row: -looked[row])[: 2 * DEPTH]
        total = dict.fromkeys(candidates, 0.0)
        for weight, score_array in zip(mix.weights, of, strict=True):
            values = dict(sorted(((row, float(score_array[row])) for row in candidates), key=lambda pair: -pair[1]))
            for row in candidates:
                total[row] += weight * value(technique, values, row)
        expected.append(sorted(total, key=lambda row: (-np.float32(total[row]), row))[:K])
    return expected


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by_rank", [False, True])
def test_vespa_mixes_first_phase_candidates(by_rank: bool, late: bool) -> None:
    scores = scores_of_signals(1)
    lists = lists_of(scores, "per_range", by_rank=by_rank)
    if late:  # it scores only the candidates
        tokens = WeightedSignal(LateScored("tokens", np.random.default_rng(5).uniform(0, 1, (6, N))), per_range=0.4)
        lists = SignalRankings(replace(lists.plan, parts=(*lists.plan.parts, tokens)), lists.questions)
    mix = build_mix(ExportTarget.VESPA, lists)
    assert [signal.name for signal in mix.signals] == [part.signal.name for part in lists.plan.parts]
    of = [signal.scores for signal in mix.signals]  # type: ignore[union-attr]
    expected = vespa_by_loop(mix, of, "rrf" if by_rank else "scaled")
    assert rows_of(search_mix(mix, lists, K).indices) == expected


def test_exports_heaviest_signals_if_engine_takes_few() -> None:
    mix = build_mix(ExportTarget.WEAVIATE, lists_of(scores_of_signals(0), "per_range"))
    assert ([signal.name for signal in mix.signals], mix.weights, mix.left_out) == (["signal_0"], (1.0,), ("signal_1",))


@pytest.mark.parametrize("engine", fusion.TRAITS)
def test_exports_only_supported_signal_kinds(engine: ExportTarget) -> None:
    scores = np.random.default_rng(2).uniform(0.1, 1, (3, 6, N))
    kinds = {"dense": Scored, "late": LateScored, "sparse": TermsScored}
    parts = [WeightedSignal(kinds[name](name, item), per_range=0.3) for name, item in zip(kinds, scores, strict=True)]
    lists = SignalRankings(ExportPlan("mix", tuple(parts), DEPTH), [""] * 6)
    mix = build_mix(engine, lists)
    without = {ExportTarget.WEAVIATE: {"late", "sparse"}, ExportTarget.MILVUS: {"late"}}.get(engine, set())
    assert {*mix.left_out} == without
    assert {item.name for item in mix.signals} == {"dense", "late", "sparse"} - without
    assert ("term_weights" in mix.differences) == (engine in (ExportTarget.ELASTICSEARCH, ExportTarget.OPENSEARCH))
    assert search_mix(mix, lists, 5).indices.shape == (6, 5)


def test_vespa_mixes_all_passages_for_sparse_encoder() -> None:
    """Vespa compares a tensor with every passage, so each passage is a candidate, also one without a shared term."""
    dense, sparse = scores_of_signals(4)
    sparse = np.where(sparse > 0.5, sparse, -np.inf)
    vectors = WeightedSignal(Scored("dense", dense), per_range=0.6)
    terms = WeightedSignal(TermsScored("sparse", sparse), per_range=0.4)
    lists = SignalRankings(ExportPlan("mix", (vectors, terms), DEPTH), [""] * 6)
    mix = build_mix(ExportTarget.VESPA, lists)
    scores = [dense, np.where(np.isfinite(sparse), sparse, 0.0)]
    assert rows_of(search_mix(mix, lists, K).indices) == vespa_by_loop(mix, scores, "scaled", every=True)


def test_rounds_term_weights_like_lucene() -> None:
    weights = np.random.default_rng(3).uniform(0.001, 50, 2000).astype(np.float32)
    stored = signals.round_to_nine_bits(weights)
    assert stored.tolist() == [nine_bits(weight) for weight in weights.tolist()]
    assert ((stored <= weights) & (stored > weights * (1 - 2**-8))).all()
    exact = np.array([0.5, 1.0, 1.5, 257 / 256, 3.0], dtype=np.float32)
    assert signals.round_to_nine_bits(exact).tolist() == exact.tolist()


def test_rounds_lengths_like_lucene() -> None:
    def encoded(length: int) -> int:  # SmallFloat: four significant bits above 24
        over = length - 24
        if over < 0:
            return length
        shift = max(0, over.bit_length() - 4)
        return 24 + (over >> shift << shift)

    lengths = np.arange(3000)
    assert signals.round_to_byte(lengths).tolist() == [encoded(passage_length) for passage_length in lengths.tolist()]
    assert len(np.unique(signals.round_to_byte(np.arange(2**20)))) < 256


MIX = {"name": "mix", "kind": "hybrid", "retrievers": ["bigrams", "words"]}
HYBRID = MIX | {"fusion": Fusion.MIN_MAX, "weights": [3, 1]}
RERANKED = {"name": "again", "kind": "rerank", "first_stage": "mix", "model": "starter"}


def test_term_hybrid_is_identical_with_exact_lengths() -> None:
    whole = small_set()
    comparison = compare(experiment_of(BIGRAMS, WORDS, HYBRID), whole)
    lists = SignalRankings(plan_export("mix", build_context(comparison.experiment, whole)), texts_of(whole.questions))
    # passages are short: a byte holds their lengths
    for engine in (ExportTarget.ELASTICSEARCH, ExportTarget.OPENSEARCH):
        metrics = fusion.measure_engine(build_mix(engine, lists), comparison.rankings["mix"], lists, whole)
        expected = comparison.scores["mix"].means().get(fusion.MEASURE, metrics.workbench_score)
        assert metrics.engine_score == metrics.workbench_score == expected
        assert (metrics.low, metrics.high, metrics.differences) == (0, 0, ("lengths",))


def test_exports_learned_mix_with_weights_of_all_questions() -> None:
    """Of each signal the slope of its two values: that of the z-score, and of the distance to the best."""
    whole, _ = many_questions(12)
    experiment = experiment_of(BIGRAMS, WORDS, {"name": "mix", "kind": "learned", "retrievers": ["bigrams", "words"]})
    context = build_context(experiment, whole)
    plan = plan_export("mix", context)
    mix = context.get_retriever("mix").retriever
    assert isinstance(mix, LearnedMix)
    names = [part.name for part in mix.retrievers]
    exported = [part.signal.name for part in plan.parts]
    assert exported[:2] == ["bigrams", "words"]
    assert {*plan.left_out} == {*names} - {*exported}
    assert "learned" in plan.differences
    for part in plan.parts:
        index = names.index(part.signal.name)
        z, gap = mix.learned.weights[-1][2 * index : 2 * index + 2]
        assert (part.per_deviation, part.constant) == pytest.approx((z, gap / mix.learned.deviations[index]))


def test_rejects_late_interaction_over_candidates_with_advice() -> None:
    late = {"name": "late over mix", "kind": "late", "model": "starter", "first_stage": "mix"}
    around = {"name": "around", "kind": "hybrid", "retrievers": ["words", "late over mix"]}
    context = build_context(experiment_of(BIGRAMS, WORDS, HYBRID, late, around), small_set())
    with pytest.raises(ExportError, match=r"Export 'mix', or late .*, or use langchain"):
        plan_export("late over mix", context)
    assert plan_export("around", context).left_out == ("late over mix",)


def test_lists_signals_that_no_engine_supports() -> None:
    run = {"name": "run", "kind": "run", "path": "x"}
    context = build_context(experiment_of(BIGRAMS, WORDS, HYBRID, RERANKED, run), small_set())
    plan = plan_export("again", context)
    assert ([part.signal.name for part in plan.parts], plan.left_out) == (["bigrams", "words"], ("again",))
    assert plan.differences == ("left_out",)
    assert signals.expected_differences(context.specs, "again", tokens=True, sparse=True) == ["left_out"]
    assert signals.expected_differences(context.specs, "mix", tokens=False, sparse=False) == []
    with pytest.raises(ExportError) as caught:
        plan_export("run", context)
    assert caught.value.code == "nothing_to_take"
