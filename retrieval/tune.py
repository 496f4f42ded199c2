"""`mrc tune EXPERIMENT.toml RETRIEVER`: values selected on validation questions, cross-validated.

k1 and b of a BM25, or the layers of late interaction.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tomli_w
from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, stop_message
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis.evidence import label
from mrc_workbench.retrieval.analysis.labs import (
    BS,
    K1S,
    CrossFit,
    best,
    bm25_lab,
    chosen,
    cross_fit,
    lab_figures,
    layers_lab,
    numbers,
)
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, LateSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.evaluation.measures import measures
from mrc_workbench.retrieval.evaluation.significance import question_groups

_SHOWN = 10  # settings of the table that is printed
_CONTINUES = "Stopped. Finished searches are kept in the workspace: run the same command again to continue."


def tune_command(
    experiment: Annotated[Path, Parameter(help="experiment file (TOML)")],
    retriever: Annotated[str, Parameter(help="name of a BM25 or of late interaction in the experiment")],
    /,
    *,
    k1: tuple[float, ...] = K1S,
    b: tuple[float, ...] = BS,
    analyzer: Annotated[tuple[Analyzer, ...], Parameter(help="analyzers to try; by default that of the BM25")] = (),
    metric: str = "ndcg@10",
    add: Annotated[bool, Parameter(negative="", help="add the best setting to the experiment file")] = False,
    as_json: AsJson = False,
) -> int:
    """Tune a retriever of an experiment on validation data.

    Prints the cross-validated gain of the best setting. Tunes k1 and b of a BM25, or the layers of late interaction.

    Parameters
    ----------
    k1
        values of k1, 0 to 10
    b
        values of b, 0 to 1
    metric
        metric that selects the best setting
    """
    compared = read_experiment(experiment)
    lab = _lab(compared, retriever, analyzer, (k1, b), metric)
    question_set = find(compared.data, experiment.parent)
    with stop_message(_CONTINUES):
        report_progress("", 0.0)
        comparison = compare(lab, question_set, base=experiment.parent, on_progress=report_progress)
    end_progress_line()
    groups = question_groups(comparison.question_set)
    figures = lab_figures(comparison, metric, groups)
    if figures.empty:
        raise ValueError(f"no setting has a value of {metric}")
    fit = cross_fit(comparison, figures, retriever, metric, groups)
    leader = best(figures)
    spec = chosen(lab, leader)
    if as_json:
        tell(json.dumps(_as_json(comparison, figures, fit, spec, metric), ensure_ascii=False, indent=2))
    else:
        tell(
            "\n".join(
                [*_table(comparison.question_set, figures, metric), "", *_verdict(fit, leader, retriever, metric)]
            )
        )
        tell(f"\n{_toml(spec)}".rstrip())
    if add:
        _add(compared, experiment, spec)
    return 0


def _lab(
    compared: Experiment,
    retriever: str,
    analyzers: Sequence[Analyzer],
    values: tuple[Sequence[float], Sequence[float]],
    by: str,
) -> Experiment:
    """Return the laboratory of the page for these values. Raises `ValueError` if it cannot be made."""
    spec = compared.specs.get(retriever)
    if isinstance(spec, LateSpec):
        _require_measure(compared, by)
        return layers_lab(compared, retriever)
    if not isinstance(spec, BM25Spec | WindowedBM25Spec):
        names = [one.name for one in compared.retriever if isinstance(one, BM25Spec | WindowedBM25Spec)]
        raise ExperimentError(f"{retriever!r} is no BM25 of the experiment, whose BM25s are {names}")
    _require_measure(compared, by)
    k1s, bs = (numbers(" ".join(map(repr, given)), most=most) for given, most in zip(values, (10.0, 1.0), strict=True))
    analyzers = analyzers or [spec.analyzer]
    return bm25_lab(compared, retriever, analyzers, sentences=[spec.sentences], k1s=k1s, bs=bs)


def _require_measure(compared: Experiment, by: str) -> None:
    if by not in measures(compared.ks):
        raise ValueError(f"--metric {by!r} is no metric of the experiment: {', '.join(measures(compared.ks))}")


def _table(question_set: QuestionSet, figures: pd.DataFrame, by: str) -> list[str]:
    """Return the best settings as lines of text, in percent with 95% intervals."""
    rows = figures.sort_values("value", ascending=False, kind="stable").head(_SHOWN)
    cells = [
        (str(row["name"]), [f"{100 * row[column]:.2f}" for column in ("value", "low", "high")])
        for _, row in rows.iterrows()
    ]
    head = f"{len(question_set.questions):,} validation questions, {len(figures)} settings, in percent"
    return [head, *aligned([label(by), "low", "high"], cells, 8)]


def _verdict(fit: CrossFit | None, leader: str, present: str, by: str) -> list[str]:
    if fit is None:
        return [f"Best: {leader}. The gain over {present} cannot be cross-validated."]
    test = fit.test
    points, low, high = (f"{100 * value:+.2f}" for value in (test.difference, test.low, test.high))
    gain = f"{points} points of {label(by)} over {present} (95% {low} to {high}, p = {test.p:.2g})"
    sure = "significantly better" if test.difference > 0 else "significantly worse"
    return [
        f"Best: {leader}, selected in {fit.selections.get(leader, 0)} of {fit.folds} folds.",
        f"Cross-validated gain of the best setting: {gain}: {sure if test.sure else 'not significant'}.",
    ]


def _as_json(
    comparison: Comparison, figures: pd.DataFrame, fit: CrossFit | None, spec: Spec, by: str
) -> dict[str, Any]:
    names = ["name", "analyzer", "k1", "b", "layers", "value", "low", "high"]
    columns = [name for name in names if name in figures]
    return {
        "measure": by,
        "questions": len(comparison.question_set.questions),
        "settings": figures[columns].to_dict("records"),
        "best": best(figures),
        "cross_validated": None if fit is None else {**asdict(fit.test), "selections": dict(fit.selections)},
        "retriever": spec.model_dump(mode="json", exclude_none=True),
    }


def _toml(spec: Spec) -> str:
    """Return a retriever as the lines of an experiment file."""
    return tomli_w.dumps({"retriever": [spec.model_dump(mode="json", exclude_none=True)]}, multiline_strings=False)


def _add(compared: Experiment, path: Path, spec: Spec) -> None:
    """Append a retriever to an experiment file, whose other lines stay as they are. Raises `ExperimentError`."""
    if spec.name in compared.specs:
        raise ExperimentError(f"{path.name} has a retriever named {spec.name!r} already")
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{_toml(spec)}")
    tell(f"added to {path}")
