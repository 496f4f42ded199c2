import pytest

from data.records import Passage
from retrieval.explain.bm25 import WindowedBM25Explainer
from retrieval.lexical.bm25 import BM25Options, WindowedBM25
from text.analyzers import Analyzer

PASSAGES = (
    Passage("a", "Apples grow. Pears grow slowly. Red apples are sweet.", "Fruit"),
    Passage("b", "The river is red. It runs through the apple country.", "River"),
    Passage("c", "Nothing here."),
)


@pytest.mark.parametrize("sentences", [1, 2, 5])
@pytest.mark.parametrize("title", [True, False])
def test_the_terms_of_the_best_window_sum_to_the_score(sentences: int, title: bool) -> None:
    options = BM25Options(Analyzer.WHITESPACE, title=title)
    question = "red apples in the river"
    found = WindowedBM25("windows", PASSAGES, options, sentences=sentences).search([question], 3)
    explainer = WindowedBM25Explainer(PASSAGES, options, sentences=sentences)
    known = [row for row in found.indices[0].tolist() if row >= 0]
    assert known
    for row, score in zip(known, found.scores[0].tolist(), strict=False):
        assert explainer.explain(question, row).score == pytest.approx(score, rel=1e-5)


def test_what_is_explained_is_the_window_that_counts() -> None:
    explainer = WindowedBM25Explainer(PASSAGES, BM25Options(Analyzer.WHITESPACE), sentences=1)
    explained = explainer.explain("sweet apples", 0)
    assert "".join(text for text, _ in explained.text_pieces()) == "Red apples are sweet."
    assert "".join(text for text, _ in explained.title_pieces()) == "Fruit"
    assert explainer.explain("sweet apples", 2).score == 0
