"""A learned mix: its fits against the written formula, and that no ranking comes from weights that saw its question."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split.partition import FOLDS, Lessons
from mrc_workbench.retrieval.combine import Fusion, fused
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.mix import (
    EXTRA,
    STRENGTHS,
    Learned,
    LearnedMix,
    TrainingLists,
    explained,
    learn,
    mixed,
    training_lists,
)
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, top_k
from tests.doubles import texts_of

START = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.0])
FREE = np.ones(6, dtype=bool)
N_PASSAGES, DEPTH = 30, 12
PARTS = ("words", "meaning", None)


def lists_of(n_questions: int, seed: int = 0) -> tuple[TrainingLists, list[Rankings]]:
    question_set, scores = world(n_questions, seed)
    lessons = Lessons.of(question_set, question_set.answerable)
    rankings = rankings_of(scores)
    return training_lists(rankings, learn(rankings, lessons, PARTS, N_PASSAGES), lessons, N_PASSAGES), rankings


@pytest.mark.parametrize("strength", [3.0, 30.0])
def test_a_fit_has_the_least_loss_that_the_module_states(strength: float) -> None:
    """The loss as it is written, by a loop over queries, and a minimiser that knows no slope."""
    lists, rankings = lists_of(40)
    deviations = [float(np.sqrt(np.mean([np.var(row[np.isfinite(row)]) for row in one.scores]))) for one in rankings]
    candidates = fused(rankings, N_PASSAGES, Fusion.Z_SCORE, [0.5, 0.5, 0.0], 50).indices

    def values(query: int, passage: int) -> list[float]:
        of_signals = []
        for signal, deviation in zip(rankings, deviations, strict=True):
            row = signal.scores[query].astype(float)
            score = dict(zip(signal.indices[query].tolist(), row, strict=True)).get(passage, row.min())
            of_signals += [(score - row.mean()) / row.std(), (score - row.max()) / deviation]
        return of_signals

    queries = []  # of each with its passage among the candidates: the values of all, and the position of its own
    for query, question in enumerate(lists.lessons.question_set.questions):
        listed = [int(passage) for passage in candidates[query] if passage != NOT_FOUND]
        relevant = [position for position, passage in enumerate(listed) if f"p{passage}" in question.relevant]
        if relevant:
            queries.append((np.array([values(query, passage) for passage in listed]), relevant[0]))

    def likelihood(weights: np.ndarray) -> float:
        scores = [(valued @ weights, own) for valued, own in queries]
        return -float(sum(score[own] - np.log(np.exp(score).sum()) for score, own in scores))

    factor = minimize(lambda t: likelihood(t[0] * START), [1.0], method="Nelder-Mead").x[0]
    pull = strength * np.array([1.0, 1.0, 1.0, 1.0, EXTRA, EXTRA])

    def loss(weights: np.ndarray) -> float:
        return likelihood(weights) + float((pull * (weights - factor * START) ** 2).sum())

    least = minimize(loss, factor * START, method="Powell", options={"xtol": 1e-6, "ftol": 1e-10})
    (fitted,) = lists.fits(np.ones(40, dtype=bool), START, FREE, [strength])
    assert loss(fitted) == pytest.approx(least.fun, rel=1e-5)
    np.testing.assert_allclose(fitted, least.x, atol=2e-2)


def test_the_weights_are_the_average_of_fits_of_all_strengths_to_the_other_folds() -> None:
    lists, rankings = lists_of(60)
    lessons = lists.lessons
    for fold, weights in enumerate(learn(rankings, lessons, PARTS, N_PASSAGES).weights):
        rows = lessons.folds != fold  # of the last, all
        fits = [lists.fits(rows, START, FREE, [strength])[0] for strength in STRENGTHS]
        np.testing.assert_allclose(weights, np.mean(fits, axis=0), atol=1e-4)


def test_the_stronger_the_pull_the_nearer_is_a_fit_to_the_scaled_untrained_mix() -> None:
    lists, _ = lists_of(200)
    rows = np.ones(200, dtype=bool)
    (untrained,) = lists.fits(rows, START, FREE, [1e9])
    np.testing.assert_allclose(untrained / untrained.sum(), START, atol=1e-5)
    distances = [np.linalg.norm(fit - untrained) for fit in lists.fits(rows, START, FREE, STRENGTHS)]
    assert distances == sorted(distances)


def test_models_that_know_all_queries_count_nothing() -> None:
    lists, _ = lists_of(60)
    known = Lessons.of(lists.lessons.question_set, np.arange(60), np.arange(60))
    trained = np.repeat([False, True, False], 2)
    weights = TrainingLists(known, lists.indices, lists.values, lists.relevant, trained).averaged(START, FREE)
    assert not weights[:, trained].any()
    assert (weights[:, 0] > 0).all()


def world(n_questions: int = 60, seed: int = 0) -> tuple[QuestionSet, list[np.ndarray]]:
    """Questions of passages, three of each in turn, and scores of three signals: good, middling, and noise."""
    random = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"passage {row}", f"title {row // 2}") for row in range(N_PASSAGES))
    relevant = random.integers(0, N_PASSAGES, n_questions)
    questions = tuple(
        Question(f"q{row}", f"question {row}", relevant=(f"p{passage}",)) for row, passage in enumerate(relevant)
    )
    scores = []
    for worth in (1.0, 2.5, 0.0):
        signal = random.normal(size=(n_questions, N_PASSAGES))
        signal[np.arange(n_questions), relevant] += worth
        scores.append(signal)
    return QuestionSet("world", passages, questions), scores


def rankings_of(scores: Sequence[np.ndarray]) -> list[Rankings]:
    return [top_k(one, DEPTH) for one in scores]


def taught(question_set: QuestionSet, scores: Sequence[np.ndarray], parts: Sequence[str | None] = PARTS) -> Learned:
    lessons = Lessons.of(question_set, question_set.answerable)
    return learn(rankings_of(scores), lessons, parts, N_PASSAGES)


def ranked_by(learned: Learned, question_set: QuestionSet, scores: Sequence[np.ndarray]) -> Rankings:
    folds = Lessons.of(question_set, question_set.answerable).folds
    return mixed(rankings_of(scores), learned, folds, N_PASSAGES, 10)


def untaught(rankings: Sequence[Rankings]) -> Rankings:
    return fused(rankings, N_PASSAGES, Fusion.Z_SCORE, [0.5, 0.5, 0.0], 10)


def ndcg(rankings: Rankings, question_set: QuestionSet) -> float:
    return evaluate(rankings, question_set, (10,)).means()["ndcg@10"]


def test_untaught_it_is_the_mix_of_two_halves_by_z_score() -> None:
    question_set, scores = world()
    nothing = Lessons.of(question_set, np.zeros(0, dtype=np.int64))
    rankings = rankings_of(scores)
    learned = learn(rankings, nothing, PARTS, N_PASSAGES)
    found, expected = mixed(rankings, learned, np.full(60, FOLDS), N_PASSAGES, 10), untaught(rankings)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)


def test_the_better_signal_counts_more_and_the_mix_is_better_than_each_and_than_the_untaught() -> None:
    question_set, scores = world(300)
    learned, rankings = taught(question_set, scores), rankings_of(scores)
    lessons = Lessons.of(question_set, question_set.answerable)
    middling, good, noise = explained(rankings, learned, lessons, "abc")["signals"].values()
    assert good["share"] > middling["share"] > 4 * noise["share"]
    assert good["share"] + middling["share"] + noise["share"] == pytest.approx(1)
    assert good["brings"] > middling["brings"] > 0.01 > abs(noise["brings"])
    reached = ndcg(ranked_by(learned, question_set, scores), question_set)
    alone = [ndcg(one, question_set) for one in rankings]
    assert reached > max(*alone, ndcg(untaught(rankings), question_set))


@pytest.mark.slow
@settings(max_examples=20)
@given(st.sampled_from([0.125, 8.0, 1024.0]), st.integers(0, 2), st.integers(0, 5))
def test_scores_times_a_constant_change_nothing(factor: float, signal: int, seed: int) -> None:
    question_set, scores = world(seed=seed)
    other = [one * factor if row == signal else one for row, one in enumerate(scores)]
    found, again = (ranked_by(taught(question_set, of), question_set, of) for of in (scores, other))
    np.testing.assert_array_equal(found.indices, again.indices)
    np.testing.assert_allclose(found.scores, again.scores, atol=1e-4)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 2), st.sampled_from(["words", "meaning", None]), st.integers(0, 5))
def test_a_copy_of_a_signal_changes_no_ranking(signal: int, part: str | None, seed: int) -> None:
    question_set, scores = world(seed=seed)
    found = ranked_by(taught(question_set, scores), question_set, scores)
    both, parts = [*scores, 3.0 * scores[signal]], [*PARTS, part]
    again = ranked_by(taught(question_set, both, parts), question_set, both)
    np.testing.assert_array_equal(found.indices, again.indices)


class Fixed:
    """A retriever whose scores of known questions are given."""

    def __init__(self, name: str, texts: Sequence[str], scores: np.ndarray) -> None:
        self.name, self._row, self._scores = name, {text: row for row, text in enumerate(texts)}, scores

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        return top_k(self._scores[[self._row[text] for text in questions]].reshape(len(questions), -1), k)


def mix_of(texts: Sequence[str], scores: Sequence[np.ndarray], lessons: Lessons, **options: Any) -> LearnedMix:
    parts = [Fixed(name, texts, one) for name, one in zip("abcde", scores, strict=False)]
    return LearnedMix("mix", parts, lessons, n_passages=N_PASSAGES, depth=DEPTH, **{"halves": PARTS, **options})


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
def test_a_mix_of_copies_ranks_as_the_signal_does(  # noqa: PLR0917 - drawn by Hypothesis
    factors: list[float], half: str | None, worth: float, is_trained: bool, known: int, seed: int
) -> None:
    question_set, (_, _, scores) = world(30, seed)
    row_of = {passage.id: row for row, passage in enumerate(question_set.passages)}
    relevant = [row_of[question.relevant[0]] for question in question_set.questions]
    scores[np.arange(30), relevant] += worth
    copies = [scores * factor for factor in (1.0, *factors)]
    lessons = replace(Lessons.of(question_set, question_set.answerable), known=np.arange(30) < known)
    asked = texts_of(question_set.questions)
    options = {"halves": ["words", *(half for _ in factors)], "trained": [is_trained] * len(copies)}
    mix = mix_of(asked, copies, lessons, **options)
    np.testing.assert_array_equal(mix.search(asked, 10).indices, top_k(scores, 10).indices)
    assert set(mix.notes["signals"]) == {*"abcde"[: len(copies)]}
    assert all(np.isfinite([*signal.values()]).all() for signal in mix.notes["signals"].values())


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 59), st.integers(0, N_PASSAGES - 1))
def test_a_wrong_label_moves_nothing_in_its_own_fold(row: int, label: int) -> None:
    question_set, scores = world()
    lessons = Lessons.of(question_set, question_set.answerable)
    poisoned = list(question_set.questions)
    poisoned[row] = replace(poisoned[row], relevant=(f"p{label}",))
    wrong = replace(lessons, question_set=QuestionSet("poisoned", question_set.passages, tuple(poisoned)))
    right, other = (learn(rankings_of(scores), of, PARTS, N_PASSAGES) for of in (lessons, wrong))
    fold = lessons.folds[row]
    np.testing.assert_array_equal(right.weights[fold], other.weights[fold])
    seen = {f"p{passage}" for one in rankings_of(scores[:2]) for passage in one.indices[row, :5].tolist()}
    if f"p{label}" in seen.difference(
        question_set.questions[row].relevant
    ):  # what neither half finds is no candidate, and teaches nothing
        assert (right.weights[FOLDS] != other.weights[FOLDS]).any()


@pytest.mark.slow
def test_who_knows_the_answers_is_trusted_for_the_other_questions_alone() -> None:
    """A signal that knows what it was trained on, and is noise elsewhere, hurts nothing; a good one helps."""
    question_set, scores = world(300)
    known, new = np.arange(200), np.arange(200, 300)
    relevant = question_set.relevance.indices
    knowing, better = scores[2].copy(), scores[2].copy()
    knowing[known, relevant[known]] += 4.0
    better[np.arange(300), relevant] += 2.5
    parts = ("words", "meaning", "tokens")  # a trained retriever is one of those mixed

    def learned_of(third: np.ndarray, trained: Sequence[bool], lessons: Lessons) -> tuple[float, float, float]:
        rankings = rankings_of([*scores[:2], third])
        learned = learn(rankings, lessons, parts, N_PASSAGES, trained)
        some = [Rankings(one.indices[new], one.scores[new]) for one in rankings]
        reached = ndcg(mixed(some, learned, lessons.folds[new], N_PASSAGES, 10), question_set.with_questions(new))
        brings = explained(rankings, learned, lessons, "abc")["signals"]["c"]["brings"]
        return float(np.abs(learned.weights[FOLDS][4:]).sum()), reached, brings

    rows, is_trained = question_set.answerable, (False, False, True)
    lessons = Lessons.of(question_set, rows, known)
    _, without, _ = learned_of(np.zeros_like(knowing), is_trained, lessons)
    believed, reached, brings = learned_of(knowing, (), Lessons.of(question_set, rows))
    assert (believed > 1, reached < without, brings > 0.05) == (True, True, True)  # as others are: too much
    believed, reached, brings = learned_of(knowing, is_trained, lessons)
    assert believed < 0.1
    assert (reached, brings) == (pytest.approx(without, abs=0.005), pytest.approx(0, abs=0.005))
    believed, reached, brings = learned_of(better, is_trained, lessons)
    assert believed > 1
    assert min(reached - without, brings) > 0.01


def test_folds_keep_groups_of_passages_and_equal_texts_together() -> None:
    question_set, _ = world(200)
    repeated = tuple(Question(f"again{row}", "question 3", relevant=(f"p{row}",)) for row in range(8))
    all_asked = QuestionSet("more", question_set.passages, (*question_set.questions, *repeated))
    lessons = Lessons.of(all_asked, all_asked.answerable)
    assert len({*lessons.folds[-8:], lessons.folds[3]}) == 1
    titles = [int(question.relevant[0][1:]) // 2 for question in question_set.questions]
    pairs = {(title, fold) for row, (title, fold) in enumerate(zip(titles, lessons.folds, strict=False)) if row != 3}
    assert len(pairs) == len({title for title, _ in pairs})
    assert np.bincount(lessons.folds, minlength=FOLDS).min() > 25


def test_a_set_of_one_article_is_in_folds_by_its_passages() -> None:
    passages = tuple(Passage(f"p{row}", f"passage {row}", "the only title") for row in range(10))
    questions = tuple(Question(f"q{row}", f"question {row}", relevant=(f"p{row % 10}",)) for row in range(40))
    folds = Lessons.of(QuestionSet("one", passages, questions), np.arange(40)).folds
    assert np.bincount(folds, minlength=FOLDS).tolist() == [8] * FOLDS
    assert all(len({*folds[row::10]}) == 1 for row in range(10))


def test_of_few_questions_little_is_learned() -> None:
    """Fewer questions leave the mix nearer to the untrained one, and it is no worse than that on all others."""
    question_set, scores = world(400)
    distances = []
    for count in (5, 60, 400):
        lessons = Lessons.of(question_set, np.arange(count))
        some = [Rankings(one.indices[:count], one.scores[:count]) for one in rankings_of(scores)]
        learned = learn(some, lessons, PARTS, N_PASSAGES)
        weights = learned.weights[FOLDS].reshape(3, 2)
        directions = weights[:, 0] / np.linalg.norm(weights)
        distances.append(1 - float(directions @ np.array([1, 1, 0])) / 2**0.5)
        found = mixed(rankings_of(scores), learned, np.full(400, FOLDS), N_PASSAGES, 10)
        assert ndcg(found, question_set) >= ndcg(untaught(rankings_of(scores)), question_set) - 0.002
    assert distances[0] < distances[1] < distances[2]


def test_a_question_that_taught_is_ranked_by_its_fold_and_a_new_one_by_all() -> None:
    question_set, scores = world()
    texts, lessons = texts_of(question_set.questions), Lessons.of(question_set, np.arange(50))
    mix = mix_of(texts, scores, lessons)
    found = mix.search(texts, 10)
    learned = learn(rankings_of([one[:50] for one in scores]), lessons, PARTS, N_PASSAGES)
    folds = np.concatenate([lessons.folds, np.full(10, FOLDS)])
    expected = mixed(rankings_of(scores), learned, folds, N_PASSAGES, 10)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert mix.notes["questions"] == 50
    assert [*mix.notes["signals"]] == ["a", "b", "c"]


def test_of_a_reranker_only_what_it_read_is_a_signal() -> None:
    """Below, its list has another's order and scores of a scale of their own, which would hide what it says."""
    question_set, scores = world()
    texts, lessons = texts_of(question_set.questions), Lessons.of(question_set, np.arange(50))
    order = np.argsort(np.argsort(-scores[1], axis=1), axis=1)
    reranked = scores.copy()
    reranked[1] = np.where(order < 5, scores[1], scores[1].min() - 1.0 - 40.0 * order)
    cut = mix_of(texts, reranked, lessons, depths=(DEPTH, 5, DEPTH))
    lists = [one.first(5 if row == 1 else DEPTH) for row, one in enumerate(rankings_of(scores))]
    expected = learn([Rankings(one.indices[:50], one.scores[:50]) for one in lists], lessons, PARTS, N_PASSAGES)
    np.testing.assert_allclose(cut.learned.weights, expected.weights, atol=1e-4)
    found = cut.search(texts, DEPTH)
    assert found.indices.shape[1] == DEPTH
    folds = np.concatenate([lessons.folds, np.full(10, FOLDS)])
    np.testing.assert_array_equal(found.indices, mixed(lists, expected, folds, N_PASSAGES, DEPTH).indices)
    assert ndcg(found, question_set) > ndcg(mix_of(texts, reranked, lessons).search(texts, DEPTH), question_set)


