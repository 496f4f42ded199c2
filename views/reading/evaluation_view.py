"""What the views of an evaluation are drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.records import QuestionSet
from data.store import StoredSet
from reading.evaluate import Answered, ReaderResult
from reading.labels import Labels, Property, labels
from reading.results import tested_depth
from reading.rules import Rules
from reading.scores import EXACT, AnswerScores
from reading.slices import slice_figures, slices
from reading.store import KeptReading, load
from retrieval.comparison.kinds.spec import Spec
from views.resources.cached import cached
from views.resources.sets import question_set


@dataclass(frozen=True)
class ReadingView:
    """One reader's answers from what the retrievers `picked` find; `names` are all there are, for their colours.

    `measure` is `EXACT` or the rules' overlap, `k` one of the depths read.
    """

    data: StoredSet
    folder: Path
    kept: KeptReading
    picked: Sequence[str]
    names: Sequence[str]
    measure: str
    k: int

    @property
    def reader(self) -> ReaderResult:
        """The reader and its answers."""
        return self.kept.result.readers[0]

    @property
    def told(self) -> dict[str, Any]:
        """What `scores.json` says."""
        return self.kept.told

    @property
    def rules(self) -> Rules:
        """Whose rules say what is right."""
        return self.kept.result.experiment.rules

    @property
    def asked(self) -> QuestionSet:
        """The whole corpus, the questions asked."""
        return self.kept.result.question_set

    @property
    def ks(self) -> tuple[int, ...]:
        """The depths read."""
        return self.kept.result.experiment.depths_read

    @property
    def place(self) -> int:
        """The place of K among the depths."""
        return self.ks.index(self.k)

    @property
    def tested(self) -> int:
        """The depth at which retrievers were told apart."""
        return self.ks[tested_depth(self.ks)]

    @cached_property
    def answered(self) -> dict[str, Answered]:
        """The answers by retriever, those picked that did not fail, in their order."""
        return {name: self.reader.by_retriever[name] for name in self.picked if name in self.reader.by_retriever}

    def spec(self, name: str) -> Spec:
        """The retriever of a name."""
        return self.kept.result.experiment.specs[name]

    def shares(self, name: str, k: int | None = None) -> dict[str, Any]:
        """What is told of a retriever at K."""
        found: dict[str, Any] = self.told["readers"][self.reader.name][name][str(k or self.k)]
        return found

    @property
    def oracle(self) -> dict[str, Any]:
        """What is told of the right passage given."""
        found: dict[str, Any] = self.told["oracles"][self.reader.name]
        return found

    def best(self) -> str:
        """The retriever of the highest value at K; the first among equals."""
        return max(self.answered, key=lambda name: self.shares(name)[self.measure])

    def slice_figures(self, by: Property) -> pd.DataFrame:
        """Every retriever picked on every slice by a property; see `reading.slices.slice_figures`."""
        finished = (self.folder / "scores.json").stat().st_mtime
        place = (str(self.folder), finished, self.data.key)
        return _slice_figures(*place, names=tuple(self.answered), measure=self.measure, k=self.k, by=by)

    def labels(self, by: Property) -> Labels:
        """The label of every question asked."""
        finished = (self.folder / "scores.json").stat().st_mtime
        return _labels(str(self.folder), finished, self.data.key, by)


def open_reading(key: str, folder: Path) -> KeptReading | None:
    """Open the finished evaluation in a folder; None where it cannot be read, or is not of the stored set `key`."""
    return _opened(str(folder), (folder / "scores.json").stat().st_mtime, key)


@cached(max_entries=4)
def _opened(folder: str, finished: float, key: str) -> KeptReading | None:
    del finished  # only a part of the key: one that ran again is another one
    try:
        return load(Path(folder), question_set(key))
    except ValueError:
        return None


def _known(folder: str, finished: float, key: str) -> KeptReading:
    """One that is looked at, and so was opened before. Raises `ValueError` where it cannot be read any more."""
    if (kept := _opened(folder, finished, key)) is None:
        raise ValueError(f"{folder} cannot be read any more")
    return kept


@cached(max_entries=16)
def _labels(folder: str, finished: float, key: str, by: Property) -> Labels:
    return labels(_known(folder, finished, key).result.question_set, by)


@cached(max_entries=32)
def _slice_figures(
    folder: str, finished: float, key: str, *, names: tuple[str, ...], measure: str, k: int, by: Property
) -> pd.DataFrame:
    kept = _known(folder, finished, key)
    if not slices(kept.result.question_set, by):
        return pd.DataFrame()
    asked, place = kept.result.question_set, kept.result.experiment.depths_read.index(k)
    scores = {}
    for name in names:
        depth = kept.result.readers[0].by_retriever[name].depth
        values = (depth.exact if measure == EXACT else depth.overlap)[:, place]
        scores[name] = AnswerScores({measure: values}, {}, 0, np.zeros(len(values), dtype=bool))
    return slice_figures(asked, scores, by).rename(columns={"reader": "retriever"})
