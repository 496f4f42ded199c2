"""A page for labs that have no page module, and the choice of a text for tokenizers and language models.

The page draws a form for the spec, the job, and the tables and charts of the result. A text is the passages of the
dataset or a stored text file.
"""

from enum import Enum
from functools import partial
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.formats.opening import derive_name as named_by_file
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.studies import Chart, Column, ColumnUnit, Study, StudyJob, report
from mrc_workbench.data.text.corpora import StoredText, damaged, remove, save_text, stored
from mrc_workbench.labs import labs
from mrc_workbench.workbench.views.names import as_shared, set_name
from mrc_workbench.workbench.views.navigation import translate_field
from mrc_workbench.workbench.views.resources.sets import characters_of, selected_set
from mrc_workbench.workbench.views.ui import tables, words
from mrc_workbench.workbench.views.ui.charts import draw_chart
from mrc_workbench.workbench.views.ui.job import draw_job
from mrc_workbench.workbench.views.ui.state import choose_named, remember
from mrc_workbench.workbench.views.ui.words import has_text, plain, show_errors, word, word_or

TextSource = StoredSet | StoredText
_HEIGHT = 320
_DATA = "data"  # the spec's field with the key of the dataset that is selected in the sidebar
_IN_ADDRESS = "corpus"
# Session keys
_ROUND = "text_upload_round"
_REFUSED = "text_refused"


def draw(name: str) -> None:
    study = next(lab for lab in labs() if lab.name == name).load_study()
    st.title(word_or(f"{name}.purpose", study.summary), anchor=False)
    spec = _form(study)
    if spec is None:
        return
    job = study.job_on(spec, selected_set().fingerprint if _DATA in study.spec.model_fields else "")
    if not job.done:
        starting = word("study.starting")
        start = word("study.start")
        draw_job(job, lambda: job.start(spec), lambda status: plain(status.phase) or starting, "study", start)
        return
    try:
        result = job.load()
    except ValueError:
        st.error(word("study.damaged"), icon=":material/error:")
        st.button(word("study.delete"), icon=":material/delete:", on_click=job.delete)
        return
    _draw_result(job, result)


def _form(study: Study[Any, Any]) -> BaseModel | None:
    """Draw a control for each field of the spec; return the spec, or draw the errors and return None."""
    fields = study.spec.model_fields
    values: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, field in fields.items():
            if name == _DATA:
                values[name] = selected_set().key
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
    explained = word(f"{text}_help") if has_text(f"{text}_help") else field.description
    default: Any = None if field.is_required() else field.get_default(call_default_factory=True)
    kwargs: dict[str, Any] = {"help": explained, "key": key, "width": 220}
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        options = [option.value for option in kind]
        index = options.index(default.value) if default is not None else 0
        return st.selectbox(label, options, index, **kwargs)
    if kind is bool:
        return st.checkbox(label, bool(default), help=explained, key=key)
    if kind in (int, float):
        lowest = next((kind(limit.ge) for limit in field.metadata if hasattr(limit, "ge")), None)
        highest = next((kind(limit.le) for limit in field.metadata if hasattr(limit, "le")), None)
        return st.number_input(label, lowest, highest, None if default is None else kind(default), **kwargs)
    return st.text_input(label, "" if default is None else str(default), **kwargs)


def _draw_result(job: StudyJob[Any, Any], result: Any) -> None:
    for table in job.study.tables:
        rows = table.rows(result)
        name = f"{job.study.name}.{table.name}"
        st.subheader(word_or(name, table.name.replace("_", " ").capitalize()), anchor=False)
        texts = {column.name: f"{job.study.name}.{column.name}" for column in table.columns}
        titles = {column.name: word_or(texts[column.name], column.title.capitalize()) for column in table.columns}
        percent = [column.name for column in table.columns if column.unit is ColumnUnit.FRACTION]
        whole = [column.name for column in table.columns if column.unit in (ColumnUnit.COUNT, ColumnUnit.BYTES)]
        displayed = rows.assign(**{name: pd.to_numeric(rows[name]) * 100 for name in percent})
        displayed = displayed.assign(**{name: pd.to_numeric(rows[name]).round() for name in whole})
        if table.chart:
            draw_chart(_chart, displayed, table.chart, titles)
        columns = {column.name: _column(column, titles[column.name], texts[column.name]) for column in table.columns}
        st.dataframe(displayed, hide_index=True, column_config=columns)
    with st.container(horizontal=True):
        for table in job.study.tables:
            content = partial(table.rows, result)
            tables.draw_csv("study.table", content, f"{table.name}.csv", f"csv_{table.name}")
        tables.draw_file("study.report", partial(report, job), f"{job.study.name}.md", "text/markdown", "study_report")


