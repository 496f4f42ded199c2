"""Of how many texts a model reads only the beginning is what its tokenizer cuts off."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.encoders.sparse_encoder import SparseTextEncoder
from models.encoders.token_encoder import TokenEncoder
from models.loading import load_bi_encoder, load_cross_encoder, load_sparse_encoder
from models.sources import STARTER, find_model
from models.windows import WindowOptions
from tests.hub import MAX_LENGTH, SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
# around the limit one by one
TEXTS = [" ".join(np.random.default_rng(n).choice(WORDS, n)) for n in (0, 1, 50, *range(100, 150, 3), 300)]
QUESTIONS = [TEXTS[1], " ".join(WORDS[:40]), TEXTS[-1]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bi_encoder(tmp_path_factory.mktemp("model") / "tiny")


def lengths(tokenizer: Any, *texts: str) -> int:
    return len(tokenizer(*texts, verbose=False)["input_ids"])


@pytest.mark.parametrize("prompt", ["", "한강은 서울을 "])
def test_a_bi_encoder_cuts_off_what_is_longer_than_it_reads_prompt_included(folder: Path, prompt: str) -> None:
    encoder = BiEncoder(find_model(str(folder)), TEXTS)
    encoder.model = load_bi_encoder(find_model(str(folder)), [])
    encoder.model.prompts["document"] = prompt
    told = [lengths(encoder.model.tokenizer, prompt + text) > MAX_LENGTH for text in TEXTS]
    assert 1 < sum(told) < len(TEXTS)
    assert encoder.cut_off(TEXTS) == sum(told)


def test_it_is_found_out_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = BiEncoder(find_model(str(folder)), TEXTS).cut_off(TEXTS)
    monkeypatch.setattr(BiEncoder, "load", lambda _: pytest.fail("loaded again"))
    assert BiEncoder(find_model(str(folder)), TEXTS).cut_off(TEXTS) == expected > 0


def test_late_interaction_cuts_off_the_same_and_nothing_with_windows(folder: Path) -> None:
    source = find_model(str(folder))
    cut_off = TokenEncoder(source, TEXTS).cut_off(TEXTS)
    assert cut_off == BiEncoder(source, TEXTS).cut_off(TEXTS) > 0
    assert TokenEncoder(source, TEXTS, windows=WindowOptions()).cut_off(TEXTS) == 0


def test_a_cross_encoder_cuts_off_what_does_not_fit_beside_a_question(tmp_path: Path) -> None:
    source = find_model(str(with_head(build_cross_encoder_base(tmp_path / "tiny"))))
    tokenizer = load_cross_encoder(source, []).tokenizer
    limit, rng = int(tokenizer.model_max_length), np.random.default_rng(0)
    candidates = np.stack([rng.permutation(len(TEXTS))[:6] for _ in QUESTIONS])
    candidates[0, -1] = -1

    def cut(question: str, text: str) -> bool:
        """Whether the tokenizer leaves something of the passage out."""
        read = tokenizer(question, text, truncation="longest_first", max_length=limit)
        held = sum(of == 1 for of in read.sequence_ids())
        return held < len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    pairs = [(question, row) for question, rows in zip(QUESTIONS, candidates, strict=True) for row in rows if row >= 0]
    expected = {row for question, row in pairs if cut(question, TEXTS[row])}
    assert 0 < len(expected) < len({row for _, row in pairs})
    assert CrossEncoderScorer(source, TEXTS).cut_off(QUESTIONS, TEXTS, candidates) == len(expected)


@pytest.mark.parametrize("inference_free", [False, True])
def test_a_sparse_encoder_cuts_off_what_is_longer_than_it_reads(tmp_path: Path, inference_free: bool) -> None:
    source = find_model(str(build_sparse_encoder(tmp_path / "tiny", inference_free=inference_free)))
    model = load_sparse_encoder(source)
    told = sum(lengths(model.tokenizer, text) > model.max_seq_length for text in TEXTS)
    assert SparseTextEncoder(source, TEXTS).cut_off(TEXTS) == told > 0


def test_a_starter_reads_everything() -> None:
    source = find_model(STARTER)
    assert BiEncoder(source, TEXTS).cut_off(TEXTS) == 0
    assert CrossEncoderScorer(source, TEXTS).cut_off(QUESTIONS, TEXTS, np.zeros((3, 1), dtype=np.int32)) == 0
