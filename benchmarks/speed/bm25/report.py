"""What was measured of BM25, as lines and as a table."""

import re
from collections.abc import Sequence
from typing import Any

from benchmarks.peers import Measured, of_rounds, shown

NAME = "BM25 "  # so begin the names of all lines
OURS = "ours"


def of_building(built: Sequence[dict[str, Any]], opened: Sequence[Sequence[float]], n_passages: int) -> list[Measured]:
    """Hold our building, memory, size and opening, which come first, against those of each other engine."""
    ours, (first, again) = built[0], opened[0]
    size, lines = f"{n_passages:,} passages", []
    for other, (their_first, their_again) in zip(built[1:], opened[1:], strict=True):
        pairs = (
            ("BM25 build, with saving", (ours["seconds"], other["seconds"]), "seconds"),
            ("BM25 build, peak memory", (ours["memory"] / 2**20, other["memory"] / 2**20), "MiB"),
            ("BM25 index on disk", (ours["disk"] / 2**20, other["disk"] / 2**20), "MiB"),
            ("BM25 opened and asked once, new process", (first, their_first), "seconds"),
            ("BM25 opened and asked once, again", (again, their_again), "seconds"),
        )
        lines += [of_rounds(name, other["engine"], size, [pair], unit=unit) for name, pair, unit in pairs]
    return lines


def table(lines: Sequence[Measured]) -> list[str]:
    """Return a row for what was done and a column for who did it; in brackets, how many times better ours is,
    and the lowest and highest over the rounds where there were several."""
    peers = list(dict.fromkeys(one.peer for one in lines))
    rows: dict[tuple[str, str], dict[str, Measured]] = {}
    for one in lines:
        rows.setdefault((one.name, one.size), {})[one.peer] = one
    told = [f"| | of | {OURS} | {' | '.join(peers)} |", f"|---|---|{'---:|' * (len(peers) + 1)}"]
    for (name, size), of_peer in sorted(rows.items(), key=lambda row: (_order(lines, row[0]), passages_of(row[0][1]))):
        ours = next(iter(of_peer.values()))
        cells = (_cell(of_peer.get(peer)) for peer in peers)
        told.append(f"| {name.removeprefix(NAME)} | {size} | {shown(ours.ours, ours.unit)} | {' | '.join(cells)} |")
    return told


def _cell(one: Measured | None) -> str:
    if one is None or one.theirs is None or one.ratio is None:
        return "–"
    low, high = one.spread or (one.ratio, one.ratio)
    spread = f", {low:.3g} to {high:.3g}" if low < high else ""
    return f"{shown(one.theirs, one.unit)} ({one.ratio:.3g}{spread})"


def _order(lines: Sequence[Measured], row: tuple[str, str]) -> int:
    """What was done first comes first, whatever its size."""
    kinds = list(dict.fromkeys((one.name, _what(one.size)) for one in lines))
    return kinds.index((row[0], _what(row[1])))


def _what(size: str) -> str:
    return size.rpartition(", ")[0]


def passages_of(size: str) -> int:
    """Return the number of passages that a line's `size` tells."""
    return int(re.findall(r"([\d,]+) passages", size)[0].replace(",", ""))
