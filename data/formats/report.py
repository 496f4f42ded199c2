"""Parts of the reports that commands print: problems of a file, columns, counts and lengths."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np

from mrc_workbench.data.formats.rows import FileReading

_SHOWN_PROBLEMS = 10


def problem_lines(reading: FileReading, of: str = "") -> list[str]:
    """Return the number of problems and the first of them; `of` names the file, as in " in dev.tsv"."""
    if not reading.problems:
        return [f"Problems{of}: none"]
    shown = [f"  {problem.message}" for problem in reading.problems[:_SHOWN_PROBLEMS]]
    more = reading.problem_count - len(shown)
    lines = [f"Problems{of}: {reading.problem_count:,}; rows left out: {reading.left_out:,}", *shown]
    return [*lines, f"  and {more:,} more"] if more else lines


def column_lines(reading: FileReading, roles: Any, of: str = "") -> list[str]:
    """Return the columns by use, without the used ones among `roles`; `of` names the file, as for `problem_lines`."""
    listed = set(asdict(roles).values()) if roles is not None else set()
    lists = {
        "Used columns": [name for name in reading.used_columns if name not in listed],
        "Metadata columns": reading.metadata_columns,
        "Unused columns": reading.unused_columns,
    }
    return [f"{title}{of}: {', '.join(names)}" for title, names in lists.items() if names]


def column_words(columns: Any) -> str:
    """Return the columns of a dataclass of names by role, such as "question <- 질문, context <- 지문"."""
    return ", ".join(f"{role} <- {name}" for role, name in asdict(columns).items() if name is not None)


def spread(lengths: np.ndarray) -> str:
    """Return the median and the range of lengths."""
    return f"median {np.median(lengths):,.0f}, {lengths.min():,} to {lengths.max():,}" if len(lengths) else "none"


def count_words(counts: Mapping[Any, int]) -> str:
    """Return counts by name, such as "train 8, test 2"."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def reading_as_json(reading: FileReading, columns: Any) -> dict[str, Any]:
    """Return what was understood of a file; `columns` is a dataclass of names by role, or None."""
    return {
        "format": reading.format,
        "encoding": reading.encoding,
        "columns": asdict(columns) if columns else None,
        "available_columns": reading.available_columns,
        "row_count": reading.row_count,
        "rows_left_out": reading.left_out,
        "problem_count": reading.problem_count,
        "problems": [{"code": one.code, "row": one.row, "message": one.message} for one in reading.problems],
    }


def columns_as_json(reading: FileReading) -> dict[str, tuple[str, ...]]:
    """Return the columns by use."""
    return {use: getattr(reading, use) for use in ("used_columns", "metadata_columns", "unused_columns")}


def value_as_json(value: object) -> object:
    """Return a dataclass as a dict, an array as its minimum, median, mean and maximum, and NaN as None."""
    if isinstance(value, np.ndarray):
        numbers = value[~np.isnan(value)]
        names = ("min", "median", "mean", "max") if len(numbers) else ()
        return {name: float(getattr(np, name)(numbers)) for name in names} or None
    if is_dataclass(value):
        return {field.name: value_as_json(getattr(value, field.name)) for field in fields(value)}
    return None if isinstance(value, float) and math.isnan(value) else value
