"""Asking the retrievers, with what a person waits for on the screen."""

import logging
import time
from collections.abc import Sequence

import streamlit as st

from data.store import StoredSet
from retrieval.experiment import Experiment
from retrieval.kept import Kept
from retrieval.one_question import Findings
from views.resources import findings, retrievers
from views.words import duration, plain, word

logger = logging.getLogger(__name__)

Outcome = Findings | Exception


def search(data: StoredSet, experiment: Experiment, names: Sequence[str], question: str) -> dict[str, Outcome]:
    """Return what each retriever found, or why it failed; the first search builds and loads what is needed."""
    with st.spinner(word("search.preparing"), show_time=True):
        made = _made(data, experiment)
    if all(not isinstance(retriever := made[name], Kept) or retriever.ready for name in names):
        return {name: _outcome(data, experiment, name, question) for name in names}
    outcomes: dict[str, Outcome] = {}
    place = st.empty()
    with place.status(word("search.loading"), expanded=True) as status:
        for number, name in enumerate(names, start=1):
            began = time.perf_counter()
            label = word("search.loading_one", name=plain(name), number=number, all=len(names))
            status.update(label=label, expanded=True)
            with st.spinner(word("search.loading"), show_time=True):
                outcomes[name] = _outcome(data, experiment, name, question)
            st.write(word("search.loaded_one", name=plain(name), time=duration(time.perf_counter() - began)))
    place.empty()
    return outcomes


def try_failed_again() -> None:
    """Have the next search make anew what could not be made: the hub may answer by now."""
    st.session_state["try_failed_again"] = True


def _made(data: StoredSet, experiment: Experiment) -> dict[str, Kept | Exception]:
    key = (data.key, experiment.model_dump_json())
    again = st.session_state.pop("try_failed_again", False)
    if again and any(isinstance(one, Exception) for one in retrievers(*key)):
        retrievers.clear(*key)
    return dict(zip([spec.name for spec in experiment.retriever], retrievers(*key), strict=True))


def _outcome(data: StoredSet, experiment: Experiment, name: str, question: str) -> Outcome:
    try:
        return findings(data.key, experiment.model_dump_json(), name, question)
    except Exception as error:
        logger.warning("retriever %r failed: %s", name, error, exc_info=not hasattr(error, "code"))
        return error
