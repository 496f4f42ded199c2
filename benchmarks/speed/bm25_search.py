"""Queries for every BM25 engine, a check that the engines return the same, and their speed.

Engines take turns within one process. Each step at one size runs in a new process on the stored output of the steps
before: `python -m benchmarks.speed.bm25_search STEP FOLDER [WORD ...]` prints its result as JSON.
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
    """Questions as words, the passage that each is about `(n_questions,)`, and how many passages hold each word."""

    questions: list[Words]
    relevant: np.ndarray
    document_frequency: dict[str, int]


def sample_questions(clones: Clones) -> QuestionSample:
    """Take a thousand questions from all articles; count the passages that hold their words."""
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
        pairs = np.sort((indices * TEXTS_PER_PART + rows)[indices >= 0])  # numpy's `unique` takes many times as long
        first = np.diff(pairs, prepend=-1) > 0
        counts += np.bincount(pairs[first] // TEXTS_PER_PART, minlength=len(words))
    return dict(zip(words, counts.tolist(), strict=True))


# of a score
_K = 10
_MAX_DIFFERENCE = 1e-4


def difference(first: Engine, second: Engine, questions: Sequence[Words]) -> float:
    """Return the largest relative difference of a top 10 score; raises `ValueError` if it is too large."""
    (_, scores), (_, others) = (engine.top_k(questions, _K) for engine in (first, second))
    worst = float(np.max(np.abs(scores - others) / np.maximum(others, _MAX_DIFFERENCE)))
    if not worst <= _MAX_DIFFERENCE:
        raise ValueError(f"{first.name} and {second.name} should score alike, and differ by {worst:.2g} of a score")
    return worst


def overlap(first: Engine, second: Engine, questions: Sequence[Words]) -> float:
    """Return the share of the best ten of one engine that are among those of the other."""
    (rows, _), (others, _) = (engine.top_k(questions, _K) for engine in (first, second))
    both = (rows[:, :, None] == others[:, None, :]) & (rows >= 0)[:, :, None]
    return float(both.any(axis=2).sum() / (rows >= 0).sum())


def own_passage_recall(engine: Engine, sample: QuestionSample) -> float:
    """Return the share of questions whose own passage is among the best ten."""
    return float((engine.top_k(sample.questions, _K)[0] == sample.relevant[:, None]).any(axis=1).mean())


_POLL_SECONDS = 0.02  # seconds between two looks
# bytes, more than any cache holds
_READ_BYTES = 1 << 29
_TIMES = 5


@contextmanager
def track_peak_memory() -> Iterator[list[int]]:
    """Yield a list that holds, at the end, the peak increase of the process's private memory in bytes.

    Mapped files do not count: the system uses free memory for them and reclaims it.
    """
    before = _own_bytes()
    most = [0]
    done = Event()

    def look() -> None:
        most[0] = max(most[0], _own_bytes() - before)

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            look()

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        done.set()
        watcher.join()
        look()


def bandwidth(threads: int) -> float:
    """Return the bytes a second at which so many threads read memory, one after another, the best of five times."""
    parts = np.array_split(np.ones(_READ_BYTES // 8), threads)

    def seconds(cores: ThreadPoolExecutor) -> float:
        start = perf_counter()
        list(cores.map(np.max, parts))
        return perf_counter() - start

    with ThreadPoolExecutor(threads) as cores:
        return _READ_BYTES / min(seconds(cores) for _ in range(_TIMES))


def _own_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


MEMORY = "reading all postings once"  # a peer: those of the questions' terms, at the speed of the machine's memory
_CORES = os.cpu_count() or 1
# questions
_BATCH = 1_000
_SEQUENTIAL = 200


@dataclass(frozen=True)
class Case:
    """`terms` are the number of a question's terms, 0 for all; `alone`: questions are searched one by one."""

    k: int = 10
    threads: int = 1
    terms: int = 0
    n_questions: int = _BATCH
    is_sequential: bool = False

    @property
    def name(self) -> str:
        """The title of the case."""
        return f"BM25 search, {'one thread' if self.threads == 1 else 'all cores'}"

    def size(self, n_passages: int) -> str:
        """Of what."""
        terms_text = f" with {self.terms} terms" if self.terms else ""
        sequential_text = " one at a time" if self.is_sequential else ""
        return f"{self.n_questions:,} questions{terms_text}{sequential_text}, top {self.k}, {n_passages:,} passages"

    def select_questions(self, questions: Sequence[Words]) -> list[Words]:
        """Return the queries of the case."""
        return [words[: self.terms or None] for words in questions[: self.n_questions]]


