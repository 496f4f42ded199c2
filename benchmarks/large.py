"""Measure time and memory for large data: `python -m benchmarks large_sets`, `many_sentences`, `tokenizer_training`.

`large_sets` reads, stores, opens, searches and displays datasets of `MRC_LARGE` passages (10000,100000; a million takes
some minutes). `many_sentences` encodes `MRC_SENTENCES` (100,000) sentences with `MRC_MODEL` (the packaged base) in a
process that is killed and resumed, and renders their map. `tokenizer_training` trains tokenizers of `MRC_VOCABULARY`
(32,000) tokens on `MRC_TEXT_BYTES` (1,000,000,000) of text.

The sentences are those of KorQuAD's passages, then combinations of the halves of two sentences: their lengths are
realistic and they are distinct. The words of the text are sampled with KorQuAD's frequencies; new words follow Heaps'
law.
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import psutil
from PIL import Image
from playwright.sync_api import Page, WebSocket

from benchmarks.app.app import opened_page, running_app
from benchmarks.synthetic_data import korquad, peak_memory
from mrc_workbench.data.pairs import sentence_set
from mrc_workbench.data.pairs.store import save_pairs
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import load, stored
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.marking import marked_sentences
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.labs.embeddings.results import EvaluationRequest
from mrc_workbench.labs.embeddings.study import STUDY
from mrc_workbench.models.language.tokenizer_training import MAX_CHARACTERS, PreTokenization, TokenizerKind
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, list_comparisons, save_comparison

_GIB = 2**30
_TIMEOUT = 300_000  # milliseconds
_STEPS = {
    "imports only": "",
    "read and store": "save_question_set(read_file(Path({file!r})).question_set)",
    "open": "load(stored()[0].key).relevance",
    "open, audit, split": "question_set = load(stored()[0].key); audit(question_set); split(question_set)",
    "search for a word": "find_passage_rows(load(stored()[0].key), '설악산')",
    "compare with BM25 (word analyzer)": "compare_bm25(0.9)",
    "rerun with another k1, tokens cached": "compare_bm25(1.2)",
}
_IMPORTS = (
    "from pathlib import Path; from mrc_workbench.data.questions import audit, find_passage_rows; "
    "from mrc_workbench.data.questions.read import read_file; from mrc_workbench.data.split import split; "
    "from mrc_workbench.data.store import load, save_question_set, stored; "
    "from benchmarks.large import compare_bm25; "
)


def large_sets() -> list[str]:
    """Generate, read, store and open datasets of each size, each step in a new process; returns a Markdown table."""
    lines = ["| passages | file | step | seconds | peak memory |", "|---:|---:|---|---:|---:|"]
    for size in map(int, os.environ.get("MRC_LARGE", "10000,100000").split(",")):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "set.jsonl"
            subprocess.run([sys.executable, "-m", "benchmarks.synthetic_data", str(size), str(file)], check=True)
            before = f"| {size:,} | {file.stat().st_size / 10**6:,.0f} MB |"
            for step, program in _STEPS.items():
                seconds, peak = _run_program(_IMPORTS + program.format(file=str(file)), Path(folder))
                lines.append(f"{before} {step} | {seconds:.1f} | {peak / _GIB:.2f} GiB |")
            lines += [f"{before} {line}" for line in _pages(Path(folder))]
    return lines


def compare_bm25(k1: float) -> str:
    """Compare with BM25 and store the comparison, as the page does; returns its key."""
    question_set = load(stored()[0].key)
    bm25 = BM25Spec(name="BM25", analyzer=Analyzer.WORD, k1=k1)
    experiment = Experiment(data=stored()[0].key, retriever=(bm25,))
    folder = ComparisonJob.of(experiment, question_set.fingerprint).folder
    save_comparison(compare(experiment, question_set), folder)
    return folder.name


def _run_program(program: str, workspace: Path) -> tuple[float, int]:
    """Run a program; returns its seconds, and its peak memory in bytes including mapped files."""
    start = perf_counter()
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace)}
    program += "\nfrom benchmarks.synthetic_data import peak_memory; print(peak_memory())"
    command = [sys.executable, "-c", program]
    completed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return perf_counter() - start, int(completed.stdout.splitlines()[-1])


def _pages(workspace: Path) -> Iterator[str]:
    """Time the Data page, its filter and the views of a comparison; yields the last cells of the table's rows."""
    os.environ["MRC_WORKSPACE"] = str(workspace)
    with opened_page() as page, running_app(workspace) as app:
        app.wait()
        sent = _record_frame_sizes(page)
        yield _timed_step(page, app.pid, sent, "Data page", lambda: page.goto(f"{app.address}/data"))
        page.locator("input[type=search]").last.fill("서울")
        yield _timed_step(page, app.pid, sent, "Data page, filtered", lambda: page.keyboard.press("Enter"))
        comparison_url = f"{app.address}/?comparison={list_comparisons()[0].key}"
        yield _timed_step(page, app.pid, sent, "a stored comparison", lambda: page.goto(comparison_url))
        yield _timed_step(page, app.pid, sent, "its view Where", lambda: page.goto(f"{comparison_url}&view=where"))
        question_url = f"{comparison_url}&view=why&question=q0"
        yield _timed_step(page, app.pid, sent, "its view Why, one question", lambda: page.goto(question_url))
        yield _timed_step(page, app.pid, sent, "the same question, second time", lambda: page.goto(question_url))


