"""Near-duplicates are those of the exact Jaccard similarity, in any script, with few pairs for many copies."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.questions.content import SIMILARITY, near_duplicates


def random_texts(count: int, first: int, letters: int, length: int = 300) -> list[str]:
    rng = np.random.default_rng(first)
    return ["".join(chr(first + code) for code in rng.integers(0, letters, length)) for _ in range(count)]


def similarity(a: str, b: str, shingle: int = 5) -> float:
    first, second = ({text[at : at + shingle] for at in range(len(text) - shingle + 1)} for text in (a, b))
    return len(first & second) / len(first | second)


@pytest.mark.parametrize(("first", "letters"), [(0xAC00, 11_000), (ord("a"), 26), (0x4E00, 5_000), (0x3041, 80)])
def test_finds_the_pairs_of_the_exact_similarity(first: int, letters: int) -> None:
    texts = random_texts(400, first, letters)
    rng = np.random.default_rng(1)
    for row in range(100):
        changed = list(texts[row])
        for at in rng.integers(0, 300, row // 8):
            changed[int(at)] = chr(first + int(rng.integers(letters)))
        texts[300 + row] = "".join(changed)
    expected = {(row, 300 + row) for row in range(100) if similarity(texts[row], texts[300 + row]) >= SIMILARITY}
    found = near_duplicates(texts)
    assert 40 <= len(expected) <= 80
    assert {(a, b) for a, b in found.pairs.tolist()} == expected
    assert found.repeated == len(expected)


def test_case_spaces_and_composition_do_not_count() -> None:
    text = "Zürich 두루미는 겨울에 철원 들판으로 날아온다. It stays until March."
    variants = [
        text,
        text.upper(),
        text.replace(" ", "\n "),
        unicodedata.normalize("NFD", text),
        "전혀 다른 글이다, 아주.",
    ]
    assert near_duplicates(variants).cluster.tolist() == [0, 0, 0, 0, 1]


def test_short_and_empty_texts_are_no_duplicates() -> None:
    assert near_duplicates(["", "", "가", "가", "    "]).repeated == 0
    assert near_duplicates([]).repeated == 0
    assert near_duplicates(["가나다라마", "가나다라마"]).repeated == 1


def test_other_numbers_make_another_text() -> None:
    texts = ["What did the company earn in the year 2019?", "What did the company earn in the year 2018?"]
    assert near_duplicates(texts, shingle=3, numbers=0).repeated == 1
    assert near_duplicates(texts, shingle=3).repeated == 0


def test_a_few_other_numbers_make_no_other_text() -> None:
    (text,) = random_texts(1, 0xAC00, 11_000)
    versions = [f"{text} 1998 2003 2010 인구 {count}" for count in (5120, 5133)]
    assert near_duplicates(versions).repeated == 1
    assert near_duplicates(versions, numbers=1).repeated == 0


def test_many_copies_give_few_pairs() -> None:
    texts = [random_texts(1, 0xAC00, 11_000)[0] + chr(0xAC00 + number) for number in range(3_000)]
    found = near_duplicates(texts)
    assert found.repeated == 2_999
    assert len(found.pairs) < 10 * len(texts)


@given(st.lists(st.text(max_size=40), max_size=12))
def test_takes_any_texts(texts: list[str]) -> None:
    found = near_duplicates(texts)
    assert len(found.cluster) == len(texts)
    assert all(a < b for a, b in found.pairs.tolist())
