"""The scripts and the notebook of `examples/`, each run as a user runs it: in its folder, on its own data."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import IMPORT_ROOT

EXAMPLES = IMPORT_ROOT / "examples"
NOTEBOOK = EXAMPLES / "compare.ipynb"
RUN_CELLS = """
import ast, json, pathlib, sys

names = {}
for cell in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] != "code":
        continue
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop()  # a notebook displays the value of the last line
    exec(compile(tree, "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    display = getattr(value, "_repr_html_", None) or getattr(value, "_repr_mimebundle_", None)
    assert display is not None and display(), value
    print(type(value).__name__)
"""


def run(*words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(IMPORT_ROOT), "PYTHONUTF8": "1"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=EXAMPLES, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_compares_own_file() -> None:
    printed = run("compare_own_file.py")
    assert "12 questions, 12 passages" in printed
    assert "BM25, k1 = 1.6" in printed
    assert "장영실" in printed


@pytest.mark.slow
def test_evaluates_trec_runs_and_tests_their_difference() -> None:
    lines = [line.split() for line in run("evaluate_trec_run.py").splitlines()]
    ap = {line[0]: float(line[2]) for line in lines if line and line[0] in ("good", "poor") and len(line) == 6}
    assert ap["good"] == 1.0
    assert ap["poor"] == 0.5
    assert any(line[:3] == ["good", "poor", "AP"] and "True" in line for line in lines)


@pytest.mark.slow
def test_trains_and_compares_before_and_after(tmp_path: Path) -> None:
    rows = "".join(f"Who built clock {n}?,Clock {n} was built by person {n}.,Article {n}\n" for n in range(60))
    (tmp_path / "clocks.csv").write_text(f"question,context,title\n{rows}", encoding="utf-8")
    printed = run("train_and_compare.py", str(tmp_path / "clocks.csv"))
    assert "before" in printed
    assert "Dense · bi-encoder" in printed


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text(RUN_CELLS, encoding="utf-8")
    displayed = run(str(script), str(NOTEBOOK)).splitlines()
    assert len(displayed) == 11
    assert "ComparisonResult" in displayed[-1]


def test_notebook_is_stored_without_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert all(not cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
