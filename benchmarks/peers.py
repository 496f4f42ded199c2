"""Comparisons with other tools, timed alternately on the same data and machine, and stored in `results.json`.

`replace_section` writes a result between two comments of a page of `docs/`.
"""

import gc
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from mrc_workbench.data.workspace import PROJECT

RESULTS = Path(__file__).parent / "results.json"
_SEPARATE_TABLE_PREFIX = "BM25 "  # of results that have a separate table


@dataclass(frozen=True)
class PeerResult:
    """One comparison; `ours` and `theirs` are in `unit`.

    `ratio` is the median over the rounds of theirs / ours, above 1 if ours is better; `spread` is its range. If there
    is no peer, `theirs`, `ratio` and `spread` are None.
    """

    name: str  # "BM25 search"
    peer: str  # "rank-bm25 0.2.2"
    size: str  # of the workload: "100,000 passages"
    ours: float
    theirs: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    unit: str = "seconds"
    target: float | None = None  # of the ratio
    note: str = ""


def compare_alternately(
    name: str,
    peer: str,
    size: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int = 3,
    target: float | None = None,
    note: str = "",
) -> PeerResult:
    """Time both alternately, after a warm-up round."""
    seconds = [
        (ours_seconds, theirs_seconds) for ours_seconds, theirs_seconds in time_alternately([ours, theirs], rounds)
    ]
    return summarize_rounds(name, peer, size, seconds, target=target, note=note)


def time_alternately(works: Sequence[Callable[[], object]], rounds: int = 3) -> list[list[float]]:
    """Time each work once per round, after a warm-up round; returns the seconds by round and work."""
    return [[_seconds(work) for work in works] for _ in range(rounds + 1)][1:]


def summarize_rounds(
    name: str,
    peer: str,
    size: str,
    seconds: list[tuple[float, float]],
    *,
    target: float | None = None,
    note: str = "",
    unit: str = "seconds",
) -> PeerResult:
    """Summarize rounds of `(ours, theirs)`; lower is better."""
    ratios = [theirs / ours for ours, theirs in seconds]
    ours, theirs = (median(column) for column in zip(*seconds, strict=True))
    spread = (min(ratios), max(ratios))
    return PeerResult(name, peer, size, ours, theirs, median(ratios), spread, unit=unit, target=target, note=note)


def save_results(results: list[PeerResult], path: Path = RESULTS) -> None:
    """Write results into `results.json`; they replace those with the same name, peer and size."""
    lines = {(result.name, result.peer, result.size): asdict(result) for result in [*load_results(path), *results]}
    path.write_text(json.dumps(list(lines.values()), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load_results(path: Path = RESULTS) -> list[PeerResult]:
    """Return the results of `results.json`."""
    return [PeerResult(**line) for line in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def table(path: Path = RESULTS) -> list[str]:
    """Return a table of the results that have no separate table."""
    lines = ["| | compared with | workload | ours | theirs | times better | |", "|---|---|---|---:|---:|---:|---|"]
    for line in _sort_lines(json.loads(path.read_text(encoding="utf-8"))):
        if not line["target"] and line["name"].startswith(_SEPARATE_TABLE_PREFIX):
            continue
        theirs = format_value(line["theirs"], line["unit"]) if line["theirs"] is not None else "–"
        ratio = "–"
        if line["ratio"] is not None:
            low, high = (format_number(end) for end in line["spread"])
            ratio = f"**{format_number(line['ratio'])}** ({low} to {high})"
        remarks = "; ".join(part for part in (_format_target(line), line["note"]) if part)
        cells = (
            line["name"],
            line["peer"] or "–",
            line["size"],
            format_value(line["ours"], line["unit"]),
            theirs,
            ratio,
            remarks,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _sort_lines(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort by task in order of first appearance, then by peer, then by size."""
    names = list(dict.fromkeys(line["name"] for line in lines))
    numbers = [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", line["size"])] for line in lines]
    keys = [
        (names.index(line["name"]), line["peer"], sorted(line_numbers)[::-1])
        for line, line_numbers in zip(lines, numbers, strict=True)
    ]
    return [lines[index] for index in sorted(range(len(lines)), key=keys.__getitem__)]


def _format_target(line: dict[str, Any]) -> str:
    if not line["target"]:
        return ""
    return f"target {line['target']:g}" + ("" if line["ratio"] >= line["target"] else ", **missed**")


def format_value(value: float, unit: str) -> str:
    """Format a number and its unit for a table."""
    if unit == "seconds":
        return f"{format_number(value)} s" if value >= 0.1 else f"{value * 1000:.3g} ms"
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{format_number(value)} {unit}"


def format_number(value: float) -> str:
    """Format a number for a table."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    return measure_seconds(work)


def measure_seconds(work: Callable[[], object]) -> float:
    """Call `work`; returns the seconds."""
    start = perf_counter()
    work()
    return perf_counter() - start


def replace_section(name: str, lines: list[str]) -> None:
    """Replace the text between `<!-- bench: NAME -->` and `<!-- /bench -->` in the page of `docs/` that contains it."""
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        before, mark, rest = text.partition(f"<!-- bench: {name} -->\n")
        if mark:
            after = rest[rest.index("<!-- /bench -->") :]
            page.write_text(before + mark + "\n".join(lines) + "\n" + after, encoding="utf-8")
