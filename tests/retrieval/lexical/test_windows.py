"""BM25 over windows: the windows cut, and scores by hand and from a plain BM25 over the same windows."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.comparison.compare import retrievers_of
from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_experiment
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, WindowedBM25, windows
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of

WORD = BM25Options(Analyzer.WORD)
SENTENCES = st.lists(st.sampled_from(["a b.", "b c!", "c c a?", "d", "…", "a. d d."]), max_size=5)


def test_every_run_of_sentences_is_a_window() -> None:
    text = "하나다. 둘인가? 셋!"
    assert windows(text, 1) == ["하나다.", "둘인가?", "셋!"]
    assert windows(text, 2) == ["하나다. 둘인가?", "둘인가? 셋!"]
    assert windows(text, 3) == windows(text, 4) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("  \n", ["  \n"]),
        ("no mark at all", ["no mark at all"]),
        ("3.5 km is no end. Dr. Kim", ["3.5 km is no end.", "Dr.", "Kim"]),
        ("“그만.” 그가 말했다(끝이다.) 그리고", ["“그만.”", "그가 말했다(끝이다.)", "그리고"]),
        ("一つ。二つ！「三つ。」四", ["一つ。", "二つ！", "「三つ。」", "四"]),
        ("제목\n본문이다\r\n끝", ["제목", "본문이다", "끝"]),
        ("wait... what?! yes", ["wait...", "what?!", "yes"]),
    ],
)
def test_a_sentence_ends_with_its_mark_or_its_line(text: str, expected: list[str]) -> None:
    assert windows(text, 1) == expected


def test_a_passage_scores_as_its_best_window() -> None:
    """Three windows of 2, 2 and 4 words: the mean is 8/3, "cat" is in two of them, once and twice."""
    passages = [Passage("p1", "cat sat. dog ran."), Passage("p2", "a cat, cat slept.")]
    rankings = WindowedBM25("windowed", passages, WORD).search(["cat"], 2)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    one, two = (idf * f / (f + 0.9 * (0.6 + 0.4 * length / (8 / 3))) for f, length in ((1, 2), (2, 4)))
    assert rankings.indices.tolist() == [[1, 0]]
    assert rankings.scores[0].tolist() == pytest.approx([two, one], rel=1e-6)


def test_words_of_two_sentences_meet_only_in_a_window_of_two() -> None:
    passages = [Passage("p1", "cat sat. dog ran."), Passage("p2", "dog cat. ox ran."), Passage("p3", "ox slept.")]
    apart = WindowedBM25("windowed", passages, WORD).search(["cat dog"], 3)
    assert apart.indices.tolist() == [[1, 0, -1]]
    together = WindowedBM25("windowed", passages, WORD, sentences=2).search(["cat dog"], 3)
    assert together.scores[0, 0] == together.scores[0, 1]


def test_the_title_stands_before_every_window() -> None:
    passages = [Passage("p1", "It slept. It ran.", "Cat"), Passage("p2", "It ran. It slept.", "Dog")]
    assert WindowedBM25("windowed", passages, WORD).search(["dog ran"], 1).indices.tolist() == [[1]]
    untitled = BM25Options(Analyzer.WORD, title=False)
    assert WindowedBM25("windowed", passages, untitled).search(["dog"], 1).indices.tolist() == [[-1]]


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.lists(SENTENCES, min_size=1, max_size=6), st.integers(1, 3))
def test_scores_are_the_best_of_a_plain_bm25_over_the_windows(drawn: list[list[str]], sentences: int) -> None:
    passages = [Passage(f"p{row}", " ".join(parts)) for row, parts in enumerate(drawn)]
    cut = [(row, window) for row, passage in enumerate(passages) for window in windows(passage.text, sentences)]
    plain = BM25("plain", [Passage("", window) for _, window in cut], WORD).search(["a b", "c d d", "e"], len(cut))
    rankings = WindowedBM25("windowed", passages, WORD, sentences=sentences).search(["a b", "c d d", "e"], len(drawn))
    for question in range(3):
        best: dict[int, float] = {}
        for place, score in zip(plain.indices[question].tolist(), plain.scores[question].tolist(), strict=True):
            if place >= 0:
                best.setdefault(cut[place][0], score)
        found = zip(rankings.indices[question].tolist(), rankings.scores[question].tolist(), strict=True)
        assert {row: score for row, score in found if row >= 0} == best


@pytest.mark.slow
def test_windows_as_long_as_the_passages_are_plain_bm25() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    asked = texts_of(sample.questions[::16])
    longest = WindowedBM25("windowed", sample.passages, sentences=10_000).search(asked, 20)
    plain = BM25("plain", sample.passages).search(asked, 20)
    np.testing.assert_array_equal(longest.indices, plain.indices)
    np.testing.assert_array_equal(longest.scores, plain.scores)


@pytest.mark.parametrize("texts", [[], ["..."], ["...", ""]])
def test_passages_without_a_word_are_never_found(texts: list[str]) -> None:
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    rankings = WindowedBM25("windowed", passages, WORD).search(["a word", ""], 2)
    assert rankings.indices.tolist() == [[-1] * min(2, len(texts))] * 2
    assert rankings.scores.tolist() == [[-np.inf] * min(2, len(texts))] * 2


def test_an_experiment_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        """data = "small"
[[retriever]]
name = "Sentences"
kind = "bm25-windows"
sentences = 2
analyzer = "bigram"
k1 = 0.4
b = 0.6
title = false
""",
        encoding="utf-8",
    )
    asked = texts_of(QUESTIONS)
    (made,) = retrievers_of(read_experiment(path), small_set()).values()
    assert isinstance(made, CachedRetriever)
    options = BM25Options(Analyzer.BIGRAM, k1=0.4, b=0.6, title=False)
    expected = WindowedBM25("Sentences", PASSAGES, options, sentences=2).search(asked, 5)
    np.testing.assert_array_equal(made.search(asked, 5).indices, expected.indices)
    np.testing.assert_array_equal(made.search(asked, 5).scores, expected.scores)
    path.write_text(path.read_text(encoding="utf-8").replace("sentences = 2", "sentences = 0"), encoding="utf-8")
    with pytest.raises(ExperimentError, match="sentences: Input should be greater than 0"):
        read_experiment(path)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a window must hold 1 sentence or more, not 0"):
        WindowedBM25("windowed", [], sentences=0)
