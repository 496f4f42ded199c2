import numpy as np
import pytest

from data.records import Passage
from retrieval.explain.bm25 import BM25Explainer
from retrieval.explain.encoders import StaticExplanation, TokenContribution
from retrieval.explain.standing import TERMS, TOKENS, Duel, duel, telling_token, term_table, token_table, word_reason
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.rankings import Findings
from text.analysis import IndexedText, TokenKind
from text.analyzers import Analyzer

PASSAGES = (
    Passage("p0", "red apple tree grows slowly"),
    Passage("p1", "apple apple apple pie"),
    Passage("p2", "green river"),
)
QUESTION = "red apple zebra pie"
FOUND = Findings((4, 2, 7, 1), (9.0, 8.0, 7.0, 6.0))


def test_the_two_passages_set_against_each_other() -> None:
    assert duel(FOUND, (2, 1)) == Duel(2, 2, 4, 1)
    assert duel(FOUND, (2, 1)).lost
    assert duel(FOUND, (4, 1)) == Duel(4, 1, 2, 2)
    assert not duel(FOUND, (4,)).lost
    assert duel(FOUND, (9, 8)) == Duel(9, None, 4, 1)
    assert duel(FOUND, (9,)).lost
    assert duel(FOUND, (2,), against=7) == Duel(2, 2, 7, 3)
    assert not duel(FOUND, (2,), against=7).lost
    assert duel(FOUND, (2,), against=5) == Duel(2, 2, 5, None)
    assert duel(Findings((), ()), (3,)) == Duel(3, None, None, None)
    assert not duel(Findings((3,), (1.0,)), (3,)).lost


@pytest.mark.parametrize("analyzer", [Analyzer.WHITESPACE, Analyzer.KIWI_BIGRAM])
def test_the_terms_of_both_sum_to_both_scores(analyzer: Analyzer) -> None:
    options = BM25Options(analyzer)
    explainer = BM25Explainer(PASSAGES, options)
    right, wrong = explainer.explain(QUESTION, 0), explainer.explain(QUESTION, 1)
    table = term_table(right, wrong)
    assert tuple(table.columns) == TERMS
    found = BM25("BM25", PASSAGES, options).search([QUESTION], 3)
    scores = dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True))
    assert table["right"].sum() == pytest.approx(scores[0], rel=1e-5)
    assert table["wrong"].sum() == pytest.approx(scores[1], rel=1e-5)
    np.testing.assert_allclose(table["difference"], table["right"] - table["wrong"])
    assert (np.diff(table["difference"].abs()) <= 0).all()


def test_what_a_sentence_says_of_bm25_by_hand() -> None:
    explainer = BM25Explainer(PASSAGES, BM25Options(Analyzer.WHITESPACE))
    table = term_table(explainer.explain(QUESTION, 0), explainer.explain(QUESTION, 1))
    row = table.set_index("term").loc["apple"]
    assert (row["in_question"], row["passages"], row["in_right"], row["in_wrong"]) == (1, 2, 1, 3)
    lost = word_reason(table, lost=True)
    # red and apple against apple and pie; "pie" is in one passage, so it tells more than "apple", which is in two
    assert (lost.asked, lost.in_right, lost.in_wrong) == (4, 2, 2)
    assert lost.nowhere == ("zebra",)
    assert (lost.telling, lost.telling_in_right, lost.telling_in_wrong) == ("pie", 0, 1)
    won = word_reason(table, lost=False)
    assert (won.telling, won.telling_in_right, won.telling_in_wrong) == ("red", 1, 0)


def test_pairs_of_letters_are_no_words_unless_there_are_no_others() -> None:
    explainer = BM25Explainer(PASSAGES, BM25Options(Analyzer.BIGRAM))
    pairs = term_table(explainer.explain("pie", 0), explainer.explain("pie", 1))
    assert set(pairs["kind"]) == {TokenKind.LETTERS.value}
    assert word_reason(pairs, lost=True).asked == 2  # pi, ie
    explainer = BM25Explainer(
        (Passage("a", "왕이 왔다"), Passage("b", "왕왕왕 짖었다")), BM25Options(Analyzer.KIWI_BIGRAM)
    )
    table = term_table(explainer.explain("왕은 누구", 0), explainer.explain("왕은 누구", 1))
    words = table[table["kind"] == TokenKind.MORPHEME.value]
    assert len(words) < len(table)
    assert word_reason(table, lost=False).asked == len(words)


def test_nothing_tells_where_nothing_differs() -> None:
    explainer = BM25Explainer(PASSAGES, BM25Options(Analyzer.WHITESPACE))
    same = explainer.explain(QUESTION, 0)
    assert word_reason(term_table(same, same), lost=False).telling == ""
    empty = explainer.explain("", 0)
    reason = word_reason(term_table(empty, empty), lost=True)
    assert (reason.asked, reason.telling, reason.nowhere) == (0, "", ())


def explained(**values: float) -> StaticExplanation:
    kinds = {"ab": TokenKind.LETTERS}
    tokens = tuple(
        TokenContribution(text, kinds.get(text, TokenKind.WORD), text != "new", value, ())
        for text, value in values.items()
    )
    return StaticExplanation("q", IndexedText("p", 0), tokens, ())


def test_tokens_by_hand() -> None:
    table = token_table(explained(king=0.3, ab=0.1, new=0.0, who=0.1), explained(who=0.2, ab=0.5, new=0.0, king=0.1))
    assert tuple(table.columns) == TOKENS
    assert table["term"].tolist() == ["ab", "king", "who", "new"]
    assert table["known"].tolist() == [True, True, True, False]
    np.testing.assert_allclose(table["difference"], [-0.4, 0.2, -0.1, 0.0], atol=1e-12)
    assert telling_token(table, lost=True) == "who"  # a word before a pair of letters
    assert telling_token(table, lost=False) == "king"
    only_letters = token_table(explained(ab=0.1), explained(ab=0.5))
    assert telling_token(only_letters, lost=True) == "ab"
    assert telling_token(only_letters, lost=False) == ""
