"""Why BM25 ranks so, whole passages and windows."""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.text.analysis import analyze, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.marking import TokenKind, weighted_pieces
from mrc_workbench.retrieval import explain as explain_bm25
from mrc_workbench.retrieval import lexical as term_statistics
from mrc_workbench.retrieval.explain import BM25Explainer, BM25Explanation, WindowedBM25Explainer, counting_explainer
from mrc_workbench.retrieval.lexical import BM25Engine
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, WindowedBM25
from tests.doubles import PASSAGES, texts_of
from tests.retrieval.compared import ANALYZERS, hits_of, passages
from tests.retrieval.lexical.test_feedback import bm25f

PARAMETERS = [(0.9, 0.4), (1.5, 0.75), (0.0, 0.0), (2.0, 1.0)]
EVERY_24TH = slice(None, None, 24)
TEXTS = st.lists(st.text("ab c", max_size=12), min_size=1, max_size=7, unique=True)
QUESTIONS = st.lists(st.text("abd ", max_size=8), min_size=1, max_size=3)
FEEDBACK = st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([0, 0.25, 0.3, 1]))
TITLED = st.lists(st.tuples(st.text("abd ", max_size=12), st.text("abd ", max_size=6)), min_size=1, max_size=6)
Explained = tuple[BM25Explanation, float]
SPANS = ("question_spans", "passage_spans")
OF_SENTENCES = (
    Passage("a", "Apples grow. Pears grow slowly. Red apples are sweet.", "Fruit"),
    Passage("b", "The river is red. It runs through the apple country.", "River"),
    Passage("c", "Nothing here."),
)


def explained(held: Sequence[Passage], options: BM25Options, questions: list[str], k: int) -> list[Explained]:
    """Explanations of everything an index finds, and the score the index gave."""
    hits = zip(questions, hits_of(BM25("bm25", held, options).search(questions, k)), strict=True)
    explainer = BM25Explainer(held, options)
    return [(explainer.explain(question, row), score) for question, of in hits for row, score in of.items()]


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
@pytest.mark.parametrize("engine", list(BM25Engine))
@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_values_sum_to_index_score(sample: QuestionSet, analyzer: Analyzer, engine: BM25Engine) -> None:
    questions = texts_of(sample.questions[EVERY_24TH])
    for k1, b in PARAMETERS:
        explanations = explained(sample.passages, BM25Options(analyzer, k1, b, engine=engine), questions, 5)
        # without saturation the reference divides 0 by 0 wherever one term is missing, and finds next to nothing
        assert len(explanations) > 50 or (k1 == 0 and engine is BM25Engine.RANK_BM25)
        for explanation, score in explanations:
            assert explanation.score == pytest.approx(score, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(BM25Engine))
@settings(deadline=None, max_examples=60)
@given(texts=TEXTS, questions=QUESTIONS, k1=st.floats(0, 3), b=st.floats(0, 1))
def test_values_sum_to_score_on_random_tokens(
    engine: BM25Engine, texts: list[str], questions: list[str], k1: float, b: float
) -> None:
    options = BM25Options(Analyzer.WORD, k1, b, engine=engine)
    for explanation, score in explained(passages(*texts), options, questions, 7):
        assert explanation.score == pytest.approx(score, rel=1e-5, abs=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_each_term_matches_formula(sample: QuestionSet, analyzer: Analyzer) -> None:
    documents = [Counter(tokens) for tokens in analyze(analyzer, sample.passages.indexed_texts(title=True))]
    mean_length = sum(document.total() for document in documents) / len(documents)
    explainer = BM25Explainer(sample.passages, BM25Options(analyzer, 1.2, 0.75))
    for question in texts_of(sample.questions[EVERY_24TH]):
        query_counts = Counter(analyze(analyzer, [question])[0])
        explanation = explainer.explain(question, 7)
        document = documents[7]
        assert (explanation.length, explanation.mean_length) == (document.total(), pytest.approx(mean_length))
        expected = []
        for term, times in query_counts.items():
            n = sum(term in held for held in documents)
            f = document[term]
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) if n else 0
            value = times * idf * f / (f + 1.2 * (0.25 + 0.75 * document.total() / mean_length))
            expected.append((-value, times, f, n, idf))
        got = [(-term.value, term.in_question, term.in_passage, term.passages, term.idf) for term in explanation.terms]
        for actual, other in zip(sorted(got), sorted(expected), strict=True):
            assert actual == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("title", [True, False])
