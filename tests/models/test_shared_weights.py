"""Encoders of the same model share its weights, compute the same vectors, and never share with a trained model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision, TokenLayers
from mrc_workbench.models.loading import load_bi_encoder, load_token_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from tests.hub import SENTENCES, build_bi_encoder

pytestmark = pytest.mark.slow


def addresses(model: Any) -> set[int]:
    return {parameter.data_ptr() for parameter in model[0].parameters()}


def test_dense_and_late_encoders_of_one_model_share_its_weights(tmp_path: Path) -> None:
    source = find_model(str(build_bi_encoder(tmp_path / "base")))
    dense = BiEncoder(source, [], precision=Precision.FLOAT32)
    late = TokenEncoder(source, [], precision=Precision.FLOAT32, layers=TokenLayers.UPPER)
    assert addresses(dense.model) == addresses(late.model)
    alone = load_token_encoder(source, TokenLayers.UPPER)
    vectors = alone.encode_query(SENTENCES, convert_to_numpy=True, show_progress_bar=False)
    for shared, expected in zip(late.encode("question", SENTENCES), vectors, strict=True):
        np.testing.assert_array_equal(shared, expected.astype(np.float16))


def test_other_content_and_trained_models_have_weights_of_their_own(tmp_path: Path) -> None:
    source = find_model(str(build_bi_encoder(tmp_path / "base")))
    dense = BiEncoder(source, [], precision=Precision.FLOAT32)
    other = BiEncoder(find_model(str(build_bi_encoder(tmp_path / "other", num_hidden_layers=1))), [])
    trained = load_bi_encoder(source, [])
    before = dense.encode("question", SENTENCES)
    assert not addresses(dense.model) & (addresses(other.model) | addresses(trained))
    for parameter in trained.parameters():
        parameter.data.zero_()
    np.testing.assert_array_equal(dense.encode("question", SENTENCES), before)


def test_weights_outlive_the_encoder_that_loaded_them(tmp_path: Path) -> None:
    source = find_model(str(build_bi_encoder(tmp_path / "base")))
    dense = BiEncoder(source, [], precision=Precision.FLOAT32)
    late = TokenEncoder(source, [], precision=Precision.FLOAT32, layers=TokenLayers.UPPER)
    dense.load()
    before = late.encode("question", SENTENCES)
    del dense
    for now, then in zip(late.encode("question", SENTENCES), before, strict=True):
        np.testing.assert_array_equal(now, then)
