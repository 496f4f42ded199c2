"""A reader's windows: their marks, their features and their loss, by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from mrc_workbench.data.records import Question
from mrc_workbench.models.reader import SpanOptions, SpanTokens, load_reader
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.recipes.readers import WindowsToRead
from mrc_workbench.training.text_options import READER
from tests.training.worlds import CUE, WORDS, base_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_workspace")]


A, B, C, D, E, F, G, H = WORDS[:8]  # a token each
# [CLS] question [SEP] and five words [SEP]: the passage stands from place 3 on, and each window begins 3 words on
OPTIONS = SpanOptions(9, 2, 4)
START = 3
PASSAGE = " ".join((A, B, C, D, E, F, G, H))


@pytest.fixture(scope="module")
def model() -> Any:
    return load_reader(find_model(base_of(READER)), new_head=True)


@pytest.fixture
def windows(model: Any) -> WindowsToRead:
    return WindowsToRead(SpanTokens(model.tokenizer, 128, OPTIONS, "tiny"))


def asked(*answers: str, starts: tuple[int, ...] = ()) -> Question:
    return Question("q", CUE, answers, ("p",), starts=starts)


def marks(windows: WindowsToRead) -> list[tuple[list[int], list[int]]]:
    return [(list(one), list(other)) for one, other in zip(windows.begins, windows.finishes, strict=True)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (B, [([START + 1], [START + 1]), ([0], [0])]),  # words A to E, then D to H
        (f"{F} {G}", [([0], [0]), ([START + 2], [START + 3])]),
        (f"{D} {E}", [([START + 3], [START + 4]), ([START], [START + 1])]),  # in both
        (f"{C} {D} {E} {F}", [([0], [0]), ([0], [0])]),  # cut in the middle by either
    ],
)
def test_marks_of_an_answer(windows: WindowsToRead, answer: str, expected: list[tuple[list[int], list[int]]]) -> None:
    windows.add_answered(asked(answer), PASSAGE)
    assert [(one.start, one.first, one.last) for one in windows.windows] == [(START, 0, 5), (START, 3, 8)]
    assert marks(windows) == expected
    assert windows.counts == {
        **{"answers": 1, "mended": 0, "lost": 0},
        "without_answer": sum(begins == [0] for begins, _ in expected),
    }
    assert windows.columns() == {
        "question": [CUE] * 2,
        "passage": [" ".join((A, B, C, D, E)), " ".join((D, E, F, G, H))],
    }


def test_an_answer_within_a_word_is_marked_by_its_token(windows: WindowsToRead) -> None:
    windows.add_answered(asked(B[:2]), B)
    assert marks(windows) == [([START], [START])]


def test_several_places_are_all_marked(windows: WindowsToRead) -> None:
    windows.add_answered(asked(B), f"{B} {A} {B} {C}")
    windows.add_answered(asked(f"{A} {B}", C), f"{A} {B} {C}")
    assert marks(windows) == [([START, START + 2], [START, START + 2]), ([START, START + 2], [START + 1, START + 2])]


def test_what_is_mended_and_what_is_lost_is_counted(windows: WindowsToRead) -> None:
    windows.add_answered(asked(B, starts=(0,)), PASSAGE)
    windows.add_answered(asked("없다", starts=(0,)), PASSAGE)
    windows.add_answered(asked(A, starts=(0,)), A)
    assert windows.counts == {"answers": 3, "mended": 1, "lost": 1, "without_answer": 1}
    assert len(windows.windows) == 3


def test_of_a_passage_that_does_not_answer_one_window_is_read(windows: WindowsToRead) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        windows.add_rejected(asked(), PASSAGE, rng)
    assert {one.first for one in windows.windows} == {0, 3}
    assert marks(windows) == [([0], [0])] * 20
    windows.add_rejected(asked(), "", rng)
    assert windows.columns()["passage"][-1] == ""
    assert windows.counts == {"answers": 0, "mended": 0, "lost": 0, "without_answer": 21}


def test_features_are_a_batch_with_its_marks(windows: WindowsToRead, model: Any) -> None:
    windows.add_answered(asked(B), PASSAGE)
    windows.add_answered(asked(A), f"{A} {B}")
    features = windows.features(model, [0, 2])
    assert {name: (tuple(one.shape), one.dtype) for name, one in features.items()} == {
        **dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), ((2, 9), torch.int64)),
        **dict.fromkeys(("allowed", "begins", "finishes"), ((2, 9), torch.bool)),
    }
    assert [np.flatnonzero(row).tolist() for row in features["allowed"]] == [[0, 3, 4, 5, 6, 7], [0, 3, 4]]
    assert [np.flatnonzero(row).tolist() for row in features["begins"]] == [[START + 1], [START]]
    plain = model.tokenizer(CUE, f"{A} {B}")
    assert features["input_ids"][1, :6].tolist() == plain["input_ids"]
    assert features["token_type_ids"][1, :6].tolist() == plain["token_type_ids"]
    assert features["attention_mask"][1].tolist() == [1] * 6 + [0] * 3


def test_any_examples_may_stand_together(windows: WindowsToRead) -> None:
    windows.add_answered(asked(B), PASSAGE)
    examples = windows.examples()
    assert examples.lengths.tolist() == [9, 9]
    assert not examples.in_batch
    assert examples.sound().tolist() == [0, 1]


def test_the_loss_is_the_hand_sum(windows: WindowsToRead, model: Any) -> None:
    windows.add_answered(asked(B), f"{B} {A} {B} {C}")
    windows.add_answered(asked(f"{A} {B}"), f"{A} {B} {C}")
    windows.add_rejected(asked(), f"{C} {D}", np.random.default_rng(0))
    features = windows.features(model, [0, 1, 2])
    with torch.no_grad():
        logits, losses = model[0](dict(features)), model(dict(features))["losses"].tolist()
    for row in range(3):
        expected = 0.0
        for side, marked in (("starts", "begins"), ("ends", "finishes")):
            weights = [np.exp(value) for value in logits[side][row].tolist()]
            allowed = sum(weights[place] for place in np.flatnonzero(features["allowed"][row]))
            right = sum(weights[place] for place in np.flatnonzero(features[marked][row]))
            expected -= np.log(right / allowed) / 2
        assert losses[row] == pytest.approx(expected, abs=1e-5)
        assert expected > 0


def test_where_every_place_counts_and_one_is_right_it_is_the_loss_of_transformers(
    windows: WindowsToRead, model: Any
) -> None:
    windows.add_answered(asked(f"{B} {C}"), f"{A} {B} {C} {D}")
    windows.add_answered(asked(D), f"{D} {C} {B} {A}")
    features = windows.features(model, [0, 1])
    features["allowed"] = torch.ones_like(features["allowed"])
    given = {name: features[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        begins, ends = torch.tensor([START + 1, START]), torch.tensor([START + 2, START])
        theirs = model[0].model(**given, start_positions=begins, end_positions=ends).loss
        ours = model(features)["losses"].mean()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


def test_no_gradient_is_undefined(windows: WindowsToRead, model: Any) -> None:
    windows.add_answered(asked(B), PASSAGE)
    windows.add_answered(asked(A), A)
    model(windows.features(model, [0, 1, 2]))["losses"].mean().backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    model.zero_grad()
