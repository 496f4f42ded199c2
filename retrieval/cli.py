"""`mrc compare EXPERIMENT.toml --out DIR`, what is done with comparisons that are kept, `encode`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, run, stop_message
from mrc_workbench.data.jobs.detached import PROGRAM, handed_over
from mrc_workbench.data.jobs.folder import AskedToStop, GoesOn, Status
from mrc_workbench.data.jobs.work import carried_out_alone, progress_writer
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import CATALOG, find, read_entry
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import error_message
from mrc_workbench.retrieval.analysis.changes import Gate
from mrc_workbench.retrieval.analysis.evidence import label, shown_measures
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, search_light, ship, write_bases
from mrc_workbench.retrieval.comparison.experiment import read_experiment
from mrc_workbench.retrieval.comparison.pace import Pace
from mrc_workbench.retrieval.comparison.references import find_comparison, find_stored, storable, store_question_set
from mrc_workbench.retrieval.comparison.store import (
    ComparisonJob,
    damaged_comparisons,
    delete,
    keep,
    kept_comparisons,
    load,
    origin_of,
    provenance,
    rename,
)
from mrc_workbench.retrieval.encode import encode_command
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, Engine
from mrc_workbench.retrieval.tune import tune_command

commands = commands_of("retrieval", "Compare retrievers on a question set, and manage stored comparisons.")
Key = Annotated[str, Parameter(help="its key, as list shows it, its experiment file, or a folder of compare --out")]
Out = Annotated[Path, Parameter(help="folder for figures, report, TREC and BEIR files")]
ReportLanguage = Annotated[Literal["en", "ko"], Parameter(help="language of the report")]
_CONTINUES = "Stopped. Finished work is kept in the workspace: run the same command again to continue."
_NONE_YET = "No comparisons yet: `mrc compare EXPERIMENT.toml` runs and stores one."


def main(words: Sequence[str]) -> int:
    """Run the command; returns its exit status: 0, 1 where a retriever failed, 2 where nothing could be done."""
    return run(commands, words)


@commands.command(name="compare")
def compare_command(
    experiment: Path,
    /,
    *,
    out: Out | None = None,
    language: ReportLanguage = "en",
    at_least: tuple[str, ...] = (),
    not_below: str = "",
    by: str = "ndcg@10",
    tell_page: Annotated[bool, Parameter("--tell", negative="", show=False)] = False,
    rest: Annotated[bool, Parameter(negative="", show=False)] = False,
) -> int:
    """Run an experiment file, and store the comparison in the workspace.

    Parameters
    ----------
    experiment
        experiment file (TOML)
    at_least
        what must be reached, else the status is 1: ndcg@10=.95 by the best, Hybrid:ndcg@10=.95 by one retriever
    not_below
        a stored comparison (key, or folder of an earlier --out): the status is 1 if one of its retrievers is worse now
    by
        measure for --not-below
    tell_page
        only what the page needs, with the progress noted
    rest
        what needs no model was searched by another process
    """
    if tell_page and out:  # the page waits for no more than it needs, and makes the rest when it is asked for
        return _compare_for_the_page(experiment, out, rest=rest)
    asked, base = read_experiment(experiment), experiment.parent
    found = find(asked.data, base)
    gate = Gate.of(asked, found, at_least, not_below, by)  # before hours of work
    with stop_message(_CONTINUES):
        report_progress("", 0.0)
        comparison = compare(storable(asked, found, base), found, base=base, on_progress=report_progress)
        end_progress_line()
        origin = provenance(comparison, found, base)
        tell(table(comparison))  # first: a full disk takes no figures away
        tell_split(comparison)
        _store(comparison, found, origin, asked.data)
        status = _report(comparison, gate)
        if out:
            # draws with a library that a page's job does not wait for
            from mrc_workbench.retrieval.report.exports import save

            save(comparison, out, origin, language)
    return status


def _store(comparison: Comparison, question_set: QuestionSet, origin: dict[str, Any], source: str) -> None:
    """Store a comparison in the workspace as the page does, and print its key; say so if the workspace is read-only."""
    job = ComparisonJob.of(comparison.experiment, question_set.fingerprint)
    try:
        store_question_set(question_set, source)
        keep(comparison, job.folder, origin)
    except OSError as error:
        tell(f"not stored in the workspace: {error_message(error)}", error=True)
    else:
        tell(f"stored as {job.id}")


def _compare_for_the_page(experiment: Path, out: Path, *, rest: bool) -> int:
    """Compare as a job: what needs no model at once, the rest in a process that has read a model's libraries."""
    job, reported, is_left = ComparisonJob(out), 0, False
    least = job.status().seconds_left  # as told by the process that began

    def work(began: Status) -> None:
        nonlocal reported, is_left
        if job.asked_to_stop:  # while this process was being started
            raise AskedToStop
        pace = Pace(least)
        report = progress_writer(job, began, lambda: pace.seconds_left, lambda: pace.parts_left)
        report("", 0.0)
        asked, base = read_experiment(experiment), experiment.parent
        found = find(asked.data, base)
        if not rest:
            is_left = search_light(asked, found, base=base, on_progress=report, on_result=job.note, pace=pace)
            if is_left:
                raise GoesOn
        comparison = compare(asked, found, base=base, on_progress=report, on_result=job.note, pace=pace)
        tell(table(comparison))
        reported = _report(comparison)
        keep(comparison, out, provenance(comparison, found, base))

    status = carried_out_alone(job, work)
    if is_left and not job.asked_to_stop:
        words = ("compare", experiment, "--out", out, "--tell", "--rest")
        if process := handed_over(PROGRAM, "retrieval", *words, log=out / "log.txt"):
            write_bases(read_experiment(experiment))  # while that one reads its libraries
            process.wait()
            return 0 if job.done else 2
        return _compare_for_the_page(experiment, out, rest=True)  # nobody has read the libraries: they are read here
    return status or reported


