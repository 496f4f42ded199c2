"""Time a whole comparison: `python -m benchmarks cold_and_warm`, `whole_job`.

`cold_and_warm` runs `mrc compare` on KorQuAD dev with BM25, the starter and their hybrid, in an empty workspace and
again. `whole_job` compares the command with `reference_script.py`, a script with the libraries' defaults: BM25, dense,
hybrid, and BM25's top `WHOLE_JOB_DEPTH` (8) reranked, then both again with another weight in the hybrid. Both use two
random BERTs of 2 layers of width 128, since real models take most of an hour in the script. Each is a whole process;
the command also computes intervals and tests and writes a report and files.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import peers
from benchmarks.synthetic_data import TINY, bi_encoder, cross_encoder, korquad
from mrc_workbench.data.questions.read import read_file

_SMALL_EXPERIMENT = """
data = '{data}'
[[retriever]]
name = "BM25"
kind = "bm25"
[[retriever]]
name = "Dense"
kind = "dense"
[[retriever]]
name = "Hybrid"
kind = "hybrid"
retrievers = ["BM25", "Dense"]
"""


def cold_and_warm() -> list[str]:
    """Run the comparison twice in an empty workspace; returns lines of a report."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = Path(folder, "experiment.toml")
        experiment.write_text(_SMALL_EXPERIMENT.format(data=korquad()), encoding="utf-8")
        cold, warm = (_compare_in_subprocess(experiment, Path(folder)) for _ in range(2))
    return [
        f"comparison of KorQuAD dev, empty workspace: {cold:6.1f} s   (target: under 30)",
        f"second time, everything cached:             {warm:6.1f} s   (target: under 5)",
    ]


def _compare_in_subprocess(experiment: Path, folder: Path) -> float:
    """Run `mrc compare`; returns the seconds."""
    command = [sys.executable, "-m", "mrc_workbench", "compare", str(experiment), "--out", str(folder / "out")]
    return _run(command, {"MRC_WORKSPACE": str(folder / "workspace")})[0]


_TARGET_SPEEDUP = 10
_MAX_LENGTH = 512
_WEIGHTS = (1.0, 2.0)  # of the dense retriever in the hybrid, first run and rerun
_RETRIEVERS = ("BM25", "Dense", "Hybrid", "Reranked")
_EXPERIMENT = """
data = '{data}'
[[retriever]]
name = "BM25"
kind = "bm25"
[[retriever]]
name = "Dense"
kind = "dense"
model = '{bi_encoder}'
[[retriever]]
name = "Hybrid"
kind = "hybrid"
retrievers = ["BM25", "Dense"]
weights = [1.0, {weight}]
[[retriever]]
name = "Reranked"
kind = "rerank"
first_stage = "BM25"
model = '{cross_encoder}'
rerank_top_k = {depth}
"""


@dataclass(frozen=True)
class ProcessResult:
    """The seconds of a process and of its stages, and the metrics by retriever."""

    seconds: float
    stages: dict[str, float]
    table: dict[str, dict[str, float]]

    @property
    def rest(self) -> float:
        """Seconds outside the stages: imports, reading, evaluation, writing."""
        return self.seconds - sum(self.stages.values())


def whole_job() -> list[str]:
    """Run both, then both with another weight; returns lines of a report."""
    depth = int(os.environ.get("WHOLE_JOB_DEPTH", "8"))
    with tempfile.TemporaryDirectory() as folder:
        models = _models(Path(folder))
        runs = [(_ours(Path(folder), models, depth, w), _theirs(models, depth, w)) for w in _WEIGHTS]
    size = f"5,774 questions, 961 passages, {depth} reranked"
    names = ("Full comparison, first run", "Full comparison, rerun with another weight")
    notes = (
        f"neither uses cached results; {_describe_arithmetic(*runs[0])}",
        "this project reuses the results in its workspace; the script stores nothing",
    )
    peer = "a script of rank-bm25, sentence-transformers and FAISS"
    measured = [
        peers.summarize_rounds(name, peer, size, [(ours.seconds, theirs.seconds)], target=_TARGET_SPEEDUP, note=note)
        for name, note, (ours, theirs) in zip(names, notes, runs, strict=True)
    ]
    peers.save_results(measured)
    return [*stage_table(*runs[0]), "", *(_describe_result(result) for result in measured), "", *metric_table(*runs[0])]


