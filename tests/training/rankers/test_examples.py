from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data.records import QuestionSet
from data.split import SplitOptions
from data.store import find
from models.encoders.cross_encoder import CrossEncoderScorer
from models.sources import find_model
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.training.worlds import material_of, whole
from training.engine.task import Columns
from training.options.common import TrainingError
from training.options.rankers import BiEncoderObjective, BiEncoderOptions, CrossEncoderObjective, CrossEncoderOptions
from training.rankers.examples import cross_encoder_examples, encoder_examples
from training.rankers.shown import TeachersScores

pytestmark = pytest.mark.slow

TEXTS = [f"{passage.title}\n{passage.text}" if passage.title else passage.text for passage in PASSAGES]
ASKED = [question.text for question in QUESTIONS]
# the only negatives of the first five questions: all passages but their own, and but p2 where the answer is 서울
OTHERS = [{1, 2, 3, 4}, {0, 2, 3, 4}, {0, 3, 4}, {0, 1, 2, 4}, {0, 1, 2, 3}]
# every question with its passage, the last one with both of its own
PAIRS = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 1), (5, 2)]
LISTS = [CrossEncoderObjective.LAMBDA, CrossEncoderObjective.RANKNET, CrossEncoderObjective.LISTNET]


def bi_encoder(objective: BiEncoderObjective, negatives: int, **more: Any) -> BiEncoderOptions:
    return BiEncoderOptions(base="folder", objective=objective, negatives=negatives, **more)


def rows(texts: Sequence[str]) -> list[int]:
    return [TEXTS.index(text) for text in texts]


def asked(columns: Columns, name: str) -> list[int]:
    return [ASKED.index(text) for text in columns[name]]


@pytest.mark.parametrize(
    "objective",
    [BiEncoderObjective.MEGA_BATCH_MARGIN, BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST],
)
def test_pairs_of_a_question_and_its_passage(objective: BiEncoderObjective) -> None:
    columns, examples = encoder_examples(bi_encoder(objective, 0), whole(small_set()))
    assert list(columns) == ["anchor", "positive"]
    assert list(zip(asked(columns, "anchor"), rows(columns["positive"]), strict=True)) == PAIRS
    assert examples.question.tolist() == [question for question, _ in PAIRS]
    assert examples.passages.tolist() == [[passage] for _, passage in PAIRS]
    assert examples.in_batch
    assert examples.relevance.nonzero()[1].tolist() == [passage for _, passage in PAIRS]


def test_multiple_negatives_come_side_by_side() -> None:
    options = bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 3)
    columns, examples = encoder_examples(options, whole(small_set()))
    assert list(columns) == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
    assert list(zip(asked(columns, "anchor"), rows(columns["positive"]), strict=True)) == PAIRS
    for row, (question, positive) in enumerate(PAIRS):
        drawn = rows([columns[f"negative_{n}"][row] for n in (1, 2, 3)])
        assert len({*drawn}) == 3
        assert {*drawn} <= (OTHERS[question] if question < 5 else {0, 3, 4})
        assert examples.passages[row].tolist() == [positive, *drawn]
    assert examples.in_batch


def test_an_example_without_all_of_its_negatives_is_left_out() -> None:
    # of five passages q3 and q6 have three that could be negatives
    columns, examples = encoder_examples(bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 4), whole(small_set()))
    assert asked(columns, "anchor") == examples.question.tolist() == [0, 1, 3, 4]
    with pytest.raises(TrainingError) as refused:
        encoder_examples(bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 5), whole(small_set()))
    assert refused.value.code == "no_negatives"


@pytest.mark.parametrize("objective", [BiEncoderObjective.TRIPLET, BiEncoderObjective.GIST])
def test_one_negative_an_example(objective: BiEncoderObjective) -> None:
    columns, examples = encoder_examples(bi_encoder(objective, 4), whole(small_set()))
    assert list(columns) == ["anchor", "positive", "negative_1"]
    seen = list(zip(asked(columns, "anchor"), *(rows(columns[c]) for c in ("positive", "negative_1")), strict=True))
    of_five = [(q, q, negative) for q, others in enumerate(OTHERS) for negative in others]
    of_last = [(5, positive, negative) for positive in (1, 2) for negative in (0, 3, 4)]
    assert sorted(seen) == sorted([*of_five, *of_last])
    assert [(int(q), *map(int, p)) for q, p in zip(examples.question, examples.passages, strict=True)] == seen
    assert examples.in_batch is (objective is BiEncoderObjective.GIST)


def labelled(columns: Columns) -> list[tuple[int, int, float]]:
    return list(zip(asked(columns, "question"), rows(columns["passage"]), columns["label"], strict=True))


def test_labelled_pairs() -> None:
    material = whole(small_set())
    columns, examples = cross_encoder_examples(CrossEncoderOptions(negatives=4), material)
    assert list(columns) == ["question", "passage", "label"]
    seen = labelled(columns)
    assert [(question, row) for question, row, label in seen if label == 1] == PAIRS
    found = material.first_stage.search(ASKED, 20).indices.tolist()
    allowed = [*OTHERS, {0, 3, 4}]
    expected = {(q, row, 0.0) for q, ranked in enumerate(found) for row in ranked if row in allowed[q]}
    assert {entry for entry in seen if entry[2] == 0} == expected
    assert expected
    assert len({*seen}) == len(seen)
    assert not examples.in_batch
    assert examples.passages[:, 0].tolist() == [row for _, row, _ in seen]