def _column(column: Column, title: str, text: str) -> Any:
    explanation = word(f"{text}_help") if has_text(f"{text}_help") else None
    if column.unit is ColumnUnit.TEXT:
        return st.column_config.TextColumn(title, help=explanation)
    form = "localized" if column.unit in (ColumnUnit.COUNT, ColumnUnit.BYTES) else f"%.{column.digits}f"
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


def pick_text(data: StoredSet) -> TextSource:
    """Draw the choice among the passages of the dataset and the stored texts; users may add and remove texts."""
    texts = {stored_text.reference: stored_text for stored_text in stored()}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = {data.key: word("texts.passages_of", name=set_name(data.name))}
        names |= {reference: text_source_name(stored_text) for reference, stored_text in texts.items()}
        kwargs: dict[str, Any] = {"help": word("texts.learned_help"), "width": 320}
        selected = choose_named(_IN_ADDRESS, word("texts.learned"), names, data.key, **kwargs)
        _draw_upload()
        text = texts.get(selected)
        if text and not text.shared:
            confirmation = word("texts.remove_sure", name=plain(text.name))
            message = word("texts.removed", name=plain(text.name))
            words.draw_remove(text.key, remove, confirmation=confirmation, message=message)
        source = text or data
        counts = {"documents": f"{documents_in(source):,}", "characters": f"{characters_in(source):,}"}
        st.caption(word("texts.about_text" if text else "texts.about_passages", **counts), width="content")
    words.draw_damaged(damaged(), remove)
    return source


def text_source_name(source: TextSource) -> str:
    if isinstance(source, StoredSet):
        return set_name(source.name)
    return as_shared(source.name, shared=source.shared)


def reference_of(source: TextSource) -> str:
    return source.key if isinstance(source, StoredSet) else source.reference


def characters_in(source: TextSource) -> int:
    return characters_of(source) if isinstance(source, StoredSet) else source.characters


def documents_in(source: TextSource) -> int:
    return source.passages if isinstance(source, StoredSet) else source.documents


def _draw_upload() -> None:
    number = st.session_state.setdefault(_ROUND, 0)  # another number gives an empty field and a closed popover
    with st.popover(word("texts.add"), icon=":material/upload_file:", key=f"add_text_{number}"):
        translate_field(f"upload_text_{number}")
        file = st.file_uploader(word("texts.file"), type="txt", key=f"upload_text_{number}")
        st.caption(word("texts.upload_about"))
        if isinstance(file, UploadedFile):
            with show_errors():
                _store_upload(file)


def _store_upload(file: UploadedFile) -> None:
    """Store an uploaded text and select it. The page displays an error while its file stays in the field."""
    read, refusal = st.session_state.get(_REFUSED, ("", None))
    if read == file.file_id:
        raise refusal
    name = named_by_file(file.name, "text")
    bar = st.empty()
    checking = word("texts.checking")
    bar.progress(0.0, text=checking)
    st.button(word("job.stop"), icon=":material/stop:", on_click=_empty_field, key="stop_text")

    def report_progress(fraction: float) -> None:
        bar.progress(fraction, text=checking)

    try:
        stored_text = save_text(file, name, source=file.name, on_progress=report_progress)
    except (Failure, OSError) as error:
        st.session_state[_REFUSED] = file.file_id, error
        st.rerun()
    _empty_field()
    remember(_IN_ADDRESS, stored_text.reference)
    st.toast(word("texts.stored", name=plain(name)), icon=":material/check:")
    st.rerun()


def _empty_field() -> None:
    st.session_state[_ROUND] += 1
