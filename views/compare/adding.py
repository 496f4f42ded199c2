"""Adding retrievers to a question set: models, and rankings made elsewhere; and removing them again."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from data.limits import LimitError
from data.store import StoredSet
from models.sources import STARTER
from retrieval.comparison.added import add, add_run, remove
from retrieval.comparison.kinds.first_stage import DenseSpec, SparseSpec
from retrieval.comparison.kinds.milvus import MilvusSpec
from retrieval.comparison.kinds.multistage import RerankSpec
from retrieval.comparison.kinds.spec import Spec
from retrieval.milvus.kinds import Search
from retrieval.trec import RunError
from views.choices import BM25_NAME, Choices, free_name
from views.resources.sets import question_set
from views.ui.problems import failure_text
from views.ui.words import plain, word
from views.uploads import translate_field

_KINDS = ("dense", "sparse", "rerank", "run", "milvus")
_LONGEST_NAME = 60


def draw(choices: Choices, data: StoredSet) -> str | None:
    """Draw what adds and removes; returns the name of a retriever that was added just now."""
    kind = st.selectbox(word("compare.add_kind"), _KINDS, format_func=lambda k: word(f"kind.{k}"), key="add_kind")
    if kind == "run":
        name = _run(choices, data)
    else:
        name = _milvus(choices, data) if kind == "milvus" else _model(kind, choices, data)
    if choices.added:
        st.divider()
        _draw_added(choices, data)
    return name


def run_words(notes: Mapping[str, int]) -> str:
    """Return what an imported run holds (see `retrieval.trec.run.Notes`) and what of it was passed over."""
    told = word("imported.read", questions=f"{notes['questions']:,}", depth=f"{notes['depth']:,}")
    passed = ("other_questions", "unknown_passages", "repeated")
    return " ".join([told, *(word(f"imported.{name}", count=f"{notes[name]:,}") for name in passed if notes.get(name))])


def _model(kind: str, choices: Choices, data: StoredSet) -> str | None:
    model = st.text_input(word("compare.add_model"), help=word("compare.add_model_help")).strip()
    windows = {} if kind == "sparse" else _windows()
    if not st.button(word("compare.add_this"), disabled=not model or windows is None, type="primary"):
        return None
    name, values = _free_name(kind, PurePath(model).name, choices), {"model": model, **(windows or {})}
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


def _run(choices: Choices, data: StoredSet) -> str | None:
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


def _milvus(choices: Choices, data: StoredSet) -> str | None:
    search = st.selectbox(word("milvus.search"), list(Search), format_func=lambda one: word(f"milvus.search_{one}"))
    search = search or Search.BM25
    model = STARTER
    if search is not Search.BM25:
        entered = st.text_input(word("milvus.model"), help=word("compare.add_model_help"))
        model = entered.strip() or STARTER
    st.caption(word("milvus.about"))
    if not st.button(word("compare.add_this"), type="primary"):
        return None
    of_model = [] if model == STARTER else [PurePath(model).name]
    name = _free_name("milvus", " · ".join([word(f"milvus.name_{search}"), *of_model]), choices)
    add(data.fingerprint, MilvusSpec(name=name, search=search, model=model))
    return name


def _free_name(kind: str, given: str, choices: Choices) -> str:
    """Return a name that is not taken; a bar separates names in the address."""
    return free_name(f"{word(f'kind_short.{kind}')} · {given.replace('|', '/')[:_LONGEST_NAME]}", choices.specs)


def _draw_added(choices: Choices, data: StoredSet) -> None:
    st.caption(word("compare.added"))
    for name in choices.added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(name))
        if right.button("", icon=":material/delete:", key=f"remove_{name}", help=word("compare.remove_added")):
            remove(data.fingerprint, name)
            st.rerun()
