"""Add a retriever: with a model, from a run file, in Milvus, or a search engine behind an HTTP endpoint."""

from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import streamlit as st
from pydantic import ValidationError
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import LimitError, user
from mrc_workbench.models.llm import may_be_given
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison.experiment import add, add_run, remove
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, HttpSpec, MilvusSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.milvus import Search
from mrc_workbench.retrieval.outside import Hit
from mrc_workbench.retrieval.outside.http_search import PRESETS, HttpCaller, http_retriever
from mrc_workbench.retrieval.trec import RunError
from mrc_workbench.workbench.views.choices import Choices, models_at_hand
from mrc_workbench.workbench.views.names import base_name, model_label
from mrc_workbench.workbench.views.navigation import translate_field
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import distinct_labels
from mrc_workbench.workbench.views.ui.words import failure_text, free_name, plain, word

_TRIED = 5  # results
_SHOWN_CHARACTERS = 80  # of a passage
_LONGEST_NAME = 60
_ADDED_KINDS = ("dense", "sparse", "rerank", "run", "http", "milvus")


def draw_adding(choices: Choices, data: StoredSet) -> str | None:
    """Draw what adds and removes; returns the name of a retriever that was just added."""
    kind = st.selectbox(word("compare.add_kind"), _ADDED_KINDS, format_func=lambda k: word(f"kind.{k}"), key="add_kind")
    add_one = {"run": _add_run, "milvus": _add_milvus, "http": _add_http}.get(kind)
    name = add_one(choices, data) if add_one else _add_model(kind, choices, data)
    if choices.added:
        st.divider()
        st.caption(word("compare.added"))
    for added in choices.added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(added))
        if right.button("", icon=":material/delete:", key=f"remove_{added}", help=word("compare.remove_added")):
            remove(data.fingerprint, added)
            st.rerun()
    return name


def short_name(model: str) -> str:
    """Return what a model is called in a retriever's name: the name of its training, else the last part of its id."""
    called = base_name(model)
    return PurePath(model).name if called == model else called


def _free_name(kind: str, given: str, choices: Choices) -> str:
    return free_name(f"{word(f'kind_short.{kind}')} · {given.replace('|', '/')[:60]}", choices.specs)


def _pick_model(kind: str, choices: Choices) -> str:
    """Draw a choice among the models at hand that also takes a hub id or a folder; returns the model, "" for none."""
    at_hand = models_at_hand(kind, choices)
    key = f"add_{kind}_model"
    typed = st.session_state.get(key)
    labels = distinct_labels(at_hand, partial(model_label, read=choices.plans))
    options = [*at_hand, *([typed] if typed and typed not in at_hand else [])]
    look: dict[str, Any] = {"index": None, "accept_new_options": True, "placeholder": word(f"adding.example_{kind}")}
    look |= {"format_func": lambda model: labels.get(model, model), "help": word("compare.add_model_help")}
    picked = st.selectbox(word("compare.add_model"), options, key=key, **look)
    return (picked or "").strip()


def _add_model(kind: str, choices: Choices, data: StoredSet) -> str | None:
    model = _pick_model(kind, choices)
    windows = {} if kind == "sparse" else _windows()
    if not model:
        st.caption(f":material/info: {word('adding.needs_model')}")
    if not st.button(word("compare.add_this"), disabled=not model or windows is None, type="primary"):
        return None
    values = {"name": _free_name(kind, short_name(model), choices), "model": model, **(windows or {})}
    specs: dict[str, Callable[..., Spec]] = {"dense": DenseSpec, "sparse": SparseSpec}
    spec = specs[kind](**values) if kind in specs else RerankSpec(first=BM25_NAME, **values)
    add(data.fingerprint, spec)
    return spec.name


def _windows() -> dict[str, Any] | None:
    """Draw how long passages are read; None if that leaves something out."""
    if not st.checkbox(word("compare.windows"), value=True, help=word("compare.windows_help"), key="add_windows"):
        return {}
    lengths = []
    for column, name in zip(st.columns(2), ("window_tokens", "stride"), strict=True):
        label, about = word(f"compare.{name}"), word(f"compare.{name}_help")
        lengths.append(column.number_input(label, min_value=0, value=0, help=about, key=f"add_{name}"))
    tokens, stride = lengths
    if tokens and stride > tokens:
        st.error(word("compare.stride_too_long"), icon=":material/error:")
        return None
    return {"windows": True, "window_tokens": tokens, "stride": stride}


def _add_run(choices: Choices, data: StoredSet) -> str | None:
    key = f"upload_run_{st.session_state.get('runs_added', 0)}"
    translate_field(key)
    file = st.file_uploader(word("imported.file"), key=key)
    st.caption(word("imported.about"))
    if not isinstance(file, UploadedFile) or not st.button(word("compare.add_this"), type="primary"):
        return None
    name = _free_name("run", PurePath(file.name).stem, choices)
    try:
        with st.spinner(word("imported.reading"), show_time=True):
            add_run(question_set(data.key), name, file.getvalue(), file.name)
    except (LimitError, RunError) as error:
        st.error(f"**{plain(file.name)}**: {plain(failure_text(error))}", icon=":material/error:")
        return None
    st.session_state["runs_added"] = st.session_state.get("runs_added", 0) + 1  # a new field, without the file
    return name


def _add_milvus(choices: Choices, data: StoredSet) -> str | None:
    named = {one: word(f"milvus.search_{one}") for one in Search}
    search = st.selectbox(word("milvus.search"), [*named], format_func=named.__getitem__) or Search.BM25
    model = STARTER
    if search is not Search.BM25:
        model = _pick_model("dense", choices) or STARTER
        st.caption(word("milvus.model_about"))
    st.caption(word("milvus.about"))
    if not st.button(word("compare.add_this"), type="primary"):
        return None
    of_model = [] if model == STARTER else [short_name(model)]
    name = _free_name("milvus", " · ".join([word(f"milvus.name_{search}"), *of_model]), choices)
    add(data.fingerprint, MilvusSpec(name=name, search=search, model=model))
    return name


