"""BM25 against the written formula and a public implementation; a corpus of several segments as one of one."""

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.text import analysis
from mrc_workbench.data.text.analysis import Tokens, analyze
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval import lexical as weights
from mrc_workbench.retrieval.lexical import BM25Engine, bm25, index
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.rankings import concatenate
from tests.doubles import PASSAGES, texts_of
from tests.retrieval.compared import ANALYZERS, assert_equal_rankings, hits_of, passages

PARAMETERS = [(0.9, 0.4), (1.5, 0.75), (0.0, 0.0), (2.0, 1.0)]
EVERY_16TH = slice(None, None, 16)  # thirty questions, of every kind
TEXTS = st.lists(st.text("ab c", max_size=12), min_size=1, max_size=7, unique=True)
QUESTIONS = st.lists(st.text("abd ", max_size=8), min_size=1, max_size=4)
CORPUS = [Passage(f"p{n}", f"word{n % 7} text {'again ' * (n % 4)}rare{n}", f"title{n % 3}") for n in range(50)]
CORPUS_QUERIES = ["word3 again", "rare7 text", "title1 word1 again again", "nothing", ""]
WEIGHED = [BM25Options(Analyzer.WORD), BM25Options(Analyzer.WORD, k1=1.5, b=0.9, title_weight=2.5)]


