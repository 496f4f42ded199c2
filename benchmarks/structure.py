"""Count lines, files and functions of a checkout, and trace five runs of the program through its files.

    python benchmarks/structure.py [--root CHECKOUT]

A trace records the first call of each function of the product. `files` counts the files entered; `returns` counts how
often the trace returns to a file that it had left. The environment needs the requirements of the program; compare two
checkouts in the same environment.
"""

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOMS = ("mrc_workbench", "data", "models", "retrieval", "training", "labs", "workbench")
QUESTIONS = 40
RUNS = {
    "upload": """
from importlib import import_module
for name in ("data.questions.read", "data.questions.reading", "data.questions", "data.reading"):
    try:
        read = import_module(f"mrc_workbench.{name}").read_file
        break
    except (ImportError, AttributeError):
        continue
with traced():
    read(FILE)
""",
    "experiment": """
import mrc_workbench as mrc
data = mrc.load(FILE)
with traced():
    mrc.compare(data, SPECS)
""",
    "training": """
import mrc_workbench as mrc
data = mrc.load(FILE)
with traced():
    mrc.train("bi-encoder", data, base="starter", epochs=1)
""",
    "lab": """
from mrc_workbench.workbench.cli import main
with traced():
    main(["language", "compare-tokenizers", "--data", str(FILE), "--vocabulary", "1000", "--kind", "bpe"])
""",
    "query": """
import mrc_workbench as mrc
data = mrc.load(FILE)
result = mrc.compare(data, SPECS)
with traced():
    result["BM25"].search("자격루는 누가 만들었는가?", k=5)
""",
}
TRACER = """
import json, sys, threading
from contextlib import contextmanager
from pathlib import Path
ROOT, FILE, OUT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3])
SPECS = ["bm25", {"kind": "dense", "name": "Dense", "model": "starter"},
         {"kind": "hybrid", "name": "Hybrid", "retrievers": ["BM25", "Dense"]}]
rooms = tuple(str(ROOT / room) + "/" for room in json.loads(sys.argv[4]))
@contextmanager
def traced():
    seen = set()
    route = []
    def record(frame, event, _):
        if event != "call":
            return
        code = frame.f_code
        if code in seen or code.co_name == "<module>":
            return
        seen.add(code)
        if code.co_filename.startswith(rooms) and (not route or route[-1] != code.co_filename):
            route.append(code.co_filename)
    sys.setprofile(record); threading.setprofile(record)
    try:
        yield
    finally:
        sys.setprofile(None); threading.setprofile(None)
        OUT.write_text(json.dumps({"files": len(set(route)), "returns": len(route) - len(set(route))}))
"""


def trace_run(root: Path, name: str) -> dict[str, int]:
    """Trace a run in a new process and workspace."""
    with tempfile.TemporaryDirectory() as folder:
        working_folder = Path(folder)
        script = working_folder / "walk.py"
        out = working_folder / "out.json"
        file = working_folder / "questions.csv"
        script.write_text(TRACER + RUNS[name], encoding="utf-8")
        passage = "자격루 {0}호는 세종 때 장영실 {0}세가 만든 물시계이다. 궁궐에 놓였다."
        rows = [f"자격루 {row}호는 누가 만들었는가?,{passage.format(row)},장영실 {row}세" for row in range(QUESTIONS)]
        file.write_text("\n".join(["question,context,answer", *rows]), encoding="utf-8")
        environment = {**os.environ, "MRC_WORKSPACE": str(working_folder / "workspace"), "PYTHONPATH": str(root)}
        words = [sys.executable, str(script), str(root), str(file), str(out), json.dumps(ROOMS)]
        completed = subprocess.run(words, check=False, cwd=root, env=environment, capture_output=True, text=True)
        if not out.is_file():
            raise RuntimeError(f"the run {name} failed: {completed.stderr[-2000:]}")
        counted: dict[str, int] = json.loads(out.read_text(encoding="utf-8"))
        return counted


def lines_of(paths: list[Path]) -> int:
    """Count the lines of files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def function_lengths(paths: list[Path]) -> list[int]:
    """Return the number of lines of each function and method, with its docstring and without its decorators."""
    lengths = []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
    return lengths


def counts(root: Path) -> dict[str, Any]:
    """Count lines, files, functions and classes of the product, and lines and tests of its tests."""
    product = [root / "app.py", *(path for room in ROOMS for path in sorted((root / room).rglob("*.py")))]
    tests = sorted((root / "tests").rglob("*.py"))
    lengths = function_lengths(product)
    classes = [
        node.name
        for path in product
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    return {
        "product_lines": lines_of(product),
        "product_files": len(product),
        "test_lines": lines_of(tests),
        "test_files": len(tests),
        "functions": len(lengths),
        "median_function_lines": statistics.median(lengths),
        "functions_over_50_lines": sum(length > 50 for length in lengths),
        "classes": len(classes),
        "lines_by_room": {
            room: lines_of(sorted((root / room).rglob("*.py"))) for room in ROOMS if (root / room).is_dir()
        },
    }


def main() -> int:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--no-runs", action="store_true")
    options = parser.parse_args()
    root = options.root.resolve()
    measured = counts(root)
    if not options.no_runs:
        measured["runs"] = {name: trace_run(root, name) for name in RUNS}
    print(json.dumps(measured, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
