"""The only cached functions: plain keys in, objects out."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from data.audit import Audit, audit
from data.browse import passages_with
from data.catalog import CATALOG, read_entry
from data.records import QuestionSet
from data.split import Split, SplitOptions, split
from data.store import StoredSet, keep, load, stored
from retrieval.analyzers import Analyzer
from retrieval.changes import Change, changes
from retrieval.compare import Comparison, compare, is_kept
from retrieval.disagreement import most_disputed
from retrieval.evidence import Evidence, evidence
from retrieval.experiment import Experiment
from retrieval.hub import HubRevision, hub_revision
from retrieval.kept import Kept
from retrieval.lab_tables import lab_figures
from retrieval.labs import analyzers_for
from retrieval.lost import ceilings, fate_counts, fates
from retrieval.making import retrievers_of
from retrieval.marking import MarkedText, marked
from retrieval.metrics import Scores
from retrieval.one_question import Findings, ask, truth_of
from retrieval.rank_map import RankMap, rank_map
from retrieval.saved import load as load_comparison
from retrieval.significance import PairTest, intervals_of, pair_tests, question_groups
from retrieval.slices import Property, Slice, properties, slice_table, slice_tests, slices
from retrieval.terms import Unmatched, readings, unmatched

logger = logging.getLogger(__name__)

SAMPLE = "sample"
MEASURED_SLICES = 500  # the largest: tens of thousands of titles would keep the page waiting


class Address(NamedTuple):
    """Which comparison: of the stored set `key`, kept in `folder`; `finished` (seconds since 1970) tells runs apart."""

    key: str
    folder: str
    finished: float


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


@st.cache_resource(show_spinner=False, max_entries=16, hash_funcs={QuestionSet: lambda one: one.fingerprint})
def passages_found(questions: QuestionSet, wanted: str) -> np.ndarray:
    """Return the rows of the passages that hold what is wanted, in a set that may not be stored."""
    return passages_with(questions, wanted)


@st.cache_resource(show_spinner=False, max_entries=8)
def comparison(at: Address) -> Comparison | None:
    """Open a kept comparison of a stored set; None where its folder holds none, or one of another set."""
    try:
        return load_comparison(Path(at.folder), question_set(at.key))
    except ValueError as error:
        logger.warning("a kept comparison cannot be opened: %s", error)
        return None


@st.cache_resource(show_spinner=False, max_entries=8)
def finished_part(key: str, experiment: str) -> Comparison | None:
    """Return a comparison that is still going on, cut to what is done; None where rankings are gone."""
    wanted = Experiment.model_validate_json(experiment)
    return compare(wanted, question_set(key)) if is_kept(wanted, question_set(key)) else None


@st.cache_resource(show_spinner=False, max_entries=8)
def groups_of(at: Address) -> np.ndarray:
    """Return the groups of a comparison's questions that are about the same passages."""
    return question_groups(_opened(at).asked)


@st.cache_resource(show_spinner=False, max_entries=16)
def intervals(at: Address) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the 95 % interval of every figure, by retriever and measure."""
    groups = groups_of(at)
    return {name: intervals_of(scores, groups) for name, scores in _scores(at).items()}


@st.cache_resource(show_spinner=False, max_entries=64)
def tests(at: Address, names: tuple[str, ...], measure: str) -> list[PairTest]:
    """Test every pair of the retrievers named, Holm-corrected over them."""
    scores = {name: of for name, of in _scores(at).items() if name in names}
    return pair_tests(scores, [measure], groups_of(at))


@st.cache_resource(show_spinner=False, max_entries=8)
def evidence_of(at: Address) -> Evidence:
    """Return every interval and every test of a comparison, as a report and the exports show them."""
    return evidence(_opened(at))


@st.cache_resource(show_spinner=False, max_entries=8)
def changes_between(before: Address, after: Address) -> list[Change]:
    """Test what changed between two comparisons of the same questions."""
    return changes(_opened(before), _opened(after))


@st.cache_resource(show_spinner=False, max_entries=32)
def slices_by(at: Address, by: Property) -> list[Slice]:
    """Cut a comparison's questions into slices."""
    return slices(_opened(at).asked, by)


