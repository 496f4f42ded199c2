"""What is hidden: how much of it, as what, never a special token, and whole words whole."""

from typing import Any

import numpy as np
import pytest

from language.masking import IGNORED, Masker, MaskingOptions, WholeWords, word_starts, words_of
from tests.language.doubles import MASK, special_ids

SIZE = 30_000


def masker(**options: float) -> Masker:
    return Masker(MaskingOptions(**options), MASK, special_ids(SIZE))


def batch(rng: np.random.Generator, rows: int = 6, width: int = 128) -> np.ndarray:
    """Text between [CLS] and [SEP], the end of it padding."""
    tokens = rng.integers(5, SIZE, size=(rows, width))
    tokens[:, 0], tokens[:, width // 2], tokens[:, -8:] = 2, 3, 0
    return tokens


def each(tokens: np.ndarray) -> np.ndarray:
    """Every token a word."""
    return np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)


def whole_or_not_at_all(hidden: np.ndarray, words: np.ndarray) -> bool:
    """Whether all tokens of every word are hidden, or none of them."""
    sizes, gone = np.bincount(words), np.bincount(words, weights=hidden)
    return bool(((gone == 0) | (gone == sizes)).all())


def test_half_a_word_is_seen() -> None:
    words = np.array([0, 0, 1, 1, 1, 3])
    assert whole_or_not_at_all(np.array([True, True, False, False, False, True]), words)
    assert not whole_or_not_at_all(np.array([True, True, False, True, True, True]), words)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_the_shares_of_seven_million_tokens(whole: bool) -> None:
    rng, hides = np.random.default_rng(0), masker()
    tokens = batch(rng, 120)
    text = tokens >= 5
    words = words_of((rng.random(tokens.shape) < 0.6) | ~text) if whole else each(tokens)
    numbered = words + np.arange(len(tokens))[:, None] * tokens.shape[1]  # otherwise in every row
    seen = np.zeros(5, dtype=np.int64)  # text, hidden, as the mask, as another, as it is
    for _ in range(500):
        shown, labels = hides.masked(tokens, words, rng)
        hidden = labels != IGNORED
        assert not hidden[~text].any(), "a special token"
        assert whole_or_not_at_all(hidden[text], numbered[text])
        as_mask, as_itself = hidden & (shown == MASK), hidden & (shown == tokens)
        seen += [text.sum(), hidden.sum(), as_mask.sum(), (hidden & ~as_mask & ~as_itself).sum(), as_itself.sum()]
    assert seen[1] / seen[0] == pytest.approx(0.15, abs=0.001)
    assert seen[2:] / seen[1] == pytest.approx([0.8, 0.1, 0.1], abs=0.001)
    assert seen[2:].sum() == seen[1]


def test_other_shares_can_be_asked_for() -> None:
    rng, hides = np.random.default_rng(0), masker(share=0.4, masked=0.5, random=0.5)
    tokens = batch(rng, 2000)
    shown, labels = hides.masked(tokens, each(tokens), rng)
    hidden = labels != IGNORED
    assert hidden.sum() / (tokens >= 5).sum() == pytest.approx(0.4, abs=0.005)
    assert (shown[hidden] == MASK).mean() == pytest.approx(0.5, abs=0.01)
    assert (shown[hidden] == tokens[hidden]).mean() < 0.001, "nothing is left as it is"


def test_no_special_token_is_hidden_or_shown_in_place_of_another() -> None:
    rng, tokens = np.random.default_rng(1), batch(np.random.default_rng(0), 500)
    shown, labels = masker(share=1.0, masked=0.0, random=1.0).masked(tokens, each(tokens), rng)
    special = tokens < 5
    assert (labels[special] == IGNORED).all()
    assert np.array_equal(shown[special], tokens[special])
    assert np.array_equal(labels[~special], tokens[~special])
    assert shown[~special].min() >= 5
    assert len(np.unique(shown)) > SIZE / 2, "any piece of text may stand there"


def test_what_is_not_hidden_is_shown_as_it_is() -> None:
    rng, tokens = np.random.default_rng(1), batch(np.random.default_rng(0))
    shown, labels = masker().masked(tokens, each(tokens), rng)
    assert np.array_equal(shown[labels == IGNORED], tokens[labels == IGNORED])
    assert np.array_equal(np.where(labels == IGNORED, tokens, labels), tokens)


def test_words_are_hidden_whole() -> None:
    rng, tokens = np.random.default_rng(0), batch(np.random.default_rng(0), 200)
    words = words_of((rng.random(tokens.shape) < 0.4) | (tokens < 5))
    _, labels = masker().masked(tokens, words, rng)
    hidden, text = labels != IGNORED, tokens >= 5
    for row in range(len(tokens)):
        for word in np.unique(words[row]):
            own = hidden[row, (words[row] == word) & text[row]]
            assert own.all() or not own.any()
    assert 0.1 < hidden[text].mean() < 0.2


SENTENCE = "학교에서 공부했다."  # its morphemes are 학교 에서 공부 하었 다 .
LETTERS = [(place, place + 1) for place, letter in enumerate(SENTENCE) if letter != " "]
PIECES = [(0, 2), (2, 4), (4, 6), (6, 7), (7, 9), (9, 10)]  # 학교 에서 ␣공 부 했다 .


@pytest.mark.parametrize(
    ("text", "letters", "whole_words", "starts"),
    [
        (SENTENCE, PIECES, WholeWords.SPACES, [1, 0, 1, 0, 0, 0]),
        (SENTENCE, PIECES, WholeWords.OFF, [1, 0, 1, 0, 0, 0]),
        # inside words, those that share a letter are one
        pytest.param(SENTENCE, LETTERS, WholeWords.MORPHEMES, [1, 0, 1, 0, 1, 0, 1, 1, 1], marks=pytest.mark.slow),
        # 학교에 서 공부했 다.: a token of several morphemes makes one word of them
        pytest.param(
            *(SENTENCE, [(0, 3), (3, 4), (5, 8), (8, 10)], WholeWords.MORPHEMES, [1, 0, 1, 1]), marks=pytest.mark.slow
        ),
        # a ␣␣ three bytes ␣b: bytes of a letter and pieces of space belong to a word
        ("a  집 b", [(0, 1), (1, 3), (3, 4), (3, 4), (3, 4), (4, 6)], WholeWords.SPACES, [1, 1, 0, 0, 0, 1]),
        ("", np.zeros((0, 2), dtype=np.int64), WholeWords.SPACES, []),
    ],
)
def test_where_words_begin(text: str, letters: Any, whole_words: WholeWords, starts: list[int]) -> None:
    (found,) = word_starts([text], [np.array(letters)], whole_words)
    assert found.dtype == bool
    assert found.tolist() == starts


def test_words_are_numbered_by_where_they_start() -> None:
    assert words_of(np.array([[True, False, True, False, False, False]])).tolist() == [[0, 0, 1, 1, 1, 1]]
