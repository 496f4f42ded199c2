"""The cache of the pages, with separate entries for each workspace, and the cached question sets and pair sets."""

import inspect
from collections.abc import Callable
from dataclasses import astuple
from functools import update_wrapper, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
import streamlit as st

from mrc_workbench.data import store
from mrc_workbench.data.pairs import PairAudit, audit_pairs, split_pairs
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.store import PAIR_CATALOG, StoredPairs, read_pair_entry
from mrc_workbench.data.questions import Audit, audit, find_passage_rows
from mrc_workbench.data.questions.content import content_notes
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.analysis.evidence import detect_languages
from mrc_workbench.retrieval.comparison.store import list_comparisons
from mrc_workbench.workbench.views.ui.state import PAGE_OF_LIST
from mrc_workbench.workbench.views.ui.words import plain, word

P = ParamSpec("P")
R = TypeVar("R")
SAMPLE = "sample"
_DISPLAYED = "displayed_sets"  # session key: names of the question sets that it displayed, by key
_LONGEST_KEY = 80  # characters of an address in a message
SAMPLES = ("sample-nli", "sample-sts")  # of pairs; a first visit opens the last


class Cached(Generic[P, R]):
    """A function with an `st.cache_resource` for each workspace and for the content that its first argument names."""

    def __init__(self, function: Callable[P, R], content: Callable[[Any], object], options: dict[str, Any]) -> None:
        @wraps(function)  # Streamlit identifies the cache of a function by its name and source
        def of_workspace(_workspace_key: tuple[str, object], /, *args: P.args, **kwargs: P.kwargs) -> R:
            return function(*args, **kwargs)

        signature = inspect.signature(function)
        workspace_parameter = inspect.Parameter("workspace", inspect.Parameter.POSITIONAL_ONLY)
        # by the signature Streamlit leaves parameters that begin with an underscore out of the key
        parameters = [workspace_parameter, *signature.parameters.values()]
        of_workspace.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        self._content = content
        self._cache: Any = st.cache_resource(show_spinner=False, **options)(of_workspace)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._cache((str(workspace()), self._content(*args[:1])), *args, **kwargs)
        return result

    def clear(self, *args: Any) -> None:
        """Forget the result for these arguments in this workspace; without arguments, all results of all workspaces."""
        key = ((str(workspace()), self._content(args[0])),) if args else ()
        self._cache.clear(*key, *args)


def cached(
    content: Callable[[Any], object] = lambda *_: None, **options: Any
) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """Decorate a function as `st.cache_resource` does, with separate entries for each workspace and `content`."""
    return lambda function: Cached(function, content, options)


