"""Tables: columns with titles, help and formats, selectable rows, and downloads."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar
from unicodedata import east_asian_width

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler
from streamlit.elements.lib.column_types import ColumnConfig

from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.report.words import display_names
from mrc_workbench.workbench.views.ui.words import has_text, language, word

# Pixels of a character, the space around a text, and the width of a column
_LETTER = 7
_AROUND = 24
_NARROWEST = 110
_WIDEST = 340
# A click on any cell selects its row
SINGLE_ROW: list[Literal["single-row", "single-cell"]] = ["single-row", "single-cell"]
# Pixels of characters in a header, in Streamlit's font at 14 pixels
_WIDE_LETTER = 13.0
_EM_SPACE = 14.0
_HAIR_SPACE = 1.2
_CELL_PADDING = 16
_WIDTHS = dict(zip("@mMDCGR()% ", (11.8, 11.6, 11.5, 8.7, 8.0, 8.7, 8.0, 4.2, 4.2, 11.5, 2.8), strict=True))
BOLD = "font-weight: 700"  # the best of several scores
Columns = Mapping[str, ColumnConfig | str]
Table = TypeVar("Table", pd.DataFrame, Styler)


def header_width(label: str) -> float:
    wide = [character for character in label if east_asian_width(character) in "WF"]
    others = [_WIDTHS.get(character, _LETTER) for character in label if east_asian_width(character) not in "WF"]
    return _CELL_PADDING + _WIDE_LETTER * len(wide) + sum(others)


def text(key: str, explained_by: str | None = None, **options: Any) -> ColumnConfig:
    """Return a column of texts with the title `key` and the help `explained_by`, by default `key_help`."""
    return st.column_config.TextColumn(word(key), help=_explanation(key, explained_by), **options)


def number(key: str, form: str | None = None, explained_by: str | None = None, **options: Any) -> ColumnConfig:
    """Return a column of numbers in the format `form`, with title and help as in `text`."""
    return labelled_number(word(key), form, _explanation(key, explained_by), **options)


def labelled_number(label: str, form: str | None = None, about: str | None = None, **options: Any) -> ColumnConfig:
    """Return a column of numbers. Its header is right-aligned like them if the width of the column is known.

    Streamlit draws headers from the left on a canvas: spaces before the label are the only way to move it.
    """
    width = options.get("width")
    if isinstance(width, int):
        wide, rest = divmod(max(0.0, width - header_width(label)), _EM_SPACE)
        label = "\u2003" * int(wide) + "\u200a" * int(rest / _HAIR_SPACE) + label
    return st.column_config.NumberColumn(label, format=form, help=about, **options)


def checkbox(key: str, **options: Any) -> ColumnConfig:
    return st.column_config.CheckboxColumn(word(key), help=_explanation(key), **options)


def retriever(**options: Any) -> ColumnConfig:
    return text("compare.retriever", pinned=True, **options)


def width_of(names: Iterable[str]) -> int:
    """Return the width of a column, in pixels, that cuts none of these names; Korean characters are twice as wide."""
    lengths = [sum(2 if east_asian_width(character) in "WF" else 1 for character in name) for name in names]
    return min(_WIDEST, max(_NARROWEST, _AROUND + _LETTER * max(lengths, default=0)))


def measure(metric: str, label: str | None = None, **options: Any) -> ColumnConfig:
    """Return the column of a measure ("recall@10", "spearman"), with its short name as the default label."""
    name, cut, _ = metric.partition("@")
    column_label = label or (Measure.parse(metric).short_name if cut else name.capitalize())
    return labelled_number(column_label, None, word(f"help.{name}"), **options)


def interval(form: str | None = None, explained_by: str = "compare.interval_help") -> dict[str, ColumnConfig]:
    """Return the columns "low" and "high" of a 95% interval."""
    return {end: number(f"compare.{end}", form, explained_by) for end in ("low", "high")}


def p_holm() -> ColumnConfig:
    return labelled_number("p (Holm)", "%.4f", word("where.p_holm_help"))


def p_family() -> ColumnConfig:
    """Return the column of p-values, corrected for all tests of a family."""
    return labelled_number("p", "%.4f", word("compare.p_family_help"))


def slices_table(
    metrics: pd.DataFrame, slices: Sequence[str], first: str, name: ColumnConfig, mean: ColumnConfig
) -> tuple[pd.DataFrame, Styler, dict[str, ColumnConfig]]:
    """Return metrics on slices in percent, the same with the best in bold, and columns; `first` is the baseline."""
    parts = ["mean", "low", "high", "difference", "difference_low", "difference_high"]
    table = metrics.assign(slice=slices)
    best = table["mean"] == metrics.groupby("slice")["mean"].transform("max")
    table[parts] *= 100
    table.loc[table["retriever"] == first, parts[3:]] = float("nan")
    formats: dict[Any, Any] = {part: "{:+.2f}" if part.startswith("difference") else "{:.2f}" for part in parts}
    formats |= {"p_holm": "{:.4f}", "questions": "{:,}"}
    styled = table.style.map(lambda _: BOLD, subset=(best, ["retriever", "mean"])).format(formats, na_rep="–")
    columns = {
        "slice": name,
        "questions": number("where.questions"),
        "retriever": text("compare.retriever"),
        "mean": mean,
        **interval(),
        "difference": number("compare.difference", explained_by="where.difference_help"),
        "difference_low": number("where.difference_low", explained_by="compare.interval_help"),
        "difference_high": number("where.difference_high", explained_by="compare.interval_help"),
        "p_holm": p_holm(),
    }
    return table, with_display_names(styled), columns


def draw(table: Table, columns: Columns, *, retrievers: Sequence[str] = ("retriever",), **kwargs: Any) -> None:
    """Draw these columns of a table; the columns `retrievers` display names in the user's language."""
    displayed = with_display_names(table, retrievers)
    st.dataframe(displayed, hide_index=True, column_order=[*columns], column_config=columns, **kwargs)


