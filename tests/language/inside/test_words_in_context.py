"""A word's vectors by layer, against hidden states of plain transformers."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from language.inside.in_context import MOST_SENTENCES, STATIC, plane, words_in_context
from language.inside.network import Network, load_encoder
from language.text_file import LanguageError
from models.packaged import base_at_hand
from models.sources import default_model, find_model
from tests.language.tiny_bert import BELLY, DIMENSIONS, LAYERS, PEAR, PIECES, SHIP, SPECIALS, written

pytestmark = pytest.mark.slow
SHIP_TOKENS = ["[CLS]", "항구", "##에서", "배", "##를", "탔", "##다", "[SEP]"]


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return load_encoder(written(tmp_path))


def their_states(network: Network, tokens: list[str]) -> list[np.ndarray]:
    import torch
    from transformers import BertModel

    numbers = torch.tensor([[(SPECIALS + PIECES).index(token) for token in tokens]])
    with torch.inference_mode():
        model = BertModel.from_pretrained(network.reference).eval()
        return [state[0].numpy() for state in model(numbers, output_hidden_states=True).hidden_states]


def test_vectors_are_the_hidden_states_at_the_word(network: Network) -> None:
    found = words_in_context(network, "배", [SHIP])
    wanted = their_states(network, SHIP_TOKENS)
    assert found.layers.shape == (LAYERS + 1, 1, DIMENSIONS)
    for layer, states in enumerate(wanted):
        assert found.at(layer)[0] == pytest.approx(states[3], abs=1e-5)


def test_a_word_of_several_pieces_is_their_mean(network: Network) -> None:
    found = words_in_context(network, "배를", [SHIP])
    (state,) = their_states(network, SHIP_TOKENS)[-1:]
    assert found.at(LAYERS)[0] == pytest.approx((state[3] + state[4]) / 2, abs=1e-5)
    assert found.occurrences[0].pieces == ("배", "를")


def test_the_same_piece_is_one_point_before_the_layers_and_apart_after(network: Network) -> None:
    found = words_in_context(network, "배", [SHIP, PEAR, BELLY])
    table = network.model.get_input_embeddings().weight.detach().cpu().numpy()
    assert found.static == pytest.approx(np.tile(table[len(SPECIALS)], (3, 1)))
    assert found.cosines(STATIC) == pytest.approx(np.ones((3, 3)))
    assert found.likeness(STATIC) == pytest.approx(1)
    assert [*found.numbers] == [-1, 0, 1, 2]
    for layer in (0, 1, 2):
        wanted = [[_cosine(one, other) for other in found.at(layer)] for one in found.at(layer)]
        assert found.cosines(layer) == pytest.approx(np.array(wanted))
        apart = (wanted[0][1] + wanted[0][2] + wanted[1][2]) / 3
        assert found.likeness(layer) == pytest.approx(apart)
        assert apart < 0.99


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(sum(a * b for a, b in zip(one, other, strict=True)) / (sum(one**2) * sum(other**2)) ** 0.5)


def test_each_time_it_occurs_is_an_occurrence(network: Network) -> None:
    found = words_in_context(network, "배", ["배를 탔다 배가 고프다", "나는 담배를 탔다"])
    assert [(one.start, one.letters) for one in found.occurrences] == [(0, "배"), (6, "배"), (4, "담배")]
    assert [one.is_glued("배") for one in found.occurrences] == [False, False, True]
    assert found.occurrences[2].pieces == ("담배",)


def test_letters_that_look_alike_are_alike(network: Network) -> None:
    apart = words_in_context(network, unicodedata.normalize("NFD", "배"), [unicodedata.normalize("NFD", SHIP)])
    assert apart.at(1) == pytest.approx(words_in_context(network, "배", [SHIP]).at(1))


@pytest.mark.parametrize(
    ("word", "sentences", "code"),
    [
        ("", [SHIP], "no_word"),
        ("배", [" "], "no_sentence"),
        ("배", [SHIP, "사과를 먹었다"], "word_not_found"),
        ("배", [f"{'사과 ' * 40}배"], "word_cut"),
        ("배", ["배"] * (MOST_SENTENCES + 1), "many_sentences"),
    ],
)
def test_what_cannot_be_compared_is_told(network: Network, word: str, sentences: list[str], code: str) -> None:
    with pytest.raises(LanguageError) as told:
        words_in_context(network, word, sentences)
    assert told.value.code == code
    if code == "word_not_found":
        assert told.value.details["sentence"] == "사과를 먹었다"


@pytest.mark.packaged
@pytest.mark.skipif(base_at_hand() is None, reason="no package ships a base here")
def test_the_packaged_base_tells_the_ship_and_the_pear_from_the_belly() -> None:
    """The page's example: one piece of its own in all three sentences, and no two of them alike after the layers."""
    found = words_in_context(load_encoder(find_model(default_model())), "배", [SHIP, PEAR, BELLY])
    assert {one.pieces for one in found.occurrences} == {("배",)}
    assert found.likeness(STATIC) == pytest.approx(1, abs=1e-6)
    ship_pear, ship_belly, pear_belly = found.cosines(6)[np.triu_indices(3, 1)]
    assert ship_pear > max(ship_belly, pear_belly)
    assert found.likeness(6) < found.likeness(1) < 1


def test_a_plane_holds_the_two_main_directions() -> None:
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(0).normal(size=(7, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    model = PCA(2).fit(unit)
    found = plane(vectors)
    assert np.abs(found.points) == pytest.approx(np.abs(model.transform(unit)))
    assert found.explained == pytest.approx(model.explained_variance_ratio_)
    assert all(column[np.abs(column).argmax()] > 0 for column in found.points.T)


def test_vectors_that_are_alike_are_one_point() -> None:
    found = plane(np.ones((3, 4), dtype=np.float32))
    assert found.points.tolist() == [[0, 0]] * 3
    assert found.explained.tolist() == [0, 0]
    assert plane(np.ones((1, 4))).points.tolist() == [[0, 0]]
