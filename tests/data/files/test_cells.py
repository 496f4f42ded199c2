from datetime import date, datetime
from xml.parsers import expat

import numpy as np
import pandas as pd
import pytest

from data.formats.tables import CellError, as_text, is_fit, mend, shown


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


def test_what_xml_cannot_hold_is_mended() -> None:
    """Checked against an XML parser: what is fit passes it, what is not does not."""
    for number in [*range(0x300), 0xD7FF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF]:
        try:
            expat.ParserCreate().Parse(f"<a>{chr(number)}</a>" if chr(number) not in "<&" else "<a/>", True)
            passes = True
        except expat.ExpatError:
            passes = False
        # expat takes the two last of a plane, which the standard does not
        assert is_fit(chr(number)) is (passes and number not in (0xFFFE, 0xFFFF)), hex(number)


def test_line_breaks_of_slides_stay_line_breaks() -> None:
    assert mend("첫째\x0b둘째\x0c셋째\x1b[31m\uffff") == "첫째\n둘째\n셋째�[31m�"
