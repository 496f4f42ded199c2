import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.passages import Passage, Passages, RowOfId
from data.store import CATALOG, read_entry
from data.texts import BLOCK
from tests.doubles import PASSAGES

FEW = st.lists(
    st.builds(Passage, st.text(max_size=3), st.text('가"\\\n\x01', max_size=4), st.text(max_size=2)), max_size=6
)


@given(FEW, st.integers(-7, 7), st.integers(-7, 7), st.sampled_from([-1, 1, 2]))
def test_it_is_the_sequence_of_its_passages(passages: list[Passage], start: int, stop: int, step: int) -> None:
    found = Passages.of(passages)
    assert (list(found), len(found), found) == (passages, len(passages), tuple(passages))
    assert found[start:stop:step] == passages[start:stop:step]
    assert [found[row] for row in range(len(passages))] == passages
    assert Passages.of(found) is found


@given(FEW)
def test_the_fingerprint_by_its_formula(passages: list[Passage]) -> None:
    lines = "".join(json.dumps([p.id, p.text, p.title], ensure_ascii=False) + "\n" for p in passages)
    assert Passages.of(passages).fingerprint == hashlib.sha256(lines.encode()).hexdigest()


def test_the_samples_fingerprint_has_never_changed() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    assert sample.corpus_fingerprint == "9c655054d83f667e8c02961f73333f9b663d0a768e051198bbef100ac2d06942"
    assert sample.fingerprint == "5ab6feb379263eecc3cb06ee2b78b3e0f6dd13723c7681737b73c8564e0c233b"


def test_equal_are_the_same_passages_in_the_same_order() -> None:
    passages = Passages.of(PASSAGES)
    assert passages == Passages.of(list(PASSAGES))
    assert hash(passages) == hash(Passages.of(list(PASSAGES)))
    assert passages == Passages.of([*PASSAGES, *PASSAGES])[5:]  # whatever pieces the columns are in
    assert passages != PASSAGES[::-1]
    assert passages != PASSAGES[:4]
    assert passages != 5


def test_indexed_texts() -> None:
    passages = Passages.of([Passage("1", "가", "제목"), Passage("2", "나")])
    assert passages.indexed_texts(title=True) == ["제목\n가", "나"]
    assert passages.indexed_texts(title=False) == ["가", "나"]


def test_more_than_a_block() -> None:
    ids = [str(row) for row in range(2 * BLOCK + 1)]
    passages = Passages.of(Passage(id_, f"글 {id_}") for id_ in ids)
    assert list(passages.ids) == ids
    assert passages[BLOCK] == Passage(str(BLOCK), f"글 {BLOCK}")
    assert passages.row_of[ids[-1]] == 2 * BLOCK
    assert passages.repeated == ""


@pytest.mark.parametrize(
    ("passage", "told"),
    [(Passage("p1", "새 글"), "passage id 'p1'"), (Passage("p9", PASSAGES[3].text), "passage text")],
)
def test_what_is_repeated_is_told(passage: Passage, told: str) -> None:
    assert Passages.of([*PASSAGES, passage]).repeated.startswith(told)


@given(st.lists(st.text("ab", max_size=3), unique=True), st.lists(st.text("ab", max_size=3)))
def test_rows_by_id(ids: list[str], wanted: list[str]) -> None:
    row_of = Passages.of(Passage(id_, str(row)) for row, id_ in enumerate(ids)).row_of
    expected = {id_: row for row, id_ in enumerate(ids)}
    assert row_of == expected
    assert row_of.rows(wanted).tolist() == [expected.get(id_, -1) for id_ in wanted]


def test_ids_with_one_hash_are_told_apart() -> None:
    class SameHashes:
        def __init__(self, ids: list[str]) -> None:
            self.ids = ids

        def hashes(self) -> object:
            return Passages.of(Passage(hashed, "") for hashed in ["b"] * len(self.ids)).ids.hashes()

        def __getitem__(self, row: int) -> str:
            return self.ids[row]

        def at(self, rows: list[int]) -> list[str]:
            return [self.ids[row] for row in rows]

    row_of = RowOfId(SameHashes(["a", "b", "c"]))
    assert row_of["b"] == 1
    assert row_of.rows(["b"]).tolist() == [1]
    assert "d" not in row_of
