"""Cached functions: charts as Vega-Lite, which takes Altair longer than all else of a page.

Every chart of the pages comes from here. Streamlit's own way with Altair's charts changes settings of all threads while
it is at work, so that a chart made here in the meantime would be without its data.
"""

from collections.abc import Callable
from threading import Lock
from types import FunctionType
from typing import Any, Literal

import altair
import pandas as pd
import pyarrow as pa
import streamlit as st

from views.ui.words import language

_at_work = Lock()  # Altair's settings are those of all threads


def draw_chart(
    make: Callable[..., Any],
    *of: Any,
    key: str | None = None,
    on_select: Literal["ignore"] | Callable[[], None] = "ignore",
    selection_mode: str | None = None,
    alt: str | None = None,
    **named: Any,
) -> None:
    """Draw the Altair chart that `make` makes of these tables and words; made once, where they are the same.

    Nothing else may decide what it makes, but for the language.
    """
    st.vega_lite_chart(
        spec=made(language(), make, *of, **named),
        key=key,
        on_select=on_select,
        selection_mode=selection_mode,
        alt=alt,
    )


def _content(table: pd.DataFrame) -> tuple[list[str], bytes]:
    """What tells tables apart, at once: Streamlit's own way takes a column at a time, and many times as long."""
    return [str(name) for name in table.columns], pd.util.hash_pandas_object(table).to_numpy().tobytes()


@st.cache_resource(
    show_spinner=False,
    max_entries=256,
    hash_funcs={FunctionType: lambda make: make.__qualname__ + make.__module__, pd.DataFrame: _content},
)
def made(language: str, make: Callable[..., Any], *of: Any, **named: Any) -> dict[str, Any]:
    """Return the chart as Vega-Lite, its data as Arrow; `language` is that of the words in it."""
    del language  # only a part of the key
    chart = make(*of, **named)
    with _at_work, altair.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = chart.to_dict()
    spec.pop("config")  # Altair's sizes of a plot: the page has its own
    # as the page sends them: else it would make them of rows every time
    return spec | {"datasets": {name: _arrow(rows) for name, rows in spec["datasets"].items()}}


def _arrow(rows: list[dict[str, Any]]) -> bytes:
    table, stream = pa.Table.from_pylist(rows), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    content: bytes = stream.getvalue().to_pybytes()
    return content