@pytest.mark.parametrize("objective", LISTS)
def test_lists_of_a_question_s_passages(objective: CrossEncoderObjective) -> None:
    pairs = labelled(cross_encoder_examples(CrossEncoderOptions(negatives=4), whole(small_set()))[0])
    columns, examples = cross_encoder_examples(
        CrossEncoderOptions(negatives=4, objective=objective), whole(small_set())
    )
    assert list(columns) == ["question", "passages", "labels"]
    questions = asked(columns, "question")
    listed = [
        (question, row, label)
        for question, texts, labels in zip(questions, columns["passages"], columns["labels"], strict=True)
        for row, label in zip(rows(texts), labels, strict=True)
    ]
    with_negatives = {question for question, _, label in pairs if label == 0}
    # a question without a negative has nothing to compare
    assert sorted(listed) == sorted(entry for entry in pairs if entry[0] in with_negatives)
    assert questions == examples.question.tolist() == sorted(with_negatives)
    assert all(labels[0] == 1 and labels[-1] == 0 for labels in columns["labels"])
    assert not examples.in_batch


@pytest.mark.parametrize("objective", [CrossEncoderObjective.BINARY_CROSS_ENTROPY, *LISTS])
def test_where_nothing_is_near_any_other_passage_is_a_negative(objective: CrossEncoderObjective) -> None:
    # no passage shares a word with another's question
    alone = whole(QuestionSet("alone", PASSAGES[3:], QUESTIONS[3:5]))
    _, examples = cross_encoder_examples(CrossEncoderOptions(objective=objective), alone)
    shown = {(int(question), int(row)) for question, rows in zip(examples.question, examples.passages, strict=True)
             for row in rows if row >= 0}  # fmt: skip
    assert shown == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("objective", list(CrossEncoderObjective))
def test_nothing_to_compare_is_told(objective: CrossEncoderObjective) -> None:
    options = CrossEncoderOptions(objective=objective, teacher="starter")
    both = tuple(replace(question, relevant=("p4", "p5")) for question in QUESTIONS[3:5])
    alone = whole(QuestionSet("alone", PASSAGES[3:], both))
    with pytest.raises(TrainingError, match="no hard negative could be drawn") as refused:
        cross_encoder_examples(options, alone)
    assert refused.value.code == "no_negatives"


def test_a_teacher_s_differences() -> None:
    options = CrossEncoderOptions(negatives=4, objective=CrossEncoderObjective.MARGIN_MSE, teacher="starter")
    material = whole(small_set())
    columns, examples = cross_encoder_examples(options, material)
    assert list(columns) == ["question", "positive", "negative"]
    columns["score"] = TeachersScores("starter", material, examples, differences=True).labels(lambda _: None)
    teacher = CrossEncoderScorer(find_model("starter"), TEXTS)
    every = {(q, row): teacher.score([(q, TEXTS[row])])[0] for q in ASKED for row in range(5)}
    entries = list(zip(*columns.values(), strict=True))
    for question, positive, negative, difference in entries:
        assert difference == pytest.approx(
            every[question, TEXTS.index(positive)] - every[question, TEXTS.index(negative)], abs=1e-5
        )
    pairs = labelled(cross_encoder_examples(CrossEncoderOptions(negatives=4), whole(small_set()))[0])
    negatives = {(question, row) for question, row, label in pairs if label == 0}
    assert {(ASKED.index(q), TEXTS.index(n)) for q, _, n, _ in entries} == negatives
    own = {question: {passage for q, passage in PAIRS if q == question} for question, _ in PAIRS}
    assert all(TEXTS.index(p) in own[ASKED.index(q)] for q, p, _, _ in entries)
    assert max(abs(difference) for *_, difference in entries) > 0.1
    assert not examples.in_batch


def test_lengths_are_of_the_question_and_the_longest_passage() -> None:
    _, examples = encoder_examples(bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 3), whole(small_set()))
    for question, passages, length in zip(examples.question, examples.passages, examples.lengths, strict=True):
        assert length == len(ASKED[question]) + max(len(TEXTS[row]) for row in passages)


def test_labelled_pairs_of_the_sample() -> None:
    sample = find("sample")
    options = CrossEncoderOptions(negatives=4)
    material = material_of(sample, SplitOptions(), options)
    columns, _ = cross_encoder_examples(options, material)
    row_of_text = {text: row for row, text in enumerate(material.texts)}
    by_text = {question.text: question for question in material.train.questions}
    first_twenty = dict(zip(by_text, material.candidates(material.train, 20).indices.tolist(), strict=True))
    seen = list(zip(columns["question"], columns["passage"], columns["label"], strict=True))
    for question, passage, label in seen:
        row = row_of_text[passage]
        assert label == float(sample.passages[row].id in by_text[question].relevant)
        assert label == 1 or row in first_twenty[question]
    assert len({*seen}) == len(seen)
    assert sorted(question for question, _, label in seen if label == 1) == sorted(by_text)
    counts = [sum(q == question and label == 0 for q, _, label in seen) for question in by_text]
    assert max(counts) == 4
    assert np.mean(counts) > 3.5
    assert columns == cross_encoder_examples(options, material)[0]
