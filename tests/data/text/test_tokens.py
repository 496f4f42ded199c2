from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.text import analysis as tokens_module
from mrc_workbench.data.text.analysis import Analysis, Tokens, analyze, has_cached_tokens, token_parts, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.lexical import term_statistics
from tests.data.text.test_analysis import ENGLISH, JAPANESE, KOREAN, NAMED

TEXTS = ["a b a", "c", "", "b z", "a d", "e e c", "z"]


@pytest.fixture
def parts_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TEXTS_PER_PART", 2)


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the analyzed texts."""
    seen: list[str] = []

    def analyze_and_note(analyzer: Analyzer, texts: list[str]) -> list[list[str]]:
        seen.extend(texts)
        if "broken" in texts:
            raise KeyboardInterrupt
        return analyze(analyzer, texts)

    monkeypatch.setattr(tokens_module, "analyze", analyze_and_note)
    return seen


@pytest.mark.parametrize("analyzer", NAMED)
def test_reads_stored_tokens_unchanged(analyzer: Analyzer) -> None:
    texts = [KOREAN, "", ENGLISH, JAPANESE, "...", KOREAN]
    first = tokens_of(analyzer, texts)
    second = tokens_of(analyzer, texts)
    for tokens in (first, second):
        assert len(tokens) == len(texts)
        assert tokens.texts() == analyze(analyzer, texts)
        assert (tokens.ids.dtype, tokens.offsets.dtype) == (np.int32, np.int64)
        assert len(set(tokens.vocabulary)) == len(tokens.vocabulary)


@given(texts=st.lists(st.text("ab 각", max_size=12), max_size=6))
def test_builds_same_pairs_from_stored_tokens_as_from_texts(texts: list[str]) -> None:
    analysis = Analysis(Analyzer.BIGRAM, pairs=True)
    tokens = tokens_of(analysis, texts)
    assert tokens.texts() == analyze(analysis, texts)
    assert tokens.vocabulary == list(dict.fromkeys(token for text in tokens.texts() for token in text))
    assert (tokens.ids.dtype, tokens.offsets.dtype) == (np.int32, np.int64)


@given(texts=st.lists(st.text("ab ", max_size=8), max_size=6), seed=st.integers(0, 9))
def test_selects_tokens_of_rows(texts: list[str], seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, max(1, len(texts)), size=4 if texts else 0).tolist()
    some = tokens_of(Analyzer.WORD, texts).select(rows)
    assert some.texts() == analyze(Analyzer.WORD, [texts[row] for row in rows])
    assert len(some) == len(rows)


def test_does_not_analyze_texts_again_for_pairs(analyzed: list[str]) -> None:
    tokens_of(Analyzer.KIWI_BIGRAM, [KOREAN, ENGLISH])
    paired = Analysis(Analyzer.KIWI_BIGRAM, pairs=True)
    analyzed.clear()
    assert has_cached_tokens(paired, [KOREAN, ENGLISH])
    assert not has_cached_tokens(paired, [ENGLISH, KOREAN])
    tokens = tokens_of(paired, [KOREAN, ENGLISH])
    assert analyzed == []
    assert tokens.texts() == analyze(paired, [KOREAN, ENGLISH])


@pytest.mark.parametrize("texts", [[], [""], ["", "!"]])
def test_empty_input_has_no_tokens(texts: list[str]) -> None:
    tokens = tokens_of(Analyzer.WORD, texts)
    assert (len(tokens), tokens.texts(), tokens.vocabulary) == (len(texts), [[]] * len(texts), [])
    assert term_statistics(Analyzer.WORD, texts).positions_of(["a"]).tolist() == [-1]
    assert [part.tolist() for part in tokens.ids_in({"a": 0})] == [[]] * len(texts)


def test_maps_ids_to_another_vocabulary() -> None:
    tokens = tokens_of(Analyzer.WORD, ["a b a", "c", "b z"])
    assert [part.tolist() for part in tokens.ids_in({"a": 7, "b": 3, "y": 1})] == [[7, 3, 7], [], [3]]
    assert [part.tolist() for part in tokens.ids_in({"a": 0, "b": 1})] == [[0, 1, 0], [], [1]], "0 is an id, too"


@pytest.mark.parametrize("count", range(len(TEXTS) + 1))
def test_joins_parts(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tokens_of(Analyzer.WORD, TEXTS[:count])
    monkeypatch.setattr(tokens_module, "TEXTS_PER_PART", 2)
    joined = tokens_of(Analyzer.WORD, TEXTS[:count])
    assert joined.vocabulary == whole.vocabulary
    assert joined.ids.tolist() == whole.ids.tolist()
    assert joined.offsets.tolist() == whole.offsets.tolist()
    assert (joined.ids.dtype, joined.offsets.dtype) == (np.int32, np.int64)


@pytest.mark.usefixtures("parts_of_two")
def test_resumes_and_analyzes_only_new_parts(analyzed: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        tokens_of(Analyzer.WORD, [*TEXTS[:4], "broken", "c"])
    for count, new in ((6, TEXTS[4:6]), (7, TEXTS[6:])):  # a corpus that grows
        analyzed.clear()
        assert tokens_of(Analyzer.WORD, TEXTS[:count]).texts() == analyze(Analyzer.WORD, TEXTS[:count])
        assert analyzed == new


@pytest.mark.parametrize("part", [2, 100])
def test_counts_terms_over_all_parts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TEXTS_PER_PART", part)
    terms = ["a", "b", "c", "z", "d", "e", "nowhere", ""]
    for _ in ("computed", "cached"):
        corpus = term_statistics(Analyzer.WORD, TEXTS)
        positions = corpus.positions_of(terms)
        assert corpus.document_frequencies[positions[:6]].tolist() == [2, 2, 2, 2, 1, 1]
        assert positions[6:].tolist() == [-1, -1]
        assert len(corpus.document_frequencies) == len(set(positions[:6].tolist())) == 6
        assert (corpus.n_passages, corpus.mean_length) == (7, pytest.approx(12 / 7))
        monkeypatch.setattr(tokens_module, "analyze", None)  # cached tokens are not analyzed again


@pytest.mark.usefixtures("parts_of_two")
def test_counts_terms_in_joined_tokens_like_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_parts = term_statistics(Analyzer.WORD, TEXTS)
    tokens = tokens_of(Analyzer.WORD, TEXTS)
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path / "another"))
    joined = term_statistics(Analyzer.WORD, TEXTS, [tokens])
    assert joined.hashes.tolist() == in_parts.hashes.tolist()
    assert joined.document_frequencies.tolist() == in_parts.document_frequencies.tolist()
    assert joined.mean_length == in_parts.mean_length


def test_each_text_is_in_a_single_part_and_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TEXTS_PER_PART", 3)
    fractions: list[float] = []
    assert [len(part) for part in token_parts(Analyzer.WORD, TEXTS, fractions.append)] == [3, 3, 1]
    assert fractions == [3 / 7, 6 / 7, 1.0]
    assert [len(part) for part in token_parts(Analyzer.WORD, [])] == [0]
    assert isinstance(next(token_parts(Analyzer.WORD, TEXTS)), Tokens)


def test_reuses_morphemes_stored_with_bigrams(analyzed: list[str]) -> None:
    texts = [KOREAN, "", ENGLISH, "1/2 그리고/또는 가", KOREAN]
    assert not has_cached_tokens(Analyzer.KIWI, texts)
    tokens_of(Analyzer.KIWI_BIGRAM, texts)
    assert has_cached_tokens(Analyzer.KIWI, texts)
    analyzed.clear()
    reused = tokens_of(Analyzer.KIWI, texts)
    assert analyzed == []
    fresh = tokens_of(Analyzer.KIWI, [*texts, "하나 더"])
    assert reused.texts() == fresh.texts()[: len(texts)] == analyze(Analyzer.KIWI, texts)
    assert reused.vocabulary == fresh.vocabulary[: len(reused.vocabulary)]
    assert (reused.ids.dtype, reused.offsets.dtype) == (np.int32, np.int64)
