"""Measure `mrc serve` under load, and estimate resources: `python -m benchmarks serve`, `at_scale`.

`serve` compares the server with the same retriever called in-process: KorQuAD dev, BM25 fused with the packaged base.
`SERVE_CLIENTS` (32) each send one question after the other for `SERVE_SECONDS` (60), on the cores of the server.
`at_scale` computes memory and time for numbers of passages from measurements.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from time import perf_counter

import httpx
import numpy as np
import psutil

from benchmarks import peers
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.workspace import write_text
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.experiment import Experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.searcher import open_searcher

_NAME = "Hybrid"
_K = 10
_BATCH_SIZE = 32  # questions, the server's largest batch
_MIB = 2**20
_TIMEOUT = 300.0  # seconds until the server has built its indexes


def serve() -> list[str]:
    """Measure the retriever in-process, then with one client and with all; returns a Markdown table."""
    seconds = float(os.environ.get("SERVE_SECONDS", "60"))
    clients = int(os.environ.get("SERVE_CLIENTS", "32"))
    questions = [question.text for question in read_file(korquad()).question_set.questions]
    lines = [
        "| | questions per second | p50 | p99 | errors | memory before | memory after |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        specs = (
            BM25Spec(name="BM25"),
            DenseSpec(name="Dense", model=DEFAULT.reference),
            HybridSpec(name=_NAME, retrievers=("BM25", "Dense")),
        )
        file = Path(folder, "experiment.toml")
        write_text(file, write_experiment(Experiment(data=str(korquad()), retriever=specs)))
        search = partial(open_searcher(file, _NAME).search, k=_K)
        for size, name in ((1, "in-process, one at a time"), (_BATCH_SIZE, f"in-process, batches of {_BATCH_SIZE}")):
            latencies = _time_in_process(search, questions, size, seconds / 3)
            lines.append(_line(name, size * len(latencies) / sum(latencies), latencies))
        del search
        with _running_server(file) as (address, process):
            # not counted: memory grows during the first questions
            asyncio.run(_measure_load(address, questions, 1, seconds / 10))
            for count in (1, clients):
                asyncio.run(_measure_load(address, questions, count, seconds / 10))
                before = _memory(process)
                latencies, errors, total = asyncio.run(_measure_load(address, questions, count, seconds))
                memory = f"{before:,.0f} MiB | {_memory(process):,.0f} MiB"
                name = f"`mrc serve`, {count} client{'s'[: count - 1]}"
                lines.append(_line(name, len(latencies) / total, latencies, str(errors), memory))
    return lines


def _line(name: str, rate: float, latencies: Sequence[float], errors: str = "–", memory: str = "– | –") -> str:
    p50, p99 = (1000 * float(percentile) for percentile in np.percentile(latencies, (50, 99)))
    return f"| {name} | {rate:,.1f} | {p50:,.1f} ms | {p99:,.1f} ms | {errors} | {memory} |"


def _time_in_process(
    search: Callable[[list[str]], object], texts: Sequence[str], size: int, seconds: float
) -> list[float]:
    """Search batches of `size` questions for `seconds`; returns the seconds of each batch."""
    questions = cycle(texts)
    latencies = list[float]()
    end = perf_counter() + seconds
    while perf_counter() < end:
        batch = [next(questions) for _ in range(size)]
        began = perf_counter()
        search(batch)
        latencies.append(perf_counter() - began)
    return latencies


@contextmanager
def _running_server(file: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the experiment until the block ends; yields the address and the process once the server is healthy."""
    command = [sys.executable, "-m", "mrc_workbench", "serve", str(file), "--retriever", _NAME, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = next(line for line in process.stdout or () if line.startswith("serving ")).split()[-1]
            until = perf_counter() + _TIMEOUT
            while True:
                try:
                    httpx.get(f"{address}/healthz").raise_for_status()
                    break
                except httpx.TransportError:
                    if perf_counter() > until:
                        raise
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def _memory(process: psutil.Process) -> float:
    """Private memory of the process in MiB, without mapped files."""
    return float(process.memory_full_info().uss / _MIB)


async def _measure_load(
    address: str, texts: Sequence[str], clients: int, seconds: float
) -> tuple[list[float], int, float]:
    """Search with several clients; returns the seconds of each answer, the number of errors, and the total seconds."""
    questions = cycle(texts)
    latencies = list[float]()
    errors = 0
    began = perf_counter()

    async def search_repeatedly(client: httpx.AsyncClient) -> None:
        nonlocal errors
        while perf_counter() < began + seconds:
            start = perf_counter()
            try:
                answer = await client.post("/search", json={"question": next(questions), "k": _K})
                answer.raise_for_status()
                latencies.append(perf_counter() - start)
            except httpx.HTTPError:
                errors += 1

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits, trust_env=False) as client:
        await asyncio.gather(*(search_repeatedly(client) for _ in range(clients)))
    return latencies, errors, perf_counter() - began


