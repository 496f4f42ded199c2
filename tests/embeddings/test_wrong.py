"""The most misplaced pairs, by hand."""

import numpy as np

from embeddings.judgement import wrong_pairs


def test_the_worst_pairs_are_those_whose_ranks_differ_most() -> None:
    gold = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    cosines = {"a": np.array([0.9, 0.2, 0.5, 0.6, 0.1]), "b": np.array([0.1, 0.2, 0.3, 0.4, 0.5])}
    found = wrong_pairs(cosines, gold, "a", most=3)
    assert found.rows.tolist() == [0, 4, 1]  # ranks of cosine 5 2 3 4 1, of gold 1 2 3 4 5
    assert found.misplaced.tolist() == [0.8, -0.8, 0.0]
    assert found.cosines["a"].tolist() == [0.9, 0.1, 0.2]
    assert found.cosines["b"].tolist() == [0.1, 0.5, 0.2]
    assert wrong_pairs(cosines, gold, "b").misplaced.tolist() == [0] * 5


def test_equal_scores_share_their_middle_rank() -> None:
    found = wrong_pairs({"a": np.array([0.5, 0.5])}, np.array([0.0, 1.0]), "a")
    assert found.misplaced.tolist() == [0.25, -0.25]
