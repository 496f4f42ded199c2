"""The steps of the comparison at one size, each in a process of its own, on what those before have kept in a folder."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.clones import Clones, cloned, korquad_articles
from benchmarks.peers import Measured
from benchmarks.speed.bm25.agreement import difference, overlap, own_passage_found
from benchmarks.speed.bm25.asked import asked_of
from benchmarks.speed.bm25.bm25s_engine import BM25S
from benchmarks.speed.bm25.cases import CASES, against_engines, against_memory, case_of_rank_bm25, speeds
from benchmarks.speed.bm25.engine import Engine
from benchmarks.speed.bm25.memory import peak
from benchmarks.speed.bm25.ours import Ours
from benchmarks.speed.bm25.rank_bm25_engine import RankBM25
from benchmarks.speed.bm25.tantivy_engine import Tantivy, TantivyInOne

ENGINES: dict[str, type[Engine]] = {one.__name__: one for one in (Ours, BM25S, TantivyInOne, Tantivy, RankBM25)}
MOST_OF_RANK_BM25 = 10_000  # passages: it holds a dictionary each, and looks at all of them for every question
_COMPARED = 200  # questions whose rankings are held against each other


def apart(step: str, folder: Path, *words: str) -> Any:
    """Take a step in a process of its own; returns what it says."""
    command = [sys.executable, "-m", "benchmarks.speed.bm25", step, str(folder), *words]
    # threads of numpy's libraries would help whoever calls them where one thread is meant
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    printed = subprocess.run(command, check=True, env=os.environ | one_thread, stdout=subprocess.PIPE).stdout
    return json.loads(printed.splitlines()[-1])


def engines_of(n_passages: int) -> list[str]:
    """Name the engines that are measured at a size, ours first."""
    return [name for name in ENGINES if name != RankBM25.__name__ or n_passages <= MOST_OF_RANK_BM25]


def make_corpus(folder: Path, n_passages: str) -> dict[str, Any]:
    """Make the corpus; returns the seconds, without KorQuAD's own analysis, and the words of a question."""
    articles = korquad_articles()
    start = perf_counter()
    clones = cloned(articles, int(n_passages))
    (folder / "corpus").mkdir()
    clones.save(folder / "corpus")
    return {"seconds": perf_counter() - start, "question": clones.questions.texts()[0]}


def build(folder: Path, name: str) -> dict[str, Any]:
    """Build an index; returns the seconds, the most bytes held of its own, and the bytes on disk."""
    clones, place = Clones.load(folder / "corpus"), folder / name
    place.mkdir()
    with peak() as most:
        seconds = ENGINES[name].build(clones, place)
    disk = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return {"engine": ENGINES[name].name, "seconds": seconds, "memory": most[0], "disk": disk}


def open_twice(folder: Path, name: str, *words: str) -> list[float]:
    """Open an index and answer a question, with all that is compiled for it, and again; returns the seconds of each."""

    def once() -> float:
        start = perf_counter()
        ENGINES[name].open(folder / name).found([words], 10)
        return perf_counter() - start

    return [once(), once()]


def search(folder: Path) -> dict[str, Any]:
    """Time all cases; returns the lines, and a sentence of what was found."""
    clones = Clones.load(folder / "corpus")
    n_passages, asked = len(clones.tokens), asked_of(clones)
    opened = {name: ENGINES[name].open(folder / name) for name in engines_of(n_passages)}
    rank_bm25 = opened.pop(RankBM25.__name__, None)
    engines, some = list(opened.values()), asked.questions[:_COMPARED]
    ours, bm25s, in_one, in_some = engines
    said = (
        f"scores of the best ten differ from bm25s's by {difference(ours, bm25s, some):.1g} of a score at most; "
        f"{overlap(ours, in_one, some):.1%} of the ten are Tantivy's, too; "
        f"the passage asked about is one of them for {own_passage_found(ours, asked):.1%} of the questions."
    )
    notes = {engine.name: _segments(engine) for engine in (in_one, in_some)}
    lines, bytes_a_second = list[Measured](), speeds()
    for case in CASES:
        lines += against_engines(case, engines, asked.questions, n_passages, notes)
        speed = bytes_a_second[case.threads]
        lines.append(against_memory(case, lines[-1].ours, asked, n_passages, speed))
    if rank_bm25 is not None:
        case = case_of_rank_bm25(n_passages)
        lines += against_engines(case, [ours, rank_bm25], asked.questions, n_passages, {})
    return {"lines": [asdict(line) for line in lines], "said": said}


def _segments(engine: Any) -> str:
    segments = f"{engine.n_segments} segment{'s' if engine.n_segments > 1 else ''}"
    return f"{segments}, through its Python interface; lengths of a byte each"
