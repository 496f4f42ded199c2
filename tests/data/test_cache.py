"""Work is done once, and a damaged file costs time, never a result."""

from pathlib import Path

import numpy as np
import pytest

from data.cache import Arrays, cached_arrays, key_of
from data.workspace import workspace
from text.analysis import analyze
from text.analyzers import Analyzer
from text.tokens import tokens_of

ARRAYS = {"numbers": np.arange(50, dtype=np.int32), "shares": np.linspace(0, 1, 7)}


def compute() -> Arrays:
    return ARRAYS


def compute_nothing() -> Arrays:
    raise AssertionError("computed again")


def kept_file(kind: str) -> Path:
    (path,) = (workspace() / "cache" / kind).glob("*.npz")
    return path


def assert_same(arrays: Arrays) -> None:
    assert arrays.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], values)
        assert arrays[name].dtype == values.dtype


def test_computed_once() -> None:
    assert_same(cached_arrays("kind", "key", compute))
    assert_same(cached_arrays("kind", "key", compute_nothing))
    assert [path.name for path in (workspace() / "cache" / "kind").iterdir()] == ["key.npz"]
    with pytest.raises(AssertionError, match="computed again"):
        cached_arrays("kind", "other", compute_nothing)


def test_what_is_not_worth_a_file_is_not_kept() -> None:
    cached_arrays("kind", "key", compute, keep=False)
    assert not (workspace() / "cache").exists()


def test_a_file_torn_anywhere_is_computed_anew() -> None:
    cached_arrays("kind", "key", compute)
    whole = kept_file("kind").read_bytes()
    for length in range(0, len(whole), 5):
        kept_file("kind").write_bytes(whole[:length])
        assert_same(cached_arrays("kind", "key", compute))
        assert kept_file("kind").read_bytes() == whole


def test_a_file_with_a_damaged_byte_is_computed_anew() -> None:
    cached_arrays("kind", "key", compute)
    whole = kept_file("kind").read_bytes()
    for place in range(0, whole.index(b"PK\x01\x02"), 5):  # the arrays; behind them lies the table of contents
        kept_file("kind").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert_same(cached_arrays("kind", "key", compute))


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 99)], ids=["encrypted", "unknown compression"])
def test_a_damaged_table_of_contents_is_computed_anew(offset: int, value: int) -> None:
    cached_arrays("kind", "key", compute)
    damaged = bytearray(kept_file("kind").read_bytes())
    damaged[damaged.index(b"PK\x01\x02") + offset] = value
    kept_file("kind").write_bytes(damaged)
    assert_same(cached_arrays("kind", "key", compute))


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04N.", b"\x93NUMPY"])
def test_a_file_of_another_kind_is_computed_anew(content: bytes) -> None:
    cached_arrays("kind", "key", compute)
    kept_file("kind").write_bytes(content)
    assert_same(cached_arrays("kind", "key", compute))


def test_a_disk_that_cannot_be_written_costs_only_the_saving() -> None:
    workspace().mkdir(parents=True)
    (workspace() / "cache").write_text("a file where the folder should be")
    assert_same(cached_arrays("kind", "key", compute))


def test_tokens_are_read_from_disk_and_torn_ones_found_again() -> None:
    texts = ["한글은 세종대왕이 만들었다.", "The B-52"]
    tokens_of(Analyzer.BIGRAM, texts)
    path = kept_file("tokens")
    other = tokens_of(Analyzer.BIGRAM, ["다른", "글"])
    (second,) = {*path.parent.glob("*.npz")} - {path}
    whole = path.read_bytes()
    path.write_bytes(second.read_bytes())  # what is read is what lies there
    assert tokens_of(Analyzer.BIGRAM, texts).texts() == other.texts()
    path.write_bytes(whole[:-40])
    assert tokens_of(Analyzer.BIGRAM, texts).texts() == analyze(Analyzer.BIGRAM, texts)
    assert path.read_bytes() == whole


def test_keys_differ_where_anything_differs() -> None:
    parts: list[tuple[object, ...]] = [("a",), ("a", "b"), ("ab",), (["a", "b"],), ("a", ["b"]), (1,), ("1",), (None,)]
    parts += [("\ud800",), ("?",), ({"a": 1},), (["a", 1],)]
    assert len({key_of(*values) for values in parts}) == len(parts)
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
