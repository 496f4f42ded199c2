"""The evaluations of readers that lie in the workspace, and the figures that their views are drawn from."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import read_json, workspace
from mrc_workbench.labs.reading.evaluate import Answered, ReaderResult
from mrc_workbench.labs.reading.extractive import Fate
from mrc_workbench.labs.reading.labels import Labels, Property, labels
from mrc_workbench.labs.reading.scores import EXACT, AnswerScores, Rules, slice_figures, slices
from mrc_workbench.labs.reading.study import StoredReading, load, tested_depth
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.workbench.views.names import retriever_names
from mrc_workbench.workbench.views.resources.sets import cached, question_set
from mrc_workbench.workbench.views.ui.words import word

FATES = {fate: fate.name.lower() for fate in Fate}


class Weight(NamedTuple):
    """The weight of the retrieval score and the unit it is told in; see `labs.reading.extractive.by_depth`."""

    weight: float
    unit: float


def latest_reading(data: StoredSet) -> Path | None:
    return next((path.parent for path, _ in _of(data)), None)


def stored_weights(data: StoredSet, reader: str) -> dict[str, Weight]:
    """Return the newest weights chosen on validation questions for a reader, by retriever."""
    found: dict[str, Weight] = {}
    for _, told in _of(data):
        try:
            names = [one["name"] for one in told["experiment"]["reader"] if one["model"] == reader]
            chosen = {
                retriever: Weight(float(by["weight"]), float(told["units"][name][retriever]))
                for name in names
                for retriever, by in told["weights"][name].items()
                if by["chosen_on"]
            }
        except (AttributeError, KeyError, TypeError, ValueError):  # of another version
            continue
        found = chosen | found
    return found


def _of(data: StoredSet) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the `scores.json` of evaluations on a set, the newest first."""
    paths = sorted((workspace() / "reading").glob("*/scores.json"), key=lambda path: -path.stat().st_mtime)
    for path in paths:
        told = _read(path, path.stat().st_mtime_ns)
        experiment = told.get("experiment")
        if isinstance(experiment, dict) and experiment.get("data") == data.key:
            yield path, told


@cached(max_entries=64)
def _read(path: Path, written: int) -> dict[str, Any]:
    del written
    return read_json(path)


