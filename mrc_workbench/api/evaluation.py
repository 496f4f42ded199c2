"""Tables, tests and charts of rankings over the same questions, of any system."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from mrc_workbench.api import values as api_values
from mrc_workbench.api.data import Source, load
from mrc_workbench.api.values import ApiError, Run, is_run
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval import significance as significance_tests
from mrc_workbench.retrieval.comparison.multistage import SHORT_NAMES
from mrc_workbench.retrieval.measures import check_metric, own_measure, score_by_name
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.trec import read_run_table, without_ties

Metrics: TypeAlias = str | Sequence[Any] | Any  # names or measures of ir_measures
DEFAULT_METRIC = "nDCG@10"
Runs: TypeAlias = Run | Mapping[str, Run]
_DEFAULT_METRICS = ("R@1", "R@5", "R@10", "RR@10", DEFAULT_METRIC)


def metric_names(metrics: Metrics) -> list[str]:
    """Return the names of metrics, which may be measures of ir_measures. Raises `MetricError`."""
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

    `question_set` has the searched questions, each with a relevant passage, over the whole corpus; `rankings`, by name,
    are rows of the corpus for every question. `metrics` and `baseline` are the defaults of tables and tests.
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
        named = self._metric_names(metrics)
        rows = []
        for name in self.names:
            values = self._metric_values(name, named)
            rows.append([float(values[metric].mean()) if metric in values else np.nan for metric in named])
        return pd.DataFrame(rows, columns=named, index=pd.Index(self.names, name="retriever"))

    def to_pandas(self, metrics: Metrics | None = None) -> pd.DataFrame:
        """Return a row per retriever and metric: retriever, metric, mean, and its 95% interval low to high."""
        named = self._metric_names(metrics)
        rows = []
        for name in self.names:
            values = self._metric_values(name, named)
            intervals = self._intervals(list(values.values()))
            for (metric, scores), (low, high) in zip(values.items(), intervals, strict=True):
                rows.append((name, metric, float(scores.mean()), low, high))
        return pd.DataFrame(rows, columns=["retriever", "metric", "mean", "low", "high"])

    def per_question(self, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Return a row per question, indexed by id: its text, and each retriever's value of each metric."""
        named = self._metric_names(metrics)
        columns = {"text": [question.text for question in self.question_set.questions]}
        values: dict[str, Any] = {}
        for name in self.names:
            for metric, column in self._metric_values(name, named).items():
                values[name if len(named) == 1 else f"{name}: {metric}"] = column
        index = pd.Index([question.id for question in self.question_set.questions], name="id")
        return pd.DataFrame(columns | values, index=index)

    def differences(self, baseline: str | None = None, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Test every other retriever against the baseline, a row per retriever and metric.

        Returns
        -------
        DataFrame
            `difference` is the mean of the retriever minus that of the baseline, with the 95% interval `low` to `high`.
            `p` is the p-value of this pair (two-sided randomisation test); `p_corrected` and the interval are corrected
            for all retrievers tested by the metric (max-T). `significant` is `p_corrected` < 0.05. `wins`, `ties` and
            `losses` count questions. Values are missing if the metric has a deeper cutoff than one of the searches.
        """
        against = self.find(baseline) if baseline else self.baseline
        pairs = [(name, against) for name in self.names if name != against]
        return self.tests(pairs, metrics)

    def pairwise(self, metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Test every pair of retrievers, as `differences` does."""
        return self.tests(list(combinations(self.names, 2)), metrics)

    def tests(self, pairs: Sequence[tuple[str, str]], metrics: Metrics = DEFAULT_METRIC) -> pd.DataFrame:
        """Test pairs of retrievers; those of a metric are corrected for each other. See `differences`."""
        rows: list[tuple[Any, ...]] = []
        for metric in self._metric_names(metrics):
            values_by_name = {name: self._metric_values(name, [metric]) for name in self.names}
            values = {name: scores[metric] for name, scores in values_by_name.items() if metric in scores}
            scale = max([1.0, *(float(np.abs(scores).max()) for scores in values.values())])  # tests need fractions
            known = [(a, b) for a, b in pairs if a in values and b in values]
            untested = [(a, b) for a, b in pairs if (a, b) not in known]
            tested = [significance_tests.Pair(a, b, metric, values[a] / scale, values[b] / scale) for a, b in known]
            for test in significance_tests.paired_tests(tested, self._groups):
                ends = (test.difference * scale, test.low * scale, test.high * scale)
                counts = (test.wins, test.ties, test.losses)
                rows.append((test.a, test.b, metric, *ends, test.p, test.p_family, test.is_significant, *counts))
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
        cuts = {name: measure.cutoff for name, measure in own.items() if measure and measure.name == "recall"}
        if not cuts:
            return self.plot(self.metrics[0])
        table = self.to_pandas(list(cuts))
        table["k"] = table["metric"].map(cuts)
        return charts.curves(table, self.names, x="K", y="Recall@K", legend=charts.legend())

    def run(self, name: str) -> dict[str, dict[str, float]]:
        """Return a retriever's ranking as ir_measures and ranx read it: passage ids and scores by question id.

        These tools order tied passages by id. Tied scores are therefore lowered to the next float32, which keeps the
        ranks of the search, so that their metrics equal those of `table`.
        """
        rankings = self._rankings[self.find(name)]
        passages = self.question_set.passages.ids
        scores = without_ties(rankings.scores)
        scores_by_question: dict[str, dict[str, float]] = {}
        for row, question in enumerate(self.question_set.questions):
            pairs = zip(rankings.indices[row].tolist(), scores[row].tolist(), strict=True)
            scores_by_question[question.id] = {passages[passage]: score for passage, score in pairs if passage >= 0}
        return scores_by_question

    def find(self, name: str) -> str:
        """Return the full name of a retriever, also for the short name of a default retriever ("mix").

        Raises `ApiError` if no retriever has it.
        """
        known = self.names
        if not isinstance(name, str):
            raise ApiError("unknown_name", f"a retriever is selected by its name, one of {known}, not by {name!r}")
        full = _full_name(name, known)
        if full not in known:
            raise api_values.unknown_name("retriever", name, known)
        return full

    def _repr_html_(self) -> str:
        table = self.to_pandas()
        cells = {
            (name, metric): f"{100 * mean:.2f} ({100 * low:.1f} – {100 * high:.1f})"
            for name, metric, mean, low, high in table.to_numpy().tolist()
        }
        metrics = [metric for metric in self.metrics if metric in set(table["metric"])]
        rows = [[name, *(cells.get((name, label), "–") for label in metrics)] for name in self.names]
        means = pd.DataFrame(rows, columns=["retriever", *metrics])
        return api_values.html_table(means, caption=repr(self)[1:-1], notes=self._notes())

    def _notes(self) -> list[str]:
        return [f"Means in percent with 95% intervals over {len(self.question_set.questions):,} questions"]

    @cached_property
    def _groups(self) -> np.ndarray:
        return significance_tests.question_groups(self.question_set)

    def _metric_names(self, metrics: Metrics | None) -> list[str]:
        return list(self.metrics) if metrics is None else metric_names(metrics)

    def _metric_values(self, name: str, metrics: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the values of a retriever by metric, `(n_questions,)`, without metrics that cannot be computed."""
        known = self._values[name]
        if missing := [metric for metric in metrics if metric not in known]:
            known |= self._score(name, missing)
        return {metric: known[metric] for metric in metrics if metric in known}

    def _score(self, name: str, metrics: Sequence[str]) -> dict[str, np.ndarray]:
        return score_by_name(self._rankings[name], self.question_set, metrics)

    def _intervals(self, columns: Sequence[np.ndarray]) -> list[tuple[float, float]]:
        """Return the 95% interval of the mean of each column, within 0 and 1 for fractions."""
        if not columns:
            return []
        values = np.stack(columns, axis=1)
        of_fractions = significance_tests.proportion_intervals(values, self._groups)
        is_fraction: np.ndarray = np.all((values >= 0) & (values <= 1), axis=0)
        if not is_fraction.all():
            of_fractions[~is_fraction] = significance_tests.mean_intervals(values[:, ~is_fraction], self._groups)
        return [(float(low), float(high)) for low, high in of_fractions]


def _full_name(name: str, known: Sequence[str]) -> str:
    return name if name in known else SHORT_NAMES.get(name.casefold(), name)


class Evaluation(ScoredRankings):
    """The result of `evaluate`: tables, tests and charts of runs over the same questions.

    `skipped` counts questions without a relevant passage.
    """

    def __init__(
        self, question_set: QuestionSet, runs: Mapping[str, Run], metrics: Sequence[str], skipped: int
    ) -> None:
        rankings = {name: api_values.read_any_run(run, question_set, name)[0] for name, run in runs.items()}
        super().__init__(question_set, rankings, metrics, next(iter(rankings)))
        self.skipped = skipped

    def __repr__(self) -> str:
        skipped = f", {self.skipped:,} without a relevant passage skipped" if self.skipped else ""
        return f"<Evaluation {', '.join(self.names)}: {len(self.question_set.questions):,} questions{skipped}>"


def evaluate(data: Source | Any, runs: Runs, metrics: Metrics = _DEFAULT_METRICS) -> Evaluation:
    """Evaluate runs of any system. Raises `RunError`, and `MetricError` with suggestions.

    Parameters
    ----------
    data
        Judgements: whole grades by passage id by question id, a table (query_id, doc_id, relevance), a list of `Qrel`
        of ir_measures, or a file of TREC or BEIR; or a `Dataset`, or anything else that `load` takes.
    runs
        A run, or runs by name: scores by passage id by question id, a table (query_id, doc_id, score), a list of
        `ScoredDoc`, a TREC file, or JSON lines `{"question": ..., "passages": [...]}` with texts or ids. Higher scores
        are better; as in trec_eval, ranks are ignored and ties are ordered by descending id.
    metrics
        Names or measures of ir_measures, such as `nDCG@10`, `AP`, `P@5`, `RBP(rel=1)` or `ERR@10`. A run has no hits
        below its last rank, and 0 for questions that it lacks.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
    >>> runs = {"a": {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d2": 1.0}}, "b": {"q1": {"d2": 2.0, "d1": 1.0}}}
    >>> mrc.evaluate(qrels, runs, ["RR@10", "AP", "P@1"]).table().loc["b"].tolist()
    [0.25, 0.25, 0.0]
    """
    names = metric_names(metrics)
    by_name = _by_name(runs)
    if not by_name:
        raise ApiError("no_run", "evaluate needs at least one run")
    question_set = _judged_question_set(data, by_name) if _are_judgements(data) else load(data).question_set
    scored = question_set.with_questions(question_set.answerable)
    if not scored.questions:
        raise ApiError("no_judgement", "no question has a relevant passage, so nothing can be scored")
    return Evaluation(scored, by_name, names, len(question_set.questions) - len(scored.questions))


def significance(
    result: ScoredRankings | Mapping[str, Run],
    metric: Metrics = DEFAULT_METRIC,
    baseline: str | None = None,
    *,
    data: Source | Any = None,
) -> pd.DataFrame:
    """Test whether retrievers differ, by paired randomisation tests: a row per pair, as of `differences`.

    Parameters
    ----------
    result
        What `compare` or `evaluate` returned, or runs by name; `data` are then their judgements, as for `evaluate`.
    baseline
        The retriever that the others are tested against; by default every pair is tested.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> result = mrc.compare("sample", ["bm25", "bm25-words"], progress=False)
    >>> mrc.significance(result, "AP", baseline="bm25")["retriever"].tolist()
    ['BM25 words']
    """
    if not isinstance(result, ScoredRankings):
        if data is None:
            raise ApiError("no_judgement", "to test runs, give their judgements as data=")
        result = evaluate(data, result, metric)
    return result.differences(baseline, metric) if baseline else result.pairwise(metric)


def _by_name(runs: Any) -> dict[str, Run]:
    """Return runs by name. A mapping of questions whose passages have scores is a single run, named "run"."""
    is_single = not isinstance(runs, Mapping)
    if is_run(runs) and not is_single:
        is_single = not any(isinstance(score, Mapping) for scores in runs.values() for score in scores.values())
    return {"run": runs} if is_single else {str(name): run for name, run in runs.items()}


def _are_judgements(data: object) -> bool:
    data = api_values.records_table(data)
    if isinstance(data, Mapping):
        parts = set(data) & set(api_values.COLLECTION)
        return not parts or (is_run(data) and len(parts) < len(api_values.COLLECTION))
    if isinstance(data, pd.DataFrame):
        return api_values.holds_judgements(data.columns)
    if not isinstance(data, str | os.PathLike) or not os.path.isfile(data):  # noqa: PTH113 - a name may be too long
        return False
    return "qrel" in os.fspath(data).casefold() or api_values.is_qrels_file(Path(data))


def _judged_question_set(data: Any, runs: Mapping[str, Run]) -> QuestionSet:
    """Return a question set of ids: its passages are the judged and retrieved ones, with their ids as texts."""
    grades = api_values.judgements(data)
    passages = dict.fromkeys(id_ for passage_grades in grades.values() for id_ in passage_grades)
    for name, run in runs.items():
        if isinstance(run, str | os.PathLike):
            table = read_run_table(Path(run).expanduser(), name)[0]
        else:
            table = api_values.run_table(run)
        passages |= dict.fromkeys(table["passage"].cat.categories)
    questions = tuple(Question.from_grades(id_, id_, passage_grades) for id_, passage_grades in grades.items())
    return QuestionSet("judgements", [Passage(id_, id_) for id_ in passages], questions)  # type: ignore[arg-type]
