"""The controls of the Compare page: retrievers, the form that adds one, questions, metrics and filters."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import streamlit as st
from pydantic import ValidationError
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import LimitError, user
from mrc_workbench.models.llm import users_may_set_address
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.analysis.evidence import default_measure, discriminating_measure
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import add_retriever, add_run, remove_retriever
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, HttpSpec, MilvusSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.retrieval.outside import ExternalHit
from mrc_workbench.retrieval.outside.http_search import PRESETS, HttpCaller, http_retriever
from mrc_workbench.retrieval.trec import RunError
from mrc_workbench.workbench.views.choices import RetrieverChoices, local_models, without_weak_baselines
from mrc_workbench.workbench.views.names import MEASURES, base_name, leading_name, model_label, retriever_name
from mrc_workbench.workbench.views.navigation import translate_field
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import state, tables
from mrc_workbench.workbench.views.ui.words import failure_text, free_name, label_and_help, plain, word

_PREVIEW_HITS = 5
_PREVIEW_CHARACTERS = 80  # of a passage
_LONGEST_NAME = 60
_ADDED_KINDS = ("dense", "sparse", "rerank", "run", "http", "milvus")
# Address parameters of the filters of the Why tab
NO_FILTERS = dict.fromkeys(("quadrant", "block", "of", "fate", "slice", "within", "words"), "")
_ROUND = "selection_round"  # session key: how often the app, not a click, changed the selected retrievers


def draw_retriever_form(choices: RetrieverChoices, data: StoredSet) -> str | None:
    """Draw the form that adds retrievers and the list that removes them; return the name of a new one."""
    kind = st.selectbox(word("compare.add_kind"), _ADDED_KINDS, format_func=lambda k: word(f"kind.{k}"), key="add_kind")
    add_retriever = {"run": _add_run, "milvus": _add_milvus, "http": _add_http}.get(kind)
    name = add_retriever(choices, data) if add_retriever else _add_model(kind, choices, data)
    if choices.added:
        st.divider()
        st.caption(word("compare.added"))
    for added in choices.added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(added))
        if right.button("", icon=":material/delete:", key=f"remove_{added}", help=word("compare.remove_added")):
            remove_retriever(data.fingerprint, added)
            st.rerun()
    return name


def short_name(model: str) -> str:
    """Return a model's name within a retriever's name: the name of its training, else the last part of its id."""
    base = base_name(model)
    return PurePath(model).name if base == model else base


def _free_name(kind: str, given: str, choices: RetrieverChoices) -> str:
    return free_name(f"{word(f'kind_short.{kind}')} · {given.replace('|', '/')[:60]}", choices.specs)


def _pick_model(kind: str, choices: RetrieverChoices) -> str:
    """Draw a choice of a local model, a hub id or a folder; return the model, "" if none is selected."""
    key = f"add_{kind}_model"
    options = local_models(kind, choices)
    labels = state.distinct_labels(options, partial(model_label, plans=choices.plans))
    typed = st.session_state.get(key)
    if typed and typed not in options:
        options = [*options, typed]
    kwargs: dict[str, Any] = {"index": None, "accept_new_options": True, "placeholder": word(f"adding.example_{kind}")}
    kwargs |= {"format_func": lambda model: labels.get(model, model), "help": word("compare.add_model_help")}
    selected = st.selectbox(word("compare.add_model"), options, key=key, **kwargs)
    return (selected or "").strip()


def _add_model(kind: str, choices: RetrieverChoices, data: StoredSet) -> str | None:
    model = _pick_model(kind, choices)
    windows = {} if kind == "sparse" else _pick_windows()
    if not model:
        st.caption(f":material/info: {word('adding.needs_model')}")
    if not st.button(word("compare.add_this"), disabled=not model or windows is None, type="primary"):
        return None
    values = {"name": _free_name(kind, short_name(model), choices), "model": model, **(windows or {})}
    specs: dict[str, Callable[..., Spec]] = {"dense": DenseSpec, "sparse": SparseSpec}
    spec = specs[kind](**values) if kind in specs else RerankSpec(first=BM25_NAME, **values)
    add_retriever(data.fingerprint, spec)
    return spec.name


def _pick_windows() -> dict[str, Any] | None:
    """Draw how passages are split into windows; None if the stride would skip text."""
    if not st.checkbox(word("compare.windows"), value=True, help=word("compare.windows_help"), key="add_windows"):
        return {}
    lengths = []
    for column, name in zip(st.columns(2), ("window_tokens", "stride"), strict=True):
        label = word(f"compare.{name}")
        about = word(f"compare.{name}_help")
        lengths.append(column.number_input(label, min_value=0, value=0, help=about, key=f"add_{name}"))
    tokens, stride = lengths
    if tokens and stride > tokens:
        st.error(word("compare.stride_too_long"), icon=":material/error:")
        return None
    return {"windows": True, "window_tokens": tokens, "stride": stride}


def _add_run(choices: RetrieverChoices, data: StoredSet) -> str | None:
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
    st.session_state["runs_added"] = st.session_state.get("runs_added", 0) + 1  # the next field is empty
    return name


def _add_milvus(choices: RetrieverChoices, data: StoredSet) -> str | None:
    labels = {option: word(f"milvus.search_{option}") for option in MilvusSearchMode}
    search = st.selectbox(word("milvus.search"), [*labels], format_func=labels.__getitem__) or MilvusSearchMode.BM25
    model = STARTER
    if search is not MilvusSearchMode.BM25:
        model = _pick_model("dense", choices) or STARTER
        st.caption(word("milvus.model_about"))
    st.caption(word("milvus.about"))
    if not st.button(word("compare.add_this"), type="primary"):
        return None
    model_names = [] if model == STARTER else [short_name(model)]
    name = _free_name("milvus", " · ".join([word(f"milvus.name_{search}"), *model_names]), choices)
    add_retriever(data.fingerprint, MilvusSpec(name=name, search=search, model=model))
    return name


def _add_http(choices: RetrieverChoices, data: StoredSet) -> str | None:
    if not users_may_set_address():
        st.info(word("outside.outside_address_refused"), icon=":material/lock:")
        return None
    st.caption(word("outside.about"))
    values = _draw_fields()
    questions = question_set(data.key).questions
    default_question = questions[0].text if questions else ""
    question = st.text_input(word("outside.question"), default_question, key=f"http_question_{data.key}")
    outcome = st.container()  # above the buttons: the popover hides its end
    with st.container(horizontal=True):
        is_tried = st.button(word("outside.try_it"), icon=":material/play_arrow:", key="http_try")
        is_added = st.button(word("compare.add_this"), type="primary", key="http_add")
    if not is_tried and not is_added:
        return None
    try:
        spec = _http_spec(values, lambda given: _free_name("http", given, choices))
        if is_added:
            add_retriever(data.fingerprint, spec)
            return spec.name
        with outcome, st.spinner(word("outside.trying"), show_time=True):
            caller = HttpCaller(spec.request, spec.ids, spec.scores, spec.timeout)
            retriever = http_retriever(spec.name, caller, question_set(data.key), spec.order)
            hits, seconds = retriever.preview(question, _PREVIEW_HITS)
    except Failure as error:
        outcome.error(plain(failure_text(error)), icon=":material/error:")
        return None
    with outcome:
        _draw_hits(hits, seconds, data)
    return None


def _draw_fields() -> dict[str, Any]:
    engine, name_column = st.columns(2)
    labels = {name: word(f"outside.preset_{name}") for name in PRESETS}
    preset = engine.selectbox(word("outside.preset"), [*labels], format_func=labels.__getitem__, key="http_preset")
    known = PRESETS[preset]

    def text(name: str, value: str = "", **kwargs: Any) -> str:
        label = word(f"outside.{name}")
        return str(st.text_input(label, value, key=f"http_{name}_{preset}", **kwargs)).strip()

    values: dict[str, Any] = {}
    with name_column:
        values["name"] = text("name", placeholder=word("outside.name_example"))
    values["url"] = text("url", known.url, help=word("outside.url_help"))
    methods = ["POST", "GET"]
    label = word("outside.method")
    key = f"http_method_{preset}"
    values["method"] = st.segmented_control(label, methods, default=known.method, required=True, key=key)
    if values["method"] == "POST":
        label = word("outside.body")
        about = word("outside.body_help")
        values["body"] = st.text_area(label, known.body, help=about, height=96, key=f"http_body_{preset}")
    left, right = st.columns(2)
    with left:
        values["ids"] = text("ids", known.ids, help=word("outside.ids_help"))
    with right:
        values["scores"] = text("scores", known.scores, help=word("outside.scores_help"))
    with st.expander(word("outside.more")):
        return values | _draw_more(preset, known.secret_header)


def _draw_more(preset: str, header: str) -> dict[str, Any]:
    """Draw options that few engines need. With sign-in, users cannot send environment variables of the server."""
    values: dict[str, Any] = {}
    if not user():
        left, right = st.columns(2)
        name = left.text_input(word("outside.secret_header"), header, key=f"http_header_{preset}").strip()
        kwargs: dict[str, Any] = {"placeholder": "MRC_SECRET_SEARCH", "help": word("outside.secret_help")}
        variable = right.text_input(word("outside.secret_variable"), key=f"http_variable_{preset}", **kwargs).strip()
        values["secret_headers"] = {name: variable} if variable else {}
    left, right = st.columns(2)
    values["timeout"] = left.number_input(word("outside.timeout"), 1, 600, 10, key="http_timeout")
    values["concurrency"] = right.number_input(word("outside.concurrency"), 1, 64, 4, key="http_concurrency")
    return values


def _http_spec(values: dict[str, Any], make_name: Callable[[str], str]) -> HttpSpec:
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


def _draw_hits(hits: list[ExternalHit], seconds: float, data: StoredSet) -> None:
    if not hits:
        st.warning(word("outside.tried_nothing"), icon=":material/search_off:")
        return
    passages = question_set(data.key).passages
    unknown = [hit.reference for hit in hits if hit.row < 0]
    message = word("outside.tried", count=len(hits), milliseconds=f"{1000 * seconds:,.0f}")
    if unknown:
        examples = {"example": plain(unknown[0]), "own": plain(passages.ids[0])}
        details = word("outside.tried_unknown", count=len(unknown), of=len(hits), **examples)
        st.warning(f"{message} {details}", icon=":material/warning:")
    else:
        st.success(message, icon=":material/check_circle:")
    missing = word("outside.result_unknown")
    texts = [passages.texts[hit.row][:_PREVIEW_CHARACTERS] if hit.row >= 0 else missing for hit in hits]
    rows = [(hit.reference, text, hit.score) for hit, text in zip(hits, texts, strict=True)]
    columns = {
        "id": tables.text("outside.result_id"),
        "passage": tables.text("outside.result_passage"),
        "score": tables.number("outside.result_score"),
    }
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def choose_in_address(
    name: str, options: Mapping[str, str], selected: str, label: str, *resets: str, disabled: bool = False
) -> None:
    """Draw a choice that is stored in the address; a change removes the parameters `resets` from it."""
    kwargs = bind_to_address(name, selected, *resets)
    st.selectbox(label, [*options], format_func=lambda option: options.get(option, option), disabled=disabled, **kwargs)


def bind_to_address(name: str, value: str, *resets: str) -> dict[str, Any]:
    """Return the arguments that bind a widget to an address parameter; a change removes the parameters `resets`."""
    key = f"why_{name}"
    st.session_state[key] = value

    def enter() -> None:
        change_address({**dict.fromkeys(resets, ""), name: str(st.session_state.get(key) or "").strip()})

    return {"key": key, "on_change": enter}


def change_address(parameters: Mapping[str, str]) -> None:
    other_parameters = {name: value for name, value in st.query_params.to_dict().items() if name not in parameters}
    st.query_params.from_dict(other_parameters | {name: value for name, value in parameters.items() if value})


def show_why(filters: Mapping[str, str]) -> None:
    state.store_choice("view", "why")
    change_address({**NO_FILTERS, "question": "", **filters, "view": "why"})


def pick_retrievers(choices: RetrieverChoices, data: StoredSet) -> list[str]:
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        time_labels = {name: choices.expected.label(name) if choices.expected else "" for name in choices.specs}
        key = f"{data.key}_{len(choices.specs)}"
        # Forecasts change with every measurement; the defaults stay the same within a session
        default_names = st.session_state.setdefault(f"default_retrievers_{key}", choices.default_names)
        # The browser identifies chips by their labels, so other labels need another widget
        selected = pick_among([*choices.specs], default_names, f"{key}_{key_of(time_labels)[:8]}", time_labels)
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        added = draw_retriever_form(choices, data)
    if choices.large:
        st.caption(word("compare.large_set", passages=f"{data.passages:,}"))
    elif any(time_labels.values()):
        st.caption(word("compare.slow_unselected"))
    if added:
        select_also(selected, added)
        st.rerun()
    return selected


def pick_part(choices: RetrieverChoices, selected: Sequence[str]) -> Part:
    default = Part.TEST if any(name in choices.trained for name in selected) else Part.ALL
    parts = {part.value: word(f"part.{part}") for part in Part}
    kwargs: dict[str, Any] = {"help": word("compare.questions_help"), "width": 110}
    return Part(state.choose_named("part", word("compare.questions"), parts, default.value, **kwargs))


def pick_grade(data: StoredSet) -> int:
    gains = question_set(data.key).gains
    grades = [] if gains is None else np.unique(gains.data).astype(int).tolist()
    options = [str(grade) for grade in dict.fromkeys((RELEVANT_GRADE, *grades))]
    if len(options) == 1:
        return RELEVANT_GRADE
    kwargs = {**label_and_help("compare.relevant_from"), "follows": True, "width": 110}
    return int(state.choose(st.selectbox, "grade", options=options, default=options[0], **kwargs))


def pick_metric(comparison: Comparison, names: Sequence[str], baseline: str) -> tuple[str, int, str]:
    """Draw and return metric, K and baseline. At the default K the retrievers differ."""
    available_ks = comparison.experiment.ks
    ks = [str(k) for k in available_ks]
    known = {Measure.parse(metric).name for scores in comparison.scores.values() for metric in scores.per_question}
    measures = [metric for metric in MEASURES if metric in known] or [*MEASURES[:-1]]
    measure = leading_name(measures)
    leading = without_weak_baselines([name for name in names if name in comparison.scores])
    scores = {name: comparison.scores[name] for name in leading}
    default_k = str(discriminating_measure(scores, available_ks, default_measure(measure, available_ks)).cutoff)
    k = state.remembered("k", default_k, ks)
    selected_baseline = state.remembered("baseline", baseline, names)
    kwargs: dict[str, Any] = {"format_func": lambda name: word(f"measure.{name}"), "help": word("compare.measure_help")}
    state.choose(st.selectbox, "measure", word("compare.measure"), measures, measures[0], width=180, **kwargs)
    state.choose(st.selectbox, "k", "K", ks, default_k, follows=True, help=word("compare.k_help"), width=90)
    kwargs = {"format_func": retriever_name, "help": word("compare.baseline_help"), "follows": True, "width": 220}
    state.choose(st.selectbox, "baseline", word("compare.baseline"), names, baseline, **kwargs)
    return measure, int(k), selected_baseline


def select_also(names: Sequence[str], name: str, part: Part | None = None) -> None:
    """Select `names` and one more retriever, and the questions of `part`, for the next run of the page."""
    st.query_params["run"] = "now"  # start it, rather than display the last comparison
    select_only([*(other for other in names if other != name), name], part)


def select_only(names: Sequence[str], part: Part | None) -> None:
    st.query_params["retrievers"] = "|".join(names)
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    if part:
        state.remember("part", part.value)


def pick_among(
    names: Sequence[str], default: Sequence[str], key: str, time_labels: Mapping[str, str] | None = None
) -> list[str]:
    """Draw the choice of retrievers; `time_labels` are the notes on their times, by name."""

    def chip(name: str) -> str:
        return " · ".join(filter(None, (plain(retriever_name(name)), (time_labels or {}).get(name))))

    kwargs: dict[str, Any] = {"wrap": True, "format_func": chip, "help": word("compare.retrievers_help")}
    key = f"retrievers_{key}_{st.session_state.get(_ROUND, 0)}"
    return state.choose_several(st.pills, "retrievers", word("compare.retrievers"), names, default, key=key, **kwargs)
