"""Pieces and the letters they stand for, by tokenizers of several makes."""

import pytest

from language.morphemes import BOUNDARY
from language.network import Network, Piece
from tests.language.tiny_bert import SPECIALS

pytestmark = pytest.mark.slow


def network(vocabulary: list[str], **trained: str) -> Network:
    """A network that only cuts, by whole pieces, with spaces written as SentencePiece writes them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [(piece, 0.0 if piece in SPECIALS else -1.0) for piece in (*SPECIALS, *vocabulary)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=1, byte_fallback=False))
    boundary = pre_tokenizers.Split(BOUNDARY, "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([boundary, pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    cut = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", trained=trained)  # noqa: S106
    return Network("made", None, cut, 32)


def test_a_piece_that_is_only_a_space_holds_no_letter() -> None:
    found = network(["▁", "▁배", "를", "탔다"]).pieces("배를 탔다")
    assert found == [
        Piece("[CLS]", 0, 0, -1),
        Piece("배", 0, 1, 0),
        Piece("를", 1, 2, 0),
        Piece("▁", 3, 3, 1),
        Piece("탔다", 3, 5, 1),
        Piece("[SEP]", 0, 0, -1),
    ]


def test_what_the_tokenizer_does_not_know_is_called_as_it_calls_it() -> None:
    found = network(["▁배", "▁"]).pieces("쀍 배")
    assert [(one.text, one.start, one.end, one.word) for one in found if not one.special and one.end > one.start] == [
        ("[UNK]", 0, 1, 0),
        ("배", 2, 3, 1),
    ]


def test_a_tokenizer_of_morphemes_is_given_them_and_tells_letters_of_the_sentence_as_it_stands() -> None:
    """Without the marks 에서 and 먹었 would be cut as the longer pieces are."""
    pieces = ["▁한강", "에서", "▁한강에서", "▁먹", "었", "다", "▁먹었다"]
    found = network(pieces, split="morphemes").pieces("한강에서 먹었다")
    spans = [(one.text, one.start, one.end, one.word) for one in found if not one.special]
    assert spans == [("한강", 0, 2, 0), ("에서", 2, 4, 0), ("먹", 5, 6, 1), ("었", 6, 7, 1), ("다", 7, 8, 1)]
    assert [one.text for one in network(pieces, split="words").pieces("한강에서 먹었다")][1:-1] == [
        "한강에서",
        "먹었다",
    ]
