"""`mrc list`, `show`, `report`, `export`, `rename` and `delete`: what is done with stored comparisons."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, stop_message
from mrc_workbench.data.store import find
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.retrieval.analysis.evidence import label
from mrc_workbench.retrieval.cli import ReportLanguage, table, tell_split
from mrc_workbench.retrieval.comparison.references import find_comparison, find_stored
from mrc_workbench.retrieval.comparison.store import (
    damaged_comparisons,
    delete,
    kept_comparisons,
    load,
    origin_of,
    rename,
    scores_content,
)
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, Engine

Key = Annotated[str, Parameter(help="key of a stored comparison, its experiment file, or a folder of compare --out")]
_NONE_YET = "No comparisons yet: `mrc compare EXPERIMENT.toml` runs and stores one."


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
    kept = find_comparison(key)
    comparison = load(kept.folder, find(kept.reference, kept.folder))
    if as_json:
        tell(json.dumps(scores_content(comparison), ensure_ascii=False, indent=2))
        return 0
    tell(table(comparison))
    tell_split(comparison)
    return 0


def report_command(
    key: Key,
    /,
    *,
    out: Annotated[Path, Parameter(help="folder for metrics, report, TREC and BEIR files")],
    language: ReportLanguage = "en",
) -> int:
    """Write a report with metrics, tests and TREC files."""
    from mrc_workbench.retrieval.report.exports import save

    kept = find_comparison(key)
    comparison = load(kept.folder, find(kept.reference, kept.folder))
    save(comparison, out, origin_of(kept.folder), language)
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
