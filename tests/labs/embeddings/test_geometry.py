"""Geometry of vectors compared with the formulas of the paper, numpy, scikit-learn and values by hand."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from mrc_workbench.data.pairs import Label, PairKind, PairSet
from mrc_workbench.labs.embeddings import geometry
from mrc_workbench.labs.embeddings.judgement import compare_means
from mrc_workbench.retrieval.significance import Interval


def unit_vectors(n: int, dimensions: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(0.3, 1, (n, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_uniformity_and_alignment_match_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_ROWS", 7)
    vectors = unit_vectors(50)
    for t in (2.0, 3.0):
        expected = math.log(np.exp(-t * pdist(vectors) ** 2).mean())
        assert geometry.uniformity(vectors, t) == pytest.approx(expected, rel=1e-5)
    others = unit_vectors(50, seed=1)
    expected = (np.linalg.norm(vectors - others, axis=1) ** 2).mean()
    assert geometry.alignment(vectors, others) == pytest.approx(expected, rel=1e-5)


def test_ignores_lengths_and_zero_vectors() -> None:
    vectors = unit_vectors(20)
    scaled = vectors * np.linspace(0.5, 3, 20, dtype=np.float32)[:, None]
    with_zeros = np.concatenate([scaled, np.zeros((2, 8), dtype=np.float32)])
    assert geometry.uniformity(with_zeros) == pytest.approx(geometry.uniformity(vectors), rel=1e-5)
    for parts in (geometry.anisotropy_parts, geometry.uniformity_parts):
        assert np.isnan(parts(with_zeros)).tolist() == [False] * 20 + [True] * 2
        assert np.nanmean(parts(with_zeros)) == pytest.approx(parts(vectors).mean(), rel=1e-4)
    expected = geometry.alignment(vectors[10:], vectors[:10])
    assert geometry.alignment(with_zeros[10:], with_zeros[:12]) == pytest.approx(expected, rel=1e-5)


def test_extreme_and_undefined_values() -> None:
    same = np.ones((2, 1), dtype=np.float32)
    opposite = np.array([[1.0], [-1.0]], dtype=np.float32)
    assert (geometry.alignment(same, same), geometry.uniformity(same)) == (0, 0)
    assert geometry.alignment(opposite, -opposite) == 4
    assert geometry.uniformity(opposite) == pytest.approx(-8)
    assert math.isnan(geometry.uniformity(unit_vectors(1)))
    assert math.isnan(geometry.alignment(unit_vectors(0), unit_vectors(0)))
    assert np.isnan(geometry.anisotropy_parts(unit_vectors(1))).all()
    assert np.isnan(geometry.uniformity_parts(unit_vectors(1))).all()


def mean_interval(parts: np.ndarray, groups: np.ndarray) -> Interval:
    return compare_means({"a": parts}, groups, (-math.inf, 4.0))[0]["a"]


@pytest.mark.slow
def test_intervals_match_resampled_sentences() -> None:
    for parts_function in (geometry.uniformity_parts, geometry.anisotropy_parts):
        parts = [parts_function(unit_vectors(200, seed=seed)) for seed in range(300)]
        intervals = [mean_interval(item, np.arange(200)) for item in parts[:50]]
        spread = np.std([item.mean() for item in parts])
        assert np.mean([item.high - item.low for item in intervals]) == pytest.approx(2 * 1.96 * spread, rel=0.15)


def test_grouped_sentences_have_wider_intervals() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, (200, 8)).astype(np.float32)
    vectors = np.repeat(unit_vectors(50), 4, axis=0) + noise
    parts = geometry.uniformity_parts(vectors)
    ungrouped = mean_interval(parts, np.arange(200))
    grouped = mean_interval(parts, np.repeat(np.arange(50), 4))
    assert parts.mean() == pytest.approx(geometry.uniformity(vectors))
    assert grouped.high - grouped.low == pytest.approx(2 * (ungrouped.high - ungrouped.low), rel=0.1)
    assert mean_interval(parts, np.zeros(200, dtype=int))[1:] == (-math.inf, 4)


def test_alignment_interval_contains_value() -> None:
    distances = geometry.squared_distances(unit_vectors(100), unit_vectors(100, seed=1))
    metric = mean_interval(distances, np.arange(100))
    assert metric.value == geometry.alignment(unit_vectors(100), unit_vectors(100, seed=1))
    assert metric.high - metric.low == pytest.approx(2 * 1.96 * distances.std() / 10, rel=0.1)
    assert metric.low < metric.value < metric.high


def test_singular_values_match_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_ROWS", 11)
    vectors = unit_vectors(60)
    expected = np.linalg.svd(vectors, compute_uv=False)
    assert geometry.singular_values(vectors) == pytest.approx(expected / expected[0], rel=1e-4)


def test_anisotropy_is_mean_cosine() -> None:
    vectors = unit_vectors(40)
    cosines = (vectors @ vectors.T)[np.triu_indices(40, 1)]
    assert geometry.anisotropy_parts(vectors).mean() == pytest.approx(cosines.mean(), rel=1e-4)


def test_positive_rows_of_each_kind() -> None:
    sentences = ["가", "나", "다", "라"]
    scored = PairSet.from_columns("s", PairKind.SCORED, [sentences, sentences], [4.0, 3.9, 5.0, 0.0], scale=(0, 5))
    assert geometry.positive_rows(scored).tolist() == [0, 2]
    labels = [Label.NEUTRAL, Label.ENTAILMENT, Label.CONTRADICTION, Label.ENTAILMENT]
    labelled = PairSet.from_columns("n", PairKind.LABELLED, [sentences, sentences], labels)
    assert geometry.positive_rows(labelled).tolist() == [1, 3]
    triplets = PairSet.from_columns("t", PairKind.TRIPLETS, [sentences] * 3)
    assert geometry.positive_rows(triplets).tolist() == [0, 1, 2, 3]
    assert geometry.positive_rows(PairSet.from_columns("o", PairKind.SENTENCES, [sentences])).tolist() == []


def clouds(n: int = 90) -> np.ndarray:
    """Three clouds in 20 dimensions, of length 1."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 20))
    vectors = centres[np.arange(n) % 3] + rng.normal(0, 0.2, (n, 20))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_pca_matches_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_ROWS", 13)
    vectors = clouds()
    model = PCA(2).fit(vectors)
    expected = model.transform(vectors)
    projected = geometry.project(vectors)
    assert np.abs(projected.points) == pytest.approx(np.abs(expected), abs=1e-4)
    assert projected.explained == pytest.approx(model.explained_variance_ratio_, rel=1e-4)
    assert projected.points.dtype == np.float32


