"""What each engine's mixing comes to, against loops that follow the engines' own formulas one question at a time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, materials_of
from mrc_workbench.retrieval.mix import LearnedMix
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, TRAITS, Engine, Lists, Mix, figure_of, mix_of, searched
from mrc_workbench.retrieval.takeaway.signals import (
    LateTokens,
    Part,
    Plan,
    SparseTerms,
    TakeAwayError,
    Vectors,
    foreseen,
    in_a_byte,
    in_nine_bits,
    plan_of,
)
from tests.doubles import small_set
from tests.engines.base import nine_bits
from tests.retrieval.compared import BIGRAMS, WORDS, experiment_of, many_questions

N, DEPTH, K = 30, 8, 10
WEIGHTS = (0.7, 0.3)


class Given:
    """A signal whose scores are given, `(n_questions, n_passages)`."""

    def __init__(self, field: str, scores: np.ndarray) -> None:
        self.field = self.name = field
        self.scores, self.n_passages = scores, scores.shape[1]

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        del questions, rounded
        yield self.scores


class Scored(Given, Vectors): ...


class LateScored(Given, LateTokens): ...


def signals(seed: int, few: bool = False) -> list[np.ndarray]:
    """Scores of two signals for six questions; with `few`, some lists hold one passage, equal scores, or nothing."""
    draw = np.random.default_rng(seed)
    found = [draw.normal(3, 2, (6, N)), draw.uniform(-1, 1, (6, N))]
    if few:
        found[0][0], found[0][1, 1:], found[1][2] = -np.inf, -np.inf, 0.25
    return found


def lists_of(scores: list[np.ndarray], slope: str, *, by_rank: bool = False) -> Lists:
    fields = [Scored(f"signal_{number}", one) for number, one in enumerate(scores)]
    parts = [Part(field, **{slope: weight}) for field, weight in zip(fields, WEIGHTS, strict=True)]
    return Lists(Plan("mix", tuple(parts), DEPTH, by_rank), [""] * len(scores[0]))


def first(scores: np.ndarray, depth: int = DEPTH) -> dict[int, float]:
    order = sorted(range(N), key=lambda row: (-scores[row], row))[:depth]
    return {row: float(scores[row]) for row in order if math.isfinite(scores[row])}


def value(technique: str, found: dict[int, float], row: int) -> float:
    """The engine's value of a passage in the list that one signal found."""
    scores, score = list(found.values()), found[row]
    low, high, mean = min(scores), max(scores), sum(scores) / len(scores)
    if technique == "rrf":
        return 1 / (61 + list(found).index(row))
    if technique == "weighted":
        return 0.5 + math.atan(score) / math.pi
    if technique == "z_score":
        deviation = math.sqrt(sum((one - mean) ** 2 for one in scores) / max(1, len(scores) - 1))
        return max(0.001, (score - mean) / deviation) if deviation else score
    if low == high:
        return score if technique == "minmax" else 1.0
    scaled = (score - low) / (high - low)
    return max(0.001, scaled) if technique == "min_max" else scaled


def weight_by_loop(technique: str, scores: np.ndarray, slope: str, weight: float) -> float:
    """Mean of slope * range, divided by the mean range of the values."""
    apart, apart_there = [], []
    for row in scores:
        found = first(row)
        ends = list(found.values())
        if not ends or max(ends) == min(ends):
            continue
        spread, deviation = max(ends) - min(ends), float(np.std(ends))
        apart.append(weight * {"of_range": 1.0, "of_deviation": spread / deviation}[slope])
        values = [value(technique, found, one) for one in found]
        apart_there.append(max(values) - min(values))
    return sum(apart) / sum(apart_there)


def mixed_by_loop(technique: str, scores: list[np.ndarray], weights: Sequence[float]) -> list[list[int]]:
    found = []
    for question in range(len(scores[0])):
        total: dict[int, float] = {}
        for one, weight in zip(scores, weights, strict=True):
            of = first(one[question])
            for row in of:
                total[row] = total.get(row, 0.0) + weight * value(technique, of, row)
        found.append(sorted(total, key=lambda row: (-np.float32(total[row]), row))[:K])
    return found


def rows_of(indices: np.ndarray) -> list[list[int]]:
    return [[row for row in found if row >= 0] for found in indices.tolist()]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("slope", ["of_range", "of_deviation"])
@pytest.mark.parametrize("engine", [Engine.ELASTICSEARCH, Engine.OPENSEARCH, Engine.MILVUS])
@pytest.mark.parametrize("seed", range(3))
def test_an_engine_mixes_as_its_formula_says(engine: Engine, slope: str, few: bool, seed: int) -> None:
    scores = signals(seed, few)
    lists = lists_of(scores, slope)
    mix = mix_of(engine, lists)
    expected = [weight_by_loop(mix.technique, *one) for one in zip(scores, [slope] * 2, WEIGHTS, strict=True)]
    assert mix.technique == ("z_score" if (engine, slope) == (Engine.OPENSEARCH, "of_deviation") else TRAITS[engine][1])
    assert mix.weights == pytest.approx([one / sum(expected) for one in expected], abs=1e-5)
    assert sum(mix.weights) == pytest.approx(1, abs=1e-9)
    assert rows_of(searched(mix, lists, K).indices) == mixed_by_loop(mix.technique, scores, mix.weights)


