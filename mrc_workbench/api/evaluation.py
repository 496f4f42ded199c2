"""Rankings of any system, evaluated against judgements, and tested against each other."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import pandas as pd

from mrc_workbench.api.data import Source, load
from mrc_workbench.api.errors import ApiError
from mrc_workbench.api.names import is_run
from mrc_workbench.api.python_data import COLLECTION
from mrc_workbench.api.runs import (
    Run,
    holds_judgements,
    is_qrels_file,
    judgements,
    rankings_of_run,
    records_table,
    run_table,
)
from mrc_workbench.api.scores import DEFAULT_METRIC, Metrics, ScoredRankings, metric_names
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval.trec import read_run_table

Runs: TypeAlias = Run | Mapping[str, Run]
_DEFAULT_METRICS = ("R@1", "R@5", "R@10", "RR@10", DEFAULT_METRIC)


class Evaluation(ScoredRankings):
    """The result of `evaluate`: tables, tests and charts of runs over the same questions.

    `skipped` counts questions that are left out because no passage is relevant to them.
    """

    def __init__(
        self, question_set: QuestionSet, runs: Mapping[str, Run], metrics: Sequence[str], skipped: int
    ) -> None:
        rankings = {name: rankings_of_run(run, question_set, name) for name, run in runs.items()}
        super().__init__(question_set, rankings, metrics, next(iter(rankings)))
        self.skipped = skipped

    def __repr__(self) -> str:
        skipped = f", {self.skipped:,} without a relevant passage skipped" if self.skipped else ""
        return f"<Evaluation {', '.join(self.names)}: {len(self.question_set.questions):,} questions{skipped}>"


def evaluate(data: Source | Any, runs: Runs, metrics: Metrics = _DEFAULT_METRICS) -> Evaluation:
    """Evaluate runs of any system.

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
        Names or measures of ir_measures, such as `nDCG@10`, `AP`, `P@5`, `RBP(rel=1)` or `ERR@10`. A metric that looks
        deeper than a run counts nothing there. Questions that a run lacks have 0.

    Raises
    ------
    MetricError
        If a metric is unknown or cannot be computed; the message suggests names.
    RunError
        If a run cannot be read, or names none of the passages or questions.

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
    question_set = _of_judgements(data, by_name) if _are_judgements(data) else load(data).question_set
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
    """Test whether retrievers differ, by paired randomisation tests over questions about the same passages.

    Parameters
    ----------
    result
        What `compare` or `evaluate` returned, or runs by name; `data` are then their judgements, as for `evaluate`.
    metric
        One or several names of metrics.
    baseline
        The retriever that the others are tested against; every pair is tested if left out.
    data
        The judgements of runs.

    Returns
    -------
    DataFrame
        A row per pair: retriever, baseline, metric, difference, low, high, p, p_corrected, significant, wins, ties,
        losses; see `ComparisonResult.differences`.

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


def _by_name(runs: Runs) -> dict[str, Run]:
    if not isinstance(runs, Mapping):
        return {"run": runs}
    if _is_single(runs):
        return {"run": cast(Run, runs)}
    return {str(name): cast(Run, run) for name, run in runs.items()}


def _is_single(runs: Mapping[str, Any]) -> bool:
    """Whether a mapping is one run, so that its values are scores by passage id and not runs."""
    return is_run(runs) and all(not isinstance(score, Mapping) for found in runs.values() for score in found.values())


def _are_judgements(data: object) -> bool:
    data = records_table(data)
    if isinstance(data, Mapping):
        parts = set(data) & set(COLLECTION)
        return not parts or (is_run(data) and len(parts) < len(COLLECTION))
    if isinstance(data, pd.DataFrame):
        return holds_judgements(data.columns)
    if not isinstance(data, str | os.PathLike) or not os.path.isfile(data):  # noqa: PTH113 - a name may be too long
        return False
    return "qrel" in os.fspath(data).casefold() or is_qrels_file(Path(data))


def _of_judgements(data: Any, runs: Mapping[str, Run]) -> QuestionSet:
    """Return a question set of ids alone: the passages are those judged or found, and their ids are their texts."""
    grades = judgements(data)
    passages = dict.fromkeys(id_ for of in grades.values() for id_ in of)
    for name, run in runs.items():
        if isinstance(run, str | os.PathLike):
            table = read_run_table(Path(run).expanduser(), name)[0]
        else:
            table = run_table(run)
        passages |= dict.fromkeys(table["passage"].cat.categories)
    questions = tuple(Question.judged(id_, id_, of) for id_, of in grades.items())
    return QuestionSet("judgements", [Passage(id_, id_) for id_ in passages], questions)  # type: ignore[arg-type]
