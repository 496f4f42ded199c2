"""A whole comparison: cold and warm, and from a file to four retrievers side by side, this project's command against
`student_script`, the plain script.

KorQuAD dev, all questions. Cold and warm: BM25, starter dense, hybrid, with an empty workspace and again. Against the
script: BM25, dense, hybrid, and BM25's first `WHOLE_JOB_DEPTH` (8) reranked. Both use the same two random BERTs of 2
layers of 128: models of a real size take most of an hour in the script. Each is a whole process; the command also makes
intervals, tests, report and files. Then both once more with another weight in the hybrid, where the command finds in
its workspace what the first run kept."""

import json
import os
import subprocess
import sys
import tempfile
import time
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
of = ["BM25", "Dense"]
"""


def cold_and_warm() -> list[str]:
    """Run the comparison twice in a fresh workspace; returns lines of a report."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = Path(folder, "experiment.toml")
        experiment.write_text(_SMALL_EXPERIMENT.format(data=korquad()), encoding="utf-8")
        cold, warm = (_seconds(experiment, Path(folder)) for _ in range(2))
        page = _seconds(experiment, Path(folder), "--tell")
    return [
        f"comparison of KorQuAD dev, nothing kept yet: {cold:6.1f} s   (target: under 30)",
        f"the same again, everything kept:             {warm:6.1f} s   (target: under 5)",
        f"and as the page asks for it, without the files: {page:4.1f} s",
    ]


def _seconds(experiment: Path, folder: Path, *options: str) -> float:
    command = [
        sys.executable,
        "-m",
        "mrc_workbench",
        "compare",
        str(experiment),
        "--out",
        str(folder / "out"),
        *options,
    ]
    environment = {**os.environ, "MRC_WORKSPACE": str(folder / "workspace")}
    start = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


_TARGET_SPEEDUP = 10
_MAX_LENGTH = 512
_WEIGHTS = (1.0, 2.0)  # of the dense retriever in the hybrid: the first run's, the second's
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
of = ["BM25", "Dense"]
weights = [1.0, {weight}]
[[retriever]]
name = "Reranked"
kind = "rerank"
first = "BM25"
model = '{cross_encoder}'
depth = {depth}
"""


@dataclass(frozen=True)
class ProcessResult:
    """What one process did: its seconds, those of each retriever's own work, and the figures by retriever."""

    seconds: float
    stages: dict[str, float]
    table: dict[str, dict[str, float]]

    @property
    def rest(self) -> float:
        """Seconds of all else: imports, reading, measuring, writing."""
        return self.seconds - sum(self.stages.values())


def whole_job() -> list[str]:
    """Run both, and both again with another weight; returns lines of a report."""
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
    """Say how much of the work is arithmetic that both do."""
    mine, plain = (result.stages["Dense"] + result.stages["Reranked"] for result in (ours, theirs))
    percent = 100 * mine / ours.seconds
    times = plain / mine
    return f"{percent:.0f}% of our time is model arithmetic, {times:.1f} times as fast in bfloat16"


def stage_table(ours: ProcessResult, theirs: ProcessResult) -> list[str]:
    """Return where the time of both goes, a row a stage."""
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
    """Return the figures of both, as a check that they did the same."""
    lines = ["| | R@1, ours | R@1, script | R@10, ours | R@10, script |", "|---|---:|---:|---:|---:|"]
    for name in _RETRIEVERS:
        cells = (f"{100 * result.table[name][f'recall@{k}']:.2f}" for k in (1, 10) for result in (ours, theirs))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def own_seconds(retrievers: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of each retriever's own work from what `scores.json` tells of them, which counts their parts'.

    A hybrid is of the BM25 and the dense one, the reranked of the BM25 one.
    """
    total_seconds = {name: timings["build_seconds"] + timings["query_seconds"] for name, timings in retrievers.items()}
    wrapped = {"Hybrid": total_seconds["BM25"] + total_seconds["Dense"], "Reranked": total_seconds["BM25"]}
    return {name: max(0.0, total_seconds[name] - wrapped.get(name, 0.0)) for name in _RETRIEVERS}


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
    command = [sys.executable, "-m", "mrc_workbench", "compare", str(experiment), "--out", str(out)]
    seconds, _ = _run(command, {"MRC_WORKSPACE": str(folder / "workspace")})
    retrievers = json.loads((out / "scores.json").read_text(encoding="utf-8"))["retrievers"]
    return ProcessResult(seconds, own_seconds(retrievers), retrievers)


def _theirs(models: dict[str, Path], depth: int, weight: float) -> ProcessResult:
    script = Path(__file__).parent / "student_script.py"
    seconds, printed = _run(
        [sys.executable, str(script), str(korquad()), *map(str, models.values()), str(depth), str(weight)], {}
    )
    output = json.loads(printed.splitlines()[-1])
    return ProcessResult(seconds, {name: output["seconds"][name] for name in _RETRIEVERS}, output["table"])


def _run(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    start = perf_counter()
    done = subprocess.run(
        command,
        check=True,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return perf_counter() - start, done.stdout
