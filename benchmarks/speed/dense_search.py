"""Measure build time, search time, memory and recall of vector indexes: `python -m benchmarks dense_search`.

Synthetic vectors form clusters. `DENSE_SIZES` sets the numbers of vectors (`10000,100000`; HNSW of 1000000 takes long).
Each index is built in a new process. The vectors are memory-mapped, so peak memory counts copies and touched pages.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import measure_seconds
from benchmarks.synthetic_data import peak_memory
from mrc_workbench.retrieval.dense import IndexKind, VectorIndex

_DIMENSIONS = 384
_VECTORS_PER_CLUSTER = 100
_SPREAD = 2.0
_QUESTIONS = 1000
_SINGLE = 50
_DEPTH = 100
_FLAT = "faiss-flat"


def dense_search() -> list[str]:
    """Return a Markdown table with a row per index and size."""
    lines = [
        "| vectors | index | build, s | ms per question, single | batch | index, MB | peak memory, MB "
        "| recall@10 | @100 |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    measured = []
    for size in (int(word) for word in os.environ.get("DENSE_SIZES", "10000,100000").split(",")):
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), size)
            results = {kind: _measure_in_subprocess(Path(folder), kind) for kind in (*IndexKind, _FLAT)}
        lines += [_line(size, kind, result) for kind, result in results.items()]
        measured += _compare_with_exact(size, results)
    peers.save_results(measured)
    return lines


def _write(folder: Path, size: int) -> None:
    """Write unit vectors in clusters of a hundred, and questions near some of them; seeded."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((max(1, size // _VECTORS_PER_CLUSTER), _DIMENSIONS), dtype=np.float32)
    shape = (size, _DIMENSIONS)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, size, 10_000):
        rows = np.arange(start, min(size, start + 10_000))
        vectors[rows] = _normalize(
            centers[rows % len(centers)] + _SPREAD * rng.standard_normal((len(rows), _DIMENSIONS))
        )
    vectors.flush()
    sources = np.array(vectors[rng.integers(0, size, _QUESTIONS)])
    noise = 0.5 / np.sqrt(_DIMENSIONS) * rng.standard_normal((_QUESTIONS, _DIMENSIONS))
    np.save(folder / "questions.npy", _normalize(sources + noise))


def _normalize(vectors: np.ndarray) -> np.ndarray:
    normalized: np.ndarray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return normalized


def _measure_in_subprocess(folder: Path, kind: str) -> dict[str, Any]:
    """Measure an index in a new process. The exact index comes first and stores its results for the others."""
    subprocess.run([sys.executable, "-m", "benchmarks.speed.dense_search", kind, str(folder)], check=True)
    result: dict[str, Any] = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
    return result


def _measure_index(kind: str, folder: Path) -> None:
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    questions = np.load(folder / "questions.npy")
    start = perf_counter()
    index: Any = _flat_index(vectors) if kind == _FLAT else VectorIndex(vectors, IndexKind(kind))
    build_seconds = perf_counter() - start
    index.search(questions[:1], _DEPTH)
    single = [measure_seconds(partial(index.search, questions[row : row + 1], _DEPTH)) for row in range(_SINGLE)]
    batch = [measure_seconds(lambda: index.search(questions, _DEPTH)) for _ in range(3)]
    rows = index.search(questions, _DEPTH)[1]
    if kind == IndexKind.EXACT:
        np.save(folder / "exact.npy", rows)
    exact = np.load(folder / "exact.npy")
    recall = {
        k: float(np.mean([len(np.intersect1d(a[:k], b[:k])) / k for a, b in zip(rows, exact, strict=True)]))
        for k in (10, 100)
    }
    result = {
        "build": build_seconds,
        "single": median(single),
        "batch": median(batch) / len(questions),
        "bytes": vectors.nbytes if kind == _FLAT else index.memory_bytes,
        "recall": recall,
        "peak": peak_memory(),
    }
    (folder / f"{kind}.json").write_text(json.dumps(result), encoding="utf-8")


def _flat_index(vectors: np.ndarray) -> Any:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    return index


def _line(size: int, kind: str, result: dict[str, Any]) -> str:
    times = f"{result['build']:.2f} | {1000 * result['single']:.3f} | {1000 * result['batch']:.3f}"
    memory = f"{result['bytes'] / 1e6:,.0f} | {result['peak'] / 1e6:,.0f}"
    return f"| {size:,} | {kind} | {times} | {memory} | {result['recall']['10']:.4f} | {result['recall']['100']:.4f} |"


def _compare_with_exact(size: int, results: dict[str, dict[str, Any]]) -> list[peers.PeerResult]:
    """Compare exact search with FAISS, and approximate indexes with exact search."""
    size_label = f"{size:,} vectors, {_DIMENSIONS} dimensions"
    exact = results[IndexKind.EXACT]
    flat = results[_FLAT]
    measured = [
        peers.summarize_rounds(
            "Exact search, batch", "FAISS IndexFlatIP", size_label, [(exact["batch"], flat["batch"])]
        ),
        peers.summarize_rounds(
            "Exact search, peak memory", "FAISS IndexFlatIP", size_label, [(exact["peak"], flat["peak"])], unit="bytes"
        ),
    ]
    for kind in (IndexKind.HNSW, IndexKind.IVF, IndexKind.INT8):
        result = results[kind]
        recall = result["recall"]
        note = f"recall@10 {recall['10']:.3f}, @100 {recall['100']:.3f}; built in {result['build']:.1f} s"
        name = f"{kind} search, one question"
        measured.append(
            peers.summarize_rounds(name, "exact", size_label, [(result["single"], exact["single"])], note=note)
        )
    return measured


if __name__ == "__main__":
    _measure_index(sys.argv[1], Path(sys.argv[2]))
