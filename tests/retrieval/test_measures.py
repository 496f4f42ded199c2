"""Every measure against ir-measures, the field's own implementation, by hand, and on a set of each published layout."""

from math import log2
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, Bpref, Judged, R, Success, nDCG

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval.measures import Measure, evaluate, first_relevant_ranks, measure_names, required_depth
from mrc_workbench.retrieval.rankings import Rankings, top_k
from tests.retrieval.compared import hits_of, ir_measures_by_name

KS = (1, 3, 5, 10, 20)
THEIRS = ir_measures_by_name(KS)
BY_JUDGEMENTS = {**{f"judged@{k}": Judged @ k for k in KS}, "bpref@20": Bpref}
EXPONENTIAL = {f"ndcg_exp@{k}": nDCG(dcg="exp-log2") @ k for k in KS}


def random_set(rng: np.random.Generator, n_questions: int, n_passages: int, most_relevant: int) -> QuestionSet:
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in range(n_passages))
    sizes = (rng.integers(1, most_relevant + 1) for _ in range(n_questions))
    relevant = [tuple(f"p{row}" for row in rng.choice(n_passages, size, replace=False)) for size in sizes]
    questions = tuple(Question(f"q{row}", f"question {row}", relevant=ids) for row, ids in enumerate(relevant))
    return QuestionSet("random", passages, questions)


def random_rankings(rng: np.random.Generator, question_set: QuestionSet, k: int) -> Rankings:
    shape = (len(question_set.questions), len(question_set.passages))
    scores = rng.permuted(np.tile(np.arange(shape[1], dtype=np.float32), (shape[0], 1)), axis=1)
    return top_k(np.where(rng.random(shape) < 1 / 3, -np.inf, scores), k)


def of_ir_measures(rankings: Rankings, question_set: QuestionSet, theirs: Any = THEIRS) -> dict[str, np.ndarray]:
    """(n_questions,) values of every measure; 0 without results, which trec_eval omits."""
    qrels = {q.id: q.grade_of for q in question_set.questions}
    run = {
        question.id: {f"p{row}": score for row, score in hits.items()}
        for question, hits in zip(question_set.questions, hits_of(rankings), strict=True)
    }
    values = {name: dict.fromkeys(qrels, 0.0) for name in theirs}
    names = {measure: name for name, measure in theirs.items()}
    for metric in ir_measures.iter_calc(list(theirs.values()), qrels, run):
        values[names[metric.measure]][metric.query_id] = metric.value
    return {name: np.array([by_question[id_] for id_ in qrels]) for name, by_question in values.items()}


@pytest.mark.parametrize("most_relevant", [1, 4, 15])
@pytest.mark.parametrize(("n_passages", "k"), [(15, 20), (200, 20), (200, 50)])
def test_every_measure_equals_ir_measures(most_relevant: int, n_passages: int, k: int) -> None:
    rng = np.random.default_rng(n_passages + most_relevant)
    question_set = random_set(rng, 120, n_passages, most_relevant)
    rankings = random_rankings(rng, question_set, k)
    scores = evaluate(rankings, question_set, KS)
    expected = of_ir_measures(rankings, question_set)
    assert list(scores.per_question) == measure_names(KS) == list(expected)
    for name, values in expected.items():
        assert scores.per_question[name].dtype == np.float64
        np.testing.assert_allclose(scores.per_question[name], values, atol=1e-6)
        assert scores.means()[name] == pytest.approx(values.mean(), abs=1e-6)
    if most_relevant == 1:
        for depth in KS:
            np.testing.assert_array_equal(scores.per_question[f"recall@{depth}"], scores.per_question[f"hit@{depth}"])


