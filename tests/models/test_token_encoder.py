"""Vectors of tokens are those of the library, of any transformer, whole, cut into windows, and of fewer dimensions."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from transformers import AutoModel, AutoTokenizer

from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision, TokenLayers
from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import BLOCK
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.dense import max_sim
from tests.doubles import raises_failure
from tests.tiny_models import SENTENCES, build_bi_encoder

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
TEXTS = [" ".join(np.random.default_rng(n).choice(WORDS, 1 + n % 41)) for n in range(BLOCK + 40)]


def encoder_of(folder: Path, dimensions: int = 0, windows: WindowOptions | None = None, **more: Any) -> TokenEncoder:
    source = find_model(str(folder))
    return TokenEncoder(source, TEXTS, precision=Precision.FLOAT32, dimensions=dimensions, windows=windows, **more)


def hidden_states(folder: Path) -> list[list[np.ndarray]]:
    """Of each text the states of its tokens at each layer, the vectors of words first, as transformers tells them."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        outputs = [model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True) for text in TEXTS]
    return [[states[0].numpy() for states in output.hidden_states] for output in outputs]


def of_length_1(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("n_layers", "two_thirds", "five_sixths"), [(1, 1, 1), (2, 1, 1), (6, 4, 5)])
def test_token_vectors_mix_two_layers(tmp_path: Path, n_layers: int, two_thirds: int, five_sixths: int) -> None:
    """Each brought to length 1: the vectors of a layer are nearly of one length, and those of another of another."""
    folder = build_bi_encoder(tmp_path / "base", num_hidden_layers=n_layers)
    (weights,) = folder.rglob("model.safetensors")
    tensors = load_file(weights)
    for lower in {two_thirds, five_sixths}:
        tensors[f"encoder.layer.{lower - 1}.output.LayerNorm.weight"] *= 3.0
    save_file(tensors, weights, {"format": "pt"})
    states = hidden_states(folder)
    last = [of_length_1(text_states[-1]) for text_states in states]
    upper = [of_length_1(text_states[two_thirds]) + 2 * of_length_1(text_states[-1]) for text_states in states]
    balanced = [of_length_1(text_states[five_sixths]) + 9 * of_length_1(text_states[-1]) for text_states in states]
    expected = {"last": last, "last-idf": last, "upper": upper, "upper-idf": upper, "balanced": balanced}
    for layers in TokenLayers:
        actual = encoder_of(folder, layers=layers).encode_passages(TEXTS)
        assert len(actual) == len(TEXTS)
        for row, vectors in enumerate(expected[layers]):
            np.testing.assert_allclose(actual.between(row, row + 1).vectors, of_length_1(vectors), atol=3e-3)


def test_scores_equal_library_late_interaction(folder: Path) -> None:
    encoder = encoder_of(folder, layers=TokenLayers.LAST)
    model = load_token_encoder(find_model(str(folder)), TokenLayers.LAST)
    passages = encoder.encode_passages(TEXTS[:30])
    questions = encoder.encode_questions(TEXTS[40:50])
    theirs = model.similarity(model.encode_query(TEXTS[40:50]), model.encode_document(TEXTS[:30]))
    np.testing.assert_allclose(max_sim(questions, passages), theirs.cpu().numpy(), atol=1e-3)


