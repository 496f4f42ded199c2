"""The only cached functions: plain keys in, objects out."""

from pathlib import Path

import streamlit as st

from data.audit import Audit, audit
from data.catalog import CATALOG, read_entry
from data.records import QuestionSet
from data.split import Split, SplitOptions, split
from data.store import StoredSet, keep, load, stored
from retrieval.compare import Comparison, compare
from retrieval.experiment import Experiment, retrievers_of
from retrieval.kept import Kept

SAMPLE = "sample"


def stored_sets() -> list[StoredSet]:
    """Return the sets of the workspace, newest first; the sample is put there on the first visit."""
    return stored() or [_keep_sample()]


@st.cache_resource(show_spinner=False)
def _keep_sample() -> StoredSet:
    return keep(read_entry(CATALOG[SAMPLE]).question_set, source=SAMPLE)


@st.cache_resource(show_spinner=False, max_entries=4)
def question_set(key: str) -> QuestionSet:
    """Load a stored set."""
    return load(key)


@st.cache_resource(show_spinner=False, max_entries=8)
def audit_of(key: str) -> Audit:
    """Return the audit of a stored set."""
    return audit(question_set(key))


@st.cache_resource(show_spinner=False, max_entries=16)
def split_of(key: str, validation: float, test: float, seed: int) -> Split:
    """Return the split of a stored set."""
    return split(question_set(key), SplitOptions(validation, test, seed))


@st.cache_resource(show_spinner=False, max_entries=8)
def comparison(key: str, experiment: str, finished: float) -> Comparison:
    """Read a comparison whose job is done: every ranking comes from disk. `finished` tells two runs of it apart."""
    del finished
    return compare(Experiment.model_validate_json(experiment), question_set(key))


@st.cache_resource(show_spinner=False, max_entries=4)
def retrievers(key: str, experiment: str) -> list[Kept | Exception]:
    """Return the experiment's retrievers, which build themselves when first searched."""
    return retrievers_of(Experiment.model_validate_json(experiment), question_set(key))


def finished_at(folder: Path) -> float:
    """When a comparison's scores were written, seconds since 1970."""
    return (folder / "scores.json").stat().st_mtime
