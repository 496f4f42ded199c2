"""Sets of many passages: read, kept, opened, searched and shown; seconds, and the most memory a process had.

MRC_LARGE names the sizes, "10000,100000" where it does not; a million passages take some minutes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import psutil
from playwright.sync_api import Page, WebSocket

from benchmarks.app.app import opened_page, running_app
from data.store import load, stored
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec
from retrieval.comparison.store import ComparisonJob, keep, kept_comparisons
from text.analyzers import Analyzer

_GIB = 2**30
_PATIENCE = 300_000  # milliseconds
_STEPS = {
    "imports alone": "",
    "read and keep": "keep(read_file(Path({file!r})).question_set)",
    "open": "load(stored()[0].key).relevance",
    "open, audit, split": "asked = load(stored()[0].key); audit(asked); split(asked)",
    "find a word": "passages_with(load(stored()[0].key), '설악산')",
    "compare by BM25 of words": "compared(0.9)",
    "again with another k1, tokens kept": "compared(1.2)",
}
_IMPORTS = (
    "from pathlib import Path; from data.audit.audit import audit; from data.audit.browse import passages_with; "
    "from data.read import read_file; from data.split import split; from data.store import keep, load, stored; "
    "from benchmarks.scale.large_sets import compared; "
)


def measure() -> list[str]:
    """Make, read, keep and open a set of each size, each step in a process of its own; returns lines of a table."""
    lines = ["| passages | file | step | seconds | peak memory |", "|---:|---:|---|---:|---:|"]
    for size in map(int, os.environ.get("MRC_LARGE", "10000,100000").split(",")):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "set.jsonl"
            subprocess.run([sys.executable, "-m", "benchmarks.material", str(size), str(file)], check=True)
            before = f"| {size:,} | {file.stat().st_size / 10**6:,.0f} MB |"
            for step, program in _STEPS.items():
                seconds, peak = _in_process(_IMPORTS + program.format(file=str(file)), Path(folder))
                lines.append(f"{before} {step} | {seconds:.1f} | {peak / _GIB:.2f} GiB |")
            lines += [f"{before} {line}" for line in _pages(Path(folder))]
    return lines


def compared(k1: float) -> str:
    """Compare by BM25 and keep it, as the page does; returns the comparison's key."""
    question_set = load(stored()[0].key)
    bm25 = BM25Spec(name="BM25", analyzer=Analyzer.WORD, k1=k1)
    experiment = Experiment(data=stored()[0].key, retriever=(bm25,))
    folder = ComparisonJob.of(experiment, question_set.fingerprint).folder
    keep(compare(experiment, question_set), folder)
    return folder.name


def _in_process(program: str, workspace: Path) -> tuple[float, int]:
    """Run a program; returns its seconds, and the most bytes it had in memory, those of mapped files included.

    The process reads that itself: what `os.wait4` tells counts a child with what its parent had when it was born.
    """
    start = perf_counter()
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace)}
    program += "\nprint(Path('/proc/self/status').read_text())"
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    peak = next(line for line in done.stdout.splitlines() if line.startswith("VmHWM:"))
    return perf_counter() - start, int(peak.split()[1]) * 1024


def _pages(workspace: Path) -> Iterator[str]:
    """Open the Data page and look for a word in its passages; yields the ends of lines of the table."""
    os.environ["MRC_WORKSPACE"] = str(workspace)
    with opened_page() as page, running_app(workspace) as app:
        app.wait()
        sent = _sent(page)
        yield _step(page, app.pid, sent, "Data page", lambda: page.goto(f"{app.address}/data"))
        page.locator("input[type=search]").last.fill("서울")
        yield _step(page, app.pid, sent, "its filter", lambda: page.keyboard.press("Enter"))
        kept = f"{app.address}/?comparison={kept_comparisons()[0].key}"
        yield _step(page, app.pid, sent, "a kept comparison", lambda: page.goto(kept))
        yield _step(page, app.pid, sent, "where it wins and loses", lambda: page.goto(f"{kept}&view=where"))
        asked = f"{kept}&view=why&question=q0"
        yield _step(page, app.pid, sent, "a question with its reasons", lambda: page.goto(asked))
        yield _step(page, app.pid, sent, "the same again", lambda: page.goto(asked))


def _step(page: Page, pid: int, sent: list[int], name: str, act: Callable[[], object]) -> str:
    sent.clear()
    start = perf_counter()
    act()
    page.wait_for_timeout(500)  # until the page is at work
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=_PATIENCE)
    page.wait_for_selector("h1", timeout=_PATIENCE)
    seconds = perf_counter() - start
    told = psutil.Process(pid).memory_info()
    memory = f"{(told.rss - told.shared) / _GIB:.2f} GiB and the mapped set"
    return f"{name}, {sum(sent) / 1000:,.0f} kB sent | {seconds:.1f} | {memory} |"


def _sent(page: Page) -> list[int]:
    """Sizes of what the server sends over its socket from now on, in bytes."""
    sizes: list[int] = []

    def follow(socket: WebSocket) -> None:
        socket.on("framereceived", lambda payload: sizes.append(len(payload)))

    page.on("websocket", follow)
    return sizes
