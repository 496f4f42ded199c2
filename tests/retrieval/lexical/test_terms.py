"""Questions that share no term with a passage, against sets of tokens."""

import pytest

from data.records import Passage, Question, QuestionSet
from data.store import CATALOG, read_entry
from retrieval.lexical.terms import NAMED, readings, unmatched
from tests.doubles import small_set
from text.analysis import analyze
from text.analyzers import Analyzer


def test_readings_are_those_of_every_analyzer() -> None:
    found = readings("한글을 만든 King")
    assert list(found) == list(NAMED)
    assert Analyzer.AUTO not in found
    assert found[Analyzer.WHITESPACE] == ["한글을", "만든", "King"]
    assert found[Analyzer.BIGRAM] == ["한글", "글을", "만든", "ki", "in", "ng"]
    assert readings("")[Analyzer.KIWI] == []


def test_questions_without_a_shared_term_counted_by_hand() -> None:
    passages = (Passage("p1", "alpha beta", "gamma"), Passage("p2", "delta", ""), Passage("p3", "epsilon", ""))
    questions = (
        Question("q1", "Beta?", (), ("p1",)),
        Question("q2", "beta?", (), ("p2",)),  # only another passage has it
        Question("q3", "zeta eta", (), ("p3",)),  # none has
        Question("q4", "gamma", (), ("p1",)),  # only in the title
        Question("q5", "epsilon zeta", (), ("p2", "p3")),  # one of two is enough
        Question("q6", "?!", (), ("p2",)),  # no term at all
    )
    asked = QuestionSet("terms", passages, questions)
    rows = unmatched(asked, Analyzer.WORD)
    assert (rows.own.tolist(), rows.anywhere.tolist()) == ([1, 2, 5], [2, 5])
    rows = unmatched(asked, Analyzer.WORD, title=False)
    assert (rows.own.tolist(), rows.anywhere.tolist()) == ([1, 2, 3, 5], [2, 3, 5])


@pytest.mark.parametrize("analyzer", NAMED)
@pytest.mark.parametrize(
    "question_set", [small_set(), read_entry(CATALOG["sample"]).question_set], ids=["small", "sample"]
)
def test_they_are_those_whose_sets_of_tokens_do_not_meet(question_set: QuestionSet, analyzer: Analyzer) -> None:
    question_set = question_set.with_questions(question_set.answerable[:120])
    passages = [set(tokens) for tokens in analyze(analyzer, question_set.passages.indexed_texts(title=True))]
    questions = [set(tokens) for tokens in analyze(analyzer, [question.text for question in question_set.questions])]
    own = [
        row
        for row, question in enumerate(question_set.questions)
        if not any(questions[row] & passages[question_set.row_of_passage[id_]] for id_ in question.relevant)
    ]
    anywhere = [row for row, tokens in enumerate(questions) if not tokens & set().union(*passages)]
    found = unmatched(question_set, analyzer)
    assert (found.own.tolist(), found.anywhere.tolist()) == (own, anywhere)
