"""Seconds from the rankings of five retrievers (KorQuAD dev, depth 100) to everything the Compare page says of them."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.material import korquad
from data.read import read_file
from retrieval.analysis.evidence import evidence
from retrieval.analysis.questions import ceilings, fates, rank_map
from retrieval.analysis.slices import Property, slice_table, slices
from retrieval.comparison.compare import Comparison, compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, DenseSpec, WindowedBM25Spec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.comparison.store import keep, load
from retrieval.evaluation.significance import question_groups
from retrieval.report.report import report

RETRIEVERS: tuple[Spec, ...] = (
    BM25Spec(name="BM25"),
    WindowedBM25Spec(name="Sentences"),
    DenseSpec(name="Dense"),
    HybridSpec(name="Hybrid", of=("BM25", "Dense")),
    RerankSpec(name="Reranked", first="BM25"),
)


def measure() -> list[str]:
    """Compare once, open the kept comparison anew and time each analysis; returns a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        kept = Path(folder, "comparison")
        keep(compare(Experiment(data=str(korquad()), retriever=RETRIEVERS), question_set), kept)
        start = time.perf_counter()
        found = load(kept, question_set)
        opened = time.perf_counter() - start
        seconds = {name: _seconds(part, found) for name, part in _PARTS.items()}
    wanted = sum(seconds[name] for name in ("intervals and tests", "slices", "waterfall and ceilings", "map of ranks"))
    lines = [
        f"| {len(found.question_set.questions):,} questions, {len(found.results)} retrievers, depth 100 | seconds |",
        "|---|---:|",
        f"| opening the kept comparison | {opened:.2f} |",
        *(f"| {name} | {took:.2f} |" for name, took in seconds.items()),
    ]
    return [
        *lines,
        "",
        f"From the rankings to significance, slices, waterfall and map: {wanted:.1f} s (wanted: within 3).",
    ]


def _seconds(part: Callable[[Comparison], object], comparison: Comparison) -> float:
    start = time.perf_counter()
    part(comparison)
    return time.perf_counter() - start


def _slices(comparison: Comparison) -> None:
    scores = comparison.scores
    groups = question_groups(comparison.question_set)
    for by in Property:
        slice_table(slices(comparison.question_set, by), scores, "recall@10", groups)


def _waterfall(comparison: Comparison) -> None:
    fates(comparison, 10)
    ceilings(comparison)


_PARTS: dict[str, Callable[[Comparison], object]] = {
    "intervals and tests": evidence,
    "slices": _slices,
    "waterfall and ceilings": _waterfall,
    "map of ranks": lambda found: rank_map(list(found.rankings.values()), found.question_set),
    "report": lambda found: report(found, "en"),
}
