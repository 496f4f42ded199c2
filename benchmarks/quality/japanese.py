"""Compare Japanese character bigrams with other units and with segmenters in BM25: `python -m benchmarks japanese`.

Segmenters are not required by this project; the installed ones are measured (fugashi with unidic-lite, sudachipy with
sudachidict_core). BM25 has its default values and indexes the units of a text as words separated by spaces. Intervals
are over JaQuAD's articles.
"""

import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import regex

from benchmarks.quality.article_split import MEASURE, compare_part, scores, workspace
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Passages, Question, QuestionSet
from mrc_workbench.data.split import Part, passage_groups
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.significance import mean_interval

Segment = Callable[[Sequence[str]], list[list[str]]]

_FILE = "jaquad_dev.json"
_BASE = "bigrams"
_HAN = regex.compile(r"\p{Han}")
_RUNS = regex.compile(r"\p{Han}+|\p{Katakana}[\p{Katakana}ー]*|\p{Latin}+|\p{N}+")  # of one script, hiragana left out
_CHARACTERS = regex.compile(r"[\p{L}\p{N}]")
_CONTENT = frozenset(["名詞", "動詞", "形容詞", "形状詞", "副詞", "連体詞", "代名詞", "接頭辞", "接尾辞", "感動詞"])


class _Row(NamedTuple):
    values: np.ndarray  # nDCG@10 of every question
    tokens: int
    characters_per_second: float


def japanese() -> list[str]:
    """Evaluate each segmentation of JaQuAD dev; returns a Markdown table."""
    with workspace():
        question_set = read_file(Path(os.environ.get("MRC_DATA", "")) / _FILE).question_set
        rows = {name: _measure(question_set, parts) for name, parts in _segmentations()}
    relevance = question_set.relevance
    articles = passage_groups(question_set)[relevance.indices[relevance.indptr[:-1]]]
    groups = np.unique(articles, return_inverse=True)[1]
    return table(rows, groups)


def table(rows: dict[str, _Row], groups: np.ndarray) -> list[str]:
    """Return a row for each segmentation; `groups` `(n_questions,)` are article numbers."""
    lines = [
        f"| JaQuAD dev, {len(groups):,} questions | nDCG@10 | difference from {_BASE}, points | tokens "
        "| characters per second |",
        "|---|---:|---|---:|---:|",
    ]
    for name, row in rows.items():
        differences = row.values - rows[_BASE].values
        low, high = mean_interval(differences, groups)
        mean = float(differences.mean())
        gain = "" if name == _BASE else f"{100 * mean:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"
        cells = f"{100 * row.values.mean():.2f} | {gain} | {row.tokens:,} | {row.characters_per_second:,.0f}"
        lines.append(f"| {name} | {cells} |")
    return lines


def _segmentations() -> Iterator[tuple[str, list[Segment]]]:
    yield _BASE, [_bigrams]
    yield "bigrams and single characters", [_bigrams, _characters]
    yield "bigrams and kanji", [_bigrams, _kanji]
    yield "bigrams and runs of one script", [_bigrams, _runs]
    yield "bigrams, kanji and runs of one script (default)", [_default_tokens]
    for name, segment in (*_fugashi_segmenters(), *_sudachi_segmenters()):
        yield name, [segment]
        yield f"bigrams and {name}", [_bigrams, segment]


def _measure(question_set: QuestionSet, parts: list[Segment]) -> _Row:
    texts = [*question_set.passages.indexed_texts(title=True)]
    began = time.perf_counter()
    passages = _tokenize(texts, parts)
    seconds = time.perf_counter() - began
    questions = _tokenize([question.text for question in question_set.questions], parts)
    indexed = QuestionSet(
        question_set.name,
        Passages.from_passages(
            [Passage(record.id, " ".join(words)) for record, words in zip(question_set.passages, passages, strict=True)]
        ),
        tuple(
            Question(record.id, " ".join(words), relevant=record.relevant)
            for record, words in zip(question_set.questions, questions, strict=True)
        ),
    )
    comparison = compare_part(indexed, Part.ALL, BM25Spec(name="BM25", analyzer=Analyzer.WHITESPACE, title=False))
    values = scores(comparison)["BM25"].per_question[MEASURE]
    return _Row(values, sum(map(len, passages)), sum(map(len, texts)) / seconds)


def _tokenize(texts: Sequence[str], parts: list[Segment]) -> list[list[str]]:
    """Return the tokens of all parts of each text; equal strings of different parts are different tokens."""
    tokens_by_part = [part(texts) for part in parts]
    return [
        [f"{number}:{token}" for number, tokens in enumerate(text_parts) for token in tokens]
        for text_parts in zip(*tokens_by_part, strict=True)
    ]


def _bigrams(texts: Sequence[str]) -> list[list[str]]:
    return tokens_of(Analyzer.BIGRAM, texts).texts()


def _default_tokens(texts: Sequence[str]) -> list[list[str]]:
    return tokens_of(Analyzer.JAPANESE, texts).texts()


def _characters(texts: Sequence[str]) -> list[list[str]]:
    return [_CHARACTERS.findall(_normalize(text)) for text in texts]


def _kanji(texts: Sequence[str]) -> list[list[str]]:
    return [_HAN.findall(_normalize(text)) for text in texts]


def _runs(texts: Sequence[str]) -> list[list[str]]:
    return [_RUNS.findall(_normalize(text)) for text in texts]


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def _fugashi_segmenters() -> Iterator[tuple[str, Segment]]:
    """Yield unidic-lite's words by their base forms: all words, and content words only."""
    try:
        tagger = import_module("fugashi").Tagger(f"-d {import_module('unidic_lite').DICDIR}")
    except ImportError:
        return

    def read(text: str, *, content: bool) -> list[str]:
        words = (word for word in tagger(_normalize(text)) if _CHARACTERS.search(word.surface))
        return [word.feature.orthBase or word.surface for word in words if not content or word.feature.pos1 in _CONTENT]

    yield "fugashi", lambda texts: [read(text, content=False) for text in texts]
    yield "fugashi, content words", lambda texts: [read(text, content=True) for text in texts]


def _sudachi_segmenters() -> Iterator[tuple[str, Segment]]:
    """Yield sudachi's normalised words in each of its modes, and the content words of the shortest mode."""
    try:
        sudachi = import_module("sudachipy")
        import_module("sudachidict_core")
    except ImportError:
        return
    tokenizer = sudachi.Dictionary().create()

    def segment(mode: str, *, content: bool) -> Segment:
        def read(text: str) -> list[str]:
            words = tokenizer.tokenize(_normalize(text), getattr(sudachi.SplitMode, mode))
            visible_words = (word for word in words if _CHARACTERS.search(word.surface()))
            return [
                word.normalized_form().lower()
                for word in visible_words
                if not content or word.part_of_speech()[0] in _CONTENT
            ]

        return lambda texts: [read(text) for text in texts]

    for mode in ("A", "B", "C"):
        yield f"sudachi {mode}", segment(mode, content=False)
    yield "sudachi A, content words", segment("A", content=True)