def _describe_arithmetic(ours: ProcessResult, theirs: ProcessResult) -> str:
    """Report the fraction of our time spent in models, and its ratio to the script's."""
    our_seconds, their_seconds = (result.stages["Dense"] + result.stages["Reranked"] for result in (ours, theirs))
    percent = 100 * our_seconds / ours.seconds
    times = their_seconds / our_seconds
    return f"{percent:.0f}% of our time is model arithmetic, {times:.1f} times as fast in bfloat16"


def stage_table(ours: ProcessResult, theirs: ProcessResult) -> list[str]:
    """Return a Markdown table: seconds of both by stage."""
    names = {
        "BM25": "BM25: analysis, index, search",
        "Dense": "dense: load, encode, search",
        "Hybrid": "fusion",
        "Reranked": "reranking: load, score",
    }
    rows = [(text, ours.stages[name], theirs.stages[name]) for name, text in names.items()]
    rows += [("other", ours.rest, theirs.rest), ("total", ours.seconds, theirs.seconds)]
    lines = ["| seconds | ours | script | ratio |", "|---|---:|---:|---:|"]
    return lines + [f"| {text} | {a:.2f} | {b:.2f} | {b / a:.1f} |" for text, a, b in rows]


def metric_table(ours: ProcessResult, theirs: ProcessResult) -> list[str]:
    """Return a Markdown table: recall of both, to check that they do the same."""
    lines = ["| | R@1, ours | R@1, script | R@10, ours | R@10, script |", "|---|---:|---:|---:|---:|"]
    for name in _RETRIEVERS:
        cells = (f"{100 * result.table[name][f'recall@{k}']:.2f}" for k in (1, 10) for result in (ours, theirs))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def own_seconds(retrievers: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of each retriever without those of its components, which `scores.json` includes."""
    total_seconds = {name: timings["build_seconds"] + timings["query_seconds"] for name, timings in retrievers.items()}
    component_seconds = {"Hybrid": total_seconds["BM25"] + total_seconds["Dense"], "Reranked": total_seconds["BM25"]}
    return {name: max(0.0, total_seconds[name] - component_seconds.get(name, 0.0)) for name in _RETRIEVERS}


def _describe_result(result: peers.PeerResult) -> str:
    times = f"{result.ours:.1f} s; the script takes {result.theirs:.1f} s, {result.ratio:.1f} times as long"
    return f"- {result.name}: {times}; {result.note}"


def _models(folder: Path) -> dict[str, Path]:
    texts = list(read_file(korquad()).question_set.passages.indexed_texts(title=True))
    return {
        "bi_encoder": bi_encoder(folder / "bi", texts, _MAX_LENGTH, TINY),
        "cross_encoder": cross_encoder(folder / "cross", texts, _MAX_LENGTH, TINY),
    }


def _ours(folder: Path, models: dict[str, Path], depth: int, weight: float) -> ProcessResult:
    experiment = folder / "experiment.toml"
    out = folder / "out"
    experiment.write_text(_EXPERIMENT.format(data=korquad(), depth=depth, weight=weight, **models), encoding="utf-8")
    seconds = _compare_in_subprocess(experiment, folder)
    retrievers = json.loads((out / "scores.json").read_text(encoding="utf-8"))["retrievers"]
    return ProcessResult(seconds, own_seconds(retrievers), retrievers)


def _theirs(models: dict[str, Path], depth: int, weight: float) -> ProcessResult:
    script = Path(__file__).parent / "reference_script.py"
    seconds, printed = _run(
        [sys.executable, str(script), str(korquad()), *map(str, models.values()), str(depth), str(weight)], {}
    )
    output = json.loads(printed.splitlines()[-1])
    return ProcessResult(seconds, {name: output["seconds"][name] for name in _RETRIEVERS}, output["table"])


def _run(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    start = perf_counter()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    stdout = subprocess.run(command, check=True, env={**os.environ, **environment}, text=True, **pipes).stdout
    return perf_counter() - start, stdout