@pytest.mark.parametrize("engine", [Engine.ELASTICSEARCH, Engine.OPENSEARCH, Engine.MILVUS])
def test_ranks_are_fused_the_same_everywhere(engine: Engine) -> None:
    scores = signals(0)
    lists = lists_of(scores, "of_range", by_rank=True)
    mix = mix_of(engine, lists)
    assert (mix.technique, mix.weights, mix.differs) == ("rrf", WEIGHTS, ())
    assert rows_of(searched(mix, lists, K).indices) == mixed_by_loop("rrf", scores, WEIGHTS)


def vespa_by_loop(
    mix: Mix, scores: list[np.ndarray], technique: str, *, looks: int, every: bool = False
) -> list[list[int]]:
    """Mix the candidates that the first `looks` signals order: all passages with `every`, else those they find."""
    expected = []
    for question in range(6):
        of = [one[question] for one in scores]
        looking = list(zip(mix.weights, mix.units, of, strict=True))[:looks]
        looked = {row: sum(weight / unit * one[row] for weight, unit, one in looking) for row in range(N)}
        among = [row for row in looked if every or any(row in first(one) for one in of[:looks])]
        candidates = sorted(among, key=lambda row: -looked[row])[: 2 * DEPTH]
        total = dict.fromkeys(candidates, 0.0)
        for weight, one in zip(mix.weights, of, strict=True):
            values = dict(sorted(((row, float(one[row])) for row in candidates), key=lambda pair: -pair[1]))
            for row in candidates:
                total[row] += weight * value(technique, values, row)
        expected.append(sorted(total, key=lambda row: (-np.float32(total[row]), row))[:K])
    return expected


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by_rank", [False, True])
def test_vespa_mixes_candidates_that_a_first_look_orders(by_rank: bool, late: bool) -> None:
    scores = signals(1)
    lists = lists_of(scores, "of_range", by_rank=by_rank)
    if late:  # of the candidates alone, it orders them too
        tokens = Part(LateScored("tokens", np.random.default_rng(5).uniform(0, 1, (6, N))), of_range=0.4)
        lists = Lists(replace(lists.plan, parts=(*lists.plan.parts, tokens)), lists.questions)
    mix = mix_of(Engine.VESPA, lists)
    assert [one.name for one in mix.signals] == [part.signal.name for part in lists.plan.parts]
    of = [one.scores for one in mix.signals]  # type: ignore[union-attr]
    expected = vespa_by_loop(mix, of, "rrf" if by_rank else "scaled", looks=2)
    assert rows_of(searched(mix, lists, K).indices) == expected


def test_an_engine_that_takes_one_of_each_gets_the_weightiest() -> None:
    mix = mix_of(Engine.WEAVIATE, lists_of(signals(0), "of_range"))
    assert ([one.name for one in mix.signals], mix.weights, mix.left_out) == (["signal_0"], (1.0,), ("signal_1",))


class TermsScored(Given, SparseTerms): ...


@pytest.mark.parametrize("engine", TRAITS)
def test_an_engine_gets_the_kinds_of_signals_that_it_supports(engine: Engine) -> None:
    scores = np.random.default_rng(2).uniform(0.1, 1, (3, 6, N))
    kinds = {"dense": Scored, "late": LateScored, "sparse": TermsScored}
    parts = [Part(kinds[name](name, one), of_range=0.3) for name, one in zip(kinds, scores, strict=True)]
    lists = Lists(Plan("mix", tuple(parts), DEPTH), [""] * 6)
    mix = mix_of(engine, lists)
    without = {Engine.WEAVIATE: {"late", "sparse"}, Engine.MILVUS: {"late"}}.get(engine, set())
    assert {*mix.left_out} == without
    assert {one.name for one in mix.signals} == {"dense", "late", "sparse"} - without
    assert ("term_weights" in mix.differs) == (engine in (Engine.ELASTICSEARCH, Engine.OPENSEARCH))
    assert searched(mix, lists, 5).indices.shape == (6, 5)


def test_vespa_mixes_all_passages_where_a_sparse_encoder_looks() -> None:
    """Vespa compares a tensor with every passage, so each passage is a candidate, also one without a shared term."""
    dense, sparse = signals(4)
    sparse = np.where(sparse > 0.5, sparse, -np.inf)
    parts = (Part(Scored("dense", dense), of_range=0.6), Part(TermsScored("sparse", sparse), of_range=0.4))
    lists = Lists(Plan("mix", parts, DEPTH), [""] * 6)
    mix = mix_of(Engine.VESPA, lists)
    scores = [dense, np.where(np.isfinite(sparse), sparse, 0.0)]
    assert rows_of(searched(mix, lists, K).indices) == vespa_by_loop(mix, scores, "scaled", looks=2, every=True)


