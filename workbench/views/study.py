"""The page of a lab that has none of its own: a form for the spec, its job, and the result's tables and charts."""

from enum import Enum
from functools import partial
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.studies import Chart, Column, Study, StudyJob, Table, Unit, report
from mrc_workbench.labs import labs
from mrc_workbench.workbench.views.resources.sets import chosen_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import draw_chart
from mrc_workbench.workbench.views.ui.job import draw_job
from mrc_workbench.workbench.views.ui.words import known, plain, word, word_or

_HEIGHT = 320
_DATA = "data"  # a spec's field of this name holds the key of the dataset that is selected in the sidebar


def draw(name: str) -> None:
    study = next(lab for lab in labs() if lab.name == name).load_study()
    st.title(word_or(f"{name}.purpose", study.summary), anchor=False)
    spec = _form(study)
    if spec is None:
        return
    job = study.job(spec, *((chosen_set().fingerprint,) if _DATA in study.spec.model_fields else ()))
    if job.done:
        _draw_result(job)
    else:
        draw_job(job, lambda: job.start(spec), _running, "study", word("study.start"))


def _running(status: Status) -> str:
    return plain(status.phase) if status.phase else word("study.starting")


def _form(study: Study[Any, Any]) -> BaseModel | None:
    """Draw a control for each field of the spec; returns the spec, None if its values are refused, with the reason."""
    fields = study.spec.model_fields
    values: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, field in fields.items():
            if name == _DATA:
                values[name] = chosen_set().key
            else:
                values[name] = _control(f"{study.name}.{name}", f"{study.name}_{name}", name, field)
    try:
        spec: BaseModel = study.spec.model_validate(values)
    except ValidationError as error:
        for problem in error.errors():
            st.error(f"{plain(str(problem['loc'][0]) if problem['loc'] else '')}: {plain(problem['msg'])}")
        return None
    return spec


def _control(text: str, key: str, name: str, field: FieldInfo) -> Any:
    label = word_or(text, name.replace("_", " ").capitalize())
    explained = word(f"{text}_help") if known(f"{text}_help") else field.description
    default: Any = None if field.is_required() else field.get_default(call_default_factory=True)
    look: dict[str, Any] = {"help": explained, "key": key, "width": 220}
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        options = [option.value for option in kind]
        index = options.index(default.value) if default is not None else 0
        return st.selectbox(label, options, index, **look)
    if kind is bool:
        return st.checkbox(label, bool(default), help=explained, key=key)
    if kind in (int, float):
        lowest: Any = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
        highest: Any = next((limit.le for limit in field.metadata if hasattr(limit, "le")), None)
        return st.number_input(label, lowest, highest, default, **look)
    return st.text_input(label, "" if default is None else str(default), **look)


def _draw_result(job: StudyJob[Any, Any]) -> None:
    result = job.load()
    for table in job.study.tables:
        rows = table.rows(result)
        name = f"{job.study.name}.{table.name}"
        st.subheader(word_or(name, table.name.replace("_", " ").capitalize()), anchor=False)
        if table.chart:
            draw_chart(_chart, _displayed(table, rows), table.chart, _titles(job.study.name, table))
        st.dataframe(_displayed(table, rows), hide_index=True, column_config=_columns(job.study.name, table))
    with st.container(horizontal=True):
        for table in job.study.tables:
            content = partial(table.rows, result)
            tables.draw_csv("study.table", content, f"{table.name}.csv", f"csv_{table.name}")
        tables.draw_file("study.report", partial(report, job), f"{job.study.name}.md", "text/markdown", "study_report")


def _displayed(table: Table[Any], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in displayed units: fractions as percentages, counts as whole numbers."""
    fractions = [column.name for column in table.columns if column.unit is Unit.FRACTION]
    whole = [column.name for column in table.columns if column.unit in (Unit.COUNT, Unit.BYTES)]
    return rows.assign(**{name: rows[name] * 100 for name in fractions}, **{name: rows[name].round() for name in whole})


def _titles(study: str, table: Table[Any]) -> dict[str, str]:
    return {column.name: word_or(f"{study}.{column.name}", column.title.capitalize()) for column in table.columns}


def _columns(study: str, table: Table[Any]) -> dict[str, Any]:
    return {column.name: _column(column, f"{study}.{column.name}") for column in table.columns}


def _column(column: Column, text: str) -> Any:
    title = word_or(text, column.title.capitalize())
    explanation = word(f"{text}_help") if known(f"{text}_help") else None
    if column.unit is Unit.TEXT:
        return st.column_config.TextColumn(title, help=explanation)
    form = "localized" if column.unit in (Unit.COUNT, Unit.BYTES) else f"%.{column.digits}f"
    return st.column_config.NumberColumn(title, format=form, help=explanation)


def _chart(rows: pd.DataFrame, chart: Chart, titles: dict[str, str]) -> alt.Chart:
    scale = "nominal" if chart.kind == "bars" else "quantitative"
    base = alt.Chart(rows).encode(
        x=alt.X(chart.x, type=scale, title=titles[chart.x], sort=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y(chart.y, type="quantitative", title=titles[chart.y]),
        tooltip=[alt.Tooltip(name, title=title) for name, title in titles.items()],
    )
    if chart.color:
        base = base.encode(color=alt.Color(chart.color, type="nominal", title=titles[chart.color]))
    marks = {"bars": base.mark_bar, "lines": base.mark_line, "points": base.mark_point}
    return marks[chart.kind]().properties(height=_HEIGHT, description=f"{titles[chart.y]}, {titles[chart.x]}")
