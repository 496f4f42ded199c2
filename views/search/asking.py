"""Asking the retrievers, with what a person waits for on the screen."""

import logging
import time
from collections.abc import Sequence

import streamlit as st

from data.store import StoredSet
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.spec import CachedRetriever
from retrieval.rankings import Findings
from views.names import base_name
from views.resources.retrieval import findings, listening, retrievers
from views.ui.words import duration, plain, word

logger = logging.getLogger(__name__)

Outcome = Findings | Exception

_TELLING = 0.02  # the share of the work from which on the time left can be told


def search(data: StoredSet, experiment: Experiment, names: Sequence[str], question: str) -> dict[str, Outcome]:
    """Return what each retriever found, or why it failed; the first search builds and loads what is needed."""
    with st.spinner(word("search.preparing"), show_time=True):
        made = _made(data, experiment)
    if all(not isinstance(retriever := made[name], CachedRetriever) or retriever.ready for name in names):
        return {name: _outcome(data, experiment, name, question) for name in names}
    models = {spec.name: dict(spec).get("model", "") for spec in experiment.retriever}
    outcomes: dict[str, Outcome] = {}
    place = st.empty()
    with place.status(word("search.loading"), expanded=True) as status:
        st.caption(word("search.loading"))
        st.button(word("search.stop"), icon=":material/stop:", on_click=_stop)
        for number, name in enumerate(names, start=1):
            began = time.perf_counter()
            status.update(label=_at_work(name, models[name], number, len(names)), expanded=True)
            outcomes[name] = _prepared(made[name]) or _outcome(data, experiment, name, question)
            st.write(word("search.loaded_one", name=plain(name), time=duration(time.perf_counter() - began)))
    place.empty()
    return outcomes


def _at_work(name: str, model: str, number: int, count: int) -> str:
    told = {"name": plain(name), "number": number, "all": count}
    if model:
        return word("search.loading_model", model=plain(base_name(model)), **told)
    return word("search.loading_one", **told)


def _prepared(retriever: CachedRetriever | Exception) -> Exception | None:
    """Build a retriever, with a bar where it tells how far it is; returns what went wrong.

    Each move of the bar lets the run be stopped, or replaced by a newer one; what was analyzed or encoded is kept.
    """
    if isinstance(retriever, Exception):
        return retriever
    place, began = st.empty(), time.perf_counter()

    def draw(share: float) -> None:
        left = (time.perf_counter() - began) * (1 - share) / share if share > _TELLING else None
        place.progress(min(1.0, share), word("search.preparing_left", left=duration(left)) if left else None)

    try:
        with listening(draw):
            retriever.prepare()
    except Exception as error:
        logger.warning("retriever %r cannot be built: %s", retriever.name, error, exc_info=not hasattr(error, "code"))
        return error
    finally:
        place.empty()
    return None


def _stop() -> None:
    """Ask nothing any more; the question stays in its box."""
    st.query_params.pop("q", None)
    st.session_state.pop("kept_q", None)
    st.session_state["search_stopped"] = True


def try_failed_again() -> None:
    """Have the next search make anew what could not be made: the hub may answer by now."""
    st.session_state["try_failed_again"] = True


def _made(data: StoredSet, experiment: Experiment) -> dict[str, CachedRetriever | Exception]:
    key = (data.key, experiment.model_dump_json())
    again = st.session_state.pop("try_failed_again", False)
    if again and any(isinstance(one, Exception) for one in retrievers(*key).values()):
        retrievers.clear(*key)
    return retrievers(*key)


def _outcome(data: StoredSet, experiment: Experiment, name: str, question: str) -> Outcome:
    try:
        return findings(data.key, experiment.model_dump_json(), name, question)
    except Exception as error:
        logger.warning("retriever %r failed: %s", name, error, exc_info=not hasattr(error, "code"))
        return error