def test_explains_without_rereading_tokens(sample: QuestionSet, title: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options = BM25Options(Analyzer.WORD, title=title)
    BM25("BM25", sample.passages, options)
    monkeypatch.setattr(term_statistics, "token_parts", None)
    explained = BM25Explainer(sample.passages, options).explain(sample.questions[0].text, 0)
    assert any(term.passages for term in explained.terms)


def test_a_small_case_by_hand() -> None:
    explainer = BM25Explainer(passages("a b b", "a c"), BM25Options(Analyzer.WORD, 0.9, 0.4))
    b, a, zebra = explainer.explain("zebra B a b", 0).terms
    assert (b.text, b.kind, b.in_question, b.in_passage, b.passages) == ("b", TokenKind.WORD, 2, 2, 1)
    assert b.value == pytest.approx(2 * math.log(2) * 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2.5)))
    assert (b.question_spans, b.passage_spans) == (((6, 7), (10, 11)), ((2, 3), (4, 5)))
    assert a.value == pytest.approx(math.log(1 + 0.5 / 2.5) / (1 + 0.9 * (0.6 + 0.4 * 3 / 2.5)))
    assert (zebra.text, zebra.in_passage, zebra.passages, zebra.idf, zebra.value) == ("zebra", 0, 0, 0, 0)
    assert zebra.passage_spans == ()


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(titled=TITLED, questions=QUESTIONS, weight=st.none() | st.floats(0.1, 9), feedback=st.none() | FEEDBACK)
def test_values_sum_to_score_with_feedback_and_title_weight(
    titled: list[tuple[str, str]], questions: list[str], weight: float | None, feedback: tuple[int, int, float] | None
) -> None:
    held = [Passage(f"p{row}", text, title) for row, (text, title) in enumerate(titled)]
    names = dict(zip(("fb_docs", "fb_terms", "fb_weight"), feedback or (), strict=False))
    options = BM25Options(Analyzer.BIGRAM, title_weight=weight, **names)  # type: ignore[arg-type]
    for explanation, score in explained(held, options, questions, 7):
        assert explanation.score == pytest.approx(score, rel=1e-5)


def test_expansion_terms_name_source_passages() -> None:
    """a and x are the best terms of both results, with equal weights: each gets half of the two tokens' share."""
    held = passages("a x y y", "a x z", *[f"w{number}" for number in range(28)], "y")
    options = BM25Options(Analyzer.WORD, fb_docs=2, fb_terms=2, fb_weight=0.25)
    explanation = BM25Explainer(held, options).explain("a q", 0)
    a, x, q = explanation.terms
    assert [(term.text, term.added, term.in_question, term.sources) for term in (a, x, q)] == [
        ("a", False, 1, ()),
        ("x", True, 0, (1, 0)),  # the shorter passage ranks first
        ("q", False, 1, ()),
    ]
    assert (a.weight, x.weight, q.weight) == pytest.approx((0.75 + 0.25 * 2 / 2, 0.25 * 2 / 2, 0.75))
    idf = math.log(1 + (31 - 2 + 0.5) / (2 + 0.5))
    alone = idf / (1 + 0.9 * (0.6 + 0.4 * 4 / (36 / 31)))
    assert (a.value, x.value, q.value) == pytest.approx((alone, 0.25 * alone, 0))
    assert (x.question_spans, x.passage_spans, x.in_passage) == ((), ((2, 3),), 1)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(titled=TITLED, questions=QUESTIONS, weight=st.floats(0.1, 9), k1=st.floats(0, 3), b=st.floats(0, 1))
