"""Questions that nobody can answer: they follow the articles of their passages, and nothing is drawn beside them."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from data.records import Passage, Question, QuestionSet
from data.split import Part, SplitOptions, split
from retrieval.rankings import NOT_FOUND
from tests.training.readers.worlds import cue_set
from training.options.common import OptionError, TrainingError
from training.options.questions import ReaderOptions
from training.rankers.examples import as_table, mine
from training.rankers.material import Material
from training.readers.material import is_unanswerable, reader_material, with_unanswerable
from training.readers.recipe import READERS

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
    material = reader_material(question_set, SHARES, OPTIONS)
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
        material = reader_material(with_more(cue_set(20), *rejected), SHARES, OPTIONS)
        return "more" in ids(material.train.questions), "more" in ids(material.validation.questions)

    assert placed("alone") == placed(train) == placed(train, "alone") == (True, False)
    assert placed(validation) == (False, True)
    assert placed(test) == placed(train, validation) == placed(train, "unknown") == placed() == (False, False)


def test_a_set_in_which_all_have_answers_is_split_as_for_any_training() -> None:
    material = reader_material(cue_set(20), SHARES, OPTIONS)
    plain = Material.of(cue_set(20), SHARES, OPTIONS)
    assert (material.train, material.validation) == (plain.train, plain.validation)
    assert with_unanswerable(plain) is plain
    few = replace(OPTIONS, evaluation_limit=3)
    assert reader_material(cue_set(20), SHARES, few).validation == Material.of(cue_set(20), SHARES, few).validation


def test_as_many_judge_as_asked_for_with_and_without_an_answer() -> None:
    validation = reader_material(cue_set(100, 100), SHARES, replace(OPTIONS, evaluation_limit=20)).validation
    assert len(validation.questions) == 20
    assert 4 < sum(map(is_unanswerable, validation.questions)) < 16


def test_what_names_a_passage_and_no_answer_cannot_be_pointed_at() -> None:
    question_set = cue_set(20)
    silent = {question.id for number, question in enumerate(question_set.questions) if number % 2}
    asked = tuple(replace(one, answers=(), starts=()) if one.id in silent else one for one in question_set.questions)
    material = reader_material(replace(question_set, questions=asked), SHARES, OPTIONS)
    assert not silent & ids((*material.train.questions, *material.validation.questions))
    only_one = tuple(replace(one, answers=(), starts=()) if one.id != "q0" else one for one in question_set.questions)
    with pytest.raises(TrainingError) as caught:
        reader_material(replace(question_set, questions=only_one), SHARES, OPTIONS)
    assert caught.value.code == "too_few"


def test_a_set_without_answers_is_refused() -> None:
    asked = tuple(replace(one, answers=(), starts=()) for one in cue_set(5).questions)
    with pytest.raises(OptionError) as caught:
        READERS.material(replace(cue_set(5), questions=asked), SHARES, OPTIONS)
    assert (caught.value.option, caught.value.code) == ("data", "no_answers")


def test_no_negative_is_drawn_beside_what_nobody_answers() -> None:
    """Another passage than the one it was asked of might answer."""
    material = reader_material(cue_set(20, 20), SHARES, OPTIONS)
    options = replace(OPTIONS, negatives=2)
    rows = mine(options, material).rows
    unanswerable = np.array([is_unanswerable(one) for one in material.train.questions])
    assert (rows[unanswerable] == NOT_FOUND).all()
    assert (rows[~unanswerable] != NOT_FOUND).any()
    assert not set(as_table(mine(options, material), material)["question_id"]) & {
        one.id for one in material.train.questions if is_unanswerable(one)
    }


def test_a_passage_marked_by_hand_beside_such_a_question_is_shown() -> None:
    material = reader_material(cue_set(20, 20), SHARES, OPTIONS)
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
    }
    assert "unanswerable_questions" not in READERS.about(cue_set(20), SHARES, OPTIONS)
