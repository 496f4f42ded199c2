"""Stored evaluations of readers, and the tables of their views."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mrc_workbench.data.files import current_names
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import read_json, workspace
from mrc_workbench.labs.reading.evaluate import ReaderAnswers, ReaderResult
from mrc_workbench.labs.reading.extractive import AnswerOutcome
from mrc_workbench.labs.reading.labels import LabelKind, QuestionLabels, label_questions
from mrc_workbench.labs.reading.scores import EXACT, AnswerScores, score_slices, slice_questions
from mrc_workbench.labs.reading.study import EARLIER_SCORE_KEYS, SCORES_FILE, StoredReading, load, tested_depth_index
from mrc_workbench.workbench.views.names import retriever_names
from mrc_workbench.workbench.views.resources.sets import cached, question_set
from mrc_workbench.workbench.views.ui.words import word

OUTCOME_KEYS = {outcome: outcome.name.lower() for outcome in AnswerOutcome}


class Weight(NamedTuple):
    """The weight of the retrieval score and its unit; see `labs.reading.extractive.combined_scores`."""

    weight: float
    unit: float


def latest_reading(data: StoredSet) -> Path | None:
    return next((path.parent for path, _ in _stored_evaluations(data)), None)


def stored_weights(data: StoredSet, reader: str) -> dict[str, Weight]:
    """Return the newest weights tuned on validation questions for a reader, by retriever."""
    weights: dict[str, Weight] = {}
    for _, scores in _stored_evaluations(data):
        try:
            names = [spec["name"] for spec in scores["experiment"]["reader"] if spec["model"] == reader]
            selected = {
                retriever: Weight(float(entry["weight"]), float(scores["units"][name][retriever]))
                for name in names
                for retriever, entry in scores["weights"][name].items()
                if current_names(entry, EARLIER_SCORE_KEYS, SCORES_FILE)["selected_on"]
            }
        except (AttributeError, KeyError, TypeError, ValueError):  # another version
            continue
        weights = selected | weights
    return weights


def _stored_evaluations(data: StoredSet) -> Iterator[tuple[Path, dict[str, Any]]]:
    paths = sorted((workspace() / "reading").glob(f"*/{SCORES_FILE}"), key=lambda path: -path.stat().st_mtime)
    for path in paths:
        scores = _read_scores(path, path.stat().st_mtime_ns)
        experiment = scores.get("experiment")
        if isinstance(experiment, dict) and experiment.get("data") == data.key:
            yield path, scores


@cached(max_entries=64)
def _read_scores(path: Path, written: int) -> dict[str, Any]:
    del written
    return read_json(path)


@dataclass(frozen=True)
class ReadingView:
    """One reader's answers from the selected `retrievers`; `names` are all retrievers, for their colours.

    `measure` is `EXACT` or the rules' overlap, `k` one of the depths.
    """

    data: StoredSet
    folder: Path
    stored: StoredReading
    retrievers: Sequence[str]
    names: Sequence[str]
    measure: str
    k: int

    @cached_property
    def display_names(self) -> dict[str, str]:
        return retriever_names(dict.fromkeys((*self.names, *self.retrievers)))

    @property
    def reader(self) -> ReaderResult:
        return self.stored.result.readers[0]

    @property
    def question_set(self) -> QuestionSet:
        return self.stored.result.question_set

    @property
    def ks(self) -> tuple[int, ...]:
        return self.stored.result.experiment.depths_read

    @property
    def depth_index(self) -> int:
        return self.ks.index(self.k)

    @property
    def tested_k(self) -> int:
        return self.ks[tested_depth_index(self.ks)]

    @cached_property
    def answers_by_retriever(self) -> dict[str, ReaderAnswers]:
        return {name: self.reader.by_retriever[name] for name in self.retrievers if name in self.reader.by_retriever}

    def metrics(self, name: str, k: int | None = None) -> dict[str, Any]:
        values = self.stored.scores["readers"][self.reader.name][name][str(k or self.k)]
        return current_names(values, EARLIER_SCORE_KEYS, SCORES_FILE)

    @property
    def oracle(self) -> dict[str, Any]:
        values: dict[str, Any] = self.stored.scores["oracles"][self.reader.name]
        return values

    def best_retriever(self) -> str:
        return max(self.answers_by_retriever, key=lambda name: self.metrics(name)[self.measure])


def open_reading(key: str, folder: Path) -> StoredReading | None:
    """Open the finished evaluation in a folder; None if unreadable, or of another set than `key`."""
    return _load_cached(str(folder), (folder / SCORES_FILE).stat().st_mtime, key)


@cached(max_entries=4)
def _load_cached(folder: str, finished: float, key: str) -> StoredReading | None:
    del finished  # part of the cache key: a new run replaces the result
    try:
        return load(Path(folder), question_set(key))
    except ValueError:
        return None


def _storage_key(view: ReadingView) -> tuple[str, float, str]:
    return str(view.folder), (view.folder / SCORES_FILE).stat().st_mtime, view.data.key


def _display_key(view: ReadingView) -> tuple[object, ...]:
    return *_storage_key(view), tuple(view.answers_by_retriever), view.measure, view.k


@cached(max_entries=16, hash_funcs={ReadingView: _storage_key})
def question_labels(view: ReadingView, by: LabelKind) -> QuestionLabels:
    return label_questions(view.question_set, by)


@cached(max_entries=32, hash_funcs={ReadingView: _display_key})
def slice_table(view: ReadingView, by: LabelKind) -> pd.DataFrame:
    """Return `score_slices` of the displayed retrievers; empty if all slices are too small."""
    if not slice_questions(view.question_set, by):
        return pd.DataFrame()
    scores = {}
    for name, answers in view.answers_by_retriever.items():
        values = (answers.by_depth.exact if view.measure == EXACT else answers.by_depth.overlap)[:, view.depth_index]
        scores[name] = AnswerScores({view.measure: values}, {}, 0, np.zeros(len(values), dtype=bool))
    return score_slices(view.question_set, scores, by).rename(columns={"reader": "retriever"})


def curve_table(view: ReadingView) -> pd.DataFrame:
    """Return a row for each retriever and K: the metric with its interval, and the ceiling."""
    rows = []
    for name, k in product(view.answers_by_retriever, view.ks):
        scores = view.metrics(name, k)
        rows.append((name, k, scores[view.measure], *scores["interval"][view.measure], scores["ceiling"]))
    return pd.DataFrame(rows, columns=["retriever", "k", "value", "low", "high", "ceiling"])


def metric_table(view: ReadingView) -> pd.DataFrame:
    """Return a row for each retriever, the best first: the metric in percent for every K, and the interval at K."""
    rows = []
    for name in sorted(view.answers_by_retriever, key=lambda retriever: -view.metrics(retriever)[view.measure]):
        metrics = view.metrics(name)
        low, high = metrics["interval"][view.measure]
        row = {"retriever": name, **{str(k): 100 * view.metrics(name, k)[view.measure] for k in view.ks}}
        weight = view.answers_by_retriever[name].weight
        rows.append(row | {"low": 100 * low, "high": 100 * high, "ceiling": 100 * metrics["ceiling"], "weight": weight})
    return pd.DataFrame(rows)


def long_table(view: ReadingView) -> pd.DataFrame:
    """Return a row for each retriever and K: every metric as fractions, and the settings."""
    content = view.stored.scores
    rows = []
    settings = {"data": content["data"], "part": content["split"], "questions": content["questions"]}
    rules = view.stored.result.experiment.rules
    settings |= {"rules": rules.value, "reader": view.reader.name}
    for name, k in product(view.answers_by_retriever, view.ks):
        scores = view.metrics(name, k)
        row = {measure: scores[measure] for measure in (EXACT, rules.overlap_name)}
        for measure, (low, high) in scores["interval"].items():
            row |= {f"{measure}_low": low, f"{measure}_high": high}
        rows.append({"retriever": name, "k": k, **row, "ceiling": scores["ceiling"], **scores["outcomes"], **settings})
    return pd.DataFrame(rows)


def outcome_table(view: ReadingView) -> pd.DataFrame:
    rows = []
    for name, answers in view.answers_by_retriever.items():
        outcomes = answers.by_depth.outcome[:, view.depth_index]
        for outcome, key in OUTCOME_KEYS.items():
            count = int((outcomes == outcome).sum())
            rows.append((name, key, word(f"answers.outcome_{key}"), count, count / len(outcomes)))
    return pd.DataFrame(rows, columns=["retriever", "outcome", "label", "count", "fraction"])


def difference_table(view: ReadingView) -> pd.DataFrame:
    """Return a row for each pair of retrievers, the better one first, in points; the largest difference first."""
    rows = []
    for test in view.stored.scores["differences"][view.reader.name]:
        if test["measure"] != view.measure or not {test["a"], test["b"]} <= view.answers_by_retriever.keys():
            continue
        low, high = test["interval"]
        a = test["a"]
        b = test["b"]
        difference = test["difference"]
        if difference < 0:
            a, b, difference, low, high = b, a, -difference, -high, -low
        verdict = word("compare.higher" if test["sure"] else "compare.unsure")
        points = {"difference": 100 * difference, "low": 100 * low, "high": 100 * high}
        rows.append({"a": a, "b": b, "verdict": verdict, **points, "p_family": test["p"], "sure": test["sure"]})
    columns = ["a", "b", "verdict", "difference", "low", "high", "p_family", "sure"]
    return pd.DataFrame(rows, columns=columns).sort_values("difference", ascending=False, kind="stable")


def format_probability(score: float) -> str:
    value = math.exp(min(0.0, score))
    return f"{value:.2f}" if value >= 0.005 else "< 0.01"
