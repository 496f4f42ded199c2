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
from mrc_workbench.retrieval.dense import ENCODING, HNSW_CANDIDATES, Dense, IndexKind, Late, VectorIndex, cells, max_sim
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, top_k
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, KeywordTokens, texts_of

APPROXIMATE = [IndexKind.HNSW, IndexKind.IVF, IndexKind.INT8]
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
def test_most_of_what_an_exact_search_finds(kind: IndexKind, vectors: np.ndarray, questions: np.ndarray) -> None:
    exact = np.argsort(-(questions.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :10]
    scores, rows = VectorIndex(vectors, kind).search(questions, 10)
    found = np.mean([len(set(ours) & set(theirs)) / 10 for ours, theirs in zip(rows, exact, strict=True)])
    assert found == 1 if kind is IndexKind.EXACT else found > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()
    close = 1e-2 if kind is IndexKind.INT8 else 1e-6
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", questions, vectors[rows]), atol=close)


@pytest.mark.parametrize("kind", APPROXIMATE)
def test_the_same_vectors_give_the_same_index(kind: IndexKind, vectors: np.ndarray) -> None:
    first, second = (faiss.serialize_index(VectorIndex(vectors, kind)._index) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", APPROXIMATE)
def test_memory_is_the_size_of_the_file(kind: IndexKind, vectors: np.ndarray) -> None:
    index = VectorIndex(vectors, kind)
    assert index.memory_bytes == len(faiss.serialize_index(index._index))


def test_an_exact_index_is_that_of_faiss_without_a_copy(
    vectors: np.ndarray, questions: np.ndarray, tmp_path: Path
) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = VectorIndex(mapped)
    assert np.shares_memory(index._index.vectors, mapped)
    theirs = faiss.IndexFlatIP(vectors.shape[1])
    theirs.add(vectors)
    for asked in (questions, questions[:1]):
        for ours, expected in zip(index.search(asked, 10), theirs.search(asked, 10), strict=True):
            np.testing.assert_array_equal(ours, expected)
    assert index.memory_bytes == vectors.nbytes


@pytest.mark.slow
def test_a_large_graph_is_linked_by_all_cores(
    vectors: np.ndarray, questions: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    set_threads = faiss.omp_set_num_threads
    monkeypatch.setattr(faiss, "omp_set_num_threads", lambda count: (told.append(count), set_threads(count)))
    cores = faiss.omp_get_max_threads()
    monkeypatch.setattr("mrc_workbench.retrieval.dense.HNSW_IN_ORDER", 1999)
    large = VectorIndex(vectors, IndexKind.HNSW)
    assert 1 not in told or cores == 1
    monkeypatch.setattr("mrc_workbench.retrieval.dense.HNSW_IN_ORDER", 2000)
    told.clear()
    small = VectorIndex(vectors, IndexKind.HNSW)
    assert told == [1, cores]
    for index in (large, small):
        found = index.search(questions, 10)[1]
        exact = VectorIndex(vectors).search(questions, 10)[1]
        assert np.mean([len(set(ours) & set(best)) for ours, best in zip(found, exact, strict=True)]) > 9


def test_what_each_costs(vectors: np.ndarray) -> None:
    size = {kind: VectorIndex(vectors, kind).memory_bytes for kind in IndexKind}
    numbers = vectors.size
    assert size[IndexKind.INT8] < 1.1 * numbers < 4 * numbers == size[IndexKind.EXACT] < size[IndexKind.IVF]
    assert size[IndexKind.IVF] < size[IndexKind.HNSW]


@pytest.mark.parametrize("kind", IndexKind)
@pytest.mark.parametrize("count", [1, 2, 38, 40, 100])
def test_few_vectors(kind: IndexKind, count: int, vectors: np.ndarray, capfd: pytest.CaptureFixture[str]) -> None:
    scores, rows = VectorIndex(vectors[:count], kind).search(vectors[:count], 1)
    assert rows[:, 0].tolist() == list(range(count))
    np.testing.assert_allclose(scores, 1, atol=1e-2)
    assert capfd.readouterr() == ("", "")  # FAISS warns of few vectors by itself


def test_a_graph_finds_so_many_and_no_more(vectors: np.ndarray) -> None:
    index = VectorIndex(vectors, IndexKind.HNSW)
    assert (index.most, VectorIndex(vectors).most) == (HNSW_CANDIDATES, 2000)
    whole = index.search(vectors[:5], HNSW_CANDIDATES)[1]
    assert (whole >= 0).all()
    np.testing.assert_array_equal(index.search(vectors[:5], 10)[1], whole[:, :10])


def test_cells_that_are_not_found_are_no_rows(vectors: np.ndarray) -> None:
    scores, rows = VectorIndex(vectors, IndexKind.IVF).search(vectors[:3], 2000)
    assert (rows == -1).any(axis=1).all()
    np.testing.assert_array_equal(np.isneginf(scores), rows == -1)


@pytest.mark.parametrize(
    ("vectors", "expected"), [(1, (1, 1)), (77, (1, 1)), (78, (2, 2)), (961, (24, 8)), (1_000_000, (4000, 64))]
)
def test_cells(vectors: int, expected: tuple[int, int]) -> None:
    assert cells(vectors) == expected


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


def test_a_question_nothing_is_known_of_finds_nothing() -> None:
    rankings = Dense("dense", PASSAGES, KeywordEncoder()).search(["아무것도", "도서관", ""], 2)
    assert rankings.indices.tolist() == [[-1, -1], [4, 0], [-1, -1]]
    assert np.isneginf(rankings.scores[[0, 2]]).all()


def test_the_title_counts_where_asked() -> None:
    titled = [Passage("p1", "이 강은 길다", "한강"), Passage("p2", "한강은 길다")]
    for title, scores in ((True, [1, 1]), (False, [1, 0])):
        assert Dense("dense", titled, KeywordEncoder(), title=title).search(["한강"], 2).scores.tolist() == [scores]


def test_random_vectors_against_a_full_product() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [" ".join(map(repr, row.tolist())) for row in vectors]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts[:250])]
    rankings = Dense("dense", passages, RowEncoder()).search(texts[250:], 10)
    cosines = vectors[250:].astype(np.float64) @ vectors[:250].T.astype(np.float64)
    assert rankings.indices.tolist() == np.argsort(-cosines, axis=1)[:, :10].tolist()
    np.testing.assert_allclose(rankings.scores, -np.sort(-cosines, axis=1)[:, :10], atol=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 70))
