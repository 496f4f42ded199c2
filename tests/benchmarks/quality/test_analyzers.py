import numpy as np

from benchmarks.quality.analyzers import bytes_of
from text.tokens import Tokens


def test_tokens_are_as_large_as_their_arrays_and_their_words() -> None:
    tokens = Tokens(["가", "ab"], np.array([0, 1, 1], dtype=np.int32), np.array([0, 3], dtype=np.int64))
    assert bytes_of(tokens) == 3 * 4 + 2 * 8 + (3 + 1) + (2 + 1)
