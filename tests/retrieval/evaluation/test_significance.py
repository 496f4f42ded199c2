"""Intervals and tests against scipy, against hand-counted cases, and against what they promise: coverage."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from data.records import Passage, Question, QuestionSet
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.significance import (
    holm,
    mean_interval,
    mean_intervals,
    pair_tests,
    question_groups,
    share_intervals,
)


def scores_of(**per_question: list[float]) -> Scores:
    return Scores((), {name.replace("_", "@"): np.array(values) for name, values in per_question.items()})


# groups


def test_questions_that_share_a_passage_are_one_group() -> None:
    passages = tuple(Passage(id_, id_) for id_ in "abcd")
    relevant = ("a", "b", "ab", "c", "d", "c")
    questions = tuple(Question(str(row), str(row), (), tuple(ids)) for row, ids in enumerate(relevant))
    groups = question_groups(QuestionSet("groups", passages, questions))
    assert groups.max() == 2
    together = {frozenset(np.flatnonzero(groups == group).tolist()) for group in range(3)}
    assert together == {frozenset({0, 1, 2}), frozenset({3, 5}), frozenset({4})}


# intervals


def test_interval_is_that_of_scipy_where_no_two_questions_belong_together() -> None:
    values = np.random.default_rng(0).random((60, 3))
    ours = mean_intervals(values, resamples=20_000)
    for column in range(3):
        theirs = stats.bootstrap((values[:, column],), np.mean, n_resamples=20_000, method="percentile", rng=1)
        np.testing.assert_allclose(ours[column], theirs.confidence_interval, atol=2e-3)


def test_interval_of_groups_is_that_of_scipy_over_their_sums_and_sizes() -> None:
    rng = np.random.default_rng(3)
    groups = np.sort(rng.integers(0, 40, 200))
    groups = np.unique(groups, return_inverse=True)[1]
    values = rng.random(200) + rng.random(40)[groups]
    sums, counts = np.bincount(groups, values), np.bincount(groups)

    def mean(sums: np.ndarray, counts: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(sums.sum(axis=axis) / counts.sum(axis=axis))

    theirs = stats.bootstrap((sums, counts), mean, paired=True, n_resamples=20_000, method="percentile", rng=1)
    ours = mean_intervals(values[:, None], groups, resamples=20_000)
    np.testing.assert_allclose(ours[0], theirs.confidence_interval, atol=3e-3)
    alone = mean_intervals(values[:, None], resamples=20_000)
    assert np.ptp(ours) > 1.3 * np.ptp(alone)  # what belongs together tells less than as many on their own


def test_interval_of_three_groups_by_hand() -> None:
    # each of the 27 draws of the groups (1 question of 0, 1 of 1, 2 of 1) is as likely as another
    sums, sizes = [0.0, 1.0, 2.0], [1, 1, 2]
    means = [sum(sums[g] for g in drawn) / sum(sizes[g] for g in drawn) for drawn in product(range(3), repeat=3)]
    low, high = mean_intervals(np.array([[0.0], [1], [1], [1]]), np.array([0, 1, 2, 2]), resamples=100_000)[0]
    assert (low, high) == (0.0, 1.0)
    assert np.mean(np.array(means) == 0) > 0.025
    assert np.mean(np.array(means) == 1) > 0.025


def test_values_that_are_all_equal_have_an_interval_of_no_width() -> None:
    assert mean_interval(np.zeros(30)) == (0.0, 0.0)
    assert mean_interval(np.array([0.25])) == (0.25, 0.25)


def test_shares_without_a_miss_have_the_exact_interval() -> None:
    values = np.column_stack([np.ones(50), np.zeros(50), np.arange(50) % 2])
    groups = np.arange(50) // 2
    found = share_intervals(values, groups)
    exact = stats.binomtest(25, 25).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(found[0], [exact.low, 1.0])
    np.testing.assert_allclose(found[1], [0.0, 1 - exact.low])
    np.testing.assert_allclose(found[2], mean_intervals(values, groups)[2])


@pytest.mark.slow
@pytest.mark.parametrize(("n_groups", "of_a_group", "share"), [(120, 1, 0.8), (100, 5, 0.85), (200, 3, 0.9)])
def test_interval_covers_the_truth_95_times_of_100(n_groups: int, of_a_group: int, share: float) -> None:
    rng = np.random.default_rng(11)
    groups = np.repeat(np.arange(n_groups), of_a_group)
    spread = 8.0  # of the passages: some are easier than others
    tried = 4000
    easiness = rng.beta(share * spread, (1 - share) * spread, (tried, n_groups))
    hits = (rng.random((tried, len(groups))) < easiness[:, groups]).astype(np.float64)
    # the columns of one call are drawn together: 40 calls with draws of their own
    intervals = np.concatenate(
        [mean_intervals(part.T, groups, resamples=1000, seed=seed) for seed, part in enumerate(np.split(hits, 40))]
    )
    covered = np.mean((intervals[:, 0] <= share) & (share <= intervals[:, 1]))
    assert 0.93 <= covered <= 0.97


@pytest.mark.slow
def test_without_groups_the_interval_would_promise_too_much() -> None:
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(60), 6)
    easiness = rng.beta(2.0, 1.0, (2000, 60))
    hits = (rng.random((2000, 360)) < easiness[:, groups]).astype(np.float64)
    alone = mean_intervals(hits.T, resamples=500)
    assert np.mean((alone[:, 0] <= 2 / 3) & (alone[:, 1] >= 2 / 3)) < 0.9


# tests of pairs


def test_randomization_of_few_questions_tries_every_swap() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(10), rng.random(10)
    (found,) = pair_tests({"a": scores_of(ndcg_10=a), "b": scores_of(ndcg_10=b)}, ["ndcg@10"])
    signs = np.array(list(product([1, -1], repeat=10)))
    swapped = np.abs(signs @ (a - b))
    assert found.p == np.mean(swapped >= np.abs((a - b).sum()) - 1e-12)
    assert found.difference == pytest.approx(a.mean() - b.mean())
    assert (found.a, found.b, found.p_family) == ("a", "b", found.p)


def test_randomization_of_many_questions_is_that_of_scipy() -> None:
    rng = np.random.default_rng(4)
    a = rng.random(80)
    b = a - rng.normal(0.03, 0.15, 80)
    (found,) = pair_tests({"a": scores_of(mrr_10=a), "b": scores_of(mrr_10=b)}, ["mrr@10"])

    def mean_difference(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray((a - b).mean(axis=axis))

    theirs = stats.permutation_test(
        (a, b), mean_difference, permutation_type="samples", n_resamples=50_000, rng=7
    ).pvalue
    assert found.p == pytest.approx(theirs, abs=0.01)


def test_randomization_swaps_whole_groups() -> None:
    groups = np.repeat(np.arange(9), 4)
    per_group = np.array([0.5, 0.25, 0.5, 0.75, -0.25, 0.5, 0.25, 0.5, -0.5])
    a, b = 1.0 + np.repeat(per_group, 4), np.ones(36)
    (found,) = pair_tests({"a": scores_of(mrr_10=a), "b": scores_of(mrr_10=b)}, ["mrr@10"], groups)
    signs = np.array(list(product([1, -1], repeat=9)))
    assert found.p == np.mean(np.abs(signs @ per_group) >= per_group.sum())


def test_where_every_question_is_its_own_hits_are_tested_as_by_mcnemar() -> None:
    a = np.array([1.0] * 9 + [0] * 2 + [1] * 30)
    b = np.array([0.0] * 9 + [1] * 2 + [1] * 30)
    (found,) = pair_tests({"a": scores_of(hit_10=a), "b": scores_of(hit_10=b)}, ["hit@10"])
    assert (found.wins, found.ties, found.losses) == (9, 30, 2)
    assert found.p == pytest.approx(stats.binomtest(2, 11).pvalue, abs=0.01)
    by_hand = 2 * (1 + 11 + 55) / 2**11
    assert found.p == pytest.approx(by_hand, abs=0.01)


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .04, times 4 3 2 1, never falling
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03, 0.02])), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm(np.array([0.5, 0.9])), [1.0, 1.0])
    assert len(holm(np.zeros(0))) == 0


def test_pairs_of_a_measure_are_corrected_together_and_measures_apart() -> None:
    rng = np.random.default_rng(6)
    scores = {name: scores_of(ndcg_10=rng.random(40), hit_1=rng.integers(0, 2, 40)) for name in "abcd"}
    found = pair_tests(scores, ["ndcg@10", "hit@1"])
    assert len(found) == 12
    for measure in ("ndcg@10", "hit@1"):
        of_measure = [test for test in found if test.measure == measure]
        assert all(test.p_family >= test.p for test in of_measure)
        assert any(test.p_family > test.p for test in of_measure)
        assert found != pair_tests(scores, [measure])
        assert of_measure == pair_tests(scores, [measure])


def test_against_a_baseline_every_other_one_is_tested_once() -> None:
    rng = np.random.default_rng(10)
    scores = {name: scores_of(ndcg_10=rng.random(30)) for name in "abc"}
    found = pair_tests(scores, ["ndcg@10"], baseline="b")
    assert [(test.a, test.b) for test in found] == [("a", "b"), ("c", "b")]
    assert found[0].difference == pytest.approx(scores["a"].means()["ndcg@10"] - scores["b"].means()["ndcg@10"])
    assert pair_tests(scores, ["ndcg@10"], baseline="nobody") == []


def test_a_retriever_without_a_score_is_in_no_test() -> None:
    shallow = scores_of(hit_1=[1, 0])
    full = scores_of(hit_1=[1, 1], hit_10=[1, 1])
    other = scores_of(hit_1=[0, 1], hit_10=[0, 1])
    found = pair_tests({"shallow": shallow, "full": full, "other": other}, ["hit@1", "hit@10"])
    assert [(test.measure, test.a, test.b) for test in found] == [
        ("hit@1", "shallow", "full"),
        ("hit@1", "shallow", "other"),
        ("hit@1", "full", "other"),
        ("hit@10", "full", "other"),
    ]
    assert pair_tests({"alone": full}, ["hit@1"]) == []


def test_no_difference_at_all_is_never_sure() -> None:
    same = scores_of(ndcg_10=[0.5] * 30, hit_10=[1] * 30)
    for test in pair_tests({"a": same, "b": same}, ["ndcg@10", "hit@10"]):
        assert (test.p, test.p_family, test.sure, test.low, test.high) == (1.0, 1.0, False, 0.0, 0.0)


@pytest.mark.slow
def test_where_there_is_no_difference_5_of_100_tests_say_so_falsely() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(1000, 50))
    scores = {f"{row}": Scores((), {"ndcg@10": value}) for row, value in enumerate(values)}
    zero = Scores((), {"ndcg@10": np.zeros(50)})
    false = [pair_tests({"a": scores[name], "b": zero}, ["ndcg@10"])[0].p < 0.05 for name in list(scores)[:400]]
    assert 0.025 <= np.mean(false) <= 0.08
