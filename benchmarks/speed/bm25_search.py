"""Build and search all BM25 engines, check that they return the same results, and time them.

Searches of all engines alternate in one process. Each step runs in a new process and uses the stored output of earlier
steps: `python -m benchmarks.speed.bm25_search STEP FOLDER [WORD ...]` prints the result as JSON.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peers
from benchmarks.clones import Clones, clone_articles, load_korquad_articles
from benchmarks.peers import PeerResult
from benchmarks.speed.bm25_engines import (
    BM25S,
    POSTING_BYTES,
    Engine,
    RankBM25Library,
    Tantivy,
    TantivySingleSegment,
    Words,
    WorkbenchBM25,
)
from mrc_workbench.data.text.analysis import TEXTS_PER_PART

_MAX_QUESTIONS = 1_000


class QuestionSample(NamedTuple):
    """Questions as words, their relevant passages `(n_questions,)`, and the document frequency of each word."""

    questions: list[Words]
    relevant: np.ndarray
    document_frequency: dict[str, int]


def sample_questions(clones: Clones) -> QuestionSample:
    """Sample up to a thousand questions evenly, and count the document frequencies of their words."""
    every = max(1, len(clones.questions) // _MAX_QUESTIONS)
    texts = clones.questions.texts()
    rows = [row for row in range(0, len(texts), every) if texts[row]][:_MAX_QUESTIONS]
    questions: list[Words] = [texts[row] for row in rows]
    return QuestionSample(
        questions, clones.relevant[rows], _document_frequencies(clones, sorted(set(chain(*questions))))
    )


def _document_frequencies(clones: Clones, words: list[str]) -> dict[str, int]:
    index_of_word = {word: index for index, word in enumerate(words)}
    index_of_token = np.array([index_of_word.get(word, -1) for word in clones.tokens.vocabulary])
    counts = np.zeros(len(words), dtype=np.int64)
    for start in range(0, len(clones.tokens), TEXTS_PER_PART):
        offsets = clones.tokens.offsets[start : start + TEXTS_PER_PART + 1]
        indices = index_of_token[clones.tokens.ids[offsets[0] : offsets[-1]]]
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        pairs = np.sort((indices * TEXTS_PER_PART + rows)[indices >= 0])  # much faster than `numpy.unique`
        first = np.diff(pairs, prepend=-1) > 0
        counts += np.bincount(pairs[first] // TEXTS_PER_PART, minlength=len(words))
    return dict(zip(words, counts.tolist(), strict=True))


_K = 10
_MAX_DIFFERENCE = 1e-4  # relative


def difference(first: Engine, second: Engine, questions: Sequence[Words]) -> float:
    """Return the largest relative difference of top 10 scores. Raises `ValueError` if it is too large."""
    (_, scores), (_, others) = (engine.top_k(questions, _K) for engine in (first, second))
    worst = float(np.max(np.abs(scores - others) / np.maximum(others, _MAX_DIFFERENCE)))
    if not worst <= _MAX_DIFFERENCE:
        raise ValueError(f"the scores of {first.name} and {second.name} differ by {worst:.2g} (relative)")
    return worst


def overlap(first: Engine, second: Engine, questions: Sequence[Words]) -> float:
    """Return the fraction of the first engine's top 10 that are in the second engine's top 10."""
    (rows, _), (others, _) = (engine.top_k(questions, _K) for engine in (first, second))
    both = (rows[:, :, None] == others[:, None, :]) & (rows >= 0)[:, :, None]
    return float(both.any(axis=2).sum() / (rows >= 0).sum())


def relevant_recall(engine: Engine, sample: QuestionSample) -> float:
    """Return the fraction of questions with the relevant passage in the top 10."""
    return float((engine.top_k(sample.questions, _K)[0] == sample.relevant[:, None]).any(axis=1).mean())


_POLL_SECONDS = 0.02
_READ_BYTES = 1 << 29  # more than the caches of a CPU
_REPETITIONS = 5


@contextmanager
def track_peak_memory() -> Iterator[list[int]]:
    """Yield a list whose item is, after the block, the peak increase of the process's private memory in bytes.

    Mapped files do not count: the system uses free memory for them and reclaims it.
    """
    before = _private_bytes()
    peak = [0]
    is_finished = Event()

    def update_peak() -> None:
        peak[0] = max(peak[0], _private_bytes() - before)

    def poll() -> None:
        while not is_finished.wait(_POLL_SECONDS):
            update_peak()

    poller = Thread(target=poll)
    poller.start()
    try:
        yield peak
    finally:
        is_finished.set()
        poller.join()
        update_peak()


def bandwidth(threads: int) -> float:
    """Return the bytes per second at which threads read memory sequentially, the best of five repetitions."""
    parts = np.array_split(np.ones(_READ_BYTES // 8), threads)

    with ThreadPoolExecutor(threads) as cores:
        seconds = (peers.measure_seconds(lambda: list(cores.map(np.max, parts))) for _ in range(_REPETITIONS))
        return _READ_BYTES / min(seconds)


def _private_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


MEMORY = "reading all postings once"  # a peer: the questions' postings at the memory bandwidth
_CORES = os.cpu_count() or 1
# numbers of questions
_BATCH = 1_000
_SEQUENTIAL = 200


@dataclass(frozen=True)
class Case:
    """A search to time. `terms` limits the terms of a question, 0 for all."""

    k: int = 10
    threads: int = 1
    terms: int = 0
    n_questions: int = _BATCH
    is_sequential: bool = False

    @property
    def name(self) -> str:
        """The name of the task."""
        return f"BM25 search, {'one thread' if self.threads == 1 else 'all cores'}"

    def size(self, n_passages: int) -> str:
        """The workload."""
        terms_text = f" with {self.terms} terms" if self.terms else ""
        sequential_text = " one at a time" if self.is_sequential else ""
        return f"{self.n_questions:,} questions{terms_text}{sequential_text}, top {self.k}, {n_passages:,} passages"

    def select_questions(self, questions: Sequence[Words]) -> list[Words]:
        """Return the questions of the case, limited to its number of terms."""
        return [words[: self.terms or None] for words in questions[: self.n_questions]]


DEFAULT_CASES = (Case(), Case(threads=_CORES))
CASES = (
    *DEFAULT_CASES,
    Case(n_questions=_SEQUENTIAL, is_sequential=True),
    Case(k=100, n_questions=_SEQUENTIAL, is_sequential=True),
    Case(k=100),
    Case(k=100, threads=_CORES),
    Case(terms=3),
    Case(terms=8),
)


def rank_bm25_case(n_passages: int) -> Case:
    """Return a case with as many questions as rank-bm25 searches in a few seconds."""
    return Case(n_questions=max(3, 100_000 // n_passages))


def compare_with_engines(
    case: Case, engines: Sequence[Engine], questions: Sequence[Words], n_passages: int, notes: dict[str, str]
) -> list[PeerResult]:
    """Time a case with the first engine and each other engine; `notes` are by engine name."""
    rounds = peers.time_alternately([_work(case, engine, case.select_questions(questions)) for engine in engines])
    lines = []
    for engine, *seconds in zip(
        engines[1:],
        *([(round_seconds[0], other) for other in round_seconds[1:]] for round_seconds in rounds),
        strict=True,
    ):
        note = notes.get(engine.name, "")
        size = case.size(n_passages)
        target = _target_speedup(case, engine, n_passages)
        lines.append(peers.summarize_rounds(case.name, engine.name, size, seconds, target=target, note=note))
    return lines


def _target_speedup(case: Case, engine: Engine, n_passages: int) -> float | None:
    """Return the target ratio: 1 for the default cases, and the engine's target for a million passages."""
    if engine.target_speedup and case in DEFAULT_CASES:
        return 1.0
    return engine.target_speedup if (case.k, case.threads, n_passages) == (100, 1, 1_000_000) else None


