"""What pages keep in memory, each workspace's apart: nobody is given what was read, or made, for somebody else. And the
sets of questions and of sentence pairs: read, audited and split once for all sessions."""

import inspect
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import update_wrapper, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
import streamlit as st

from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.records import PairAudit, PairSet, audit_pairs, split_pairs
from mrc_workbench.data.pairs.store import PAIR_CATALOG, StoredPairs, read_pair_entry
from mrc_workbench.data.problems import Problem
from mrc_workbench.data.questions.audit import Audit, audit, passages_with
from mrc_workbench.data.questions.content import content_notes
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.store import (
    CATALOG,
    StoredSet,
    keep,
    last_used,
    load,
    note_used,
    passages_of,
    read_entry,
    stored,
)
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.analysis.slices import SetLanguages, set_languages
from mrc_workbench.retrieval.comparison.store import kept_comparisons
from mrc_workbench.workbench.views.ui.state import PAGE_OF_LIST
from mrc_workbench.workbench.views.ui.words import plain, word

P = ParamSpec("P")
R = TypeVar("R")
SAMPLE = "sample"
_DISPLAYED = "displayed_sets"  # of the session: the names of the question sets that it displayed, by key
_LONGEST_KEY = 80  # characters of an address that are repeated
SAMPLES = ("sample-nli", "sample-sts")  # of pairs; the last one kept is the one that a first visit opens


class Cached(Generic[P, R]):
    """A function whose results are kept as `st.cache_resource` does, with the workspace as a part of every key.

    So is what `content` tells of the first argument, where that is only a name: it may come to mean something else.
    """

    def __init__(self, function: Callable[P, R], content: Callable[[Any], object], options: dict[str, Any]) -> None:
        @wraps(function)  # by its name and source the library tells one function's cache from another's
        def of_workspace(_place: tuple[str, object], /, *args: P.args, **kwargs: P.kwargs) -> R:
            return function(*args, **kwargs)

        signature = inspect.signature(function)
        place = inspect.Parameter("workspace", inspect.Parameter.POSITIONAL_ONLY)
        # from here the library takes what is a part of the key: not what begins with a line
        parameters = [place, *signature.parameters.values()]
        of_workspace.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        self._content = content
        self._kept: Any = st.cache_resource(show_spinner=False, **options)(of_workspace)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what is kept, or make it. Raises what making it raises, and keeps nothing then."""
        found: R = self._kept((str(workspace()), self._content(*args[:1])), *args, **kwargs)
        return found

    def clear(self, *args: Any) -> None:
        """Forget what was made of these arguments in this workspace; without any, everything of every workspace."""
        self._kept.clear(*(((str(workspace()), self._content(args[0])), *args) if args else ()))


def cached(
    content: Callable[[Any], object] = lambda *_: None, **options: Any
) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """Decorate a function as `st.cache_resource` with these options does, for each workspace and `content` apart."""

    def decorate(function: Callable[P, R]) -> Cached[P, R]:
        return Cached(function, content, options)

    return decorate


def content_of(reference: str) -> str:
    """Return the key of a model's content as far as it is known at once: empty of a hub model."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""


def opened(read: Callable[[Path], R], folder: Path) -> R | None:
    """Return what `read` makes of a finished job's folder, read once until it runs again; None where it cannot be."""
    found: R | None = _opened(read, str(folder), (folder / "scores.json").stat().st_mtime)
    return found


@cached(max_entries=24, hash_funcs={FunctionType: lambda read: f"{read.__module__}.{read.__qualname__}"})
def _opened(read: Callable[[Path], Any], folder: str, finished: float) -> Any:
    del finished  # only a part of the key: one that ran again is another one
    try:
        return read(Path(folder))
    except ValueError:
        return None


@cached(max_entries=48)
def place_of(of: tuple[Any, ...]) -> list[Any]:
    """Return the place for what is made of this, at first empty.

    What is drawn inside a cached function is drawn again whenever it is called: what tells of its progress is made
    outside.
    """
    del of  # only a key
    return []


def stored_sets() -> list[StoredSet]:
    """Return the sets of the workspace, newest first; the sample is put there on the first visit."""
    return stored() or [_keep_sample()]


@cached(validate=lambda kept: any(known.key == kept.key for known in stored()))
def _keep_sample() -> StoredSet:
    return keep(read_entry(CATALOG[SAMPLE]).question_set, source=SAMPLE)


@cached(max_entries=4)
def question_set(key: str) -> QuestionSet:
    return load(key)


@cached(max_entries=8)
def audit_of(key: str) -> Audit:
    return audit(question_set(key))


@cached(max_entries=16, hash_funcs={SplitOptions: astuple})
def split_of(key: str, options: SplitOptions) -> Split:
    return split(question_set(key), options)


