"""Tokens found at their places, and texts cut by weight."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.passages import Passages
from data.records import Passage
from text.analysis import TokenKind, analyze, indexed_text, located, reading, spans_by_token, weighted_pieces
from text.analyzers import Analyzer

NAMED = [analyzer for analyzer in Analyzer if analyzer is not Analyzer.AUTO]
WRITTEN = [analyzer for analyzer in NAMED if not analyzer.startswith("kiwi")]
LETTERS = st.text("abΣİẞ 1.,\u0307한각글가ㄱ\n\u00a0\x1c𠮷中", max_size=25)
KOREAN = st.lists(
    st.sampled_from(
        [
            "세종대왕은",
            "한글을",
            "만들었다.",
            "뉴욕 타임스",
            "ABC",
            "한",
            "갔다",
            "𠮷野",
            "😀",
            "1443년",
            "\n",
            "왕",
            "왕은",
        ]
    ),
    max_size=8,
).map(" ".join)


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("analyzer", NAMED)
@settings(deadline=None, max_examples=60)
@given(text=LETTERS | KOREAN)
def test_the_tokens_are_those_of_the_analyzer_and_in_order(analyzer: Analyzer, text: str) -> None:
    text = composed(text)
    tokens = located(analyzer, [text])[0]
    assert [token for token, _ in tokens] == analyze(analyzer, [text])[0]
    assert all(0 <= start < end <= len(text) for _, (start, end) in tokens)


@pytest.mark.parametrize("analyzer", WRITTEN)
@settings(deadline=None, max_examples=60)
@given(text=LETTERS)
def test_a_place_holds_the_letters_of_its_token(analyzer: Analyzer, text: str) -> None:
    text = composed(text)
    places = located(analyzer, [text])[0]
    for token, (start, end) in places:
        there = text[start:end] if analyzer is Analyzer.WHITESPACE else text[start:end].lower()
        assert token.replace("ς", "σ") in there.replace("ς", "σ")  # a sigma at a word's end looks different
    starts = [start for _, (start, _) in places]
    assert starts == sorted(starts)


def test_places_of_each_analyzer() -> None:
    text = "한글 글"
    assert located(Analyzer.WHITESPACE, [text])[0] == [("한글", (0, 2)), ("글", (3, 4))]
    assert located(Analyzer.WORD, ["Abc, bc"])[0] == [("abc", (0, 3)), ("bc", (5, 7))]
    assert located(Analyzer.BIGRAM, ["Abc c, bc"])[0] == [("ab", (0, 2)), ("bc", (1, 3)), ("c", (4, 5)), ("bc", (7, 9))]
    assert located(Analyzer.KIWI, ["왕은 갔다"])[0] == [("왕", (0, 1)), ("가", (3, 4))]
    assert located(Analyzer.KIWI_BIGRAM, ["왕은"])[0] == [("왕/", (0, 1)), ("왕은", (0, 2))]


def test_a_name_of_several_words_is_found_word_by_word() -> None:
    tokens = located(Analyzer.KIWI, ["그는 뉴욕 타임스를 샀다", ""])
    assert ("뉴욕", (3, 5)) in tokens[0]
    assert ("타임스", (6, 9)) in tokens[0]
    assert tokens[1] == []


def test_spans_of_a_token_that_is_repeated() -> None:
    assert spans_by_token(Analyzer.WORD, ["b a b", ""]) == [{"b": ((0, 1), (4, 5)), "a": ((2, 3),)}, {}]


@pytest.mark.parametrize(
    ("analyzer", "token", "read"),
    [
        (Analyzer.KIWI_BIGRAM, "왕국/", ("왕국", TokenKind.MORPHEME)),
        (Analyzer.KIWI_BIGRAM, "왕국", ("왕국", TokenKind.LETTERS)),
        (Analyzer.KIWI, "왕국", ("왕국", TokenKind.MORPHEME)),
        (Analyzer.BIGRAM, "왕국", ("왕국", TokenKind.LETTERS)),
        (Analyzer.WORD, "왕국", ("왕국", TokenKind.WORD)),
        (Analyzer.WHITESPACE, "왕국/", ("왕국/", TokenKind.WORD)),
    ],
)
def test_a_token_is_read_as_what_it_is(analyzer: Analyzer, token: str, read: tuple[str, TokenKind]) -> None:
    assert reading(analyzer, token) == read


def test_pieces_weigh_what_lies_over_them() -> None:
    weights = [((0, 2), 1.0), ((1, 3), 0.5), ((4, 5), -2.0)]
    assert weighted_pieces("abcdef", weights, 0, 6) == [
        ("a", 1.0),
        ("b", 1.5),
        ("c", 0.5),
        ("d", 0.0),
        ("e", -2.0),
        ("f", 0.0),
    ]
    assert weighted_pieces("abcdef", weights, 2, 4) == [("c", 0.5), ("d", 0.0)]
    assert weighted_pieces("abcdef", [], 0, 6) == [("abcdef", 0.0)]
    assert weighted_pieces("", [], 0, 0) == []


@given(LETTERS, LETTERS, st.booleans())
def test_title_and_own_text_are_cut_apart(title: str, text: str, with_title: bool) -> None:
    passage = Passage("p", text, title)
    indexed = indexed_text(passage, title=with_title)
    assert indexed.text == composed(Passages.of([passage]).indexed_texts(title=with_title)[0])
    assert indexed.text[indexed.start :] == composed(text)
    shown_title = "".join(piece for piece, _ in indexed.title_pieces([]))
    assert shown_title == (composed(title) if with_title else "")
    assert "".join(piece for piece, _ in indexed.text_pieces([((0, 1), 1.0)])) == composed(text)
