"""A word's vectors by layer and attention by head, compared with plain transformers and values by hand."""

import unicodedata
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language import layers
from mrc_workbench.labs.language.network import SentenceToken, TransformerModel, load_encoder
from mrc_workbench.models.language.tokenizers import find_tokenizer
from mrc_workbench.models.packaged import installed_base
from mrc_workbench.models.sources import default_model, find_model
from tests.doubles import raises_failure
from tests.labs.language.tiny_bert import BELLY, DIMENSIONS, N_HEADS, N_LAYERS, PEAR, PIECES, SHIP, SPECIALS

SHIP_TOKENS = ["[CLS]", "항구", "##에서", "배", "##를", "탔", "##다", "[SEP]"]
# [CLS] 배 를 타 [SEP]: two words, the first of two pieces
LONG_TOKENS = (
    SentenceToken("[CLS]", 0, 0, -1),
    SentenceToken("배", 0, 1, 0),
    SentenceToken("를", 1, 2, 0),
    SentenceToken("타", 3, 4, 1),
    SentenceToken("[SEP]", 0, 0, -1),
)
SHORT_TOKENS = (SentenceToken("[CLS]", 0, 0, -1), SentenceToken("나", 0, 1, 0), SentenceToken("[SEP]", 0, 0, -1))


def reference_output(network: TransformerModel) -> Any:
    """Return the output of plain transformers for `SHIP_TOKENS`."""
    import torch
    from transformers import BertModel

    numbers = torch.tensor([[(SPECIALS + PIECES).index(token) for token in SHIP_TOKENS]])
    with torch.inference_mode():
        model = BertModel.from_pretrained(network.reference, attn_implementation="eager").eval()
        return model(numbers, output_hidden_states=True, output_attentions=True)


@pytest.mark.slow
def test_word_vectors_match_hidden_states(network: TransformerModel) -> None:
    single_token, multiple_tokens = (layers.words_in_context(network, word, [SHIP]) for word in ("배", "배를"))
    expected = [state[0].numpy() for state in reference_output(network).hidden_states]
    assert single_token.layers.shape == (N_LAYERS + 1, 1, DIMENSIONS)
    for layer, states in enumerate(expected):
        assert single_token.layer_vectors(layer)[0] == pytest.approx(states[3], abs=1e-5)
    mean = (expected[-1][3] + expected[-1][4]) / 2
    assert multiple_tokens.layer_vectors(N_LAYERS)[0] == pytest.approx(mean, abs=1e-5)
    assert multiple_tokens.occurrences[0].pieces == ("배", "를")


@pytest.mark.slow
def test_static_vectors_are_equal_and_contextual_ones_differ(network: TransformerModel) -> None:
    word_vectors = layers.words_in_context(network, "배", [SHIP, PEAR, BELLY])
    table = network.model.get_input_embeddings().weight.detach().cpu().numpy()
    assert word_vectors.static == pytest.approx(np.tile(table[len(SPECIALS)], (3, 1)))
    assert word_vectors.cosines(layers.STATIC) == pytest.approx(np.ones((3, 3)))
    assert word_vectors.mean_cosine(layers.STATIC) == pytest.approx(1)
    assert [*word_vectors.layer_numbers] == [-1, 0, 1, 2]
    for layer in (0, 1, 2):
        vectors = word_vectors.layer_vectors(layer)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert word_vectors.cosines(layer) == pytest.approx(unit @ unit.T)
        mean_cosine = (unit @ unit.T)[np.triu_indices(3, 1)].mean()
        assert word_vectors.mean_cosine(layer) == pytest.approx(mean_cosine)
        assert mean_cosine < 0.99


@pytest.mark.slow
def test_finds_every_occurrence_also_in_decomposed_text(network: TransformerModel) -> None:
    word_vectors = layers.words_in_context(network, "배", ["배를 탔다 배가 고프다", "나는 담배를 탔다"])
    spans = [(occurrence.start, occurrence.covered_text) for occurrence in word_vectors.occurrences]
    assert spans == [(0, "배"), (6, "배"), (4, "담배")]
    assert word_vectors.occurrences[2].pieces == ("담배",)
    word, sentence = (unicodedata.normalize("NFD", text) for text in ("배", SHIP))
    decomposed = layers.words_in_context(network, word, [sentence])
    assert decomposed.layer_vectors(1) == pytest.approx(layers.words_in_context(network, "배", [SHIP]).layer_vectors(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "sentences", "code"),
    [
        ("", [SHIP], "no_word"),
        ("배", [" "], "no_sentence"),
        ("배", [SHIP, "사과를 먹었다"], "word_not_found"),
        ("배", [f"{'사과 ' * 40}배"], "word_cut"),
        ("배", ["배"] * (layers.MAX_SENTENCES + 1), "many_sentences"),
    ],
)
def test_rejects_invalid_word_or_text(network: TransformerModel, word: str, sentences: list[str], code: str) -> None:
    with raises_failure(code) as caught:
        layers.words_in_context(network, word, sentences)
    if code == "word_not_found":
        assert caught.value.details["sentence"] == "사과를 먹었다"


