"""Warnings about the rankings of a retriever, in English, for the command line, the Python API and exports."""

from collections.abc import Mapping
from typing import Any


def result_warnings(name: str, notes: Mapping[str, Any]) -> list[str]:
    """Return what was noticed in the results of a retriever from outside or of an imported run; see `Result.notes`."""
    warnings = []
    if count := notes.get("unknown_passages"):
        example = f", such as {notes['unknown_example']!r}" if notes.get("unknown_example") else ""
        warnings.append(f"{name}: {count:,} results name passages that are not in the dataset{example}; skipped.")
    if count := notes.get("repeated"):
        warnings.append(f"{name}: {count:,} results repeat a passage; each passage counts once, with its best score.")
    if count := notes.get("rising_scores"):
        reason = "as with distances; a higher score counts as better"
        warnings.append(f"{name}: for {count:,} questions the first result has the lowest score, {reason}.")
    return warnings


def depth_warning(name: str, depth: int, needed: int) -> str:
    """Return that the rankings of a retriever end at `depth`, before the metrics, which look at `needed`."""
    return (
        f"{name} has at most {depth:,} passages per question, so metrics that look deeper have no value. "
        f"All metrics need {needed:,} passages per question."
    )
