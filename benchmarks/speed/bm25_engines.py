"""BM25 build and search against plain bm25s and rank-bm25, on the same tokens, from a thousand to a million passages.

Every size is measured in a process of its own, and once more with ours alone, for its peak memory. `BENCH_PASSAGES`
names other sizes. rank-bm25 holds a dictionary a passage and bm25s is given a list of numbers a passage: past 100,000
neither fits this comparison's memory, and bm25s then searches the lists that ours has built.
"""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Measured
from benchmarks.scale.token_statistics import synthetic_tokens
from retrieval.lexical.postings import Postings, bm25_postings
from text.tokens import Tokens

_SIZES = os.environ.get("BENCH_PASSAGES", "1000 10000 100000 1000000").split()
_K, _K1, _B = 100, 0.9, 0.4
_QUESTIONS = 1000  # of a batch
_MOST_IN_LISTS = 100_000  # passages that the peers can be built of


def measure() -> list[str]:
    """Measure every size; returns lines of a report."""
    lines = []
    for size in _SIZES:
        measured = [Measured(**one) for one in _in_a_process(size, "all")]
        peak = _in_a_process(size, "ours") / 2**30
        name, note = "BM25 build and search, peak memory", "wanted under 6"
        measured.append(Measured(name, "", _of(int(size)), peak, unit="GiB", note=note))
        peers.keep(measured)  # a later size may not fit into memory
        lines += [
            f"{one.name}, {one.size}, {one.peer}: {one.ours:.4g} {one.unit}, ratio {one.ratio}" for one in measured
        ]
    return lines


def _in_a_process(size: str, what: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.speed.bm25_engines", size, what]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(printed)


def _of(size: int) -> str:
    return f"{size:,} passages"


def _one_size(size: int) -> list[Measured]:
    """Compare with each peer at one size."""
    tokens, questions = synthetic_tokens(size)
    start = perf_counter()
    postings = bm25_postings(tokens, _K1, _B)  # compiles on a machine's first time
    start = perf_counter()
    postings = bm25_postings(tokens, _K1, _B)
    built = perf_counter() - start
    vocabulary = {token: number for number, token in enumerate(tokens.vocabulary)}
    ids, offsets = questions.flat_ids_in(vocabulary)
    offsets = offsets[: _QUESTIONS + 1]
    lists = [ids[begin:end] for begin, end in pairwise(offsets)]
    measured = _against_bm25s(tokens, vocabulary, postings, built, lists)
    return measured + (_against_rank_bm25(tokens, postings, lists) if size <= _MOST_IN_LISTS else [])


def _against_bm25s(
    tokens: Tokens, vocabulary: dict[str, int], postings: Postings, built: float, lists: list[np.ndarray]
) -> list[Measured]:
    import bm25s

    size, peer = len(tokens), f"bm25s {bm25s.__version__} (numba, one thread)"
    index = bm25s.BM25(method="lucene", k1=_K1, b=_B, backend="numba")
    measured = []
    if size <= _MOST_IN_LISTS:
        documents = [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])]
        start = perf_counter()
        index.index((documents, vocabulary), show_progress=False)
        seconds = [(built, perf_counter() - start)]
        measured.append(peers.of_rounds("BM25 build", peer, _of(size), seconds))
    else:
        index.scores = {"data": postings.weights, "indices": postings.rows, "indptr": postings.starts}
        index.scores["num_docs"] = size
        index.vocab_dict, index.unique_token_ids_set = vocabulary, set(vocabulary.values())
        index.nonoccurrence_array = None
        note = "a list of numbers a passage does not fit the memory of this comparison"
        measured.append(Measured("BM25 build", peer, _of(size), built, note=note))
    depth = min(_K, size)

    def theirs(asked: list[np.ndarray]) -> object:
        given = [part.tolist() for part in asked]
        return index.retrieve(given, k=depth, n_threads=1, show_progress=False, sorted=True)

    def ours(asked: list[np.ndarray]) -> object:
        return postings.search(np.concatenate(asked), np.cumsum([0, *map(len, asked)]), depth)

    batch = f"{len(lists):,} questions, {_of(size)}"
    measured.append(
        peers.in_turns("BM25 search of a batch", peer, batch, lambda: ours(lists), lambda: theirs(lists), wanted=1)
    )
    alone = lists[:200]
    measured.append(
        peers.in_turns(
            "BM25 search, one question at a time",
            peer,
            f"{len(alone)} questions, {_of(size)}",
            lambda: [ours([one]) for one in alone],
            lambda: [theirs([one]) for one in alone],
        )
    )
    return measured


def _against_rank_bm25(tokens: Tokens, postings: Postings, lists: list[np.ndarray]) -> list[Measured]:
    from rank_bm25 import BM25Okapi

    size = len(tokens)
    documents = [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])]
    start = perf_counter()
    index = BM25Okapi(documents, k1=_K1, b=_B)
    build = [(_build_seconds(tokens), perf_counter() - start)]
    asked = lists[: max(3, min(100, 1_000_000 // size))]
    given = [part.tolist() for part in asked]
    flat, offsets = np.concatenate(asked), np.cumsum([0, *map(len, asked)])
    depth, peer = min(_K, size), "rank-bm25 0.2.2"

    def theirs() -> None:
        for question in given:
            np.argsort(-index.get_scores(question))[:depth]

    return [
        peers.of_rounds("BM25 build", peer, _of(size), build),
        peers.in_turns(
            "BM25 search of a batch",
            peer,
            f"{len(asked)} questions, {_of(size)}",
            lambda: postings.search(flat, offsets, depth),
            theirs,
            wanted=40 if size == 10_000 else None,
        ),
    ]


def _build_seconds(tokens: Tokens) -> float:
    start = perf_counter()
    bm25_postings(tokens, _K1, _B)
    return perf_counter() - start


def _ours_alone(size: int) -> int:
    """Return the peak memory of building and searching, in bytes."""
    tokens, questions = synthetic_tokens(size)
    postings = bm25_postings(tokens, _K1, _B)
    ids, offsets = questions.flat_ids_in({token: number for number, token in enumerate(tokens.vocabulary)})
    postings.search(ids, offsets[: _QUESTIONS + 1], _K)
    told = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()  # rusage counts the parent at birth, too
    return next(int(line.split()[1]) * 1024 for line in told if line.startswith("VmHWM:"))


if __name__ == "__main__":
    if sys.argv[2] == "ours":
        print(_ours_alone(int(sys.argv[1])))
    else:
        from dataclasses import asdict

        print(json.dumps([asdict(one) for one in _one_size(int(sys.argv[1]))]))
