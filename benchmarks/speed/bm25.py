"""Compare BM25 with bm25s, Tantivy and rank-bm25 on the same tokens: `python -m benchmarks bm25`.

All engines use the same k1 and b, with one thread and with all cores. `BENCH_PASSAGES` sets the numbers of passages
("1000 10000 100000 1000000"). Results are stored in `results.json`; `docs/bm25.svg` shows the time per question.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.peers import PeerResult, format_value, summarize_rounds
from benchmarks.speed.bm25_search import DEFAULT_CASES, Case, engines_of, run_step
from mrc_workbench.data.workspace import PROJECT

NAME = "BM25 "  # prefix of all names
OURS = "ours"


def compare_builds(
    built: Sequence[dict[str, Any]], opened: Sequence[Sequence[float]], n_passages: int
) -> list[PeerResult]:
    """Compare build time, memory, size and opening of the first engine, ours, with each other engine."""
    ours = built[0]
    (first, again) = opened[0]
    size = f"{n_passages:,} passages"
    lines = []
    for other, (their_first, their_again) in zip(built[1:], opened[1:], strict=True):
        pairs = (
            ("BM25 build and save", (ours["seconds"], other["seconds"]), "seconds"),
            ("BM25 build, peak memory", (ours["memory"] / 2**20, other["memory"] / 2**20), "MiB"),
            ("BM25 index size on disk", (ours["disk"] / 2**20, other["disk"] / 2**20), "MiB"),
            ("BM25 open and search once, new process", (first, their_first), "seconds"),
            ("BM25 open and search once, second time", (again, their_again), "seconds"),
        )
        lines += [summarize_rounds(name, other["engine"], size, [pair], unit=unit) for name, pair, unit in pairs]
    return lines


def table(lines: Sequence[PeerResult]) -> list[str]:
    """Return a row per task and a column per engine; brackets contain the ratio to ours and its range."""
    peers = list(dict.fromkeys(result.peer for result in lines))
    rows: dict[tuple[str, str], dict[str, PeerResult]] = {}
    for result in lines:
        rows.setdefault((result.name, result.size), {})[result.peer] = result
    table_lines = [f"| | workload | {OURS} | {' | '.join(peers)} |", f"|---|---|{'---:|' * (len(peers) + 1)}"]
    for (name, size), results_by_peer in sorted(
        rows.items(), key=lambda row: (_row_position(lines, row[0]), passages_of(row[0][1]))
    ):
        ours = next(iter(results_by_peer.values()))
        cells = (_cell(results_by_peer.get(peer)) for peer in peers)
        table_lines.append(
            f"| {name.removeprefix(NAME)} | {size} | {format_value(ours.ours, ours.unit)} | {' | '.join(cells)} |"
        )
    return table_lines


def _cell(result: PeerResult | None) -> str:
    if result is None or result.theirs is None or result.ratio is None:
        return "–"
    low, high = result.spread or (result.ratio, result.ratio)
    spread = f", {low:.3g} to {high:.3g}" if low < high else ""
    return f"{format_value(result.theirs, result.unit)} ({result.ratio:.3g}{spread})"


def _row_position(lines: Sequence[PeerResult], row: tuple[str, str]) -> int:
    """Return the position of a task in order of measurement, ignoring the number of passages."""
    kinds = list(dict.fromkeys((result.name, _size_without_passages(result.size)) for result in lines))
    return kinds.index((row[0], _size_without_passages(row[1])))


def _size_without_passages(size: str) -> str:
    return size.rpartition(", ")[0]


def passages_of(size: str) -> int:
    """Parse the number of passages in a result's `size`."""
    return int(re.findall(r"([\d,]+) passages", size)[0].replace(",", ""))


PICTURE = PROJECT / "docs" / "bm25.svg"
_DECADES = [10.0**power for power in range(-4, 5)]  # milliseconds with a label


def draw(lines: Sequence[PeerResult], path: Path) -> None:
    """Draw milliseconds per question over passages with logarithmic axes."""
    import altair as alt
    import vl_convert

    from mrc_workbench.retrieval.report.charts import PALETTE, SHAPES

    points = _points(lines)
    engines = list(points["engine"].unique())
    sizes = alt.Axis(format="~s", values=sorted({*points["passages"]}))
    x = alt.X("passages:Q", title="passages", scale=alt.Scale(type="log", nice=False), axis=sizes)
    milliseconds = alt.Axis(format="~g", values=_DECADES)
    y = alt.Y("milliseconds:Q", title="milliseconds per question", scale=alt.Scale(type="log"), axis=milliseconds)
    colours = alt.Scale(domain=engines, range=[PALETTE[index % len(PALETTE)] for index in range(len(engines))])
    marks = alt.Scale(domain=engines, range=[SHAPES[index % len(SHAPES)] for index in range(len(engines))])
    base = alt.Chart(points).encode(
        x=x,
        y=y,
        color=alt.Color("engine:N", title=None, scale=colours, sort=engines),
        shape=alt.Shape("engine:N", title=None, scale=marks, sort=engines),
    )
    chart = (base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=60)).properties(width=300, height=340)
    panels = alt.Column("panel:N", title=None, sort=[_panel(case) for case in DEFAULT_CASES])
    whole = chart.facet(column=panels).properties(background="white", padding=12)
    path.write_text(vl_convert.vegalite_to_svg(whole.to_dict()), encoding="utf-8")


def _points(lines: Sequence[PeerResult]) -> Any:
    """Return the milliseconds by engine and size; ours is from the first result of a size."""
    import pandas as pd

    rows = []
    for case in DEFAULT_CASES:
        for result in lines:
            passages = passages_of(result.size)
            if (result.name, result.size) == (case.name, case.size(passages)) and result.theirs is not None:
                for engine, seconds in ((OURS, result.ours), (result.peer, result.theirs)):
                    rows.append((_panel(case), engine, passages, 1000 * seconds / case.n_questions))
    points = pd.DataFrame(rows, columns=["panel", "engine", "passages", "milliseconds"])
    return points.drop_duplicates(["panel", "engine", "passages"])


def _panel(case: Case) -> str:
    return case.name.rpartition(", ")[2]


_SIZES = "1000 10000 100000 1000000"


def bm25() -> list[str]:
    """Measure all sizes; returns a Markdown table and a sentence per size."""
    sentences: list[str] = []
    for size in os.environ.get("BENCH_PASSAGES", _SIZES).split():
        with tempfile.TemporaryDirectory() as folder:
            lines, sentence = _measure_size(int(size), Path(folder))
        sentences.append(sentence)
        peers.save_results(lines)  # before a larger size exhausts the memory
    stored = [result for result in peers.load_results() if result.name.startswith(NAME)]
    draw(stored, PICTURE)
    return [*table(stored), "", *(f"- {sentence}" for sentence in sentences)]


def _measure_size(n_passages: int, folder: Path) -> tuple[list[PeerResult], str]:
    corpus = run_step("corpus", folder, str(n_passages))
    names = engines_of(n_passages)
    built = [run_step("build", folder, name) for name in names]
    opened = [run_step("open", folder, name, *corpus["question"]) for name in names]
    search_output = run_step("search", folder)
    searched = [PeerResult(**line) for line in search_output["lines"]]
    sentence = f"{n_passages:,} passages, generated in {corpus['seconds']:.1f} s: {search_output['summary']}"
    return [*compare_builds(built, opened, n_passages), *searched], sentence