def _timed_step(page: Page, pid: int, sent: list[int], name: str, act: Callable[[], object]) -> str:
    sent.clear()
    start = perf_counter()
    act()
    page.wait_for_timeout(500)  # until the script runs
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=_TIMEOUT)
    page.wait_for_selector("h1", timeout=_TIMEOUT)
    seconds = perf_counter() - start
    memory_info = psutil.Process(pid).memory_info()
    memory = f"{(memory_info.rss - memory_info.shared) / _GIB:.2f} GiB plus the mapped dataset"
    return f"{name}, {sum(sent) / 1000:,.0f} kB sent | {seconds:.1f} | {memory} |"


def _record_frame_sizes(page: Page) -> list[int]:
    """Return a list that receives the size of each frame that the server sends from now on, in bytes."""
    sizes: list[int] = []

    def follow(socket: WebSocket) -> None:
        socket.on("framereceived", lambda payload: sizes.append(len(payload)))

    page.on("websocket", follow)
    return sizes


Row = tuple[str, float, float]  # step, seconds, bytes
_MAP_TIMEOUT = 600_000  # milliseconds
_KILLED_AT = 0.4  # progress
_MIN_COLOURED_PIXELS = 200  # not grey, once points are rendered
_MAP = "[data-testid=stDeckGlJsonChart] canvas"