def lucene(counts: list[Counter[str]], question: list[str], k1: float, b: float) -> list[float]:
    """Score every document: sum over the question's terms of ln(1 + (N - n + .5) / (n + .5)) * f / (f + k1 * ...)."""
    lengths = [count.total() for count in counts]
    mean_length = sum(lengths) / len(counts)
    scores = [0.0] * len(counts)
    for term in question:
        holders = [row for row, count in enumerate(counts) if term in count]
        idf = math.log(1 + (len(counts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for row in holders:
            f = counts[row][term]
            scores[row] += idf * f / (f + k1 * (1 - b + b * lengths[row] / mean_length))
    return scores


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_scores_match_formula_on_sample(sample: QuestionSet, analyzer: Analyzer) -> None:
    documents = analyze(analyzer, sample.passages.indexed_texts(title=True))
    questions = analyze(analyzer, texts_of(sample.questions[EVERY_16TH]))
    counts = [Counter(document) for document in documents]
    for k1, b in PARAMETERS:
        retriever = BM25("bm25", sample.passages, BM25Options(analyzer, k1, b))
        rankings = retriever.search(texts_of(sample.questions[EVERY_16TH]), len(sample.passages))
        for scores, question in zip(hits_of(rankings), questions, strict=True):
            expected = {row: score for row, score in enumerate(lucene(counts, question, k1, b)) if score > 0}
            assert scores == pytest.approx(expected, rel=1e-5)


@settings(deadline=None, max_examples=50)
@given(TEXTS, QUESTIONS, st.floats(0, 3), st.floats(0, 1))
def test_scores_match_formula_on_random_tokens(texts: list[str], questions: list[str], k1: float, b: float) -> None:
    documents = analyze(Analyzer.WORD, texts)
    query_tokens = analyze(Analyzer.WORD, questions)
    rankings = BM25("bm25", passages(*texts), BM25Options(Analyzer.WORD, k1, b)).search(questions, len(texts))
    for scores, question in zip(hits_of(rankings), query_tokens, strict=True):
        held = [row for row, document in enumerate(documents) if set(document) & set(question)]
        expected = lucene([Counter(document) for document in documents], question, k1, b) if held else []
        assert scores == pytest.approx({row: expected[row] for row in held}, rel=1e-5)


@settings(deadline=None, max_examples=50)
@given(TEXTS, QUESTIONS, st.floats(0.5, 3), st.floats(0, 1))
def test_reference_engine_equals_rank_bm25(texts: list[str], questions: list[str], k1: float, b: float) -> None:
    documents = analyze(Analyzer.WORD, texts)
    query_tokens = analyze(Analyzer.WORD, questions)
    options = BM25Options(Analyzer.WORD, k1, b, engine=BM25Engine.RANK_BM25)
    rankings = BM25("reference", passages(*texts), options).search(questions, len(texts))
    library = BM25Okapi(documents, k1=k1, b=b) if any(documents) else None
    for scores, question in zip(hits_of(rankings), query_tokens, strict=True):
        every = library.get_scores(question) if library else []
        assert scores == pytest.approx({row: score for row, score in enumerate(every) if score > 0}, rel=1e-6)


def test_auto_analyzer_depends_on_passages() -> None:
    assert BM25("bm25", PASSAGES).analysis.analyzer is Analyzer.KIWI_BIGRAM
    assert BM25("bm25", passages("zwo wort")).analysis.analyzer is Analyzer.WORD
    assert BM25("bm25", passages("These are seven words.")).analysis.analyzer is Analyzer.ENGLISH
    assert BM25("bm25", PASSAGES, BM25Options(Analyzer.BIGRAM)).analysis.analyzer is Analyzer.BIGRAM


def test_indexes_title_if_enabled_and_present() -> None:
    titled = [Passage("p1", "강은 흐른다", "한강"), Passage("p2", "산은 높다")]
    assert Passages.from_passages(titled).indexed_texts(title=True) == ["한강\n강은 흐른다", "산은 높다"]
    assert Passages.from_passages(titled).indexed_texts(title=False) == ["강은 흐른다", "산은 높다"]
    for title, rows in ((True, [0, -1]), (False, [-1, -1])):
        retriever = BM25("bm25", titled, BM25Options(Analyzer.WORD, title=title))
        assert retriever.search(["한강"], 2).indices.tolist() == [rows]


@pytest.mark.parametrize("engine", list(BM25Engine))
@pytest.mark.parametrize("texts", [["..."], ["...", "?!"], ["", "."], []])
def test_passages_without_tokens_are_never_returned(engine: BM25Engine, texts: list[str]) -> None:
    retriever = BM25("bm25", passages(*texts), BM25Options(Analyzer.WORD, engine=engine))
    rankings = retriever.search(["a word", "", "..."], 2)
    width = min(2, len(texts))
    assert rankings.indices.tolist() == [[-1] * width] * 3
    assert rankings.scores.tolist() == [[-np.inf] * width] * 3
    assert retriever.search([], 2).indices.shape == (0, width)


def test_searches_several_blocks_of_questions() -> None:
    retriever = BM25("bm25", passages("a", "b", "c c"), BM25Options(Analyzer.WORD))
    queries = ["a", "b c", "", "c"] * 150  # two blocks
    rankings = retriever.search(queries, 3)
    assert_equal_rankings(rankings, concatenate([retriever.search([question], 3) for question in queries]))


@pytest.mark.parametrize(("k1", "b"), [(-0.1, 0.4), (0.9, -0.1), (0.9, 1.1)])
def test_rejects_parameters_out_of_range(k1: float, b: float) -> None:
    with pytest.raises(ValueError, match="k1 must be 0 to 1,000,000 and b 0 to 1"):
        BM25Options(k1=k1, b=b)


def test_memory_counts_postings_and_lists() -> None:
    held = passages("a b a", "b c")
    known = BM25("", held, BM25Options(Analyzer.WHITESPACE)).memory_bytes
    of_a_term = 8
    of_a_list = 2 * 8 + 8
    assert known == 4 * (2 + 4) + 3 * (of_a_term + of_a_list)  # ab, bc; a, b, c
    assert BM25("", held, BM25Options(Analyzer.WHITESPACE, engine=BM25Engine.RANK_BM25)).memory_bytes == 0
    assert BM25("", [Passage("p1", "")], BM25Options(Analyzer.WHITESPACE)).memory_bytes == 0


@pytest.fixture
def segments_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (analysis, bm25):
        monkeypatch.setattr(module, "TEXTS_PER_PART", 8)


def count_stored_indexes() -> int:
    return sum(path.is_dir() for path in (workspace() / "cache" / "postings").iterdir())


def unread(token_parts: Callable[..., Iterator[Tokens]]) -> Callable[..., Iterator[Tokens]]:
    def parts(*given: object) -> Iterator[Tokens]:
        pytest.fail("tokens were read again")
        yield from token_parts(*given)

    return parts


@pytest.mark.parametrize("options", WEIGHED)
def test_segmentation_does_not_change_results(options: BM25Options, request: pytest.FixtureRequest) -> None:
    whole = BM25("whole", CORPUS, options)
    assert not (workspace() / "cache" / "postings").exists()
    request.getfixturevalue("segments_of_eight")
    progress: list[float] = []
    in_segments = BM25("in segments", CORPUS, options, progress.append)
    assert_equal_rankings(in_segments.search(CORPUS_QUERIES, 20), whole.search(CORPUS_QUERIES, 20), rtol=1e-6)
    assert count_stored_indexes() == 1
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    for blocks in zip(in_segments.score_blocks(CORPUS_QUERIES), whole.score_blocks(CORPUS_QUERIES), strict=True):
        np.testing.assert_allclose(*blocks, rtol=1e-6)


@pytest.mark.usefixtures("segments_of_eight")
@pytest.mark.parametrize("options", WEIGHED)
def test_second_open_reuses_stored_index(options: BM25Options, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = BM25("first", CORPUS, options).search(CORPUS_QUERIES, 20)
    monkeypatch.setattr(weights, "write_arrays", lambda *_: pytest.fail("it was built again"))
    for module in (bm25, weights):
        monkeypatch.setattr(module, "token_parts", unread(module.token_parts))
    assert_equal_rankings(BM25("second", CORPUS, options).search(CORPUS_QUERIES, 20), expected)


@pytest.mark.usefixtures("segments_of_eight")
def test_index_key_depends_on_weights_texts_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MAX_STORED_INDEXES", 9)
    for options in (*WEIGHED, BM25Options(Analyzer.WORD, k1=1.0), BM25Options(Analyzer.WORD, title=False)):
        BM25("", CORPUS, options)
    BM25("", CORPUS[::-1], WEIGHED[0])
    assert count_stored_indexes() == 5


@pytest.mark.usefixtures("segments_of_eight")
@pytest.mark.parametrize("options", WEIGHED)
def test_large_corpus_without_tokens_returns_no_hits(options: BM25Options) -> None:
    rankings = BM25("", [Passage(f"p{row}", "?!") for row in range(20)], options).search(["what"], 3)
    assert (rankings.indices == -1).all()


def test_reuses_stored_tokens_of_question_set(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = ["한국의 수도", "가장 높은 산", "한국의 수도", "파리"]
    plain = BM25("plain", PASSAGES)
    bm25 = BM25("bm25", PASSAGES, all_questions=questions)
    some = [questions[3], questions[0]]
    expected = plain.search(some, 3)
    analysis.tokens_of(bm25.analysis, questions)  # as a comparison does
    monkeypatch.setattr(analysis, "analyze", lambda *_: pytest.fail("analyzed again"))
    assert_equal_rankings(bm25.search(some, 3), expected)


def test_analyzes_question_outside_set() -> None:
    plain = BM25("plain", PASSAGES)
    bm25 = BM25("bm25", PASSAGES, all_questions=["수도", "강"])
    analysis.tokens_of(bm25.analysis, ["수도", "강"])
    np.testing.assert_array_equal(bm25.search(["산", "수도"], 3).scores, plain.search(["산", "수도"], 3).scores)
