"""Passages that are made of others are spread as those are, and a question finds the one it was asked of."""

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.clones import Articles, Clones, articles_of, cloned
from benchmarks.speed.bm25_engines import BM25S
from benchmarks.speed.bm25_search import asked_of
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
    return articles_of(QuestionSet("few", Passages.of(passages), tuple(questions)), Analyzer.WORD)


def test_the_first_clones_are_the_articles_cut_anew(few: Articles) -> None:
    clones = cloned(few, 4)
    found = clones.tokens.texts()
    assert sorted(passage[0] for passage in found) == ["birds", "birds", "fish", "fish"]
    assert found[0][0] == found[1][0]  # passages of an article stand together
    words = Counter(word for passage in found for word in passage[1:])
    assert words == Counter(" ".join((*FISH, *BIRDS)).lower().replace(".", "").split())


def test_a_question_is_asked_in_the_words_of_the_passage_it_is_about(few: Articles) -> None:
    for seed in range(20):
        clones = cloned(few, 40, seed)
        passages = clones.tokens.texts()
        hides, owl = clones.questions.texts()
        assert len(hides) == 4  # one of its words no passage ever held
        assert {*hides[1:]} <= {*passages[clones.relevant[0]]}
        assert {*owl} <= {*passages[clones.relevant[1]]}


def test_passages_are_the_same_for_the_same_seed(few: Articles) -> None:
    one, same, other = (cloned(few, 30, seed) for seed in (1, 1, 2))
    assert one.tokens.texts() == same.tokens.texts() != other.tokens.texts()
    assert one.questions.texts() == same.questions.texts()
    assert len(one.tokens) == 30


def test_fewer_passages_than_there_are_cannot_be_made(few: Articles) -> None:
    with pytest.raises(ValueError, match="3 passages cannot hold the 4 that are cloned"):
        cloned(few, 3)


def test_parts_hold_what_the_whole_does_in_vocabularies_of_their_own(few: Articles) -> None:
    clones = cloned(few, 30)
    parts = list(clones.parts(7))
    assert [len(part) for part in parts] == [7, 7, 7, 7, 2]
    assert [text for part in parts for text in part.texts()] == clones.tokens.texts()
    assert all({*part.vocabulary} == {word for text in part.texts() for word in text} for part in parts)


def test_what_was_saved_is_loaded(few: Articles, tmp_path: Path) -> None:
    clones = cloned(few, 30)
    clones.save(tmp_path)
    loaded = Clones.load(tmp_path)
    assert loaded.tokens.texts() == clones.tokens.texts()
    assert loaded.questions.texts() == clones.questions.texts()
    assert loaded.relevant.tolist() == clones.relevant.tolist()


@pytest.fixture(scope="module")
def korquad() -> QuestionSet:
    if not KORQUAD.is_file():
        pytest.skip("needs KorQuAD_v1.0_dev.json in the folder that MRC_DATA names")
    return read_file(KORQUAD).question_set


@pytest.fixture(scope="module")
def source(korquad: QuestionSet) -> Articles:
    return articles_of(korquad, Analyzer.KIWI_BIGRAM)


@pytest.mark.slow
def test_the_vocabulary_grows_by_heaps_law(source: Articles) -> None:
    ids = cloned(source, 8 * 961).tokens.ids
    sizes = [len(np.unique(ids[: len(ids) * part // 8])) for part in (1, 2, 4, 8)]
    exponents = [np.log2(larger / smaller) for smaller, larger in pairwise(sizes)]
    assert exponents == pytest.approx([source.growth()] * 3, abs=0.03)


def first_half(source: Articles) -> Articles:
    n_articles, n_sentences = source.n_articles // 2, len(source.sentence_article)
    own = source.sentence_article < n_articles
    rows, asked = source.passage_article < n_articles, own[source.asked_sentence]
    return Articles(
        picked(source.pieces, np.concatenate([np.flatnonzero(own), n_sentences + np.arange(n_articles)])),
        source.passage_article[rows],
        source.passage_sentences[rows],
        picked(source.questions, np.flatnonzero(asked)),
        source.asked_sentence[asked],
    )


def picked(tokens: Tokens, rows: np.ndarray) -> Tokens:
    ids = [tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]] for row in rows]
    return Tokens(tokens.vocabulary, np.concatenate(ids), np.cumsum([0, *map(len, ids)]))


@pytest.mark.slow
def test_half_of_the_articles_foretell_the_words_of_all(source: Articles) -> None:
    """Clones are held against text that they were not made of."""
    first = first_half(source)
    clones, real = cloned(first, 2 * len(first.passage_article)), cloned(source, 961)
    n_words = len(np.unique(clones.tokens.ids))
    same_length = real.tokens.ids[: len(clones.tokens.ids)]
    assert n_words == pytest.approx(len(np.unique(same_length)), rel=0.05)
    for share in (0.01, 0.05, 0.2):
        assert above(clones.tokens, share) == pytest.approx(above(real.tokens, share), rel=0.1)


@pytest.mark.slow
def test_general_words_and_lengths_are_korquads_at_any_size(korquad: QuestionSet, source: Articles) -> None:
    few, many = cloned(source, 961), cloned(source, sampled(20, 8) * 961)
    shares, of_many = holding(few.tokens), holding(many.tokens)[: len(few.tokens.vocabulary)]
    general = shares > 0.05
    assert np.median(of_many[general] / shares[general]) == pytest.approx(1, abs=0.1)
    assert np.corrcoef(np.log(shares[general]), np.log(of_many[general]))[0, 1] > 0.95
    real = tokens_of(Analyzer.KIWI_BIGRAM, korquad.passages.indexed_texts(title=True))
    of_real, of_clones = (
        np.percentile(np.diff(tokens.offsets), (10, 25, 50, 75, 90)) for tokens in (real, many.tokens)
    )
    assert of_clones == pytest.approx(of_real, rel=0.05)


@pytest.mark.slow
def test_the_passage_asked_about_is_found_among_clones(source: Articles, tmp_path: Path) -> None:
    clones = cloned(source, 10_000)
    BM25S.build(clones, tmp_path)
    asked = asked_of(clones)
    rows, _ = BM25S.open(tmp_path).found(asked.questions[::2], 10)
    found = rows == asked.relevant[::2, None]
    assert found[:, 0].mean() > 0.6
    assert found.any(axis=1).mean() > 0.95


def above(tokens: Tokens, share: float) -> int:
    return int((holding(tokens) > share).sum())


def holding(tokens: Tokens) -> np.ndarray:
    """The share of passages that hold each word."""
    shape = (len(tokens), len(tokens.vocabulary))
    held = csr_array((np.ones_like(tokens.ids), tokens.ids, tokens.offsets), shape, copy=True)
    held.sum_duplicates()
    return np.bincount(held.indices, minlength=len(tokens.vocabulary)) / len(tokens)
