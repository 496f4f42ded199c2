"""Intervals and tests against scipy, manual examples, and coverage."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval import significance
from mrc_workbench.retrieval.measures import Scores


def scores_of(**per_question: list[float]) -> Scores:
    return Scores((), {name.replace("_", "@"): np.array(values) for name, values in per_question.items()})


@pytest.mark.parametrize(
    ("relevant", "expected"),
    [
        (("a", "b", "ab", "c", "d", "c"), ({0, 1, 2}, {3, 5}, {4})),  # questions that share a passage
        # chains through single passages, as of pooled judgements, would make one group of all topics
        (("abc", "cde", "efa", "cba", ""), ({0, 3}, {1}, {2}, {4})),
        (("a", "a", "a", "a", "a"), ({0, 1, 2, 3, 4},)),
    ],
)
def test_groups_questions_by_shared_passages(relevant: tuple[str, ...], expected: tuple[set[int], ...]) -> None:
    passages = tuple(Passage(id_, id_) for id_ in "abcdef")
    questions = tuple(Question(str(row), str(row), (), tuple(ids)) for row, ids in enumerate(relevant))
    groups = significance.question_groups(QuestionSet("groups", passages, questions))
    members = [frozenset(np.flatnonzero(groups == group).tolist()) for group in range(groups.max() + 1)]
    assert sorted(map(sorted, members)) == sorted(map(sorted, expected))


def test_ungrouped_interval_equals_scipy() -> None:
    values = np.random.default_rng(0).random((60, 3))
    ours = significance.mean_intervals(values, resamples=20_000)
    for column in range(3):
        theirs = stats.bootstrap((values[:, column],), np.mean, n_resamples=20_000, method="percentile", rng=1)
        np.testing.assert_allclose(ours[column], theirs.confidence_interval, atol=2e-3)


@pytest.mark.slow
def test_grouped_interval_equals_scipy() -> None:
    rng = np.random.default_rng(3)
    groups = np.sort(rng.integers(0, 40, 200))
    groups = np.unique(groups, return_inverse=True)[1]
    values = rng.random(200) + rng.random(40)[groups]
    sums = np.bincount(groups, values)
    counts = np.bincount(groups)

    def mean(sums: np.ndarray, counts: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(sums.sum(axis=axis) / counts.sum(axis=axis))

    theirs = stats.bootstrap((sums, counts), mean, paired=True, n_resamples=20_000, method="percentile", rng=1)
    ours = significance.mean_intervals(values[:, None], groups, resamples=20_000)
    np.testing.assert_allclose(ours[0], theirs.confidence_interval, atol=3e-3)
    alone = significance.mean_intervals(values[:, None], resamples=20_000)
    assert np.ptp(ours) > 1.3 * np.ptp(alone)  # what belongs together tells less than as many on their own


def test_interval_of_three_groups_by_hand() -> None:
    # each of the 27 draws of the groups (1 question of 0, 1 of 1, 2 of 1) is as likely as another
    sums = [0.0, 1.0, 2.0]
    sizes = [1, 1, 2]
    means = [sum(sums[g] for g in sample) / sum(sizes[g] for g in sample) for sample in product(range(3), repeat=3)]
    values = np.array([[0.0], [1], [1], [1]])
    low, high = significance.mean_intervals(values, np.array([0, 1, 2, 2]), resamples=100_000)[0]
    assert (low, high) == (0.0, 1.0)
    assert np.mean(np.array(means) == 0) > 0.025
    assert np.mean(np.array(means) == 1) > 0.025


def test_constant_values_have_zero_width_interval() -> None:
    assert significance.mean_interval(np.zeros(30)) == (0.0, 0.0)
    assert significance.mean_interval(np.array([0.25])) == (0.25, 0.25)


def test_proportions_of_0_or_1_use_exact_interval() -> None:
    values = np.column_stack([np.ones(50), np.zeros(50), np.arange(50) % 2])
    groups = np.arange(50) // 2
    intervals = significance.proportion_intervals(values, groups)
    exact = stats.binomtest(25, 25).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(intervals[0], [exact.low, 1.0])
    np.testing.assert_allclose(intervals[1], [0.0, 1 - exact.low])
    np.testing.assert_allclose(intervals[2], significance.mean_intervals(values, groups)[2])
    of_one_group = significance.proportion_intervals(np.array([[0.0], [1.0]]), np.zeros(2, dtype=int))
    assert of_one_group.tolist() == [[0, 1]]


@pytest.mark.slow
@pytest.mark.parametrize(("n_groups", "of_a_group", "share"), [(120, 1, 0.8), (100, 5, 0.85), (200, 3, 0.9)])
def test_interval_covers_true_value_in_95_percent(n_groups: int, of_a_group: int, share: float) -> None:
    rng = np.random.default_rng(11)
    groups = np.repeat(np.arange(n_groups), of_a_group)
    spread = 8.0  # of the passages: some are easier than others
    tried = 4000
    easiness = rng.beta(share * spread, (1 - share) * spread, (tried, n_groups))
    hits = (rng.random((tried, len(groups))) < easiness[:, groups]).astype(np.float64)
    # columns of a call share resamples: 40 independent calls
    parts = enumerate(np.split(hits, 40))
    resampled = [significance.mean_intervals(part.T, groups, resamples=1000, seed=seed) for seed, part in parts]
    intervals = np.concatenate(resampled)
    covered = np.mean((intervals[:, 0] <= share) & (share <= intervals[:, 1]))
    assert 0.93 <= covered <= 0.97


def test_randomization_enumerates_swaps_of_few_questions() -> None:
    rng = np.random.default_rng(2)
    a = rng.random(10)
    b = rng.random(10)
    (test,) = significance.pair_tests({"a": scores_of(ndcg_10=a), "b": scores_of(ndcg_10=b)}, ["ndcg@10"])
    signs = np.array(list(product([1, -1], repeat=10)))
    swapped = np.abs(signs @ (a - b))
    assert test.p == np.mean(swapped >= np.abs((a - b).sum()) - 1e-12)
    assert test.difference == pytest.approx(a.mean() - b.mean())
    assert (test.a, test.b, test.p_family) == ("a", "b", test.p)


@pytest.mark.slow
def test_randomization_of_many_questions_equals_scipy() -> None:
    rng = np.random.default_rng(4)
    a = rng.random(80)
    b = a - rng.normal(0.03, 0.15, 80)
    (test,) = significance.pair_tests({"a": scores_of(mrr_10=a), "b": scores_of(mrr_10=b)}, ["mrr@10"])

    def mean_difference(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray((a - b).mean(axis=axis))

    options = {"permutation_type": "samples", "n_resamples": 50_000, "rng": 7}
    theirs = stats.permutation_test((a, b), mean_difference, **options).pvalue
    assert test.p == pytest.approx(theirs, abs=0.01)


def test_randomization_swaps_whole_groups() -> None:
    groups = np.repeat(np.arange(9), 4)
    per_group = np.array([0.5, 0.25, 0.5, 0.75, -0.25, 0.5, 0.25, 0.5, -0.5])
    a = 1.0 + np.repeat(per_group, 4)
    b = np.ones(36)
    (test,) = significance.pair_tests({"a": scores_of(mrr_10=a), "b": scores_of(mrr_10=b)}, ["mrr@10"], groups)
    signs = np.array(list(product([1, -1], repeat=9)))
    assert test.p == np.mean(np.abs(signs @ per_group) >= per_group.sum())


def test_ungrouped_hit_test_equals_mcnemar() -> None:
    a = np.array([1.0] * 9 + [0] * 2 + [1] * 30)
    b = np.array([0.0] * 9 + [1] * 2 + [1] * 30)
    (test,) = significance.pair_tests({"a": scores_of(hit_10=a), "b": scores_of(hit_10=b)}, ["hit@10"])
    assert (test.wins, test.ties, test.losses) == (9, 30, 2)
    assert test.p == pytest.approx(stats.binomtest(2, 11).pvalue, abs=0.01)


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .04, times 4 3 2 1, never falling
    np.testing.assert_allclose(significance.holm(np.array([0.04, 0.01, 0.03, 0.02])), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(significance.holm(np.array([0.5, 0.9])), [1.0, 1.0])
    assert len(significance.holm(np.zeros(0))) == 0


def test_corrects_pairs_within_each_measure() -> None:
    rng = np.random.default_rng(6)
    scores = {name: scores_of(ndcg_10=rng.random(40), hit_1=rng.integers(0, 2, 40)) for name in "abcd"}
    tests = significance.pair_tests(scores, ["ndcg@10", "hit@1"])
    assert len(tests) == 12
    for measure in ("ndcg@10", "hit@1"):
        of_measure = [test for test in tests if test.measure == measure]
        assert all(test.p_family >= test.p for test in of_measure)
        assert any(test.p_family > test.p for test in of_measure)
        assert tests != significance.pair_tests(scores, [measure])
        assert of_measure == significance.pair_tests(scores, [measure])


def test_tests_each_retriever_against_baseline_once() -> None:
    rng = np.random.default_rng(10)
    scores = {name: scores_of(ndcg_10=rng.random(30)) for name in "abc"}
    tests = significance.pair_tests(scores, ["ndcg@10"], baseline="b")
    assert [(test.a, test.b) for test in tests] == [("a", "b"), ("c", "b")]
    assert tests[0].difference == pytest.approx(scores["a"].means()["ndcg@10"] - scores["b"].means()["ndcg@10"])
    assert significance.pair_tests(scores, ["ndcg@10"], baseline="nobody") == []


def test_skips_retriever_without_score() -> None:
    shallow = scores_of(hit_1=[1, 0])
    full = scores_of(hit_1=[1, 1], hit_10=[1, 1])
    other = scores_of(hit_1=[0, 1], hit_10=[0, 1])
    tests = significance.pair_tests({"shallow": shallow, "full": full, "other": other}, ["hit@1", "hit@10"])
    deep = [("hit@1", "full", "other"), ("hit@10", "full", "other")]
    expected = [("hit@1", "shallow", "full"), ("hit@1", "shallow", "other"), *deep]
    assert [(test.measure, test.a, test.b) for test in tests] == expected
    assert significance.pair_tests({"alone": full}, ["hit@1"]) == []


def test_zero_difference_is_not_significant() -> None:
    same = scores_of(ndcg_10=[0.5] * 30, hit_10=[1] * 30)
    for test in significance.pair_tests({"a": same, "b": same}, ["ndcg@10", "hit@10"]):
        assert (test.p, test.p_family, test.is_significant, test.low, test.high) == (1.0, 1.0, False, 0.0, 0.0)


@pytest.mark.slow
def test_false_positive_rate_is_5_percent() -> None:
    rng = np.random.default_rng(8)
    scores = {f"{row}": scores_of(ndcg_10=values) for row, values in enumerate(rng.normal(size=(400, 50)))}
    tests = significance.pair_tests(scores | {"zero": scores_of(ndcg_10=np.zeros(50))}, ["ndcg@10"], baseline="zero")
    assert len(tests) == 400
    assert 0.025 <= np.mean([test.p < 0.05 for test in tests]) <= 0.08


def together(sums: np.ndarray, sizes: np.ndarray | None = None) -> significance.FamilyTests:
    sizes = np.ones(len(sums)) if sizes is None else sizes
    return significance.family_tests(sums, sizes, np.zeros(sums.shape[1], dtype=int))


def test_every_swap_by_hand() -> None:
    sums = np.array([[0.5, 0.1], [0.4, -0.3], [0.6, 0.2], [0.2, 0.4], [-0.1, 0.3], [0.3, 0.1]])
    swaps = np.array([*product([1, -1], repeat=6)])
    scale = np.sqrt((sums**2).sum(axis=0))
    seen = np.abs(sums.sum(axis=0) / scale)
    tried = np.abs(swaps @ sums / scale)
    tests = together(sums)
    for column in range(2):
        assert tests.p[column] == np.mean(tried[:, column] >= seen[column] - 1e-12)
        assert tests.p_family[column] == np.mean(tried.max(axis=1) >= seen[column] - 1e-12)


def test_interval_bounds_invert_the_test() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, 60).astype(float)
    sums = rng.normal(0.05, 0.3, (60, 3)) * sizes[:, None]
    tests = together(sums, sizes)

    def t(column: int, difference: float) -> float:
        rest = sums[:, column] - difference * sizes
        return float(abs(rest.sum()) / np.sqrt((rest**2).sum()))

    ends = [t(column, end[column]) for column in range(3) for end in (tests.low, tests.high)]
    np.testing.assert_allclose(ends, ends[0])
    assert 1.96 < ends[0] < 3.0  # above the value of a single difference
    assert (tests.low < sums.sum(axis=0) / sizes.sum()).all()
    assert (tests.high > sums.sum(axis=0) / sizes.sum()).all()


@settings(deadline=None, max_examples=60)
@given(arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(-1, 1, width=16)))
def test_interval_contains_0_if_and_only_if_not_significant(sums: np.ndarray) -> None:
    tests = together(sums)
    excludes_zero = (tests.low > 0) | (tests.high < 0)
    assert excludes_zero.tolist() == (tests.p_family < 1 - significance.LEVEL).tolist()
    assert (tests.p_family >= tests.p - 1e-12).all()
    mean = sums.mean(axis=0)
    assert ((tests.low <= mean + 1e-9) & (mean <= tests.high + 1e-9)).all()


def test_duplicate_column_does_not_change_other_tests() -> None:
    sums = np.random.default_rng(3).normal(0.08, 0.3, (70, 3))
    alone = together(sums)
    copied = together(np.column_stack([sums, sums[:, 1], np.zeros(70)]))
    for name in ("p", "p_family", "low", "high"):
        np.testing.assert_allclose(getattr(copied, name)[:4], getattr(alone, name)[[0, 1, 2, 1]], rtol=1e-12)
    assert (copied.p_family[4], copied.low[4], copied.high[4]) == (1, 0, 0)


def test_families_are_independent() -> None:
    sums = np.random.default_rng(4).normal(0.05, 0.3, (50, 4))
    both = significance.family_tests(sums, np.ones(50), np.array([0, 1, 0, 1]))
    for columns in ([0, 2], [1, 3]):
        alone = together(sums[:, columns])
        np.testing.assert_allclose(both.p_family[columns], alone.p_family, rtol=1e-12)
        np.testing.assert_allclose(both.low[columns], alone.low, rtol=1e-12)


def test_single_group_gives_full_interval() -> None:
    tests = together(np.array([[0.5]]), np.array([3.0]))
    assert (tests.p_family[0], tests.low[0], tests.high[0]) == (1, -1, 1)


def _sampled_sums(rng: np.random.Generator, truths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return correlated differences of groups of questions against a baseline."""
    sizes = rng.integers(1, 6, 60)
    groups = np.repeat(np.arange(60), sizes)
    baseline = rng.normal(0, 0.3, len(groups))[:, None]
    of_passage = rng.normal(0, 0.2, (60, len(truths)))[groups]
    differences = truths + of_passage + rng.normal(0, 0.3, (len(groups), len(truths))) - baseline
    return np.stack([np.bincount(groups, column) for column in differences.T], axis=1), sizes.astype(float)


@pytest.mark.slow
def test_family_intervals_cover_true_values_in_95_percent() -> None:
    rng = np.random.default_rng(7)
    truths = np.array([0.0, 0.05, 0.1, -0.1])
    covered = []
    for _ in range(150):
        tests = together(*_sampled_sums(rng, truths))
        covered.append(((tests.low <= truths) & (truths <= tests.high)).all())
    assert 0.90 <= np.mean(covered) <= 0.99


@pytest.mark.slow
def test_familywise_error_rate_is_5_percent() -> None:
    rng = np.random.default_rng(9)
    false = [(together(*_sampled_sums(rng, np.zeros(4))).p_family < 0.05).any() for _ in range(150)]
    assert np.mean(false) <= 0.1
