"""The speed of analysis and search with stems, against words: from texts to stored tokens, to an index, to rankings.
Each round works in an empty folder, so no round reads the output of an earlier one; both take turns.
"""

import os
import tempfile
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.synthetic_data import development_sets
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer, resolve_analyzer
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options

_ROUNDS = 5
_DEPTH = 100


class _Seconds(NamedTuple):
    analysis: float
    build: float  # of an index, with the tokens stored
    search: float


def stem_speed() -> list[str]:
    """Return a Markdown table: rates with words and with stems, and the ratio of the medians of all rounds."""
    lines = [
        "| dataset | tokens | rate | words | stems | stems / words |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for name, path in development_sets().items():
        question_set = read_file(path).question_set
        stems = resolve_analyzer(Analyzer.AUTO, question_set.passages.indexed_texts(title=True))
        if stems in LANGUAGE_OF:
            lines += _rows(name, question_set, stems)
    return lines


def _rows(name: str, question_set: QuestionSet, stems: Analyzer) -> list[str]:
    n_tokens = len(tokens_of(Analyzer.WORD, question_set.passages.indexed_texts(title=True)).ids)
    amounts = {"tokens per second": n_tokens, "passages indexed per second": len(question_set.passages)}
    amounts["questions per second"] = len(question_set.questions)
    rounds = [
        [_measure_analyzer(question_set, analyzer) for analyzer in (Analyzer.WORD, stems)] for _ in range(_ROUNDS + 1)
    ]
    words, stemmed = np.median(np.array(rounds[1:]), axis=0)  # loading and compiling count to the first round
    lines: list[str] = []
    for (what, amount), of_words, of_stems in zip(amounts.items(), words, stemmed, strict=True):
        first = f"{name} | {n_tokens:,}" if not lines else " | "
        rates = f"{amount / of_words:,.0f} | {amount / of_stems:,.0f} | {of_words / of_stems:.2f}"
        lines.append(f"| {first} | {what} | {rates} |")
    return lines


def _measure_analyzer(question_set: QuestionSet, analyzer: Analyzer) -> _Seconds:
    texts = question_set.passages.indexed_texts(title=True)
    questions = [question.text for question in question_set.questions]
    options = BM25Options(analyzer)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        analysis = _seconds(lambda: tokens_of(analyzer, texts))
        build = _seconds(lambda: BM25("", question_set.passages, options))
        index = BM25("", question_set.passages, options)
        search = _seconds(lambda: index.search(questions, _DEPTH))
    return _Seconds(analysis, build, search)


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
