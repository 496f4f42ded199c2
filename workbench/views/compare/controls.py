"""What a person chooses on the Compare page, and what of it the address holds: retrievers, figures, filters."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.analysis.evidence import telling_figure, usual_figure
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import add, add_run, remove
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, MilvusSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.milvus import Search
from mrc_workbench.retrieval.trec import RunError
from mrc_workbench.workbench.views.choices import Choices, free_name, models_at_hand, without_plainest
from mrc_workbench.workbench.views.compare import endpoint
from mrc_workbench.workbench.views.leading import MEASURES, leading_name
from mrc_workbench.workbench.views.names import base_name, model_label, retriever_name
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.problems import failure_text
from mrc_workbench.workbench.views.ui.state import choose, choose_several, distinct_labels, keep, remember, remembered
from mrc_workbench.workbench.views.ui.words import plain, word
from mrc_workbench.workbench.views.uploads import translate_field


def choose_in_address(
    name: str, options: Mapping[str, str], chosen: str, label: str, *, also: Sequence[str] = (), disabled: bool = False
) -> None:
    """Draw a choice that lies in the address, by the words of each; a change takes the parameters `also` out of it."""
    look = tie(name, chosen, *also)
    st.selectbox(label, [*options], format_func=lambda one: options.get(one, one), disabled=disabled, **look)


def tie(name: str, value: str, *also: str) -> dict[str, Any]:
    """Return what ties a widget to a parameter of the address, at `value`; an entry takes `also` out of it."""
    key = f"why_{name}"
    st.session_state[key] = value

    def enter() -> None:
        change({**dict.fromkeys(also, ""), name: str(st.session_state.get(key) or "").strip()})

    return {"key": key, "on_change": enter}


def change(parameters: Mapping[str, str]) -> None:
    """Set parameters of the address, or take away those that are empty, in one step of the browser's history."""
    kept = {name: value for name, value in st.query_params.to_dict().items() if name not in parameters}
    st.query_params.from_dict(kept | {name: value for name, value in parameters.items() if value})


NO_FILTERS = dict.fromkeys(("quadrant", "block", "of", "fate", "slice", "within", "words"), "")  # of the address


def show_why(filters: Mapping[str, str]) -> None:
    """Have the page show the Why view with these filters and no others."""
    keep("view", "why")
    change({**NO_FILTERS, "question": "", **filters, "view": "why"})


_ADDED_KINDS = ("dense", "sparse", "rerank", "run", "http", "milvus")


def _draw_adding(choices: Choices, data: StoredSet) -> str | None:
    """Draw what adds and removes; returns the name of a retriever that was added just now."""
    kind = st.selectbox(word("compare.add_kind"), _ADDED_KINDS, format_func=lambda k: word(f"kind.{k}"), key="add_kind")
    if kind == "run":
        name = _add_run(choices, data)
    elif kind == "milvus":
        name = _add_milvus(choices, data)
    elif kind == "http":
        name = _add_http(choices, data)
    else:
        name = _add_model(kind, choices, data)
    if choices.added:
        st.divider()
        st.caption(word("compare.added"))
    for one in choices.added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(one))
        if right.button("", icon=":material/delete:", key=f"remove_{one}", help=word("compare.remove_added")):
            remove(data.fingerprint, one)
            st.rerun()
    return name


def short_name(model: str) -> str:
    """Return what a model is called in a retriever's name: the name of its training, else the last part of its id."""
    called = base_name(model)
    return PurePath(model).name if called == model else called


def _free_name(kind: str, given: str, choices: Choices) -> str:
    """Return a name that is not taken; a bar separates names in the address."""
    return free_name(f"{word(f'kind_short.{kind}')} · {given.replace('|', '/')[:60]}", choices.specs)


def _pick_model(kind: str, choices: Choices) -> str:
    """Draw a choice among the models at hand that also takes a hub id or a folder; returns the model, "" for none."""
    at_hand = models_at_hand(kind, choices)
    key = f"add_{kind}_model"
    typed = st.session_state.get(key)
    labels = distinct_labels(at_hand, partial(model_label, read=choices.plans))
    picked = st.selectbox(
        word("compare.add_model"),
        [*at_hand, *([typed] if typed and typed not in at_hand else [])],
        index=None,
        format_func=lambda model: labels.get(model, model),
        placeholder=word(f"adding.example_{kind}"),
        accept_new_options=True,
        help=word("compare.add_model_help"),
        key=key,
    )
    return (picked or "").strip()


def _add_model(kind: str, choices: Choices, data: StoredSet) -> str | None:
    model = _pick_model(kind, choices)
    windows = {} if kind == "sparse" else _windows()
    if not model:
        st.caption(f":material/info: {word('adding.needs_model')}")
    if not st.button(word("compare.add_this"), disabled=not model or windows is None, type="primary"):
        return None
    given = short_name(model)
    name, values = _free_name(kind, given, choices), {"model": model, **(windows or {})}
    made: dict[str, Spec] = {
        "dense": DenseSpec(name=name, **values),
        "sparse": SparseSpec(name=name, model=model),
        "rerank": RerankSpec(name=name, first=BM25_NAME, **values),
    }
    add(data.fingerprint, made[kind])
    return name


