"""List published scores beside this project's BM25 on the same dataset: `python -m benchmarks published`.

`benchmarks/published.toml` contains the published scores and the differences in method. BM25 has its default values and
is measured with the same metric if the dataset is in `MRC_DATA`.
"""

import os
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from benchmarks.quality.article_split import compare_part, workspace
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import evaluate, relevant_hits
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.significance import mean_interval, question_groups

FILE = Path(__file__).parents[1] / "published.toml"
DEPTH = 1000  # passages per question, as in trec_eval
_LABELS = {
    "hit@1": "hit@1",
    "hit@5": "hit@5",
    "hit@10": "hit@10",
    "ndcg@10": "nDCG@10",
    "ndcg@5, ndcg@10": "mean of nDCG@5 and nDCG@10",
    "ndcg": "nDCG",
    "map": "MAP",
}


class CitedSource(BaseModel):
    """A publication, and the date on which it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str
    title: str
    address: str = Field(pattern="^https://")
    read: date


class PublishedMetric(BaseModel):
    """A published score in percent."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    system: str
    measure: str
    value: float = Field(ge=0, le=100)
    source: str
    difference: str = ""


class PublishedSet(BaseModel):
    """A question set with its published scores; `file` is its name in `MRC_DATA`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    file: str = ""
    metric: tuple[PublishedMetric, ...] = Field(min_length=1)


class CitedResults(BaseModel):
    """The content of `published.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: tuple[CitedSource, ...]
    set: tuple[PublishedSet, ...]


class OwnMetric(NamedTuple):
    """A score of this project's BM25 with its 95% interval, in percent."""

    value: float
    low: float
    high: float


def read_published(path: Path = FILE) -> CitedResults:
    """Read the published scores. Raises `ValueError` if the file is invalid."""
    return CitedResults.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


def published() -> list[str]:
    """Measure BM25 on each available dataset; returns a Markdown table and the list of sources."""
    known = read_published()
    folder = Path(os.environ.get("MRC_DATA", ""))
    own: dict[tuple[str, str], OwnMetric] = {}
    with workspace():
        for published_set in known.set:
            if published_set.file:
                question_set = read_file(folder / published_set.file).question_set
                own |= {
                    (published_set.name, name): value for name, value in _measure(question_set, published_set).items()
                }
    return table(known, own)


def table(known: CitedResults, own: Mapping[tuple[str, str], OwnMetric]) -> list[str]:
    """Return a row for each published score, and the numbered sources; `own` is by dataset and measure."""
    numbers = {source.id: number for number, source in enumerate(known.source, start=1)}
    lines = ["| | metric | published | source | BM25 here | differences |", "|---|---|---:|:---:|---|---|"]
    for published_set in known.set:
        lines.append(f"| **{published_set.name}** | | | | | |")
        for metric in published_set.metric:
            own_metric = own.get((published_set.name, metric.measure))
            cells = [
                metric.system,
                _LABELS[metric.measure],
                f"{metric.value:g}",
                f"[{numbers[metric.source]}]",
                f"{own_metric.value:.2f} ({own_metric.low:.2f} to {own_metric.high:.2f})"
                if own_metric
                else "dataset not available",
                metric.difference,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    sources = [
        f"{number}. [{source.title}]({source.address}), read on {source.read}."
        for number, source in enumerate(known.source, start=1)
    ]
    return [*lines, "", *sources]


def _measure(question_set: QuestionSet, published_set: PublishedSet) -> dict[str, OwnMetric]:
    comparison = compare_part(question_set, Part.ALL, BM25Spec(name="BM25"), ks=(1, 5, 10, DEPTH))
    evaluated_set = comparison.question_set
    (result,) = comparison.results
    if result.rankings is None:
        raise ValueError(f"BM25 failed on {published_set.name}: {result.error}")
    groups = question_groups(evaluated_set)
    own = {}
    for measure in dict.fromkeys(metric.measure for metric in published_set.metric):
        values = per_question(result.rankings, evaluated_set, measure)
        low, high = mean_interval(values, groups)
        own[measure] = OwnMetric(*(100 * number for number in (float(values.mean()), low, high)))
    return own


def per_question(rankings: Rankings, question_set: QuestionSet, measure: str) -> np.ndarray:
    """Return a measure of `_LABELS` for each question, `(n_questions,)`, 0 to 1."""
    if measure == "map":
        return average_precision(rankings, question_set)
    names = [f"ndcg@{DEPTH}"] if measure == "ndcg" else measure.split(", ")
    scores = evaluate(rankings, question_set, [int(name.partition("@")[2]) for name in names]).per_question
    values: np.ndarray = np.mean([scores[name] for name in names], axis=0)
    return values


def average_precision(rankings: Rankings, question_set: QuestionSet) -> np.ndarray:
    """Return the mean precision at the ranks of relevant passages, `(n_questions,)`; 0 for those not retrieved."""
    hits = relevant_hits(rankings, question_set)
    precision = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    relevant: np.ndarray = np.diff(question_set.relevance.indptr)
    values: np.ndarray = (precision * hits).sum(axis=1) / relevant
    return values
