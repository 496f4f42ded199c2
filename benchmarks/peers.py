"""Ours against what others would use, on the same data and machine, in turns: the lines of `results.json`.

What was measured is put where it is read: between two marks of README.md or of a page of docs.
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
_ELSEWHERE = "BM25 "  # so begin the names of what has a table of its own


@dataclass(frozen=True)
class Measured:
    """One comparison. `ours` and `theirs` are in `unit`; `ratio` is how many times better ours is (seconds and bytes:
    theirs / ours; a rate: ours / theirs), the median over the rounds, and `spread` its lowest and highest.

    Where the peer cannot do it, or there is none, `theirs`, `ratio` and `spread` are None and `note` says why.
    """

    name: str  # what is done: "BM25 search"
    peer: str  # who else does it: "rank-bm25 0.2.2"
    size: str  # of what: "100,000 passages"
    ours: float
    theirs: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    unit: str = "seconds"
    wanted: float | None = None  # the ratio it should reach
    note: str = ""


def in_turns(
    name: str,
    peer: str,
    size: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int = 3,
    wanted: float | None = None,
    note: str = "",
) -> Measured:
    """Time both in turns, after one round that is not counted."""
    seconds = all_in_turns([ours, theirs], rounds)
    return of_rounds(name, peer, size, [(one, other) for one, other in seconds], wanted=wanted, note=note)


def all_in_turns(works: Sequence[Callable[[], object]], rounds: int = 3) -> list[list[float]]:
    """Time each work once a round; returns the seconds of each round, after one that is not counted."""
    return [[_seconds(work) for work in works] for _ in range(rounds + 1)][1:]


def of_rounds(
    name: str,
    peer: str,
    size: str,
    seconds: list[tuple[float, float]],
    *,
    wanted: float | None = None,
    note: str = "",
    unit: str = "seconds",
) -> Measured:
    """Make one of what was measured, `(ours, theirs)` a round, where less is better."""
    ratios = [theirs / ours for ours, theirs in seconds]
    ours, theirs = (median(column) for column in zip(*seconds, strict=True))
    spread = (min(ratios), max(ratios))
    return Measured(name, peer, size, ours, theirs, median(ratios), spread, unit=unit, wanted=wanted, note=note)


def keep(measured: list[Measured], path: Path = RESULTS) -> None:
    """Write the lines into `results.json` in place of those of the same name, peer and size."""
    lines = {(one.name, one.peer, one.size): asdict(one) for one in [*kept(path), *measured]}
    path.write_text(json.dumps(list(lines.values()), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def kept(path: Path = RESULTS) -> list[Measured]:
    """Return all that `results.json` holds."""
    return [Measured(**one) for one in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def table(path: Path = RESULTS) -> list[str]:
    """Return a table of what `results.json` holds and no table of its own tells."""
    lines = ["| | against | of | ours | theirs | times better | |", "|---|---|---|---:|---:|---:|---|"]
    for one in _in_order(json.loads(path.read_text(encoding="utf-8"))):
        if not one["wanted"] and one["name"].startswith(_ELSEWHERE):
            continue
        theirs = shown(one["theirs"], one["unit"]) if one["theirs"] is not None else "–"
        ratio = "–"
        if one["ratio"] is not None:
            low, high = (short(end) for end in one["spread"])
            ratio = f"**{short(one['ratio'])}** ({low} to {high})"
        said = "; ".join(part for part in (_bound(one), one["note"]) if part)
        cells = (one["name"], one["peer"] or "–", one["size"], shown(one["ours"], one["unit"]), theirs, ratio, said)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _in_order(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is done as it came, and of the same against the same peer the smaller size first."""
    names = list(dict.fromkeys(one["name"] for one in lines))
    numbers = [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", one["size"])] for one in lines]
    keys = [
        (names.index(one["name"]), one["peer"], sorted(found)[::-1]) for one, found in zip(lines, numbers, strict=True)
    ]
    return [lines[place] for place in sorted(range(len(lines)), key=keys.__getitem__)]


def _bound(one: dict[str, Any]) -> str:
    if not one["wanted"]:
        return ""
    return f"wanted {one['wanted']:g}" + ("" if one["ratio"] >= one["wanted"] else ", **missed**")


def shown(value: float, unit: str) -> str:
    """Return a number as the tables have it, with its unit."""
    if unit == "seconds":
        return f"{short(value)} s" if value >= 0.1 else f"{value * 1000:.3g} ms"
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{short(value)} {unit}"


def short(value: float) -> str:
    """Return a number as the tables have it."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = perf_counter()
    work()
    return perf_counter() - start


def put(name: str, lines: list[str]) -> None:
    """Replace what stands between the marks `<!-- bench: NAME -->` and `<!-- /bench -->`; without marks, do nothing."""
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        before, mark, rest = text.partition(f"<!-- bench: {name} -->\n")
        if mark:
            after = rest[rest.index("<!-- /bench -->") :]
            page.write_text(before + mark + "\n".join(lines) + "\n" + after, encoding="utf-8")
