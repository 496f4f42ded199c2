"""Feedback, fields and weights that a model learned."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.text.analysis import Analysis, analyze, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.dense import SparseRetriever
from mrc_workbench.retrieval.lexical import BM25Engine, concatenate_fields, field_statistics, term_statistics
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, Feedback, FeedbackOptions, WeightedQueries
from mrc_workbench.retrieval.rankings import Rankings, concatenate, top_k
from tests.doubles import texts_of
from tests.retrieval.compared import assert_equal_rankings, hits_of, passages

Values = tuple[int, int, float]
TEXTS = st.lists(st.text("abcdef ", max_size=16), min_size=1, max_size=8, unique=True)
RANDOM_QUESTIONS = st.lists(st.text("abg ", max_size=8), min_size=1, max_size=4)
FEEDBACK = st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([0, 0.25, 0.3, 1]))
RANDOM_TEXTS = st.text("abd ", max_size=12)
WEIGHTS = st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0])  # few, so that many scores tie


def rm3(
    question: Sequence[str],
    first: dict[int, float],
    documents: Sequence[Sequence[str]],
    options: FeedbackOptions,
    morphemes: bool = False,
) -> dict[str, float]:
    """Weigh a question's terms, exactly: `first` are scores by row, `documents` the tokens of all passages."""
    holders = Counter(term for document in documents for term in set(document))
    model: Counter[str] = Counter()
    for row, score in first.items():
        rare = [term for term in documents[row] if holders[term] <= max(1, len(documents) / 10)]
        allowed = [term for term in rare if term.endswith("/") or not morphemes]
        for term, count in Counter(allowed).items():
            model[term] += Fraction(score) * Fraction(count, len(allowed))  # type: ignore[assignment]
    best = dict(sorted(model.items(), key=lambda term_weight: (-term_weight[1], term_weight[0]))[: options.terms])
    total = sum(best.values())
    if not total:
        return {term: float(count) for term, count in Counter(question).items()}
    share = Fraction(options.share)
    query_weights = {term: (1 - share) * count for term, count in Counter(question).items()}
    for term, weight in best.items():
        query_weights[term] = query_weights.get(term, Fraction(0)) + share * len(question) * weight / total
    return {term: float(weight) for term, weight in query_weights.items() if weight}


def weights_of(weighted_queries: WeightedQueries) -> list[dict[str, float]]:
    parts = np.split(weighted_queries.factors, weighted_queries.tokens.offsets[1:-1])
    queries = zip(weighted_queries.tokens.texts(), parts, strict=True)
    return [dict(zip(terms, part.tolist(), strict=True)) for terms, part in queries]


