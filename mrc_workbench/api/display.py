"""How objects look in a notebook: small tables whose texts are escaped."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup, escape

_STYLE = Markup("text-align:{side};padding:2px 10px;border:0")
_LONGEST = 80  # characters of a cell


def html_table(table: pd.DataFrame, *, caption: str, notes: Sequence[str] = ()) -> str:
    """Return a table as HTML. Every text is escaped, and long cells are cut."""
    numbers = [pd.api.types.is_numeric_dtype(table[column]) for column in table.columns]
    sides = ["right" if is_number else "left" for is_number in numbers]
    head = Markup("").join(
        Markup('<th style="{}">{}</th>').format(_STYLE.format(side=side), column)
        for column, side in zip(table.columns, sides, strict=True)
    )
    rows = [
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<td style="{}">{}</td>').format(_STYLE.format(side=side), cell_text(cell))
                for cell, side in zip(row, sides, strict=True)
            )
        )
        for row in table.itertuples(index=False, name=None)
    ]
    lines = [Markup("<div>{}</div>").format(note) for note in notes]
    title = Markup('<caption style="text-align:left;caption-side:top">{}</caption>').format(escape(caption))
    body = Markup("").join(rows)
    return str(
        Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}").format(
            title, head, body, Markup("").join(lines)
        )
    )


def cell_text(value: object) -> str:
    """Return a value as a cell displays it."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = "" if value is None or value is pd.NA else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
