"""Tables as files that a spreadsheet opens as they are."""

import pandas as pd

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # the wide ones, too, for East Asian ones


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in UTF-8 with a byte order mark, without its index.

    A text that a spreadsheet would run as a formula is led by an apostrophe, in cells and in column names.
    """
    safe = table.rename(columns=_harmless)
    for place, kind in enumerate(safe.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, [_harmless(value) for value in safe.iloc[:, place]])
    return bytes(safe.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig"))


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
