"""How vectors lie: alignment and uniformity against the paper, the rest against numpy, scikit-learn and by hand."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from mrc_workbench.data.pairs import Label, PairKind, PairSet
from mrc_workbench.labs.embeddings import geometry
from mrc_workbench.labs.embeddings.judgement import mean_figures
from mrc_workbench.retrieval.significance import Interval


def points(n: int, dimensions: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(0.3, 1, (n, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.slow
def test_both_are_the_two_lines_of_the_paper() -> None:
    import torch

    first, second = points(300), points(300, seed=1)
    x, y = torch.tensor(first), torch.tensor(second)
    assert geometry.alignment(first, second) == pytest.approx((x - y).norm(dim=1).pow(2).mean().item(), rel=1e-5)
    assert geometry.uniformity(first) == pytest.approx(
        torch.pdist(x).pow(2).mul(-2).exp().mean().log().item(), rel=1e-5
    )


def test_uniformity_is_that_of_all_distances_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_ROWS", 7)
    vectors = points(50)
    for t in (2.0, 3.0):
        assert geometry.uniformity(vectors, t) == pytest.approx(
            math.log(np.exp(-t * pdist(vectors) ** 2).mean()), rel=1e-5
        )


def test_lengths_do_not_count_and_a_vector_of_zeros_is_left_out() -> None:
    vectors = points(20)
    scaled = vectors * np.linspace(0.5, 3, 20, dtype=np.float32)[:, None]
    with_zeros = np.concatenate([scaled, np.zeros((2, 8), dtype=np.float32)])
    assert geometry.uniformity(with_zeros) == pytest.approx(geometry.uniformity(vectors), rel=1e-5)
    for parts in (geometry.anisotropy_parts, geometry.uniformity_parts):
        assert np.isnan(parts(with_zeros)).tolist() == [False] * 20 + [True] * 2
        assert np.nanmean(parts(with_zeros)) == pytest.approx(parts(vectors).mean(), rel=1e-4)
    assert geometry.alignment(with_zeros[10:], with_zeros[:12]) == pytest.approx(
        geometry.alignment(vectors[10:], vectors[:10]), rel=1e-5
    )


def test_extreme_and_undefined_geometries_by_hand() -> None:
    same, opposite = np.ones((2, 1), dtype=np.float32), np.array([[1.0], [-1.0]], dtype=np.float32)
    assert (geometry.alignment(same, same), geometry.uniformity(same)) == (0, 0)
    assert geometry.alignment(opposite, -opposite) == 4
    assert geometry.uniformity(opposite) == pytest.approx(-8)
    assert math.isnan(geometry.uniformity(points(1)))
    assert math.isnan(geometry.alignment(points(0), points(0)))
    assert np.isnan(geometry.anisotropy_parts(points(1))).all()
    assert np.isnan(geometry.uniformity_parts(points(1))).all()


def interval(parts: np.ndarray, groups: np.ndarray) -> Interval:
    return mean_figures({"a": parts}, groups, (-math.inf, 4.0))[0]["a"]


@pytest.mark.slow
def test_the_intervals_of_means_over_pairs_are_those_of_other_samples_of_sentences() -> None:
    for of in (geometry.uniformity_parts, geometry.anisotropy_parts):
        parts = [of(points(200, seed=seed)) for seed in range(300)]
        told = [interval(one, np.arange(200)) for one in parts[:50]]
        spread = np.std([one.mean() for one in parts])
        assert np.mean([one.high - one.low for one in told]) == pytest.approx(2 * 1.96 * spread, rel=0.15)


def test_sentences_in_groups_are_surer_of_less() -> None:
    vectors = np.repeat(points(50), 4, axis=0) + np.random.default_rng(1).normal(0, 0.01, (200, 8)).astype(np.float32)
    parts = geometry.uniformity_parts(vectors)
    alone, together = interval(parts, np.arange(200)), interval(parts, np.repeat(np.arange(50), 4))
    assert parts.mean() == pytest.approx(geometry.uniformity(vectors))
    assert together.high - together.low == pytest.approx(2 * (alone.high - alone.low), rel=0.1)
    assert interval(parts, np.zeros(200, dtype=int))[1:] == (-math.inf, 4)


def test_the_interval_of_alignment_holds_it() -> None:
    distances = geometry.squared_distances(points(100), points(100, seed=1))
    figure = interval(distances, np.arange(100))
    assert figure.value == geometry.alignment(points(100), points(100, seed=1))
    assert figure.high - figure.low == pytest.approx(2 * 1.96 * distances.std() / 10, rel=0.1)
    assert figure.low < figure.value < figure.high


def test_singular_values_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_ROWS", 11)
    vectors = points(60)
    wanted = np.linalg.svd(vectors, compute_uv=False)
    assert geometry.singular_values(vectors) == pytest.approx(wanted / wanted[0], rel=1e-4)


def test_anisotropy_is_the_mean_of_all_cosines() -> None:
    vectors = points(40)
    cosines = (vectors @ vectors.T)[np.triu_indices(40, 1)]
    assert geometry.anisotropy_parts(vectors).mean() == pytest.approx(cosines.mean(), rel=1e-4)


def test_positives_of_each_kind() -> None:
    sentences = ["가", "나", "다", "라"]
    scored = PairSet.of("s", PairKind.SCORED, [sentences, sentences], [4.0, 3.9, 5.0, 0.0], scale=(0, 5))
    assert geometry.positive_rows(scored).tolist() == [0, 2]
    labels = [Label.NEUTRAL, Label.ENTAILMENT, Label.CONTRADICTION, Label.ENTAILMENT]
    assert geometry.positive_rows(PairSet.of("n", PairKind.LABELLED, [sentences, sentences], labels)).tolist() == [1, 3]
    assert geometry.positive_rows(PairSet.of("t", PairKind.TRIPLETS, [sentences] * 3)).tolist() == [0, 1, 2, 3]
    assert geometry.positive_rows(PairSet.of("o", PairKind.SENTENCES, [sentences])).tolist() == []


def clouds(n: int = 90) -> np.ndarray:
    """Three clouds in 20 dimensions, of length 1."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 20))
    vectors = centres[np.arange(n) % 3] + rng.normal(0, 0.2, (n, 20))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_principal_components_are_those_of_scikit_learn_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_ROWS", 13)
    vectors = clouds()
    model = PCA(2).fit(vectors)
    wanted, found = model.transform(vectors), geometry.project(vectors)
    assert np.abs(found.points) == pytest.approx(np.abs(wanted), abs=1e-4)
    assert found.explained == pytest.approx(model.explained_variance_ratio_, rel=1e-4)
    assert found.points.dtype == np.float32


