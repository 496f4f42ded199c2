"""Cloned passages have the word distribution of the originals, and questions retrieve their passage."""

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.clones import Articles, Clones, analyze_articles, clone_articles
from benchmarks.speed.bm25_engines import WorkbenchBM25
from benchmarks.speed.bm25_search import sample_questions
from mrc_workbench.data.passages import Passage, Passages
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.text.analysis import Tokens, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from tests.depth import sampled

KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
FISH = ("The carp swims in a pond. It eats weed.", "The pike hunts at dawn. It hides in reed. It eats carp.")
BIRDS = ("The owl flies at night. It eats mice.", "The wren sings. It is small.")


@pytest.fixture(scope="module")
def few() -> Articles:
    passages = [Passage(f"f{row}", text, "Fish") for row, text in enumerate(FISH)]
    passages += [Passage(f"b{row}", text, "Birds") for row, text in enumerate(BIRDS)]
    questions = [
        Question("q1", "pike hides in reed unheard", ("reed",), ("f1",), starts=(FISH[1].index("reed"),)),
        Question("q2", "owl flies", ("owl",), ("b0",), starts=(4,)),
    ]
    return analyze_articles(QuestionSet("few", Passages.from_passages(passages), tuple(questions)), Analyzer.WORD)


def test_first_clones_keep_the_words_of_the_articles(few: Articles) -> None:
    clones = clone_articles(few, 4)
    texts = clones.tokens.texts()
    assert sorted(passage[0] for passage in texts) == ["birds", "birds", "fish", "fish"]
    assert texts[0][0] == texts[1][0]  # passages of an article are consecutive
    words = Counter(word for passage in texts for word in passage[1:])
    assert words == Counter(" ".join((*FISH, *BIRDS)).lower().replace(".", "").split())


def test_question_uses_words_of_its_passage(few: Articles) -> None:
    for seed in range(20):
        clones = clone_articles(few, 40, seed)
        passages = clones.tokens.texts()
        hides, owl = clones.questions.texts()
        assert len(hides) == 4  # the other word is in no passage
        assert {*hides[1:]} <= {*passages[clones.relevant[0]]}
        assert {*owl} <= {*passages[clones.relevant[1]]}


def test_passages_are_the_same_for_the_same_seed(few: Articles) -> None:
    first, same, other = (clone_articles(few, 30, seed) for seed in (1, 1, 2))
    assert first.tokens.texts() == same.tokens.texts() != other.tokens.texts()
    assert first.questions.texts() == same.questions.texts()
    assert len(first.tokens) == 30


def test_rejects_fewer_passages_than_the_source(few: Articles) -> None:
    with pytest.raises(ValueError, match="3 passages cannot contain the 4 that are cloned"):
        clone_articles(few, 3)


def test_parts_hold_all_passages_with_separate_vocabularies(few: Articles) -> None:
    clones = clone_articles(few, 30)
    parts = list(clones.parts(7))
    assert [len(part) for part in parts] == [7, 7, 7, 7, 2]
    assert [text for part in parts for text in part.texts()] == clones.tokens.texts()
    assert all({*part.vocabulary} == {word for text in part.texts() for word in text} for part in parts)


def test_load_restores_saved_clones(few: Articles, tmp_path: Path) -> None:
    clones = clone_articles(few, 30)
    clones.save(tmp_path)
    loaded = Clones.load(tmp_path)
    assert loaded.tokens.texts() == clones.tokens.texts()
    assert loaded.questions.texts() == clones.questions.texts()
    assert loaded.relevant.tolist() == clones.relevant.tolist()


@pytest.fixture(scope="module")
def korquad() -> QuestionSet:
    if not KORQUAD.is_file():
        pytest.skip("needs KorQuAD_v1.0_dev.json in MRC_DATA")
    return read_file(KORQUAD).question_set


@pytest.fixture(scope="module")
def source(korquad: QuestionSet) -> Articles:
    return analyze_articles(korquad, Analyzer.KIWI_BIGRAM)


