from pathlib import Path

import faiss
import numpy as np
import pytest

from retrieval.dense import HNSW_CANDIDATES, IndexKind, VectorIndex, cells

APPROXIMATE = [IndexKind.HNSW, IndexKind.IVF, IndexKind.INT8]


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
    monkeypatch.setattr("retrieval.dense.HNSW_IN_ORDER", 1999)
    large = VectorIndex(vectors, IndexKind.HNSW)
    assert 1 not in told or cores == 1
    monkeypatch.setattr("retrieval.dense.HNSW_IN_ORDER", 2000)
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
