"""A corpus of several segments is indexed and searched as one of one segment is, and found on the disk again."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from data.passages import Passage
from data.workspace import workspace
from retrieval.lexical import engines, weights
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.lexical.postings import index
from text import analysis
from text.analysis import Tokens
from text.analyzers import Analyzer

PASSAGES = [
    Passage(f"p{row}", f"word{row % 7} text {'again ' * (row % 4)}rare{row}", f"title{row % 3}") for row in range(50)
]
QUESTIONS = ["word3 again", "rare7 text", "title1 word1 again again", "nothing", ""]
OPTIONS = [BM25Options(Analyzer.WORD), BM25Options(Analyzer.WORD, k1=1.5, b=0.9, title_weight=2.5)]


@pytest.fixture
def segments_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tokens, engines):
        monkeypatch.setattr(module, "PART", 8)


def unread(token_parts: Callable[..., Iterator[Tokens]]) -> Callable[..., Iterator[Tokens]]:
    """Parts of which none may be asked for."""

    def parts(*given: object) -> Iterator[Tokens]:
        pytest.fail("tokens were read again")
        yield from token_parts(*given)

    return parts


@pytest.mark.parametrize("options", OPTIONS)
def test_segments_make_no_difference(options: BM25Options, request: pytest.FixtureRequest) -> None:
    whole = BM25("whole", PASSAGES, options)
    assert not (workspace() / "cache" / "postings").exists()
    request.getfixturevalue("segments_of_eight")
    told: list[float] = []
    in_segments = BM25("in segments", PASSAGES, options, told.append)
    found, expected = in_segments.search(QUESTIONS, 20), whole.search(QUESTIONS, 20)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    assert len([path for path in (workspace() / "cache" / "postings").iterdir() if path.is_dir()]) == 1
    assert told == sorted(told)
    assert told[-1] == 1.0
    for blocks in zip(in_segments.score_blocks(QUESTIONS), whole.score_blocks(QUESTIONS), strict=True):
        np.testing.assert_allclose(*blocks, rtol=1e-6)


@pytest.mark.usefixtures("segments_of_eight")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_second_opening_builds_nothing(options: BM25Options, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = BM25("first", PASSAGES, options).search(QUESTIONS, 20)
    monkeypatch.setattr(index, "_write", lambda *_: pytest.fail("it was built again"))
    for module in (engines, weights):
        monkeypatch.setattr(module, "token_parts", unread(module.token_parts))
    found = BM25("second", PASSAGES, options).search(QUESTIONS, 20)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.usefixtures("segments_of_eight")
def test_another_weight_another_text_and_another_order_are_other_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_KEPT", 9)
    for options in (*OPTIONS, BM25Options(Analyzer.WORD, k1=1.0), BM25Options(Analyzer.WORD, title=False)):
        BM25("", PASSAGES, options)
    BM25("", PASSAGES[::-1], OPTIONS[0])
    assert len([path for path in (workspace() / "cache" / "postings").iterdir() if path.is_dir()]) == 5


@pytest.mark.usefixtures("segments_of_eight")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_large_corpus_without_a_token_finds_nothing(options: BM25Options) -> None:
    found = BM25("", [Passage(f"p{row}", "?!") for row in range(20)], options).search(["what"], 3)
    assert (found.indices == -1).all()