def test_title_weight_matches_formula(
    titled: list[tuple[str, str]], questions: list[str], weight: float, k1: float, b: float
) -> None:
    held = [Passage(f"p{row}", text, title) for row, (text, title) in enumerate(titled)]
    explainer = BM25Explainer(held, BM25Options(Analyzer.BIGRAM, k1, b, title_weight=weight))
    texts, titles = (analyze(Analyzer.BIGRAM, list(column)) for column in zip(*titled, strict=True))
    for question in questions:
        expected = bm25f(titles, texts, analyze(Analyzer.BIGRAM, [question])[0], weight, k1=k1, b=b)
        for row, score in enumerate(expected):
            explanation = explainer.explain(question, row)
            assert explanation.score == pytest.approx(score, rel=1e-9)
            lengths = explanation.title_length, explanation.length
            assert lengths == (len(titles[row]), len(texts[row]))
            for term in explanation.terms:
                counts = titles[row].count(term.text), texts[row].count(term.text)
                assert (term.in_title, term.in_text) == (counts if term.passages else (0, 0))
                written = {explanation.passage.text[slice(*span)].lower() for span in term.passage_spans}
                assert written <= {term.text}


def test_title_weight_by_hand() -> None:
    held = [Passage("p1", "a b b", "b"), Passage("p2", "a c"), Passage("p3", "c", "a c d")]
    explainer = BM25Explainer(held, BM25Options(Analyzer.WORD, 0.9, 0.4, title_weight=3.0))
    explanation = explainer.explain("b a", 0)
    b, a = explanation.terms
    # of 1, 0 and 3 tokens, and of 3, 2 and 1
    title = 0.6 + 0.4 * 1 / (4 / 3)
    text = 0.6 + 0.4 * 3 / 2
    counted = 3 * 1 / title + 2 / text
    assert b.value == pytest.approx(math.log(1 + 2.5 / 1.5) * counted / (counted + 0.9))
    assert a.value == pytest.approx(math.log(1 + 0.5 / 3.5) * (1 / text) / (1 / text + 0.9))
    assert (b.in_title, b.in_text, b.in_passage, b.passages, a.passages) == (1, 2, 3, 1, 3)
    assert b.passage_spans == ((0, 1), (4, 5), (6, 7))
    assert (explanation.title_length, explanation.mean_title_length) == (1, pytest.approx(4 / 3))
    assert (explanation.length, explanation.mean_length) == (3, 2)


def test_the_reference_engine_by_hand() -> None:
    options = BM25Options(Analyzer.WORD, 1.5, 0.75, engine=BM25Engine.RANK_BM25)
    explainer = BM25Explainer(passages("a b", "a c", "a d"), options)
    idf = {"a": math.log(0.5 / 3.5), "b": math.log(2.5 / 1.5)}
    floor = 0.25 * (idf["a"] + 3 * idf["b"]) / 4
    b, a = explainer.explain("a b", 0).terms
    assert (b.text, b.idf, b.value) == ("b", pytest.approx(idf["b"]), pytest.approx(idf["b"]))
    assert (a.text, a.idf, a.value) == ("a", pytest.approx(floor), pytest.approx(floor))


def test_marks_morphemes_and_character_pairs() -> None:
    titled = [Passage("p1", "왕국은 넓다", "왕국"), Passage("p2", "도서관은 멀다")]
    explanation = BM25Explainer(titled, BM25Options(Analyzer.KIWI_BIGRAM)).explain("왕국이 넓은가", 0)
    terms = {(term.text, term.kind): term for term in explanation.terms}
    morpheme = terms["왕국", TokenKind.MORPHEME]
    pair = terms["왕국", TokenKind.BIGRAM]
    assert morpheme.passage_spans == pair.passage_spans == ((0, 2), (3, 5))
    both = pytest.approx(morpheme.value + pair.value)
    assert explanation.title_pieces() == [("왕국", both)]
    assert explanation.text_pieces()[0] == ("왕국", both)
    first, *_ = weighted_pieces(explanation.question, explanation.weights[0], 0, len(explanation.question))
    assert first == ("왕국", both)
    wide = next(term for term in explanation.terms if term.text == "넓")
    assert [piece for piece, weight in explanation.text_pieces() if weight == pytest.approx(wide.value)] == ["넓"]
    assert "".join(piece for piece, _ in explanation.text_pieces()) == "왕국은 넓다"


def test_counts_equal_number_of_spans(sample: QuestionSet) -> None:
    explainer = BM25Explainer(sample.passages)
    for question in sample.questions[EVERY_24TH]:
        row = sample.row_of_passage[question.relevant[0]]
        for term in explainer.explain(question.text, row).terms:
            assert len(term.passage_spans) == term.in_passage
            assert len(term.question_spans) == term.in_question