def compare_with_memory(case: Case, ours: float, sample: QuestionSample, n_passages: int, speed: float) -> PeerResult:
    """Compare our seconds with reading all postings of the questions' terms at `speed` bytes per second."""
    read_bytes = (
        sum(sample.document_frequency[word] for words in case.select_questions(sample.questions) for word in words)
        * POSTING_BYTES
    )
    note = f"{read_bytes / 10**9:.3g} GB at {speed / 10**9:.3g} GB/s; an engine that skips postings reads less"
    return peers.summarize_rounds(case.name, MEMORY, case.size(n_passages), [(ours, read_bytes / speed)], note=note)


def memory_bandwidths() -> dict[int, float]:
    """Return the memory bandwidth in bytes per second, by number of threads."""
    return {threads: bandwidth(threads) for threads in sorted({case.threads for case in CASES})}


def _work(case: Case, engine: Engine, questions: Sequence[Words]) -> Callable[[], object]:
    batches = (
        [engine.prepare_queries([words]) for words in questions]
        if case.is_sequential
        else [engine.prepare_queries(questions)]
    )
    return lambda: [engine.search(batch, case.k, case.threads) for batch in batches]


ENGINES: dict[str, type[Engine]] = {
    engine_class.__name__: engine_class
    for engine_class in (WorkbenchBM25, BM25S, TantivySingleSegment, Tantivy, RankBM25Library)
}
MAX_RANK_BM25_PASSAGES = 10_000  # it has a dictionary per passage, and scores all passages for each question
_COMPARED = 200  # questions whose rankings are compared