def many_sentences() -> list[str]:
    """Return a Markdown table: seconds and peak memory of each step."""
    count = int(os.environ.get("MRC_SENTENCES", "100000"))
    model = os.environ.get("MRC_MODEL", DEFAULT.reference)
    lines = [f"| {count:,} sentences, {model} | seconds | peak memory |", "|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        pairs = sentence_set("sentences", islice(_sentences(), count))
        request = EvaluationRequest(data=save_pairs(pairs).key, models=(model,), part=Part.ALL)
        job = STUDY.job(request, pairs.fingerprint)
        for name, seconds, memory in (*_encode_killed_and_resumed(job, request), *_open_map(Path(folder), request)):
            lines.append(f"| {name} | {seconds:.1f} | {memory / _GIB:.2f} GiB |")
    return lines


def _sentences() -> Iterator[str]:
    texts = read_file(korquad()).question_set.passages.texts
    real = [*dict.fromkeys(text[start:end] for text in texts for start, end in marked_sentences(text))]
    yield from real
    rng = np.random.default_rng(0)
    while True:
        first, second = (real[row].split() for row in rng.integers(len(real), size=2))
        yield " ".join([*first[: len(first) // 2], *second[len(second) // 2 :]])


def _encode_killed_and_resumed(job: StudyJob[Any, Any], request: EvaluationRequest) -> Iterator[Row]:
    """Evaluate a model, which encodes all sentences; kill the process at 40% and resume it."""
    job.start(request)
    seconds, memory = _wait_for_job(job, until=_KILLED_AT)
    yield f"encoding up to {job.status().progress:.0%}, then killed", seconds, memory
    job.start(request)
    seconds, memory = _wait_for_job(job)
    yield "the rest, and all metrics", seconds, memory


def _wait_for_job(job: StudyJob[Any, Any], until: float = 2.0) -> tuple[float, float]:
    """Wait for the job, or kill it at the progress `until`; returns the seconds and the peak memory in bytes."""
    began = perf_counter()
    memory = 0.0
    process = psutil.Process(job.status().pid)
    while job.running and job.status().progress < until:
        memory = max(memory, peak_memory(process.pid))
        sleep(0.1)
    seconds = perf_counter() - began
    if job.running:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    elif not job.done:
        raise RuntimeError(job.log(lines=20))
    return seconds, memory


def _open_map(workspace: Path, request: EvaluationRequest) -> Iterator[Row]:
    """Time the page of the evaluation, and its map until the first point appears."""
    with opened_page() as page, running_app(workspace) as app:
        app.wait()
        address = f"{app.address}/embeddings?pairs={request.data}&models={request.models[0]}&pairs_part=all"
        began = perf_counter()
        page.goto(address)
        page.get_by_role("tab", name="Map").wait_for(timeout=_MAP_TIMEOUT)
        yield "the page with stored metrics", perf_counter() - began, peak_memory(app.pid)
        began = perf_counter()
        page.get_by_role("tab", name="Map").click()
        seconds = _seconds_until_points(page, began)
        yield "the map, first rendering (target: 3)", seconds, peak_memory(app.pid)
        began = perf_counter()
        page.reload()
        yield "the map after a reload", _seconds_until_points(page, began), peak_memory(app.pid)


def _seconds_until_points(page: Page, began: float) -> float:
    canvas = page.locator(_MAP).first
    canvas.wait_for(timeout=_MAP_TIMEOUT)
    while perf_counter() - began < _MAP_TIMEOUT / 1000:
        pixels = np.asarray(Image.open(BytesIO(canvas.screenshot())).convert("RGB"), dtype=np.int16)
        if (np.ptp(pixels, axis=2) > 30).sum() > _MIN_COLOURED_PIXELS:
            return perf_counter() - began
    raise TimeoutError("no point was rendered")


_WORDS_PER_BATCH = 200_000
_WORDS_PER_DOCUMENT = 100


def tokenizer_training() -> list[str]:
    """Return a Markdown table: seconds, including reading and evaluation, and peak memory of each kind."""
    size = int(os.environ.get("MRC_TEXT_BYTES", "1000000000"))
    vocabulary = os.environ.get("MRC_VOCABULARY", "32000")
    lines = [
        f"| vocabulary of {vocabulary} tokens, {size / 1e6:,.0f} MB of text | seconds | peak memory |",
        "|---|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "generated.txt")
        with text.open("w", encoding="utf-8") as file:
            for document in documents(_korquad_words(), size):
                file.write(document + "\n")
        for kind, split in [
            *((kind, PreTokenization.WORDS) for kind in TokenizerKind),
            (TokenizerKind.BPE, PreTokenization.MORPHEMES),
        ]:
            arguments = ["--data", str(text), "--kind", kind, "--split", split, "--vocabulary", vocabulary]
            command = [sys.executable, "-m", "mrc_workbench", "language", "compare-tokenizers", "--json", *arguments]
            seconds, memory = _run_command(command)
            lines.append(f"| {kind}, {split} | {seconds:,.0f} | {memory / _GIB:.2f} GiB |")
    return [*lines, "", f"From a larger text, tokenizers learn from about {MAX_CHARACTERS:,} characters."]


def _run_command(words: list[str]) -> tuple[float, int]:
    """Run a command; returns its seconds and its peak memory in bytes. Raises `RuntimeError` if it fails."""
    began = perf_counter()
    process = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return perf_counter() - began, used.ru_maxrss * 1024


def documents(source_words: Sequence[str], size: int, seed: int = 0) -> Iterator[str]:
    """Yield documents of 100 words, sampled from `source_words` and new words, until they have `size` bytes."""
    words_of = np.array(source_words, dtype=object)
    (beta, scale) = fit_heaps_law(source_words)
    rng = np.random.default_rng(seed)
    written = 0
    words = len(source_words)
    while written < size:
        sampled = words_of[rng.integers(len(source_words), size=_WORDS_PER_BATCH)]
        new = int(scale * ((words + _WORDS_PER_BATCH) ** beta - words**beta))
        for position in rng.choice(_WORDS_PER_BATCH, new, replace=False).tolist():
            first, second = words_of[rng.integers(len(source_words), size=2)]
            sampled[position] = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
        words += _WORDS_PER_BATCH
        for start in range(0, _WORDS_PER_BATCH, _WORDS_PER_DOCUMENT):
            document = " ".join(sampled[start : start + _WORDS_PER_DOCUMENT])
            yield document
            written += len(document.encode()) + 1
            if written >= size:
                return


def fit_heaps_law(words: Sequence[str]) -> tuple[float, float]:
    """Fit `distinct = scale * words^exponent` to the first half of the words and to all; returns exponent and scale."""
    half = len(words) // 2
    distinct = len({*words})
    exponent = math.log(distinct / len({*words[:half]})) / math.log(len(words) / half)
    return exponent, distinct / len(words) ** exponent


def _korquad_words() -> list[str]:
    return [word for text in read_file(korquad()).question_set.passages.texts for word in text.split()]