def test_ties_go_to_the_lower_row_even_at_the_cut(axes: list[int], k: int) -> None:
    unit = np.eye(4)
    texts = [" ".join(map(str, unit[axis])) for axis in axes]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    rankings = Dense("dense", passages, RowEncoder()).search([" ".join(map(str, row)) for row in unit], k)
    for axis, rows in enumerate(rankings.indices.tolist()):
        expected = [row for _, row in sorted((found != axis, row) for row, found in enumerate(axes))][:k]
        assert rows == expected


@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_deeper_searches_only_add(k: int) -> None:
    retriever = Dense("dense", PASSAGES, KeywordEncoder())
    questions = texts_of(QUESTIONS)
    whole, part = retriever.search(questions, 8), retriever.search(questions, k)
    assert whole.first(k).indices.tolist() == part.indices.tolist()
    assert whole.first(k).scores.tolist() == part.scores.tolist()


class WindowedRows(RowEncoder):
    """A text is its windows' vectors with a bar between them; the first is what is read of the text as it is."""

    def windows_of(self, texts: Sequence[str], heads: np.ndarray, options: WindowOptions) -> Windows:
        del heads
        rows, windows = [], []
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
        rows = windows.standing(len(texts))
        return (
            np.concatenate([whole[rows], self.encode_passages(added)]),
            np.concatenate([rows, windows.rows[windows.added]]),
        )


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=30),
    st.integers(1, 35),
    st.sampled_from([0, 5]),
)
def test_a_passage_scores_as_its_best_window_and_ties_go_to_the_lower_row(
    axes: list[list[int]], k: int, tokens: int
) -> None:
    unit = np.eye(4)
    asked = np.array([[0.8, 0.6, 0, 0], [0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5]])
    texts = ["|".join(" ".join(map(str, unit[axis])) for axis in one) for one in axes]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    dense = Dense("dense", passages, WindowedRows(), windows=WindowOptions(tokens))
    rankings = dense.search([" ".join(map(str, row)) for row in asked], k)
    best = np.array([[max(float(question[axis]) for axis in one) for one in axes] for question in asked])
    for row, scores in enumerate(best):
        order = np.lexsort((np.arange(len(scores)), -scores))[:k]
        found = min(k, len(axes))
        assert rankings.indices[row, :found].tolist() == order.tolist()
        np.testing.assert_allclose(rankings.scores[row, :found], scores[order], atol=1e-6)
        assert (rankings.indices[row, found:] == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("index", list(IndexKind))
def test_every_index_finds_a_passage_once(index: IndexKind) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    windows = [" ".join(map(repr, row.tolist())) for row in vectors]
    passages = [Passage(f"p{row}", "|".join(windows[4 * row : 4 * row + 4])) for row in range(100)]
    found = Dense("dense", passages, WindowedRows(), index=index, windows=WindowOptions()).search(windows[:50], 20)
    for row, (rows, scores) in enumerate(zip(found.indices, found.scores, strict=True)):
        known = rows[rows >= 0]
        assert len(set(known.tolist())) == len(known)
        assert known[0] == row // 4
        by_hand = (vectors[row] @ vectors.T).reshape(100, 4).max(axis=1)
        np.testing.assert_allclose(scores[: len(known)], by_hand[known], atol=0.05 if index is IndexKind.INT8 else 1e-5)


def test_where_no_passage_is_long_windows_change_nothing() -> None:
    texts = ["1 0 0", "0.6 0.8 0", "0 0 1", "0.6 0.8 0 "]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    plain, windowed = (
        Dense("dense", passages, WindowedRows(), windows=windows).search(["1 0 0", "0 1 0"], 3)
        for windows in (None, WindowOptions())
    )
    assert plain.indices.tobytes() == windowed.indices.tobytes()
    assert plain.scores.tobytes() == windowed.scores.tobytes()


def vectors_of(lengths: list[int], seed: int) -> TokenVectors:
    """Random vectors of length 1, so many of each text."""
    drawn = np.random.default_rng(seed).normal(size=(sum(lengths), 4))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return TokenVectors(drawn.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def by_loop(questions: TokenVectors, passages: TokenVectors) -> np.ndarray:
    scores = np.full((len(questions), len(passages)), -np.inf)
    for asked in range(len(questions)):
        for read in range(len(passages)):
            ours = questions.between(asked, asked + 1).vectors.astype(float)
            theirs = passages.between(read, read + 1).vectors.astype(float)
            if len(ours) and len(theirs):
                scores[asked, read] = np.mean([max(float(one @ other) for other in theirs) for one in ours])
    return scores


@given(LENGTHS, LENGTHS, st.integers(0, 9))
def test_a_plain_loop(asked: list[int], read: list[int], seed: int) -> None:
    questions, passages = vectors_of(asked, seed), vectors_of(read, seed + 1)
    np.testing.assert_allclose(max_sim(questions, passages), by_loop(questions, passages), atol=1e-6)


def test_passages_are_compared_in_parts_as_together(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, passages = vectors_of([3, 5], 1), vectors_of([7, 0, 2, 30, 4, 4, 1], 2)
    together = max_sim(questions, passages)
    monkeypatch.setattr("mrc_workbench.retrieval.dense._PLACES", 8)
    np.testing.assert_array_equal(max_sim(questions, passages), together)


@pytest.mark.slow
def test_the_library_scores_the_same() -> None:
    from sentence_transformers.util import maxsim

    questions, passages = vectors_of([3, 5, 1], 3), vectors_of([7, 2, 30, 4], 4)
    lists = [
        [vectors.between(row, row + 1).vectors.astype(np.float32) for row in range(len(vectors))]
        for vectors in (questions, passages)
    ]
    theirs = maxsim(*lists, length_normalize=True).numpy()
    np.testing.assert_allclose(max_sim(questions, passages), theirs, atol=1e-6)


class Upwards:
    """The passages from the last to the first, whatever is asked."""

    name = "upwards"

    def search(self, questions: list[str], k: int) -> Rankings:
        return top_k(np.tile(np.arange(len(PASSAGES), dtype=np.float32), (len(questions), 1)), k)


def test_it_holds_the_tokens_and_tells_how_far_it_is() -> None:
    texts, shares = [passage.text for passage in PASSAGES], list[float]()
    late = Late("late", PASSAGES, KeywordTokens(), title=False, on_progress=shares.append)
    assert late.memory_bytes == KeywordTokens().encode_passages(texts).vectors.nbytes > 0
    late.search(["서울"] * 40, 3)
    assert shares == pytest.approx([ENCODING + (1 - ENCODING) * 32 / 40, 1.0])


def test_only_the_first_passages_of_another_retriever_are_ordered_anew() -> None:
    asked = texts_of(QUESTIONS)
    alone = Late("alone", PASSAGES, KeywordTokens()).search(asked, 5)
    late = Late("late", PASSAGES, KeywordTokens(), first=Upwards(), depth=2)  # type: ignore[arg-type]
    found = late.search(asked, 5)
    assert (found.indices[:, 2:] == [2, 1, 0]).all()  # as they were
    for row, indices in enumerate(found.indices[:, :2].tolist()):
        assert {*indices} == {3, 4}
        of = dict(zip(alone.indices[row].tolist(), alone.scores[row].tolist(), strict=True))
        for place, passage in enumerate(indices):
            expected = of.get(passage)
            assert expected is None or found.scores[row, place] == pytest.approx(expected)
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_all_candidates_are_as_good_as_searching_all() -> None:
    asked = texts_of(QUESTIONS)
    alone = Late("alone", PASSAGES, KeywordTokens()).search(asked, 5)
    among = Late("among", PASSAGES, KeywordTokens(), first=Upwards(), depth=5).search(asked, 5)  # type: ignore[arg-type]
    found = alone.indices != NOT_FOUND
    np.testing.assert_array_equal(among.indices[found], alone.indices[found])
    np.testing.assert_allclose(among.scores[found], alone.scores[found], rtol=1e-6)


def test_a_question_of_which_nothing_is_known_finds_nothing() -> None:
    found = Late("late", PASSAGES, KeywordTokens()).search(["zebra", "서울"], 3)
    assert (found.indices[0] == NOT_FOUND).all()
    assert {*found.indices[1, :2].tolist()} == {1, 2}
