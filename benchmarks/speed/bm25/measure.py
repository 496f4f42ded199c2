"""BM25 against bm25s, Tantivy and rank-bm25 on the same tokens, from a thousand to a million passages.

All score with the same k1 and b. One thread is held against one thread, and all cores against all cores.
`BENCH_PASSAGES` names other sizes ("1000 10000"). What is measured is kept in `results.json` and drawn in
`docs/bm25.svg`.
"""

import os
import tempfile
from pathlib import Path

from benchmarks import peers
from benchmarks.peers import Measured
from benchmarks.speed.bm25 import drawing, report
from benchmarks.speed.bm25.steps import apart, engines_of

_SIZES = "1000 10000 100000 1000000"


def measure() -> list[str]:
    """Measure every size; returns lines of a report."""
    said: list[str] = []
    for size in os.environ.get("BENCH_PASSAGES", _SIZES).split():
        with tempfile.TemporaryDirectory() as folder:
            lines, sentence = _one_size(int(size), Path(folder))
        said.append(sentence)
        peers.keep(lines)  # a later size may not fit into memory
    kept = [one for one in peers.kept() if one.name.startswith(report.NAME)]
    drawing.draw(kept, drawing.PICTURE)
    return [*report.table(kept), "", *(f"- {sentence}" for sentence in said)]


def _one_size(n_passages: int, folder: Path) -> tuple[list[Measured], str]:
    corpus = apart("corpus", folder, str(n_passages))
    names = engines_of(n_passages)
    built = [apart("build", folder, name) for name in names]
    opened = [apart("open", folder, name, *corpus["question"]) for name in names]
    found = apart("search", folder)
    searched = [Measured(**one) for one in found["lines"]]
    sentence = f"{n_passages:,} passages, made in {corpus['seconds']:.1f} s: {found['said']}"
    return [*report.of_building(built, opened, n_passages), *searched], sentence
