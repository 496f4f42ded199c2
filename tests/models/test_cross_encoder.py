"""Scoring with tokens joined by ourselves gives what the library's plain `predict` gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mrc_workbench.models.encoders import CrossEncoderScorer
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_cross_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.models.windows import PairTokens, longest_first
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head
from tests.models.worlds import damaged, telling

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
rng = np.random.default_rng(0)
TEXTS = [" ".join(rng.choice(WORDS, n)) for n in [0, 1, 2, 60, 61, 62, 63, 64, 65, 300, *rng.integers(0, 200, 40)]]
PAIRS = [(TEXTS[first], TEXTS[second]) for first, second in rng.integers(0, len(TEXTS), (300, 2))]


@pytest.fixture(scope="module", params=["roberta", "roberta-segments", "bert"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model") / str(request.param)
    if request.param == "bert":
        return with_head(telling(build_bi_encoder(place)))
    return with_head(telling(build_cross_encoder_base(place, segment_types=1 if request.param == "roberta" else 2)))


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_cross_encoder(find_model(str(folder)), [])


def plain(model: Any, pairs: list[tuple[str, str]]) -> np.ndarray:
    return np.asarray(model.predict(pairs, activation_fn=torch.nn.Identity()))


def test_pairs_are_joined_as_the_tokenizer_joins_them(model: Any) -> None:
    tokens = PairTokens(model)
    assert tokens.usable
    ours, theirs = tokens(PAIRS), model.preprocess(PAIRS)
    assert set(ours) == set(theirs)
    assert ours["input_ids"].shape[1] == model.tokenizer.model_max_length  # some are cut
    for name, value in theirs.items():
        assert torch.equal(ours[name], value) if isinstance(value, torch.Tensor) else ours[name] == value, name


def test_every_text_is_tokenized_once(model: Any) -> None:
    tokens, asked = PairTokens(model), []
    tokenizer = tokens._tokenizer

    class Watched:
        def __call__(self, texts: list[str], **kwargs: Any) -> Any:
            asked.extend(texts)
            return tokenizer(texts, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    known = set(tokens._rows)  # of what it was tried with
    tokens._tokenizer = Watched()
    tokens(PAIRS)
    tokens(PAIRS[:50])
    assert sorted(asked) == sorted({text for pair in PAIRS for text in pair} - known)


def test_a_tokenizer_of_another_kind_is_left_to_the_library(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.tokenizer, "padding_side", "left")
    tokens = PairTokens(model)
    assert not tokens.usable
    with tokens.joining():
        assert "preprocess" not in vars(model[0])


def test_what_is_longest_is_cut_first() -> None:
    assert longest_first(3, 4, 7) == (3, 4)
    assert longest_first(3, 9, 7) == (3, 4)
    assert longest_first(9, 3, 7) == (4, 3)
    assert longest_first(9, 9, 7) == (3, 4)
    assert longest_first(10, 9, 7) == (4, 3)


def test_float32_scores_are_the_librarys(folder: Path, model: Any) -> None:
    scorer = CrossEncoderScorer(find_model(str(folder)), [], precision=Precision.FLOAT32)
    scores = scorer.score(PAIRS)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, plain(model, PAIRS), atol=2e-6)
    np.testing.assert_array_equal(scorer.score(PAIRS), scores)
    assert scorer.score([]).shape == (0,)


def test_bfloat16_orders_as_float32_and_scores_do_not_melt_together(folder: Path) -> None:
    source = find_model(str(folder))
    exact = CrossEncoderScorer(source, [], precision=Precision.FLOAT32).score(PAIRS)
    reduced = CrossEncoderScorer(source, [], precision=Precision.BFLOAT16).score(PAIRS)
    assert reduced.dtype == np.float32
    assert np.abs(exact - reduced).max() > 0
    assert spearmanr(exact, reduced).statistic > 0.99
    assert len(np.unique(reduced)) > 0.95 * len(np.unique(exact))


def test_a_starter_scores_in_float32_whatever_is_asked() -> None:
    pairs = [(text, other) for text in SENTENCES for other in SENTENCES]
    scorers = [CrossEncoderScorer(find_model(STARTER), SENTENCES, precision=precision) for precision in Precision]
    assert len({scorer.fingerprint for scorer in scorers}) == 1
    first, *others = (scorer.score(pairs) for scorer in scorers)
    for scores in others:
        np.testing.assert_array_equal(scores, first)


def test_weights_that_are_no_numbers_are_a_failure(folder: Path, tmp_path: Path) -> None:
    place = str(damaged(folder, tmp_path / "damaged"))
    with pytest.raises(ModelError, match=f"the model '{place}' answers with what is no number") as told:
        CrossEncoderScorer(find_model(place), []).score(PAIRS[:5])
    assert (told.value.code, told.value.details) == ("not_finite", {"model": place})
