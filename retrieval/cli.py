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
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import error_message
from mrc_workbench.retrieval.analysis.evidence import label, shown_measures
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
from mrc_workbench.retrieval.analysis.open_comparison import Gate
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError, read_experiment, storable
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, LateSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import (
    damaged_comparisons,
    delete,
    find_comparison,
    find_stored,
    kept_comparisons,
    load,
    origin_of,
    rename,
    scores_content,
    store_comparison,
)
from mrc_workbench.retrieval.measures import measures
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, Engine

ReportLanguage = Annotated[Literal["en", "ko"], Parameter(help="language of the report")]
_CONTINUES = "Stopped. Finished work is kept in the workspace: run the same command again to continue."
Key = Annotated[str, Parameter(help="key of a stored comparison, its experiment file, or a folder of compare --out")]
_NONE_YET = "No comparisons yet: `mrc compare EXPERIMENT.toml` runs and stores one."
_SETTING_COLUMNS = ("name", "analyzer", "k1", "b", "layers", "value", "low", "high")
_SHOWN = 10  # settings of the table that is printed
_SEARCHES_CONTINUE = "Stopped. Finished searches are kept in the workspace: run the same command again to continue."


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
    asked, base = read_experiment(experiment), experiment.parent
    found = find(asked.data, base)
    gate = Gate.of(asked, found, at_least, not_below, metric)  # before hours of work
    with stop_message(_CONTINUES):
        report_progress("", 0.0)
        comparison = compare(storable(asked, found, base), found, base=base, on_progress=report_progress)
        end_progress_line()
        origin = provenance(comparison, found, base)
        tell(table(comparison))  # first: a full disk takes no figures away
        tell_split(comparison)
        try:
            job = store_comparison(comparison, found, origin, asked.data)
        except OSError as error:  # a read-only workspace
            tell(f"not stored in the workspace: {error_message(error)}", error=True)
        else:
            tell(f"stored as {job.id}")
        status = report_failures(comparison, gate)
        if out:
            # draws with a library that a page's job does not wait for
            from mrc_workbench.retrieval.report.exports import save

            save(comparison, out, origin, language)
    return status


def report_failures(comparison: Comparison, gate: Gate | None = None) -> int:
    """Print which retrievers failed, and what a gate says; returns the exit status."""
    for result in comparison.results:
        if result.error:
            tell(f"{result.name} failed: {result.error_message}", error=True)
    has_failed = any(result.error for result in comparison.results)
    for verdict in gate.verdicts(comparison) if gate else ():
        tell(verdict.said, error=not verdict.holds)
        has_failed = has_failed or not verdict.holds
    return ExitStatus.FAILED if has_failed else ExitStatus.DONE


def tell_split(comparison: Comparison) -> None:
    """Print how the part that is compared came about, and warn of too few questions."""
    part = comparison.experiment.split
    if comparison.parts and part is not Part.ALL:
        tell(f"{part} part; split {comparison.parts.description}")
    for warning in comparison.warnings:
        tell(f"Warning: {warning}", error=True)


def table(comparison: Comparison) -> str:
    """Return the means in percent as lines of text."""
    measures, of = shown_measures(comparison), comparison.question_set
    rows = []
    for result in comparison.results:
        means = result.scores.means() if result.scores else {}
        missing = "-" if means else "failed"
        rows.append((result.name, [f"{100 * means[one]:.2f}" if one in means else missing for one in measures]))
    counts = f"{len(of.questions):,} questions, {len(of.passages):,} passages, in percent"
    return "\n".join([counts, *aligned(map(label, measures), rows, 8)])


def list_command(*, as_json: AsJson = False) -> int:
    """List the stored comparisons, the newest first."""
    kept = kept_comparisons()
    for key in damaged_comparisons():
        tell(f"{key} cannot be read: it is damaged, or of another version", error=True)
    if as_json:
        tell(json.dumps([asdict(one) | {"folder": str(one.folder)} for one in kept], ensure_ascii=False, indent=2))
        return 0
    if not kept:
        tell(_NONE_YET, error=True)
    for one in kept:
        names = ", ".join(" ".join(name.split()) for name in one.retrievers)
        tell(f"{one.key}  {one.made[:16]}  {one.name or one.data} ({one.part}, {one.questions:,} questions): {names}")
    return 0


def show_command(key: Key, /, *, as_json: AsJson = False) -> int:
    """Show the metrics of a stored comparison."""
    _, comparison = _opened(key)
    if as_json:
        tell(json.dumps(scores_content(comparison), ensure_ascii=False, indent=2))
        return 0
    tell(table(comparison))
    tell_split(comparison)
    return 0


