"""The only cached functions: plain keys in, objects out."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import streamlit as st

from data.audit import Audit, audit
from data.catalog import CATALOG, read_entry
from data.records import QuestionSet
from data.split import Split, SplitOptions, split
from data.store import StoredSet, keep, load, stored
from retrieval.compare import Comparison, compare, failures, is_kept
from retrieval.disagreement import most_disputed
from retrieval.experiment import Experiment, retrievers_of
from retrieval.hub import HubRevision, hub_revision
from retrieval.job import Job
from retrieval.kept import Kept
from retrieval.marking import MarkedText, marked
from retrieval.one_question import Findings, ask, truth_of

SAMPLE = "sample"


def stored_sets() -> list[StoredSet]:
    """Return the sets of the workspace, newest first; the sample is put there on the first visit."""
    return stored() or [_keep_sample()]


def _is_stored(kept: StoredSet) -> bool:
    return any(known.key == kept.key for known in stored())


@st.cache_resource(show_spinner=False, validate=_is_stored)
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
def comparison(key: str, experiment: str, finished: float) -> Comparison | None:
    """Read a comparison whose job is done, or the part of it that is: every ranking comes from disk.

    `finished` tells two runs of it apart. None where rankings are gone: a page never computes them itself.
    """
    wanted, questions = Experiment.model_validate_json(experiment), question_set(key)
    failed = failures(Job.of(wanted, questions.fingerprint).scores()) if finished else {}
    return compare(wanted, questions, failed=failed) if is_kept(wanted, questions, failed) else None


@st.cache_resource(show_spinner=False, max_entries=4)
def retrievers(key: str, experiment: str) -> list[Kept | Exception]:
    """Return the experiment's retrievers, which build themselves when first searched."""
    return retrievers_of(Experiment.model_validate_json(experiment), question_set(key))


@st.cache_resource(show_spinner=False, max_entries=512)
def findings(key: str, experiment: str, name: str, question: str) -> Findings:
    """Return what one retriever of the experiment finds. Raises what making or building it raised."""
    names = [spec.name for spec in Experiment.model_validate_json(experiment).retriever]
    retriever = retrievers(key, experiment)[names.index(name)]
    if isinstance(retriever, Exception):
        raise retriever
    return ask(retriever, question)


@st.cache_resource(show_spinner=False, max_entries=32)
def marked_passages(key: str, question: str, rows: tuple[int, ...]) -> list[tuple[MarkedText, MarkedText]]:
    """Return title and text of the passages at `rows`, marked for the question."""
    passages = [question_set(key).passages[row] for row in rows]
    truth = truth_of(question_set(key), question)
    answers = truth.answers if truth else ()
    texts = [text for passage in passages for text in (passage.title, passage.text)]
    found = marked(question, texts, [(), answers] * len(passages))
    return list(zip(found[::2], found[1::2], strict=True))


@st.cache_resource(show_spinner=False, max_entries=16)
def disputed_questions(key: str, experiment: str, finished: float, count: int) -> list[str]:
    """Return the questions on which the retrievers of a finished comparison differ most.

    Empty where its rankings are gone: a cache that was emptied is not worth minutes of computing for an example.
    """
    found = comparison(key, experiment, finished)
    if found is None:
        return []
    rankings = [result.rankings for result in found.results if result.rankings]
    rows = most_disputed(rankings, found.asked, count) if rankings else []
    return [found.asked.questions[row].text for row in rows]


def finished_at(folder: Path) -> float:
    """When a comparison's scores were written, seconds since 1970."""
    return (folder / "scores.json").stat().st_mtime


@st.cache_resource(show_spinner=False)
def _askers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="hub")


@st.cache_resource(show_spinner=False, ttl=300, max_entries=64)
def hub_answer(hub_id: str) -> Future[HubRevision]:
    """Ask the hub about a model in the background: a page looks at the answer and never waits for it."""
    return _askers().submit(hub_revision, hub_id)
