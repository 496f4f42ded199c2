import csv
import io

import pandas as pd
import pytest

from data.csv_export import csv_bytes


def cells(table: pd.DataFrame) -> list[list[str]]:
    content = csv_bytes(table)
    assert content.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


@pytest.mark.parametrize("text", ["=1+1", "+82", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "＠SUM(A1)"])
def test_a_text_that_would_be_a_formula_is_harmless(text: str) -> None:
    assert cells(pd.DataFrame({"a": [text]}))[1] == [f"'{text}"]
    assert cells(pd.DataFrame({text: ["a"]}))[0] == [f"'{text}"]


def test_everything_else_stays() -> None:
    table = pd.DataFrame({"row": [-3, 4], "text": ["서울, =수도", 'a"b\nc'], "mixed": [None, -1.5]})
    assert cells(table) == [["row", "text", "mixed"], ["-3", "서울, =수도", ""], ["4", 'a"b\nc', "-1.5"]]


def test_columns_of_the_same_name_are_both_kept() -> None:
    assert cells(pd.DataFrame([["=a", "b"]], columns=["x", "x"])) == [["x", "x"], ["'=a", "b"]]
