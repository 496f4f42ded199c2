""" """

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.layouts.cells import ListedPassage, passages_in


def _texts(cell: Any) -> list[str]:
    return [passage.text for passage in passages_in(cell)]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("사과는 붉다.", ["사과는 붉다."]),
        (["사과", " 배 "], ["사과", "배"]),
        (np.array(["사과", "배"], dtype=object), ["사과", "배"]),
        ('["사과", "배"]', ["사과", "배"]),
        ("['사과' '배']", ["사과", "배"]),
        ([["사과", "배"], ["감"]], ["사과", "배", "감"]),
        ("[1]", ["[1]"]),
        ("[괄호로 시작하는 글", ["[괄호로 시작하는 글"]),
        ([None, "", "감"], ["감"]),
        (None, []),
        ({}, []),
        ([], []),
        ([[[[[["너무 깊다"]]]]]], []),
    ],
)
def test_texts(cell: Any, expected: list[str]) -> None:
    assert _texts(cell) == expected


def test_objects_with_id_title_and_mark() -> None:
    entry = {"passage_id": 7, "title": "사과", "text": "사과는 붉다.", "score": 3.5, "is_selected": "1"}
    assert passages_in([entry]) == [ListedPassage("7", "사과", "사과는 붉다.", is_relevant=True)]


@pytest.mark.parametrize(
    ("mark", "expected"),
    [(1, True), ("0", False), (True, True), ("no", False), (2, True), (None, None), ("?", None), ([], None)],
)
def test_marks(mark: Any, expected: bool | None) -> None:
    assert passages_in([{"text": "감", "is_relevant": mark}])[0].is_relevant is expected


def test_pairs_of_title_and_sentences() -> None:
    assert passages_in([["사과", ["사과는 붉다.", " 달다."]], ["배", ["배는 크다."]]]) == [
        ListedPassage("", "사과", "사과는 붉다. 달다."),
        ListedPassage("", "배", "배는 크다."),
    ]


@pytest.mark.parametrize(
    "columns",
    [
        {"is_selected": [0, 1], "passage_text": ["사과", "배"], "url": ["u", "v"]},
        {"is_selected": np.array([0, 1]), "passage_text": np.array(["사과", "배"], dtype=object)},
        '{"is_selected": [0, 1], "passage_text": ["사과", "배"]}',
    ],
)
def test_a_dict_of_lists_is_a_list_of_objects(columns: Any) -> None:
    assert [(passage.text, passage.is_relevant) for passage in passages_in(columns)] == [("사과", False), ("배", True)]


def test_paragraphs_of_a_document_are_one_passage_with_its_mark() -> None:
    document = {"title": "사과", "paragraphs": ["붉다.", "달다."], "segmented_title": ["사", "과"], "is_selected": True}
    assert passages_in([document]) == [ListedPassage("", "사과", "붉다. 달다.", is_relevant=True)]


def test_an_object_of_passages_by_id() -> None:
    assert [(one.id, one.text) for one in passages_in({"d1": {"text": "사과"}, "d2": {"text": "배"}})] == [
        ("d1", "사과"),
        ("d2", "배"),
    ]


@pytest.mark.parametrize(("first", "expected"), [(0, ["", ""]), (1, ["", ""]), (5, ["5", "6"])])
def test_ids_that_number_the_entries_are_no_ids(first: int, expected: list[str]) -> None:
    entries = [{"id": first + row, "text": text} for row, text in enumerate(("사과", "배"))]
    assert [passage.id for passage in passages_in(entries)] == expected


def test_titles_in_metadata() -> None:
    (passage,) = passages_in([{"page_content": "감", "metadata": {"title": "과일", "source": "a.md"}}])
    assert (passage.title, passage.text) == ("과일", "감")


CELLS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.just("[1, {"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "title", "id", "sentences", "label", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(CELLS)
def test_any_cell_has_passages_or_none(cell: Any) -> None:
    for passage in passages_in(cell):
        assert passage.text
        assert all(isinstance(part, str) for part in passage[:3])