def test_weights_scores_by_root_of_idf(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    corpus = [set(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    cosines = encoder_of(folder, layers=TokenLayers.LAST)
    passages = cosines.encode_passages(TEXTS[:30])
    plain = cosines.encode_questions(TEXTS[40:50])
    scores = max_sim(encoder_of(folder, layers=TokenLayers.LAST_IDF).encode_questions(TEXTS[40:50]), passages)
    for row, text in enumerate(TEXTS[40:50]):
        vectors = plain.between(row, row + 1).vectors.astype(np.float32)
        best = [(vectors @ passages.between(n, n + 1).vectors.T).max(axis=1) for n in range(30)]
        weights = [0.0]
        for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
            n_passages = sum(token in tokens for tokens in corpus)
            weights.append(np.sqrt(np.log(1 + (len(TEXTS) - n_passages + 0.5) / (n_passages + 0.5))))
        weights.append(0.0)
        np.testing.assert_allclose(scores[row], np.stack(best) @ weights / np.sum(weights), atol=2e-3)


def test_prompt_tokens_have_no_weight(tmp_path: Path) -> None:
    folder = build_bi_encoder(tmp_path / "base")
    (config,) = folder.glob("config_sentence_transformers.json")
    content = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps(content | {"prompts": {"query": "서울 ", "document": ""}}), encoding="utf-8")
    (vectors,) = encoder_of(folder).encode("question", ["한강은 서울을"])
    lengths = np.linalg.norm(vectors.astype(np.float32), axis=1)
    n_prompt = len(AutoTokenizer.from_pretrained(folder)("서울", add_special_tokens=False)["input_ids"])
    assert not lengths[: 1 + n_prompt].any()  # [CLS] and the prompt
    assert (lengths[1 + n_prompt : -1] > 0).all()
    assert lengths[-1] == 0
    assert lengths.mean() == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize("text", ["", "서울 " * 200])
def test_weights_cover_all_tokens_of_truncated_questions(text: str, folder: Path) -> None:
    encoder = encoder_of(folder)
    encoder.model.max_seq_length = 16
    (vectors,) = encoder.encode("question", [text])
    assert len(vectors) <= 16
    assert np.linalg.norm(vectors.astype(np.float32), axis=1).mean() == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize("layers", ["balanced", "last", "upper-idf"])
def test_single_pass_stores_vectors_of_all_layers(layers: str, folder: Path) -> None:
    alone = {choice: encoder_of(folder, layers=choice).encode_passages(TEXTS).vectors for choice in TokenLayers}
    shutil.rmtree(workspace() / "cache")
    together = encoder_of(folder, layers=TokenLayers(layers), also=TokenLayers)
    together.encode_passages(TEXTS)
    (single,) = together.encode("passage", TEXTS[:1])
    np.testing.assert_allclose(single, alone[TokenLayers(layers)][: len(single)], atol=2e-3)
    for choice, vectors in alone.items():
        stored = encoder_of(folder, layers=choice)
        np.testing.assert_allclose(stored.encode_passages(TEXTS).vectors, vectors, atol=2e-3)
        assert "model" not in vars(stored)
        assert stored.meter.lap()[1] > 0


def test_late_interaction_model_has_no_token_weights(folder: Path, tmp_path: Path) -> None:
    load_token_encoder(find_model(str(folder)), TokenLayers.LAST).save_pretrained(str(tmp_path / "late"))
    encoder = encoder_of(tmp_path / "late", also=TokenLayers)
    (vectors,) = encoder.encode("question", TEXTS[:1])
    assert encoder.weights is None
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=2e-3)


def test_loads_late_interaction_model_unchanged(folder: Path, tmp_path: Path) -> None:
    from sentence_transformers.base.modules import Dense

    late_model = load_token_encoder(find_model(str(folder)), TokenLayers.LAST)
    width = late_model[0].get_embedding_dimension()
    first, *others = late_model
    dense = Dense(width, 8, bias=False, activation_function=None, module_input_name="token_embeddings")
    projected = MultiVectorEncoder(modules=[first, dense, *others], prompts={"query": "한강 ", "document": ""})
    projected.save_pretrained(str(tmp_path / "late"), create_model_card=False)
    encoder = encoder_of(tmp_path / "late")
    vectors = encoder.encode_questions(TEXTS[:3])
    assert vectors.vectors.shape[1] == 8
    expected = projected.encode_query(TEXTS[:3], convert_to_numpy=True)
    np.testing.assert_allclose(vectors.vectors, np.concatenate(expected), atol=1e-3)


def test_projection_equals_svd(folder: Path) -> None:
    """The projection is that of a singular value decomposition of the first block, which is of texts from all over."""
    whole = encoder_of(folder).encode_passages(TEXTS)
    encoder = encoder_of(folder, dimensions=6)
    with pytest.raises(ValueError, match="encode them before questions"):
        encoder.encode_questions(TEXTS[:2])
    narrow = encoder.encode_passages(TEXTS)
    question_vectors = encoder.encode_questions(TEXTS[:5])
    first = whole.select(np.arange(0, len(TEXTS), 2)).vectors.astype(np.float32)  # two blocks: every second text
    directions = np.linalg.svd(first, full_matrices=False)[2][:6]
    expected = whole.vectors.astype(np.float32) @ directions.T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    of_ours = narrow.vectors.astype(np.float32)
    np.testing.assert_allclose(of_ours[:300] @ of_ours[:300].T, expected[:300] @ expected[:300].T, atol=5e-3)
    assert question_vectors.vectors.shape[1] == 6
    assert encoder_of(folder, dimensions=6).encode_passages(TEXTS).vectors.tobytes() == narrow.vectors.tobytes()


def test_questions_use_projection_of_their_passages(folder: Path) -> None:
    """Passages read by windows have another projection: a question kept for the one is none of the other's."""
    texts = [" ".join(WORDS * 3), *TEXTS[:9]]
    title_lengths = np.zeros(10, dtype=np.int64)
    vectors = []
    for windows in (None, WindowOptions(tokens=10)):
        encoder = encoder_of(folder, dimensions=5, windows=windows)
        encoder.model.max_seq_length = 16
        encoder.encode_passages(texts, title_lengths)
        questions = encoder.encode_questions(TEXTS[20:23])
        assert encoder.projection is not None
        all_dimensions = encoder_of(folder)
        all_dimensions.model.max_seq_length = 16
        whole = all_dimensions.encode("question", TEXTS[20:23])
        wide = np.concatenate(whole).astype(np.float32)  # as long as the weights of its tokens
        expected = of_length_1(wide @ encoder.projection + 1e-9) * np.linalg.norm(wide, axis=1, keepdims=True)
        np.testing.assert_allclose(questions.vectors, expected, atol=2e-3)
        vectors.append(questions.vectors)
    assert np.abs(vectors[0].astype(np.float32) - vectors[1].astype(np.float32)).max() > 1e-2


def test_long_passage_has_tokens_of_all_windows(folder: Path) -> None:
    encoder = encoder_of(folder, windows=WindowOptions(tokens=10, stride=10))
    encoder.model.max_seq_length = 16
    texts = [TEXTS[2], " ".join(WORDS * 3), TEXTS[1]]
    vectors = encoder.encode_passages(texts, np.zeros(3, dtype=np.int64))
    counts = np.diff(vectors.starts)
    assert counts[1] > 40
    assert max(counts[0], counts[2]) <= 16
    last_words = encoder.encode_questions([" ".join(WORDS[-4:])])
    cut = encoder_of(folder)
    cut.model.max_seq_length = 16
    beginning = cut.encode("passage", [texts[1]])[0]
    assert max_sim(last_words, vectors)[0, 1] > float((last_words.vectors @ beginning.T).max(axis=1).mean())


def test_rejects_starter(folder: Path) -> None:
    with raises_failure("not_late", ModelError):
        load_token_encoder(find_model(STARTER))
    assert BiEncoder(find_model(str(folder)), []).fingerprint  # a transformer has


def test_reports_progress_to_the_end(folder: Path) -> None:
    progress: list[float] = []
    source = find_model(str(folder))
    encoder = TokenEncoder(source, TEXTS[:70], precision=Precision.FLOAT32, on_progress=progress.append)
    encoder.encode_passages(TEXTS[:70])
    encoder.encode_questions(TEXTS[70:80])
    assert progress == sorted(progress)
    assert len(progress) > 4
    assert progress[-1] == pytest.approx(1)
