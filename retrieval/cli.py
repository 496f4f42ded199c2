"""Commands of comparisons: `mrc compare`, `tune`, `list`, `show`, `report`, `export`, `rename` and `delete`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import tomli_w
from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, ExitStatus, stop_message
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import find
from mrc_workbench.data.terminal import end_progress_line, format_table, print_line, report_progress
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import error_message
from mrc_workbench.retrieval.analysis import labs
from mrc_workbench.retrieval.analysis.evidence import displayed_measures, label
from mrc_workbench.retrieval.analysis.open_comparison import QualityGate
from mrc_workbench.retrieval.comparison import store
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError, make_storable, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, LateSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.export.fusion import MEASURE, ExportTarget
from mrc_workbench.retrieval.measures import measure_names
from mrc_workbench.retrieval.significance import question_groups

ReportLanguage = Annotated[Literal["en", "ko"], Parameter(help="language of the report")]
_STOPPED_MESSAGE = "Stopped. Finished work is stored in the workspace: run the same command again to continue."
Key = Annotated[str, Parameter(help="key of a stored comparison, its experiment file, or a folder of compare --out")]
_NO_COMPARISONS = "No comparisons yet: `mrc compare EXPERIMENT.toml` runs and stores one."
_SETTING_COLUMNS = ("name", "analyzer", "k1", "b", "layers", "value", "low", "high")
_PRINTED_SETTINGS = 10


def compare_command(
    experiment: Annotated[Path, Parameter(help="experiment file (TOML)")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="folder for metrics, report, TREC and BEIR files")] = None,
    language: ReportLanguage = "en",
    at_least: tuple[str, ...] = (),
    not_below: str = "",
    metric: str = "ndcg@10",
) -> int:
    """Run an experiment file and store the comparison.

    The status is 1 if a retriever fails, or a gate of --at-least or --not-below is not reached.

    Parameters
    ----------
    at_least
        values to reach: ndcg@10=.95 by the best retriever, Hybrid:ndcg@10=.95 by this one
    not_below
        key of a stored comparison, or an earlier --out: none of its retrievers may be significantly worse now
    metric
        metric of --not-below
    """
    parsed = read_experiment(experiment)
    base = experiment.parent
    question_set = find(parsed.data, base)
    gate = QualityGate.of(parsed, question_set, at_least, not_below, metric)  # before hours of work
    with stop_message(_STOPPED_MESSAGE):
        comparison = _compare(make_storable(parsed, question_set, base), question_set, base)
        origin = provenance(comparison, question_set, base)
        print_line(format_comparison(comparison))  # before storing: a full disk loses no metrics
        print_split(comparison)
        try:
            job = store.store_comparison(comparison, question_set, origin, parsed.data)
        except OSError as error:  # a read-only workspace
            print_line(f"not stored in the workspace: {error_message(error)}", error=True)
        else:
            print_line(f"stored as {job.id}")
        status = print_failures(comparison, gate)
        if out:
            from mrc_workbench.retrieval.report.exports import save  # imports a slow library

            save(comparison, out, origin, language)
    return status


def _compare(experiment: Experiment, question_set: QuestionSet, base: Path) -> Comparison:
    report_progress("", 0.0)
    comparison = compare(experiment, question_set, base=base, on_progress=report_progress)
    end_progress_line()
    return comparison


def print_failures(comparison: Comparison, gate: QualityGate | None = None) -> int:
    """Print the failed retrievers and the verdicts of a gate; return the exit status."""
    for result in comparison.results:
        if result.error:
            print_line(f"{result.name} failed: {result.error_message}", error=True)
    has_failed = any(result.error for result in comparison.results)
    for verdict in gate.check(comparison) if gate else ():
        print_line(verdict.message, error=not verdict.is_met)
        has_failed = has_failed or not verdict.is_met
    return ExitStatus.FAILED if has_failed else ExitStatus.DONE


def print_split(comparison: Comparison) -> None:
    """Print the compared part of the dataset, and warnings such as too few questions."""
    part = comparison.experiment.split
    if comparison.split and part is not Part.ALL:
        print_line(f"{part} part; split {comparison.split.description}")
    for warning in comparison.warnings:
        print_line(f"Warning: {warning}", error=True)


def format_comparison(comparison: Comparison) -> str:
    """Return the means in percent as lines of text."""
    measures = displayed_measures(comparison)
    question_set = comparison.question_set
    rows = []
    for result in comparison.results:
        means = result.scores.means() if result.scores else {}
        missing = "-" if means else "failed"
        cells = [f"{100 * means[measure]:.2f}" if measure in means else missing for measure in measures]
        rows.append((result.name, cells))
    counts = f"{len(question_set.questions):,} questions, {len(question_set.passages):,} passages, in percent"
    return "\n".join([counts, *format_table(map(label, measures), rows, 8)])


def list_command(*, as_json: AsJson = False) -> int:
    """List the stored comparisons, the newest first."""
    comparisons = store.list_comparisons()
    for key in store.damaged_comparisons():
        print_line(f"{key} cannot be read: it is damaged, or of another version", error=True)
    if as_json:
        content = [asdict(comparison) | {"folder": str(comparison.folder)} for comparison in comparisons]
        print_line(json.dumps(content, ensure_ascii=False, indent=2))
        return 0
    if not comparisons:
        print_line(_NO_COMPARISONS, error=True)
    for comparison in comparisons:
        names = ", ".join(" ".join(name.split()) for name in comparison.retrievers)
        title = f"{comparison.key}  {comparison.created_at[:16]}  {comparison.name or comparison.data}"
        print_line(f"{title} ({comparison.part}, {comparison.questions:,} questions): {names}")
    return 0


def show_command(key: Key, /, *, as_json: AsJson = False) -> int:
    """Show the metrics of a stored comparison."""
    _, comparison = _load_stored(key)
    if as_json:
        print_line(json.dumps(store.scores_content(comparison), ensure_ascii=False, indent=2))
        return 0
    print_line(format_comparison(comparison))
    print_split(comparison)
    return 0


def _load_stored(key: str) -> tuple[Path, Comparison]:
    stored = store.find_comparison(key)
    return stored.folder, store.load(stored.folder, find(stored.reference, stored.folder))


def report_command(
    key: Key,
    /,
    *,
    out: Annotated[Path, Parameter(help="folder for metrics, report, TREC and BEIR files")],
    language: ReportLanguage = "en",
) -> int:
    """Write a report with metrics, tests and TREC files."""
    from mrc_workbench.retrieval.report.exports import save

    folder, comparison = _load_stored(key)
    save(comparison, out, store.read_provenance(folder), language)
    print_line(f"written to {out}")
    return 0


def export_command(
    key: Key,
    retriever: Annotated[str, Parameter(help="name of the retriever in the comparison")],
    /,
    *,
    engine: Annotated[ExportTarget, Parameter("--to", help="search engine or library")],
    out: Annotated[Path, Parameter(help="folder to write; an earlier one is replaced")],
) -> int:
    """Export a retriever to a search engine or library.

    Writes a folder that loads and searches the passages there, and prints how much the metric changes.
    """
    from mrc_workbench.retrieval.export.folder import ExportRequest, export_stored

    stored = store.find_comparison(key)
    with stop_message("Stopped. Nothing was written; finished work is stored in the workspace."):
        exported = export_stored(stored, ExportRequest(stored.key, retriever, engine), out, report_progress)
    end_progress_line()
    rows = []
    for metric in exported.metrics:
        difference = metric.engine_score - metric.workbench_score
        cells = [f"{100 * value:+.2f}" for value in (difference, metric.low, metric.high)]
        rows.append((metric.engine.value, [f"{100 * metric.engine_score:.2f}", *cells]))
    print_line("in percent; the last two columns are the 95% interval of the difference")
    print_line("\n".join(format_table([label(MEASURE), "difference", "low", "high"], rows, 10)))
    print_line(f"written to {out}")
    return 0


def rename_command(key: Key, name: Annotated[str, Parameter(help="new name")], /) -> int:
    """Rename a stored comparison."""
    stored_key = store.find_stored_comparison(key).key
    store.rename(stored_key, name)
    print_line(f"renamed {stored_key}")
    return 0


def delete_command(key: Key, /) -> int:
    """Delete a stored comparison."""
    stored_key = store.find_stored_comparison(key).key
    store.delete(stored_key)
    print_line(f"deleted {stored_key}")
    return 0


def tune_command(
    experiment: Annotated[Path, Parameter(help="experiment file (TOML)")],
    retriever: Annotated[str, Parameter(help="name of a BM25 or of late interaction in the experiment")],
    /,
    *,
    k1: Annotated[tuple[float, ...], Parameter(help="values of k1, 0 to 10")] = labs.K1S,
    b: Annotated[tuple[float, ...], Parameter(help="values of b, 0 to 1")] = labs.BS,
    analyzer: Annotated[tuple[Analyzer, ...], Parameter(help="analyzers to try; by default that of the BM25")] = (),
    metric: Annotated[str, Parameter(help="metric that selects the best setting")] = "ndcg@10",
    add: Annotated[bool, Parameter(negative="", help="add the best setting to the experiment file")] = False,
    as_json: AsJson = False,
) -> int:
    """Tune a retriever of an experiment on validation data.

    Prints the cross-validated gain of the best setting. Tunes k1 and b of a BM25, or the layers of late interaction.
    """
    parsed = read_experiment(experiment)
    tuning = _tuning_experiment(parsed, retriever, analyzer, (k1, b), metric)
    question_set = find(parsed.data, experiment.parent)
    with stop_message(_STOPPED_MESSAGE):
        comparison = _compare(tuning, question_set, experiment.parent)
    groups = question_groups(comparison.question_set)
    scores = labs.lab_results(comparison, metric, groups)
    if scores.empty:
        raise ValueError(f"no setting has a value of {metric}")
    fit = labs.cross_fit(comparison, scores, retriever, metric, groups)
    best_setting = labs.best_setting_name(scores)
    spec = labs.selected_spec(tuning, best_setting)
    if as_json:
        content = {
            "measure": metric,
            "questions": len(comparison.question_set.questions),
            "settings": scores.filter(_SETTING_COLUMNS).to_dict("records"),
            "best": best_setting,
            "cross_validated": None if fit is None else {**asdict(fit.test), "selections": dict(fit.selections)},
            "retriever": spec.model_dump(mode="json", exclude_none=True),
        }
        print_line(json.dumps(content, ensure_ascii=False, indent=2))
    else:
        settings = _settings_table(comparison.question_set, scores, metric)
        summary = _summary_lines(fit, best_setting, retriever, metric)
        print_line("\n".join([*settings, "", *summary, "", _toml(spec)]).rstrip())
    if add:
        if spec.name in parsed.specs:
            raise ExperimentError(f"{experiment.name} has a retriever named {spec.name!r} already")
        with experiment.open("a", encoding="utf-8") as file:
            file.write(f"\n{_toml(spec)}")
        print_line(f"added to {experiment}")
    return 0


def _tuning_experiment(
    experiment: Experiment,
    retriever: str,
    analyzers: Sequence[Analyzer],
    values: tuple[Sequence[float], Sequence[float]],
    metric: str,
) -> Experiment:
    spec = experiment.specs.get(retriever)
    if not isinstance(spec, BM25Spec | WindowedBM25Spec | LateSpec):
        names = [other.name for other in experiment.retriever if isinstance(other, BM25Spec | WindowedBM25Spec)]
        raise ExperimentError(f"{retriever!r} is no BM25 of the experiment; its BM25s are {names}")
    if metric not in (known := measure_names(experiment.ks)):
        raise ValueError(f"--metric {metric!r} is no metric of the experiment: {', '.join(known)}")
    if isinstance(spec, LateSpec):
        return labs.layers_lab(experiment, retriever)
    k1s = labs.parse_numbers(" ".join(map(repr, values[0])), maximum=10.0)
    bs = labs.parse_numbers(" ".join(map(repr, values[1])), maximum=1.0)
    analyzers = analyzers or [spec.analyzer]
    return labs.bm25_lab(experiment, retriever, analyzers, sentences=[spec.sentences], k1s=k1s, bs=bs)


def _settings_table(question_set: QuestionSet, scores: pd.DataFrame, metric: str) -> list[str]:
    rows = scores.sort_values("value", ascending=False, kind="stable").head(_PRINTED_SETTINGS)
    columns = ["value", "low", "high"]
    cells = [(str(row["name"]), [f"{100 * row[column]:.2f}" for column in columns]) for _, row in rows.iterrows()]
    header = f"{len(question_set.questions):,} validation questions, {len(scores)} settings, in percent"
    return [header, *format_table([label(metric), "low", "high"], cells, 8)]


def _summary_lines(fit: labs.CrossFit | None, best_setting: str, baseline: str, metric: str) -> list[str]:
    if fit is None:
        return [f"Best: {best_setting}. The gain over {baseline} cannot be cross-validated."]
    test = fit.test
    points, low, high = (f"{100 * value:+.2f}" for value in (test.difference, test.low, test.high))
    gain = f"{points} points of {label(metric)} over {baseline} (95% {low} to {high}, p = {test.p:.2g})"
    direction = "significantly better" if test.difference > 0 else "significantly worse"
    return [
        f"Best: {best_setting}, selected in {fit.selections.get(best_setting, 0)} of {fit.folds} folds.",
        f"Cross-validated gain of the best setting: {gain}: {direction if test.is_significant else 'not significant'}.",
    ]


def _toml(spec: Spec) -> str:
    return tomli_w.dumps({"retriever": [spec.model_dump(mode="json", exclude_none=True)]}, multiline_strings=False)
