"""The merges that build a word, against the tokenizer after every number of merges and the algorithm written out."""

import json
import random

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from language.morphemes import Split, TokenizerKind
from language.prepared import PreparedTokenizer, is_of_bytes, readable, steps
from language.texts import LanguageError
from tests.language.test_train import NOUNS, VERBS, prepared

WORDS = ("학교에서", "강아지도서관", "노래를불렀다", "뷁a", "사 과")


def names_of(tokenizer: PreparedTokenizer, word: str, cut: Tokenizer) -> list[str]:
    (given,) = tokenizer.prepared([word])
    names = cut.encode(given, add_special_tokens=False).tokens
    return [readable(name, in_bytes=is_of_bytes(tokenizer)) for name in names]


def merges_of(tokenizer: PreparedTokenizer) -> list[tuple[str, str]]:
    return [(first, second) for first, second in tokenizer.content["model"]["merges"]]


def cut_after(word: str, tokenizer: PreparedTokenizer, merges: int) -> list[str]:
    """What the library makes of a word by the first so many merges."""
    content = tokenizer.content
    model = {**content["model"], "merges": merges_of(tokenizer)[:merges]}
    return names_of(tokenizer, word, Tokenizer.from_str(json.dumps({**content, "model": model})))


def merged(letters: list[str], pairs: list[tuple[str, str]]) -> list[str]:
    """Sennrich et al. 2016: in the order in which pairs were learned, each is joined wherever it stands."""
    for first, second in pairs:
        place = 0
        while place < len(letters) - 1:
            if letters[place : place + 2] == [first, second]:
                letters[place : place + 2] = [first + second]
            place += 1
    return letters


def after(word: str, tokenizer: PreparedTokenizer, merges: int) -> list[str]:
    """What the steps say of a word after the first so many merges."""
    return [*[one for one in steps(word, tokenizer) if one.merges <= merges][-1].pieces]


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("kind", [TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_a_word_is_what_the_tokenizer_makes_of_it_after_any_number_of_merges(kind: TokenizerKind, split: Split) -> None:
    tokenizer, in_bytes = prepared(kind, split), kind is TokenizerKind.BYTE_BPE
    every = [tuple(readable(one, in_bytes=in_bytes) for one in pair) for pair in merges_of(tokenizer)]
    assert is_of_bytes(tokenizer) == in_bytes
    for word in WORDS:
        found = steps(word, tokenizer)
        places = {0, len(every)} | {one.merges + more for one in found for more in (-1, 0)}
        for place in sorted(places - {-1}):
            assert cut_after(word, tokenizer, place) == after(word, tokenizer, place)
        assert all(every[one.merges - 1] == one.pair for one in found[1:])
    assert max(len(steps(word, tokenizer)) for word in WORDS) > 3
    rng = random.Random(0)
    for _ in range(40):
        word = "".join(rng.choices([*NOUNS, *VERBS, "에서", "를", "와", "도"], k=3))
        assert [*steps(word, tokenizer)[-1].pieces] == names_of(tokenizer, word, tokenizer.tokenizer)


def test_a_word_is_built_as_the_algorithm_says_after_any_number_of_merges() -> None:
    tokenizer = prepared(TokenizerKind.BPE)
    pairs = merges_of(tokenizer)
    assert len(pairs) > 50
    for word in ("학교에서", "강아지도서관", "노래를불렀다"):
        for count in range(0, len(pairs) + 1, 7):
            assert after(word, tokenizer, count) == merged(list("▁" + word), pairs[:count])


def test_bytes_are_shown_as_text_where_they_are_one() -> None:
    tokenizer = prepared(TokenizerKind.BYTE_BPE)
    assert after("사", tokenizer, 0) == ["▁", "<EC>", "<82>", "<AC>"]
    assert after("사과", tokenizer, len(merges_of(tokenizer))) == ["▁사과"]
    assert after("a é", tokenizer, 0) == ["▁", "a", "▁", "<C3>", "<A9>"]


def test_every_byte_has_the_letter_that_the_library_gives_it() -> None:
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("".join(map(chr, range(0x250))), "가힣🍎한"):
        ((letters, _),) = bytes_.pre_tokenize_str(text)
        assert readable(letters, in_bytes=True) == text.replace(" ", "▁")


def test_a_word_that_is_a_piece_is_built_all_the_same() -> None:
    model = models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], ignore_merges=True)
    tokenizer = PreparedTokenizer("whole words first", Tokenizer(model))
    assert [after("ab", tokenizer, count) for count in (0, 1)] == [["a", "b"], ["ab"]]


def test_a_pair_that_was_learned_early_may_be_joined_late() -> None:
    """`abc` is made of `ab` and `c` first, here only by a merge learned after `abc` and `d`."""
    pieces = {name: number for number, name in enumerate(["a", "b", "c", "d", "bc", "ab", "abc", "abcd"])}
    model = models.BPE(pieces, [("b", "c"), ("ab", "c"), ("abc", "d"), ("a", "bc")])
    tokenizer = PreparedTokenizer("by hand", Tokenizer(model))
    found = steps("abcd", tokenizer)
    assert [(one.merges, one.joined) for one in found] == [(0, ""), (1, "bc"), (4, "abc"), (4, "abcd")]
    assert [one.pieces for one in found][1:] == [("a", "bc", "d"), ("abc", "d"), ("abcd",)]
    assert [cut_after("abcd", tokenizer, count) for count in (3, 4)] == [["a", "bc", "d"], ["abcd"]]


def test_a_pair_is_joined_wherever_it_stands_from_the_left() -> None:
    model = models.BPE({"a": 0, "aa": 1}, [("a", "a")])
    tokenizer = PreparedTokenizer("by hand", Tokenizer(model))
    assert [one.pieces for one in steps("aaaaa", tokenizer)] == [("a",) * 5, ("aa", "aa", "a")]


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.UNIGRAM])
def test_who_keeps_no_merges_is_told(kind: TokenizerKind) -> None:
    with pytest.raises(LanguageError) as raised:
        steps("학교", prepared(kind))
    assert raised.value.code == "no_merges"
