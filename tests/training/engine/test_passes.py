"""Passes of similar length and cached tokens: the same loss and gradients."""

from pathlib import Path
from typing import Any

import pytest
import torch

from mrc_workbench.models import inference
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder, load_token_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.engine.speed import cached_tokenization, passes_by_length
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base
from tests.training.worlds import assert_same_tensors

pytestmark = pytest.mark.slow


TEXTS = [" ".join(SENTENCES[:count]) for count in (1, 3, 2, 1, 3, 2, 1)]
PAIRS = [(SENTENCES[0], text) for text in TEXTS]


def gradients(model: Any, texts: list[Any], output: str) -> tuple[Any, dict[str, Any], list[tuple[int, ...]]]:
    shapes: list[tuple[int, ...]] = []
    hook = model[0].register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0]["input_ids"].shape)))
    model.eval()  # no randomness
    model.zero_grad()
    outputs = model(model.preprocess(texts))
    vectors = outputs[output]
    if output == "token_embeddings":  # values at padding do not matter
        vectors = vectors * outputs["attention_mask"].unsqueeze(-1)
    (vectors.reshape(len(texts), -1) ** 3).sum().backward()
    hook.remove()
    return vectors.detach(), {name: w.grad for name, w in model.named_parameters() if w.grad is not None}, shapes


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("kind", ["bi-encoder", "late-interaction", "cross-encoder"])
def test_passes_by_length_preserve_loss_and_gradient(
    *, kind: str, twice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(inference.TOKENS_A_PASS, "cpu", 64)
    monkeypatch.setitem(inference._PASS_COSTS, "cpu", 8)
    if kind == "bi-encoder":
        model: Any = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
        texts = TEXTS
        output = "sentence_embedding"
    elif kind == "late-interaction":
        model = load_token_encoder(find_model(str(build_bi_encoder(tmp_path))))
        texts = TEXTS
        output = "token_embeddings"
    else:
        folder = build_cross_encoder_base(tmp_path, segment_types=1)
        model = load_cross_encoder(find_model(str(folder)), [], new_head=True)
        texts = PAIRS
        output = "scores"
    loss_in_passes, whole, shapes = gradients(model, texts, output)
    assert len(shapes) == 1
    with passes_by_length(model, recompute=twice):
        again, in_parts, short = gradients(model, texts, output)
    if twice:
        assert sorted(short[: len(short) // 2]) == sorted(short[len(short) // 2 :])
        short = short[: len(short) // 2]
    assert len(short) > 1
    assert sum(rows for rows, _ in short) == len(texts)
    assert sum(rows * width for rows, width in short) < shapes[0][0] * shapes[0][1]
    torch.testing.assert_close(again, loss_in_passes, rtol=1e-5, atol=1e-6)
    assert_same_tensors(in_parts, whole)
    assert len(gradients(model, texts, output)[2]) == 1  # as it was before


def test_leaves_starter_unchanged() -> None:
    model = load_bi_encoder(find_model(STARTER), ["물은 끓는다", "사과는 과일이다", "산은 높다"])
    with passes_by_length(model):
        assert "forward" not in vars(model)


def test_recomputation_holds_one_pass_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inference.TOKENS_A_PASS, "cpu", 64)
    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
    held: dict[bool, int] = {}
    for twice in (False, True):
        sizes: list[int] = []

        def count(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda saved_tensor: saved_tensor)
        with passes_by_length(model, recompute=twice), hooks:
            model(model.preprocess(TEXTS))
        held[twice] = sum(sizes)
    assert held[True] * 5 < held[False]


def test_recomputation_repeats_dropout(tmp_path: Path) -> None:
    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), [])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    model.train()
    outputs = {}
    for twice in (False, True):
        torch.manual_seed(1)
        model.zero_grad()
        with passes_by_length(model, recompute=twice):
            model(model.preprocess(TEXTS))["sentence_embedding"].pow(3).sum().backward()
        outputs[twice] = {name: w.grad for name, w in model.named_parameters() if w.grad is not None}
    assert_same_tensors(outputs[True], outputs[False])


def assert_same(ours: dict[str, object], theirs: dict[str, object]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(ours[name], value, rtol=0, atol=0)
        else:
            assert ours[name] == value


def test_cached_tokens_match_the_library(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder, SentenceTransformer

    bi = SentenceTransformer(str(build_bi_encoder(tmp_path / "bi")), device="cpu")
    cross = CrossEncoder(str(build_cross_encoder_base(tmp_path / "cross")), num_labels=1, device="cpu")
    texts = [*SENTENCES, "", "한강 " * 400, SENTENCES[0]]
    pairs = [(SENTENCES[0], text) for text in texts]
    for model, inputs in ((bi, texts), (cross, pairs)):
        shuffled = inputs[::-1]
        expected = [model.preprocess(batch) for batch in (inputs, shuffled, inputs[:2])]
        calls = 0
        original = model[0].preprocess

        def counted(*args: object, original: object = original, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            return original(*args, **kwargs)

        model[0].preprocess = counted
        with cached_tokenization(model):
            for batch, expected_features in zip((inputs, shuffled, inputs[:2]), expected, strict=True):
                assert_same(model.preprocess(batch), expected_features)
        assert calls == 1


def test_cache_key_includes_prompt(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(build_bi_encoder(tmp_path)), device="cpu")
    expected = [model.preprocess(list(SENTENCES), prompt=prompt) for prompt in (None, "질문: ", None)]
    with cached_tokenization(model):
        for prompt, expected_features in zip((None, "질문: ", None), expected, strict=True):
            assert_same(model.preprocess(list(SENTENCES), prompt=prompt), expected_features)
    assert "preprocess" not in vars(model[0])
