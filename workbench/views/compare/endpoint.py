"""The form for a search engine behind an HTTP endpoint, and one question to try it with."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import streamlit as st
from pydantic import ValidationError

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import user
from mrc_workbench.models.llm.endpoint import may_be_given
from mrc_workbench.retrieval.comparison.first_stage import HttpSpec
from mrc_workbench.retrieval.outside.http_search import HttpCaller, http_retriever
from mrc_workbench.retrieval.outside.request import PRESETS
from mrc_workbench.retrieval.outside.results import Hit
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.problems import failure_text
from mrc_workbench.workbench.views.ui.words import plain, word

_TRIED = 5  # results
_SHOWN_CHARACTERS = 80  # of a passage
_LONGEST_NAME = 60


def draw(data: StoredSet, free_name: Callable[[str], str]) -> HttpSpec | None:
    """Draw the form; returns the retriever once a user adds it. `free_name` makes a name that is not taken."""
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
        spec = _spec(values, free_name)
        if adds:
            return spec
        with outcome, st.spinner(word("outside.trying"), show_time=True):
            hits, seconds = _preview(spec, data, question)
    except Failure as error:
        outcome.error(plain(failure_text(error)), icon=":material/error:")
        return None
    with outcome:
        _draw_hits(hits, seconds, data)
    return None


def _draw_fields() -> dict[str, Any]:
    engine, called = st.columns(2)
    preset = engine.selectbox(
        word("outside.preset"), [*PRESETS], format_func=lambda one: word(f"outside.preset_{one}"), key="http_preset"
    )
    known = PRESETS[preset]

    def text(name: str, value: str = "", **look: Any) -> str:
        label = word(f"outside.{name}")
        return str(st.text_input(label, value, key=f"http_{name}_{preset}", **look)).strip()

    values: dict[str, Any] = {}
    with called:
        values["name"] = text("name", placeholder=word("outside.name_example"))
    values["url"] = text("url", known.url, help=word("outside.url_help"))
    methods = ["POST", "GET"]
    values["method"] = st.segmented_control(
        word("outside.method"), methods, default=known.method, required=True, key=f"http_method_{preset}"
    )
    if values["method"] == "POST":
        values["body"] = st.text_area(
            word("outside.body"), known.body, help=word("outside.body_help"), height=96, key=f"http_body_{preset}"
        )
    left, right = st.columns(2)
    with left:
        values["ids"] = text("ids", known.ids, help=word("outside.ids_help"))
    with right:
        values["scores"] = text("scores", known.scores, help=word("outside.scores_help"))
    with st.expander(word("outside.more")):
        return values | _draw_more(preset, known.secret_header)


def _draw_more(preset: str, header: str) -> dict[str, Any]:
    """Draw what most engines do not need. Where people sign in, no variable of the server can be sent."""
    values: dict[str, Any] = {}
    if not user():
        left, right = st.columns(2)
        name = left.text_input(word("outside.secret_header"), header, key=f"http_header_{preset}").strip()
        variable = right.text_input(
            word("outside.secret_variable"),
            placeholder="MRC_SECRET_SEARCH",
            help=word("outside.secret_help"),
            key=f"http_variable_{preset}",
        ).strip()
        values["secret_headers"] = {name: variable} if variable else {}
    left, right = st.columns(2)
    values["timeout"] = left.number_input(word("outside.timeout"), 1, 600, 10, key="http_timeout")
    values["concurrency"] = right.number_input(word("outside.concurrency"), 1, 64, 4, key="http_concurrency")
    return values


def _spec(values: dict[str, Any], free_name: Callable[[str], str]) -> HttpSpec:
    """Return the retriever that the form describes. Raises `Failure`."""
    url = values["url"]
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    name = free_name((values["name"] or host)[:_LONGEST_NAME])
    try:
        return HttpSpec(**{**values, "name": name})
    except ValidationError as error:
        cause = error.errors()[0]
        reason = cause.get("ctx", {}).get("error")
        if isinstance(reason, Failure):
            raise reason from error
        code = {"url": "outside_url", "ids": "outside_jmespath"}.get(str(cause["loc"][-1]), "")
        raise Failure(code, cause["msg"], path="") from error


def _preview(spec: HttpSpec, data: StoredSet, question: str) -> tuple[list[Hit], float]:
    """Send one question, once; returns what came and the seconds it took. Raises `Failure`."""
    caller = HttpCaller(spec.request, spec.ids, spec.scores, spec.timeout)
    return http_retriever(spec.name, caller, question_set(data.key), spec.order).preview(question, _TRIED)


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
        st.warning(
            f"{said} {word('outside.tried_unknown', example=example, own=own, **counts)}", icon=":material/warning:"
        )
    else:
        st.success(said, icon=":material/check_circle:")
    rows = [
        (
            hit.reference,
            passages.texts[hit.row][:_SHOWN_CHARACTERS] if hit.row >= 0 else word("outside.result_unknown"),
            hit.score,
        )
        for hit in hits
    ]
    columns = {
        "id": tables.text("outside.result_id"),
        "passage": tables.text("outside.result_passage"),
        "score": tables.number("outside.result_score"),
    }
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