def _add_http(choices: Choices, data: StoredSet) -> str | None:
    if not may_be_given():
        st.info(word("outside.outside_address_refused"), icon=":material/lock:")
        return None
    st.caption(word("outside.about"))
    values = _draw_fields()
    questions = question_set(data.key).questions
    usual = questions[0].text if questions else ""
    question = st.text_input(word("outside.question"), usual, key=f"http_question_{data.key}")
    outcome = st.container()  # above the buttons: what comes below them is out of sight in the popover
    with st.container(horizontal=True):
        tries = st.button(word("outside.try_it"), icon=":material/play_arrow:", key="http_try")
        adds = st.button(word("compare.add_this"), type="primary", key="http_add")
    if not tries and not adds:
        return None
    try:
        spec = _spec(values, lambda given: _free_name("http", given, choices))
        if adds:
            add(data.fingerprint, spec)
            return spec.name
        with outcome, st.spinner(word("outside.trying"), show_time=True):
            caller = HttpCaller(spec.request, spec.ids, spec.scores, spec.timeout)
            retriever = http_retriever(spec.name, caller, question_set(data.key), spec.order)
            hits, seconds = retriever.preview(question, _TRIED)
    except Failure as error:
        outcome.error(plain(failure_text(error)), icon=":material/error:")
        return None
    with outcome:
        _draw_hits(hits, seconds, data)
    return None


def _draw_fields() -> dict[str, Any]:
    engine, called = st.columns(2)
    labels = {name: word(f"outside.preset_{name}") for name in PRESETS}
    preset = engine.selectbox(word("outside.preset"), [*labels], format_func=labels.__getitem__, key="http_preset")
    known = PRESETS[preset]

    def text(name: str, value: str = "", **look: Any) -> str:
        label = word(f"outside.{name}")
        return str(st.text_input(label, value, key=f"http_{name}_{preset}", **look)).strip()

    values: dict[str, Any] = {}
    with called:
        values["name"] = text("name", placeholder=word("outside.name_example"))
    values["url"] = text("url", known.url, help=word("outside.url_help"))
    methods = ["POST", "GET"]
    label, key = word("outside.method"), f"http_method_{preset}"
    values["method"] = st.segmented_control(label, methods, default=known.method, required=True, key=key)
    if values["method"] == "POST":
        label, about = word("outside.body"), word("outside.body_help")
        values["body"] = st.text_area(label, known.body, help=about, height=96, key=f"http_body_{preset}")
    left, right = st.columns(2)
    with left:
        values["ids"] = text("ids", known.ids, help=word("outside.ids_help"))
    with right:
        values["scores"] = text("scores", known.scores, help=word("outside.scores_help"))
    with st.expander(word("outside.more")):
        return values | _draw_more(preset, known.secret_header)


def _draw_more(preset: str, header: str) -> dict[str, Any]:
    """Draw what most engines do not need. With sign-in, no variable of the server can be sent."""
    values: dict[str, Any] = {}
    if not user():
        left, right = st.columns(2)
        name = left.text_input(word("outside.secret_header"), header, key=f"http_header_{preset}").strip()
        look: dict[str, Any] = {"placeholder": "MRC_SECRET_SEARCH", "help": word("outside.secret_help")}
        variable = right.text_input(word("outside.secret_variable"), key=f"http_variable_{preset}", **look).strip()
        values["secret_headers"] = {name: variable} if variable else {}
    left, right = st.columns(2)
    values["timeout"] = left.number_input(word("outside.timeout"), 1, 600, 10, key="http_timeout")
    values["concurrency"] = right.number_input(word("outside.concurrency"), 1, 64, 4, key="http_concurrency")
    return values


def _spec(values: dict[str, Any], make_name: Callable[[str], str]) -> HttpSpec:
    url = values["url"]
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    name = make_name((values["name"] or host)[:_LONGEST_NAME])
    try:
        return HttpSpec(**{**values, "name": name})
    except ValidationError as error:
        cause = error.errors()[0]
        reason = cause.get("ctx", {}).get("error")
        if isinstance(reason, Failure):
            raise reason from error
        code = {"url": "outside_url", "ids": "outside_jmespath"}.get(str(cause["loc"][-1]), "")
        raise Failure(code, cause["msg"], path="") from error


def _draw_hits(hits: list[Hit], seconds: float, data: StoredSet) -> None:
    if not hits:
        st.warning(word("outside.tried_nothing"), icon=":material/search_off:")
        return
    passages = question_set(data.key).passages
    unknown = [hit.reference for hit in hits if hit.row < 0]
    said = word("outside.tried", count=len(hits), milliseconds=f"{1000 * seconds:,.0f}")
    if unknown:
        example, own = plain(unknown[0]), plain(passages.ids[0])
        counts = {"count": len(unknown), "of": len(hits)}
        told = word("outside.tried_unknown", example=example, own=own, **counts)
        st.warning(f"{said} {told}", icon=":material/warning:")
    else:
        st.success(said, icon=":material/check_circle:")
    missing = word("outside.result_unknown")
    texts = [passages.texts[hit.row][:_SHOWN_CHARACTERS] if hit.row >= 0 else missing for hit in hits]
    rows = [(hit.reference, text, hit.score) for hit, text in zip(hits, texts, strict=True)]
    columns = {
        "id": tables.text("outside.result_id"),
        "passage": tables.text("outside.result_passage"),
        "score": tables.number("outside.result_score"),
    }
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
