"""The only cached functions: plain keys in, objects out."""

import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from retrieval.analysis.changes import Change, changes
from retrieval.analysis.evidence import Evidence, evidence
from retrieval.analysis.lab_results import lab_figures
from retrieval.analysis.questions import most_disputed
from retrieval.analysis.stages import ceilings, fate_counts, fates
from retrieval.comparison.compare import Comparison, compare, is_kept
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.labs import analyzers_for
from retrieval.comparison.store import load as load_comparison
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.ranks import RankMap, rank_map
from retrieval.evaluation.significance import PairTest, intervals_of, pair_tests, question_groups
from retrieval.evaluation.slices import Property, Slice, properties, slice_table, slice_tests, slices
from retrieval.lexical.terms import UnmatchedQuestions, readings, unmatched
from text.analyzers import Analyzer
from views.resources.sets import question_set

logger = logging.getLogger(__name__)

MEASURED_SLICES = 500  # the largest: tens of thousands of titles would keep the page waiting


class Address(NamedTuple):
    """Which comparison: of the stored set `key`, kept in `folder`; `finished` (seconds since 1970) tells runs apart."""

    key: str
    folder: str
    finished: float


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
    return question_groups(_opened(at).question_set)


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
    return slices(_opened(at).question_set, by)


@st.cache_resource(show_spinner=False, max_entries=16)
def properties_of(at: Address) -> list[Property]:
    """Return what can tell a comparison's questions apart."""
    return properties(_opened(at).question_set)


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
    return rank_map(rankings, _opened(at).question_set)


@st.cache_resource(show_spinner=False, max_entries=64)
def fates_of(at: Address, k: int) -> dict[str, np.ndarray]:
    """Tell what became of every question with every retriever, as places in `retrieval.analysis.stages.FATES`."""
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


@st.cache_resource(show_spinner=False, max_entries=16)
def disputed_questions(at: Address, count: int) -> list[str]:
    """Return the questions on which the retrievers of a finished comparison differ most; none where it is gone."""
    found = comparison(at)
    if found is None:
        return []
    rankings = [result.rankings for result in found.results if result.rankings]
    rows = most_disputed(rankings, found.question_set, count) if rankings else []
    return [found.question_set.questions[row].text for row in rows]


@st.cache_resource(show_spinner=False, max_entries=64)
def lab_table(at: Address, measure: str) -> pd.DataFrame:
    """Return the figures of what a lab tried; see `retrieval.analysis.lab_results.lab_figures`."""
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
def unmatched_of(at: Address, analyzer: Analyzer) -> UnmatchedQuestions:
    """Return the questions of a comparison that share no term with any passage, or with their own."""
    return unmatched(_opened(at).question_set, analyzer)


def finished_at(folder: Path) -> float:
    """When a comparison's scores were written, seconds since 1970."""
    return (folder / "scores.json").stat().st_mtime