@st.cache_resource(show_spinner=False, max_entries=16)
def properties_of(at: Address) -> list[Property]:
    """Return what can tell a comparison's questions apart."""
    return properties(_opened(at).asked)


@st.cache_resource(show_spinner=False, max_entries=64)
def slice_figures(at: Address, by: Property, names: tuple[str, ...], measure: str) -> pd.DataFrame:
    """Measure the retrievers named on the first `MEASURED_SLICES` slices, differences from the first retriever tested.

    The columns of `slice_table`, and "p_holm".
    """
    found = _scores(at)
    scores = {name: found[name] for name in names if name in found}
    parts, groups = slices_by(at, by)[:MEASURED_SLICES], groups_of(at)
    table = slice_table(parts, scores, measure, groups)
    return table.assign(p_holm=slice_tests(parts, scores, measure, groups))


@st.cache_resource(show_spinner=False, max_entries=32)
def ranks_of(at: Address, names: tuple[str, ...]) -> RankMap:
    """Return the map of the ranks of the retrievers named, in that order; those without rankings are left out."""
    found = {one.name: one.rankings for one in _opened(at).results if one.rankings}
    rankings = [found[name] for name in names if name in found]
    return rank_map(rankings, _opened(at).asked)


@st.cache_resource(show_spinner=False, max_entries=64)
def fates_of(at: Address, k: int) -> dict[str, np.ndarray]:
    """Tell what became of every question with every retriever, as places in `retrieval.lost.FATES`."""
    return fates(_opened(at), k)


@st.cache_resource(show_spinner=False, max_entries=64)
def fate_counts_of(at: Address, k: int) -> pd.DataFrame:
    """Count what became of the questions: a row a retriever, a column a fate."""
    return fate_counts(fates_of(at, k))


@st.cache_resource(show_spinner=False, max_entries=16)
def ceilings_of(at: Address, depths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return the ceiling of every retriever at these depths."""
    return ceilings(_opened(at), depths)


def _opened(at: Address) -> Comparison:
    found = comparison(at)
    if found is None:
        raise LookupError(at.folder)
    return found


def _scores(at: Address) -> dict[str, Scores]:
    return {one.name: one.scores for one in _opened(at).results if one.scores}


@st.cache_resource(show_spinner=False, max_entries=4)
def retrievers(key: str, experiment: str) -> list[Kept | Exception]:
    """Return the experiment's retrievers, which build themselves when first searched, and tell the one `listening`."""
    return retrievers_of(Experiment.model_validate_json(experiment), question_set(key), on_progress=_tell)


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Have the retrievers that are built meanwhile, by this session, tell how far they are, 0 to 1."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)


def _tell(share: float) -> None:
    if listener := _listener.get():
        listener(share)


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
def disputed_questions(at: Address, count: int) -> list[str]:
    """Return the questions on which the retrievers of a finished comparison differ most; none where it is gone."""
    found = comparison(at)
    if found is None:
        return []
    rankings = [result.rankings for result in found.results if result.rankings]
    rows = most_disputed(rankings, found.asked, count) if rankings else []
    return [found.asked.questions[row].text for row in rows]


@st.cache_resource(show_spinner=False, max_entries=64)
def lab_table(at: Address, measure: str) -> pd.DataFrame:
    """Return the figures of what a lab tried; see `retrieval.lab_tables.lab_figures`."""
    return lab_figures(_opened(at), measure, groups_of(at))


@st.cache_resource(show_spinner=False, max_entries=8)
def analyzers_of(key: str) -> tuple[Analyzer, ...]:
    """Return the analyzers worth trying on a stored set."""
    return analyzers_for(question_set(key).passages.texts)


@st.cache_resource(show_spinner=False, max_entries=64)
def readings_of(text: str) -> dict[Analyzer, list[str]]:
    """Return the tokens of a text under every analyzer."""
    return readings(text)


@st.cache_resource(show_spinner=False, max_entries=16)
def unmatched_of(at: Address, analyzer: Analyzer) -> Unmatched:
    """Return the questions of a comparison that share no term with any passage, or with their own."""
    return unmatched(_opened(at).asked, analyzer)


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
