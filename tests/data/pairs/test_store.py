"""Kept sets of pairs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data.pairs.records import FILE, PairKind, PairSet, open_pairs, write_pairs
from data.pairs.store import keep, load, stored
from data.problems import DataError
from data.workspace import LimitError, acting_as, user_of

SCORED = PairSet.of(
    "../이름: 짝/들", PairKind.SCORED, [["가", "나\n다"], ["라", "가"]], [0.5, 5], published=[2, -1], scale=(0, 5)
)
SETS = (
    SCORED,
    PairSet.of("판정", PairKind.LABELLED, [["가", "나"], ["다", "라"]], [0, 2]),
    PairSet.of("셋", PairKind.TRIPLETS, [["가"], ["나"], ["다"]], published=[1]),
    PairSet.of("번역", PairKind.PARALLEL, [["가"], ["a"]]),
    PairSet.of("문장", PairKind.SENTENCES, [["가", "나"]]),
)


@pytest.mark.parametrize("pairs", SETS, ids=lambda pairs: pairs.kind)
def test_what_is_kept_comes_back(workspace_folder: Path, pairs: PairSet) -> None:
    kept = keep(pairs, source="짝.tsv")
    assert (kept.key, kept.name, kept.source) == (pairs.fingerprint[:16], pairs.name, "짝.tsv")
    assert (kept.kind, kept.rows, kept.scale) == (pairs.kind, len(pairs), pairs.scale)
    again = load(kept.key)
    assert (again.name, again.kind, again.scale, again.texts) == (pairs.name, pairs.kind, pairs.scale, pairs.texts)
    assert (again.values.tolist(), again.values.dtype) == (pairs.values.tolist(), pairs.values.dtype)
    assert (again.published.tolist(), again.published.dtype) == (pairs.published.tolist(), np.int8)
    assert again.fingerprint == pairs.fingerprint
    assert stored() == [kept]
    assert [path.name for path in (workspace_folder / "pairs").iterdir()] == [kept.key]


@pytest.mark.parametrize(
    "damage",
    [
        lambda old: old[:-9],
        lambda _: b"ARROW1",
        lambda old: old.replace("라".encode(), "마".encode()),
        lambda old: old.replace(b'"scored"', b'"parallel"'),
        lambda old: old.replace(b'"scored"', b'"unknown"'),
    ],
)
def test_changed_content_is_refused(workspace_folder: Path, damage: Callable[[bytes], bytes]) -> None:
    kept = keep(SCORED)
    path = workspace_folder / "pairs" / kept.key / FILE
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"The kept set of sentence pairs {kept.key} cannot be read"):
        load(kept.key)


def test_sentences_are_mapped_and_not_read(tmp_path: Path) -> None:
    many = PairSet.of("많은 짝", PairKind.PARALLEL, [["문장"] * 200_000, ["a sentence"] * 200_000])
    write_pairs(tmp_path, many)
    before = pa.total_allocated_bytes()
    opened = open_pairs(tmp_path, many.name)
    assert pa.total_allocated_bytes() - before <= 200_000  # a byte a row: the parts
    assert opened.texts[1][199_999] == "a sentence"
    assert opened.at(np.array([70_000])).sentences == ["문장", "a sentence"]


def test_a_user_keeps_no_larger_set_than_the_limit(workspace_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PAIRS", "1")
    with acting_as(user_of("https://id.example.org", "alice")):
        with pytest.raises(LimitError, match="the set has 2 pairs, and may have 1") as told:
            keep(SCORED)
        assert told.value.code == "pairs"
        assert stored() == []
    keep(SCORED)
