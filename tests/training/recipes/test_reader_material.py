"""What a reader learns from: answers at their places, and questions that nobody can answer."""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.recipes.examples import as_table, mine
from mrc_workbench.training.recipes.material import Material
from mrc_workbench.training.recipes.readers import (
    READERS,
    Located,
    ReaderMaterial,
    is_unanswerable,
    located,
    with_unanswerable,
)
from mrc_workbench.training.text_options import ReaderOptions
from tests.training.worlds import cue_set

TEXT = "서울은 크다. 옛날에 서울은 작았고, 부산은 서울보다 작았다."
FIRST, SECOND, THIRD = (TEXT.index("서울", start) for start in (0, 1, 20))


def asked(*answers: str, starts: tuple[int, ...] = ()) -> Question:
    return Question("q", "무엇인가?", answers, ("p",), starts=starts)


@pytest.mark.parametrize("start", [FIRST, SECOND, THIRD])
def test_where_the_file_says_and_it_is_there(start: int) -> None:
    assert located(asked("서울", starts=(start,)), TEXT) == Located(((start, start + 2),))


@pytest.mark.parametrize(("claimed", "meant"), [(SECOND - 2, SECOND), (SECOND + 3, SECOND), (1000, THIRD), (1, FIRST)])
def test_beside_a_wrong_place_the_nearest_is_meant(claimed: int, meant: int) -> None:
    assert located(asked("서울", starts=(claimed,)), TEXT) == Located(((meant, meant + 2),), mended=True)


def test_where_nothing_is_said_all_may_be_meant() -> None:
    everywhere = tuple((start, start + 2) for start in (FIRST, SECOND, THIRD))
    assert located(asked("서울"), TEXT) == Located(everywhere)
    assert located(asked("서울", starts=(-1,)), TEXT) == Located(everywhere)


def test_several_answers() -> None:
    busan = TEXT.index("부산")
    both = asked("서울", "부산", starts=(SECOND, busan))
    assert located(both, TEXT) == Located(((SECOND, SECOND + 2), (busan, busan + 2)))
    one_told = asked("서울", "부산", starts=(SECOND, -1))
    assert located(one_told, TEXT) == Located(((SECOND, SECOND + 2),))
    one_right = asked("서울", "부산", starts=(SECOND, 0))  # a claim that holds needs no help
    assert located(one_right, TEXT) == Located(((SECOND, SECOND + 2),))


def test_what_does_not_stand_there_is_nowhere() -> None:
    assert located(asked("대구"), TEXT) == Located(())
    assert located(asked("대구", starts=(3,)), TEXT) == Located((), mended=True)
    assert located(asked(), TEXT) == Located(())
    assert located(asked("서울"), "") == Located(())


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_that_are_not_composed(form: str) -> None:
    """A Mac writes 한 as three letters: the spans are of the text as it is."""
    apart = unicodedata.normalize("NFD", TEXT)
    found = located(asked(unicodedata.normalize(form, "부산")), apart)
    (span,) = found.spans
    assert unicodedata.normalize("NFC", apart[slice(*span)]) == "부산"
    assert not found.mended