def expand_queries(
    of: list[Passage] | Sequence[Passage], questions: list[str], options: FeedbackOptions, analyzer: Analyzer
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Return the weights that the questions get, and those of the formula."""
    texts = [passage.text for passage in of]
    documents = analyze(analyzer, texts)
    analyzed = analyze(analyzer, questions)
    first = BM25("first", of, BM25Options(analyzer, title=False)).search(questions, options.passages)
    feedback = Feedback(options, Analysis(analyzer), texts, term_statistics(analyzer, texts))
    again = feedback.expand_queries(analyzed, first)
    is_morphological = analyzer is Analyzer.KIWI_BIGRAM
    searched = zip(analyzed, hits_of(first), strict=True)
    expected = [rm3(question, rows, documents, options, is_morphological) for question, rows in searched]
    return weights_of(again), expected


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(TEXTS, RANDOM_QUESTIONS, FEEDBACK)
def test_rm3_weights_match_formula_on_random_tokens(texts: list[str], questions: list[str], feedback: Values) -> None:
    got, expected = expand_queries(passages(*texts), questions, FeedbackOptions(*feedback), Analyzer.BIGRAM)
    for weights, other in zip(got, expected, strict=True):
        assert weights == pytest.approx(other, rel=1e-5, abs=1e-30)


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
@pytest.mark.parametrize("analyzer", [Analyzer.WORD, Analyzer.KIWI_BIGRAM])
def test_rm3_weights_match_formula_on_sample(sample: QuestionSet, analyzer: Analyzer) -> None:
    questions = texts_of(sample.questions[::16])
    got, expected = expand_queries(sample.passages, questions, FeedbackOptions(), analyzer)
    question_terms = map(set, analyze(analyzer, questions))
    assert sum(len(set(weights) - own) for weights, own in zip(got, question_terms, strict=True)) > 100
    for weights, other in zip(got, expected, strict=True):
        assert weights == pytest.approx(other, rel=1e-5)


def test_a_small_case_by_hand() -> None:
    """Both passages match "a", with scores 2 and 1; x occurs in both, y and z in one each."""
    documents = ["a x y y", "a x z", *[f"w{number}" for number in range(28)]]
    options = FeedbackOptions(passages=2, terms=2, share=0.25)
    feedback = Feedback(options, Analysis(Analyzer.WORD), documents, term_statistics(Analyzer.WORD, documents))
    first = Rankings(np.array([[0, 1]], dtype=np.int32), np.array([[2, 1]], dtype=np.float32))
    (got,) = weights_of(feedback.expand_queries([["a", "q"]], first))
    # P(a) = P(x) = 2/3 * 1/4 + 1/3 * 1/3 = 10/36, P(y) = 2/3 * 2/4 = 12/36, P(z) = 4/36: y and a are the best two
    expected = {"a": 0.75 + 0.25 * 2 * 10 / 22, "q": 0.75, "y": 0.25 * 2 * 12 / 22}
    assert got == pytest.approx(expected)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(TEXTS, RANDOM_QUESTIONS, FEEDBACK)
def test_search_and_scores_use_expanded_weights(texts: list[str], questions: list[str], feedback: Values) -> None:
    plain = BM25("plain", passages(*texts), BM25Options(Analyzer.BIGRAM))
    names = dict(zip(("fb_docs", "fb_terms", "fb_weight"), feedback, strict=True))
    again = BM25("again", passages(*texts), BM25Options(Analyzer.BIGRAM, **names))  # type: ignore[arg-type]
    _, weights = expand_queries(passages(*texts), questions, FeedbackOptions(*feedback), Analyzer.BIGRAM)
    got = hits_of(again.search(questions, len(texts)))
    blocks = list(again.score_blocks(questions))
    for row, terms in enumerate(weights):
        # the score of a single term is its BM25 weight
        alone = hits_of(plain.search(list(terms), len(texts))) if terms else []
        expected: Counter[int] = Counter()
        for weight, scores in zip(terms.values(), alone, strict=True):
            for passage, score in scores.items():
                expected[passage] += weight * score  # type: ignore[assignment]
        ranked = {passage: score for passage, score in expected.items() if score > 1e-25}
        assert got[row] == pytest.approx(ranked, rel=1e-4)
        every = np.vstack(blocks)[row] if blocks else np.zeros(0)
        assert {index: every[index] for index in np.flatnonzero(np.isfinite(every)).tolist()} == got[row]


def test_keeps_query_without_expansion_terms() -> None:
    texts = passages("a b", "a b c", "a c")
    plain, again = (BM25("", texts, BM25Options(Analyzer.WORD, fb_docs=number, fb_weight=0.9)) for number in (0, 2))
    questions = ["zebra", "", "a"]  # a and b, c stand in more than one passage, and in more than a tenth
    assert hits_of(again.search(questions, 3)) == hits_of(plain.search(questions, 3))
    assert hits_of(again.search(questions, 3))[:2] == [{}, {}]
    assert again.search([], 3).indices.shape == (0, 3)


def test_expands_queries_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.retrieval.lexical.bm25.QUERIES_AT_ONCE", 6)
    of = passages(*[f"w{number} w{number + 1} same" for number in range(40)])
    again = BM25("", of, BM25Options(Analyzer.WORD, fb_docs=3))
    queries = ["w3", "w9 w30", "", "same"] * 5
    rankings = again.search(queries, 5)
    assert_equal_rankings(rankings, concatenate([again.search([question], 5) for question in queries]))
    assert np.vstack(list(again.score_blocks(queries))).shape == (len(queries), len(of))


@pytest.mark.parametrize("texts", [["..."], []])
def test_passages_without_a_word(texts: list[str]) -> None:
    again = BM25("", passages(*texts), BM25Options(Analyzer.WORD, fb_docs=3))
    assert again.search(["a", ""], 2).indices.tolist() == [[-1] * min(2, len(texts))] * 2


@pytest.mark.parametrize(
    "values",
    [
        {"fb_docs": -1},
        {"fb_docs": 1, "fb_terms": 0},
        {"fb_docs": 1, "fb_weight": 1.1},
        {"fb_docs": 1, "engine": BM25Engine.RANK_BM25},
        {"title_weight": 0.0},
        {"title_weight": 1.0, "title": False},
        {"title_weight": 1.0, "engine": BM25Engine.RANK_BM25},
    ],
)
def test_rejects_incompatible_options(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"feedback|title_weight"):
        BM25Options(**values)  # type: ignore[arg-type]


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


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(RANDOM_TEXTS, RANDOM_TEXTS), max_size=8))
def test_field_statistics_count_both_fields(titled: list[tuple[str, str]]) -> None:
    passages = Passages.from_passages([Passage(f"p{row}", text, title) for row, (text, title) in enumerate(titled)])
    analysis = Analysis(Analyzer.BIGRAM)
    titles = analyze(analysis, passages.titles)
    texts = analyze(analysis, passages.texts)
    statistics = field_statistics(analysis, passages)
    holders = Counter(term for title, text in zip(titles, texts, strict=True) for term in {*title, *text})
    positions = statistics.terms.positions_of(list(holders))
    assert statistics.terms.document_frequencies[positions].tolist() == list(holders.values())
    assert len(statistics.terms.hashes) == len(holders)
    assert statistics.mean_title == pytest.approx(sum(map(len, titles)) / max(1, len(titled)))
    assert statistics.mean_text == pytest.approx(sum(map(len, texts)) / max(1, len(titled)))
    again = field_statistics(analysis, passages)
    np.testing.assert_array_equal(again.terms.document_frequencies, statistics.terms.document_frequencies)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(RANDOM_TEXTS, RANDOM_TEXTS), min_size=1, max_size=6),
    st.text("abe ", max_size=8),
    st.floats(0.1, 9),
    st.floats(0, 3),
    st.floats(0, 1),
)
def test_bm25f_equals_formula(titled: list[tuple[str, str]], question: str, weight: float, k1: float, b: float) -> None:
    held = [Passage(f"p{row}", text, title) for row, (text, title) in enumerate(titled)]
    rankings = BM25("", held, BM25Options(Analyzer.BIGRAM, k1, b, title_weight=weight)).search([question], len(held))
    texts, titles = (analyze(Analyzer.BIGRAM, list(column)) for column in zip(*titled, strict=True))
    every = bm25f(titles, texts, analyze(Analyzer.BIGRAM, [question])[0], weight, k1=k1, b=b)
    expected = {row: score for row, score in enumerate(every) if score > 0}
    assert hits_of(rankings) == [pytest.approx(expected, rel=1e-5)]


def test_title_precedes_text_in_tokens() -> None:
    titles, texts = (tokens_of(Analyzer.WORD, of) for of in (["a b", "", "c"], ["b d d", "a", ""]))
    both = concatenate_fields(titles, texts)
    assert both.texts() == [["a", "b", "b", "d", "d"], ["a"], ["c"]]
    assert sorted(both.vocabulary) == ["a", "b", "c", "d"]


class Given:
    fingerprint = "given"

    def __init__(self, questions: np.ndarray, passages: np.ndarray) -> None:
        self._questions = csr_array(questions)
        self._passages = csr_array(passages)

    def encode_questions(self, texts: Sequence[str]) -> csr_array:
        assert len(texts) == self._questions.shape[0]
        return self._questions

    def encode_passages(self, texts: Sequence[str]) -> csr_array:
        assert len(texts) == self._passages.shape[0]
        return self._passages


def searched(questions: np.ndarray, weights: np.ndarray) -> SparseRetriever:
    corpus = passages(*map(str, range(len(weights))))
    return SparseRetriever("sparse", corpus, Given(questions, weights))


def matrix(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    cells = st.lists(WEIGHTS, min_size=rows * columns, max_size=rows * columns)
    return cells.map(lambda values: np.array(values, dtype=np.float32).reshape(rows, columns))


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 20), st.integers(1, 12), st.integers(1, 15))
def test_sparse_search_equals_matrix_product(data: st.DataObject, n: int, m: int, k: int) -> None:
    questions = data.draw(matrix(m, 5))
    passages = data.draw(matrix(n, 5))
    rankings = searched(questions, passages).search([""] * m, k)
    products = questions @ passages.T  # exact: all weights are quarters
    expected = top_k(np.where(products > 0, products, -np.inf), k)
    assert_equal_rankings(rankings, expected)


def test_sparse_search_supports_float_weights() -> None:
    rng = np.random.default_rng(0)
    questions, passages = (
        np.where(rng.random((rows, 3000)) < 0.02, rng.gamma(2.0, size=(rows, 3000)), 0).astype(np.float32)
        for rows in (40, 900)
    )
    rankings = searched(questions, passages).search([""] * 40, 100)
    products = questions.astype(np.float64) @ passages.T.astype(np.float64)
    expected = top_k(np.where(products > 0, products, -np.inf), 100)
    assert_equal_rankings(rankings, expected, rtol=1e-6)


def test_breaks_ties_by_row_and_drops_scores_not_above_0() -> None:
    passages = np.array([[0, 1], [2, 0], [1, 1], [2, 0], [2, 4]], dtype=np.float32)
    rankings = searched(np.array([[1, -0.5]], dtype=np.float32), passages).search([""], 5)
    assert rankings.indices.tolist() == [[1, 3, 2, -1, -1]]
    assert rankings.scores.tolist() == [[2, 2, 0.5, -np.inf, -np.inf]]


def test_rejects_questions_with_larger_vocabulary() -> None:
    with pytest.raises(ValueError, match="question vocabulary is larger"):
        searched(np.ones((1, 3), dtype=np.float32), np.ones((2, 2), dtype=np.float32)).search([""], 1)
