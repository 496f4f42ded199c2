import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.questions.read import Reading
from data.records import Passage, Question, QuestionSet
from data.split import Part, SplitOptions, passage_groups, split

PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)


@st.composite
def question_sets(draw: st.DrawFn) -> QuestionSet:
    titles = draw(st.lists(st.sampled_from(["", "가", "나", "다", "라"]), min_size=1, max_size=12))
    passages = tuple(Passage(str(row), f"글 {row}", title) for row, title in enumerate(titles))
    ids = st.sampled_from([passage.id for passage in passages])
    relevant = draw(st.lists(st.lists(ids, max_size=2, unique=True), max_size=15))
    questions = [Question(f"q{row}", "?", relevant=tuple(ids)) for row, ids in enumerate(relevant)]
    return QuestionSet("set", passages, tuple(questions))


@pytest.mark.slow
@given(question_sets(), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_no_article_is_in_two_parts_and_every_question_in_one(question_set: QuestionSet, seed: int) -> None:
    result = split(question_set, SplitOptions(0.2, 0.3, seed))
    placed = np.concatenate([result.rows[part] for part in PARTS])
    assert sorted(placed) == question_set.answerable.tolist() == result.rows[Part.ALL].tolist()
    articles = [_articles(result.questions(question_set, part)) for part in PARTS]
    assert sum(map(len, articles)) == len(set[str]().union(*articles))
    assert sum(result.group_counts[part] for part in PARTS) == result.group_counts[Part.ALL]


def _articles(question_set: QuestionSet) -> set[str]:
    relevant = [
        question_set.passages[question_set.row_of_passage[id_]]
        for question in question_set.questions
        for id_ in question.relevant
    ]
    return {passage.title or f"passage {passage.id}" for passage in relevant}


def test_groups_that_share_a_question_are_one() -> None:
    passages = tuple(Passage(str(row), f"글 {row}", title) for row, title in enumerate(["가", "나", "", "가", ""]))
    questions = (Question("q", "?", relevant=("1", "2")),)
    assert passage_groups(QuestionSet("set", passages, questions)).tolist() == [0, 1, 1, 0, 2]


@pytest.mark.parametrize(("validation", "test"), [(-0.1, 0.2), (0.5, 0.5)])
def test_shares_must_leave_something_to_train_on(validation: float, test: float) -> None:
    with pytest.raises(ValueError, match="must be shares of 0 or more"):
        SplitOptions(validation, test)


def test_korquad_by_the_published_permutation(korquad: Reading) -> None:
    result = split(korquad.question_set, SplitOptions(validation=0, test=40 / 140, seed=0))
    assert {part: len(rows) for part, rows in result.rows.items()} == {
        Part.ALL: 5774,
        Part.TRAIN: 3950,
        Part.VALIDATION: 0,
        Part.TEST: 1824,
    }
    titles = list(dict.fromkeys(passage.title for passage in korquad.question_set.passages))
    first = {titles[place] for place in np.random.default_rng(0).permutation(140)[:40]}
    assert _articles(result.questions(korquad.question_set, Part.TEST)) == first
