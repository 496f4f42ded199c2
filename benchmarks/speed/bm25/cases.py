"""What is asked of every engine, and how fast it answers: in turns, within one process."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import peers
from benchmarks.peers import Measured
from benchmarks.speed.bm25.asked import Asked
from benchmarks.speed.bm25.engine import POSTING_BYTES, Engine, Words
from benchmarks.speed.bm25.memory import bandwidth

MEMORY = "all postings read once"  # a peer: those of the questions' terms, at the speed of the machine's memory
_CORES = os.cpu_count() or 1
_BATCH, _ALONE = 1_000, 200  # questions


@dataclass(frozen=True)
class Case:
    """`terms` are a question's first ones, 0 all of them; `alone`: one question is asked after another."""

    k: int = 10
    threads: int = 1
    terms: int = 0
    n_questions: int = _BATCH
    alone: bool = False

    @property
    def name(self) -> str:
        """What is done."""
        return f"BM25 search, {'one thread' if self.threads == 1 else 'all cores'}"

    def size(self, n_passages: int) -> str:
        """Of what."""
        of_terms = f" of {self.terms} terms" if self.terms else ""
        alone = " one at a time" if self.alone else ""
        return f"{self.n_questions:,} questions{of_terms}{alone}, top {self.k}, {n_passages:,} passages"

    def of(self, questions: Sequence[Words]) -> list[Words]:
        """Return what is asked."""
        return [words[: self.terms or None] for words in questions[: self.n_questions]]


PLAIN = (Case(), Case(threads=_CORES))  # the others differ from these in one thing each
CASES = (
    *PLAIN,
    Case(n_questions=_ALONE, alone=True),
    Case(k=100, n_questions=_ALONE, alone=True),
    Case(k=100),
    Case(k=100, threads=_CORES),
    Case(terms=3),
    Case(terms=8),
)


def case_of_rank_bm25(n_passages: int) -> Case:
    """Return how many questions rank-bm25 answers in a few seconds."""
    return Case(n_questions=max(3, 100_000 // n_passages))


def against_engines(
    case: Case, engines: Sequence[Engine], questions: Sequence[Words], n_passages: int, notes: dict[str, str]
) -> list[Measured]:
    """Time a case with the first engine and each other one; `notes` say something of some, by name."""
    rounds = peers.all_in_turns([_work(case, engine, case.of(questions)) for engine in engines])
    lines = []
    for engine, *seconds in zip(engines[1:], *([(one[0], other) for other in one[1:]] for one in rounds), strict=True):
        note = notes.get(engine.name, "")
        size, wanted = case.size(n_passages), _wanted(case, engine, n_passages)
        lines.append(peers.of_rounds(case.name, engine.name, size, seconds, wanted=wanted, note=note))
    return lines


def _wanted(case: Case, engine: Engine, n_passages: int) -> float | None:
    """How many times as fast ours should be: no slower in the plain cases, and what was set out for a million."""
    if engine.wanted and case in PLAIN:
        return 1.0
    return engine.wanted if (case.k, case.threads, n_passages) == (100, 1, 1_000_000) else None


def against_memory(case: Case, ours: float, asked: Asked, n_passages: int, speed: float) -> Measured:
    """Hold our seconds against reading all postings of the questions' terms at `speed` bytes a second."""
    touched = sum(asked.held[word] for words in case.of(asked.questions) for word in words) * POSTING_BYTES
    note = f"{touched / 10**9:.3g} GB at {speed / 10**9:.3g} GB a second; an engine that skips postings reads less"
    return peers.of_rounds(case.name, MEMORY, case.size(n_passages), [(ours, touched / speed)], note=note)


def speeds() -> dict[int, float]:
    """Return the bytes a second at which this machine reads its memory, by number of threads."""
    return {threads: bandwidth(threads) for threads in sorted({case.threads for case in CASES})}


def _work(case: Case, engine: Engine, questions: Sequence[Words]) -> Callable[[], object]:
    given = [engine.asked([words]) for words in questions] if case.alone else [engine.asked(questions)]
    return lambda: [engine.search(one, case.k, case.threads) for one in given]
