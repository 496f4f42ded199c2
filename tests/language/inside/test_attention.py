"""Where heads look: by hand on made attention, and against plain transformers."""

from pathlib import Path

import numpy as np
import pytest

from language.inside.in_context import Heads, SentenceAttention, Target, attention_of, heads_of, targets_of
from language.inside.network import Piece, load_encoder
from language.text_file import LanguageError
from tests.language.tiny_bert import HEADS, LAYERS, PIECES, SHIP, SPECIALS, written

# [CLS] 배 를 타 [SEP]: two words, the first of two pieces
MADE = (
    Piece("[CLS]", 0, 0, -1),
    Piece("배", 0, 1, 0),
    Piece("를", 1, 2, 0),
    Piece("타", 3, 4, 1),
    Piece("[SEP]", 0, 0, -1),
)
SHORT = (Piece("[CLS]", 0, 0, -1), Piece("나", 0, 1, 0), Piece("[SEP]", 0, 0, -1))


def told(heads: Heads, layer: int = 0, head: int = 0) -> dict[Target, float]:
    return dict(zip(Target, heads.shares[layer, head].tolist(), strict=True))


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
    found = told(heads_of([SentenceAttention(MADE, weights[None, None])]))
    assert found == {
        Target.PREVIOUS: pytest.approx((0.5 + 0.6 + 0.4) / 3),
        Target.NEXT: pytest.approx((0.2 + 0.1 + 0.1) / 3),
        Target.ITSELF: pytest.approx((0.1 + 0.3 + 0.3) / 3),
        Target.SPECIAL: pytest.approx((0.6 + 0.0 + 0.2) / 3),
        Target.SAME_WORD: pytest.approx((0.2 + 0.6) / 2),  # 타 is a word alone
    }


def test_every_piece_of_several_sentences_counts_the_same() -> None:
    ones = [np.zeros((1, 1, n, n)) for n in (5, 3)]
    ones[0][..., 0] = 1  # all look at [CLS]
    ones[1][..., 1] = 1  # all look at the only word
    found = told(heads_of([SentenceAttention(MADE, ones[0]), SentenceAttention(SHORT, ones[1])]))
    assert found[Target.SPECIAL] == pytest.approx(3 / 4)
    assert found[Target.ITSELF] == pytest.approx(1 / 4)
    assert found[Target.PREVIOUS] == pytest.approx(1 / 4)  # [CLS] stands before 배
    assert found[Target.SAME_WORD] == 0


def test_a_head_that_looks_at_all_alike_has_the_even_shares() -> None:
    heads = heads_of(
        [SentenceAttention(MADE, np.full((1, 1, 5, 5), 0.2)), SentenceAttention(SHORT, np.full((1, 1, 3, 3), 1 / 3))]
    )
    assert heads.shares[0, 0] == pytest.approx(heads.even)
    assert heads.even[[*Target].index(Target.SPECIAL)] == pytest.approx((3 * 2 / 5 + 2 / 3) / 4)


def test_where_no_word_has_two_pieces_nothing_is_told_of_words() -> None:
    heads = heads_of([SentenceAttention(SHORT, np.full((1, 1, 3, 3), 1 / 3))])
    assert np.isnan(told(heads)[Target.SAME_WORD])
    assert not targets_of(SHORT)[[*Target].index(Target.SAME_WORD)].any()


@pytest.mark.slow
def test_attention_is_that_of_transformers_and_each_row_sums_to_1(tmp_path: Path) -> None:
    import torch
    from transformers import BertModel

    network = load_encoder(written(tmp_path))
    found = attention_of(network, f" {SHIP} ")
    tokens = ["[CLS]", "항구", "##에서", "배", "##를", "탔", "##다", "[SEP]"]
    numbers = torch.tensor([[(SPECIALS + PIECES).index(token) for token in tokens]])
    model = BertModel.from_pretrained(network.reference, attn_implementation="eager").eval()
    with torch.inference_mode():
        wanted = model(numbers, output_attentions=True).attentions
    assert found.weights.shape == (LAYERS, HEADS, 8, 8)
    for layer, weights in enumerate(wanted):
        assert found.weights[layer] == pytest.approx(weights[0].numpy(), abs=1e-6)
    assert found.weights.sum(axis=-1) == pytest.approx(np.ones((LAYERS, HEADS, 8)), abs=1e-6)
    assert [one.text for one in found.pieces] == ["[CLS]", "항구", "에서", "배", "를", "탔", "다", "[SEP]"]
    assert [one.word for one in found.pieces] == [-1, 0, 0, 1, 1, 2, 2, -1]
    with pytest.raises(LanguageError, match="sentence"):
        attention_of(network, " ")