@pytest.mark.parametrize("highest", [1, 3, 4, 1000])
def test_graded_measures_equal_ir_measures(highest: int) -> None:
    """Compute the exponential gain of grades above 4, which gdeval does not support."""
    rng = np.random.default_rng(highest)
    plain = random_set(rng, 120, 60, 8)
    grades = [{id_: int(rng.integers(0, highest + 1)) for id_ in item.relevant} for item in plain.questions]
    questions = tuple(Question.from_grades(f"{row}", "?", of | {"p0": 1}) for row, of in enumerate(grades))
    graded = QuestionSet("graded", plain.passages, questions)
    assert graded.gains is not None
    rankings = random_rankings(rng, graded, 20)
    theirs = THEIRS | BY_JUDGEMENTS | (EXPONENTIAL if 1 < highest <= 4 else {})
    scores = evaluate(rankings, graded, KS)
    expected = of_ir_measures(rankings, graded, theirs)
    exponential = set(EXPONENTIAL if highest > 1 else ())
    assert set(scores.per_question) == {*THEIRS, *BY_JUDGEMENTS, *exponential}
    for name, values in expected.items():
        close = 1e-5 if name in EXPONENTIAL else 1e-6  # gdeval prints five digits
        np.testing.assert_allclose(scores.per_question[name], values, atol=close, err_msg=name)
    for name in exponential:
        k = Measure.parse(name).cutoff
        for row, question in enumerate(questions):
            gains = [2 ** question.grade_of.get(f"p{item}", 0) - 1 for item in rankings.indices[row, :k].tolist()]
            best = sorted((2**grade - 1 for grade in question.grade_of.values()), reverse=True)[:k]
            dcg, ideal = (sum(gain / log2(position + 2) for position, gain in enumerate(of)) for of in (gains, best))
            assert scores.per_question[name][row] == pytest.approx(dcg / ideal)


@pytest.mark.parametrize("least", [2, 3])
def test_relevance_threshold_can_be_raised(least: int) -> None:
    rng = np.random.default_rng(least)
    plain = random_set(rng, 120, 60, 8)
    grades = ({id_: int(rng.integers(0, 4)) for id_ in labelled.relevant} for labelled in plain.questions)
    questions = tuple(Question.from_grades(f"{row}", "?", of) for row, of in enumerate(grades))
    question_set = QuestionSet("graded", plain.passages, questions).relevant_from(least)
    expected = [labelled.id for labelled in questions if max(labelled.grade_of.values()) >= least]
    assert [labelled.id for labelled in question_set.questions] == expected
    rankings = random_rankings(rng, question_set, 20)
    rel = {"rel": least}
    theirs = {f"recall@{k}": R(**rel) @ k for k in KS} | {f"hit@{k}": Success(**rel) @ k for k in KS}
    theirs |= {f"mrr@{k}": RR(**rel) @ k for k in KS} | {"bpref@20": Bpref(**rel)}
    theirs |= {f"ndcg@{k}": nDCG @ k for k in KS} | {f"judged@{k}": Judged @ k for k in KS}
    scores = evaluate(rankings, question_set, KS)
    for name, values in of_ir_measures(rankings, question_set, theirs).items():
        np.testing.assert_allclose(scores.per_question[name], values, atol=1e-6, err_msg=name)


def test_judged_and_unjudged_by_hand() -> None:
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(12))
    judged = Question.from_grades("q0", "?", {"p0": 1, "p1": 2, "p2": 0, "p3": 0, "p4": 0})
    alone = Question("q1", "??", relevant=("p5",))
    question_set = QuestionSet("judged", passages, (judged, alone))
    # q0: non-relevant, relevant, unjudged, relevant; q1: its only passage below an unjudged one
    scores = evaluate(ranked([2, 0, 11, 1], [6, 5]), question_set, (1, 4)).per_question
    assert scores["judged@1"].tolist() == [1, 0]
    assert scores["judged@4"].tolist() == [3 / 4, 1 / 2]
    assert scores["bpref@10"].tolist() == [(2 - 2 * 1 / 2) / 2, 1], "what nobody judged does not count against it"
    without_results = evaluate(ranked([], [6]), question_set, (1,)).per_question
    assert without_results["judged@1"].tolist() == [1, 0], "nothing is unjudged"
    assert question_set.with_questions([1]).judged is None, "of relevant passages alone nobody can tell"


