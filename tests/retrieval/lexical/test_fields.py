"""What BM25F counts in two fields, and its formula, written once more in plain Python."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.passages import Passages
from data.records import Passage
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.lexical.weights import field_statistics, one_after_the_other
from text.analysis import Analysis, analyze
from text.analyzers import Analyzer
from text.tokens import tokens_of

LETTERS = st.text("abd ", max_size=12)


def bm25f(
    titles: Sequence[Sequence[str]],
    texts: Sequence[Sequence[str]],
    question: Sequence[str],
    title_weight: float,
    *,
    k1: float,
    b: float,
) -> list[float]:
    """Score every passage: `idf * c / (c + k1)` a term, with `c = sum of weight * f / (1 - b + b * length / mean)`."""
    fields = [(title_weight, titles), (1.0, texts)]
    means = [sum(map(len, field)) / len(texts) for _, field in fields]
    holders = Counter(term for title, text in zip(titles, texts, strict=True) for term in {*title, *text})
    scores = []
    for row in range(len(texts)):
        score = 0.0
        for term in question:
            counted = 0.0
            for (weight, field), mean in zip(fields, means, strict=True):
                if f := field[row].count(term):
                    counted += weight * f / (1 - b + b * len(field[row]) / mean)
            n = holders[term]
            idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            score += idf * counted / (counted + k1) if counted else 0.0
        scores.append(score)
    return scores


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(LETTERS, LETTERS), max_size=8))
def test_counts_are_those_of_either_field(titled: list[tuple[str, str]]) -> None:
    passages = Passages.of([Passage(f"p{row}", text, title) for row, (text, title) in enumerate(titled)])
    analysis = Analysis(Analyzer.BIGRAM)
    titles, texts = analyze(analysis, passages.titles), analyze(analysis, passages.texts)
    found = field_statistics(analysis, passages)
    holders = Counter(term for title, text in zip(titles, texts, strict=True) for term in {*title, *text})
    places = found.terms.places_of(list(holders))
    assert found.terms.holders[places].tolist() == list(holders.values())
    assert len(found.terms.hashes) == len(holders)
    assert found.mean_title == pytest.approx(sum(map(len, titles)) / max(1, len(titled)))
    assert found.mean_text == pytest.approx(sum(map(len, texts)) / max(1, len(titled)))
    again = field_statistics(analysis, passages)
    np.testing.assert_array_equal(again.terms.holders, found.terms.holders)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(LETTERS, LETTERS), min_size=1, max_size=6),
    st.text("abe ", max_size=8),
    st.floats(0.1, 9),
    st.floats(0, 3),
    st.floats(0, 1),
)
def test_a_search_is_by_the_written_formula(
    titled: list[tuple[str, str]], question: str, weight: float, k1: float, b: float
) -> None:
    held = [Passage(f"p{row}", text, title) for row, (text, title) in enumerate(titled)]
    rankings = BM25("", held, BM25Options(Analyzer.BIGRAM, k1, b, title_weight=weight)).search([question], len(held))
    titles, texts = (
        analyze(Analyzer.BIGRAM, list(column)) for column in zip(*[(t, x) for x, t in titled], strict=True)
    )
    every = bm25f(titles, texts, analyze(Analyzer.BIGRAM, [question])[0], weight, k1=k1, b=b)
    found = zip(rankings.indices[0].tolist(), rankings.scores[0].tolist(), strict=True)
    expected = {row: score for row, score in enumerate(every) if score > 0}
    assert {row: score for row, score in found if row >= 0} == pytest.approx(expected, rel=1e-5)


def test_a_title_stands_before_its_text() -> None:
    titles, texts = (tokens_of(Analyzer.WORD, of) for of in (["a b", "", "c"], ["b d d", "a", ""]))
    both = one_after_the_other(titles, texts)
    assert both.texts() == [["a", "b", "b", "d", "d"], ["a"], ["c"]]
    assert sorted(both.vocabulary) == ["a", "b", "c", "d"]
