"""Measure how the time of each stage grows with the number of passages: `python -m benchmarks growth`.

The result is a table and the chart `docs/growth.svg`. `GROWTH_SIZES` sets the numbers of passages
("1000,10000,100000"; a million takes some minutes). Passages are synthetic, with KorQuAD's words and lengths; vectors
are random. Each size runs in a new process, and a stage uses the stored output of earlier ones. Kiwi runs only if it is
expected to take less than a minute.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import measure_seconds
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.retrieval.rankings import Rankings

_SIZES = "1000,10000,100000"
_PICTURE = PROJECT / "docs" / "growth.svg"
_QUESTIONS = 100
_K = 100
_FUSED = 1000  # questions
_DIMENSIONS = 384
_LONGEST_KIWI = 60.0  # seconds
_SUPERLINEAR_EXPONENT = 1.15  # stages with a larger exponent are reported
# stages below one second are repeated; the fastest round counts
_ROUNDS = 3
_REPEATED_BELOW_SECONDS = 1.0

Seconds = dict[str, dict[int, float]]  # by stage and number of passages


def growth() -> list[str]:
    """Measure all sizes and draw the chart; returns a Markdown table, and a sentence on the steepest stages."""
    seconds: Seconds = {}
    for size in sorted(int(word) for word in os.environ.get("GROWTH_SIZES", _SIZES).split(",")):
        for stage, value in _run_in_subprocess(size, _is_kiwi_measured(size, seconds.get("analyze, Kiwi", {}))).items():
            seconds.setdefault(stage, {})[size] = value
    draw(seconds, _PICTURE)
    return [*table(seconds), "", sentence(seconds)]


def exponents(by_size: dict[int, float]) -> dict[int, float]:
    """Return the exponent e of `seconds ~ passages^e` between consecutive sizes, by the larger size.

    e is `log(seconds ratio) / log(size ratio)`: 1 is proportional, 0 is constant.
    """
    return {
        b: math.log(by_size[b] / by_size[a]) / math.log(b / a) for a, b in pairwise(sorted(by_size)) if by_size[a] > 0
    }


def table(seconds: Seconds) -> list[str]:
    """Return a row per stage: seconds at each size, with the exponent since the previous size in brackets."""
    sizes = sorted({size for by_size in seconds.values() for size in by_size})
    lines = [
        f"| seconds (exponent) by number of passages | {' | '.join(f'{size:,}' for size in sizes)} |",
        f"|---|{'---:|' * len(sizes)}",
    ]
    for stage, by_size in seconds.items():
        grown = exponents(by_size)
        cells = (_cell(by_size.get(size), grown.get(size)) for size in sizes)
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    return lines


def sentence(seconds: Seconds) -> str:
    """Name the stages whose exponent between the last two sizes is superlinear."""
    last = {
        stage: list(by_larger_size.items())[-1]
        for stage, by_size in seconds.items()
        if (by_larger_size := exponents(by_size))
    }
    if not last:
        return "Growth needs at least two sizes."
    superlinear = [
        f"{stage} (exponent {e:.2f} at {size:,})" for stage, (size, e) in last.items() if e > _SUPERLINEAR_EXPONENT
    ]
    steepest, e = max(((stage, e) for stage, (_, e) in last.items()), key=lambda item: item[1])
    if not superlinear:
        return f"No stage grows faster than the number of passages; {steepest} has the largest exponent, {e:.2f}."
    names = "; ".join(superlinear)
    return f"Up to the largest size, these stages grow faster than the number of passages: {names}. The others do not."


def draw(seconds: Seconds, path: Path) -> None:
    """Draw seconds over passages with logarithmic axes; the dotted line is proportional growth."""
    import altair as alt
    import pandas as pd
    import vl_convert

    from mrc_workbench.retrieval.report.charts import PALETTE, SHAPES

    stages = list(seconds)
    rows = [(stage, size, value) for stage in stages for size, value in seconds[stage].items() if value > 0]
    points = pd.DataFrame(rows, columns=["stage", "passages", "seconds"])
    sizes = [float(points["passages"].min()), float(points["passages"].max())]
    low = float(points["seconds"].min())
    guide = pd.DataFrame({"passages": sizes, "seconds": [low, low * sizes[1] / sizes[0]]})
    x = alt.X(
        "passages:Q", title="passages", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s", tickCount=4)
    )
    y = alt.Y("seconds:Q", title="seconds", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g"))
    colours = alt.Scale(domain=stages, range=[PALETTE[index % len(PALETTE)] for index in range(len(stages))])
    marks = alt.Scale(domain=stages, range=[SHAPES[index % len(SHAPES)] for index in range(len(stages))])
    title = None
    base = alt.Chart(points).encode(
        x=x,
        y=y,
        color=alt.Color("stage:N", title=title, scale=colours, sort=stages),
        shape=alt.Shape("stage:N", title=title, scale=marks, sort=stages),
    )
    dotted = alt.Chart(guide).mark_line(color="#7c818c", strokeDash=[2, 4], strokeWidth=1.5).encode(x=x, y=y)
    chart = dotted + base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=60, opacity=1)
    chart = chart.properties(width=520, height=400, background="white", padding=12)
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")


def _cell(seconds: float | None, exponent: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.3g}" + (f" ({exponent:.2f})" if exponent is not None else "")


def _is_kiwi_measured(size: int, known: dict[int, float]) -> bool:
    if not known:
        return size <= 1000
    largest = max(known)
    return known[largest] * size / largest < _LONGEST_KIWI


def _run_in_subprocess(size: int, kiwi: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.growth", str(size), "kiwi" if kiwi else ""]
        environment = {**os.environ, "MRC_WORKSPACE": folder}
        printed = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout
    stage_seconds: dict[str, float] = json.loads(printed)
    return stage_seconds


def _measure_size(size: int, folder: Path, *, kiwi: bool) -> dict[str, float]:
    """Run all stages; returns the seconds of each."""
    from benchmarks import synthetic_data

    file = folder / "set.jsonl"
    synthetic_data.write_set(file, size, questions=_FUSED)
    _compile()
    return dict([*_reading(file), *_words(kiwi=kiwi), *_vectors(size), *_fusion(size)])


def _reading(file: Path) -> Iterator[tuple[str, float]]:
    from mrc_workbench.data.questions.read import read_file
    from mrc_workbench.data.store import load, save_question_set, stored

    yield "read and store", _seconds(lambda: save_question_set(read_file(file).question_set))
    yield "open", _seconds(lambda: load(stored()[0].key))


def _words(*, kiwi: bool) -> Iterator[tuple[str, float]]:
    from mrc_workbench.data.store import load, stored
    from mrc_workbench.data.text.analysis import analyze, tokens_of
    from mrc_workbench.data.text.analyzers import Analyzer
    from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options

    question_set = load(stored()[0].key)
    texts = question_set.passages.indexed_texts(title=True)
    yield "analyze, words", measure_seconds(lambda: tokens_of(Analyzer.WORD, texts))
    if kiwi:
        analyze(Analyzer.KIWI, [""])  # loads the dictionary
        yield "analyze, Kiwi", measure_seconds(lambda: tokens_of(Analyzer.KIWI, texts))
    yield "read stored tokens", _seconds(lambda: tokens_of(Analyzer.WORD, texts))
    options = BM25Options(Analyzer.WORD)
    yield "BM25 build", measure_seconds(lambda: BM25("", question_set.passages, options))
    index = BM25("", question_set.passages, options)
    questions = [question.text for question in question_set.questions[:_QUESTIONS]]
    tokens_of(Analyzer.WORD, questions)  # stores the tokens
    yield f"BM25 search, {_QUESTIONS} questions", _seconds(lambda: index.search(questions, _K))


def _vectors(size: int) -> Iterator[tuple[str, float]]:
    from mrc_workbench.retrieval.dense import VectorIndex

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((size, _DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = VectorIndex(vectors)
    queries = vectors[rng.integers(0, size, _QUESTIONS)]
    index.search(queries, 1)  # loads the library
    yield f"exact dense search, {_QUESTIONS} questions", _seconds(lambda: index.search(queries, _K))


def _fusion(size: int) -> Iterator[tuple[str, float]]:
    from mrc_workbench.retrieval.combine import Fusion, fuse

    rng = np.random.default_rng(0)
    rankings = [_random_rankings(rng, size) for _ in range(2)]
    yield f"rank fusion, {_FUSED:,} questions", _seconds(lambda: fuse(rankings, size, Fusion.RRF, None, _K))


def _random_rankings(rng: np.random.Generator, size: int) -> Rankings:
    rows = np.stack([rng.choice(size, _K, replace=False) for _ in range(_FUSED)]).astype(np.int32)
    scores = -np.sort(-rng.random((_FUSED, _K), dtype=np.float32), axis=1)
    return Rankings(rows, scores)


def _compile() -> None:
    """Compile and import everything before a stage is timed."""
    from mrc_workbench.data.passages import Passage
    from mrc_workbench.data.text.analyzers import Analyzer
    from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options

    few = [Passage(str(row), f"text {row}", "") for row in range(3)]
    BM25("few", few, BM25Options(Analyzer.WORD)).search(["text 1"] * 40, 2)


def _seconds(work: Callable[[], Any]) -> float:
    seconds = measure_seconds(work)
    if seconds >= _REPEATED_BELOW_SECONDS:
        return seconds
    return min(seconds, *(measure_seconds(work) for _ in range(_ROUNDS - 1)))


if __name__ == "__main__":
    print(json.dumps(_measure_size(int(sys.argv[1]), Path(os.environ["MRC_WORKSPACE"]), kiwi=sys.argv[2] == "kiwi")))