@pytest.mark.parametrize(("depth", "known"), [(9, False), (10, True)])
def test_default_cutoff_needs_depth_10(*, depth: int, known: bool) -> None:
    question_set = random_set(np.random.default_rng(0), 5, 30, 2)
    scores = evaluate(random_rankings(np.random.default_rng(1), question_set, depth), question_set, (1,))
    assert ({"mrr@10", "ndcg@10"} <= set(scores.per_question)) is known


def test_group_recall_is_fraction_of_groups_hit() -> None:
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(8))
    grouped = Question("q0", "?", relevant=("p1", "p2", "p3", "p4"), groups=(("p1", "p2"), ("p3",), ("p4", "p1")))
    plain = Question("q1", "??", relevant=("p5", "p6"))
    question_set = QuestionSet("groups", passages, (grouped, plain))
    scores = evaluate(ranked([2, 0, 1, 5, 3], [5, 0, 0, 1, 2], k=5), question_set, (1, 3, 5)).per_question
    # p2 answers the first group, p1 (third) the first and the last, p3 (fifth) the middle one
    assert [scores[f"recall@{k}"][0] for k in (1, 3, 5)] == pytest.approx([1 / 3, 2 / 3, 1])
    assert [scores[f"recall@{k}"][1] for k in (1, 3, 5)] == pytest.approx([1 / 2, 1 / 2, 1 / 2])
    assert scores["hit@1"].tolist() == [1, 1]


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_random_rankings_equal_ir_measures(data: st.DataObject) -> None:
    n_passages = data.draw(st.integers(1, 14), "passages")
    orders = st.permutations(range(n_passages))
    relevant, listed = (
        st.tuples(orders, st.integers(least, n_passages)).map(lambda examples: examples[0][: examples[1]])
        for least in (1, 0)
    )
    examples = data.draw(st.lists(st.tuples(relevant, listed), min_size=1, max_size=4), "relevant and found")
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in range(n_passages))
    relevant = [tuple(f"p{p}" for p in passages) for passages, _ in examples]
    questions = tuple(Question(f"q{row}", "?", relevant=ids) for row, ids in enumerate(relevant))
    question_set = QuestionSet("any", passages, questions)
    rankings = ranked(*(line for _, line in examples), k=20)
    expected = of_ir_measures(rankings, question_set)
    for name, values in evaluate(rankings, question_set, KS).per_question.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-6, err_msg=name)


@pytest.fixture
def two_questions() -> QuestionSet:
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(12))
    questions = (Question("q0", "?", relevant=("p2", "p7", "p2")), Question("q1", "??", relevant=("p0",)))
    return QuestionSet("two", passages, questions)


def ranked(*rows: list[int], k: int = 12) -> Rankings:
    indices = np.array([line + [-1] * (k - len(line)) for line in rows], dtype=np.int32)
    return Rankings(indices, np.where(indices >= 0, -np.arange(k, dtype=np.float32), -np.inf))


