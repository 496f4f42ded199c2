"""The data of readers: positions of answers, and unanswerable questions."""

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
from mrc_workbench.training.recipes.examples import mine_negatives, to_table
from mrc_workbench.training.recipes.readers import (
    READER_FAMILY,
    AnswerLocation,
    ReaderTrainingData,
    add_unanswerable_questions,
    is_unanswerable,
    locate_answer,
)
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.text_options import ReaderOptions
from tests.training.worlds import cue_set

TEXT = "서울은 크다. 옛날에 서울은 작았고, 부산은 서울보다 작았다."
FIRST, SECOND, THIRD = (TEXT.index("서울", start) for start in (0, 1, 20))


def make_question(*answers: str, starts: tuple[int, ...] = ()) -> Question:
    return Question("q", "무엇인가?", answers, ("p",), starts=starts)


@pytest.mark.parametrize("start", [FIRST, SECOND, THIRD])
def test_uses_correct_position_in_file(start: int) -> None:
    assert locate_answer(make_question("서울", starts=(start,)), TEXT) == AnswerLocation(((start, start + 2),))


@pytest.mark.parametrize(("claimed", "meant"), [(SECOND - 2, SECOND), (SECOND + 3, SECOND), (1000, THIRD), (1, FIRST)])
def test_corrects_wrong_position_to_nearest_match(claimed: int, meant: int) -> None:
    question = make_question("서울", starts=(claimed,))
    assert locate_answer(question, TEXT) == AnswerLocation(((meant, meant + 2),), is_corrected=True)


def test_uses_all_matches_without_position() -> None:
    everywhere = tuple((start, start + 2) for start in (FIRST, SECOND, THIRD))
    assert locate_answer(make_question("서울"), TEXT) == AnswerLocation(everywhere)
    assert locate_answer(make_question("서울", starts=(-1,)), TEXT) == AnswerLocation(everywhere)


def test_locates_several_answers() -> None:
    busan = TEXT.index("부산")
    both = make_question("서울", "부산", starts=(SECOND, busan))
    assert locate_answer(both, TEXT) == AnswerLocation(((SECOND, SECOND + 2), (busan, busan + 2)))
    known_position = make_question("서울", "부산", starts=(SECOND, -1))
    assert locate_answer(known_position, TEXT) == AnswerLocation(((SECOND, SECOND + 2),))
    correct_position = make_question("서울", "부산", starts=(SECOND, 0))  # one correct position suffices
    assert locate_answer(correct_position, TEXT) == AnswerLocation(((SECOND, SECOND + 2),))


def test_finds_no_span_for_missing_answer() -> None:
    assert locate_answer(make_question("대구"), TEXT) == AnswerLocation(())
    assert locate_answer(make_question("대구", starts=(3,)), TEXT) == AnswerLocation((), is_corrected=True)
    assert locate_answer(make_question(), TEXT) == AnswerLocation(())
    assert locate_answer(make_question("서울"), "") == AnswerLocation(())


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_locates_decomposed_characters(form: str) -> None:
    """macOS writes 한 as three characters; spans refer to the text in the file."""
    decomposed = unicodedata.normalize("NFD", TEXT)
    location = locate_answer(make_question(unicodedata.normalize(form, "부산")), decomposed)
    (span,) = location.spans
    assert unicodedata.normalize("NFC", decomposed[slice(*span)]) == "부산"
    assert not location.is_corrected