@pytest.mark.parametrize("engine", list(BM25Engine))
def test_passages_and_questions_without_a_word(engine: BM25Engine) -> None:
    explainer = BM25Explainer(passages("...", ""), BM25Options(Analyzer.WORD, engine=engine))
    explanation = explainer.explain("a", 0)
    assert (explanation.score, explanation.length) == (0, 0)
    assert [(term.text, term.value) for term in explanation.terms] == [("a", 0)]
    assert explainer.explain("?", 1).terms == ()


def test_composes_decomposed_hangul() -> None:
    loose = unicodedata.normalize("NFD", "한강")
    explanation = BM25Explainer([Passage("p", loose)], BM25Options(Analyzer.WORD)).explain(loose, 0)
    assert explanation.question == explanation.passage.text == "한강"
    assert explanation.score > 0


def test_explains_fields_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_bm25, "term_statistics", lambda *_: pytest.fail("all texts would be analyzed again"))
    options = BM25Options(Analyzer.WORD, title_weight=2.0)
    explained = BM25Explainer(PASSAGES, options).explain(PASSAGES[0].text, 0)
    scores = np.concatenate(list(BM25("bm25", PASSAGES, options).score_blocks([PASSAGES[0].text])))
    assert explained.score == pytest.approx(scores[0, 0], rel=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
@pytest.mark.parametrize("analyzer", [Analyzer.KIWI_BIGRAM, Analyzer.KIWI, Analyzer.WORD, Analyzer.BIGRAM])
def test_stored_counts_equal_analyzer_counts(analyzer: Analyzer, sample: QuestionSet) -> None:
    options = BM25Options(analyzer, 1.2, 0.75)
    questions = [question.text for question in sample.questions]
    tokens_of(analyzer, questions[:40])
    tokens_of(analyzer, sample.passages.indexed_texts(title=True))
    counting = counting_explainer(sample.passages, options, questions[:40])
    locating = BM25Explainer(sample.passages, options)
    assert counting is not None
    for question in questions[:40:7]:
        for row in (0, 57, 199):
            counted = counting.explain(question, row)
            located = locating.explain(question, row)
            assert counted.score == located.score > -1
            assert counted.length == located.length
            assert counted.terms == tuple(replace(term, **dict.fromkeys(SPANS, ())) for term in located.terms)
    with pytest.raises(KeyError):
        counting.explain("nobody asked this", 0)


def test_no_counting_explainer_without_stored_tokens_or_with_fields() -> None:
    held = passages("a b b", "a c")
    queries = ["a", "b c"]
    assert counting_explainer(held, BM25Options(Analyzer.WORD, 2.5), queries) is None
    tokens_of(Analyzer.WORD, queries)
    tokens_of(Analyzer.WORD, Passages.from_passages(held).indexed_texts(title=True))
    assert counting_explainer(held, BM25Options(Analyzer.WORD, 2.5), queries) is not None
    assert counting_explainer(held, BM25Options(Analyzer.WORD, title_weight=2.0), queries) is None
    assert counting_explainer(held, BM25Options(Analyzer.WORD, fb_docs=1), queries) is None


@pytest.mark.parametrize("sentences", [1, 2, 5])
@pytest.mark.parametrize("title", [True, False])
def test_best_window_terms_sum_to_score(sentences: int, title: bool) -> None:
    options = BM25Options(Analyzer.WHITESPACE, title=title)
    question = "red apples in the river"
    rankings = WindowedBM25("windows", OF_SENTENCES, options, sentences=sentences).search([question], 3)
    explainer = WindowedBM25Explainer(OF_SENTENCES, options, sentences=sentences)
    (hits,) = hits_of(rankings)
    assert hits
    assert {row: explainer.explain(question, row).score for row in hits} == pytest.approx(hits, rel=1e-5)


def test_explains_best_window() -> None:
    explainer = WindowedBM25Explainer(OF_SENTENCES, BM25Options(Analyzer.WHITESPACE), sentences=1)
    explained = explainer.explain("sweet apples", 0)
    assert "".join(text for text, _ in explained.text_pieces()) == "Red apples are sweet."
    assert "".join(text for text, _ in explained.title_pieces()) == "Fruit"
    assert explainer.explain("sweet apples", 2).score == 0
