"""Figures of a tokenizer, against counts by hand and by another way of counting."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from mrc_workbench.data.text.corpora import held_out
from mrc_workbench.labs.language.comparison import Fertility, HeldOut, fertility
from mrc_workbench.models.language.tokenizer_training import Sample, Split, TokenizerKind, cuts
from mrc_workbench.models.language.tokenizers import PreparedTokenizer
from tests.labs.language.doubles import refused
from tests.models.language.test_tokenizer_training import CORPUS, SENTENCES, Documents, prepared

PIECES = ("[UNK]", "배", "##가", "##를", "고프다", "탔", "##다", "사과", ".", "먹었다")
FIVE = ["배가 고프다", "배를 탔다.", "사과를 먹었다", "항구 배", "배가\n고프다 탔다"]
# 배 ##가 고프다 | 배 ##를 탔 ##다 . | 사과 ##를 먹었다 | [UNK] 배 | 배 ##가 고프다 탔 ##다


def by_hand() -> PreparedTokenizer:
    tokenizer = Tokenizer(models.WordPiece({piece: row for row, piece in enumerate(PIECES)}, unk_token=PIECES[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreparedTokenizer("by hand", tokenizer)


def test_five_sentences_by_hand() -> None:
    told = fertility(by_hand(), HeldOut.of(FIVE))
    assert (told.documents, told.words, told.characters, told.tokens) == (5, 11, 26, 18)
    assert told.pieces == 10
    assert told.tokens_per_word == 18 / 11
    assert told.tokens_per_character == 18 / 26
    assert told.unknown_rate == 1 / 18
    assert told.unknown_words == 1 / 11
    assert told.whole_words == 4 / 11  # 고프다, 먹었다, 배, 고프다; 항구 is one piece as well, and none knows which
    # 배|가, 배|를, 탔|다, 사과|를, 배|가, 탔|다; of morphemes there are 고프|다, twice, and 먹|었|다 besides
    assert (told.precision, told.recall, told.f1) == (1.0, 6 / 10, 12 / 16)
    assert told.document_tokens == {"0.05": 2.2, "0.25": 3, "0.5": 3, "0.75": 5, "0.95": 5, "1": 5}
    assert told.longer_than_512 == 0
    assert told.tokens_per_second > 0
    assert told.seconds_to_train is None


def test_nothing_to_be_right_about_is_no_figure() -> None:
    told = fertility(by_hand(), HeldOut.of(["배 배"]))
    assert (told.precision, told.recall, told.f1) == (None, None, None)
    assert told.whole_words == 1


def test_special_pieces_count_as_what_a_model_reads() -> None:
    held = HeldOut.of([" ".join(["학교"] * words) for words in (1, 510, 511)])
    told = fertility(prepared(TokenizerKind.BPE), held)
    assert told.tokens == 1 + 510 + 511
    assert told.document_tokens["1"] == 513
    assert told.longer_than_512 == pytest.approx(1 / 3)


def counted(tokenizer: PreparedTokenizer, texts: Sequence[str]) -> dict[str, float]:
    """The counts of words by cutting each by itself, which parts at blanks and signs allow."""
    words = [word for text in texts for word in text.split()]
    cut = [tokenizer.tokenizer.encode(word, add_special_tokens=False) for word in words]
    tokens, unknown = sum(len(one.ids) for one in cut), tokenizer.tokenizer.token_to_id("[UNK]")
    return {
        "tokens_per_word": tokens / len(words),
        "tokens_per_character": tokens / len(re.sub(r"\s", "", "".join(texts))),
        "unknown_rate": sum(one.ids.count(unknown) for one in cut) / tokens,
        "unknown_words": sum(unknown in one.ids for one in cut) / len(words),
        "whole_words": sum(len(one.ids) == 1 and one.ids != [unknown] for one in cut) / len(words),
    }


@pytest.mark.parametrize("kind", TokenizerKind)
def test_figures_are_those_of_words_cut_one_by_one(kind: TokenizerKind) -> None:
    made = prepared(kind)
    texts = [*SENTENCES[:40], "뷁이 왔다 뷁뷁", " 쀍에서  걸었다 \n", "Café 123456km 🍎🍎"]
    told = asdict(fertility(made, HeldOut.of(texts)))
    for name, wanted in counted(made, texts).items():
        assert told[name] == pytest.approx(wanted), name
    assert (told["unknown_rate"] > 0) == (told["unknown_words"] > 0) == (kind is not TokenizerKind.BYTE_BPE)


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.BPE])
def test_agreement_is_that_of_sets_of_places(kind: TokenizerKind) -> None:
    tokenizer = prepared(kind)
    held = HeldOut.of(["기차에서를 학교도서관에서 만났다를 보았다", "강아지와 시장바다사과를, 먹었다도"])
    hits = made = morphemes = 0
    for text, places in zip(held.texts, held.morphemes, strict=True):
        ends = [*accumulate(len(piece.letters) for piece in tokenizer.pieces(text))]  # in the text without its blanks
        place_of = [place for place, letter in enumerate(text) if letter != " "]
        inside = {
            place
            for place in (place_of[end] for end in ends[:-1])
            if re.fullmatch(r"\w\w", text[place - 1 : place + 1])
        }
        hits += len(inside & set(places.tolist()))
        made += len(inside)
        morphemes += len(places)
    told = fertility(tokenizer, held)
    assert 0 < hits < made
    assert told.precision == pytest.approx(hits / made)
    assert told.recall == pytest.approx(hits / morphemes)
    assert told.f1 == pytest.approx(2 / (made / hits + morphemes / hits))


@pytest.mark.parametrize("kind", TokenizerKind)
def test_who_is_given_morphemes_finds_them_all(kind: TokenizerKind) -> None:
    told = fertility(prepared(kind, Split.MORPHEMES), HeldOut.of(SENTENCES[:40]))
    assert told.recall == 1.0
    assert told.seconds_to_train is not None
    assert told.seconds_to_train > 0


def test_a_letter_in_bytes_is_cut_nowhere_inside() -> None:
    tokenizer = Tokenizer(
        models.BPE({letter: row for row, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    told = fertility(PreparedTokenizer("bytes", tokenizer), HeldOut.of(["학교 왔다"]))
    assert (told.tokens, told.words) == (4 * 3 + 1, 2)  # the blank is a piece, too
    assert (told.precision, told.recall) == (0.5, 1.0)  # 학|교 is no morpheme, 왔|다 are two
    assert told.unknown_rate == 0


def test_places_over_which_a_piece_reaches_are_no_cuts() -> None:
    spans = np.array([(0, 2), (1, 3), (3, 4), (5, 6), (6, 7), (7, 8)])
    assert cuts(spans, "가나다라 가.나").tolist() == [3]


def test_only_what_is_held_out_is_measured_on_and_of_much_of_it_a_part() -> None:
    sample = Sample(held_out=0.5, seed=3)
    whole = HeldOut.from_corpus(CORPUS, sample).texts
    assert [*whole] == [text for text in SENTENCES if held_out(text, 0.5, 3)]
    part = HeldOut.from_corpus(CORPUS, sample, most=CORPUS.characters // 10).texts
    assert set(part) < set(whole)
    assert len(part) == pytest.approx(100, abs=4 * 90**0.5)
    with refused("nothing_held_out"):
        HeldOut.from_corpus(Documents(("하나",)), Sample(held_out=0.0))


def test_a_special_piece_that_a_text_holds_is_cut_as_the_tokenizer_does() -> None:
    made = by_hand()
    made.tokenizer.add_special_tokens([AddedToken("[MASK]", special=True)])
    told = fertility(made, HeldOut.of(["배 [MASK]"]))
    assert isinstance(told, Fertility)
    assert (told.words, told.tokens) == (2, 2)
