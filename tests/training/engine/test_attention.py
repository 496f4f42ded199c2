"""Plain attention in training: the results of torch's kernel, and only for short texts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.ranker_options import BiEncoderOptions
from tests.tiny_models import build_bi_encoder

pytestmark = pytest.mark.slow


def random_tensors(tokens: int) -> list[Any]:
    import torch

    generator = torch.Generator().manual_seed(tokens)
    return [torch.randn(3, 2, tokens, 4, generator=generator, requires_grad=True) for _ in range(3)]


def padding(tokens: int) -> Any:
    import torch

    lengths = torch.tensor([tokens, max(1, tokens // 2), 1])
    return (torch.arange(tokens) < lengths[:, None])[:, None, None, :].expand(3, 1, tokens, tokens)


def output_and_gradients(attend: Any, tokens: int, mask: Any) -> list[Any]:
    inputs = random_tensors(tokens)
    output, probabilities = attend(SimpleNamespace(is_causal=False), *inputs, mask, scaling=0.5, dropout=0.0)
    assert probabilities is None
    output.square().sum().backward()
    return [output.detach(), *(tensor.grad for tensor in inputs)]


@pytest.mark.parametrize("masked", [False, True], ids=["no-mask", "padded"])
@pytest.mark.parametrize("tokens", [1, 7, 384])
def test_output_and_gradients_match_torch(tokens: int, masked: bool) -> None:
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from mrc_workbench.training.engine.speed import attention

    mask = padding(tokens) if masked else None
    plain = output_and_gradients(attention, tokens, mask)
    fused = output_and_gradients(sdpa_attention_forward, tokens, mask)
    for actual, expected in zip(plain, fused, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["long", "no-gradient", "dropout", "causal", "shared-keys"])
def test_falls_back_to_torch_for_uncovered_cases(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from mrc_workbench.training.engine import speed

    calls: list[tuple[int, ...]] = []

    def fused(_module: Any, query: Any, *_: Any, **__: Any) -> tuple[Any, None]:
        calls.append(tuple(query.shape))
        return query, None

    monkeypatch.setattr(speed, "sdpa_attention_forward", fused)
    query, key, value = random_tensors(speed.MAX_PLAIN_TOKENS + 1 if case == "long" else 5)
    if case == "shared-keys":
        key = key[:, :1]
        value = value[:, :1]
    module = SimpleNamespace(is_causal=case == "causal")
    settings = {"scaling": 0.5, "dropout": 0.1 if case == "dropout" else 0.0}
    with torch.set_grad_enabled(case != "no-gradient"):
        speed.attention(module, query, key, value, None, **settings)
    assert calls == [tuple(query.shape)]
    query, key, value = random_tensors(5)
    speed.attention(SimpleNamespace(is_causal=False), query, key, value, None, scaling=0.5, dropout=0.0)
    assert len(calls) == 1


@pytest.mark.parametrize(("precision", "is_plain"), [(Precision.BFLOAT16, True), (Precision.FLOAT32, False)])
def test_bfloat16_training_uses_plain_attention(
    precision: Precision, is_plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    folder = str(build_bi_encoder(tmp_path))
    texts = ["달은 왜 밝은가", "물"]
    expected = load_bi_encoder(find_model(folder), []).encode(texts)
    model = load_bi_encoder(find_model(folder), [])
    adapt(model, BiEncoderOptions(base=folder, precision=precision))
    assert (model[0].auto_model.config._attn_implementation == "plain_if_short") is is_plain
    calls: list[int] = []
    softmax = torch.Tensor.softmax

    def counted_softmax(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return softmax(*args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "softmax", counted_softmax)
    vectors = model(model.preprocess(texts))["sentence_embedding"].detach().numpy()
    assert bool(calls) is is_plain
    assert vectors == pytest.approx(expected, abs=1e-5)
    model.save_pretrained(str(tmp_path / "saved"))
    assert "plain_if_short" not in (tmp_path / "saved" / "config.json").read_text()