@given(st.text("가나 ", min_size=1, max_size=30), st.data())
def test_a_span_always_holds_the_answer(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    answer = text[start : data.draw(st.integers(start + 1, len(text)))]
    claimed = data.draw(st.integers(0, 40))
    found = located(asked(answer, starts=(claimed,)), text)
    (span,) = found.spans
    assert text[slice(*span)] == answer
    assert found.mended == (not text.startswith(answer, claimed))
    places = [place for place in range(len(text)) if text.startswith(answer, place)]
    assert abs(span[0] - claimed) == min(abs(place - claimed) for place in places)


SHARES = SplitOptions(0.2, 0.2)
OPTIONS = ReaderOptions(evaluation_limit=0)


def ids(questions: Iterable[Question]) -> set[str]:
    return {question.id for question in questions}


def by_part(question_set: QuestionSet) -> dict[Part, set[str]]:
    """Ids of the answerable questions of each part."""
    rows = split(question_set, SHARES).rows
    return {part: {question_set.questions[row].id for row in rows[part]} for part in Part}


def test_unanswerable_questions_follow_their_articles() -> None:
    question_set = cue_set(20, 20)  # q20 is told not to be answered by a passage of the article that q0 asks about
    parts = by_part(question_set)
    beside = {part: {f"q{int(one[1:]) + 20}" for one in parts[part]} for part in parts}
    material = ReaderMaterial.of(question_set, SHARES, OPTIONS)
    assert ids(material.train.questions) == parts[Part.TRAIN] | beside[Part.TRAIN]
    assert ids(material.validation.questions) == parts[Part.VALIDATION] | beside[Part.VALIDATION]
    assert beside[Part.TEST]
    unanswerable = [one for one in material.train.questions if is_unanswerable(one)]
    assert len(unanswerable) == len(parts[Part.TRAIN]) == 12


def with_more(question_set: QuestionSet, *rejected: str) -> QuestionSet:
    """With passages of which one is of an article nobody asks about, and a question not answered by the `rejected`."""
    more = Question("more", "?", (), (), rejected=rejected)
    passages = (*question_set.passages, Passage("alone", "nobody asks", "an article of its own"))
    return QuestionSet("more", passages, (*question_set.questions, more))


def test_what_no_article_decides_is_learned_and_what_two_sides_claim_is_left_out() -> None:
    parts = by_part(with_more(cue_set(20)))
    train, validation, test = (f"p{min(parts[part])[1:]}" for part in (Part.TRAIN, Part.VALIDATION, Part.TEST))

    def placed(*rejected: str) -> tuple[bool, bool]:
        material = ReaderMaterial.of(with_more(cue_set(20), *rejected), SHARES, OPTIONS)
        return "more" in ids(material.train.questions), "more" in ids(material.validation.questions)

    assert placed("alone") == placed(train) == placed(train, "alone") == (True, False)
    assert placed(validation) == (False, True)
    assert placed(test) == placed(train, validation) == placed(train, "unknown") == placed() == (False, False)


def test_a_set_in_which_all_have_answers_is_split_as_for_any_training() -> None:
    material = ReaderMaterial.of(cue_set(20), SHARES, OPTIONS)
    plain = Material.of(cue_set(20), SHARES, OPTIONS)
    assert (material.train, material.validation) == (plain.train, plain.validation)
    assert with_unanswerable(plain) is plain
    few = replace(OPTIONS, evaluation_limit=3)
    assert ReaderMaterial.of(cue_set(20), SHARES, few).validation == Material.of(cue_set(20), SHARES, few).validation


def test_as_many_judge_as_asked_for_with_and_without_an_answer() -> None:
    validation = ReaderMaterial.of(cue_set(100, 100), SHARES, replace(OPTIONS, evaluation_limit=20)).validation
    assert len(validation.questions) == 20
    assert 4 < sum(map(is_unanswerable, validation.questions)) < 16


def test_what_names_a_passage_and_no_answer_cannot_be_pointed_at() -> None:
    question_set = cue_set(20)
    silent = {question.id for number, question in enumerate(question_set.questions) if number % 2}
    asked = tuple(replace(one, answers=(), starts=()) if one.id in silent else one for one in question_set.questions)
    material = ReaderMaterial.of(replace(question_set, questions=asked), SHARES, OPTIONS)
    assert not silent & ids((*material.train.questions, *material.validation.questions))
    only_one = tuple(replace(one, answers=(), starts=()) if one.id != "q0" else one for one in question_set.questions)
    with pytest.raises(TrainingError) as caught:
        ReaderMaterial.of(replace(question_set, questions=only_one), SHARES, OPTIONS)
    assert caught.value.code == "too_few"


def test_a_set_without_answers_is_refused() -> None:
    asked = tuple(replace(one, answers=(), starts=()) for one in cue_set(5).questions)
    with pytest.raises(OptionError) as caught:
        READERS.check(replace(cue_set(5), questions=asked), OPTIONS)
    assert (caught.value.option, caught.value.code) == ("data", "no_answers")


def test_no_negative_is_drawn_beside_what_nobody_answers() -> None:
    """Another passage than the one it was asked of might answer."""
    material = ReaderMaterial.of(cue_set(20, 20), SHARES, OPTIONS)
    options = replace(OPTIONS, negatives=2)
    rows = mine(options, material).rows
    unanswerable = np.array([is_unanswerable(one) for one in material.train.questions])
    assert (rows[unanswerable] == NOT_FOUND).all()
    assert (rows[~unanswerable] != NOT_FOUND).any()
    assert not set(as_table(mine(options, material), material)["question_id"]) & {
        one.id for one in material.train.questions if is_unanswerable(one)
    }


def test_a_passage_marked_by_hand_beside_such_a_question_is_shown() -> None:
    material = ReaderMaterial.of(cue_set(20, 20), SHARES, OPTIONS)
    question = next(one for one in material.train.questions if is_unanswerable(one))
    other = next(one for one in material.train.questions if one.relevant)
    marked = replace(material, marked=((question.id, other.relevant[0]),))
    table = as_table(mine(OPTIONS, marked), marked)
    (row,) = table[table["question_id"] == question.id].to_dict("records")
    assert (row["passage_id"], row["positive"], row["marked"]) == (other.relevant[0], "", True)


def test_what_is_told_of_the_data() -> None:
    about = READERS.about(cue_set(20, 5), SHARES, OPTIONS)
    assert about == {
        **{"questions": 25, "passages": 25, "unanswerable_questions": 5, "rules": "korquad"},
        **{"train_questions": 12, "validation_questions": 4, "test_questions": 4},
        "split": "drawn by article, seed 0",
    }
    assert "unanswerable_questions" not in READERS.about(cue_set(20), SHARES, OPTIONS)
