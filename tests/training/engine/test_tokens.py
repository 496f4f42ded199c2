from pathlib import Path

import pytest
import torch

from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base
from training.engine.passes import tokenized_once

pytestmark = pytest.mark.slow


def assert_same(ours: dict[str, object], theirs: dict[str, object]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(ours[name], value, rtol=0, atol=0)
        else:
            assert ours[name] == value


def test_remembered_tokens_are_those_of_the_library(tmp_path: Path) -> None:
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
        with tokenized_once(model):
            for batch, wanted in zip((inputs, shuffled, inputs[:2]), expected, strict=True):
                assert_same(model.preprocess(batch), wanted)
        assert calls == 1


def test_a_prompt_is_part_of_what_is_remembered(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(build_bi_encoder(tmp_path)), device="cpu")
    expected = [model.preprocess(list(SENTENCES), prompt=prompt) for prompt in (None, "질문: ", None)]
    with tokenized_once(model):
        for prompt, wanted in zip((None, "질문: ", None), expected, strict=True):
            assert_same(model.preprocess(list(SENTENCES), prompt=prompt), wanted)
    assert "preprocess" not in vars(model[0])
