"""Kept sets of pairs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data.pairs.records import FILE, PairKind, PairSet, open_pairs, write_pairs
from data.pairs.store import damaged, find, keep, load, remove, stored
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


def test_the_newest_is_first_and_equal_content_is_kept_once(workspace_folder: Path) -> None:
    keep(SCORED)
    other = keep(SETS[1])
    again = keep(replace(SCORED, name="새 이름"))
    assert [kept.key for kept in stored()] == [again.key, other.key]
    assert load(again.key).name == "새 이름"


def test_removing(workspace_folder: Path) -> None:
    kept = keep(SCORED)
    remove(kept.key)
    assert stored() == []
    assert list((workspace_folder / "pairs").iterdir()) == []
    with pytest.raises(DataError, match=f"There is no set of sentence pairs {kept.key}"):
        remove(kept.key)


@pytest.mark.parametrize("key", ["..", "../pairs", "", "0123456789abcdeg", "/", "\x00"])
def test_a_key_is_never_a_path(workspace_folder: Path, key: str) -> None:
    keep(SCORED)
    for act in (load, remove):
        with pytest.raises(DataError, match="There is no set of sentence pairs"):
            act(key)
    assert len(stored()) == 1


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


def test_an_unreadable_note_is_told_and_passed_over(workspace_folder: Path) -> None:
    kept = keep(SCORED)
    (workspace_folder / "pairs" / kept.key / "set.json").write_text("{")
    assert (stored(), damaged()) == ([], [kept.key])
    remove(kept.key)
    assert damaged() == []


def test_sentences_are_mapped_and_not_read(tmp_path: Path) -> None:
    many = PairSet.of("많은 짝", PairKind.PARALLEL, [["문장"] * 200_000, ["a sentence"] * 200_000])
    write_pairs(tmp_path, many)
    before = pa.total_allocated_bytes()
    opened = open_pairs(tmp_path, many.name)
    assert pa.total_allocated_bytes() - before <= 200_000  # a byte a row: the parts
    assert opened.texts[1][199_999] == "a sentence"
    assert opened.at(np.array([70_000])).sentences == ["문장", "a sentence"]


def test_a_set_is_found_by_key_and_by_name(workspace_folder: Path) -> None:
    kept = keep(SCORED)
    assert find(kept.key).fingerprint == find(SCORED.name).fingerprint == SCORED.fingerprint


@pytest.mark.parametrize("reference", ["nothing.tsv", "", "x" * 5000, "\x00"])
def test_what_exists_is_listed_where_nothing_is_found(workspace_folder: Path, reference: str) -> None:
    kept = keep(SCORED)
    with pytest.raises(DataError) as caught:
        find(reference)
    assert str(caught.value).endswith(f"{SCORED.name} ({kept.key}).")


def test_the_shelf_is_read_by_all_and_changed_by_nobody(workspace_folder: Path) -> None:
    shared = keep(SCORED)
    with acting_as(user_of("https://id.example.org", "alice")):
        own = keep(SETS[1])
        assert [(kept.key, kept.shared) for kept in stored()] == [(own.key, False), (shared.key, True)]
        assert load(shared.key).fingerprint == SCORED.fingerprint
        with pytest.raises(DataError):
            remove(shared.key)
    with acting_as(user_of("https://id.example.org", "bob")), pytest.raises(DataError):
        load(own.key)
    assert [kept.key for kept in stored()] == [shared.key]


def test_a_user_keeps_no_larger_set_than_the_limit(workspace_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PAIRS", "1")
    with acting_as(user_of("https://id.example.org", "alice")):
        with pytest.raises(LimitError, match="the set has 2 pairs, and may have 1") as told:
            keep(SCORED)
        assert told.value.code == "pairs"
        assert stored() == []
    keep(SCORED)
