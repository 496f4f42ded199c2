"""Maps: principal components against scikit-learn's, UMAP by what it is for."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from embeddings import geometry as module
from embeddings.geometry import Projection, project


def clouds(n: int = 90) -> np.ndarray:
    """Three clouds in 20 dimensions, of length 1."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 20))
    vectors = centres[np.arange(n) % 3] + rng.normal(0, 0.2, (n, 20))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_principal_components_are_those_of_scikit_learn_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 13)
    vectors = clouds()
    model = PCA(2).fit(vectors)
    wanted, found = model.transform(vectors), project(vectors)
    assert np.abs(found.points) == pytest.approx(np.abs(wanted), abs=1e-4)
    assert found.explained == pytest.approx(model.explained_variance_ratio_, rel=1e-4)
    assert found.points.dtype == np.float32


def test_a_map_is_the_same_each_time_and_lengths_do_not_count() -> None:
    vectors = clouds()
    assert (project(vectors).points == project(vectors.copy()).points).all()
    assert project(vectors * 3).points == pytest.approx(project(vectors).points, abs=1e-5)


@pytest.mark.parametrize("projection", Projection)
def test_few_points_are_a_map_too(projection: Projection) -> None:
    for n in (0, 1, 2):
        assert project(clouds(n), projection).points.shape == (n, 2)
    assert project(np.ones((3, 1), dtype=np.float32)).points.tolist() == [[0, 0]] * 3


@pytest.mark.slow
def test_umap_keeps_clouds_together() -> None:
    pytest.importorskip("umap")
    found = project(clouds(), Projection.UMAP)
    distances = np.linalg.norm(found.points[:, None] - found.points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) % 3 == np.arange(90) % 3).all()
    assert not len(found.explained)
