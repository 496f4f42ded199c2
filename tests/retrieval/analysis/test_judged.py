"""What to judge next, and who stands back where much was not judged: counted by hand, and as ir-measures counts it."""

import ir_measures
import numpy as np
from ir_measures import Judged

from data.records import Passage, Question, QuestionSet
from retrieval.analysis.evidence import at_disadvantage, judged_measures, pool
from retrieval.evaluation.significance import question_groups
from tests.doubles import PASSAGES, QUESTIONS
from tests.retrieval.compared import LATE, RIGHT, comparison_of

MANY = 12


def graded(n_judged: int) -> QuestionSet:
    """Questions of which the first passages were judged, one of them relevant, by their own place in the corpus."""
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(30))
    grades = {f"p{row}": int(row == 0) for row in range(n_judged)}
    return QuestionSet("graded", passages, tuple(Question.judged(f"q{row}", f"{row}?", grades) for row in range(MANY)))


def test_the_pool_is_what_all_found_and_nobody_judged() -> None:
    comparison = comparison_of({"right": RIGHT, "late": LATE, "lost": None})
    whole = pool(comparison, 100, 2)
    assert {(QUESTIONS[one.question].id, PASSAGES[one.passage].id) for one in whole} == {
        *(("q1", "p5"), ("q2", "p5"), ("q3", "p5"), ("q4", "p5")),
        *(("q5", "p1"), ("q6", "p5")),
    }, "of relevant passages alone, all others are unjudged"
    assert pool(comparison, 100, 2) == whole
    assert pool(comparison, 2, 2) == whole[:2], "a smaller pool is where a larger one begins"
    assert pool(comparison_of({"lost": None}), 3, 2) == pool(comparison, 0, 2) == []


def test_passages_stand_by_no_rank_and_no_retriever() -> None:
    rows = [[*range(10)]] * MANY
    asked = graded(1)
    found = pool(comparison_of({"a": rows, "b": [one[::-1] for one in rows]}, asked), MANY, 10)
    by_question = [[one.passage for one in found if one.question == row] for row in range(MANY)]
    assert all(sorted(one) == [*range(1, 10)] for one in by_question)
    assert len({tuple(one) for one in by_question}) > MANY // 2
    assert [*dict.fromkeys(one.question for one in found)] != [*range(MANY)]


def test_after_the_pool_is_judged_nothing_of_it_is_unjudged() -> None:
    asked = graded(2)
    found = {"a": [[0, 3, 5, *range(10, 17)]] * MANY, "b": [[1, *range(20, 29)]] * MANY}
    comparison = comparison_of(found, asked, depth=10)
    pooled = pool(comparison, MANY, 10)
    assert comparison.scores["a"].per_question["judged@10"].tolist() == [0.1] * MANY
    told = {row: {f"p{one.passage}": 0 for one in pooled if one.question == row} for row in range(MANY)}
    judged = QuestionSet(
        "judged",
        asked.passages,
        tuple(Question.judged(q.id, q.text, told[row] | q.grade_of) for row, q in enumerate(asked.questions)),
    )
    again = comparison_of(found, judged, depth=10)
    assert {of.means()["judged@10"] for of in again.scores.values()} == {1.0}
    qrels = {question.id: question.grade_of for question in judged.questions}
    runs = [
        {q.id: {f"p{row}": -place for place, row in enumerate(rows[0])} for q in asked.questions}
        for rows in found.values()
    ]
    assert {ir_measures.calc_aggregate([Judged @ 10], qrels, run)[Judged @ 10] for run in runs} == {1.0}
    assert pool(again, MANY, 10) == []


def test_who_has_clearly_fewer_judged_among_the_first_stands_back() -> None:
    asked = graded(12)
    known = [[*range(10)]] * MANY
    one_off, many_off = ([[*range(10 - n), *range(20, 20 + n)]] * MANY for n in (1, 4))
    by_luck = [*[[*range(20, 30)]] * 2, *known[2:]]
    comparison = comparison_of({"known": known, "one": one_off, "many": many_off, "luck": by_luck, "lost": None}, asked)
    groups = np.arange(MANY)
    tests = at_disadvantage(comparison.scores, groups)
    assert [(test.a, test.b, round(test.difference, 3)) for test in tests] == [
        ("one", "known", -0.1),
        ("many", "known", -0.4),
    ], "two questions of twelve are no sure difference, however large"
    assert at_disadvantage(comparison_of({"right": RIGHT}).scores, groups) == []
    assert at_disadvantage({}, question_groups(asked)) == []


def test_measures_by_judgements_are_those_at_the_usual_cut() -> None:
    assert judged_measures(comparison_of({"right": RIGHT}).scores) == []
    asked = graded(2)
    assert judged_measures(comparison_of({"a": [[0]] * MANY}, asked).scores) == ["judged@10", "bpref@10"]
