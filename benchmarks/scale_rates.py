"""What this machine does, from `results.json` and by trying it now: the numbers that `scale_plan` multiplies."""

import json
import math
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.korquad import korquad
from data.read import read_file
from retrieval.analyzers import Analyzer, analyze
from retrieval.bm25 import indexed_texts
from retrieval.postings import bm25_postings
from retrieval.tokens import tokens_of

_COPIED = 1 << 28  # bytes a core: more than any cache holds
_SIDE = 2048  # of matrices that are multiplied
_ROUNDS = 5
_DIMENSIONS, _TOKENS = 384, 128  # of the vectors and the passages that were measured


@dataclass(frozen=True)
class Rates:
    """Of this machine, all its cores, where nothing else is said; `nan` where it was not measured."""

    cores: int
    analyzed: float  # passages a second
    indexed: float  # passages a second and core
    index_peak: float  # bytes a passage while the index is built and searched
    bm25_seconds: float  # a core's, a question and passage
    encoded: float  # passages of `_TOKENS` tokens a second, base size
    scanned: float  # bytes of float32 vectors a second and core: one question is searched by one
    scanned_small: float  # the same of 8 bits a dimension
    graph_seconds: float  # a question in the graph of the most vectors that was measured
    graph_vectors: float  # how many these were
    postings: float  # terms of a passage
    asked_postings: float  # share of the passages that hold a term, summed over a question's terms
    text_bytes: float  # of a passage
    bandwidth: float  # bytes read and written a second
    flops: float  # a second, bfloat16
    flops_float32: float  # a second


def measured(results: Path = peers.RESULTS) -> Rates:
    """Take the rates of the largest sets there are, and measure what no other benchmark does; some seconds."""
    lines = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else []
    indexed, build = _largest(lines, "BM25 build", "passages")
    searched, search = _largest(lines, "BM25 search, one question at a time", "passages")
    vectors, graph = _largest(lines, "hnsw search, one question", "vectors")
    small_vectors, small = _largest(lines, "int8 search, one question", "vectors")
    encoded, encode = _largest(lines, "Encoding, base size", "passages", f"{_TOKENS} tokens")
    return Rates(
        cores=os.cpu_count() or 1,
        indexed=indexed / build["ours"],
        index_peak=_grown(lines, "BM25 build and search, peak memory") * 2**30,
        bm25_seconds=search["ours"] / _number(search["size"], "questions") / searched,
        encoded=encoded / encode["ours"],
        scanned=vectors * _DIMENSIONS * 4 / graph["theirs"],  # it was measured against the exact search
        scanned_small=small_vectors * _DIMENSIONS / small["ours"],
        graph_seconds=graph["ours"],
        graph_vectors=vectors,
        bandwidth=_bandwidth(),
        flops=_flops("bfloat16"),
        flops_float32=_flops("float32"),
        **_of_korquad(),
    )


def _largest(lines: list[dict[str, Any]], name: str, of: str, also: str = "") -> tuple[float, dict[str, Any]]:
    """Return the line of this name about the most `of`, and how many these are; `nan` where there is none."""
    found = [line for line in lines if line["name"] == name and also in line["size"]]
    best = max(found, key=lambda line: _number(line["size"], of), default=None)
    return (_number(best["size"], of), best) if best else (math.nan, {"ours": math.nan, "theirs": math.nan, "size": ""})


def _grown(lines: list[dict[str, Any]], name: str) -> float:
    """Return what a passage adds from the smallest set to the largest: a process holds something before the first."""
    points = sorted((_number(line["size"], "passages"), line["ours"]) for line in lines if line["name"] == name)
    if len(points) < 2:
        return math.nan
    (few, low), (many, high) = points[0], points[-1]
    return float((high - low) / (many - few))


def _number(size: str, of: str) -> float:
    """Read "1,000 questions, 100,000 passages": 1000 of questions, 100000 of passages."""
    match = re.search(rf"([\d,]+) {of}", size)
    return float(match[1].replace(",", "")) if match else math.nan


def _of_korquad() -> dict[str, float]:
    """What passages hold and questions ask, of KorQuAD; and how fast the default analyzer reads it."""
    question_set = read_file(korquad()).question_set
    texts = indexed_texts(question_set.passages, title=True)
    analyze(Analyzer.KIWI_BIGRAM, texts[:1])  # loads it
    new = [f"{text} {row}" for row, text in enumerate(texts)]  # what it has read before, it remembers
    analyzing = _seconds(lambda: analyze(Analyzer.KIWI_BIGRAM, new))
    tokens = tokens_of(Analyzer.KIWI_BIGRAM, texts)
    holders = np.diff(bm25_postings(tokens, 0.9, 0.4).starts)
    asked = tokens_of(Analyzer.KIWI_BIGRAM, [question.text for question in question_set.questions])
    ids, offsets = asked.flat_ids_in({term: number for number, term in enumerate(tokens.vocabulary)})
    return {
        "analyzed": len(texts) / analyzing,
        "postings": float(holders.sum()) / len(texts),
        "asked_postings": float(holders[ids].sum()) / (len(offsets) - 1) / len(texts),
        "text_bytes": sum(len(text.encode()) for text in texts) / len(texts),
    }


def _bandwidth() -> float:
    """Every core copies memory of its own: bytes read and written a second, the best of some rounds."""
    cores = os.cpu_count() or 1
    pairs = [(np.zeros(_COPIED, dtype=np.uint8), np.ones(_COPIED, dtype=np.uint8)) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as threads:
        seconds = [_seconds(lambda: list(threads.map(lambda pair: np.copyto(*pair), pairs))) for _ in range(_ROUNDS)]
    return 2 * _COPIED * cores / min(seconds)


def _flops(precision: str) -> float:
    """Multiply two matrices, as an encoder does: operations a second, the best of some rounds."""
    import torch

    matrix = torch.ones(_SIDE, _SIDE, dtype=getattr(torch, precision))
    return 2 * _SIDE**3 / min(_seconds(lambda: matrix @ matrix) for _ in range(_ROUNDS))


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began
