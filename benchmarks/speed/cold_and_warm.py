"""Whole-process seconds of one comparison (BM25, starter dense, hybrid), with an empty workspace and again."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.material import korquad

_EXPERIMENT = """
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


def measure() -> list[str]:
    """Run the comparison twice in a fresh workspace; returns lines of a report."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = Path(folder, "experiment.toml")
        experiment.write_text(_EXPERIMENT.format(data=korquad()), encoding="utf-8")
        cold, warm = (_seconds(experiment, Path(folder)) for _ in range(2))
        page = _seconds(experiment, Path(folder), "--tell")
    return [
        f"comparison of KorQuAD dev, nothing kept yet: {cold:6.1f} s   (wanted: under 30)",
        f"the same again, everything kept:             {warm:6.1f} s   (wanted: under 5)",
        f"and as the page asks for it, without the files: {page:4.1f} s",
    ]


def _seconds(experiment: Path, folder: Path, *options: str) -> float:
    command = [sys.executable, "-m", "retrieval", "compare", str(experiment), "--out", str(folder / "out"), *options]
    environment = {**os.environ, "MRC_WORKSPACE": str(folder / "workspace")}
    start = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
