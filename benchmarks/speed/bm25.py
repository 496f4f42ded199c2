"""BM25 against bm25s, Tantivy and rank-bm25 on the same tokens, from a thousand to a million passages.

All score with the same k1 and b. One thread is held against one thread, and all cores against all cores.
`BENCH_PASSAGES` names other sizes ("1000 10000"). What is measured is kept in `results.json` and drawn in
`docs/bm25.svg`: how long a question takes as the passages grow, with one thread beside all cores."""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.peers import Measured, of_rounds, shown
from benchmarks.speed.bm25_search import PLAIN, Case, apart, engines_of
from mrc_workbench.data.workspace import PROJECT

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


PICTURE = PROJECT / "docs" / "bm25.svg"
_DECADES = [10.0**power for power in range(-4, 5)]  # milliseconds that are named


def draw(lines: Sequence[Measured], path: Path) -> None:
    """Draw milliseconds a question over passages, both axes logarithmic."""
    import altair as alt
    import vl_convert

    from mrc_workbench.retrieval.report.charts import PALETTE, SHAPES

    points = _points(lines)
    engines = list(points["engine"].unique())
    sizes = alt.Axis(format="~s", values=sorted({*points["passages"]}))
    x = alt.X("passages:Q", title="passages", scale=alt.Scale(type="log", nice=False), axis=sizes)
    milliseconds = alt.Axis(format="~g", values=_DECADES)
    y = alt.Y("milliseconds:Q", title="milliseconds a question", scale=alt.Scale(type="log"), axis=milliseconds)
    colours = alt.Scale(domain=engines, range=[PALETTE[place % len(PALETTE)] for place in range(len(engines))])
    marks = alt.Scale(domain=engines, range=[SHAPES[place % len(SHAPES)] for place in range(len(engines))])
    base = alt.Chart(points).encode(
        x=x,
        y=y,
        color=alt.Color("engine:N", title=None, scale=colours, sort=engines),
        shape=alt.Shape("engine:N", title=None, scale=marks, sort=engines),
    )
    chart = (base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=60)).properties(width=300, height=340)
    panels = alt.Column("panel:N", title=None, sort=[_panel(case) for case in PLAIN])
    whole = chart.facet(column=panels).properties(background="white", padding=12)
    path.write_text(vl_convert.vegalite_to_svg(whole.to_dict()), encoding="utf-8")


def _points(lines: Sequence[Measured]) -> Any:
    """Return a table of the milliseconds of every engine; ours is the one of the first line of its size."""
    import pandas as pd

    rows = []
    for case in PLAIN:
        for one in lines:
            passages = passages_of(one.size)
            if (one.name, one.size) == (case.name, case.size(passages)) and one.theirs is not None:
                for who, seconds in ((OURS, one.ours), (one.peer, one.theirs)):
                    rows.append((_panel(case), who, passages, 1000 * seconds / case.n_questions))
    points = pd.DataFrame(rows, columns=["panel", "engine", "passages", "milliseconds"])
    return points.drop_duplicates(["panel", "engine", "passages"])


def _panel(case: Case) -> str:
    return case.name.rpartition(", ")[2]


_SIZES = "1000 10000 100000 1000000"


def bm25() -> list[str]:
    """Measure every size; returns lines of a report."""
    said: list[str] = []
    for size in os.environ.get("BENCH_PASSAGES", _SIZES).split():
        with tempfile.TemporaryDirectory() as folder:
            lines, sentence = _one_size(int(size), Path(folder))
        said.append(sentence)
        peers.keep(lines)  # a later size may not fit into memory
    kept = [one for one in peers.kept() if one.name.startswith(NAME)]
    draw(kept, PICTURE)
    return [*table(kept), "", *(f"- {sentence}" for sentence in said)]


def _one_size(n_passages: int, folder: Path) -> tuple[list[Measured], str]:
    corpus = apart("corpus", folder, str(n_passages))
    names = engines_of(n_passages)
    built = [apart("build", folder, name) for name in names]
    opened = [apart("open", folder, name, *corpus["question"]) for name in names]
    found = apart("search", folder)
    searched = [Measured(**one) for one in found["lines"]]
    sentence = f"{n_passages:,} passages, made in {corpus['seconds']:.1f} s: {found['said']}"
    return [*of_building(built, opened, n_passages), *searched], sentence
