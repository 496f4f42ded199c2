"""The Wrong pairs and Density views compare cosines with human ratings; the Sentences view compares typed sentences."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.pairs import PairKind
from mrc_workbench.data.problems import Failure
from mrc_workbench.labs.embeddings.geometry import MAX_MATRIX_ROWS
from mrc_workbench.labs.embeddings.judgement import assign_bands, band_labels, estimate_densities, find_wrong_pairs
from mrc_workbench.labs.embeddings.pages.page import EvaluationView, distinct_of, pick_model, run_request
from mrc_workbench.labs.embeddings.results import NeighboursRequest, SimilarityRequest
from mrc_workbench.labs.embeddings.study import TaskResult
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.views.resources.sets import pair_set
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import cells, draw_chart, tooltips
from mrc_workbench.workbench.views.ui.state import choose, draw_text_field, lines_of
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, word

_MAX_WRONG_PAIRS = 100
_SIDES = ("both", "too_alike", "too_different")
_SIDE_BY_SIDE = 3  # models in a row of the Density view
_RIDGE_HEIGHT = 48  # pixels between the feet of two ridges
_RIDGE_OVERLAP = 1.6  # height of a ridge as a multiple of that
EXAMPLE = (
    "아이가 마당에서 공을 차며 놀고 있다.",
    "꼬마가 뜰에서 공놀이를 하고 있다.",
    "아이가 마당에서 놀고 있지 않다.",
    "할머니가 부엌에서 된장찌개를 끓이신다.",
    "할머니께서 주방에서 찌개를 만들고 계신다.",
    "기준금리가 석 달 만에 다시 올랐다.",
    "한국은행이 금리를 인상했다.",
    "한국은행이 금리를 내렸다.",
    "배가 고파서 라면을 끓여 먹었다.",
    "배를 타고 섬에 들어갔다.",
)
_MAX_CHARACTERS = 10_000
_MAX_MATRIX_ROWS = 40  # sentences of the chart; more are only in the table
_MAX_LABELLED_CELLS = 20  # sentences of a chart with numbers in its cells
_N_NEIGHBOURS = 10


def draw_wrong(view: EvaluationView) -> None:
    if all("spearman" not in item.metrics for item in view.results_by_name.values()):
        st.info(word("embeddings.no_gold"), icon=":material/info:")
        return
    look: dict[str, Any] = {"format_func": lambda item: word(f"embeddings.wrong_{item}")}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = pick_model(view, "wrong_of", "embeddings.wrong_of")
        side = choose(st.segmented_control, "wrong_side", word("embeddings.wrong_side"), _SIDES, "both", **look)
    columns = {
        "gold": tables.number("embeddings.gold", "%.1f"),
        **{name: tables.labelled_number(name, "%.3f", word("embeddings.cosine")) for name in view.results_by_name},
        "misplaced": tables.number("embeddings.misplaced", "%+.0f"),
        "first": tables.text("embeddings.first_sentence", "", width="large"),
        "second": tables.text("embeddings.second_sentence", "", width="large"),
    }
    table = _wrong_table(view, view.names[model], side)
    tables.draw(table, columns, height=560)
    st.caption(word("embeddings.wrong_help"))
    tables.draw_csv("embeddings.wrong_csv", lambda: table, "wrong_pairs.csv", "wrong_csv")


def _wrong_table(view: EvaluationView, model: str, side: str) -> pd.DataFrame:
    evaluation = view.evaluation
    cosines = {view.names[reference]: column for reference, column in evaluation.cosines.items()}
    pairs = find_wrong_pairs(cosines, evaluation.values, model, len(evaluation.rows))
    masks = {"too_alike": pairs.misplaced > 0, "too_different": pairs.misplaced < 0}
    selected = np.flatnonzero(masks.get(side, pairs.misplaced != 0))[:_MAX_WRONG_PAIRS]
    indices = pairs.rows[selected]
    first, second = (column.at(evaluation.rows[indices]) for column in pair_set(view.data.key).texts[:2])
    low, high = view.data.scale
    gold = low + evaluation.values[indices] * (high - low)
    table = pd.DataFrame({"first": first, "second": second, "gold": gold})
    cosines_of_pairs = {name: column[selected] for name, column in pairs.cosines.items()}
    return table.assign(**cosines_of_pairs, misplaced=100 * pairs.misplaced[selected])


def draw_density(view: EvaluationView) -> None:
    cosines = view.evaluation.cosines
    gold = view.evaluation.values
    if view.evaluation.kind is not PairKind.SCORED or not cosines or not len(gold):
        st.info(word("embeddings.no_bands"), icon=":material/info:")
        return
    labels = band_labels(view.data.scale)
    st.caption(word("embeddings.density_help"))
    densities = estimate_densities({view.names[reference]: column for reference, column in cosines.items()}, gold)
    order = [name for name in view.results_by_name if name in densities.values]
    for number, name in enumerate(order):
        if number % _SIDE_BY_SIDE == 0:
            containers = st.columns(min(len(order), _SIDE_BY_SIDE))
        with containers[number % _SIDE_BY_SIDE]:
            st.markdown(f"**{plain(name)}**")
            parts = [
                pd.DataFrame({"band": label, "band_index": band, "cosine": densities.grid, "density": density})
                for band, (label, density) in enumerate(zip(labels, densities.values[name], strict=True))
            ]
            table = pd.concat(parts[::-1], ignore_index=True)  # in the order of `ridge_chart`
            draw_chart(ridge_chart, table, labels, name, view.model_names, x=word("embeddings.cosine"))
    with st.expander(word("compare.as_table"), expanded=True):
        _draw_quartiles(view, assign_bands(gold), labels)


def ridge_chart(table: pd.DataFrame, bands: Sequence[str], name: str, names: Sequence[str], *, x: str) -> alt.Chart:
    """One model's density of cosine, with a ridge for each band of human ratings, the highest band on top.

    Columns "band", "band_index" (from 0, the lowest), "cosine" and "density". Rows of the highest band come first, so
    that its ridge is drawn first and the others over its foot.
    """
    highest = float(table["density"].max()) or 1.0
    positioned = table.assign(top=table["band_index"] + _RIDGE_OVERLAP * table["density"] / highest)
    labels = ", ".join(f"'{band}'" for band in bands)
    feet = {"values": [*range(len(bands))], "labelExpr": f"[{labels}][datum.value]"}
    axis = alt.Axis(grid=False, domain=False, ticks=False, **feet)
    scale = alt.Scale(domain=[0, len(bands) - 1 + _RIDGE_OVERLAP], nice=False)
    cosines = alt.Axis(format=".2~f", tickCount=5, labelAngle=0)
    band = word("embeddings.band")
    density = word("embeddings.density")
    base = alt.Chart(positioned).encode(
        x=alt.X("cosine:Q", title=x, scale=alt.Scale(nice=False), axis=cosines),
        y=alt.Y("band_index:Q", title=band, axis=axis, scale=scale),
        y2="top:Q",
        detail="band_index:O",
        tooltip=tooltips(("band:N", band), ("cosine:Q", x, ".2f"), ("density:Q", density, ".2f")),
    )
    line = {"color": "white", "strokeWidth": 0.8}
    areas = base.mark_area(fillOpacity=0.75, line=line, color=colour_of(name, names))
    nonempty_bands = table[table["density"] > 0]  # a band with too few pairs has no density and no peak
    peaks = nonempty_bands.loc[nonempty_bands.groupby("band", sort=False)["density"].idxmax()]
    rows = charts.values([*peaks["band"]], [*peaks["cosine"]], ".2f")
    described = charts.describe(word("embeddings.peaks", model=name), rows)
    return areas.properties(height=90 + _RIDGE_HEIGHT * len(bands), description=described)


def _draw_quartiles(view: EvaluationView, band: np.ndarray, labels: list[str]) -> None:
    rows = []
    for name, result in view.results_by_name.items():
        for index, label in enumerate(labels):
            inside = result.cosines[band == index]
            quartiles = np.quantile(inside, [0.25, 0.5, 0.75]) if len(inside) else [np.nan] * 3
            rows.append((name, label, len(inside), *quartiles))
    columns = {
        "model": tables.text("embeddings.model", "", width="medium"),
        "band": tables.text("embeddings.band", ""),
        "count": tables.number("embeddings.count", "%d", ""),
        **{name: tables.number(f"embeddings.{name}", "%.3f", "") for name in ("quarter", "median", "three_quarters")},
    }
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def draw_sentences(view: EvaluationView) -> None:
    progress = st.container()
    left, right = st.columns([2, 3])
    with left:
        model = pick_model(view, "matrix_of")
        label = label_and_help("embeddings.type_sentences", most=MAX_MATRIX_ROWS)
        text = draw_text_field(st.text_area, "sentences", default="\n".join(EXAMPLE), height=330, **label)
        sentences = lines_of(text, MAX_MATRIX_ROWS + 1, _MAX_CHARACTERS)
        if len(sentences) > MAX_MATRIX_ROWS:
            st.warning(word("embeddings.too_many_sentences", most=MAX_MATRIX_ROWS), icon=":material/info:")
            sentences = sentences[:MAX_MATRIX_ROWS]
    if len(sentences) < 2:
        right.info(word("embeddings.two_sentences"), icon=":material/info:")
    else:
        models = tuple(view.references[name] for name in view.results_by_name)
        request = SimilarityRequest(data=view.data.key, models=models, sentences=tuple(sentences))
        with progress:
            result = run_request(request, view.data, view.names)
        if result:
            with right:
                _draw_matrix(view, result, request, model)
    st.divider()
    _draw_nearest(view, model)


def _draw_matrix(view: EvaluationView, result: TaskResult, request: SimilarityRequest, model: str) -> None:
    cosines = result.arrays.get(f"matrix_{request.models.index(model)}")
    sentences = request.sentences
    if cosines is None:  # the model could not encode
        failure = result.content.get("models", {}).get(model, {})
        reason = plain(failure_text(Failure.from_dict(failure))) if "error" in failure else ""
        failed = word("embeddings.model_failed", model=plain(view.names[model]), reason=reason)
        st.error(failed, icon=":material/error:")
        return
    numbers = [str(index + 1) for index in range(len(sentences))]
    if len(sentences) <= _MAX_MATRIX_ROWS:
        draw_chart(matrix_chart, _matrix_cells(cosines, sentences, numbers), numbers)
        st.caption(word("embeddings.matrix_help"))
    table = pd.DataFrame(cosines, index=[f"{n}. {text}" for n, text in zip(numbers, sentences, strict=True)])
    table.columns = pd.Index(numbers)
    with st.expander(word("embeddings.matrix_table"), expanded=len(sentences) > _MAX_MATRIX_ROWS):
        st.dataframe(table.style.format("{:.3f}"))
        st.caption(word("embeddings.matrix_copy"))
        st.code(table.to_csv(sep="\t", float_format="%.3f"), language=None, height=150)
    labelled = table.reset_index(names="sentence")
    tables.draw_csv("embeddings.matrix_csv", lambda: labelled, "similarity.csv", "matrix_csv")


def matrix_chart(table: pd.DataFrame, order: Sequence[str]) -> alt.LayerChart:
    """Cosines of sentences with each other, columns "row", "column", "first", "second" and "cosine".

    The colour scale covers the cosines of different sentences, so that narrow ranges stay readable.
    """
    others = table.loc[table["row"] != table["column"], "cosine"]
    low = float(others.min())
    high = max(float(others.max()), float(others.min()) + 1e-6)
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(order), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("row:N", sort=list(order), title=None),
        tooltip=tooltips(("first:N", "1"), ("second:N", "2"), ("cosine:Q", word("embeddings.cosine"), ".3f")),
    )
    written = len(order) <= _MAX_LABELLED_CELLS
    shaded = cells(base, "cosine", (low, high), ".2f", written=written)
    pairs = table[table["row"] < table["column"]]
    described = charts.extremes(word("embeddings.cosine"), pairs, ("first", "second"), "cosine", ".3f")
    return shaded.properties(height=60 + (34 if written else 14) * len(order), description=described)


def _matrix_cells(matrix: np.ndarray, sentences: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    n = len(sentences)
    rows, columns = np.divmod(np.arange(n * n), n)
    labels = {"row": [numbers[row] for row in rows], "column": [numbers[column] for column in columns]}
    texts = {"first": [sentences[row] for row in rows], "second": [sentences[column] for column in columns]}
    return pd.DataFrame({**labels, **texts, "cosine": matrix.ravel().astype(float)})


def _draw_nearest(view: EvaluationView, model: str) -> None:
    label = label_and_help("embeddings.nearest")
    text = st.text_input(value=st.query_params.get("near", ""), key="near_sentence", **label)
    query = text.strip()[:_MAX_CHARACTERS]
    if not query:
        st.query_params.pop("near", None)
        return
    st.query_params["near"] = query
    request = NeighboursRequest(data=view.data.key, model=model, part=view.part, sentences=(query,), k=_N_NEIGHBOURS)
    if result := run_request(request, view.data, view.names):
        sentences = distinct_of(view.data.key, view.part).sentences
        nearest = [sentences[row] for row in result.arrays["rows"][0]]
        columns = {"cosine": tables.number("embeddings.cosine", "%.3f")}
        columns["sentence"] = tables.text("embeddings.sentence", "", width="large")
        tables.draw(pd.DataFrame({"cosine": result.arrays["cosines"][0].astype(float), "sentence": nearest}), columns)
