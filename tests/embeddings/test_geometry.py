"""Alignment and uniformity against the paper's lines, singular values against numpy, anisotropy pair by pair."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from data.pairs.records import Label, PairKind, PairSet
from embeddings.bootstrap import Figure, mean_figures
from embeddings.geometry import (
    alignment,
    anisotropy_parts,
    positive_rows,
    singular_values,
    squared_distances,
    uniformity,
    uniformity_parts,
)


def points(n: int, dimensions: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(0.3, 1, (n, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.slow
def test_both_are_the_two_lines_of_the_paper() -> None:
    import torch

    first, second = points(300), points(300, seed=1)
    x, y = torch.tensor(first), torch.tensor(second)
    assert alignment(first, second) == pytest.approx((x - y).norm(dim=1).pow(2).mean().item(), rel=1e-5)
    assert uniformity(first) == pytest.approx(torch.pdist(x).pow(2).mul(-2).exp().mean().log().item(), rel=1e-5)


def test_uniformity_is_that_of_all_distances_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embeddings.geometry._ROWS", 7)
    vectors = points(50)
    for t in (2.0, 3.0):
        assert uniformity(vectors, t) == pytest.approx(math.log(np.exp(-t * pdist(vectors) ** 2).mean()), rel=1e-5)


def test_lengths_do_not_count_and_a_vector_of_zeros_is_left_out() -> None:
    vectors = points(20)
    scaled = vectors * np.linspace(0.5, 3, 20, dtype=np.float32)[:, None]
    with_zeros = np.concatenate([scaled, np.zeros((2, 8), dtype=np.float32)])
    assert uniformity(with_zeros) == pytest.approx(uniformity(vectors), rel=1e-5)
    for parts in (anisotropy_parts, uniformity_parts):
        assert np.isnan(parts(with_zeros)).tolist() == [False] * 20 + [True] * 2
        assert np.nanmean(parts(with_zeros)) == pytest.approx(parts(vectors).mean(), rel=1e-4)
    assert alignment(with_zeros[10:], with_zeros[:12]) == pytest.approx(alignment(vectors[10:], vectors[:10]), rel=1e-5)


def test_points_in_one_place_and_opposite_ones_by_hand() -> None:
    same, opposite = np.ones((2, 1), dtype=np.float32), np.array([[1.0], [-1.0]], dtype=np.float32)
    assert (alignment(same, same), uniformity(same)) == (0, 0)
    assert alignment(opposite, -opposite) == 4
    assert uniformity(opposite) == pytest.approx(-8)


def test_what_is_not_defined_is_no_number() -> None:
    assert math.isnan(uniformity(points(1)))
    assert math.isnan(alignment(points(0), points(0)))
    assert np.isnan(anisotropy_parts(points(1))).all()
    assert np.isnan(uniformity_parts(points(1))).all()


def interval(parts: np.ndarray, groups: np.ndarray) -> Figure:
    return mean_figures({"a": parts}, groups, (-math.inf, 4.0))[0]["a"]


def over_samples(of: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """How wide the intervals of 50 samples of sentences are, and how far the figures of 300 lie apart."""
    told = [interval(of(points(200, seed=seed)), np.arange(200)) for seed in range(50)]
    spread = np.std([of(points(200, seed=seed)).mean() for seed in range(300)])
    return float(np.mean([one.high - one.low for one in told])), float(2 * 1.96 * spread)


def test_the_intervals_of_means_over_pairs_are_those_of_other_samples_of_sentences() -> None:
    for of in (uniformity_parts, anisotropy_parts):
        width, spread = over_samples(of)
        assert width == pytest.approx(spread, rel=0.15)


def test_sentences_in_groups_are_surer_of_less() -> None:
    vectors = np.repeat(points(50), 4, axis=0) + np.random.default_rng(1).normal(0, 0.01, (200, 8)).astype(np.float32)
    parts = uniformity_parts(vectors)
    alone, together = interval(parts, np.arange(200)), interval(parts, np.repeat(np.arange(50), 4))
    assert parts.mean() == pytest.approx(uniformity(vectors))
    assert together.high - together.low == pytest.approx(2 * (alone.high - alone.low), rel=0.1)
    assert interval(parts, np.zeros(200, dtype=int))[1:] == (-math.inf, 4)


def test_the_interval_of_alignment_holds_it() -> None:
    distances = squared_distances(points(100), points(100, seed=1))
    figure = interval(distances, np.arange(100))
    assert figure.value == alignment(points(100), points(100, seed=1))
    assert figure.high - figure.low == pytest.approx(2 * 1.96 * distances.std() / 10, rel=0.1)
    assert figure.low < figure.value < figure.high


def test_singular_values_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embeddings.geometry._ROWS", 11)
    vectors = points(60)
    wanted = np.linalg.svd(vectors, compute_uv=False)
    assert singular_values(vectors) == pytest.approx(wanted / wanted[0], rel=1e-4)


def test_anisotropy_is_the_mean_of_all_cosines() -> None:
    vectors = points(40)
    assert anisotropy_parts(vectors).mean() == pytest.approx(
        np.mean((vectors @ vectors.T)[np.triu_indices(40, 1)]), rel=1e-4
    )


def test_positives_of_each_kind() -> None:
    sentences = ["가", "나", "다", "라"]
    scored = PairSet.of("s", PairKind.SCORED, [sentences, sentences], [4.0, 3.9, 5.0, 0.0], scale=(0, 5))
    assert positive_rows(scored).tolist() == [0, 2]
    labels = [Label.NEUTRAL, Label.ENTAILMENT, Label.CONTRADICTION, Label.ENTAILMENT]
    assert positive_rows(PairSet.of("n", PairKind.LABELLED, [sentences, sentences], labels)).tolist() == [1, 3]
    assert positive_rows(PairSet.of("t", PairKind.TRIPLETS, [sentences] * 3)).tolist() == [0, 1, 2, 3]
    assert positive_rows(PairSet.of("o", PairKind.SENTENCES, [sentences])).tolist() == []