def test_term_weights_have_the_precision_that_lucene_stores() -> None:
    weights = np.random.default_rng(3).uniform(0.001, 50, 2000).astype(np.float32)
    stored = in_nine_bits(weights)
    assert stored.tolist() == [nine_bits(one) for one in weights.tolist()]
    assert ((stored <= weights) & (stored > weights * (1 - 2**-8))).all()
    exact = np.array([0.5, 1.0, 1.5, 257 / 256, 3.0], dtype=np.float32)
    assert in_nine_bits(exact).tolist() == exact.tolist()


def test_lengths_are_rounded_as_lucene_keeps_them() -> None:
    def encoded(length: int) -> int:  # SmallFloat: four significant bits above 24
        over = length - 24
        if over < 0:
            return length
        shift = max(0, over.bit_length() - 4)
        return 24 + (over >> shift << shift)

    lengths = np.arange(3000)
    assert in_a_byte(lengths).tolist() == [encoded(one) for one in lengths.tolist()]
    assert len(np.unique(in_a_byte(np.arange(2**20)))) < 256


HYBRID = {"name": "mix", "kind": "hybrid", "of": ["bigrams", "words"], "fusion": Fusion.MIN_MAX, "weights": [3, 1]}
RERANKED = {"name": "again", "kind": "rerank", "first": "mix", "model": "starter"}


def compared(*specs: dict[str, object]) -> tuple[Comparison, QuestionSet]:
    return compare(experiment_of(*specs), small_set()), small_set()


def test_a_hybrid_of_terms_is_the_same_where_lengths_are_kept() -> None:
    comparison, whole = compared(BIGRAMS, WORDS, HYBRID)
    lists = Lists(plan_of("mix", materials_of(comparison.experiment, whole)), [one.text for one in whole.questions])
    for engine in (Engine.ELASTICSEARCH, Engine.OPENSEARCH):  # passages are short: a byte holds their lengths
        figure = figure_of(mix_of(engine, lists), comparison.rankings["mix"], lists, whole)
        assert figure.there == figure.here == comparison.scores["mix"].means().get(MEASURE, figure.here)
        assert (figure.low, figure.high, figure.differs) == (0, 0, ("lengths",))


def test_a_learned_mix_is_taken_away_by_the_weights_of_all_its_questions() -> None:
    """Of each signal the slope of its two values: that of the z-score, and of the distance to the best."""
    whole, _ = many_questions(12)
    experiment = experiment_of(BIGRAMS, WORDS, {"name": "mix", "kind": "learned", "of": ["bigrams", "words"]})
    made = materials_of(experiment, whole)
    plan, mix = plan_of("mix", made), made.part("mix").retriever
    assert isinstance(mix, LearnedMix)
    names = [part.name for part in mix.parts]
    kept = [part.signal.name for part in plan.parts]
    assert kept[:2] == ["bigrams", "words"]
    assert {*plan.left_out} == {*names} - {*kept}
    assert "learned" in plan.differs
    for part in plan.parts:
        place = names.index(part.signal.name)
        z, gap = mix.learned.weights[-1][2 * place : 2 * place + 2]
        assert (part.of_deviation, part.constant) == pytest.approx((z, gap / mix.learned.deviations[place]))


def test_late_interaction_over_candidates_is_refused_with_what_to_export_instead() -> None:
    late = {"name": "late over mix", "kind": "late", "model": "starter", "first": "mix"}
    around = {"name": "around", "kind": "hybrid", "of": ["words", "late over mix"]}
    made = materials_of(experiment_of(BIGRAMS, WORDS, HYBRID, late, around), small_set())
    with pytest.raises(TakeAwayError, match=r"Export 'mix', or late .*, or use langchain"):
        plan_of("late over mix", made)
    assert plan_of("around", made).left_out == ("late over mix",)


def test_what_no_engine_knows_is_left_out_and_said() -> None:
    run = {"name": "run", "kind": "run", "path": "x"}
    made = materials_of(experiment_of(BIGRAMS, WORDS, HYBRID, RERANKED, run), small_set())
    plan = plan_of("again", made)
    assert ([part.signal.name for part in plan.parts], plan.left_out) == (["bigrams", "words"], ("again",))
    assert plan.differs == ("left_out",)
    assert foreseen(made.specs, "again", tokens=True, sparse=True) == ["left_out"]
    assert foreseen(made.specs, "mix", tokens=False, sparse=False) == []
    with pytest.raises(TakeAwayError) as caught:
        plan_of("run", made)
    assert caught.value.code == "nothing_to_take"
