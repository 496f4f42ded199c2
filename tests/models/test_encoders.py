"""Encoding as fast as the machine allows gives what the library's plain `encode` gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from mrc_workbench.data.text import analyzers
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models import inference
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder, load_token_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import PairTokenizer
from tests.doubles import raises_failure
from tests.models.worlds import damaged, sharpened
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

pytestmark = pytest.mark.slow

WORDS = " ".join(SENTENCES).split()
TEXTS = [" ".join(np.random.default_rng(n).choice(WORDS, n % 41)) for n in range(150)]  # of 0 to 40 words
rng = np.random.default_rng(0)
LENGTHS = [0, 1, 2, 60, 61, 62, 63, 64, 65, 300, *rng.integers(0, 200, 40)]
PAIR_TEXTS = [" ".join(rng.choice(WORDS, n)) for n in LENGTHS]
PAIRS = [(PAIR_TEXTS[first], PAIR_TEXTS[second]) for first, second in rng.integers(0, len(PAIR_TEXTS), (300, 2))]


def build_reranker(folder: Path) -> Path:
    return with_head(build_cross_encoder_base(folder))


def plain(folder: Path, texts: list[str], prompt: str | None = None) -> np.ndarray:
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
    return np.asarray(model.encode(texts, normalize_embeddings=True, prompt=prompt))


@pytest.mark.parametrize("tokens_per_pass", [64, 65536])
def test_float32_vectors_equal_library(tokens_per_pass: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inference.TOKENS_A_PASS, "cpu", tokens_per_pass)
    encoder = BiEncoder(find_model(str(folder)), [], precision=inference.Precision.FLOAT32)
    np.testing.assert_allclose(encoder.encode_passages(TEXTS), plain(folder, TEXTS), atol=2e-6)
    np.testing.assert_allclose(encoder.encode_questions(TEXTS[:7]), plain(folder, TEXTS[:7]), atol=2e-6)
    np.testing.assert_allclose(encoder.encode_questions(TEXTS[9:10]), plain(folder, TEXTS[9:10]), atol=2e-6)


def test_uses_model_prompts(folder: Path) -> None:
    model = load_bi_encoder(find_model(str(folder)), [])
    model.prompts["query"] = "한강은 서울을 "
    encoder = BiEncoder(find_model(str(folder)), [], precision=inference.Precision.FLOAT32)
    encoder.model = model
    expected = plain(folder, TEXTS[:9], "한강은 서울을 ")
    np.testing.assert_allclose(encoder.encode("question", TEXTS[:9]), expected, atol=2e-6)
    assert np.abs(expected - encoder.encode("passage", TEXTS[:9])).max() > 1e-3


def test_bfloat16_vectors_are_close_to_float32(folder: Path) -> None:
    source = find_model(str(folder))
    reduced = BiEncoder(source, [], precision=inference.Precision.BFLOAT16).encode_passages(TEXTS)
    exact = BiEncoder(source, [], precision=inference.Precision.FLOAT32).encode_passages(TEXTS)
    assert reduced.dtype == np.float32
    assert np.abs(reduced - exact).max() > 1e-6  # else it was not bfloat16
    assert (reduced * exact).sum(axis=1).min() > 0.999
    np.testing.assert_allclose(np.linalg.norm(reduced, axis=1), 1, atol=1e-6)
    again = BiEncoder(source, [], precision=inference.Precision.BFLOAT16)
    np.testing.assert_array_equal(again.encode("passage", TEXTS), again.encode("passage", TEXTS))


def test_results_depend_on_precision_except_for_starter(folder: Path) -> None:
    source = find_model(str(folder))
    keys = {BiEncoder(source, [], precision=precision).fingerprint for precision in inference.Precision}
    assert len(keys) == 3
    assert source.fingerprint("") in {BiEncoder(source, [], precision=inference.Precision.FLOAT32).fingerprint}
    starters = [BiEncoder(find_model(STARTER), SENTENCES, precision=precision) for precision in inference.Precision]
    assert len({starter.fingerprint for starter in starters}) == 1
    assert not inference.takes_rows(starters[0].model)
    vectors = [starter.encode("passage", SENTENCES) for starter in starters]
    scorers = [CrossEncoderScorer(find_model(STARTER), SENTENCES, precision=item) for item in inference.Precision]
    assert len({scorer.fingerprint for scorer in scorers}) == 1
    scores = [scorer.score([(text, other) for text in SENTENCES for other in SENTENCES]) for scorer in scorers]
    for outputs in (vectors, scores):
        np.testing.assert_array_equal(outputs[0], outputs[1])
        np.testing.assert_array_equal(outputs[0], outputs[2])


def test_restores_model_after_encoding(folder: Path) -> None:
    model = load_bi_encoder(find_model(str(folder)), [])
    before = model.encode(TEXTS[:5])
    with inference.fast_passes(model, "sentence_embedding", inference.Precision.BFLOAT16):
        during = model.encode(TEXTS[:5], batch_size=5)
    assert np.abs(before - during).max() > 0
    np.testing.assert_array_equal(model.encode(TEXTS[:5]), before)
    assert "forward" not in vars(model) | vars(model[0])
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_passes_respect_limit_with_little_padding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inference.TOKENS_A_PASS, "cpu", 512)
    encoder = BiEncoder(find_model(str(folder)), [], precision=inference.Precision.FLOAT32)
    shapes = []
    read = 0
    forward = encoder.model.forward

    def watched(features: dict[str, torch.Tensor], **kwargs: object) -> dict[str, torch.Tensor]:
        nonlocal read
        shapes.append(tuple(features["input_ids"].shape))
        read += int(features["attention_mask"].sum())
        return forward(features, **kwargs)

    encoder.model.forward = watched
    encoder.encode("passage", TEXTS)
    n_positions = sum(rows * width for rows, width in shapes)
    assert max(rows * width for rows, width in shapes) <= 512
    assert len(shapes) > 3
    assert n_positions < 1.35 * read  # all texts as wide as the longest would be more than twice as many
    assert sum(rows for rows, _ in shapes) == len(TEXTS)


@pytest.mark.parametrize(
    ("build", "number", "compute"),
    [
        (build_bi_encoder, np.nan, lambda source: BiEncoder(source, []).encode_passages(TEXTS)),
        (build_bi_encoder, np.inf, lambda source: BiEncoder(source, []).encode_passages(TEXTS)),
        (build_sparse_encoder, np.nan, lambda source: SparseTextEncoder(source, []).encode_passages(TEXTS)),
        (build_reranker, np.nan, lambda source: CrossEncoderScorer(source, []).score(PAIRS[:5])),
    ],
)
def test_rejects_non_finite_weights_and_stores_nothing(build: Any, number: float, compute: Any, tmp_path: Path) -> None:
    model_path = str(damaged(build(tmp_path / "whole"), tmp_path / "damaged", number))
    message = f"the model '{model_path}' returns values that are no numbers"
    with raises_failure("not_finite", ModelError, match=message, details={"model": model_path}):
        compute(find_model(model_path))
    assert not list(workspace().rglob("*.np?"))


def test_loading_starter_loads_analyzer() -> None:
    korean = ["자격루는 장영실이 만든 물시계이다.", "측우기는 비가 내린 양을 재는 기구이다."] * 4
    encoder = BiEncoder(find_model(STARTER), korean)
    _ = encoder.model  # built, which analyzes the passages
    analyzers._shared_kiwi.cache_clear()
    analyzers._default_tokenizer.cache_clear()
    encoder.load()
    assert analyzers._shared_kiwi.cache_info().currsize == 1


@pytest.fixture(scope="module", params=["roberta", "roberta-segments", "bert"])
def scorer_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_folder = tmp_path_factory.mktemp("model") / str(request.param)
    if request.param == "bert":
        return with_head(sharpened(build_bi_encoder(model_folder)))
    segment_types = 1 if request.param == "roberta" else 2
    return with_head(sharpened(build_cross_encoder_base(model_folder, segment_types=segment_types)))


@pytest.fixture(scope="module")
def model(scorer_folder: Path) -> Any:
    return load_cross_encoder(find_model(str(scorer_folder)), [])


def test_joins_pairs_like_tokenizer(model: Any) -> None:
    tokens = PairTokenizer(model)
    assert tokens.is_usable
    ours = tokens(PAIRS)
    theirs = model.preprocess(PAIRS)
    assert set(ours) == set(theirs)
    assert ours["input_ids"].shape[1] == model.tokenizer.model_max_length  # some are cut
    for name, value in theirs.items():
        assert torch.equal(ours[name], value) if isinstance(value, torch.Tensor) else ours[name] == value, name


def test_tokenizes_every_text_once(model: Any) -> None:
    tokens = PairTokenizer(model)
    tokenized_texts = []
    tokenizer = tokens._tokenizer

    class Watched:
        def __call__(self, texts: list[str], **kwargs: Any) -> Any:
            tokenized_texts.extend(texts)
            return tokenizer(texts, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    known = set(tokens._rows)
    tokens._tokenizer = Watched()
    tokens(PAIRS)
    tokens(PAIRS[:50])
    assert sorted(tokenized_texts) == sorted({text for pair in PAIRS for text in pair} - known)


def test_leaves_unsupported_tokenizer_to_library(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.tokenizer, "padding_side", "left")
    tokens = PairTokenizer(model)
    assert not tokens.is_usable
    with tokens.joining():
        assert "preprocess" not in vars(model[0])


def test_float32_scores_equal_library(scorer_folder: Path, model: Any) -> None:
    scorer = CrossEncoderScorer(find_model(str(scorer_folder)), [], precision=inference.Precision.FLOAT32)
    scores = scorer.score(PAIRS)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, model.predict(PAIRS, activation_fn=torch.nn.Identity()), atol=2e-6)
    np.testing.assert_array_equal(scorer.score(PAIRS), scores)
    assert scorer.score([]).shape == (0,)


def test_bfloat16_keeps_order_and_distinct_scores(scorer_folder: Path) -> None:
    source = find_model(str(scorer_folder))
    exact = CrossEncoderScorer(source, [], precision=inference.Precision.FLOAT32).score(PAIRS)
    reduced = CrossEncoderScorer(source, [], precision=inference.Precision.BFLOAT16).score(PAIRS)
    assert reduced.dtype == np.float32
    assert np.abs(exact - reduced).max() > 0
    assert spearmanr(exact, reduced).statistic > 0.99
    assert len(np.unique(reduced)) > 0.95 * len(np.unique(exact))


def addresses(model: Any) -> set[int]:
    return {parameter.data_ptr() for parameter in model[0].parameters()}


def test_only_encoders_of_same_model_share_weights(tmp_path: Path) -> None:
    source = find_model(str(build_bi_encoder(tmp_path / "base")))
    dense = BiEncoder(source, [], precision=inference.Precision.FLOAT32)
    late = TokenEncoder(source, [], precision=inference.Precision.FLOAT32, layers=inference.TokenLayers.UPPER)
    assert addresses(dense.model) == addresses(late.model)
    alone = load_token_encoder(source, inference.TokenLayers.UPPER)
    vectors = alone.encode_query(SENTENCES, convert_to_numpy=True, show_progress_bar=False)
    del dense  # the weights outlive the first encoder
    for shared, expected in zip(late.encode("question", SENTENCES), vectors, strict=True):
        np.testing.assert_array_equal(shared, expected.astype(np.float16))
    dense = BiEncoder(source, [], precision=inference.Precision.FLOAT32)
    other = BiEncoder(find_model(str(build_bi_encoder(tmp_path / "other", num_hidden_layers=1))), [])
    trained = load_bi_encoder(source, [])
    before = dense.encode("question", SENTENCES)
    assert not addresses(dense.model) & (addresses(other.model) | addresses(trained))
    for parameter in trained.parameters():
        parameter.data.zero_()
    np.testing.assert_array_equal(dense.encode("question", SENTENCES), before)
