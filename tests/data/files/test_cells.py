from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from data.files.cells import CellError, as_text, mend, shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("  가 나\n", "가 나"),
        (None, ""),
        (float("nan"), ""),
        (pd.NaT, ""),
        (3, "3"),
        (3.0, "3"),
        (3.25, "3.25"),
        (float("inf"), "inf"),
        (np.float64(2.0), "2"),
        (np.int64(7), "7"),
        (True, "True"),
        (b"\xea\xb0\x80\xff", "가�"),
        (datetime(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, 4), "2020-01-02T03:04:00"),
        (date(2020, 1, 2), "2020-01-02"),
        (CellError("#N/A"), "#N/A"),
    ],
)
def test_cells_as_text(value: object, expected: str) -> None:
    assert as_text(value) == expected


def test_what_utf8_cannot_hold_is_mended() -> None:
    assert mend("가\ud800나\x00😀") == "가�나�😀"


def test_anything_can_be_shown() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert shown(deep) == "a list"
    assert shown(np.array(["가"], dtype=object)) == '["가"]'
    assert shown({"가": "\ud800"}) == '{"가": "�"}'
    assert shown("가나다라", 3) == "가나…"
