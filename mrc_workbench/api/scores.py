"""Tables, tests and charts of the rankings of several retrievers over the same questions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from mrc_workbench.api.display import html_table
from mrc_workbench.api.errors import ApiError, unknown_name
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.multistage import SHORT_NAMES
from mrc_workbench.retrieval.measures import check_metric, own_measure, score_by_name
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.significance import (
    Pair,
    mean_intervals,
    paired_tests,
    question_groups,
    share_intervals,
)
from mrc_workbench.retrieval.trec import without_ties

Metrics: TypeAlias = str | Sequence[Any] | Any  # names or measures of ir_measures
DEFAULT_METRIC = "nDCG@10"


def metric_names(metrics: Metrics) -> list[str]:
    """Return the names of metrics, of which some may be measures of ir_measures. Raises `MetricError`."""
    is_single = isinstance(metrics, str) or not isinstance(metrics, Iterable)
    names = [str(metric) for metric in ([metrics] if is_single else metrics)]
    for name in names:
        check_metric(name)
    return names


class ScoredRankings:
    """Rankings of several retrievers over the same questions, with their metrics. Iterates over their names.

    Metrics are names of ir_measures, such as `nDCG@10`, `AP` or `RBP(rel=1)`, or its measures, and lie between 0 and 1
    unless their definition says otherwise; higher is better. Intervals and tests are over groups of questions about the
    same passages, as on the Compare page.

    Parameters
    ----------
    question_set
        the questions that were searched, each with a relevant passage, over the whole corpus
    rankings
        by name, rows of the corpus for every question
    metrics
        the metrics of tables if none are named
    baseline
        the retriever that others are tested against if none is named
    """

    def __init__(
        self, question_set: QuestionSet, rankings: Mapping[str, Rankings], metrics: Sequence[str], baseline: str
    ) -> None:
        self.question_set = question_set
        self.metrics = tuple(metrics)
        self.baseline = baseline
        self._rankings = dict(rankings)
        self._values: dict[str, dict[str, np.ndarray]] = {name: {} for name in rankings}

    @property
    def names(self) -> list[str]:
        """Names of the retrievers that have rankings, in the order given."""
        return list(self._rankings)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True  # also if every retriever failed

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _full_name(name, self.names) in self.names

    def table(self, metrics: Metrics | None = None) -> pd.DataFrame:
        """Return the mean of each metric, a row per retriever.

        Raises `MetricError` if a metric is unknown or cannot be computed.
        """
        named = self._named(metrics)
        rows = []
        for name in self.names:
            values = self._of(name, named)
            rows.append([float(values[metric].mean()) if metric in values else np.nan for metric in named])
        return pd.DataFrame(rows, columns=named, index=pd.Index(self.names, name="retriever"))

    def to_pandas(self, metrics: Metrics | None = None) -> pd.DataFrame:
        """Return a row per retriever and metric: retriever, metric, mean, and its 95% interval low to high."""
        named = self._named(metrics)
        rows = []
        for name in self.names:
            values = self._of(name, named)
            intervals = self._intervals(list(values.values()))
            for (metric, of), (low, high) in zip(values.items(), intervals, strict=True):
                rows.append((name, metric, float(of.mean()), low, high))
        return pd.DataFrame(rows, columns=["retriever", "metric", "mean", "low", "high"])

    def per_question(self, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Return a row per question, indexed by id: its text, and each retriever's value of each metric."""
        named = self._named(metrics)
        columns = {"text": [question.text for question in self.question_set.questions]}
        values: dict[str, Any] = {}
        for name in self.names:
            for metric, column in self._of(name, named).items():
                values[name if len(named) == 1 else f"{name}: {metric}"] = column
        index = pd.Index([question.id for question in self.question_set.questions], name="id")
        return pd.DataFrame(columns | values, index=index)

    def differences(self, baseline: str | None = None, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Test every other retriever against the baseline, a row per retriever and metric.

        Returns
        -------
        DataFrame
            `difference` is the mean of the retriever less that of the baseline, with the 95% interval `low` to `high`.
            `p` is of this pair alone (randomisation test, two-sided); `p_corrected` and the interval allow for all
            retrievers tested by the metric (max-T). `significant` is `p_corrected` < 0.05. `wins`, `ties` and `losses`
            count questions. Values are missing where the metric looks deeper than one of the two searches.
        """
        against = self.find(baseline) if baseline else self.baseline
        pairs = [(name, against) for name in self.names if name != against]
        return self.tests(pairs, metrics)

    def pairwise(self, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Test every pair of retrievers, as `differences` does."""
        names = self.names
        pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
        return self.tests(pairs, metrics)

    def tests(self, pairs: Sequence[tuple[str, str]], metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Test pairs of retrievers; those of a metric are corrected for each other. See `differences`."""
        rows: list[tuple[Any, ...]] = []
        for metric in self._named(metrics):
            found = {name: self._of(name, [metric]) for name in self.names}
            values = {name: of[metric] for name, of in found.items() if metric in of}
            scale = max([1.0, *(float(np.abs(of).max()) for of in values.values())])  # the tests are of shares
            known = [(a, b) for a, b in pairs if a in values and b in values]
            untested = [(a, b) for a, b in pairs if (a, b) not in known]
            tested = [Pair(a, b, metric, values[a] / scale, values[b] / scale) for a, b in known]
            for test in paired_tests(tested, self._groups):
                ends = (test.difference * scale, test.low * scale, test.high * scale)
                counts = (test.wins, test.ties, test.losses)
                rows.append((test.a, test.b, metric, *ends, test.p, test.p_family, test.sure, *counts))
            rows += [(a, b, metric, *[np.nan] * 5, False, *[pd.NA] * 3) for a, b in untested]
        names = ["retriever", "baseline", "metric", "difference", "low", "high"]
        names += ["p", "p_corrected", "significant", "wins", "ties", "losses"]
        return pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[-3:], "Int64"))

    def plot(self, metric: str | Any | None = None) -> Any:
        """Return an Altair chart: the metric with its 95% intervals, or Recall@K over K if no metric is named."""
        from mrc_workbench.retrieval.report import charts

        if metric is not None:
            metric = str(metric)
            table = self.to_pandas(metric)
            order = table.sort_values("mean", ascending=False, kind="stable")["retriever"].tolist()
            return charts.intervals(table, self.names, row="retriever", order=order, x=metric)
        own = {name: own_measure(name) for name in self.metrics}
        cuts = {name: measure.cut for name, measure in own.items() if measure and measure.name == "recall"}
        if not cuts:
            return self.plot(self.metrics[0])
        table = self.to_pandas(list(cuts))
        table["k"] = table["metric"].map(cuts)
        return charts.curves(table, self.names, x="K", y="Recall@K", legend=charts.legend())

    def run(self, name: str) -> dict[str, dict[str, float]]:
        """Return a retriever's ranking as ir_measures and ranx read it: passage ids and scores by question id.

        These tools order tied passages by their ids. A score that ties with the one before it is therefore lowered
        to the next float32, so that they see the ranks of the search, and their metrics equal those of `table`.
        """
        rankings, passages = self._rankings[self.find(name)], self.question_set.passages.ids
        scores = without_ties(rankings.scores)
        found: dict[str, dict[str, float]] = {}
        for row, question in enumerate(self.question_set.questions):
            pairs = zip(rankings.indices[row].tolist(), scores[row].tolist(), strict=True)
            found[question.id] = {passages[passage]: score for passage, score in pairs if passage >= 0}
        return found

    def find(self, name: str) -> str:
        """Return the full name of a retriever: its own, or of a short one ("mix") that of the default retriever.

        Raises `ApiError` if no retriever has it.
        """
        known = self.names
        if not isinstance(name, str):
            raise ApiError("unknown_name", f"a retriever is selected by its name, one of {known}, not by {name!r}")
        full = _full_name(name, known)
        if full not in known:
            raise unknown_name("retriever", name, known)
        return full

    def _repr_html_(self) -> str:
        table = self.to_pandas()
        notes = [f"Means in percent with 95% intervals over {len(self.question_set.questions):,} questions"]
        cells = {
            (name, metric): f"{100 * mean:.2f} ({100 * low:.1f} – {100 * high:.1f})"
            for name, metric, mean, low, high in table.to_numpy().tolist()
        }
        shown = [metric for metric in self.metrics if metric in set(table["metric"])]
        rows = [[name, *(cells.get((name, label), "–") for label in shown)] for name in self.names]
        return html_table(pd.DataFrame(rows, columns=["retriever", *shown]), caption=repr(self)[1:-1], notes=notes)

    @cached_property
    def _groups(self) -> np.ndarray:
        return question_groups(self.question_set)

    def _named(self, metrics: Metrics | None) -> list[str]:
        """Return the names of metrics, those of tables if none is given. Raises `MetricError` for an unknown one."""
        return list(self.metrics) if metrics is None else metric_names(metrics)

    def _of(self, name: str, metrics: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the per-question values of a retriever by metric, `(n_questions,)`; none of metrics not known."""
        known = self._values[name]
        if missing := [metric for metric in metrics if metric not in known]:
            known |= self._score(name, missing)
        return {metric: known[metric] for metric in metrics if metric in known}

    def _score(self, name: str, metrics: Sequence[str]) -> dict[str, np.ndarray]:
        return score_by_name(self._rankings[name], self.question_set, metrics)

    def _intervals(self, columns: Sequence[np.ndarray]) -> list[tuple[float, float]]:
        """Return the 95% interval of each column's mean. Of fractions the ends are within 0 and 1."""
        if not columns:
            return []
        values = np.stack(columns, axis=1)
        of_fractions = share_intervals(values, self._groups)
        is_fraction: np.ndarray = np.all((values >= 0) & (values <= 1), axis=0)
        if not is_fraction.all():
            of_fractions[~is_fraction] = mean_intervals(values[:, ~is_fraction], self._groups)
        return [(float(low), float(high)) for low, high in of_fractions]


def _full_name(name: str, known: Sequence[str]) -> str:
    return name if name in known else SHORT_NAMES.get(name.casefold(), name)
