"""A word's vectors by layer and where heads look, against plain transformers and by hand on made attention."""

import unicodedata
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language import layers
from mrc_workbench.labs.language.network import Network, Piece, load_encoder
from mrc_workbench.models.language.tokenizers import find_tokenizer
from mrc_workbench.models.packaged import base_at_hand
from mrc_workbench.models.sources import default_model, find_model
from tests.labs.language.doubles import refused
from tests.labs.language.tiny_bert import BELLY, DIMENSIONS, HEADS, LAYERS, PEAR, PIECES, SHIP, SPECIALS

SHIP_TOKENS = ["[CLS]", "항구", "##에서", "배", "##를", "탔", "##다", "[SEP]"]


def theirs(network: Network) -> Any:
    """What plain transformers makes of `SHIP_TOKENS`."""
    import torch
    from transformers import BertModel

    numbers = torch.tensor([[(SPECIALS + PIECES).index(token) for token in SHIP_TOKENS]])
    with torch.inference_mode():
        model = BertModel.from_pretrained(network.reference, attn_implementation="eager").eval()
        return model(numbers, output_hidden_states=True, output_attentions=True)


@pytest.mark.slow
def test_vectors_are_the_hidden_states_at_the_word_or_the_mean_of_its_pieces(network: Network) -> None:
    found, several = (layers.words_in_context(network, word, [SHIP]) for word in ("배", "배를"))
    wanted = [state[0].numpy() for state in theirs(network).hidden_states]
    assert found.layers.shape == (LAYERS + 1, 1, DIMENSIONS)
    for layer, states in enumerate(wanted):
        assert found.at(layer)[0] == pytest.approx(states[3], abs=1e-5)
    assert several.at(LAYERS)[0] == pytest.approx((wanted[-1][3] + wanted[-1][4]) / 2, abs=1e-5)
    assert several.occurrences[0].pieces == ("배", "를")


@pytest.mark.slow
def test_the_same_piece_is_one_point_before_the_layers_and_apart_after(network: Network) -> None:
    found = layers.words_in_context(network, "배", [SHIP, PEAR, BELLY])
    table = network.model.get_input_embeddings().weight.detach().cpu().numpy()
    assert found.static == pytest.approx(np.tile(table[len(SPECIALS)], (3, 1)))
    assert found.cosines(layers.STATIC) == pytest.approx(np.ones((3, 3)))
    assert found.likeness(layers.STATIC) == pytest.approx(1)
    assert [*found.numbers] == [-1, 0, 1, 2]
    for layer in (0, 1, 2):
        wanted = [[_cosine(one, other) for other in found.at(layer)] for one in found.at(layer)]
        assert found.cosines(layer) == pytest.approx(np.array(wanted))
        apart = (wanted[0][1] + wanted[0][2] + wanted[1][2]) / 3
        assert found.likeness(layer) == pytest.approx(apart)
        assert apart < 0.99


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(sum(a * b for a, b in zip(one, other, strict=True)) / (sum(one**2) * sum(other**2)) ** 0.5)


@pytest.mark.slow
def test_each_time_it_occurs_is_an_occurrence(network: Network) -> None:
    found = layers.words_in_context(network, "배", ["배를 탔다 배가 고프다", "나는 담배를 탔다"])
    assert [(one.start, one.letters) for one in found.occurrences] == [(0, "배"), (6, "배"), (4, "담배")]
    assert [one.letters != "배" for one in found.occurrences] == [False, False, True]
    assert found.occurrences[2].pieces == ("담배",)


@pytest.mark.slow
def test_letters_that_look_alike_are_alike(network: Network) -> None:
    apart = layers.words_in_context(network, unicodedata.normalize("NFD", "배"), [unicodedata.normalize("NFD", SHIP)])
    assert apart.at(1) == pytest.approx(layers.words_in_context(network, "배", [SHIP]).at(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "sentences", "code"),
    [
        ("", [SHIP], "no_word"),
        ("배", [" "], "no_sentence"),
        ("배", [SHIP, "사과를 먹었다"], "word_not_found"),
        ("배", [f"{'사과 ' * 40}배"], "word_cut"),
        ("배", ["배"] * (layers.MOST_SENTENCES + 1), "many_sentences"),
    ],
)
def test_what_cannot_be_compared_is_told(network: Network, word: str, sentences: list[str], code: str) -> None:
    with refused(code) as told:
        layers.words_in_context(network, word, sentences)
    if code == "word_not_found":
        assert told.value.details["sentence"] == "사과를 먹었다"


@pytest.mark.slow
@pytest.mark.packaged
@pytest.mark.skipif(base_at_hand() is None, reason="no package ships a base here")
def test_the_packaged_base_has_a_tokenizer_and_tells_the_ship_and_the_pear_from_the_belly() -> None:
    """The page's example: one piece of its own in all three sentences, and no two of them alike after the layers."""
    pieces = find_tokenizer("packaged:multilingual-e5-small").pieces("세종대왕은 조선의 왕이다. 🦖")
    assert "".join(piece.letters for piece in pieces) == "세종대왕은조선의왕이다.🦖"
    assert [piece.name for piece in pieces[:2]] == ["▁세종", "대"]
    found = layers.words_in_context(load_encoder(find_model(default_model())), "배", [SHIP, PEAR, BELLY])
    assert {one.pieces for one in found.occurrences} == {("배",)}
    assert found.likeness(layers.STATIC) == pytest.approx(1, abs=1e-6)
    ship_pear, ship_belly, pear_belly = found.cosines(6)[np.triu_indices(3, 1)]
    assert ship_pear > max(ship_belly, pear_belly)
    assert found.likeness(6) < found.likeness(1) < 1