@dataclass(frozen=True)
class ReadingView:
    """One reader's answers from the retrievers `picked`; `names` are all retrievers, for their colours.

    `measure` is `EXACT` or the rules' overlap, `k` one of the depths read.
    """

    data: StoredSet
    folder: Path
    kept: StoredReading
    picked: Sequence[str]
    names: Sequence[str]
    measure: str
    k: int

    @cached_property
    def display_names(self) -> dict[str, str]:
        return retriever_names(dict.fromkeys((*self.names, *self.picked)))

    @property
    def reader(self) -> ReaderResult:
        return self.kept.result.readers[0]

    @property
    def rules(self) -> Rules:
        return self.kept.result.experiment.rules

    @property
    def asked(self) -> QuestionSet:
        return self.kept.result.question_set

    @property
    def ks(self) -> tuple[int, ...]:
        return self.kept.result.experiment.depths_read

    @property
    def place(self) -> int:
        return self.ks.index(self.k)

    @property
    def tested(self) -> int:
        return self.ks[tested_depth(self.ks)]

    @cached_property
    def answered(self) -> dict[str, Answered]:
        """The answers of selected retrievers that did not fail."""
        return {name: self.reader.by_retriever[name] for name in self.picked if name in self.reader.by_retriever}

    def spec(self, name: str) -> Spec:
        return self.kept.result.experiment.specs[name]

    def shares(self, name: str, k: int | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self.kept.told["readers"][self.reader.name][name][str(k or self.k)]
        return found

    @property
    def oracle(self) -> dict[str, Any]:
        found: dict[str, Any] = self.kept.told["oracles"][self.reader.name]
        return found

    def best(self) -> str:
        """Return the retriever of the highest value at K, the first of equals."""
        return max(self.answered, key=lambda name: self.shares(name)[self.measure])


def open_reading(key: str, folder: Path) -> StoredReading | None:
    """Open the finished evaluation in a folder; None if it is unreadable, or not of the stored set `key`."""
    return _opened(str(folder), (folder / "scores.json").stat().st_mtime, key)


@cached(max_entries=4)
def _opened(folder: str, finished: float, key: str) -> StoredReading | None:
    del finished  # only a part of the key: one that ran again is another one
    try:
        return load(Path(folder), question_set(key))
    except ValueError:
        return None


def _stored_at(view: ReadingView) -> tuple[str, float, str]:
    return str(view.folder), (view.folder / "scores.json").stat().st_mtime, view.data.key


def _displayed(view: ReadingView) -> tuple[object, ...]:
    return *_stored_at(view), tuple(view.answered), view.measure, view.k


@cached(max_entries=16, hash_funcs={ReadingView: _stored_at})
def labels_of(view: ReadingView, by: Property) -> Labels:
    return labels(view.asked, by)


@cached(max_entries=32, hash_funcs={ReadingView: _displayed})
def slices_of(view: ReadingView, by: Property) -> pd.DataFrame:
    """Return `slice_figures` of the displayed retrievers; empty if all slices are too small."""
    if not slices(view.asked, by):
        return pd.DataFrame()
    scores = {}
    for name, answered in view.answered.items():
        values = (answered.depth.exact if view.measure == EXACT else answered.depth.overlap)[:, view.place]
        scores[name] = AnswerScores({view.measure: values}, {}, 0, np.zeros(len(values), dtype=bool))
    return slice_figures(view.asked, scores, by).rename(columns={"reader": "retriever"})


def curve_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever and K: the measure with its interval, and the ceiling."""
    rows = []
    for name, k in product(view.answered, view.ks):
        scores = view.shares(name, k)
        rows.append((name, k, scores[view.measure], *scores["interval"][view.measure], scores["ceiling"]))
    return pd.DataFrame(rows, columns=["retriever", "k", "value", "low", "high", "ceiling"])


def figure_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever, the best first: the measure in percent for every K, and the interval at K."""
    rows = []
    for name in sorted(view.answered, key=lambda one: -view.shares(one)[view.measure]):
        told = view.shares(name)
        low, high = told["interval"][view.measure]
        row = {"retriever": name, **{str(k): 100 * view.shares(name, k)[view.measure] for k in view.ks}}
        weight = view.answered[name].weight
        rows.append(row | {"low": 100 * low, "high": 100 * high, "ceiling": 100 * told["ceiling"], "weight": weight})
    return pd.DataFrame(rows)


def long_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever and K with every metric, as fractions, and the settings."""
    told, rows = view.kept.told, []
    settings = {"data": told["data"], "part": told["split"], "questions": told["questions"]}
    settings |= {"rules": view.rules.value, "reader": view.reader.name}
    for name, k in product(view.answered, view.ks):
        scores = view.shares(name, k)
        row = {measure: scores[measure] for measure in (EXACT, view.rules.overlap_name)}
        for measure, (low, high) in scores["interval"].items():
            row |= {f"{measure}_low": low, f"{measure}_high": high}
        rows.append({"retriever": name, "k": k, **row, "ceiling": scores["ceiling"], **scores["fates"], **settings})
    return pd.DataFrame(rows)


def fate_table(view: ReadingView) -> pd.DataFrame:
    rows = []
    for name, answered in view.answered.items():
        found = answered.depth.fate[:, view.place]
        for fate, key in FATES.items():
            count = int((found == fate).sum())
            label = word(f"answers.fate_{key}")
            rows.append({"retriever": name, "fate": key, "label": label, "count": count, "share": count / len(found)})
    return pd.DataFrame(rows)


def difference_table(view: ReadingView) -> pd.DataFrame:
    """One row a pair of retrievers, the higher one first, in points; the largest difference first."""
    rows = []
    for told in view.kept.told["differences"][view.reader.name]:
        if told["measure"] != view.measure or not {told["a"], told["b"]} <= view.answered.keys():
            continue
        low, high = told["interval"]
        a, b, difference = told["a"], told["b"], told["difference"]
        if difference < 0:
            a, b, difference, low, high = b, a, -difference, -high, -low
        verdict = word("compare.higher" if told["sure"] else "compare.unsure")
        points = {"difference": 100 * difference, "low": 100 * low, "high": 100 * high}
        rows.append({"a": a, "b": b, "verdict": verdict, **points, "p_family": told["p"], "sure": told["sure"]})
    columns = ["a", "b", "verdict", "difference", "low", "high", "p_family", "sure"]
    return pd.DataFrame(rows, columns=columns).sort_values("difference", ascending=False, kind="stable")


def probability(score: float) -> str:
    share = math.exp(min(0.0, score))
    return f"{share:.2f}" if share >= 0.005 else "< 0.01"
