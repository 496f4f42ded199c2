"""Windows of a reader: labels, features and loss, by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from mrc_workbench.data.records import Question
from mrc_workbench.models.reader import SpanOptions, SpanTokens, load_reader
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.recipes.readers import ReaderWindows
from mrc_workbench.training.text_options import READER
from tests.training.worlds import CUE, WORDS, get_base

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_workspace_of_module")]


A, B, C, D, E, F, G, H = WORDS[:8]  # a token each
# [CLS] question [SEP] and five words [SEP]: the passage starts at position 3, windows are 3 words apart
OPTIONS = SpanOptions(9, 2, 4)
START = 3
PASSAGE = " ".join((A, B, C, D, E, F, G, H))


@pytest.fixture(scope="module")
def model() -> Any:
    return load_reader(find_model(get_base(READER)), new_head=True)


@pytest.fixture
def windows(model: Any) -> ReaderWindows:
    return ReaderWindows(SpanTokens(model.tokenizer, 128, OPTIONS, "tiny"))


def make_question(*answers: str, starts: tuple[int, ...] = ()) -> Question:
    return Question("q", CUE, answers, ("p",), starts=starts)


def marks(windows: ReaderWindows) -> list[tuple[list[int], list[int]]]:
    return [(list(starts), list(ends)) for starts, ends in zip(windows.starts, windows.ends, strict=True)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (B, [([START + 1], [START + 1]), ([0], [0])]),  # words A to E, then D to H
        (f"{F} {G}", [([0], [0]), ([START + 2], [START + 3])]),
        (f"{D} {E}", [([START + 3], [START + 4]), ([START], [START + 1])]),  # in both
        (f"{C} {D} {E} {F}", [([0], [0]), ([0], [0])]),  # cut in the middle by either
    ],
)
def test_marks_tokens_of_answer(
    windows: ReaderWindows, answer: str, expected: list[tuple[list[int], list[int]]]
) -> None:
    windows.add_answered(make_question(answer), PASSAGE)
    assert [(window.start, window.first, window.last) for window in windows.windows] == [(START, 0, 5), (START, 3, 8)]
    assert marks(windows) == expected
    without_answer = sum(starts == [0] for starts, _ in expected)
    assert windows.counts == {"answers": 1, "corrected": 0, "missing": 0, "without_answer": without_answer}
    passages = [" ".join((A, B, C, D, E)), " ".join((D, E, F, G, H))]
    assert windows.columns() == {"question": [CUE] * 2, "passage": passages}


def test_marks_token_of_answer_within_word(windows: ReaderWindows) -> None:
    windows.add_answered(make_question(B[:2]), B)
    assert marks(windows) == [([START], [START])]


def test_marks_all_occurrences(windows: ReaderWindows) -> None:
    windows.add_answered(make_question(B), f"{B} {A} {B} {C}")
    windows.add_answered(make_question(f"{A} {B}", C), f"{A} {B} {C}")
    assert marks(windows) == [([START, START + 2], [START, START + 2]), ([START, START + 2], [START + 1, START + 2])]


def test_counts_corrected_and_lost_answers(windows: ReaderWindows) -> None:
    windows.add_answered(make_question(B, starts=(0,)), PASSAGE)
    windows.add_answered(make_question("없다", starts=(0,)), PASSAGE)
    windows.add_answered(make_question(A, starts=(0,)), A)
    assert windows.counts == {"answers": 3, "corrected": 1, "missing": 1, "without_answer": 1}
    assert len(windows.windows) == 3


def test_samples_one_window_of_negative_passage(windows: ReaderWindows) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        windows.add_rejected(make_question(), PASSAGE, rng)
    assert {window.first for window in windows.windows} == {0, 3}
    assert marks(windows) == [([0], [0])] * 20
    windows.add_rejected(make_question(), "", rng)
    assert windows.columns()["passage"][-1] == ""
    assert windows.counts == {"answers": 0, "corrected": 0, "missing": 0, "without_answer": 21}


def test_features_hold_batch_and_marks(windows: ReaderWindows, model: Any) -> None:
    windows.add_answered(make_question(B), PASSAGE)
    windows.add_answered(make_question(A), f"{A} {B}")
    features = windows.features(model, [0, 2])
    assert {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in features.items()} == {
        **dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), ((2, 9), torch.int64)),
        **dict.fromkeys(("allowed", "starts", "ends"), ((2, 9), torch.bool)),
    }
    assert [np.flatnonzero(row).tolist() for row in features["allowed"]] == [[0, 3, 4, 5, 6, 7], [0, 3, 4]]
    assert [np.flatnonzero(row).tolist() for row in features["starts"]] == [[START + 1], [START]]
    plain = model.tokenizer(CUE, f"{A} {B}")
    assert features["input_ids"][1, :6].tolist() == plain["input_ids"]
    assert features["token_type_ids"][1, :6].tolist() == plain["token_type_ids"]
    assert features["attention_mask"][1].tolist() == [1] * 6 + [0] * 3


def test_allows_any_examples_in_a_batch(windows: ReaderWindows) -> None:
    windows.add_answered(make_question(B), PASSAGE)
    examples = windows.examples()
    assert examples.lengths.tolist() == [9, 9]
    assert not examples.in_batch_negatives
    assert examples.usable_rows().tolist() == [0, 1]


def test_loss_matches_manual_sum(windows: ReaderWindows, model: Any) -> None:
    windows.add_answered(make_question(B), f"{B} {A} {B} {C}")
    windows.add_answered(make_question(f"{A} {B}"), f"{A} {B} {C}")
    windows.add_rejected(make_question(), f"{C} {D}", np.random.default_rng(0))
    features = windows.features(model, [0, 1, 2])
    with torch.no_grad():
        logits = model[0](dict(features))
        losses = model(dict(features))["losses"].tolist()
    for row in range(3):
        expected = 0.0
        for side, marked in (("starts", "starts"), ("ends", "ends")):
            weights = [np.exp(value) for value in logits[side][row].tolist()]
            allowed = sum(weights[position] for position in np.flatnonzero(features["allowed"][row]))
            right = sum(weights[position] for position in np.flatnonzero(features[marked][row]))
            expected -= np.log(right / allowed) / 2
        assert losses[row] == pytest.approx(expected, abs=1e-5)
        assert expected > 0


def test_loss_matches_transformers_for_single_spans(windows: ReaderWindows, model: Any) -> None:
    windows.add_answered(make_question(f"{B} {C}"), f"{A} {B} {C} {D}")
    windows.add_answered(make_question(D), f"{D} {C} {B} {A}")
    features = windows.features(model, [0, 1])
    features["allowed"] = torch.ones_like(features["allowed"])
    given = {name: features[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        begins = torch.tensor([START + 1, START])
        ends = torch.tensor([START + 2, START])
        theirs = model[0].model(**given, start_positions=begins, end_positions=ends).loss
        ours = model(features)["losses"].mean()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


def test_gradients_are_finite(windows: ReaderWindows, model: Any) -> None:
    windows.add_answered(make_question(B), PASSAGE)
    windows.add_answered(make_question(A), A)
    model(windows.features(model, [0, 1, 2]))["losses"].mean().backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    model.zero_grad()
