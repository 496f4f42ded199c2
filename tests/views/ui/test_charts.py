"""Charts are made once, and hold their data whoever draws at the same time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from data.workspace import PROJECT
from tests.views.driving import opened, run
from views.ui.charts import made

VIEWS = PROJECT / "views"
counted: list[str] = []


def points(table: pd.DataFrame, names: Sequence[str], *, y: str) -> alt.Chart:
    counted.append(y)
    return alt.Chart(table).mark_point().encode(x="x:Q", y=alt.Y(y, type="quantitative", sort=list(names)))


def page() -> None:
    import pandas as pd

    from tests.views.ui.test_charts import points
    from views.ui.charts import draw_chart

    draw_chart(points, pd.DataFrame({"x": [1, 2], "up": [0.5, None]}), ["a"], y="up", alt="two points")


def test_a_chart_is_made_once_for_each_language() -> None:
    counted.clear()
    app = opened(page)
    run(run(app))
    assert counted == ["up"]
    app.query_params["lang"] = "ko"
    run(app)
    assert counted == ["up", "up"]


def test_a_chart_brings_its_data_as_arrow() -> None:
    (chart,) = opened(page).get("vega_lite_chart")
    (dataset,) = chart.proto.datasets
    with pa.ipc.open_stream(dataset.data.data) as stream:
        assert stream.read_all().to_pylist() == [{"x": 1, "up": 0.5}, {"x": 2, "up": None}]
    assert chart.proto.alt == "two points"


def test_another_table_or_another_word_makes_another_chart() -> None:
    table = pd.DataFrame({"x": [1], "up": [0.5], "down": [0.1]})
    first = made("en", points, table, ["a"], y="up")
    assert made("en", points, table.copy(), ["a"], y="up") is first
    others: list[Any] = [
        made("en", points, table.assign(up=0.6), ["a"], y="up"),
        made("en", points, table, ["b"], y="up"),
        made("en", points, table, ["a"], y="down"),
    ]
    assert all(other != first for other in others)


def test_charts_made_at_the_same_time_have_each_their_own_data() -> None:
    tables = [pd.DataFrame({"x": [number], "up": [number]}) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        specs = list(threads.map(lambda table: made("en", points, table, [], y="up"), tables))
    for number, spec in enumerate(specs):
        (content,) = spec["datasets"].values()
        with pa.ipc.open_stream(content) as stream:
            assert stream.read_all().to_pylist() == [{"x": number, "up": number}]


def test_no_page_draws_charts_past_this() -> None:
    """Streamlit's own way changes Altair's settings for all threads while it is at work."""
    assert not [path.name for path in VIEWS.rglob("*.py") if "st.altair_chart" in path.read_text(encoding="utf-8")]