_GIB = 2**30
_SIZES = (1_000_000, 10_000_000, 100_000_000)
_MEASURED_AT = 1_000_000  # passages, in results.json
_ENCODED_PASSAGES = 128
_HOURS = 730  # per month
_DIMENSIONS = 384  # of the packaged base


def at_scale() -> list[str]:
    """Extrapolate memory and time from measurements of a million passages and of KorQuAD; returns two tables.

    `SCALE_MEMORY` is the usable memory of a machine in GiB (48), `SCALE_PRICE` an optional price per GiB and hour.
    """
    memory = float(os.environ.get("SCALE_MEMORY", "48"))
    price = os.environ.get("SCALE_PRICE")
    texts = read_file(korquad()).question_set.passages.indexed_texts(title=True)
    kiwi = _find_result("Morphological analysis (Kiwi)", "961 passages")
    index_size = _find_result("BM25 index size on disk", "1,000,000 passages")
    bm25 = _find_result("BM25 search, one thread", "200 questions one at a time, top 100, 1,000,000 passages")
    int8 = _find_result("int8 search, one question", f"1,000,000 vectors, {_DIMENSIONS} dimensions")
    measured = {
        "text, bytes per passage": float(np.mean([len(text.encode()) for text in texts])),
        "BM25 index, bytes per passage": index_size.ours * _MIB / _MEASURED_AT,
        "vector of the packaged base, bytes": 4.0 * _DIMENSIONS,
        "the same with 8 bits per dimension": 1.0 * _DIMENSIONS,
        "BM25, ns per passage and question": 1e9 * bm25.ours / (200 * _MEASURED_AT),
        "8-bit vectors, ns per passage and question": 1e9 * int8.ours / _MEASURED_AT,
        "analysis, passages per second": len(texts) / kiwi.ours,
        "encoding, passages per second": _encoding_rate([*texts]),
    }
    text, index, _, small, lexical, vectors, analyzed, encoded = measured.values()
    full = measured["vector of the packaged base, bytes"]
    rows: list[tuple[str, Callable[[int], float], str]] = [
        ("texts on disk, GiB", lambda n: n * text / _GIB, "bytes per passage"),
        ("BM25 index, GiB", lambda n: n * index / _GIB, "bytes per passage"),
        ("vectors, GiB", lambda n: n * full / _GIB, "bytes per vector"),
        ("8-bit vectors, GiB", lambda n: n * small / _GIB, "bytes per vector"),
        ("memory of BM25 and vectors, GiB", lambda n: n * (index + full) / _GIB, "sum"),
        ("memory of BM25 and 8-bit vectors, GiB", lambda n: n * (index + small) / _GIB, "sum"),
        (
            "machines per replica, 8-bit vectors",
            lambda n: np.ceil(n * (index + small) / _GIB / memory),
            "memory / `SCALE_MEMORY`",
        ),
        (
            "latency of a single question on one machine, ms",
            lambda n: n * (lexical + vectors) / 1e6,
            "BM25 + 8-bit vectors",
        ),
        ("analysis, machine hours", lambda n: n / analyzed / 3600, "passages / rate"),
        ("encoding, machine hours", lambda n: n / encoded / 3600, "passages / rate"),
        ("GiB hours per month and replica", lambda n: n * (index + small) / _GIB * _HOURS, "memory × 730"),
    ]
    if price:
        cost = float(price) * _HOURS / _GIB
        rows.append(
            (f"price per month at {price} per GiB and hour", lambda n: n * (index + small) * cost, "× `SCALE_PRICE`")
        )
    lines = [
        "| measured, or defined by the format | |",
        "|---|---:|",
        *(f"| {name} | {peers.format_number(value)} |" for name, value in measured.items()),
    ]
    lines += [
        "",
        f"| passages | {' | '.join(f'{size:,}' for size in _SIZES)} | computed as |",
        "|---|---:|---:|---:|---|",
    ]
    return lines + [
        f"| {name} | {' | '.join(peers.format_number(compute(size)) for size in _SIZES)} | {how} |"
        for name, compute, how in rows
    ]


def _find_result(name: str, size: str) -> peers.PeerResult:
    """Return the first result of a task and size; `ours` is the same for all peers."""
    return next(result for result in peers.load_results() if result.name == name and result.size == size)


def _encoding_rate(texts: list[str]) -> float:
    DEFAULT.write()
    encoder = BiEncoder(find_model(DEFAULT.reference), texts)
    sample = texts[:: len(texts) // _ENCODED_PASSAGES][:_ENCODED_PASSAGES]
    encoder.encode("passage", sample[:8])  # loads
    began = perf_counter()
    encoder.encode("passage", sample)
    return len(sample) / (perf_counter() - began)