def _windows() -> dict[str, Any] | None:
    """Draw how long passages are read; None where that leaves something out."""
    if not st.checkbox(word("compare.windows"), value=True, help=word("compare.windows_help"), key="add_windows"):
        return {}
    left, right = st.columns(2)
    tokens, stride = (
        place.number_input(
            word(f"compare.{name}"), min_value=0, value=0, help=word(f"compare.{name}_help"), key=f"add_{name}"
        )
        for place, name in ((left, "window_tokens"), (right, "stride"))
    )
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
    spec = endpoint.draw(data, lambda given: _free_name("http", given, choices))
    if spec is None:
        return None
    add(data.fingerprint, spec)
    return spec.name


_ROUND = "picked_round"  # how often something else than a click changed what is picked


def pick_retrievers(choices: Choices, data: StoredSet) -> list[str]:
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        times = {name: choices.expected.label(name) if choices.expected else "" for name in choices.specs}
        key = f"{data.key}_{len(choices.specs)}"
        # forecasts change with every measurement: what was selected at first stays selected in this session
        first = st.session_state.setdefault(f"first_picked_{key}", choices.first_picked)
        # a chip is known to the browser by its label: other labels make another widget
        picked = pick_among([*choices.specs], first, f"{key}_{key_of(times)[:8]}", times)
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        added = _draw_adding(choices, data)
    if choices.large:
        st.caption(word("compare.large_set", passages=f"{data.passages:,}"))
    elif any(times.values()):
        st.caption(word("compare.slow_unselected"))
    if added:
        pick_also(picked, added)
        st.rerun()
    return picked


def pick_part(choices: Choices, picked: Sequence[str]) -> Part:
    first_part = Part.TEST if any(name in choices.trained for name in picked) else Part.ALL
    parts = {part.value: word(f"part.{part}") for part in Part}
    label, look = word("compare.questions"), {"help": word("compare.questions_help"), "width": 110}
    usual = first_part.value
    return Part(choose(st.selectbox, "part", label, [*parts], usual, follows=True, format_func=parts.get, **look))


def pick_grade(data: StoredSet) -> int:
    """Draw the choice of the least grade that is relevant, where there are several; returns it."""
    gains = question_set(data.key).gains
    grades = [] if gains is None else np.unique(gains.data).astype(int).tolist()
    options = [str(grade) for grade in dict.fromkeys((RELEVANT_GRADE, *grades))]
    if len(options) == 1:
        return RELEVANT_GRADE
    label, look = word("compare.relevant_from"), {"help": word("compare.relevant_from_help"), "width": 110}
    return int(choose(st.selectbox, "grade", label, options, options[0], follows=True, **look))


def pick_figure(comparison: Comparison, names: Sequence[str], baseline: str) -> tuple[str, int, str]:
    """Draw the choice of the measure, of a K that was measured, and of the baseline among the names; returns them.

    Until somebody chooses, K is the usual one, or where all find everything in that many one that tells them apart.
    """
    measured = comparison.experiment.ks
    ks = [str(k) for k in measured]
    known = {Measure.parse(one).name for of in comparison.scores.values() for one in of.per_question}
    measures = [one for one in MEASURES if one in known] or [*MEASURES[:-1]]
    measure = leading_name(measures)
    told = without_plainest([name for name in names if name in comparison.scores])
    scores = {name: comparison.scores[name] for name in told}
    usual = str(telling_figure(scores, measured, usual_figure(measure, measured)).cut)
    k, chosen = remembered("k", usual, ks), remembered("baseline", baseline, names)
    named = {one: word(f"measure.{one}") for one in measures}
    label, help_text = word("compare.measure"), word("compare.measure_help")
    look: dict[str, Any] = {"format_func": named.get, "help": help_text, "width": 180}
    choose(st.selectbox, "measure", label, measures, measures[0], **look)
    choose(st.selectbox, "k", "K", ks, usual, follows=True, help=word("compare.k_help"), width=90)
    label, help_text = word("compare.baseline"), word("compare.baseline_help")
    look = {"format_func": retriever_name, "help": help_text, "width": 220}
    choose(st.selectbox, "baseline", label, names, baseline, follows=True, **look)
    return measure, int(k), chosen


def pick_also(names: Sequence[str], name: str, part: Part | None = None) -> None:
    """Have the page pick one more retriever than `names` when it is drawn next, and ask the questions of `part`."""
    st.query_params["retrievers"] = "|".join([*(one for one in names if one != name), name])
    st.query_params["run"] = "now"  # it was asked for: what was compared last is not shown in its place
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    if part:
        remember("part", part.value)


def pick_only(names: Sequence[str], part: Part) -> None:
    """Have the page pick these retrievers when it is drawn next, and ask the questions of `part`."""
    st.query_params["retrievers"] = "|".join(names)
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    remember("part", part.value)


def pick_among(
    names: Sequence[str], usual: Sequence[str], key: str, times: Mapping[str, str] | None = None
) -> list[str]:
    """Draw the choice of retrievers; `times` are what the chips of some say about the time they take."""

    def label(name: str) -> str:
        time = times.get(name) if times else ""
        called = plain(retriever_name(name))
        return f"{called} · {time}" if time else called

    return choose_several(
        st.pills,
        "retrievers",
        word("compare.retrievers"),
        names,
        usual,
        key=f"picked_{key}_{st.session_state.get(_ROUND, 0)}",
        wrap=True,
        format_func=label,
        help=word("compare.retrievers_help"),
    )
