"""Columns have titles and help in the user's language, downloads run on request, and charts are rendered once."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pytest
import streamlit as st

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import render_chart
from mrc_workbench.workbench.views.ui.words import catalog
from tests.workbench.views.driving import opened, run

EN = catalog("en")
rendered: list[str] = []  # columns of rendered charts


def page() -> None:
    import pandas as pd
    import streamlit as st

    from mrc_workbench.workbench.views.ui import tables

    columns = {
        "retriever": tables.retriever(width=170),
        **tables.interval("%+.2f"),
        "p_holm": tables.p_holm(),
        "recall@5": tables.measure("recall@5"),
        "ndcg@10": tables.measure("ndcg@10", "Its nDCG@10", width="small"),
        "depth": tables.number("where.reads"),
        "difference": tables.number("compare.difference", "%+.3f", ""),
        "question": tables.text("column.question", ""),
        "known": tables.checkbox("why.term_known", width=70),
    }
    st.session_state["columns"] = columns

    def table() -> pd.DataFrame:
        raise LookupError("nobody asked for it")

    tables.draw_csv("data_page.download_split", table, "split.csv")


def test_labels_and_explains_columns_and_creates_download_on_request() -> None:
    app = opened(page)
    columns: dict[str, dict[str, Any]] = app.session_state["columns"]
    assert {"compare.difference_help", "column.question_help"} <= EN.keys()  # some need no explanation
    assert {name: (column["label"], column["help"]) for name, column in columns.items()} == {
        "retriever": (EN["compare.retriever"], EN.get("compare.retriever_help")),
        "low": (EN["compare.low"], EN["compare.interval_help"]),
        "high": (EN["compare.high"], EN["compare.interval_help"]),
        "p_holm": ("p (Holm)", EN["where.p_holm_help"]),
        "recall@5": ("R@5", EN["help.recall"]),  # the short name unless a label is given
        "ndcg@10": ("Its nDCG@10", EN["help.ndcg"]),
        "depth": (EN["where.reads"], EN["where.reads_help"]),
        "difference": (EN["compare.difference"], None),
        "question": (EN["column.question"], None),
        "known": (EN["why.term_known"], EN["why.term_known_help"]),
    }
    assert (columns["retriever"]["pinned"], columns["retriever"]["width"]) == (True, 170)
    assert columns["high"]["type_config"]["format"] == "%+.2f"
    (button,) = app.get("download_button")  # the table was not computed
    assert (button.label, button.help) == (EN["data_page.download_split"], EN["data_page.download_split_help"])


def test_ignores_selected_row_that_no_longer_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, object] = {}

    def dataframe(_: pd.DataFrame, **options: object) -> dict[str, dict[str, list[int]]]:
        arguments.update(options)
        return {"selection": {"rows": [1, 7]}}

    monkeypatch.setattr("streamlit.dataframe", dataframe)
    table = pd.DataFrame({"name": ["a", "b"], "key": [1, 2]})
    columns = {"name": st.column_config.TextColumn("Name")}
    assert tables.draw_choice(table, columns, "selected", multiple=True) == [1]
    assert tables.draw_choice(table.style, columns, "selected", multiple=True) == [1]
    names = ("column_order", "selection_mode", "key")
    assert [arguments[name] for name in names] == [["name"], "multi-row", "selected"]


def test_fits_column_to_longest_name_counting_korean_twice() -> None:
    given = (["BM25"], ["Dense · multilingual-e5-small 1"], ["가" * 20])
    narrow, latin, korean = map(tables.width_of, given)
    assert narrow < latin
    assert latin >= 7 * 31  # characters
    assert korean == tables.width_of(["ab" * 20])
    assert tables.width_of([]) == narrow


def points(table: pd.DataFrame, names: Sequence[str], *, y: str) -> alt.Chart:
    rendered.append(y)
    return alt.Chart(table).mark_point().encode(x="x:Q", y=alt.Y(y, type="quantitative", sort=list(names)))


def chart_page() -> None:
    import pandas as pd

    from mrc_workbench.workbench.views.ui.charts import draw_chart
    from tests.workbench.views.ui.test_tables import points

    draw_chart(points, pd.DataFrame({"x": [1, 2], "up": [0.5, None]}), ["a"], y="up", alt="two points")


def test_renders_chart_once_per_language_with_arrow_data() -> None:
    rendered.clear()
    app = opened(chart_page)
    run(run(app))
    assert rendered == ["up"]
    app.query_params["lang"] = "ko"
    run(app)
    assert rendered == ["up", "up"]
    (chart,) = app.get("vega_lite_chart")  # the data is in Arrow format
    (dataset,) = chart.proto.datasets
    with pa.ipc.open_stream(dataset.data.data) as stream:
        assert stream.read_all().to_pylist() == [{"x": 1, "up": 0.5}, {"x": 2, "up": None}]
    assert json.loads(chart.proto.spec)["description"] == "two points"


def test_renders_again_for_another_table_or_text() -> None:
    table = pd.DataFrame({"x": [1], "up": [0.5], "down": [0.1]})
    first = render_chart("en", points, table, ["a"], y="up")
    assert render_chart("en", points, table.copy(), ["a"], y="up") is first
    assert render_chart("en", points, table.assign(up=0.6), ["a"], y="up") != first
    assert render_chart("en", points, table, ["b"], y="up") != first
    assert render_chart("en", points, table, ["a"], y="down") != first


def test_concurrent_charts_have_their_own_data() -> None:
    tables = [pd.DataFrame({"x": [number], "up": [number]}) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        specs = list(threads.map(lambda table: render_chart("en", points, table, [], y="up"), tables))
    for number, spec in enumerate(specs):
        (content,) = spec["datasets"].values()
        with pa.ipc.open_stream(content) as stream:
            assert stream.read_all().to_pylist() == [{"x": number, "up": number}]


def test_no_page_calls_st_altair_chart() -> None:
    """Streamlit's rendering changes Altair's settings for all threads."""
    views = (PROJECT / "workbench" / "views").rglob("*.py")
    assert not [path.name for path in views if "st.altair_chart" in path.read_text(encoding="utf-8")]
