"""Measure CPU seconds and peak memory of reading files: `python -m benchmarks file_reading`.

Each file is read in a new process. `BEFORE` is the folder of another checkout; then both checkouts read alternately,
and the table has their ratios. `READING_ROWS` sets the sizes of the tables ("50000,1000000"), which have KorQuAD's
words and five questions per passage.
"""

import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.synthetic_data import generate_texts, korquad
from mrc_workbench.data.workspace import PROJECT

_ROWS = "50000,1000000"
_QUESTIONS_PER_PASSAGE = 5
_PASSAGE_LENGTH = 150  # characters
_ROUNDS = {50_000: 5, 1_000_000: 1}  # by the maximum number of rows; the fastest round counts
_PROGRAM = """
import json, sys
from pathlib import Path
from time import process_time
try:
    from mrc_workbench.data.questions.read import read_file
except ImportError:  # BEFORE may name a checkout without this package
    from data.questions.read import read_file
began = process_time()
read_file(Path(sys.argv[1]))
seconds = process_time() - began
status = Path("/proc/self/status").read_text()
peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
print(json.dumps([seconds, peak]))
"""


def file_reading() -> list[str]:
    """Return a Markdown table: seconds and memory by file, with ratios to the checkout `BEFORE` if it is set."""
    before = os.environ.get("BEFORE", "")
    checkouts = [PROJECT, Path(before)] if before else [PROJECT]
    lines = ["| file | CPU seconds | peak memory |" + (" CPU seconds, ratio | memory, ratio |" if before else "")]
    lines.append("|---|---:|---:|" + ("---:|---:|" if before else ""))
    with tempfile.TemporaryDirectory() as folder:
        for name, path, rows in _files(Path(folder)):
            rounds = next(count for most, count in _ROUNDS.items() if rows <= most)
            measured = [[_read(path, checkout) for checkout in checkouts] for _ in range(rounds)]
            best = [tuple(map(min, zip(*runs, strict=True))) for runs in zip(*measured, strict=True)]
            (seconds, peak), *others = best
            ratios = [f" {seconds / other:.2f} | {peak / memory:.2f} |" for other, memory in others]
            lines.append(f"| {name} | {seconds:.2f} | {peak / 2**20:,.0f} MiB |{''.join(ratios)}")
    return lines


def _files(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the description, path and number of rows of each file."""
    yield "KorQuAD dev, JSON, 5,774 questions", korquad(), 5_774
    for rows in map(int, os.environ.get("READING_ROWS", _ROWS).split(",")):
        path = folder / f"{rows}.csv"
        _write_rows(path, rows)
        yield f"CSV, {rows:,} rows", path, rows


def _write_rows(path: Path, rows: int) -> None:
    rng = random.Random(0)  # noqa: S311 - no secret
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "title", "context", "question", "answer"])
        passages = generate_texts(-(-rows // _QUESTIONS_PER_PASSAGE))
        for number, passage in enumerate(passage[:_PASSAGE_LENGTH].strip() for passage in passages):
            words = passage.split()
            for _ in range(_QUESTIONS_PER_PASSAGE):
                question = " ".join(rng.choices(words, k=6))
                writer.writerow([f"q{rng.getrandbits(64)}", f"글 {number // 7}", passage, question, rng.choice(words)])


def _read(path: Path, checkout: Path) -> tuple[float, int]:
    command = [sys.executable, "-c", _PROGRAM, str(path)]
    completed = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True)
    seconds, peak = json.loads(completed.stdout)
    return seconds, peak
