"""`mrc compare EXPERIMENT.toml --out DIR`: an experiment run, printed, stored and checked by a gate."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mrc_workbench.data.commands import ExitStatus, stop_message
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import find
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import error_message
from mrc_workbench.retrieval.analysis.evidence import label, shown_measures
from mrc_workbench.retrieval.analysis.open_comparison import Gate
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import read_experiment
from mrc_workbench.retrieval.comparison.references import storable, store_comparison
from mrc_workbench.retrieval.comparison.store import provenance

ReportLanguage = Annotated[Literal["en", "ko"], Parameter(help="language of the report")]
_CONTINUES = "Stopped. Finished work is kept in the workspace: run the same command again to continue."


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
        _store(comparison, found, origin, asked.data)
        status = report_failures(comparison, gate)
        if out:
            # draws with a library that a page's job does not wait for
            from mrc_workbench.retrieval.report.exports import save

            save(comparison, out, origin, language)
    return status


def _store(comparison: Comparison, question_set: QuestionSet, origin: dict[str, Any], source: str) -> None:
    """Store a comparison in the workspace as the page does, and print its key; say so if the workspace is read-only."""
    try:
        job = store_comparison(comparison, question_set, origin, source)
    except OSError as error:
        tell(f"not stored in the workspace: {error_message(error)}", error=True)
    else:
        tell(f"stored as {job.id}")


def report_failures(comparison: Comparison, gate: Gate | None = None) -> int:
    """Print which retrievers failed, and what a gate says; returns the exit status."""
    for result in comparison.results:
        if result.error:
            tell(f"{result.name} failed: {result.error_message}", error=True)
    verdicts = [*gate.verdicts(comparison)] if gate else []
    for verdict in verdicts:
        tell(verdict.said, error=not verdict.holds)
    has_failed = any(result.error for result in comparison.results) or not all(verdict.holds for verdict in verdicts)
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