@cached(max_entries=16, hash_funcs={QuestionSet: lambda one: one.fingerprint})
def passages_found(questions: QuestionSet, wanted: str) -> np.ndarray:
    """Return the rows of the passages that hold what is wanted, in a set that may not be stored."""
    return passages_with(questions, wanted)


def _content_of(parts: Split) -> bytes:
    return b"|".join(rows.tobytes() for rows in parts.rows.values())


@cached(max_entries=8, hash_funcs={QuestionSet: lambda one: one.fingerprint, Split: _content_of})
def content_notes_of(questions: QuestionSet, parts: Split) -> tuple[Problem, ...]:
    """Return the notes about the texts of a set, which may not be stored."""
    return content_notes(questions, parts)


@cached(max_entries=8, hash_funcs={QuestionSet: lambda one: one.fingerprint})
def languages_of(questions: QuestionSet) -> SetLanguages:
    """Return the languages of a set, which may not be stored."""
    return set_languages(questions)


@dataclass(frozen=True)
class MissingSet:
    """A question set that the address or the session names and the workspace does not hold.

    `name` is what it was called, as this session or a finished comparison knows it: then it was deleted. It is empty
    where nothing here knows the set.
    """

    key: str
    name: str


def missing_set() -> MissingSet | None:
    """Return the question set that is named and not there; None where it is there, or none is named."""
    key = st.query_params.get("data") or st.session_state.get("data")
    if not key or any(kept.key == key for kept in stored_sets()):
        return None
    displayed = st.session_state.get(_DISPLAYED, {})
    compared = {one.reference: one.data for one in kept_comparisons()}
    return MissingSet(key, displayed.get(key) or compared.get(key, ""))


def chosen_set() -> StoredSet:
    """Return the question set in use: the one in the address, else the session's, else the last used, else the newest.

    Where the named one is not there, report it, offer the others and stop: nothing else is opened in its place.
    """
    require_set()
    sets = {kept.key: kept for kept in stored_sets()}
    key = st.query_params.get("data") or st.session_state.get("data") or last_used()
    chosen = sets[key if key in sets else next(iter(sets))]
    st.session_state.setdefault(_DISPLAYED, {})[chosen.key] = chosen.name
    return chosen


def require_set() -> None:
    """Report a named question set that is not there, offer the others, and stop drawing the page."""
    if missing := missing_set():
        _report_missing(missing)
        st.stop()


def _report_missing(missing: MissingSet) -> None:
    if missing.name:
        st.error(word("missing_set.deleted", name=plain(missing.name)), icon=":material/folder_off:")
    else:
        st.error(word("missing_set.unknown", key=plain(missing.key[:_LONGEST_KEY])), icon=":material/folder_off:")
    st.markdown(word("missing_set.choose"))
    for kept in stored_sets():
        name = word("data_page.sample") if kept.name == CATALOG[SAMPLE].title else kept.name
        look: dict[str, Any] = {"icon": ":material/folder_open:", "key": f"open_set_{kept.key}"}
        st.button(plain(name), on_click=use_set, args=(kept.key,), **look)


def use_set(key: str) -> None:
    """Make a set the one in use: on every page, and where the app is opened without an address."""
    before = st.session_state.get("data")
    address = {"data": key}
    if before != key:
        note_used(key)
        if before and PAGE_OF_LIST in st.query_params:
            address[PAGE_OF_LIST] = "1"  # in one step with the set: one entry to go back by
    st.session_state["data"] = key
    st.query_params.update(address)


def stored_pairs() -> list[StoredPairs]:
    """Return the sets of the workspace, newest first; the samples are put there on the first visit."""
    if not (found := pair_store.stored()):
        _keep_samples()
        found = pair_store.stored()
    return found


@cached(validate=lambda kept: set(kept) <= {known.key for known in pair_store.stored()})
def _keep_samples() -> tuple[str, ...]:
    return tuple(pair_store.keep(read_pair_entry(PAIR_CATALOG[name]).pairs, source=name).key for name in SAMPLES)


@cached(max_entries=4)
def pair_set(key: str) -> PairSet:
    return pair_store.load(key)


@cached(max_entries=8)
def parts_of(key: str) -> dict[Part, np.ndarray]:
    return split_pairs(pair_set(key))


@cached(max_entries=8)
def pair_audit(key: str) -> PairAudit:
    return audit_pairs(pair_set(key), parts_of(key))


@cached(max_entries=16, hash_funcs={StoredSet: lambda data: (data.key, data.fingerprint)})
def characters_of(data: StoredSet) -> int:
    return int(passages_of(data.key).texts.lengths().sum())