@pytest.mark.slow
@pytest.mark.packaged
@pytest.mark.skipif(installed_base() is None, reason="no package ships a base here")
def test_packaged_base_separates_word_senses() -> None:
    """The page's example: the word is one token in all sentences, and its vectors differ after the layers."""
    pieces = find_tokenizer("packaged:multilingual-e5-small").pieces("세종대왕은 조선의 왕이다. 🦖")
    assert "".join(piece.text for piece in pieces) == "세종대왕은조선의왕이다.🦖"
    assert [piece.name for piece in pieces[:2]] == ["▁세종", "대"]
    word_vectors = layers.words_in_context(load_encoder(find_model(default_model())), "배", [SHIP, PEAR, BELLY])
    assert {occurrence.pieces for occurrence in word_vectors.occurrences} == {("배",)}
    assert word_vectors.mean_cosine(layers.STATIC) == pytest.approx(1, abs=1e-6)
    ship_pear, ship_belly, pear_belly = word_vectors.cosines(6)[np.triu_indices(3, 1)]
    assert ship_pear > max(ship_belly, pear_belly)
    assert word_vectors.mean_cosine(6) < word_vectors.mean_cosine(1) < 1


def test_plane_matches_pca() -> None:
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(0).normal(size=(7, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    model = PCA(2).fit(unit)
    projection = layers.project_to_plane(vectors)
    assert np.abs(projection.points) == pytest.approx(np.abs(model.transform(unit)))
    assert projection.explained == pytest.approx(model.explained_variance_ratio_)
    assert all(column[np.abs(column).argmax()] > 0 for column in projection.points.T)
    projection = layers.project_to_plane(np.ones((3, 4), dtype=np.float32))
    assert (projection.points.tolist(), projection.explained.tolist()) == ([[0, 0]] * 3, [0, 0])
    assert layers.project_to_plane(np.ones((1, 4))).points.tolist() == [[0, 0]]


def fractions_by_target(head_attention: layers.HeadAttention) -> dict[layers.AttentionTarget, float]:
    return dict(zip(layers.AttentionTarget, head_attention.fractions[0, 0].tolist(), strict=True))


def test_attention_fractions_match_by_hand() -> None:
    weights = [
        [0.2, 0.2, 0.2, 0.2, 0.2],  # [CLS] does not count
        [0.5, 0.1, 0.2, 0.1, 0.1],
        [0.0, 0.6, 0.3, 0.1, 0.0],
        [0.1, 0.1, 0.4, 0.3, 0.1],
        [0.2, 0.2, 0.2, 0.2, 0.2],
    ]
    attention = layers.SentenceAttention(LONG_TOKENS, np.array([[weights]]))
    fractions = fractions_by_target(layers.attention_by_head([attention]))
    assert fractions == {
        layers.AttentionTarget.PREVIOUS: pytest.approx((0.5 + 0.6 + 0.4) / 3),
        layers.AttentionTarget.NEXT: pytest.approx((0.2 + 0.1 + 0.1) / 3),
        layers.AttentionTarget.ITSELF: pytest.approx((0.1 + 0.3 + 0.3) / 3),
        layers.AttentionTarget.SPECIAL: pytest.approx((0.6 + 0.0 + 0.2) / 3),
        layers.AttentionTarget.SAME_WORD: pytest.approx((0.2 + 0.6) / 2),  # 타 is a single token
    }


def test_weights_tokens_of_sentences_equally() -> None:
    weights = [np.zeros((1, 1, n, n)) for n in (5, 3)]
    weights[0][..., 0] = 1  # all attention to [CLS]
    weights[1][..., 1] = 1  # all attention to the only word
    pairs = zip((LONG_TOKENS, SHORT_TOKENS), weights, strict=True)
    attentions = [layers.SentenceAttention(tokens, values) for tokens, values in pairs]
    fractions = fractions_by_target(layers.attention_by_head(attentions))
    assert fractions[layers.AttentionTarget.SPECIAL] == pytest.approx(3 / 4)
    assert fractions[layers.AttentionTarget.ITSELF] == pytest.approx(1 / 4)
    assert fractions[layers.AttentionTarget.PREVIOUS] == pytest.approx(1 / 4)  # [CLS] is before 배
    assert fractions[layers.AttentionTarget.SAME_WORD] == 0


def test_uniform_attention_has_uniform_fractions() -> None:
    long = layers.SentenceAttention(LONG_TOKENS, np.full((1, 1, 5, 5), 0.2))
    short = layers.SentenceAttention(SHORT_TOKENS, np.full((1, 1, 3, 3), 1 / 3))
    head_attention = layers.attention_by_head([long, short])
    assert head_attention.fractions[0, 0] == pytest.approx(head_attention.uniform)
    special, same_word = map([*layers.AttentionTarget].index, ("special", "same_word"))
    assert head_attention.uniform[special] == pytest.approx((3 * 2 / 5 + 2 / 3) / 4)
    assert np.isnan(layers.attention_by_head([short]).fractions[0, 0, same_word])
    assert not layers.target_masks(SHORT_TOKENS)[same_word].any()


@pytest.mark.slow
def test_attention_matches_transformers(network: TransformerModel) -> None:
    sentence_attention = layers.sentence_attention(network, f" {SHIP} ")
    assert sentence_attention.weights.shape == (N_LAYERS, N_HEADS, 8, 8)
    for layer, weights in enumerate(reference_output(network).attentions):
        assert sentence_attention.weights[layer] == pytest.approx(weights[0].numpy(), abs=1e-6)
    assert sentence_attention.weights.sum(axis=-1) == pytest.approx(np.ones((N_LAYERS, N_HEADS, 8)), abs=1e-6)
    tokens = [token.text for token in sentence_attention.pieces]
    assert tokens == [token.removeprefix("##") for token in SHIP_TOKENS]
    assert [token.word for token in sentence_attention.pieces] == [-1, 0, 0, 1, 1, 2, 2, -1]
    with pytest.raises(LanguageError, match="sentence"):
        layers.sentence_attention(network, " ")