PLAIN = (Case(), Case(threads=_CORES))  # the others differ from these in one thing each
CASES = (
    *PLAIN,
    Case(n_questions=_SEQUENTIAL, is_sequential=True),
    Case(k=100, n_questions=_SEQUENTIAL, is_sequential=True),
    Case(k=100),
    Case(k=100, threads=_CORES),
    Case(terms=3),
    Case(terms=8),
)


def rank_bm25_case(n_passages: int) -> Case:
    """Return how many questions rank-bm25 answers in a few seconds."""
    return Case(n_questions=max(3, 100_000 // n_passages))


def compare_with_engines(
    case: Case, engines: Sequence[Engine], questions: Sequence[Words], n_passages: int, notes: dict[str, str]
) -> list[PeerResult]:
    """Time a case with the first engine and each other one; `notes` say something of some, by name."""
    rounds = peers.time_in_turns([_work(case, engine, case.select_questions(questions)) for engine in engines])
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
    """The target ratio: at least 1 in plain cases, and the engine's target for a million passages."""
    if engine.target_speedup and case in PLAIN:
        return 1.0
    return engine.target_speedup if (case.k, case.threads, n_passages) == (100, 1, 1_000_000) else None


def compare_with_memory(case: Case, ours: float, sample: QuestionSample, n_passages: int, speed: float) -> PeerResult:
    """Hold our seconds against reading all postings of the questions' terms at `speed` bytes a second."""
    read_bytes = (
        sum(sample.document_frequency[word] for words in case.select_questions(sample.questions) for word in words)
        * POSTING_BYTES
    )
    note = f"{read_bytes / 10**9:.3g} GB at {speed / 10**9:.3g} GB/s; an engine that skips postings reads less"
    return peers.summarize_rounds(case.name, MEMORY, case.size(n_passages), [(ours, read_bytes / speed)], note=note)


def memory_bandwidths() -> dict[int, float]:
    """Return the bytes a second at which this machine reads its memory, by number of threads."""
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
MAX_RANK_BM25_PASSAGES = 10_000  # passages: it holds a dictionary each, and looks at all of them for every question
_COMPARED = 200  # questions whose rankings are held against each other


def run_step(step: str, folder: Path, *words: str) -> Any:
    """Run a step in a new process; returns its output."""
    command = [sys.executable, "-m", "benchmarks.speed.bm25_search", step, str(folder), *words]
    # threads of numpy's libraries would give an advantage in single-thread cases
    single_threaded = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    printed = subprocess.run(command, check=True, env=os.environ | single_threaded, stdout=subprocess.PIPE).stdout
    return json.loads(printed.splitlines()[-1])


def engines_of(n_passages: int) -> list[str]:
    """Name the engines that are measured at a size, ours first."""
    return [name for name in ENGINES if name != RankBM25Library.__name__ or n_passages <= MAX_RANK_BM25_PASSAGES]


def make_corpus(folder: Path, n_passages: str) -> dict[str, Any]:
    """Make the corpus; returns the seconds, without KorQuAD's own analysis, and the words of a question."""
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
    with track_peak_memory() as most:
        seconds = ENGINES[name].build(clones, index_folder)
    disk = sum(file.stat().st_size for file in index_folder.rglob("*") if file.is_file())
    return {"engine": ENGINES[name].name, "seconds": seconds, "memory": most[0], "disk": disk}


def open_twice(folder: Path, name: str, *words: str) -> list[float]:
    """Open an index and answer a question, with all that is compiled for it, and again; returns the seconds of each."""

    def once() -> float:
        start = perf_counter()
        ENGINES[name].open(folder / name).top_k([words], 10)
        return perf_counter() - start

    return [once(), once()]


def search(folder: Path) -> dict[str, Any]:
    """Time all cases; returns the lines, and a summary."""
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
        f"the relevant passage is in the top 10 for {own_passage_recall(ours, sample):.1%} of the questions."
    )
    notes = {engine.name: _segments(engine) for engine in (single_segment, multi_segment)}
    lines = list[PeerResult]()
    bytes_a_second = memory_bandwidths()
    for case in CASES:
        lines += compare_with_engines(case, engines, sample.questions, n_passages, notes)
        speed = bytes_a_second[case.threads]
        lines.append(compare_with_memory(case, lines[-1].ours, sample, n_passages, speed))
    if rank_bm25 is not None:
        case = rank_bm25_case(n_passages)
        lines += compare_with_engines(case, [ours, rank_bm25], sample.questions, n_passages, {})
    return {"lines": [asdict(line) for line in lines], "summary": summary}


def _segments(engine: Any) -> str:
    segments = f"{engine.n_segments} segment{'s' if engine.n_segments > 1 else ''}"
    return f"{segments}, Python bindings; one byte per passage length"


STEPS: dict[str, Callable[..., object]] = {"corpus": make_corpus, "build": build, "open": open_twice, "search": search}

if __name__ == "__main__":
    logging.disable(logging.INFO)
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))
