"""What a chart shows, as one sentence for screen readers: the description of the chart."""

from collections.abc import Sequence

import pandas as pd

from mrc_workbench.workbench.views.ui.words import word

_MOST_ROWS = 12  # a longer description is not listened to; the table beside the chart has every row


def describe(title: str, rows: Sequence[str]) -> str:
    """Return the title and the rows as one sentence; rows beyond the first `_MOST_ROWS` are counted."""
    if not rows:
        return title
    listed = [*rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        listed.append(word("chart.more", count=len(rows) - _MOST_ROWS))
    return word("chart.finding", title=title, rows="; ".join(listed))


def values(names: Sequence[str], figures: Sequence[float], form: str) -> list[str]:
    """Return a row for each name with its figure; `form` is a Python format such as ".1%"."""
    return [word("chart.row", name=name, value=format(value, form)) for name, value in zip(names, figures, strict=True)]


def intervals(table: pd.DataFrame, name: str, value: str, form: str) -> list[str]:
    """Return a row for each row of the table: its name, its figure and the interval "low" to "high"."""
    rows = []
    for row in table.to_dict("records"):
        figures = {"value": row[value], "low": row["low"], "high": row["high"]}
        texts = {key: format(figure, form) for key, figure in figures.items()}
        rows.append(word("chart.row_interval", name=row[name], **texts))
    return rows


def totals(table: pd.DataFrame, name: str, part: str, value: str, forms: tuple[str, str]) -> list[str]:
    """Return a row for each name: the total of its values, and each part; `forms` are those of totals and parts."""
    rows = []
    for of, parts in table.groupby(name, sort=False):
        listed = ", ".join(values([*parts[part]], [*parts[value]], forms[1]))
        rows.append(word("chart.row_of", name=of, value=format(parts[value].sum(), forms[0]), parts=listed))
    return rows


def courses(table: pd.DataFrame, name: str, x: str, y: str, form: str) -> list[str]:
    """Return a row for each line of a chart: its figure at the first and at the last `x`."""
    rows = []
    for line, points in table.groupby(name, sort=False):
        first, last = points.iloc[0], points.iloc[-1]
        ends = {"first": format(first[y], form), "last": format(last[y], form)}
        rows.append(word("chart.row_range", name=line, start=first[x], end=last[x], **ends))
    return rows


def best_setting(title: str, table: pd.DataFrame, name: str) -> str:
    """Return which setting of the table ("name", "value" from 0 to 1) is the best and what it reaches."""
    value = float(table["value"].max())
    return word("chart.best_of", title=title, count=len(table), value=f"{value:.1%}", name=name)


def coordinates(table: pd.DataFrame, name: str, columns: tuple[str, str], forms: tuple[str, str]) -> list[str]:
    """Return a row for each point of a chart: its name and its two coordinates."""
    rows = []
    for point in table.to_dict("records"):
        x, y = (format(point[column], form) for column, form in zip(columns, forms, strict=True))
        rows.append(word("chart.row", name=point[name], value=f"{x}, {y}"))
    return rows


def extremes(title: str, table: pd.DataFrame, names: tuple[str, str], value: str, form: str) -> str:
    """Return the highest and the lowest cell of a grid, each with the names of its row and its column."""
    if table.empty:
        return title
    ranked = table.sort_values(value, kind="stable").to_dict("records")
    rows = []
    for key, cell in (("highest", ranked[-1]), ("lowest", ranked[0])):
        pair = f"{cell[names[0]]} – {cell[names[1]]}"
        rows.append(word(f"chart.{key}", name=pair, value=format(cell[value], form)))
    return describe(title, rows)
