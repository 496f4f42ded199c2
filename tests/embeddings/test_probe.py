"""The linear probe against scikit-learn's classifier fitted by hand, and its sums by counting."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from embeddings.judgement import features, probe, training_rows


def labelled(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels that stand in one dimension, not quite without error."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 6)).astype(np.float32)
    noise = rng.normal(0, 0.4, n)
    return rows, np.digitize(rows[:, 0] + noise, [-0.5, 0.5])


def test_features_are_both_vectors_and_how_far_apart_they_are() -> None:
    found = features(np.array([[1.0, -2.0]]), np.array([[3.0, 1.0]]))
    assert found.tolist() == [[1, -2, 3, 1, 2, 3]]


def test_a_probe_is_the_classifier_of_scikit_learn_judged_by_counting() -> None:
    train, judged = labelled(300, 0), labelled(100, 1)
    found = probe(train, np.arange(300), judged)
    assert found is not None
    scaler = StandardScaler().fit(train[0])
    by_hand = LogisticRegression(C=found.strength, max_iter=1000).fit(scaler.transform(train[0]), train[1])
    said = by_hand.predict(scaler.transform(judged[0]))
    assert found.correct.tolist() == (said == judged[1]).tolist()
    assert 0.6 < found.correct.mean() < 1
    assert found.confusion.sum(axis=1).tolist() == np.bincount(judged[1]).tolist()
    assert found.confusion.trace() == found.correct.sum()
    assert found.trained_on.tolist() == np.bincount(train[1]).tolist()
    assert found.chance == np.bincount(judged[1]).max() / 100


def test_labels_that_stand_in_no_vector_are_guessed() -> None:
    rows, _ = labelled(300, 0)
    labels = np.arange(300) % 3
    found = probe((rows[:200], labels[:200]), np.arange(200), (rows[200:], labels[200:]))
    assert found is not None
    assert found.correct.mean() < 0.5


def test_there_is_no_probe_without_two_labels_or_anything_to_judge() -> None:
    rows, labels = labelled(30, 0)
    same, nothing = np.zeros(30, dtype=int), (rows[:0], labels[:0])
    assert probe((rows, same), np.arange(30), (rows, labels)) is None
    assert probe((rows, labels), np.arange(30), nothing) is None
    assert probe((rows, labels), np.zeros(30, dtype=int), (rows, labels)) is None


def test_of_many_training_rows_some_are_drawn_the_same_each_time() -> None:
    rows = np.arange(100, 200)
    assert training_rows(rows, 1000) is rows
    drawn = training_rows(rows, 30)
    assert len(set(drawn.tolist())) == 30
    assert set(drawn.tolist()) < set(rows.tolist())
    assert drawn.tolist() == sorted(training_rows(rows, 30).tolist())