def test_measures_by_hand(two_questions: QuestionSet) -> None:
    # q0: its two passages at ranks 2 and 4; q1: its passage at rank 11
    rankings = ranked([5, 2, 6, 7], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0])
    scores = evaluate(rankings, two_questions, (1, 2, 11))
    per_question = {name: values.tolist() for name, values in scores.per_question.items()}
    gain = 1 / 1.5849625 + 1 / 2.3219281
    ideal = 1 + 1 / 1.5849625
    assert per_question.pop("ndcg@2") == pytest.approx([1 / 1.5849625 / ideal, 0])
    assert per_question.pop("ndcg@10") == pytest.approx([gain / ideal, 0])
    assert per_question.pop("ndcg@11") == pytest.approx([gain / ideal, 1 / 3.5849625])
    assert per_question.pop("mrr@11") == pytest.approx([0.5, 1 / 11])
    assert per_question == {
        **{"recall@1": [0, 0], "recall@2": [0.5, 0], "recall@11": [1, 1]},
        **{"hit@1": [0, 0], "hit@2": [1, 0], "hit@11": [1, 1]},
        **{"mrr@1": [0, 0], "mrr@2": [0.5, 0], "mrr@10": [0.5, 0], "ndcg@1": [0, 0]},
    }
    assert first_relevant_ranks(rankings, two_questions).tolist() == [2, 11]


def test_empty_ranking_scores_0_if_row_0_is_relevant(two_questions: QuestionSet) -> None:
    rankings = ranked([], [])
    assert set(evaluate(rankings, two_questions, (1, 12)).means().values()) == {0.0}
    assert first_relevant_ranks(rankings, two_questions).tolist() == [0, 0]


def test_required_depth() -> None:
    assert (required_depth((1, 5)), required_depth((1, 50))) == (10, 50)


def test_omits_measures_deeper_than_rankings(two_questions: QuestionSet) -> None:
    shallow = evaluate(ranked([1], [2], k=9), two_questions, (1, 9, 10))
    known = [f"{name}@{k}" for name in ("recall", "hit", "mrr", "ndcg") for k in (1, 9)]
    assert (shallow.ks, list(shallow.per_question)) == ((1, 9), known)
    whole = evaluate(ranked([1], [2]), two_questions, (1, 12, 13))
    assert list(whole.per_question) == [
        *("recall@1", "recall@12", "recall@13", "hit@1", "hit@12", "hit@13"),
        *("mrr@1", "mrr@10", "mrr@12", "mrr@13", "ndcg@1", "ndcg@10", "ndcg@12", "ndcg@13"),
    ]  # there are 12 passages: nothing lies below the last
    for name in ("recall", "hit", "mrr", "ndcg"):
        assert whole.per_question[f"{name}@13"].tolist() == whole.per_question[f"{name}@12"].tolist()
    nothing = evaluate(Rankings(np.zeros((2, 0), dtype=np.int32), np.zeros((2, 0))), two_questions)
    assert (nothing.ks, nothing.means()) == ((), {})


def test_rejects_rankings_that_cannot_be_scored(two_questions: QuestionSet) -> None:
    with pytest.raises(ValueError, match="1 rankings for 2 questions"):
        evaluate(ranked([1]), two_questions)
    with pytest.raises(ValueError, match="0 rankings for 0 questions"):
        evaluate(Rankings(np.zeros((0, 12), dtype=np.int32), np.zeros((0, 12))), two_questions.with_questions([]), (1,))
    unanswerable = QuestionSet("one", two_questions.passages, (Question("q", "?"),))
    with pytest.raises(ValueError, match="without a relevant passage"):
        evaluate(ranked([1]), unanswerable, (1,))


def test_parses_measure_and_returns_names() -> None:
    recall = Measure.parse("recall@100")
    ndcg = Measure.parse("ndcg@10")
    assert (recall, ndcg) == (Measure("recall", 100), Measure("ndcg", 10))
    assert [f"{recall}", recall.long_name, recall.short_name] == ["recall@100", "Recall@100", "R@100"]
    assert [f"{ndcg}", ndcg.long_name, ndcg.short_name] == ["ndcg@10", "nDCG@10", "nDCG@10"]
    assert [str(Measure.parse(text)) for text in measure_names(KS)] == measure_names(KS)


@pytest.mark.parametrize("text", ["", "recall", "recall@", "recall@all", "precision@10", "Recall@10"])
def test_rejects_unknown_measure(text: str) -> None:
    with pytest.raises(ValueError, match=r"measure|int"):
        Measure.parse(text)