def _opened(key: str) -> tuple[Path, Comparison]:
    stored = find_comparison(key)
    return stored.folder, load(stored.folder, find(stored.reference, stored.folder))


def report_command(
    key: Key,
    /,
    *,
    out: Annotated[Path, Parameter(help="folder for metrics, report, TREC and BEIR files")],
    language: ReportLanguage = "en",
) -> int:
    """Write a report with metrics, tests and TREC files."""
    from mrc_workbench.retrieval.report.exports import save

    folder, comparison = _opened(key)
    save(comparison, out, origin_of(folder), language)
    tell(f"written to {out}")
    return 0


def export_command(
    key: Key,
    retriever: Annotated[str, Parameter(help="name of the retriever in the comparison")],
    /,
    *,
    engine: Annotated[Engine, Parameter("--to", help="search engine or library")],
    out: Annotated[Path, Parameter(help="folder to write; an earlier one is replaced")],
) -> int:
    """Export a retriever to a search engine or library.

    Writes a folder that loads and searches the passages there, and prints how much the metric changes.
    """
    from mrc_workbench.retrieval.takeaway.folder import Wanted, taken_from

    kept = find_comparison(key)
    with stop_message("Stopped. Nothing was written; finished work is kept in the workspace."):
        taken = taken_from(kept, Wanted(kept.key, retriever, engine), out, report_progress)
    end_progress_line()
    rows = []
    for one in taken.figures:
        more = (f"{100 * value:+.2f}" for value in (one.there - one.here, one.low, one.high))
        rows.append((one.engine.value, [f"{100 * one.there:.2f}", *more]))
    tell("in percent; the last two columns are the 95% interval of the difference")
    tell("\n".join(aligned([label(MEASURE), "difference", "low", "high"], rows, 10)))
    tell(f"written to {out}")
    return 0


def rename_command(key: Key, name: Annotated[str, Parameter(help="new name")], /) -> int:
    """Rename a stored comparison."""
    found = find_stored(key)
    rename(found.key, name)
    tell(f"renamed {found.key}")
    return 0


def delete_command(key: Key, /) -> int:
    """Delete a stored comparison."""
    found = find_stored(key)
    delete(found.key)
    tell(f"deleted {found.key}")
    return 0


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
    with stop_message(_SEARCHES_CONTINUE):
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
        columns = [name for name in _SETTING_COLUMNS if name in figures]
        content = {
            "measure": metric,
            "questions": len(comparison.question_set.questions),
            "settings": figures[columns].to_dict("records"),
            "best": leader,
            "cross_validated": None if fit is None else {**asdict(fit.test), "selections": dict(fit.selections)},
            "retriever": spec.model_dump(mode="json", exclude_none=True),
        }
        tell(json.dumps(content, ensure_ascii=False, indent=2))
    else:
        settings = _settings_table(comparison.question_set, figures, metric)
        tell("\n".join([*settings, "", *_verdict(fit, leader, retriever, metric), "", _toml(spec)]).rstrip())
    if add:
        if spec.name in compared.specs:
            raise ExperimentError(f"{experiment.name} has a retriever named {spec.name!r} already")
        with experiment.open("a", encoding="utf-8") as file:
            file.write(f"\n{_toml(spec)}")
        tell(f"added to {experiment}")
    return 0


def _lab(
    compared: Experiment,
    retriever: str,
    analyzers: Sequence[Analyzer],
    values: tuple[Sequence[float], Sequence[float]],
    by: str,
) -> Experiment:
    spec = compared.specs.get(retriever)
    if not isinstance(spec, BM25Spec | WindowedBM25Spec | LateSpec):
        names = [one.name for one in compared.retriever if isinstance(one, BM25Spec | WindowedBM25Spec)]
        raise ExperimentError(f"{retriever!r} is no BM25 of the experiment, whose BM25s are {names}")
    if by not in measures(compared.ks):
        raise ValueError(f"--metric {by!r} is no metric of the experiment: {', '.join(measures(compared.ks))}")
    if isinstance(spec, LateSpec):
        return layers_lab(compared, retriever)
    k1s, bs = (numbers(" ".join(map(repr, given)), most=most) for given, most in zip(values, (10.0, 1.0), strict=True))
    analyzers = analyzers or [spec.analyzer]
    return bm25_lab(compared, retriever, analyzers, sentences=[spec.sentences], k1s=k1s, bs=bs)


def _settings_table(question_set: QuestionSet, figures: pd.DataFrame, by: str) -> list[str]:
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


def _toml(spec: Spec) -> str:
    return tomli_w.dumps({"retriever": [spec.model_dump(mode="json", exclude_none=True)]}, multiline_strings=False)
