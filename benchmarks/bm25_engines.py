"""BM25 search: the engine against rank-bm25, on the same tokens, questions and machine, in turn."""

import time

from benchmarks.korquad import korquad
from data.read import read_file
from retrieval.analyzers import Analyzer, tokens_of
from retrieval.bm25 import BM25, BM25Options
from retrieval.bm25_engines import Engine

_QUESTIONS = 100  # rank-bm25 needs milliseconds for each
_ROUNDS = 3


def measure() -> list[str]:
    """Time both engines over the same questions, the better of some rounds each; returns lines of a report."""
    question_set = read_file(korquad()).question_set
    questions = [question.text for question in question_set.questions[:: len(question_set.questions) // _QUESTIONS]]
    engines = {
        engine: BM25(engine.value, question_set.passages, BM25Options(Analyzer.KIWI_BIGRAM, engine=engine))
        for engine in Engine
    }
    tokens_of(Analyzer.KIWI_BIGRAM, questions)  # kept on disk: both engines read the same tokens
    best = dict.fromkeys(Engine, float("inf"))
    for _ in range(_ROUNDS):
        for engine, index in engines.items():
            start = time.perf_counter()
            index.search(questions, 100)
            best[engine] = min(best[engine], time.perf_counter() - start)
    milliseconds = {engine: seconds / len(questions) * 1000 for engine, seconds in best.items()}
    ratio = best[Engine.RANK_BM25] / best[Engine.BM25S]
    return [
        f"BM25 search, bm25s:     {milliseconds[Engine.BM25S]:8.3f} ms a question",
        f"BM25 search, rank-bm25: {milliseconds[Engine.RANK_BM25]:8.3f} ms a question",
        f"ratio: {ratio:.0f}   (wanted: at least 20)",
    ]
