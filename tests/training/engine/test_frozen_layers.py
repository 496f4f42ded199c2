"""Frozen lower layers are computed once per text, with the same losses and gradients."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import transformer_layers
from mrc_workbench.training.engine import speed
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.engine.speed import LowerStates, cached_lower_layers, passes_by_length
from mrc_workbench.training.ranker_options import BiEncoderOptions, CrossEncoderOptions
from tests.tiny_models import build_bi_encoder, build_cross_encoder_base
from tests.training.worlds import assert_same_tensors

pytestmark = pytest.mark.slow

TEXTS = ["달은 왜 밝은가", "물", "강은 바다로 흐른다 그리고 바다는 깊다", "산은 높다"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(build_bi_encoder(tmp_path_factory.mktemp("base")))
    model = load_bi_encoder(find_model(folder), [])
    adapt(model, BiEncoderOptions(base=folder, frozen_layers=1))
    return model


def without_dropout(model: Any) -> Any:
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


def loss_and_gradients(model: Any, texts: list[str]) -> tuple[float, dict[str, Any]]:
    model.zero_grad()
    vectors = model(model.preprocess(texts))["sentence_embedding"]
    loss = (vectors @ vectors.T).pow(2).mean()
    loss.backward()
    named = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return float(loss.detach()), named


def calls_of_layers(model: Any, work: Any) -> list[int]:
    """Count the forward passes of each layer by its attention module."""
    layers = transformer_layers(model[0].auto_model)
    computed: list[int] = []
    handles = [
        layer.attention.register_forward_pre_hook(lambda *_, number=number: computed.append(number))
        for number, layer in enumerate(layers)
    ]
    work()
    for handle in handles:
        handle.remove()
    return [computed.count(number) for number in range(len(layers))]


def test_losses_and_gradients_match_uncached_pass(model: Any) -> None:
    without_dropout(model)
    expected_loss, expected = loss_and_gradients(model, TEXTS)
    with cached_lower_layers(model, 1), passes_by_length(model):
        for texts in (TEXTS, TEXTS[::-1]):  # computed, then read
            loss, gradients = loss_and_gradients(model, texts)
            assert loss == pytest.approx(expected_loss, rel=1e-5)
            assert_same_tensors(gradients, expected, rtol=1e-3)
    again, _ = loss_and_gradients(model, TEXTS)
    assert again == pytest.approx(expected_loss, rel=1e-6)


def test_computes_frozen_layers_once_per_text(model: Any) -> None:
    without_dropout(model)
    with cached_lower_layers(model, 1) as lower:
        assert lower is not None
        assert calls_of_layers(model, lambda: loss_and_gradients(model, TEXTS)) == [1, 1]
        tokens = lower.tokens
        assert calls_of_layers(model, lambda: loss_and_gradients(model, TEXTS[1:])) == [0, 1]
        assert lower.tokens == tokens > 0
        assert calls_of_layers(model, lambda: loss_and_gradients(model, ["새 글", TEXTS[0]])) == [1, 1]
        assert lower.tokens > tokens
    assert calls_of_layers(model, lambda: loss_and_gradients(model, TEXTS)) == [1, 1]


def test_recomputes_texts_beyond_memory_limit(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "MEMORY_FRACTION", 0.0)
    without_dropout(model)
    expected, _ = loss_and_gradients(model, TEXTS)
    with cached_lower_layers(model, 1) as lower:
        assert lower is not None
        for _ in range(2):
            assert loss_and_gradients(model, TEXTS)[0] == pytest.approx(expected, rel=1e-5)
        assert lower.bytes == 0


@pytest.mark.parametrize("count", [0, 2, 3])
def test_caches_only_if_some_layers_are_frozen_and_some_trained(model: Any, count: int) -> None:
    with cached_lower_layers(model, count) as lower:
        assert lower is None


def test_left_padded_texts_bypass_cache(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.tokenizer, "padding_side", "left")
    expected = loss_and_gradients(without_dropout(model), TEXTS)[0]
    with cached_lower_layers(model, 1) as lower:
        assert loss_and_gradients(model, TEXTS)[0] == pytest.approx(expected, rel=1e-6)
        assert lower is not None
        assert (lower.tokens, lower.bytes) == (0, 0)


def test_cache_distinguishes_pairs_by_segments(tmp_path: Path) -> None:
    folder = str(build_cross_encoder_base(tmp_path, segment_types=2))
    model = load_cross_encoder(find_model(folder), [], new_head=True)
    adapt(model, CrossEncoderOptions(base=folder, frozen_layers=1))
    without_dropout(model)
    pairs = [("달은", "밝다 물"), ("달은 밝다", "물"), ("강", "바다")]

    def scores() -> list[float]:
        return list(model(model.preprocess(pairs))["scores"].flatten().tolist())

    expected = scores()
    with cached_lower_layers(model, 1):
        for _ in range(2):
            assert scores() == pytest.approx(expected, abs=1e-5)


def test_models_with_same_frozen_layers_share_states(model: Any, tmp_path: Path) -> None:
    other = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
    without_dropout(model)
    expected, _ = loss_and_gradients(model, TEXTS)
    states = LowerStates(1)
    states.attach(other)
    states.attach(other)
    assert calls_of_layers(other, lambda: loss_and_gradients(other.eval(), TEXTS)) == [1, 1]
    computed = states.seconds
    assert states.seconds_reused == 0
    with cached_lower_layers(model, 1, states):
        assert calls_of_layers(model, lambda: loss_and_gradients(model, TEXTS)) == [0, 1]
        assert loss_and_gradients(model, TEXTS)[0] == pytest.approx(expected, rel=1e-5)
    assert states.seconds == computed
    assert states.seconds_reused == pytest.approx(2 * computed)
    assert states.clock() > time.perf_counter() + computed


def test_clears_full_state_store_before_training(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_dropout(model)
    states = LowerStates(1)
    with cached_lower_layers(model, 1, states):
        loss_and_gradients(model, TEXTS[:1])
    monkeypatch.setattr(speed, "MEMORY_FRACTION", 1.0)
    monkeypatch.setattr(speed.psutil, "virtual_memory", lambda: SimpleNamespace(available=states.bytes))
    full = LowerStates(1)
    with cached_lower_layers(model, 1, full):
        loss_and_gradients(model, TEXTS[:1])
        assert full.bytes == states.bytes
    with cached_lower_layers(model, 1, full):
        assert full.bytes == 0
