"""A word built merge by merge, against the algorithm written out."""

import random

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from language.morphemes import Split, TokenizerKind
from language.prepared import PreparedTokenizer, built, merges_of, readable
from language.text_file import LanguageError
from language.train import Sample, TokenizerOptions, train
from tests.language.test_train import CORPUS, NOUNS, VERBS


def trained(kind: TokenizerKind, split: Split = Split.WORDS) -> PreparedTokenizer:
    return PreparedTokenizer.of(train(CORPUS, TokenizerOptions(kind, 1_000, Sample(split=split))))


def merged(letters: list[str], pairs: list[tuple[str, str]]) -> list[str]:
    """Sennrich et al. 2016: in the order in which pairs were learned, each is joined wherever it stands."""
    for first, second in pairs:
        place = 0
        while place < len(letters) - 1:
            if letters[place : place + 2] == [first, second]:
                letters[place : place + 2] = [first + second]
            place += 1
    return letters


def random_words(count: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices([*NOUNS, *VERBS, "에서", "를", "와", "도"], k=3)) for _ in range(count)]


def test_a_word_is_built_as_the_algorithm_says_after_any_number_of_merges() -> None:
    tokenizer = trained(TokenizerKind.BPE)
    pairs = merges_of(tokenizer)
    assert len(pairs) > 50
    for word in ("학교에서", "강아지도서관", "노래를불렀다"):
        for count in range(0, len(pairs) + 1, 7):
            assert built(word, tokenizer, count) == merged(list("▁" + word), pairs[:count])


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("kind", [TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_with_all_merges_it_is_what_the_tokenizer_cuts(kind: TokenizerKind, split: Split) -> None:
    tokenizer = trained(kind, split)
    count = len(merges_of(tokenizer))
    for word in random_words(40):
        (given,) = tokenizer.prepared([word])
        names = tokenizer.tokenizer.encode(given, add_special_tokens=False).tokens
        assert built(word, tokenizer, count) == [
            readable(name, in_bytes=kind is TokenizerKind.BYTE_BPE) for name in names
        ]


def test_bytes_are_shown_as_text_where_they_are_one() -> None:
    tokenizer = trained(TokenizerKind.BYTE_BPE)
    assert built("사", tokenizer, 0) == ["▁", "<EC>", "<82>", "<AC>"]
    assert built("사과", tokenizer, len(merges_of(tokenizer))) == ["▁사과"]
    assert built("a é", tokenizer, 0) == ["▁", "a", "▁", "<C3>", "<A9>"]


def test_every_byte_has_the_letter_that_the_library_gives_it() -> None:
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("".join(map(chr, range(0x250))), "가힣🍎한"):
        ((letters, _),) = bytes_.pre_tokenize_str(text)
        assert readable(letters, in_bytes=True) == text.replace(" ", "▁")


def test_a_word_that_is_a_piece_is_built_all_the_same() -> None:
    model = models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], ignore_merges=True)
    tokenizer = PreparedTokenizer("whole words first", Tokenizer(model))
    assert [built("ab", tokenizer, count) for count in (0, 1)] == [["a", "b"], ["ab"]]


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.UNIGRAM])
def test_who_keeps_no_merges_is_told(kind: TokenizerKind) -> None:
    with pytest.raises(LanguageError) as raised:
        built("학교", trained(kind), 1)
    assert raised.value.code == "no_merges"
