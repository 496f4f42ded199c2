"""Vectors of questions asked last: the same as computed, each text encoded once, and no more kept than allowed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.models.vectors import RecentVectors


@given(st.lists(st.lists(st.text("abc", max_size=2), min_size=1, max_size=6), max_size=20), st.integers(1, 5))
def test_vectors_are_those_of_the_encoder_and_few_are_kept(requests: list[list[str]], most: int) -> None:
    recent = RecentVectors(most)

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[float(len(text)), float(sum(map(ord, text)))] for text in texts], dtype=np.float32)

    for texts in requests:
        np.testing.assert_array_equal(recent.of(texts, encode), encode(texts))
        assert len(recent) <= most


def test_a_text_that_was_asked_last_is_not_encoded_again() -> None:
    recent, encoded = RecentVectors(2), list[str]()

    def encode(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return np.ones((len(texts), 3), dtype=np.float32)

    for texts in (["a"], ["b"], ["a"], ["c"], ["a"], ["b"]):
        recent.of(texts, encode)
    assert encoded == ["a", "b", "c", "b"]