def test_a_plane_holds_the_two_main_directions() -> None:
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(0).normal(size=(7, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    model = PCA(2).fit(unit)
    found = layers.plane(vectors)
    assert np.abs(found.points) == pytest.approx(np.abs(model.transform(unit)))
    assert found.explained == pytest.approx(model.explained_variance_ratio_)
    assert all(column[np.abs(column).argmax()] > 0 for column in found.points.T)
    found = layers.plane(np.ones((3, 4), dtype=np.float32))
    assert found.points.tolist() == [[0, 0]] * 3
    assert found.explained.tolist() == [0, 0]
    assert layers.plane(np.ones((1, 4))).points.tolist() == [[0, 0]]


# [CLS] 배 를 타 [SEP]: two words, the first of two pieces
MADE = (
    Piece("[CLS]", 0, 0, -1),
    Piece("배", 0, 1, 0),
    Piece("를", 1, 2, 0),
    Piece("타", 3, 4, 1),
    Piece("[SEP]", 0, 0, -1),
)
SHORT = (Piece("[CLS]", 0, 0, -1), Piece("나", 0, 1, 0), Piece("[SEP]", 0, 0, -1))


def told(heads: layers.Heads, layer: int = 0, head: int = 0) -> dict[layers.Target, float]:
    return dict(zip(layers.Target, heads.shares[layer, head].tolist(), strict=True))


def test_shares_are_those_counted_by_hand() -> None:
    weights = np.array(
        [
            [0.2, 0.2, 0.2, 0.2, 0.2],  # what [CLS] looks at is not asked
            [0.5, 0.1, 0.2, 0.1, 0.1],
            [0.0, 0.6, 0.3, 0.1, 0.0],
            [0.1, 0.1, 0.4, 0.3, 0.1],
            [0.2, 0.2, 0.2, 0.2, 0.2],
        ]
    )
    found = told(layers.heads_of([layers.SentenceAttention(MADE, weights[None, None])]))
    assert found == {
        layers.Target.PREVIOUS: pytest.approx((0.5 + 0.6 + 0.4) / 3),
        layers.Target.NEXT: pytest.approx((0.2 + 0.1 + 0.1) / 3),
        layers.Target.ITSELF: pytest.approx((0.1 + 0.3 + 0.3) / 3),
        layers.Target.SPECIAL: pytest.approx((0.6 + 0.0 + 0.2) / 3),
        layers.Target.SAME_WORD: pytest.approx((0.2 + 0.6) / 2),  # 타 is a word alone
    }


def test_every_piece_of_several_sentences_counts_the_same() -> None:
    ones = [np.zeros((1, 1, n, n)) for n in (5, 3)]
    ones[0][..., 0] = 1  # all look at [CLS]
    ones[1][..., 1] = 1  # all look at the only word
    found = told(layers.heads_of([layers.SentenceAttention(MADE, ones[0]), layers.SentenceAttention(SHORT, ones[1])]))
    assert found[layers.Target.SPECIAL] == pytest.approx(3 / 4)
    assert found[layers.Target.ITSELF] == pytest.approx(1 / 4)
    assert found[layers.Target.PREVIOUS] == pytest.approx(1 / 4)  # [CLS] stands before 배
    assert found[layers.Target.SAME_WORD] == 0


def test_uniform_attention_has_the_even_shares_and_none_of_words_without_several_pieces() -> None:
    heads = layers.heads_of(
        [
            layers.SentenceAttention(MADE, np.full((1, 1, 5, 5), 0.2)),
            layers.SentenceAttention(SHORT, np.full((1, 1, 3, 3), 1 / 3)),
        ]
    )
    assert heads.shares[0, 0] == pytest.approx(heads.even)
    assert heads.even[[*layers.Target].index(layers.Target.SPECIAL)] == pytest.approx((3 * 2 / 5 + 2 / 3) / 4)
    heads = layers.heads_of([layers.SentenceAttention(SHORT, np.full((1, 1, 3, 3), 1 / 3))])
    assert np.isnan(told(heads)[layers.Target.SAME_WORD])
    assert not layers.targets_of(SHORT)[[*layers.Target].index(layers.Target.SAME_WORD)].any()


@pytest.mark.slow
def test_attention_is_that_of_transformers_and_each_row_sums_to_1(network: Network) -> None:
    found = layers.attention_of(network, f" {SHIP} ")
    assert found.weights.shape == (LAYERS, HEADS, 8, 8)
    for layer, weights in enumerate(theirs(network).attentions):
        assert found.weights[layer] == pytest.approx(weights[0].numpy(), abs=1e-6)
    assert found.weights.sum(axis=-1) == pytest.approx(np.ones((LAYERS, HEADS, 8)), abs=1e-6)
    assert [one.text for one in found.pieces] == ["[CLS]", "항구", "에서", "배", "를", "탔", "다", "[SEP]"]
    assert [one.word for one in found.pieces] == [-1, 0, 0, 1, 1, 2, 2, -1]
    with pytest.raises(LanguageError, match="sentence"):
        layers.attention_of(network, " ")
