import json

import pytest

from data.formats.json_rows import is_jsonl, json_table, jsonl_table, parse_json
from data.problems import DataError

ROW = {"question": "수도는?", "context": "서울"}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('{"data": [', 1, 11), ('[\n {"question": "a"},\n {"question" "b"}\n]', 3, 14), ("[1] [2]", 1, 5)],
)
def test_a_break_is_placed(text: str, line: int, column: int) -> None:
    with pytest.raises(DataError, match=rf"The JSON breaks at line {line}, column {column} \("):
        parse_json(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="nested too deeply"):
        parse_json(text)


def test_numbers_stay_as_written() -> None:
    assert parse_json("[1.10, 12345678901234567890, NaN, 1e5]") == ["1.10", "12345678901234567890", None, "1e5"]
    assert parse_json("[" + "9" * 10_000 + "]") == ["9" * 10_000]


@pytest.mark.parametrize("value", [[ROW], {"data": [ROW]}, {"version": "1", "numbers": [1], "rows": [ROW]}, ROW])
def test_shapes_that_hold_rows(value: object) -> None:
    table = json_table(value)
    assert table.names == ("question", "context")
    assert [(row.number, row.cells) for row in table.rows] == [(1, ROW)]


def test_one_row_with_squad_answers_is_a_row() -> None:
    row = ROW | {"answers": [{"text": "서울", "answer_start": 0}]}
    assert next(iter(json_table(row).rows)).cells == row


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([], "an empty list"),
        (["a"], "a list whose first item is a text or number"),
        (True, "true or false"),
        ({"a": "1"}, r"an object without a list of objects \(keys: a\)"),
        ({"train": [ROW], "dev": [ROW]}, r"an object with several lists of objects \(train, dev\)"),
    ],
)
def test_other_shapes_are_refused(value: object, found: str) -> None:
    with pytest.raises(DataError, match=rf"The JSON is {found}. Expected SQuAD JSON"):
        json_table(value)


def test_broken_lines_cost_only_themselves() -> None:
    text = json.dumps(ROW) + '\n{"question": "강은?", "con\n\nnull\n' + json.dumps(ROW | {"id": "4"}) + "\r\n"
    table = jsonl_table(text)
    assert table.names == ("question", "context", "id")
    assert [(row.number, row.problem and row.problem.message) for row in table.rows] == [
        (1, None),
        (
            2,
            "Row 2: the line is no complete JSON: it breaks at column 21 (Unterminated string starting at). "
            "Write one object a line.",
        ),
        (
            4,
            "Row 4: an object with the columns of a row was expected here, not nothing (null). Mend or remove it.",
        ),
        (5, None),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}\n{"a": 2}\n', True),
        ('{"a": 1\n{"a": 2}\n{"a": 3}\n', True),
        ('{"a": 1}\n{"a":\n{"a":\n', True),
        ('{\n "a": [\n  {"b": 1}\n', False),
        ('[\n{"a": 1},\n{"a": 2}\n', False),
        ('{"a": 1', False),
    ],
)
def test_jsonl_is_told_from_half_a_json(text: str, expected: bool) -> None:
    assert is_jsonl(text) is expected


def test_lone_surrogates_in_names_are_mended() -> None:
    table = json_table([{"\ud800": "x", "question": "y"}])
    assert table.names == ("�", "question")
    assert next(iter(table.rows)).cells == {"�": "x", "question": "y"}
