"""A learned mix: no ranking uses weights that were fitted to its question, and fits minimize the documented loss."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.optimize import minimize

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.retrieval import mix as mixes
from mrc_workbench.retrieval.combine import Fusion, fuse
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.mix import (
    EXTRA_STRENGTH,
    STRENGTHS,
    FittedMix,
    LearnedMix,
    TrainingLists,
    describe_mix,
    fit_mix,
    rank_by_mix,
    training_lists,
)
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, top_k
from tests.doubles import texts_of
from tests.retrieval.compared import assert_equal_rankings

Scores = Sequence[np.ndarray]
N_PASSAGES = 30
DEPTH = 12
PARTS = ("words", "meaning", None)


def world(n_questions: int = 60, seed: int = 0) -> tuple[QuestionSet, list[np.ndarray]]:
    """Questions of passages, three of each in turn, and scores of three signals: good, middling, and noise."""
    random = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"passage {row}", f"title {row // 2}") for row in range(N_PASSAGES))
    relevant = random.integers(0, N_PASSAGES, n_questions)
    questions = tuple(Question(f"q{n}", f"question {n}", relevant=(f"p{row}",)) for n, row in enumerate(relevant))
    scores = []
    for worth in (1.0, 2.5, 0.0):
        signal = random.normal(size=(n_questions, N_PASSAGES))
        signal[np.arange(n_questions), relevant] += worth
        scores.append(signal)
    return QuestionSet("world", passages, questions), scores


def labelled(question_set: QuestionSet) -> TrainingQueries:
    return TrainingQueries.from_question_set(question_set, question_set.answerable)


def rankings_of(scores: Scores) -> list[Rankings]:
    return [top_k(signal_scores, DEPTH) for signal_scores in scores]


def fit_to_scores(question_set: QuestionSet, scores: Scores, parts: Sequence[str | None] = PARTS) -> FittedMix:
    return fit_mix(rankings_of(scores), labelled(question_set), parts, N_PASSAGES)


def ranked_by(learned: FittedMix, question_set: QuestionSet, scores: Scores) -> Rankings:
    return rank_by_mix(rankings_of(scores), learned, labelled(question_set).folds, N_PASSAGES, 10)


def untrained_mix(rankings: Sequence[Rankings]) -> Rankings:
    return fuse(rankings, N_PASSAGES, Fusion.Z_SCORE, [0.5, 0.5, 0.0], 10)


def ndcg(rankings: Rankings, question_set: QuestionSet) -> float:
    return evaluate(rankings, question_set, (10,)).means()["ndcg@10"]


def test_untrained_mix_fuses_components_by_z_score() -> None:
    question_set, scores = world()
    nothing = TrainingQueries.from_question_set(question_set, np.zeros(0, dtype=np.int64))
    rankings = rankings_of(scores)
    learned = fit_mix(rankings, nothing, PARTS, N_PASSAGES)
    mixed_rankings = rank_by_mix(rankings, learned, np.full(60, FOLDS), N_PASSAGES, 10)
    expected = untrained_mix(rankings)
    assert_equal_rankings(mixed_rankings, expected, rtol=1e-6)


def test_mix_weights_better_signal_higher_and_beats_untrained_mix() -> None:
    question_set, scores = world(300)
    learned = fit_to_scores(question_set, scores)
    rankings = rankings_of(scores)
    middling, good, noise = describe_mix(rankings, learned, labelled(question_set), "abc")["signals"].values()
    assert good["weight"] > middling["weight"] > 4 * noise["weight"]
    assert good["weight"] + middling["weight"] + noise["weight"] == pytest.approx(1)
    assert good["gain"] > middling["gain"] > 0.01 > abs(noise["gain"])
    reached = ndcg(ranked_by(learned, question_set, scores), question_set)
    alone = [ndcg(ranking, question_set) for ranking in rankings]
    assert reached > max(*alone, ndcg(untrained_mix(rankings), question_set))


@pytest.mark.slow
@settings(max_examples=20)
@given(st.sampled_from([0.125, 8.0, 1024.0]), st.integers(0, 2), st.integers(0, 5))
def test_scaling_scores_does_not_change_ranking(factor: float, signal: int, seed: int) -> None:
    question_set, scores = world(seed=seed)
    other = [signal_scores * factor if row == signal else signal_scores for row, signal_scores in enumerate(scores)]
    rankings, again = (ranked_by(fit_to_scores(question_set, of), question_set, of) for of in (scores, other))
    assert_equal_rankings(rankings, again, atol=1e-4)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 2), st.sampled_from(["words", "meaning", None]), st.integers(0, 5))
def test_duplicate_signal_does_not_change_ranking(signal: int, part: str | None, seed: int) -> None:
    question_set, scores = world(seed=seed)
    rankings = ranked_by(fit_to_scores(question_set, scores), question_set, scores)
    both = [*scores, 3.0 * scores[signal]]
    parts = [*PARTS, part]
    again = ranked_by(fit_to_scores(question_set, both, parts), question_set, both)
    np.testing.assert_array_equal(rankings.indices, again.indices)


class Fixed:
    def __init__(self, name: str, texts: Sequence[str], scores: np.ndarray) -> None:
        self.name = name
        self._row = {text: row for row, text in enumerate(texts)}
        self._scores = scores

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        return top_k(self._scores[[self._row[text] for text in questions]].reshape(len(questions), -1), k)


def mix_of(texts: Sequence[str], scores: Scores, training_queries: TrainingQueries, **options: Any) -> LearnedMix:
    parts = [Fixed(name, texts, signal_scores) for name, signal_scores in zip("abcde", scores, strict=False)]
    options = {"components": PARTS, "n_passages": N_PASSAGES, "depth": DEPTH, **options}
    return LearnedMix("mix", parts, training_queries, **options)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    factors=st.lists(st.sampled_from([1.0, 0.125, 3.0, 1000.0]), min_size=1, max_size=4),
    half=st.sampled_from(["words", "meaning", None]),
    worth=st.sampled_from([-3.0, 0.0, 2.0]),
    is_trained=st.booleans(),
    known=st.integers(0, 30),
    seed=st.integers(0, 1000),
)
def test_mix_of_copies_ranks_like_signal(  # noqa: PLR0917 - drawn by Hypothesis
    factors: list[float], half: str | None, worth: float, is_trained: bool, known: int, seed: int
) -> None:
    question_set, (_, _, scores) = world(30, seed)
    scores[np.arange(30), question_set.relevance.indices] += worth
    copies = [scores * factor for factor in (1.0, *factors)]
    training_queries = replace(labelled(question_set), was_trained_on=np.arange(30) < known)
    queries = texts_of(question_set.questions)
    options = {"components": ["words", *(half for _ in factors)], "trained": [is_trained] * len(copies)}
    mix = mix_of(queries, copies, training_queries, **options)
    np.testing.assert_array_equal(mix.search(queries, 10).indices, top_k(scores, 10).indices)
    assert set(mix.notes["signals"]) == {*"abcde"[: len(copies)]}
    assert all(np.isfinite([*signal.values()]).all() for signal in mix.notes["signals"].values())


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 59), st.integers(0, N_PASSAGES - 1))
def test_wrong_label_does_not_affect_its_own_fold(row: int, label: int) -> None:
    question_set, scores = world()
    training_queries = labelled(question_set)
    poisoned = list(question_set.questions)
    poisoned[row] = replace(poisoned[row], relevant=(f"p{label}",))
    wrong = replace(training_queries, question_set=QuestionSet("poisoned", question_set.passages, tuple(poisoned)))
    right, other = (fit_mix(rankings_of(scores), of, PARTS, N_PASSAGES) for of in (training_queries, wrong))
    fold = training_queries.folds[row]
    np.testing.assert_array_equal(right.weights[fold], other.weights[fold])
    seen = {f"p{passage}" for ranking in rankings_of(scores[:2]) for passage in ranking.indices[row, :5].tolist()}
    # other passages are no candidates and do not affect the fit
    if f"p{label}" in seen.difference(question_set.questions[row].relevant):
        assert (right.weights[FOLDS] != other.weights[FOLDS]).any()


@pytest.mark.slow
def test_model_trained_on_queries_is_weighted_by_other_queries() -> None:
    """An overfitted signal, noise on new queries, does no harm; a good one helps."""
    question_set, scores = world(300)
    known = np.arange(200)
    new = np.arange(200, 300)
    relevant = question_set.relevance.indices
    knowing = scores[2].copy()
    better = scores[2].copy()
    knowing[known, relevant[known]] += 4.0
    better[np.arange(300), relevant] += 2.5
    parts = ("words", "meaning", "tokens")  # a trained retriever is one of those mixed

    def learned_of(third: np.ndarray, trained: Sequence[bool], queries: TrainingQueries) -> tuple[float, float, float]:
        rankings = rankings_of([*scores[:2], third])
        learned = fit_mix(rankings, queries, parts, N_PASSAGES, trained)
        some = [ranking.select(new) for ranking in rankings]
        rankings_of_new = rank_by_mix(some, learned, queries.folds[new], N_PASSAGES, 10)
        reached = ndcg(rankings_of_new, question_set.with_questions(new))
        gain = describe_mix(rankings, learned, queries, "abc")["signals"]["c"]["gain"]
        return float(np.abs(learned.weights[FOLDS][4:]).sum()), reached, gain

    rows = question_set.answerable
    is_trained = (False, False, True)
    training_queries = TrainingQueries.from_question_set(question_set, rows, known)
    _, without, _ = learned_of(np.zeros_like(knowing), is_trained, training_queries)
    believed, reached, gain = learned_of(knowing, (), TrainingQueries.from_question_set(question_set, rows))
    assert (believed > 1, reached < without, gain > 0.05) == (True, True, True)  # as others are: too much
    believed, reached, gain = learned_of(knowing, is_trained, training_queries)
    assert believed < 0.1
    assert (reached, gain) == (pytest.approx(without, abs=0.005), pytest.approx(0, abs=0.005))
    believed, reached, gain = learned_of(better, is_trained, training_queries)
    assert believed > 1
    assert min(reached - without, gain) > 0.01


def test_reads_earlier_names_of_signal_notes(caplog: pytest.LogCaptureFixture) -> None:
    assert mixes.read_signal({"share": 0.5, "brings": 0.1}) == mixes.read_signal({"weight": 0.5, "gain": 0.1})
    details = TypeAdapter(mixes.SignalDetails).validate_python({"share": 1.0, "brings": 0.0})
    assert details == {"weight": 1.0, "gain": 0.0}
    assert "'share' is now 'weight'" in caplog.text


def test_folds_keep_linked_questions_together() -> None:
    question_set, _ = world(200)
    repeated = tuple(Question(f"again{row}", "question 3", relevant=(f"p{row}",)) for row in range(8))
    repeated_set = QuestionSet("more", question_set.passages, (*question_set.questions, *repeated))
    training_queries = labelled(repeated_set)
    assert len({*training_queries.folds[-8:], training_queries.folds[3]}) == 1
    titles = [int(question.relevant[0][1:]) // 2 for question in question_set.questions]
    pairs = [*zip(titles, training_queries.folds, strict=False)]
    pairs = {*pairs[:3], *pairs[4:]}
    assert len(pairs) == len({title for title, _ in pairs})
    assert np.bincount(training_queries.folds, minlength=FOLDS).min() > 25


def test_few_queries_keep_weights_near_untrained_mix() -> None:
    """Fewer questions leave the mix nearer to the untrained one, and it is no worse than that on all others."""
    question_set, scores = world(400)
    distances = []
    for count in (5, 60, 400):
        training_queries = TrainingQueries.from_question_set(question_set, np.arange(count))
        some = [ranking.select(slice(count)) for ranking in rankings_of(scores)]
        learned = fit_mix(some, training_queries, PARTS, N_PASSAGES)
        weights = learned.weights[FOLDS].reshape(3, 2)
        directions = weights[:, 0] / np.linalg.norm(weights)
        distances.append(1 - float(directions @ np.array([1, 1, 0])) / 2**0.5)
        rankings = rank_by_mix(rankings_of(scores), learned, np.full(400, FOLDS), N_PASSAGES, 10)
        assert ndcg(rankings, question_set) >= ndcg(untrained_mix(rankings_of(scores)), question_set) - 0.002
    assert distances[0] < distances[1] < distances[2]


def test_training_query_uses_fold_weights_and_new_query_uses_all() -> None:
    question_set, scores = world()
    texts = texts_of(question_set.questions)
    training_queries = TrainingQueries.from_question_set(question_set, np.arange(50))
    mix = mix_of(texts, scores, training_queries)
    rankings = mix.search(texts, 10)
    learned = fit_mix(rankings_of([signal[:50] for signal in scores]), training_queries, PARTS, N_PASSAGES)
    folds = np.concatenate([training_queries.folds, np.full(10, FOLDS)])
    expected = rank_by_mix(rankings_of(scores), learned, folds, N_PASSAGES, 10)
    np.testing.assert_array_equal(rankings.indices, expected.indices)
    assert mix.notes["questions"] == 50
    assert [*mix.notes["signals"]] == ["a", "b", "c"]


def test_reranker_signal_is_limited_to_its_depth() -> None:
    """Below the depth, its list has another order and scale."""
    question_set, scores = world()
    texts = texts_of(question_set.questions)
    training_queries = TrainingQueries.from_question_set(question_set, np.arange(50))
    order = np.argsort(np.argsort(-scores[1], axis=1), axis=1)
    reranked = scores.copy()
    reranked[1] = np.where(order < 5, scores[1], scores[1].min() - 1.0 - 40.0 * order)
    cut = mix_of(texts, reranked, training_queries, depths=(DEPTH, 5, DEPTH))
    lists = [ranking.first(5 if row == 1 else DEPTH) for row, ranking in enumerate(rankings_of(scores))]
    expected = fit_mix([ranking.select(slice(50)) for ranking in lists], training_queries, PARTS, N_PASSAGES)
    np.testing.assert_allclose(cut.learned.weights, expected.weights, atol=1e-4)
    rankings = cut.search(texts, DEPTH)
    assert rankings.indices.shape[1] == DEPTH
    folds = np.concatenate([training_queries.folds, np.full(10, FOLDS)])
    np.testing.assert_array_equal(rankings.indices, rank_by_mix(lists, expected, folds, N_PASSAGES, DEPTH).indices)
    plain = mix_of(texts, reranked, training_queries).search(texts, DEPTH)
    assert ndcg(rankings, question_set) > ndcg(plain, question_set)


@pytest.mark.parametrize("known", [40, 60])
def test_trained_model_is_not_run_on_its_training_queries(known: int) -> None:
    """Its results for them are not used; other weights are those of a full search."""
    question_set, scores = world()
    texts = texts_of(question_set.questions)
    trained = (False, True, False)
    training_queries = TrainingQueries.from_question_set(question_set, np.arange(60), np.arange(known))
    parts = [Fixed(name, texts, signal) for name, signal in zip("abc", scores, strict=True)]
    parts[1] = Fixed("b", texts[known:] or texts[:1], scores[1][known:])  # others it does not know
    options = {"n_passages": N_PASSAGES, "components": PARTS, "depth": DEPTH}
    mix = LearnedMix("mix", parts, training_queries, trained=trained, **options)
    weights = mix.learned.weights
    assert np.isfinite(weights).all()
    assert sum(signal["weight"] for signal in mix.notes["signals"].values()) == pytest.approx(1)
    if known == 60:
        np.testing.assert_allclose(weights[:, 2:4], 0.0, atol=1e-9)
    else:
        refitted = fit_mix(rankings_of(scores), training_queries, PARTS, N_PASSAGES, trained)
        assert np.sign(weights[FOLDS, 2]) == np.sign(refitted.weights[FOLDS, 2]) == 1


@pytest.mark.parametrize("components", [("words", None, "meaning"), (None, "words", None), (None, None, "meaning")])
def test_equal_signals_rank_like_single_signal(components: Sequence[str | None]) -> None:
    question_set, scores = world()
    learned = fit_to_scores(question_set, [scores[1], 2.0 * scores[1], 0.5 * scores[1]], components)
    assert learned.untrained_weights.tolist() == [1.0, 0.0, 0.0]
    rankings = ranked_by(learned, question_set, [scores[1]] * 3)
    np.testing.assert_array_equal(rankings.indices, top_k(scores[1], 10).indices)


@pytest.mark.parametrize(("count", "loss"), [(30, 0.1), (300, 0.01)])
def test_noise_retrievers_hardly_reduce_ndcg(count: int, loss: float) -> None:
    """Two of the three that make up the untrained mix say nothing; it is .3 of nDCG@10 below the third."""
    differences = []
    for seed in range(8):
        question_set, scores = world(count, seed)
        noise = np.random.default_rng(seed).normal(size=scores[2].shape)
        rankings = [top_k(signal, N_PASSAGES) for signal in (scores[2], scores[1], noise)]
        learned = fit_mix(rankings, labelled(question_set), ("words", "meaning", "tokens"), N_PASSAGES)
        ranked_by_mix = rank_by_mix(rankings, learned, labelled(question_set).folds, N_PASSAGES, 10)
        differences.append(ndcg(ranked_by_mix, question_set) - ndcg(rankings[1], question_set))
    assert np.mean(differences) > -loss


def test_rejects_mix_without_component() -> None:
    question_set, _ = world(3)
    with pytest.raises(ValueError, match="needs a retriever"):
        LearnedMix("mix", [], labelled(question_set), n_passages=3, components=[None])


START = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.0])
FREE = np.ones(6, dtype=bool)


def lists_of(n_questions: int, seed: int = 0) -> tuple[TrainingLists, list[Rankings]]:
    question_set, scores = world(n_questions, seed)
    training_queries = labelled(question_set)
    rankings = rankings_of(scores)
    learned = fit_mix(rankings, training_queries, PARTS, N_PASSAGES)
    return training_lists(rankings, learned, training_queries, N_PASSAGES), rankings


@pytest.mark.parametrize("strength", [3.0, 30.0])
def test_fit_minimizes_documented_loss(strength: float) -> None:
    """The loss as it is written, by a loop over queries, and a minimiser that knows no slope."""
    lists, rankings = lists_of(40)
    variances = [np.mean([np.var(row[np.isfinite(row)]) for row in ranking.scores]) for ranking in rankings]
    deviations = np.sqrt(variances).tolist()
    candidates = fuse(rankings, N_PASSAGES, Fusion.Z_SCORE, [0.5, 0.5, 0.0], 50).indices

    def values(query: int, passage: int) -> list[float]:
        of_signals = []
        for signal, deviation in zip(rankings, deviations, strict=True):
            row = signal.scores[query].astype(float)
            score = dict(zip(signal.indices[query].tolist(), row, strict=True)).get(passage, row.min())
            of_signals += [(score - row.mean()) / row.std(), (score - row.max()) / deviation]
        return of_signals

    queries = []  # with the passage among the candidates: all values, and its position
    for query, question in enumerate(lists.training_queries.question_set.questions):
        listed = [int(passage) for passage in candidates[query] if passage != NOT_FOUND]
        relevant = [position for position, passage in enumerate(listed) if f"p{passage}" in question.relevant]
        if relevant:
            queries.append((np.array([values(query, passage) for passage in listed]), relevant[0]))

    def likelihood(weights: np.ndarray) -> float:
        scores = [(valued @ weights, own) for valued, own in queries]
        return -float(sum(score[own] - np.log(np.exp(score).sum()) for score, own in scores))

    factor = minimize(lambda t: likelihood(t[0] * START), [1.0], method="Nelder-Mead").x[0]
    pull = strength * np.array([1.0, 1.0, 1.0, 1.0, EXTRA_STRENGTH, EXTRA_STRENGTH])

    def loss(weights: np.ndarray) -> float:
        return likelihood(weights) + float((pull * (weights - factor * START) ** 2).sum())

    least = minimize(loss, factor * START, method="Powell", options={"xtol": 1e-6, "ftol": 1e-10})
    (fitted,) = lists.fits(np.ones(40, dtype=bool), START, FREE, [strength])
    assert loss(fitted) == pytest.approx(least.fun, rel=1e-5)
    np.testing.assert_allclose(fitted, least.x, atol=2e-2)


def test_weights_average_fits_of_all_strengths_on_other_folds() -> None:
    lists, rankings = lists_of(60)
    training_queries = lists.training_queries
    for fold, weights in enumerate(fit_mix(rankings, training_queries, PARTS, N_PASSAGES).weights):
        rows = training_queries.folds != fold  # of the last, all
        fits = [lists.fits(rows, START, FREE, [strength])[0] for strength in STRENGTHS]
        np.testing.assert_allclose(weights, np.mean(fits, axis=0), atol=1e-4)


def test_stronger_penalty_keeps_weights_nearer_untrained_mix() -> None:
    lists, _ = lists_of(200)
    rows = np.ones(200, dtype=bool)
    (untrained,) = lists.fits(rows, START, FREE, [1e9])
    np.testing.assert_allclose(untrained / untrained.sum(), START, atol=1e-5)
    distances = [np.linalg.norm(fit - untrained) for fit in lists.fits(rows, START, FREE, STRENGTHS)]
    assert distances == sorted(distances)


def test_models_trained_on_all_queries_get_no_weight() -> None:
    lists, _ = lists_of(60)
    known = TrainingQueries.from_question_set(lists.training_queries.question_set, np.arange(60), np.arange(60))
    trained = np.repeat([False, True, False], 2)
    weights = TrainingLists(known, lists.indices, lists.values, lists.relevant, trained).averaged(START, FREE)
    assert not weights[:, trained].any()
    assert (weights[:, 0] > 0).all()
