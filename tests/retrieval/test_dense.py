"""Dense retrieval and late interaction: indexes, search, candidates of another retriever, texts without tokens."""

import re
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.models.windows import WindowOptions, Windows
from mrc_workbench.retrieval import dense
from mrc_workbench.retrieval.dense import Dense, IndexKind, LateInteraction, VectorIndex, max_sim
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, top_k
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, KeywordTokens, texts_of
from tests.retrieval.compared import assert_equal_rankings, hits_of

APPROXIMATE = [IndexKind.HNSW, IndexKind.IVF, IndexKind.INT8]
AXES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=30)
CELL_COUNTS = {1: (1, 1), 77: (1, 1), 78: (2, 2), 961: (24, 8), 1_000_000: (4000, 64)}
LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=9)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """2,000 vectors around 40 centres, as those of passages lie around topics."""
    rng = np.random.default_rng(0)
    return unit(rng.normal(size=(40, 32)).repeat(50, axis=0) + 0.7 * rng.normal(size=(2000, 32)))


@pytest.fixture(scope="module")
def questions(vectors: np.ndarray) -> np.ndarray:
    return unit(vectors[::20] + 0.1 * np.random.default_rng(1).normal(size=(100, 32)))


@pytest.mark.parametrize("kind", IndexKind)
def test_approximate_index_has_high_recall(kind: IndexKind, vectors: np.ndarray, questions: np.ndarray) -> None:
    exact = np.argsort(-(questions.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :10]
    scores, rows = VectorIndex(vectors, kind).search(questions, 10)
    recall = np.mean([len(set(ours) & set(theirs)) / 10 for ours, theirs in zip(rows, exact, strict=True)])
    assert recall == 1 if kind is IndexKind.EXACT else recall > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()
    close = 1e-2 if kind is IndexKind.INT8 else 1e-6
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", questions, vectors[rows]), atol=close)


@pytest.mark.parametrize("kind", APPROXIMATE)
def test_index_is_deterministic_and_reports_its_file_size(kind: IndexKind, vectors: np.ndarray) -> None:
    indexes = [VectorIndex(vectors, kind) for _ in range(2)]
    first, second = (faiss.serialize_index(index._index) for index in indexes)
    np.testing.assert_array_equal(first, second)
    assert indexes[0].memory_bytes == len(first)


def test_exact_index_matches_faiss_without_copy(vectors: np.ndarray, questions: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = VectorIndex(mapped)
    assert np.shares_memory(index._index.vectors, mapped)
    theirs = faiss.IndexFlatIP(vectors.shape[1])
    theirs.add(vectors)
    for queries in (questions, questions[:1]):
        for ours, expected in zip(index.search(queries, 10), theirs.search(queries, 10), strict=True):
            np.testing.assert_array_equal(ours, expected)
    assert index.memory_bytes == vectors.nbytes


@pytest.mark.slow
def test_large_hnsw_uses_all_cores(vectors: np.ndarray, questions: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    thread_counts: list[int] = []
    set_threads = faiss.omp_set_num_threads
    monkeypatch.setattr(faiss, "omp_set_num_threads", lambda count: (thread_counts.append(count), set_threads(count)))
    cores = faiss.omp_get_max_threads()
    monkeypatch.setattr("mrc_workbench.retrieval.dense.MAX_DETERMINISTIC_HNSW", 1999)
    large = VectorIndex(vectors, IndexKind.HNSW)
    assert 1 not in thread_counts or cores == 1
    monkeypatch.setattr("mrc_workbench.retrieval.dense.MAX_DETERMINISTIC_HNSW", 2000)
    thread_counts.clear()
    small = VectorIndex(vectors, IndexKind.HNSW)
    assert thread_counts == [1, cores]
    for index in (large, small):
        rows = index.search(questions, 10)[1]
        exact = VectorIndex(vectors).search(questions, 10)[1]
        assert np.mean([len(set(ours) & set(best)) for ours, best in zip(rows, exact, strict=True)]) > 9


@pytest.mark.parametrize("kind", IndexKind)
@pytest.mark.parametrize("count", [1, 2, 38, 40, 100])
def test_indexes_few_vectors_without_warnings(
    kind: IndexKind, count: int, vectors: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    scores, rows = VectorIndex(vectors[:count], kind).search(vectors[:count], 1)
    assert rows[:, 0].tolist() == list(range(count))
    np.testing.assert_allclose(scores, 1, atol=1e-2)
    assert capfd.readouterr() == ("", "")  # FAISS warns of few vectors by itself


def test_hnsw_returns_at_most_its_candidates(vectors: np.ndarray) -> None:
    index = VectorIndex(vectors, IndexKind.HNSW)
    assert (index.max_hits, VectorIndex(vectors).max_hits) == (dense.HNSW_CANDIDATES, 2000)
    whole = index.search(vectors[:5], dense.HNSW_CANDIDATES)[1]
    assert (whole >= 0).all()
    np.testing.assert_array_equal(index.search(vectors[:5], 10)[1], whole[:, :10])


def test_ivf_marks_missing_hits(vectors: np.ndarray) -> None:
    scores, rows = VectorIndex(vectors, IndexKind.IVF).search(vectors[:3], 2000)
    assert (rows == -1).any(axis=1).all()
    np.testing.assert_array_equal(np.isneginf(scores), rows == -1)


@pytest.mark.parametrize(("vectors", "expected"), CELL_COUNTS.items())
def test_ivf_cell_counts(vectors: int, expected: tuple[int, int]) -> None:
    assert dense.ivf_cell_counts(vectors) == expected


class RowEncoder:
    """A text is its vector, written out: `1 0 0`."""

    fingerprint = "rows"

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode_passages(texts)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([[float(number) for number in text.split()] for text in texts], dtype=np.float32)


def test_scores_are_cosines_counted_by_hand() -> None:
    rankings = Dense("dense", PASSAGES, KeywordEncoder(), title=False).search(["한강과 서울", "한글", "한강"], 5)
    # keywords of the passages: 세종 한글 | 한강 서울 | 서울 한강 | 산 | 도서관
    half = 1 / np.sqrt(2)
    assert rankings.indices.tolist() == [[1, 2, 0, 3, 4], [0, 1, 2, 3, 4], [1, 2, 0, 3, 4]]
    np.testing.assert_allclose(rankings.scores, [[1, 1, 0, 0, 0], [half, 0, 0, 0, 0], [half, half, 0, 0, 0]], atol=1e-6)


def test_indexes_title_if_enabled() -> None:
    titled = [Passage("p1", "이 강은 길다", "한강"), Passage("p2", "한강은 길다")]
    for title, scores in ((True, [1, 1]), (False, [1, 0])):
        assert Dense("dense", titled, KeywordEncoder(), title=title).search(["한강"], 2).scores.tolist() == [scores]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 70))
def test_breaks_ties_by_row_at_cutoff(axes: list[int], k: int) -> None:
    unit = np.eye(4)
    texts = [" ".join(map(str, unit[axis])) for axis in axes]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    rankings = Dense("dense", passages, RowEncoder()).search([" ".join(map(str, row)) for row in unit], k)
    for axis, rows in enumerate(rankings.indices.tolist()):
        expected = [row for _, row in sorted((axis_of_row != axis, row) for row, axis_of_row in enumerate(axes))][:k]
        assert rows == expected


class WindowedRows(RowEncoder):
    """A text is the vectors of its windows with bars between them; the first is the vector of the text."""

    def windows_of(self, texts: Sequence[str], title_lengths: np.ndarray, options: WindowOptions) -> Windows:
        del title_lengths
        rows = []
        windows = []
        for row, text in enumerate(texts):
            ends = [match.start() for match in re.finditer(r"\||$", text)]
            if len(ends) > 1:
                starts = [0, *(end + 1 for end in ends[:-1])]
                rows += [row] * len(ends)
                windows += [(0, start, end) for start, end in zip(starts, ends, strict=True)]
        spans = np.array(windows, dtype=np.int64).reshape(-1, 3)
        return Windows(np.array(rows, dtype=np.int64), spans, not options.tokens)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return super().encode_passages([text.split("|")[0] for text in texts])

    def encode_windows(self, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        added = windows.texts(texts)
        whole = self.encode_passages(texts)
        if not added:
            return whole, np.arange(len(texts))
        rows = windows.whole_rows(len(texts))
        vectors = np.concatenate([whole[rows], self.encode_passages(added)])
        return vectors, np.concatenate([rows, windows.rows[windows.is_added]])


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(AXES, st.integers(1, 35), st.sampled_from([0, 5]))
def test_scores_passage_by_best_window_and_breaks_ties_by_row(axes: list[list[int]], k: int, tokens: int) -> None:
    unit = np.eye(4)
    query_vectors = np.array([[0.8, 0.6, 0, 0], [0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5]])
    texts = ["|".join(" ".join(map(str, unit[axis])) for axis in passage_axes) for passage_axes in axes]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    dense = Dense("dense", passages, WindowedRows(), windows=WindowOptions(tokens))
    rankings = dense.search([" ".join(map(str, row)) for row in query_vectors], k)
    for row, question in enumerate(query_vectors):
        scores = np.array([max(float(question[axis]) for axis in passage_axes) for passage_axes in axes])
        order = np.lexsort((np.arange(len(scores)), -scores))[:k]
        n_hits = min(k, len(axes))
        assert rankings.indices[row, :n_hits].tolist() == order.tolist()
        np.testing.assert_allclose(rankings.scores[row, :n_hits], scores[order], atol=1e-6)
        assert (rankings.indices[row, n_hits:] == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("index", list(IndexKind))
def test_every_index_returns_passage_once(index: IndexKind) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    windows = [" ".join(map(repr, row.tolist())) for row in vectors]
    passages = [Passage(f"p{row}", "|".join(windows[4 * row : 4 * row + 4])) for row in range(100)]
    rankings = Dense("dense", passages, WindowedRows(), index=index, windows=WindowOptions()).search(windows[:50], 20)
    for row, (rows, scores) in enumerate(zip(rankings.indices, rankings.scores, strict=True)):
        known = rows[rows >= 0]
        assert len(set(known.tolist())) == len(known)
        assert known[0] == row // 4
        by_hand = (vectors[row] @ vectors.T).reshape(100, 4).max(axis=1)
        np.testing.assert_allclose(scores[: len(known)], by_hand[known], atol=0.05 if index is IndexKind.INT8 else 1e-5)


def test_windows_change_nothing_for_short_passages() -> None:
    texts = ["1 0 0", "0.6 0.8 0", "0 0 1", "0.6 0.8 0 "]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    retrievers = [Dense("dense", passages, WindowedRows(), windows=windows) for windows in (None, WindowOptions())]
    plain, windowed = (retriever.search(["1 0 0", "0 1 0"], 3) for retriever in retrievers)
    assert_equal_rankings(plain, windowed)


def vectors_of(lengths: list[int], seed: int) -> TokenVectors:
    vectors = np.random.default_rng(seed).normal(size=(sum(lengths), 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return TokenVectors(vectors.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def by_loop(questions: TokenVectors, passages: TokenVectors) -> np.ndarray:
    scores = np.full((len(questions), len(passages)), -np.inf)
    for query in range(len(questions)):
        for row in range(len(passages)):
            ours = questions.between(query, query + 1).vectors.astype(float)
            theirs = passages.between(row, row + 1).vectors.astype(float)
            if len(ours) and len(theirs):
                scores[query, row] = np.mean([max(float(token @ other) for other in theirs) for token in ours])
    return scores


@given(LENGTHS, LENGTHS, st.integers(0, 9))
def test_max_sim_matches_reference_loop(question_lengths: list[int], passage_lengths: list[int], seed: int) -> None:
    questions = vectors_of(question_lengths, seed)
    passages = vectors_of(passage_lengths, seed + 1)
    np.testing.assert_allclose(max_sim(questions, passages), by_loop(questions, passages), atol=1e-6)


def test_blocks_give_same_scores_as_single_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = vectors_of([3, 5], 1)
    passages = vectors_of([7, 0, 2, 30, 4, 4, 1], 2)
    together = max_sim(questions, passages)
    monkeypatch.setattr("mrc_workbench.retrieval.dense._TOKENS_AT_ONCE", 8)
    np.testing.assert_array_equal(max_sim(questions, passages), together)


class Upwards:
    """Ranks the passages in reverse for any question."""

    name = "upwards"

    def search(self, questions: list[str], k: int) -> Rankings:
        return top_k(np.tile(np.arange(len(PASSAGES), dtype=np.float32), (len(questions), 1)), k)


def test_reports_memory_and_progress() -> None:
    texts = [passage.text for passage in PASSAGES]
    shares = list[float]()
    late = LateInteraction("late", PASSAGES, KeywordTokens(), title=False, on_progress=shares.append)
    assert late.memory_bytes == KeywordTokens().encode_passages(texts).vectors.nbytes > 0
    late.search(["서울"] * 40, 3)
    assert shares == pytest.approx([dense.ENCODING_FRACTION + (1 - dense.ENCODING_FRACTION) * 32 / 40, 1.0])


def test_reranks_only_first_stage_hits() -> None:
    queries = texts_of(QUESTIONS)
    alone = LateInteraction("alone", PASSAGES, KeywordTokens()).search(queries, 5)
    late = LateInteraction("late", PASSAGES, KeywordTokens(), first=Upwards(), depth=2)  # type: ignore[arg-type]
    rankings = late.search(queries, 5)
    assert (rankings.indices[:, 2:] == [2, 1, 0]).all()  # as they were
    for row, indices in enumerate(rankings.indices[:, :2].tolist()):
        assert {*indices} == {3, 4}
        reranked = hits_of(rankings.first(2))[row]
        expected = {passage: score for passage, score in hits_of(alone)[row].items() if passage in reranked}
        assert reranked | expected == pytest.approx(reranked)
    assert (np.diff(rankings.scores, axis=1) <= 0).all()


def test_reranking_all_candidates_equals_full_search() -> None:
    queries = texts_of(QUESTIONS)
    alone = LateInteraction("alone", PASSAGES, KeywordTokens()).search(queries, 5)
    among = LateInteraction("among", PASSAGES, KeywordTokens(), first=Upwards(), depth=5).search(queries, 5)  # type: ignore[arg-type]
    is_hit = alone.indices != NOT_FOUND
    np.testing.assert_array_equal(among.indices[is_hit], alone.indices[is_hit])
    np.testing.assert_allclose(among.scores[is_hit], alone.scores[is_hit], rtol=1e-6)
