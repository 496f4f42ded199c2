"""Many sentences encoded, killed halfway and resumed; and how long the map of them takes to its first picture.

They are those of KorQuAD's passages and, until there are enough, the first half of one and the second of another: as
long as real ones, and no two alike. MRC_SENTENCES is how many (100,000), MRC_MODEL the encoder (the packaged base).
"""

import os
import signal
import tempfile
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import psutil
from PIL import Image
from playwright.sync_api import Page

from benchmarks.app.app import opened_page, running_app
from benchmarks.material import korquad
from data.pairs.sentences import sentence_set
from data.pairs.store import keep
from data.read import read_file
from data.split import Part
from embeddings.job import EmbeddingJob, EvaluationRequest
from models.packaged import DEFAULT
from text.sentences import marked_sentences

Row = tuple[str, float, float]  # what was done, seconds, bytes
_GIB = 2**30
_PATIENCE = 600_000  # milliseconds
_KILLED_AT = 0.4  # of the work
_COLOURED = 200  # pixels that are not grey, once points are drawn
_MAP = "[data-testid=stDeckGlJsonChart] canvas"


def measure() -> list[str]:
    """Return a table of the steps, their seconds, and the most memory that a process held."""
    count, model = int(os.environ.get("MRC_SENTENCES", "100000")), os.environ.get("MRC_MODEL", DEFAULT.reference)
    lines = [f"| {count:,} sentences, {model} | seconds | most memory |", "|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        pairs = sentence_set("sentences", islice(_sentences(), count))
        request = EvaluationRequest(data=keep(pairs).key, models=(model,), part=Part.ALL)
        job = EmbeddingJob.of(request, pairs.fingerprint)
        for name, seconds, memory in (*_encoded(job, request), *_drawn(Path(folder), request)):
            lines.append(f"| {name} | {seconds:.1f} | {memory / _GIB:.2f} GiB |")
    return lines


def _sentences() -> Iterator[str]:
    texts = read_file(korquad()).question_set.passages.texts
    real = [*dict.fromkeys(text[start:end] for text in texts for start, end in marked_sentences(text))]
    yield from real
    rng = np.random.default_rng(0)
    while True:
        first, second = (real[place].split() for place in rng.integers(len(real), size=2))
        yield " ".join([*first[: len(first) // 2], *second[len(second) // 2 :]])


def _encoded(job: EmbeddingJob, request: EvaluationRequest) -> Iterator[Row]:
    """Measure a model, which encodes all; kill the process before its half, and start it again."""
    job.start(request)
    seconds, memory = _followed(job, until=_KILLED_AT)
    yield f"encoded to {job.status().share:.0%}, then killed", seconds, memory
    job.start(request)
    seconds, memory = _followed(job)
    yield "the rest, and the measures of all", seconds, memory


def _followed(job: EmbeddingJob, until: float = 2.0) -> tuple[float, float]:
    """Wait until so much is done or all; returns the seconds, and the most memory the process had. Kills it then."""
    began, memory = perf_counter(), 0.0
    process = psutil.Process(job.status().pid)
    while job.running and job.status().share < until:
        memory = max(memory, _highest(process.pid))
        sleep(0.1)
    seconds = perf_counter() - began
    if job.running:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    elif not job.done:
        raise RuntimeError(job.log(lines=20))
    return seconds, memory


def _highest(pid: int) -> float:
    """The most bytes that a process had in memory, those of mapped files included; 0 of one that has ended."""
    try:
        told = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 for line in told.splitlines() if line.startswith("VmHWM:")), 0)


def _drawn(workspace: Path, request: EvaluationRequest) -> Iterator[Row]:
    """Open the page on what was measured, then its map: the seconds until a point of it is seen."""
    with opened_page() as page, running_app(workspace) as app:
        app.wait()
        address = f"{app.address}/embeddings?pairs={request.data}&models={request.models[0]}&pairs_part=all"
        began = perf_counter()
        page.goto(address)
        page.get_by_role("tab", name="Map").wait_for(timeout=_PATIENCE)
        yield "the page, measured before", perf_counter() - began, _highest(app.pid)
        began = perf_counter()
        page.get_by_role("tab", name="Map").click()
        seconds = _until_points(page, began)
        yield "the map's first picture (wanted: 3)", seconds, _highest(app.pid)
        began = perf_counter()
        page.reload()
        yield "the map again, after a reload", _until_points(page, began), _highest(app.pid)


def _until_points(page: Page, began: float) -> float:
    canvas = page.locator(_MAP).first
    canvas.wait_for(timeout=_PATIENCE)
    while perf_counter() - began < _PATIENCE / 1000:
        pixels = np.asarray(Image.open(BytesIO(canvas.screenshot())).convert("RGB"), dtype=np.int16)
        if (np.ptp(pixels, axis=2) > 30).sum() > _COLOURED:
            return perf_counter() - began
    raise TimeoutError("no point was drawn")