def with_display_names(table: Table, columns: Sequence[str] = ("retriever",)) -> Table:
    """Return a copy with the retrievers in these columns in the user's language; a styled table only formats them."""
    data: pd.DataFrame = table.data if isinstance(table, Styler) else table  # type: ignore[attr-defined]
    present: list[Hashable] = [column for column in columns if column in data]
    if not present:
        return table
    names = display_names(dict.fromkeys(str(name) for column in present for name in data[column]), language())
    if isinstance(table, Styler):
        return table.format(lambda name: names[str(name)], subset=present)
    return table.assign(**{str(column): [names[str(name)] for name in table[column]] for column in present})


def write(style: Styler, row: int | str, column: str, text: str) -> Styler:
    """Display a text in a cell; the column still sorts by its number."""
    return style.format(lambda _: text, subset=pd.IndexSlice[[row], [column]])


def draw_choice(
    table: Table, columns: Columns, key: str, *, multiple: bool = False, height: int | Literal["auto"] = "auto"
) -> list[int]:
    """Draw a table with selectable rows; return the positions of those selected."""
    kwargs: dict[str, Any] = {"height": height, "selection_mode": "multi-row" if multiple else SINGLE_ROW}
    kwargs |= {"hide_index": True, "column_order": [*columns], "column_config": columns}
    event = st.dataframe(table, key=key, on_select="rerun", **kwargs)
    return [row for row in selected_rows(event) if row < len(table.index)]  # the table may have become shorter


def selected_rows(event: Any) -> list[int]:
    """Return the selected rows of a table, or the row of the selected cell."""
    selection = event["selection"]
    return [row for row, _ in selection.get("cells", [])] or [*selection["rows"]]


def draw_csv(key: str, table: Callable[[], pd.DataFrame], file_name: str, name: str | None = None) -> None:
    draw_file(key, lambda: csv_bytes(table()), file_name, "text/csv", name)


def draw_file(
    key: str, content: str | Callable[[], str | bytes], file_name: str, form: str, name: str | None = None
) -> None:
    """Draw a download button for a file with the MIME type `form`; `key` of the label, `name` of the button."""
    kwargs: dict[str, Any] = {"key": name, "help": _explanation(key), "icon": ":material/download:"}
    st.download_button(word(key), content, file_name, form, on_click="ignore", **kwargs)


def _explanation(key: str, explained_by: str | None = None) -> str | None:
    explanation = f"{key}_help" if explained_by is None else explained_by
    return word(explanation) if has_text(explanation) else None


def draw_heading(text: str, *, help: str | None = None) -> None:
    st.markdown(f"#### {text}", help=help)