def _report(comparison: Comparison, gate: Gate | None = None) -> int:
    """Print which retrievers failed, and what a gate says; returns the exit status."""
    for result in comparison.results:
        if result.error:
            tell(f"{result.name} failed: {result.error_message}", error=True)
    verdicts = [*gate.verdicts(comparison)] if gate else []
    for verdict in verdicts:
        tell(verdict.said, error=not verdict.holds)
    return int(any(result.error for result in comparison.results) or not all(verdict.holds for verdict in verdicts))


commands.command(tune_command, name="tune")
commands.command(encode_command, name="encode")


@commands.command(name="list")
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


@commands.command(name="ship", show=False)  # for maintainers: `make sample`
def ship_command() -> int:
    """Make again what comes with the sample: its tokens and vectors, after it, the analyzer or the base has changed."""
    ship(read_entry(CATALOG["sample"]).question_set)
    return 0


@commands.command(name="export")
def export_command(key: Key, /, *, out: Out, language: ReportLanguage = "en") -> int:
    """Write all files of a stored comparison."""
    from mrc_workbench.retrieval.report.exports import save

    kept = find_comparison(key)
    comparison = load(kept.folder, find(kept.reference, kept.folder))
    save(comparison, out, origin_of(kept.folder), language)
    tell(f"written to {out}")
    return 0


@commands.command(name="take-away")
def take_away_command(
    key: Key,
    retriever: Annotated[str, Parameter(help="its name in the comparison")],
    /,
    *,
    engine: Annotated[Engine, Parameter("--for", help="engine or library that searches there")],
    out: Annotated[Path, Parameter(help="folder to write; an earlier one is replaced")],
) -> int:
    """Write a retriever of a comparison as a folder with which an engine searches, and print what differs."""
    from mrc_workbench.retrieval.takeaway.job import Wanted, taken_from

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


@commands.command(name="take-away-job", show=False)
def take_away_job(folder: Path, /) -> int:
    """Do what the page asked for in a job's folder."""
    from mrc_workbench.retrieval.takeaway.job import carry_out_job

    return carry_out_job(folder)


@commands.command(name="rename")
def rename_command(key: Key, name: Annotated[str, Parameter(help="its new name")], /) -> int:
    """Rename a stored comparison."""
    rename(find_stored(key).key, name)
    return 0


@commands.command(name="delete")
def delete_command(key: Key, /) -> int:
    """Delete a stored comparison."""
    delete(find_stored(key).key)
    return 0


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