def test_a_map_is_the_same_each_time_and_lengths_do_not_count() -> None:
    vectors = clouds()
    assert (geometry.project(vectors).points == geometry.project(vectors.copy()).points).all()
    assert geometry.project(vectors * 3).points == pytest.approx(geometry.project(vectors).points, abs=1e-5)


@pytest.mark.parametrize("projection", geometry.Projection)
def test_few_points_are_a_map_too(projection: geometry.Projection) -> None:
    for n in (0, 1, 2):
        assert geometry.project(clouds(n), projection).points.shape == (n, 2)
    assert geometry.project(np.ones((3, 1), dtype=np.float32)).points.tolist() == [[0, 0]] * 3


@pytest.mark.slow
def test_umap_keeps_clouds_together() -> None:
    pytest.importorskip("umap")
    found = geometry.project(clouds(), geometry.Projection.UMAP)
    distances = np.linalg.norm(found.points[:, None] - found.points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) % 3 == np.arange(90) % 3).all()
    assert not len(found.explained)


def scattered(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 12)).astype(np.float32)


def every_cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    return one @ other.T / lengths


def test_neighbours_are_those_of_a_search_by_hand() -> None:
    vectors, asked = scattered(500), scattered(20, 1)
    cosines, rows = geometry.neighbours(vectors, asked, 10)
    every = every_cosine(asked, vectors)
    assert rows.tolist() == np.argsort(-every, axis=1)[:, :10].tolist()
    assert cosines == pytest.approx(np.take_along_axis(every, rows, axis=1), abs=1e-6)


def test_a_sentence_is_its_own_nearest_and_ties_keep_the_order_of_rows() -> None:
    vectors = scattered(6)
    vectors[4] = vectors[2]
    cosines, rows = geometry.neighbours(vectors, vectors[[2, 0]], 3)
    assert rows[0, :2].tolist() == [2, 4]
    assert rows[1, 0] == 0
    assert cosines[:, 0] == pytest.approx([1, 1])
    assert geometry.neighbours(scattered(3), scattered(2), 10)[1].shape == (2, 3)
    assert geometry.neighbours(scattered(0), scattered(2), 10)[1].shape == (2, 0)
    assert geometry.neighbours(scattered(3), scattered(0), 2)[1].shape == (0, 2)


def test_a_matrix_holds_every_cosine_of_a_limited_number_of_rows() -> None:
    vectors = scattered(9)
    assert geometry.similarity(vectors) == pytest.approx(every_cosine(vectors, vectors), abs=1e-6)
    vectors[3] = 0
    assert not geometry.similarity(vectors)[3].any()
    with pytest.raises(ValueError, match=f"{geometry.MOST} sentences at most, these are {geometry.MOST + 1}"):
        geometry.similarity(scattered(geometry.MOST + 1))


def test_a_path_is_read_from_the_lines_that_tell_it() -> None:
    aligned, uniform = "eval_validation_alignment", "eval_validation_uniformity"
    lines = [
        {"step": 20, aligned: 0.2, uniform: -1.5},
        {"step": 0, "before_alignment": 0.1, "before_uniformity": -1},
        {"step": 10, "loss": 0.5},
        {"step": 20, aligned: 0.3, uniform: -2.0},  # resumed, and measured again
        {"step": 30, aligned: 0.1, uniform: None},
        {aligned: 0.1, uniform: -1.0},
        {"step": 40, aligned: True, uniform: -1.0},
    ]
    found = geometry.trajectory(lines)
    assert found.steps.tolist() == [0, 20]
    assert found.alignment.tolist() == [0.1, 0.3]
    assert found.uniformity.tolist() == [-1.0, -2.0]
    nothing = geometry.trajectory([])
    assert [*map(len, (nothing.steps, nothing.alignment, nothing.uniformity))] == [0, 0, 0]
