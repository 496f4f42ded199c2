"""Passes of like length: another way to the same loss and the same gradient."""

from pathlib import Path
from typing import Any

import pytest

from models import inference
from models.loading import load_bi_encoder, load_cross_encoder
from models.sources import STARTER, find_model
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base
from training.engine.passes import short_passes

pytestmark = pytest.mark.slow

TEXTS = [" ".join(SENTENCES[:count]) for count in (1, 3, 2, 1, 3, 2, 1)]
PAIRS = [(SENTENCES[0], text) for text in TEXTS]


def gradients(model: Any, texts: list[Any], output: str) -> tuple[Any, dict[str, Any], list[tuple[int, ...]]]:
    """What a model makes of texts, the gradients of its weights, and the shapes of its passes."""
    shapes: list[tuple[int, ...]] = []
    hook = model[0].register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0]["input_ids"].shape)))
    model.eval()  # nothing is drawn
    model.zero_grad()
    found = model(model.preprocess(texts))[output]
    (found.reshape(len(texts), -1) ** 3).sum().backward()
    hook.remove()
    return found.detach(), {name: w.grad for name, w in model.named_parameters() if w.grad is not None}, shapes


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_loss_and_gradient_stay(*, kind: str, twice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(inference.TOKENS_A_PASS, "cpu", 64)
    monkeypatch.setitem(inference._PASS_COSTS, "cpu", 8)
    if kind == "bi-encoder":
        model: Any = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
        texts, output = TEXTS, "sentence_embedding"
    else:
        folder = build_cross_encoder_base(tmp_path, segment_types=1)
        model, texts, output = load_cross_encoder(find_model(str(folder)), [], new_head=True), PAIRS, "scores"
    found, whole, shapes = gradients(model, texts, output)
    assert len(shapes) == 1
    with short_passes(model, twice=twice):
        again, in_parts, short = gradients(model, texts, output)
    if twice:
        assert sorted(short[: len(short) // 2]) == sorted(short[len(short) // 2 :])
        short = short[: len(short) // 2]
    assert len(short) > 1
    assert sum(rows for rows, _ in short) == len(texts)
    assert sum(rows * width for rows, width in short) < shapes[0][0] * shapes[0][1]
    torch.testing.assert_close(again, found, rtol=1e-5, atol=1e-6)
    assert in_parts.keys() == whole.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(in_parts[name], gradient, rtol=1e-4, atol=1e-5, msg=name)
    assert len(gradients(model, texts, output)[2]) == 1  # as it was before


def test_a_starter_reads_as_it_does() -> None:
    model = load_bi_encoder(find_model(STARTER), ["물은 끓는다", "사과는 과일이다", "산은 높다"])
    with short_passes(model):
        assert "forward" not in vars(model)


def test_of_passes_computed_twice_one_is_held_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(inference.TOKENS_A_PASS, "cpu", 64)
    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
    held: dict[bool, int] = {}
    for twice in (False, True):
        sizes: list[int] = []

        def count(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with short_passes(model, twice=twice), torch.autograd.graph.saved_tensors_hooks(count, lambda kept: kept):
            model(model.preprocess(TEXTS))
        held[twice] = sum(sizes)
    assert held[True] * 5 < held[False]


def test_what_is_dropped_is_dropped_again(tmp_path: Path) -> None:
    import torch

    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    model.train()
    found = {}
    for twice in (False, True):
        torch.manual_seed(1)
        model.zero_grad()
        with short_passes(model, twice=twice):
            model(model.preprocess(TEXTS))["sentence_embedding"].pow(3).sum().backward()
        found[twice] = {name: w.grad for name, w in model.named_parameters() if w.grad is not None}
    assert found[False].keys() == found[True].keys()
    for name, gradient in found[False].items():
        torch.testing.assert_close(found[True][name], gradient, rtol=1e-4, atol=1e-5, msg=name)
