"""Tables, tests and charts of the rankings of several retrievers over the same questions."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.api.display import html_table
from mrc_workbench.api.errors import unknown_name
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.defaults import SHORT_NAMES
from mrc_workbench.retrieval.evaluation.named import check_metric, own_measure, score_by_name
from mrc_workbench.retrieval.evaluation.significance import (
    Pair,
    mean_intervals,
    paired_tests,
    question_groups,
    share_intervals,
)
from mrc_workbench.retrieval.rankings import Rankings

Metrics = str | Sequence[str]  # a name of ir_measures, or several
DEFAULT_METRIC = "nDCG@10"


class ScoredRankings:
    """Rankings of several retrievers over the same questions, with their metrics.

    Metrics are named as in ir_measures, such as `nDCG@10`, `AP` or `RBP(rel=1)`, and lie between 0 and 1 unless their
    definition says otherwise; higher is better. Intervals and tests are over groups of questions about the same
    passages, as on the Compare page.

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

    def table(self, metrics: Metrics | None = None) -> pd.DataFrame:
        """Return the mean of each metric, a row per retriever.

        Raises `MetricError` if a metric is unknown or cannot be computed.
        """
        labels = self._labels(metrics)
        rows = {name: {label: values.mean() for label, values in self._of(name, labels).items()} for name in self.names}
        table = pd.DataFrame.from_dict(rows, orient="index", columns=list(labels), dtype=float)
        return table.rename_axis("retriever")

    def to_pandas(self, metrics: Metrics | None = None) -> pd.DataFrame:
        """Return a row per retriever and metric: retriever, metric, mean, and its 95% interval low to high."""
        labels = self._labels(metrics)
        rows = []
        for name in self.names:
            for label, values in self._of(name, labels).items():
                low, high = self._interval(values)
                rows.append((name, label, float(values.mean()), low, high))
        return pd.DataFrame(rows, columns=["retriever", "metric", "mean", "low", "high"])

    def per_question(self, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Return a row per question, indexed by id: its text, and each retriever's value of each metric."""
        labels = self._labels(metrics)
        columns = {"text": [question.text for question in self.question_set.questions]}
        values: dict[str, Any] = {}
        for name in self.names:
            for label, column in self._of(name, labels).items():
                values[name if len(labels) == 1 else f"{name}: {label}"] = column
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
            count questions.
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
        labels = self._labels(metrics)
        rows: list[tuple[Any, ...]] = []
        for label, metric in labels.items():
            found = {name: self._of(name, {label: metric}) for name in self.names}
            values = {name: of[label] for name, of in found.items() if label in of}
            scale = max([1.0, *(float(np.abs(of).max()) for of in values.values())])  # the tests are of shares
            known = [(a, b) for a, b in pairs if a in values and b in values]
            tested = [Pair(a, b, label, values[a] / scale, values[b] / scale) for a, b in known]
            for test in paired_tests(tested, self._groups):
                ends = (test.difference * scale, test.low * scale, test.high * scale)
                counts = (test.wins, test.ties, test.losses)
                rows.append((test.a, test.b, label, *ends, test.p, test.p_family, test.sure, *counts))
        names = ["retriever", "baseline", "metric", "difference", "low", "high"]
        names += ["p", "p_corrected", "significant", "wins", "ties", "losses"]
        return pd.DataFrame(rows, columns=names)

    def plot(self, metric: str | None = None) -> Any:
        """Return an Altair chart: the metric with its 95% intervals, or Recall@K over K if no metric is named."""
        from mrc_workbench.retrieval.report import charts

        if metric is not None:
            table = self.to_pandas(metric)
            order = table.sort_values("mean", ascending=False, kind="stable")["retriever"].tolist()
            title = str(table["metric"].iloc[0]) if len(table) else metric
            return charts.intervals(table, self.names, row="retriever", order=order, x=title)
        own = {check_metric(name): own_measure(name) for name in self.metrics}
        cuts = {name: measure.cut for name, measure in own.items() if measure and measure.name == "recall"}
        if not cuts:
            return self.plot(self.metrics[0])
        table = self.to_pandas(list(cuts))
        table["k"] = table["metric"].map(cuts)
        return charts.curves(table, self.names, x="K", y="Recall@K", legend=charts.legend())

    def run(self, name: str) -> dict[str, dict[str, float]]:
        """Return a retriever's ranking as ir_measures and ranx read it: passage ids and scores by question id."""
        rankings, passages = self._rankings[self.find(name)], self.question_set.passages.ids
        found: dict[str, dict[str, float]] = {}
        for row, question in enumerate(self.question_set.questions):
            pairs = zip(rankings.indices[row].tolist(), rankings.scores[row].tolist(), strict=True)
            found[question.id] = {passages[passage]: score for passage, score in pairs if passage >= 0}
        return found

    def find(self, name: str) -> str:
        """Return the full name of a retriever: its own, or of a short one ("mix") that of the default retriever.

        Raises `ApiError` if no retriever has it.
        """
        known = self.names
        full = name if name in known else SHORT_NAMES.get(name.casefold(), name)
        if full not in known:
            raise unknown_name("retriever", name, known)
        return full

    def _repr_html_(self) -> str:
        table = self.to_pandas()
        notes = [f"Means in percent with 95% intervals over {len(self.question_set.questions):,} questions"]
        cells = {
            (row.retriever, row.metric): f"{100 * row.mean:.2f} ({100 * row.low:.1f} – {100 * row.high:.1f})"
            for row in table.itertuples()
        }
        shown = [label for label in self._labels(None) if label in set(table["metric"])]
        rows = [[name, *(cells.get((name, label), "–") for label in shown)] for name in self.names]
        return html_table(pd.DataFrame(rows, columns=["retriever", *shown]), caption=repr(self)[1:-1], notes=notes)

    @cached_property
    def _groups(self) -> np.ndarray:
        return question_groups(self.question_set)

    def _labels(self, metrics: Metrics | None) -> dict[str, str]:
        """Return the metrics by the names that tables display."""
        names = self.metrics if metrics is None else [metrics] if isinstance(metrics, str) else metrics
        return {check_metric(name): name for name in names}

    def _of(self, name: str, labels: Mapping[str, str]) -> dict[str, np.ndarray]:
        """Return the per-question values of a retriever by label, `(n_questions,)`."""
        known = self._values[name]
        if missing := [label for label in labels if label not in known]:
            known |= self._score(name, missing)
        return {label: known[label] for label in labels if label in known}

    def _score(self, name: str, metrics: Sequence[str]) -> dict[str, np.ndarray]:
        return score_by_name(self._rankings[name], self.question_set, metrics)

    def _interval(self, values: np.ndarray) -> tuple[float, float]:
        is_share = bool(((values >= 0) & (values <= 1)).all())
        ((low, high),) = (share_intervals if is_share else mean_intervals)(values[:, None], self._groups)
        return float(low), float(high)
