"""Compare the speed of analysis, indexing and search with stems and with words: `python -m benchmarks stem_speed`.

Both alternate; each round has an empty workspace.
"""

import os
import tempfile
from typing import NamedTuple

import numpy as np

from benchmarks.peers import measure_seconds
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
    build: float  # of an index from stored tokens
    search: float


def stem_speed() -> list[str]:
    """Return a Markdown table: rates with words and with stems, and their ratio, by medians of the rounds."""
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
    words, stemmed = np.median(np.array(rounds[1:]), axis=0)  # the first round loads and compiles
    lines: list[str] = []
    for (rate, amount), word_seconds, stem_seconds in zip(amounts.items(), words, stemmed, strict=True):
        first = f"{name} | {n_tokens:,}" if not lines else " | "
        rates = f"{amount / word_seconds:,.0f} | {amount / stem_seconds:,.0f} | {word_seconds / stem_seconds:.2f}"
        lines.append(f"| {first} | {rate} | {rates} |")
    return lines


def _measure_analyzer(question_set: QuestionSet, analyzer: Analyzer) -> _Seconds:
    texts = question_set.passages.indexed_texts(title=True)
    questions = [question.text for question in question_set.questions]
    options = BM25Options(analyzer)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        analysis = measure_seconds(lambda: tokens_of(analyzer, texts))
        build = measure_seconds(lambda: BM25("", question_set.passages, options))
        index = BM25("", question_set.passages, options)
        search = measure_seconds(lambda: index.search(questions, _DEPTH))
    return _Seconds(analysis, build, search)