@pytest.mark.slow
def test_the_vocabulary_grows_by_heaps_law(source: Articles) -> None:
    ids = clone_articles(source, 8 * 961).tokens.ids
    sizes = [len(np.unique(ids[: len(ids) * part // 8])) for part in (1, 2, 4, 8)]
    exponents = [np.log2(larger / smaller) for smaller, larger in pairwise(sizes)]
    assert exponents == pytest.approx([source.heaps_exponent()] * 3, abs=0.03)


def first_half(source: Articles) -> Articles:
    n_articles = source.n_articles // 2
    n_sentences = len(source.sentence_article)
    selected_sentences = source.sentence_article < n_articles
    rows = source.passage_article < n_articles
    selected_questions = selected_sentences[source.answer_sentence]
    return Articles(
        select_texts(
            source.pieces, np.concatenate([np.flatnonzero(selected_sentences), n_sentences + np.arange(n_articles)])
        ),
        source.passage_article[rows],
        source.passage_sentences[rows],
        select_texts(source.questions, np.flatnonzero(selected_questions)),
        source.answer_sentence[selected_questions],
    )


def select_texts(tokens: Tokens, rows: np.ndarray) -> Tokens:
    ids = [tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]] for row in rows]
    return Tokens(tokens.vocabulary, np.concatenate(ids), np.cumsum([0, *map(len, ids)]))


@pytest.mark.slow
def test_clones_of_half_the_articles_predict_the_vocabulary_of_all(source: Articles) -> None:
    """Clones of the first half of the articles are compared with all articles."""
    first = first_half(source)
    clones = clone_articles(first, 2 * len(first.passage_article))
    real = clone_articles(source, 961)
    n_words = len(np.unique(clones.tokens.ids))
    same_length = real.tokens.ids[: len(clones.tokens.ids)]
    assert n_words == pytest.approx(len(np.unique(same_length)), rel=0.05)
    for fraction in (0.01, 0.05, 0.2):
        assert count_words_above(clones.tokens, fraction) == pytest.approx(
            count_words_above(real.tokens, fraction), rel=0.1
        )


@pytest.mark.slow
def test_clones_keep_word_frequencies_and_lengths_at_any_size(korquad: QuestionSet, source: Articles) -> None:
    few = clone_articles(source, 961)
    many = clone_articles(source, sampled(20, 8) * 961)
    few_fractions = document_fractions(few.tokens)
    many_fractions = document_fractions(many.tokens)[: len(few.tokens.vocabulary)]
    general = few_fractions > 0.05
    assert np.median(many_fractions[general] / few_fractions[general]) == pytest.approx(1, abs=0.1)
    assert np.corrcoef(np.log(few_fractions[general]), np.log(many_fractions[general]))[0, 1] > 0.95
    real = tokens_of(Analyzer.KIWI_BIGRAM, korquad.passages.indexed_texts(title=True)[::3])
    real_lengths, clone_lengths = (
        np.percentile(np.diff(tokens.offsets), (10, 25, 50, 75, 90)) for tokens in (real, many.tokens)
    )
    assert clone_lengths == pytest.approx(real_lengths, rel=0.05)


@pytest.mark.slow
def test_bm25_retrieves_the_relevant_passage_among_clones(source: Articles, tmp_path: Path) -> None:
    clones = clone_articles(source, 10_000)
    WorkbenchBM25.build(clones, tmp_path)
    sample = sample_questions(clones)
    rows, _ = WorkbenchBM25.open(tmp_path).top_k(sample.questions[::2], 10)
    hits = rows == sample.relevant[::2, None]
    assert hits[:, 0].mean() > 0.6
    assert hits.any(axis=1).mean() > 0.95


def count_words_above(tokens: Tokens, fraction: float) -> int:
    return int((document_fractions(tokens) > fraction).sum())


def document_fractions(tokens: Tokens) -> np.ndarray:
    """Return the fraction of passages that contain each word."""
    shape = (len(tokens), len(tokens.vocabulary))
    matrix = csr_array((np.ones_like(tokens.ids), tokens.ids, tokens.offsets), shape, copy=True)
    matrix.sum_duplicates()
    return np.bincount(matrix.indices, minlength=len(tokens.vocabulary)) / len(tokens)
