"""Passages longer than a model reads: the packaged base, which reads 512 tokens, over KorQuAD's articles and chapters.

The paragraphs of an article are joined as one passage or by four; a question's passage is the one that holds its own
paragraph. All questions are asked, as nothing is chosen or trained.
"""

import os
import tempfile
from dataclasses import replace
from itertools import groupby

import numpy as np

from benchmarks.material import korquad
from benchmarks.quality.article_split import MEASURE, differences, scores
from data.read import read_file
from data.records import Passage, Passages, QuestionSet
from data.split import Part
from models.packaged import DEFAULT
from retrieval.comparison.compare import Comparison, compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import HybridSpec
from retrieval.evaluation.significance import intervals_of, question_groups

_WHOLE = 10_000  # paragraphs: more than any article has
_SIZES = {"chapters of 4 paragraphs": 4, "articles": _WHOLE}
_BM25, _CUT_OFF, _WINDOWS = "BM25", "Dense, cut off", "Dense, windows"
_RETRIEVERS = (
    BM25Spec(name=_BM25),
    DenseSpec(name=_CUT_OFF, model=DEFAULT.reference),
    DenseSpec(name=_WINDOWS, model=DEFAULT.reference, windows=True),
    HybridSpec(name="BM25 and dense, cut off", of=(_BM25, _CUT_OFF)),
    HybridSpec(name="BM25 and dense, windows", of=(_BM25, _WINDOWS)),
)


def measure() -> list[str]:
    """Ask all questions of each corpus once; returns a Markdown table and what windows change."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        tested = {name: _compared(joined(question_set, count)) for name, count in _SIZES.items()}
    lines = [
        f"| {len(question_set.questions):,} questions | passages | of characters | | R@1 | R@10 | nDCG@10 | 95% |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for name, comparison in tested.items():
        lines += _rows(name, comparison)
    said = [f"{name[0].upper()}{name[1:]}: {_verdict(comparison)}" for name, comparison in tested.items()]
    return [*lines, "", *said]


def joined(question_set: QuestionSet, count: int) -> QuestionSet:
    """Join so many paragraphs of an article, in their order, to one passage; its questions are those of all of them."""
    passages: list[Passage] = []
    place: dict[str, str] = {}
    for title, article in groupby(question_set.passages, key=lambda passage: passage.title):
        paragraphs = list(article)
        for start in range(0, len(paragraphs), count):
            part = paragraphs[start : start + count]
            place |= {paragraph.id: f"c{len(passages)}" for paragraph in part}
            passages.append(Passage(f"c{len(passages)}", "\n".join(one.text for one in part), title))
    questions = tuple(
        replace(question, relevant=tuple(dict.fromkeys(place[id_] for id_ in question.relevant)))
        for question in question_set.questions
    )
    return QuestionSet(f"{question_set.name}, {count}", Passages.of(passages), questions)


def _compared(question_set: QuestionSet) -> Comparison:
    experiment = Experiment(data=str(korquad()), split=Part.ALL, ks=(1, 10), retriever=_RETRIEVERS)
    return compare(experiment, question_set)


def _rows(name: str, comparison: Comparison) -> list[str]:
    of, groups = comparison.question_set, question_groups(comparison.question_set)
    length = f"{float(np.median(of.passages.texts.lengths())):,.0f}"
    lines = []
    for retriever, one in scores(comparison).items():
        means, (low, high) = one.means(), intervals_of(one, groups)[MEASURE]
        cells = " | ".join(f"{means[measure] * 100:.2f}" for measure in ("recall@1", "recall@10", MEASURE))
        corpus = f"{name} | {len(of.passages):,} | {length}" if retriever == _BM25 else " | | "
        lines.append(f"| {corpus} | {retriever} | {cells} | {low * 100:.2f} to {high * 100:.2f} |")
    return lines


def _verdict(comparison: Comparison) -> str:
    (sentence,) = differences(comparison, (_CUT_OFF, _WINDOWS))
    return sentence