def content_of(reference: str) -> str:
    """Return the fingerprint of a model in a folder; empty for other models."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""


def opened(read: Callable[[Path], R], folder: Path) -> R | None:
    """Read the folder of a finished job, once until it runs again; None if it cannot be read."""
    result: R | None = _opened(read, str(folder), (folder / "scores.json").stat().st_mtime)
    return result


@cached(max_entries=24, hash_funcs={FunctionType: lambda read: f"{read.__module__}.{read.__qualname__}"})
def _opened(read: Callable[[Path], Any], folder: str, finished: float) -> Any:
    del finished  # part of the cache key, because a job may run again
    try:
        return read(Path(folder))
    except ValueError:
        return None


@cached(max_entries=48)
def result_slot(key: tuple[Any, ...]) -> list[Any]:
    """Return a list, initially empty, that stores the result for a key.

    Streamlit draws the elements of a cached function again on every call, so work with a progress bar runs outside.
    """
    del key
    return []


def stored_sets() -> list[store.StoredSet]:
    """Return the sets of the workspace, newest first; the first visit stores the sample."""
    return store.stored() or [_store_sample()]


@cached(validate=lambda dataset: any(known.key == dataset.key for known in store.stored()))
def _store_sample() -> store.StoredSet:
    return store.save_question_set(store.read_entry(store.CATALOG[SAMPLE]).question_set, source=SAMPLE)


question_set = cached(max_entries=4)(store.load)
pair_set = cached(max_entries=4)(pair_store.load)


@cached(max_entries=8)
def audit_of(key: str) -> Audit:
    return audit(question_set(key))


@cached(max_entries=16, hash_funcs={SplitOptions: astuple})
def split_of(key: str, options: SplitOptions) -> Split:
    return split(question_set(key), options)


# sets that may not be stored have their content as keys
_BY_CONTENT: dict[Any, Callable[[Any], Any]] = {
    QuestionSet: lambda questions: questions.fingerprint,
    Split: lambda parts: b"|".join(rows.tobytes() for rows in parts.rows.values()),
}
matching_passages = cached(max_entries=16, hash_funcs=_BY_CONTENT)(find_passage_rows)
content_notes_of = cached(max_entries=8, hash_funcs=_BY_CONTENT)(content_notes)
languages_of = cached(max_entries=8, hash_funcs=_BY_CONTENT)(detect_languages)


class MissingSet(NamedTuple):
    """A requested question set that the workspace lacks; `name` is known if it was used before."""

    key: str
    name: str


def missing_set() -> MissingSet | None:
    """Return the question set of the address or session if it is missing, else None."""
    key = st.query_params.get("data") or st.session_state.get("data")
    if not key or any(dataset.key == key for dataset in stored_sets()):
        return None
    compared = {comparison.reference: comparison.data for comparison in list_comparisons()}
    return MissingSet(key, st.session_state.get(_DISPLAYED, {}).get(key) or compared.get(key, ""))


def selected_set() -> store.StoredSet:
    """Return the selected set: that of the address, the session, the last use, or the newest; stop if missing."""
    require_set()
    sets = {dataset.key: dataset for dataset in stored_sets()}
    key = st.query_params.get("data") or st.session_state.get("data") or store.last_used()
    selected = sets[key if key in sets else next(iter(sets))]
    st.session_state.setdefault(_DISPLAYED, {})[selected.key] = selected.name
    return selected


def require_set() -> None:
    """If the requested question set is missing, report it, offer the others, and stop the page."""
    missing = missing_set()
    if missing is None:
        return
    unknown = word("missing_set.unknown", key=plain(missing.key[:_LONGEST_KEY]))
    text = word("missing_set.deleted", name=plain(missing.name)) if missing.name else unknown
    st.error(text, icon=":material/folder_off:")
    st.markdown(word("missing_set.choose"))
    for dataset in stored_sets():
        name = word("data_page.sample") if dataset.name == store.CATALOG[SAMPLE].title else dataset.name
        kwargs: dict[str, Any] = {"icon": ":material/folder_open:", "key": f"open_set_{dataset.key}"}
        st.button(plain(name), on_click=use_set, args=(dataset.key,), **kwargs)
    st.stop()


def use_set(key: str) -> None:
    """Select a set on every page, and as the default of new sessions."""
    before = st.session_state.get("data")
    address = {"data": key}
    if before != key:
        store.record_last_used(key)
        if before and PAGE_OF_LIST in st.query_params:
            address[PAGE_OF_LIST] = "1"  # with the set: a single entry in the browser history
    st.session_state["data"] = key
    st.query_params.update(address)


def stored_pairs() -> list[StoredPairs]:
    """Return the pair sets of the workspace, newest first; the first visit stores the samples."""
    return pair_store.stored() or _store_samples()


@cached(validate=lambda samples: {pairs.key for pairs in samples} <= {known.key for known in pair_store.stored()})
def _store_samples() -> list[StoredPairs]:
    for name in SAMPLES:
        pair_store.save_pairs(read_pair_entry(PAIR_CATALOG[name]).pairs, source=name)
    return pair_store.stored()


@cached(max_entries=8)
def parts_of(key: str) -> dict[Part, np.ndarray]:
    return split_pairs(pair_set(key))


@cached(max_entries=8)
def pair_audit(key: str) -> PairAudit:
    return audit_pairs(pair_set(key), parts_of(key))


@cached(max_entries=16, hash_funcs={store.StoredSet: lambda data: (data.key, data.fingerprint)})
def characters_of(data: store.StoredSet) -> int:
    return int(store.passages_of(data.key).texts.lengths().sum())