@given(st.text("가나 ", min_size=1, max_size=30), st.data())
def test_spans_always_hold_the_answer(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    answer = text[start : data.draw(st.integers(start + 1, len(text)))]
    claimed = data.draw(st.integers(0, 40))
    location = locate_answer(make_question(answer, starts=(claimed,)), text)
    (span,) = location.spans
    assert text[slice(*span)] == answer
    assert location.is_corrected == (not text.startswith(answer, claimed))
    positions = [position for position in range(len(text)) if text.startswith(answer, position)]
    assert abs(span[0] - claimed) == min(abs(position - claimed) for position in positions)


SHARES = SplitOptions(0.2, 0.2)
OPTIONS = ReaderOptions(evaluation_limit=0)


def ids(questions: Iterable[Question]) -> set[str]:
    return {question.id for question in questions}


def by_part(question_set: QuestionSet) -> dict[Part, set[str]]:
    rows = split(question_set, SHARES).rows
    return {part: {question_set.questions[row].id for row in rows[part]} for part in Part}


def test_splits_unanswerable_questions_by_article() -> None:
    question_set = cue_set(20, 20)  # a known wrong passage of q20 is in the article of q0
    parts = by_part(question_set)
    beside = {part: {f"q{int(question_id[1:]) + 20}" for question_id in parts[part]} for part in parts}
    data = ReaderTrainingData.from_question_set(question_set, SHARES, OPTIONS)
    assert ids(data.train.questions) == parts[Part.TRAIN] | beside[Part.TRAIN]
    assert ids(data.validation.questions) == parts[Part.VALIDATION] | beside[Part.VALIDATION]
    assert beside[Part.TEST]
    unanswerable = [question_id for question_id in data.train.questions if is_unanswerable(question_id)]
    assert len(unanswerable) == len(parts[Part.TRAIN]) == 12


def with_more(question_set: QuestionSet, *rejected: str) -> QuestionSet:
    """Add a passage of an article without questions, and an unanswerable question."""
    more = Question("more", "?", (), (), rejected=rejected)
    passages = (*question_set.passages, Passage("alone", "nobody asks", "an article of its own"))
    return QuestionSet("more", passages, (*question_set.questions, more))


def test_assigns_unanswerable_questions_by_rejected_passages() -> None:
    parts = by_part(with_more(cue_set(20)))
    train, validation, test = (f"p{min(parts[part])[1:]}" for part in (Part.TRAIN, Part.VALIDATION, Part.TEST))

    def placed(*rejected: str) -> tuple[bool, bool]:
        data = ReaderTrainingData.from_question_set(with_more(cue_set(20), *rejected), SHARES, OPTIONS)
        return "more" in ids(data.train.questions), "more" in ids(data.validation.questions)

    assert placed("alone") == placed(train) == placed(train, "alone") == (True, False)
    assert placed(validation) == (False, True)
    assert placed(test) == placed(train, validation) == placed(train, "unknown") == placed() == (False, False)


def test_splits_fully_answered_set_as_usual() -> None:
    data = ReaderTrainingData.from_question_set(cue_set(20), SHARES, OPTIONS)
    plain = TrainingData.from_question_set(cue_set(20), SHARES, OPTIONS)
    assert (data.train, data.validation) == (plain.train, plain.validation)
    assert add_unanswerable_questions(plain) is plain
    few = replace(OPTIONS, evaluation_limit=3)
    readers, rankers = (kind.from_question_set(cue_set(20), SHARES, few) for kind in (ReaderTrainingData, TrainingData))
    assert readers.validation == rankers.validation


def test_limits_validation_questions_with_and_without_answer() -> None:
    options = replace(OPTIONS, evaluation_limit=20)
    validation = ReaderTrainingData.from_question_set(cue_set(100, 100), SHARES, options).validation
    assert len(validation.questions) == 20
    assert 4 < sum(map(is_unanswerable, validation.questions)) < 16


def without_answers(question_set: QuestionSet, silent: set[str]) -> QuestionSet:
    questions = list(question_set.questions)
    for row, question in enumerate(questions):
        if question.id in silent:
            questions[row] = replace(question, answers=(), starts=())
    return replace(question_set, questions=tuple(questions))


def test_drops_questions_with_passage_but_no_answer() -> None:
    question_set = cue_set(20)
    silent = {question.id for number, question in enumerate(question_set.questions) if number % 2}
    data = ReaderTrainingData.from_question_set(without_answers(question_set, silent), SHARES, OPTIONS)
    assert not silent & ids((*data.train.questions, *data.validation.questions))
    single_answered = without_answers(question_set, ids(question_set.questions[1:]))
    with pytest.raises(TrainingError) as caught:
        ReaderTrainingData.from_question_set(single_answered, SHARES, OPTIONS)
    assert caught.value.code == "too_few"


def test_rejects_set_without_answers() -> None:
    question_set = cue_set(5)
    with pytest.raises(OptionError) as caught:
        READER_FAMILY.check(without_answers(question_set, ids(question_set.questions)), OPTIONS)
    assert (caught.value.option, caught.value.code) == ("data", "no_answers")


def test_samples_no_negatives_for_unanswerable_questions() -> None:
    data = ReaderTrainingData.from_question_set(cue_set(20, 20), SHARES, OPTIONS)
    mined = mine_negatives(replace(OPTIONS, negatives=2), data)
    unanswerable = np.array([is_unanswerable(question) for question in data.train.questions])
    assert (mined.rows[unanswerable] == NOT_FOUND).all()
    assert (mined.rows[~unanswerable] != NOT_FOUND).any()
    assert not set(to_table(mined, data)["question_id"]) & ids(filter(is_unanswerable, data.train.questions))


def test_uses_marked_passages_of_unanswerable_questions() -> None:
    data = ReaderTrainingData.from_question_set(cue_set(20, 20), SHARES, OPTIONS)
    question = next(candidate for candidate in data.train.questions if is_unanswerable(candidate))
    other = next(candidate for candidate in data.train.questions if candidate.relevant)
    marked = replace(data, marked=((question.id, other.relevant[0]),))
    table = to_table(mine_negatives(OPTIONS, marked), marked)
    (row,) = table[table["question_id"] == question.id].to_dict("records")
    assert (row["passage_id"], row["positive"], row["marked"]) == (other.relevant[0], "", True)


def test_describes_data_in_provenance() -> None:
    about = READER_FAMILY.describe(cue_set(20, 5), SHARES, OPTIONS)
    counts = {"questions": 25, "passages": 25, "unanswerable_questions": 5}
    counts |= {"train_questions": 12, "validation_questions": 4, "test_questions": 4}
    assert about == counts | {"normalization": "korquad", "split": "drawn by article, seed 0"}
    assert "unanswerable_questions" not in READER_FAMILY.describe(cue_set(20), SHARES, OPTIONS)