def run_step(step: str, folder: Path, *words: str) -> Any:
    """Run a step in a new process; returns its output."""
    command = [sys.executable, "-m", "benchmarks.speed.bm25_search", step, str(folder), *words]
    # no threads of NumPy's libraries in single-thread cases
    single_threaded = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    printed = subprocess.run(command, check=True, env=os.environ | single_threaded, stdout=subprocess.PIPE).stdout
    return json.loads(printed.splitlines()[-1])


def engines_of(n_passages: int) -> list[str]:
    """Return the names of the engines that are measured at a size, ours first."""
    return [name for name in ENGINES if name != RankBM25Library.__name__ or n_passages <= MAX_RANK_BM25_PASSAGES]


def generate_corpus(folder: Path, n_passages: str) -> dict[str, Any]:
    """Generate the corpus; returns the seconds without KorQuAD's analysis, and the words of a question."""
    articles = load_korquad_articles()
    start = perf_counter()
    clones = clone_articles(articles, int(n_passages))
    (folder / "corpus").mkdir()
    clones.save(folder / "corpus")
    return {"seconds": perf_counter() - start, "question": clones.questions.texts()[0]}


def build(folder: Path, name: str) -> dict[str, Any]:
    """Build an index; returns the seconds, the peak private memory, and the bytes on disk."""
    clones = Clones.load(folder / "corpus")
    index_folder = folder / name
    index_folder.mkdir()
    with track_peak_memory() as peak:
        seconds = ENGINES[name].build(clones, index_folder)
    disk = sum(file.stat().st_size for file in index_folder.rglob("*") if file.is_file())
    return {"engine": ENGINES[name].name, "seconds": seconds, "memory": peak[0], "disk": disk}


def open_twice(folder: Path, name: str, *words: str) -> list[float]:
    """Open an index and search a question, including compilation, twice; returns the seconds of each time."""

    return [peers.measure_seconds(lambda: ENGINES[name].open(folder / name).top_k([words], 10)) for _ in range(2)]


def search(folder: Path) -> dict[str, Any]:
    """Time all cases; returns the results and a summary."""
    clones = Clones.load(folder / "corpus")
    n_passages = len(clones.tokens)
    sample = sample_questions(clones)
    opened = {name: ENGINES[name].open(folder / name) for name in engines_of(n_passages)}
    rank_bm25 = opened.pop(RankBM25Library.__name__, None)
    engines = list(opened.values())
    compared_questions = sample.questions[:_COMPARED]
    ours, bm25s, single_segment, multi_segment = engines
    summary = (
        "the top 10 scores differ from those of bm25s by at most "
        f"{difference(ours, bm25s, compared_questions):.1g} (relative); "
        f"{overlap(ours, single_segment, compared_questions):.1%} of the top 10 are also in Tantivy's; "
        f"the relevant passage is in the top 10 for {relevant_recall(ours, sample):.1%} of the questions."
    )
    notes = {engine.name: _segments(engine) for engine in (single_segment, multi_segment)}
    lines = list[PeerResult]()
    bandwidths = memory_bandwidths()
    for case in CASES:
        lines += compare_with_engines(case, engines, sample.questions, n_passages, notes)
        speed = bandwidths[case.threads]
        lines.append(compare_with_memory(case, lines[-1].ours, sample, n_passages, speed))
    if rank_bm25 is not None:
        case = rank_bm25_case(n_passages)
        lines += compare_with_engines(case, [ours, rank_bm25], sample.questions, n_passages, {})
    return {"lines": [asdict(line) for line in lines], "summary": summary}


def _segments(engine: Any) -> str:
    segments = f"{engine.n_segments} segment{'s' if engine.n_segments > 1 else ''}"
    return f"{segments}, Python bindings; one byte per passage length"


STEPS: dict[str, Callable[..., object]] = {
    "corpus": generate_corpus,
    "build": build,
    "open": open_twice,
    "search": search,
}

if __name__ == "__main__":
    logging.disable(logging.INFO)
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))
