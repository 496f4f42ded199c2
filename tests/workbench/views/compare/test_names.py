"""Display names of retrievers: the pages translate default names, and stored names remain the identifiers."""

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.store import StoredSet
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.views.compare import page as compare_page
from mrc_workbench.workbench.views.ui.tables import header_width
from tests.workbench.views.compare.test_where import COUNT, comparison_view, forty
from tests.workbench.views.compare.worlds import html
from tests.workbench.views.driving import run

BM25 = "BM25"
LATE = "Late"
MIX = "Best mix"
RERANKED = "Reranked"
STORED = (BM25, LATE, MIX, RERANKED)
SPECS: tuple[dict[str, Any], ...] = (
    {"name": BM25, "kind": "bm25"},
    {"name": LATE, "kind": "late", "model": "none/here"},
    {"name": MIX, "kind": "hybrid", "retrievers": (BM25, LATE), "top_k": 5},
    {"name": RERANKED, "kind": "rerank", "first_stage": MIX, "rerank_top_k": 5},
)
RANKS = {BM25: [1] * 20 + [3] * 20, LATE: [1] * 20 + [2] * 20, MIX: [1] * 35 + [2] * 5, RERANKED: [1] * 40}
KOREAN = (BM25, "후기 상호작용", "최적 혼합", "재정렬")
# the tabs of a comparison with their address parameters and displayed retrievers
VIEWS: tuple[tuple[str, dict[str, str], tuple[str, ...]], ...] = (
    ("overview", {}, STORED),
    ("where", {}, STORED),
    ("why", {}, STORED),
    ("why", {"quadrant": "only_b", "a": LATE, "b": MIX}, STORED),
    ("why", {"question": f"q{COUNT - 1}"}, STORED),
    ("why", {"question": f"q{COUNT - 1}", "shows": "scores", "explained": MIX}, STORED),
    ("tune", {"lab": "hybrid"}, STORED),
    ("tune", {"lab": "rerank"}, (RERANKED,)),
    ("takeaway", {}, STORED),
    ("kept", {}, STORED),
)


def page() -> None:
    import streamlit as st

    from tests.workbench.views.compare.test_names import draw

    draw(st.session_state["data"], st.session_state["module"])


def draw(data: StoredSet, view: str) -> None:
    module, function = compare_page.VIEWS[view]
    getattr(import_module(f"mrc_workbench.workbench.views.compare.{module}"), function)(comparison_view(data, 1, ()))


@pytest.fixture
def data() -> StoredSet:
    return forty(SPECS, RANKS)


def opened(data: StoredSet, module: str, **address: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=60)
    app.session_state["data"] = data
    app.session_state["module"] = module
    app.query_params.update(address)
    return run(app)


def displayed(app: AppTest) -> str:
    """Return all text that the page displays: Markdown, HTML, labels, options, cells of tables, names in charts."""
    written = [*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.success]
    parts = [element.value.replace("\\", "") for element in written]
    parts += [html(app), *(button.label.replace("\\", "") for button in app.button)]
    for choice in (*app.selectbox, *app.pills, *app.multiselect):
        parts += [choice.label, *(option.replace("\\", "") for option in choice.options)]
    parts += [text for table in app.dataframe for text in cells(table)]
    parts += [text for chart in app.get("vega_lite_chart") for text in chart_texts(chart.proto)]
    return "\n".join(parts)


def cells(table: Any) -> Iterator[str]:
    """Yield the headers and the cells of a table as the browser displays them."""
    columns = json.loads(table.proto.columns or "{}")
    yield from (str(column.get("label")) for column in columns.values() if column)
    styler = table.proto.arrow_data.styler if table.proto.HasField("arrow_data") else table.proto.styler
    content = styler.display_values
    yield from (convert_arrow_bytes_to_pandas_df(content) if content else table.value).astype(str).to_numpy().ravel()


def chart_texts(proto: Any) -> Iterator[str]:
    """Yield the description of a chart, the names of its legends, and its cells but for the identities of blocks."""
    spec = json.loads(proto.spec)
    yield str(spec.get("description"))
    yield json.dumps([*values(spec, "domain")], ensure_ascii=False)
    for dataset in proto.datasets:
        with pa.ipc.open_stream(dataset.data.data) as stream:
            table = stream.read_all().to_pandas()
        yield from table.drop(columns="block", errors="ignore").astype(str).to_numpy().ravel()


def values(spec: Any, key: str) -> Iterator[Any]:
    """Yield all values of a key in a specification."""
    if isinstance(spec, dict) and key in spec:
        yield spec[key]
    for value in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        yield from values(value, key)


@pytest.mark.parametrize(("module", "address", "names"), VIEWS)
def test_displays_names_of_the_language_in_every_view(
    data: StoredSet, module: str, address: dict[str, str], names: tuple[str, ...]
) -> None:
    page_text = displayed(opened(data, module, lang="ko", **address))
    for stored, called in zip(STORED, KOREAN, strict=True):
        assert called in page_text or stored not in names
        assert stored == called or stored not in page_text


def test_keeps_colours_of_stored_names_and_orders_best_first(data: StoredSet) -> None:
    korean = dict(zip(STORED, KOREAN, strict=True))
    best_first = [RERANKED, MIX, BM25, LATE]
    app = opened(data, "where", lang="ko")
    slices, _, lost, ceilings = [chart.proto for chart in app.get("vega_lite_chart")]
    scales = [scale for scale in scales_of(json.loads(slices.spec)) if korean[LATE] in scale.get("domain", ())]
    assert scales
    assert [scale["domain"] for scale in scales] == [[korean[name] for name in best_first]] * len(scales)
    colours = [colour_of(name, STORED) for name in best_first]
    assert colours in [scale["range"] for scale in scales]
    first_lost = json.loads(lost.spec)["layer"][0]["encoding"]["y"]["sort"]
    assert first_lost == [korean[name] for name in best_first]
    legends = [scale["domain"] for scale in scales_of(json.loads(ceilings.spec)) if korean[MIX] in scale["domain"]]
    assert legends[0] == [korean[RERANKED], korean[MIX]]
    app.button(key=f"fate_{MIX}_lost_in_fusion").click()
    assert run(app).query_params["of"] == MIX  # the address has the stored name


def scales_of(spec: Any) -> list[dict[str, Any]]:
    scales = [scale for scale in values(spec, "scale") if isinstance(scale, dict)]
    return [scale for scale in scales if isinstance(scale.get("domain"), list)]


def test_fits_rank_columns_to_their_names(data: StoredSet) -> None:
    app = opened(data, "why", lang="ko")
    (columns,) = [json.loads(table.proto.columns) for table in app.dataframe if "rank_0" in table.value]
    for index, called in enumerate(KOREAN):
        assert columns[f"rank_{index}"]["width"] >= header_width(called)


def test_keeps_stored_names_if_two_would_be_equal() -> None:
    mine = "후기 상호작용"
    specs = [*SPECS[:2], {"name": mine, "kind": "dense"}]
    data = forty(specs, {BM25: RANKS[BM25], LATE: RANKS[LATE], mine: RANKS[BM25]})
    app = opened(data, "where", lang="ko")
    (table,) = [frame for frame in app.dataframe if "retriever" in frame.value and "slice" in frame.value]
    assert {BM25, LATE, mine} <= set(cells(table))
    assert LATE in displayed(app)