def test_projection_is_deterministic_and_scale_invariant() -> None:
    vectors = clouds()
    assert (geometry.project(vectors).points == geometry.project(vectors.copy()).points).all()
    assert geometry.project(vectors * 3).points == pytest.approx(geometry.project(vectors).points, abs=1e-5)


@pytest.mark.parametrize("projection", geometry.Projection)
def test_projects_few_points(projection: geometry.Projection) -> None:
    for n in (0, 1, 2):
        assert geometry.project(clouds(n), projection).points.shape == (n, 2)
    assert geometry.project(np.ones((3, 1), dtype=np.float32)).points.tolist() == [[0, 0]] * 3


@pytest.mark.slow
def test_umap_keeps_clusters() -> None:
    pytest.importorskip("umap")
    projected = geometry.project(clouds(), geometry.Projection.UMAP)
    distances = np.linalg.norm(projected.points[:, None] - projected.points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) % 3 == np.arange(90) % 3).all()
    assert not len(projected.explained)


def random_vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 12)).astype(np.float32)


def cosine_matrix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    return first @ second.T / lengths


def test_neighbours_match_brute_force() -> None:
    vectors = random_vectors(500)
    queries = random_vectors(20, 1)
    cosines, rows = geometry.find_neighbours(vectors, queries, 10)
    all_cosines = cosine_matrix(queries, vectors)
    assert rows.tolist() == np.argsort(-all_cosines, axis=1)[:, :10].tolist()
    assert cosines == pytest.approx(np.take_along_axis(all_cosines, rows, axis=1), abs=1e-6)


def test_nearest_is_itself_and_ties_keep_order() -> None:
    vectors = random_vectors(6)
    vectors[4] = vectors[2]
    cosines, rows = geometry.find_neighbours(vectors, vectors[[2, 0]], 3)
    assert rows[0, :2].tolist() == [2, 4]
    assert rows[1, 0] == 0
    assert cosines[:, 0] == pytest.approx([1, 1])
    assert geometry.find_neighbours(random_vectors(3), random_vectors(2), 10)[1].shape == (2, 3)
    assert geometry.find_neighbours(random_vectors(0), random_vectors(2), 10)[1].shape == (2, 0)
    assert geometry.find_neighbours(random_vectors(3), random_vectors(0), 2)[1].shape == (0, 2)


def test_similarity_has_all_cosines_up_to_limit() -> None:
    vectors = random_vectors(9)
    assert geometry.similarity_matrix(vectors) == pytest.approx(cosine_matrix(vectors, vectors), abs=1e-6)
    vectors[3] = 0
    assert not geometry.similarity_matrix(vectors)[3].any()
    with pytest.raises(ValueError, match="200 sentences at most, these are 201"):
        geometry.similarity_matrix(random_vectors(geometry.MAX_MATRIX_ROWS + 1))


def test_reads_trajectory_from_progress() -> None:
    aligned = "eval_validation_alignment"
    uniform = "eval_validation_uniformity"
    lines = [
        {"step": 20, aligned: 0.2, uniform: -1.5},
        {"step": 0, "before_alignment": 0.1, "before_uniformity": -1},
        {"step": 10, "loss": 0.5},
        {"step": 20, aligned: 0.3, uniform: -2.0},  # resumed, and measured again
        {"step": 30, aligned: 0.1, uniform: None},
        {aligned: 0.1, uniform: -1.0},
        {"step": 40, aligned: True, uniform: -1.0},
    ]
    trajectory = geometry.trajectory(lines)
    assert trajectory.steps.tolist() == [0, 20]
    assert trajectory.alignment.tolist() == [0.1, 0.3]
    assert trajectory.uniformity.tolist() == [-1.0, -2.0]
    empty = geometry.trajectory([])
    assert [*map(len, (empty.steps, empty.alignment, empty.uniformity))] == [0, 0, 0]
