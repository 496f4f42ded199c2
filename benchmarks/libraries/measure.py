"""Compare scripts for the same task with this project, ranx, BEIR and PyTerrier: `python -m benchmarks libraries`.

`search_*` reads a BEIR folder, indexes BM25 with k1 1.2 and b 0.75 and with k1 0.9 and b 0.4, searches all test
queries, evaluates both and tests their difference. ranx and BEIR have no index without a server, so they use bm25s;
PyTerrier uses PISA, since Terrier downloads Java archives at its first start. `evaluate_*` evaluates the same two runs
and tests their difference: the metrics must be equal, and p is that of the library's test.

Each script runs in a new process. A library that is not installed (`requirements/libraries.txt`) has a row without
numbers.
"""

import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import tokenize
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.synthetic_data import development_sets
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.trec import write_run

METRICS = ("nDCG@10", "Recall@10", "MRR@10")
TASKS = {"search": "Index, search, evaluate, test", "evaluate": "Evaluate and test two runs"}
ROUNDS = 3  # after a warm-up round, in which libraries compile and fill caches
_SET = "Cranfield, English"
_SETTINGS = (BM25Spec(name="a", k1=1.2, b=0.75), BM25Spec(name="b", k1=0.9, b=0.4))


@dataclass(frozen=True)
class Library:
    """A library, the packages of its script by task, and its significance test."""

    name: str
    packages: Mapping[str, tuple[str, ...]]
    test: str

    def label(self, task: str) -> str:
        """Return the packages with their versions, or "this project"."""
        return " + ".join(f"{package} {version(package)}" for package in self.packages[task]) or "this project"

    def missing(self, task: str) -> list[str]:
        """Return the packages that are not installed."""
        return [package for package in self.packages[task] if not _is_installed(package)]


LIBRARIES = (
    Library("ours", {"search": (), "evaluate": ()}, "paired randomization (t statistic)"),
    Library("ranx", {"search": ("ranx", "bm25s"), "evaluate": ("ranx",)}, "paired randomization (mean)"),
    Library("beir", {"search": ("beir", "bm25s"), "evaluate": ("beir",)}, "paired t-test (SciPy)"),
    Library("pyterrier", {"search": ("pyterrier", "pyterrier-pisa"), "evaluate": ("pyterrier",)}, "paired t-test"),
)


@dataclass(frozen=True)
class Output:
    """The output of a script: `METRICS` of both runs, 0 to 1, and the p-value of their difference in nDCG@10."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    p: float

    @classmethod
    def parse(cls, stdout: str) -> "Output":
        """Parse the last printed line."""
        printed = json.loads(stdout.splitlines()[-1])
        return cls(tuple(printed["a"]), tuple(printed["b"]), float(printed["p"]))


def libraries() -> list[str]:
    """Measure all scripts alternately; returns a Markdown table and a sentence."""
    lines = _header()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder = _extracted(root)
        runs = _runs(folder, root)
        outputs = {}
        for task in TASKS:
            available = [library for library in LIBRARIES if not library.missing(task)]
            arguments = [str(folder), *(map(str, runs) if task == "evaluate" else ())]
            seconds, outputs[task] = _measured(task, available, arguments, root)
            lines += [_row(task, library, seconds, outputs[task]) for library in LIBRARIES]
    return [*lines, "", agreement(outputs["evaluate"])]


def code_lines(path: Path) -> int:
    """Count the lines of code of a script, without blank lines, comments and docstrings."""
    source = path.read_text(encoding="utf-8")
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for token in tokens if token.type not in skipped for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - docstrings)


def agreement(outputs: Mapping[str, Output]) -> str:
    """Return a sentence with the largest difference of the metrics between libraries, in percentage points."""
    values = [(*output.a, *output.b) for output in outputs.values()]
    max_difference = max(max(column) - min(column) for column in zip(*values, strict=True)) * 100
    return (
        f"On the same two runs, the metrics of {len(values)} libraries differ by at most "
        f"{max_difference:.4f} percentage points."
    )


def script(task: str, library: Library) -> Path:
    """Return the path of the script."""
    return Path(__file__).with_name(f"{task}_{library.name}.py")


def _header() -> list[str]:
    columns = (
        "",
        "library",
        "lines of code",
        "seconds",
        "ratio to ours",
        *METRICS,
        "difference in nDCG@10",
        "p",
        "test",
    )
    return [f"| {' | '.join(columns)} |", "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"]


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _extracted(root: Path) -> Path:
    """Unpack the dataset; returns the folder that contains corpus.jsonl."""
    with zipfile.ZipFile(development_sets()[_SET]) as archive:
        archive.extractall(root / "set")
    (corpus,) = (root / "set").rglob("corpus.jsonl")
    return corpus.parent


def _runs(folder: Path, root: Path) -> list[Path]:
    """Write the rankings of both settings as TREC runs."""
    os.environ["MRC_WORKSPACE"] = str(root / "workspace")
    question_set = read_file(folder).question_set
    comparison = compare(Experiment(data="", split=Part.ALL, ks=(100,), retriever=_SETTINGS), question_set)
    paths = []
    for name, rankings in comparison.rankings.items():
        paths.append(root / f"{name}.run")
        write_run(paths[-1], rankings, comparison.question_set, name)
    return paths


def _measured(
    task: str, available: Sequence[Library], arguments: Sequence[str], root: Path
) -> tuple[dict[str, list[float]], dict[str, Output]]:
    """Return the seconds of each library's script by round, and its last output."""
    seconds: dict[str, list[float]] = {library.name: [] for library in available}
    outputs = {}
    for number in range(ROUNDS + 1):
        for library in available:
            workspace = root / f"{task}-{library.name}-{number}"  # empty
            workspace.mkdir()
            start = perf_counter()
            outputs[library.name] = run_script(task, library, arguments, workspace)
            seconds[library.name].append(perf_counter() - start)
    return {name: values[1:] for name, values in seconds.items()}, outputs


def run_script(task: str, library: Library, arguments: Sequence[str], workspace: Path) -> Output:
    """Run a script in a new process. Raises `RuntimeError` with its last error lines if it fails."""
    command = [sys.executable, str(script(task, library)), *arguments]
    if task == "search" and library.name == "pyterrier":
        command.append(str(workspace / "index"))
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace), "PYTHONPATH": str(PROJECT)}
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise RuntimeError(f"{command[1]}: {completed.stderr[-2000:]}")
    return Output.parse(completed.stdout)


def _row(task: str, library: Library, seconds: Mapping[str, Sequence[float]], outputs: Mapping[str, Output]) -> str:
    first = TASKS[task] if library is LIBRARIES[0] else ""
    lines = code_lines(script(task, library))
    if missing := library.missing(task):
        return f"| {first} | {library.name} | {lines} | not installed: {', '.join(missing)} | | | | | | | |"
    own = seconds[library.name]
    ratios = [theirs / ours for theirs, ours in zip(own, seconds[LIBRARIES[0].name], strict=True)]
    ratio = "" if library is LIBRARIES[0] else f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    output = outputs[library.name]
    metrics = " | ".join(f"{value * 100:.2f}" for value in output.a)
    difference = f"{(output.b[0] - output.a[0]) * 100:+.2f}"
    cells = (first, library.label(task), lines, f"{median(own):.2f}", ratio, metrics, difference, f"{output.p:.3f}")
    return f"| {' | '.join(map(str, cells))} | {library.test} |"