@pytest.mark.parametrize("known", [40, 60])
def test_who_was_trained_on_a_question_is_not_asked_it_to_teach(known: int) -> None:
    """What it finds for them would teach nothing; the others' weights are those that all of it would teach."""
    question_set, scores = world()
    texts, trained = texts_of(question_set.questions), (False, True, False)
    lessons = Lessons.of(question_set, np.arange(60), np.arange(known))
    parts = [Fixed(name, texts, one) for name, one in zip("abc", scores, strict=True)]
    parts[1] = Fixed("b", texts[known:] or texts[:1], scores[1][known:])  # others it does not know
    mix = LearnedMix("mix", parts, lessons, n_passages=N_PASSAGES, halves=PARTS, trained=trained, depth=DEPTH)
    weights = mix.learned.weights
    assert np.isfinite(weights).all()
    assert sum(one["share"] for one in mix.notes["signals"].values()) == pytest.approx(1)
    if known == 60:
        np.testing.assert_allclose(weights[:, 2:4], 0.0, atol=1e-9)
    else:
        asked = learn(rankings_of(scores), lessons, PARTS, N_PASSAGES, trained)
        assert np.sign(weights[FOLDS, 2]) == np.sign(asked.weights[FOLDS, 2]) == 1


@pytest.mark.parametrize("halves", [("words", None, "meaning"), (None, "words", None), (None, None, "meaning")])
def test_equal_signals_rank_as_one_of_them(halves: Sequence[str | None]) -> None:
    question_set, scores = world()
    learned = taught(question_set, [scores[1], 2.0 * scores[1], 0.5 * scores[1]], halves)
    assert learned.shares.tolist() == [1.0, 0.0, 0.0]
    found = ranked_by(learned, question_set, [scores[1]] * 3)
    np.testing.assert_array_equal(found.indices, top_k(scores[1], 10).indices)


@pytest.mark.parametrize(("count", "loss"), [(30, 0.1), (300, 0.01)])
def test_useless_retrievers_cost_the_mix_little(count: int, loss: float) -> None:
    """Two of the three that make up the untrained mix say nothing; it is .3 of nDCG@10 below the third."""
    differences = []
    for seed in range(8):
        question_set, scores = world(count, seed)
        noise = np.random.default_rng(seed).normal(size=scores[2].shape)
        rankings = [top_k(one, N_PASSAGES) for one in (scores[2], scores[1], noise)]  # every passage is a candidate
        lessons = Lessons.of(question_set, question_set.answerable)
        learned = learn(rankings, lessons, ("words", "meaning", "tokens"), N_PASSAGES)
        ranked_by_mix = mixed(rankings, learned, lessons.folds, N_PASSAGES, 10)
        differences.append(ndcg(ranked_by_mix, question_set) - ndcg(rankings[1], question_set))
    assert np.mean(differences) > -loss


def test_a_mix_of_nothing_that_counts_is_refused() -> None:
    question_set, _ = world(3)
    with pytest.raises(ValueError, match="needs a retriever"):
        LearnedMix("mix", [], Lessons.of(question_set, np.arange(3)), n_passages=3, halves=[None])
