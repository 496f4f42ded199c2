"""Densities against scipy's, and bands at their borders."""

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from embeddings.judgement import bands, densities


def test_a_score_on_a_border_belongs_to_the_higher_band() -> None:
    scores = np.array([0, 0.99, 1, 1.8, 2, 3, 3.2, 4, 4.99, 5], dtype=np.float32)
    assert bands(scores / np.float32(5)).tolist() == [0, 0, 1, 1, 2, 3, 3, 4, 4, 4]


def test_densities_are_those_of_scipy_on_one_grid_for_all_models() -> None:
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 1, 400)
    cosines = {"a": gold * 0.5 + rng.normal(0, 0.1, 400), "b": rng.normal(0, 0.3, 400)}
    found = densities({name: column.astype(np.float32) for name, column in cosines.items()}, gold)
    assert found.grid[0] == pytest.approx(cosines["b"].min(), abs=1e-6)
    assert found.grid[-1] == pytest.approx(max(column.max() for column in cosines.values()), abs=1e-6)
    assert found.counts.sum() == 400
    for band in range(5):
        inside = (gold >= band / 5) & (gold < (band + 1) / 5)
        assert found.counts[band] == inside.sum()
        for name, column in cosines.items():
            wanted = gaussian_kde(column[inside].astype(np.float32).astype(float))(found.grid)
            assert found.values[name][band] == pytest.approx(wanted)


def test_a_band_without_two_different_cosines_has_no_density() -> None:
    found = densities({"a": np.array([0.5, 0.5, 0.1, 0.9], dtype=np.float32)}, np.array([0.1, 0.1, 0.5, 0.9]))
    assert found.counts.tolist() == [2, 0, 1, 0, 1]
    assert not found.values["a"].any()
