"""The few merges that build a word, against the tokenizer after every number of merges."""

import pytest
from tokenizers import Tokenizer, models

from language.morphemes import Split, TokenizerKind
from language.prepared import PreparedTokenizer, built, is_of_bytes, merges_of, steps
from language.text_file import LanguageError
from tests.language.test_merges import trained

WORDS = ("학교에서", "강아지도서관", "노래를불렀다", "뷁a", "사 과")


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("kind", [TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_a_word_is_what_the_tokenizer_makes_of_it_after_any_number_of_merges(kind: TokenizerKind, split: Split) -> None:
    tokenizer = trained(kind, split)
    every = merges_of(tokenizer)
    for word in WORDS:
        found = steps(word, tokenizer)
        places = {0, len(every)} | {one.merges + more for one in found for more in (-1, 0)}
        for place in sorted(places - {-1}):
            last = [one for one in found if one.merges <= place][-1]
            assert built(word, tokenizer, place) == [*last.pieces]
        assert all(every[one.merges - 1] == one.pair for one in found[1:])
        assert is_of_bytes(tokenizer) == (kind is TokenizerKind.BYTE_BPE)
    assert max(len(steps(word, tokenizer)) for word in WORDS) > 3


def test_a_pair_that_was_learned_early_may_be_joined_late() -> None:
    """`abc` is made of `ab` and `c` first, here only by a merge learned after `abc` and `d`."""
    pieces = {name: number for number, name in enumerate(["a", "b", "c", "d", "bc", "ab", "abc", "abcd"])}
    model = models.BPE(pieces, [("b", "c"), ("ab", "c"), ("abc", "d"), ("a", "bc")])
    tokenizer = PreparedTokenizer("by hand", Tokenizer(model))
    found = steps("abcd", tokenizer)
    assert [(one.merges, one.joined) for one in found] == [(0, ""), (1, "bc"), (4, "abc"), (4, "abcd")]
    assert [one.pieces for one in found][1:] == [("a", "bc", "d"), ("abc", "d"), ("abcd",)]
    assert [built("abcd", tokenizer, count) for count in (3, 4)] == [["a", "bc", "d"], ["abcd"]]


def test_a_pair_is_joined_wherever_it_stands_from_the_left() -> None:
    model = models.BPE({"a": 0, "aa": 1}, [("a", "a")])
    tokenizer = PreparedTokenizer("by hand", Tokenizer(model))
    assert [one.pieces for one in steps("aaaaa", tokenizer)] == [("a",) * 5, ("aa", "aa", "a")]


def test_who_keeps_no_merges_is_told() -> None:
    with pytest.raises(LanguageError) as raised:
        steps("학교", trained(TokenizerKind.UNIGRAM))
    assert raised.value.code == "no_merges"
