"""Sparse encoders: weights and scores of the library, stored texts, and rejected models."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sentence_transformers import SparseEncoder

from mrc_workbench.models.encoders import SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_sparse_encoder
from mrc_workbench.models.sources import STARTER, find_model
from tests.doubles import raises_failure
from tests.tiny_models import SENTENCES, build_bi_encoder, build_sparse_encoder

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
TEXTS = [" ".join(np.random.default_rng(n).choice(WORDS, n % 31)) for n in range(90)]  # of 0 to 30 words


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    inference_free = build_sparse_encoder(root / "free", inference_free=True)
    return {"splade": build_sparse_encoder(root / "splade"), "inference-free": inference_free}


def exact(folder: Path) -> SparseTextEncoder:
    return SparseTextEncoder(find_model(str(folder)), [], precision=Precision.FLOAT32)


@pytest.mark.parametrize("name", ["splade", "inference-free"])
def test_weights_and_scores_equal_library(name: str, folders: dict[str, Path]) -> None:
    model = SparseEncoder(str(folders[name]), device="cpu")
    passages = model.encode_document(TEXTS)
    questions = model.encode_query(TEXTS[:9])
    ours = exact(folders[name])
    passage_weights = ours.encode_passages(TEXTS)
    question_weights = ours.encode_questions(TEXTS[:9])
    assert (passage_weights.dtype, passage_weights.shape) == (np.float32, (len(TEXTS), len(model.tokenizer)))
    assert 0 < passage_weights.nnz < 0.5 * passage_weights.shape[0] * passage_weights.shape[1]
    np.testing.assert_allclose(passage_weights.toarray(), passages.to_dense().numpy(), atol=1e-5)
    np.testing.assert_allclose(question_weights.toarray(), questions.to_dense().numpy(), atol=1e-5)
    scores = (question_weights @ passage_weights.T).toarray()
    np.testing.assert_allclose(scores, model.similarity(questions, passages).numpy(), rtol=1e-4)
    alone = ours.encode_questions(TEXTS[4:5]).toarray()
    np.testing.assert_allclose(alone, question_weights.toarray()[4:5], atol=1e-5)


def test_inference_free_question_has_only_its_terms(folders: dict[str, Path]) -> None:
    encoder = exact(folders["inference-free"])
    question_weights = encoder.encode_questions(TEXTS[:9])
    for row, text in enumerate(TEXTS[:9]):
        ids = np.unique(encoder.model.tokenizer(text, add_special_tokens=False)["input_ids"])
        assert np.sort(question_weights[[row]].indices).tolist() == ids.tolist()


def test_uses_model_prompts(folders: dict[str, Path]) -> None:
    encoder = exact(folders["splade"])
    encoder.model.prompts["query"] = "한강은 서울을 "
    plain = SparseEncoder(str(folders["splade"]), device="cpu")
    expected = plain.encode(TEXTS[:5], prompt="한강은 서울을 ").to_dense().numpy()
    np.testing.assert_allclose(encoder.encode("question", TEXTS[:5]).toarray(), expected, atol=1e-5)
    assert np.abs(expected - encoder.encode("passage", TEXTS[:5]).toarray()).max() > 1e-2


def test_cosine_model_scores_are_cosines(folders: dict[str, Path]) -> None:
    encoder = exact(folders["splade"])
    encoder.model.similarity_fn_name = "cosine"
    texts = TEXTS[1:9]
    encoded = encoder.encode("passage", texts)
    weights = encoder.model.encode_document(texts)
    np.testing.assert_allclose((encoded @ encoded.T).toarray(), encoder.model.similarity(weights, weights), atol=1e-5)


def test_bfloat16_is_close_and_stored_separately(folders: dict[str, Path]) -> None:
    source = find_model(str(folders["splade"]))
    reduced = SparseTextEncoder(source, [], precision=Precision.BFLOAT16)
    assert reduced.fingerprint != exact(folders["splade"]).fingerprint
    near = reduced.encode_passages(TEXTS).toarray()
    whole = exact(folders["splade"]).encode_passages(TEXTS).toarray()
    assert 1e-6 < np.abs(near - whole).max() < 0.1
    cosines = (near * whole).sum(axis=1) / (np.linalg.norm(near, axis=1) * np.linalg.norm(whole, axis=1))
    assert cosines.min() > 0.999


class Counting(SparseTextEncoder):
    encoded: int = 0

    def encode(self, side: str, texts: Sequence[str]) -> csr_array:
        self.encoded += len(texts)
        if self.encoded > getattr(self, "most", 1000):
            raise KeyboardInterrupt
        return super().encode(side, texts)


def test_reuses_stored_blocks(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.encoders.BLOCK", 20)
    source = find_model(str(folders["splade"]))
    progress: list[float] = []
    ended = Counting(source, [])
    ended.most = 60  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        ended.encode_passages(TEXTS)
    rest = Counting(source, [], on_progress=progress.append)
    reloaded = rest.encode_passages(TEXTS)
    assert rest.encoded == len(TEXTS) - 60
    assert progress == pytest.approx([0.8 * done / 90 for done in (20, 40, 60, 80, 90)])
    assert rest.meter.lap()[1] > 0
    grown = Counting(source, [])
    more = grown.encode_passages([*TEXTS[:80], *SENTENCES])
    assert grown.encoded == len(SENTENCES)
    np.testing.assert_array_equal(more[:80].toarray(), reloaded[:80].toarray())
    again = SparseTextEncoder(source, [])
    np.testing.assert_array_equal(again.encode_passages(TEXTS).toarray(), reloaded.toarray())
    assert "model" not in vars(again)
    assert again.meter.lap()[1] > 0


def test_single_question_is_not_stored(folders: dict[str, Path]) -> None:
    encoder = Counting(find_model(str(folders["splade"])), [])
    for _ in range(2):
        encoder.encode_questions(TEXTS[5:6])
    assert encoder.encoded == 2
    assert encoder.encode_questions([]).shape == (0, 0)


def test_loads_masked_language_model_as_untrained_splade(folders: dict[str, Path]) -> None:
    base = folders["splade"].with_name("splade-base")
    model = load_sparse_encoder(find_model(str(base)))
    features = model.tokenizer([SENTENCES[0]], return_tensors="pt")
    logits = model[0].auto_model(**features).logits[0].detach().numpy()
    expected = np.log1p(np.maximum(logits, 0)).max(axis=0)  # Formal et al. 2021
    np.testing.assert_allclose(exact(base).encode("passage", SENTENCES[:1]).toarray()[0], expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["bi-encoder", "without a head", "starter"])
def test_rejects_models_that_cannot_be_sparse(kind: str, tmp_path: Path) -> None:
    folder = build_bi_encoder(tmp_path / "bi")
    if kind == "without a head":
        (folder / "modules.json").unlink()
    reference = STARTER if kind == "starter" else str(folder)
    message = "no sparse encoder, and no masked language model"
    with raises_failure("not_sparse", ModelError, match=message, details={"model": reference}):
        load_sparse_encoder(find_model(reference))


def test_rejects_pickled_weights(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["splade"].with_name("splade-base"), tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        load_sparse_encoder(find_model(str(tmp_path / "pickled")))


def test_returns_term_texts_and_spans(folders: dict[str, Path]) -> None:
    encoder = exact(folders["splade"])
    text = "한강은 서울을 지나 한강은"
    spans = encoder.spans_by_term(text)
    read = dict(zip(encoder.readings(list(spans)), spans.values(), strict=True))
    assert read["한강은"] == ((0, 3), (11, 14))
    assert [text[start:end] for ((start, end),) in (read["서울을"], read["지나"])] == ["서울을", "지나"]
    every = encoder.readings(range(len(encoder.model.tokenizer)))
    assert len(set(every)) == len(every)
    assert "##한" in every
