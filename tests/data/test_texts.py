import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.texts import BLOCK, Texts, column_of, fingerprint_of

WORDS = st.lists(st.text("가나ab \n😀", max_size=3), max_size=12)


def column(texts: list[str], size: int = 3) -> object:
    """Return the texts as a chunked column."""
    pieces = [column_of(texts[start : start + size]) for start in range(0, len(texts), size)]
    return pa.chunked_array(pieces, pa.large_string())


@given(WORDS, st.integers(-13, 13), st.integers(-13, 13), st.sampled_from([-2, -1, 1, 2]))
def test_texts_are_a_sequence(texts: list[str], start: int, stop: int, step: int) -> None:
    sequence = Texts(column(texts))
    assert (list(sequence), len(sequence), sequence) == (texts, len(texts), texts)
    assert list(sequence[start:stop:step]) == texts[start:stop:step]
    assert list(sequence.blocks(2)) == [texts[start_row : start_row + 2] for start_row in range(0, len(texts), 2)]
    rows = list(range(len(texts)))[::-1]
    assert [sequence[row] for row in rows] == sequence.at(rows) == texts[::-1]
    assert sequence.lengths().tolist() == [len(text) for text in texts]


@given(st.lists(st.tuples(st.text("가a", max_size=2), st.text("나b", max_size=2)), max_size=8))
def test_puts_titles_on_the_line_before_the_text(rows: list[tuple[str, str]]) -> None:
    titles = [title for title, _ in rows]
    texts = [text for _, text in rows]
    titled = Texts(column(texts), column(titles))
    expected = [f"{title}\n{text}" if title else text for title, text in rows]
    assert list(titled) == expected == [titled[row] for row in range(len(rows))]
    assert list(titled[1:4]) == expected[1:4]
    assert list(titled[::2]) == expected[::2]


def test_selects_many_rows_like_few() -> None:
    texts = [f"글 {row}" for row in range(BLOCK * 2 + 5)]
    titles = ["제목" * (row % 2) for row in range(BLOCK * 2 + 5)]
    rows = np.random.default_rng(0).integers(len(texts), size=BLOCK + 1)  # some twice, in no order
    for sequence in (Texts(column(texts, 1000)), Texts(column(texts, 1000), column(titles, 1500))):
        assert sequence.at(rows) == [sequence[row] for row in rows.tolist()]
    assert sequence.at(rows[:0]) == []


@given(WORDS)
def test_finds_the_first_repeated_row(texts: list[str]) -> None:
    expected = next((row for row, text in enumerate(texts) if text in texts[:row]), None)
    assert Texts(column(texts)).repeated_row() == expected


def test_fingerprint_follows_its_formula() -> None:
    content = (2).to_bytes(8, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little") + "서울a".encode()
    assert fingerprint_of(["서울", "", "a"]) == hashlib.sha256(content).hexdigest()
    several = [["ab"], ["a", "b"], ["", "ab"], ["ab", ""], [], ["\ud83d\ude00"], ["😀"]]
    assert len({fingerprint_of(texts) for texts in several}) == len(several)


def test_fingerprint_is_independent_of_the_container() -> None:
    texts = [f"글 {row}" for row in range(BLOCK + 3)]
    assert Texts(column(texts, 1000)).fingerprint == fingerprint_of(texts) == fingerprint_of(iter(texts))
    titled = Texts(column(texts), column(["제목"] * len(texts)))
    assert titled.fingerprint == fingerprint_of([f"제목\n{text}" for text in texts])


@given(st.lists(st.tuples(st.text("가a", max_size=2), st.text("나b😀", max_size=2)), max_size=8), st.integers(1, 3))
def test_column_has_the_fingerprint_of_its_texts(rows: list[tuple[str, str]], chunk: int) -> None:
    titles = [title for title, _ in rows]
    texts = [text for _, text in rows]
    for whole in (Texts(column(texts, chunk)), Texts(column(texts, chunk), column(titles, chunk))):
        for part in (whole, whole[1:], whole[2:5]):
            assert part.fingerprint == fingerprint_of(list(part))
    for kind in (pa.string(), pa.large_string()):
        assert Texts(pa.array(texts, kind)).fingerprint == fingerprint_of(texts)


@pytest.mark.parametrize(
    ("substring", "rows"), [("bm", [0, 1]), ("BM25", [0, 1]), (".", [3]), ("서울", [2]), ("x", [])]
)
def test_finds_substring_in_any_case(substring: str, rows: list[int]) -> None:
    assert Texts(column(["BM25", "a bm25", "서울은", "a.b"])).containing(substring).nonzero()[0].tolist() == rows


def test_rejects_lone_surrogate() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        column_of(["a", "\ud800"])
