"""Vectors of sentences: with the prompt of questions, once each, and resumed where they ended."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embeddings.encoder import encode, kept_vectors
from models.encoders import vector_blocks
from models.encoders.bi_encoder import BiEncoder
from models.loading import load_bi_encoder
from models.sources import find_model
from tests.embeddings.worlds import scored_pairs

pytestmark = pytest.mark.slow
SENTENCES = scored_pairs().sentences


def test_vectors_are_those_of_the_model_asked_as_questions_and_are_read_without_it() -> None:
    shares: list[float] = []
    found = encode("starter", SENTENCES[:20], SENTENCES, on_progress=shares.append)
    model = load_bi_encoder(find_model("starter"), SENTENCES)
    wanted = np.asarray(model.encode_query(SENTENCES[:20], normalize_embeddings=True))
    assert found.vectors == pytest.approx(wanted, abs=1e-6)
    assert shares[-1] == 1
    assert shares == sorted(shares)
    kept = kept_vectors("starter", SENTENCES[:20], SENTENCES)
    assert kept is not None
    assert (kept == found.vectors).all()
    assert kept_vectors("starter", SENTENCES[:19], SENTENCES) is None


def test_what_was_interrupted_goes_on_after_the_last_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_blocks, "BLOCK", 5)
    asked: list[int] = []
    plain = BiEncoder.encode

    def ended_early(self: BiEncoder, side: str, texts: list[str], *told: Any) -> np.ndarray:
        asked.append(len(texts))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return plain(self, side, texts, *told)

    monkeypatch.setattr(BiEncoder, "encode", ended_early)
    with pytest.raises(KeyboardInterrupt):
        encode("starter", SENTENCES[:20], SENTENCES)
    found = encode("starter", SENTENCES[:20], SENTENCES)
    assert asked == [5, 5, 5, 5, 5]  # two whole, one ended, and the two that were missing
    monkeypatch.undo()
    whole = BiEncoder(find_model("starter"), SENTENCES).encode("question", SENTENCES[:20])
    assert found.vectors == pytest.approx(whole)


def test_a_model_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    from models.hub import ModelError

    with pytest.raises(ModelError, match="no/such/model"):
        encode("no/such/model", SENTENCES, SENTENCES, base=tmp_path)
