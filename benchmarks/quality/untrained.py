"""Measure retrieval on KorQuAD without training: `python -m benchmarks best_without_download long_passages`.

`best_without_download` fuses BM25 on passages and on sentences by min-max, and reranks with the untrained starter. All
articles outside the test set except one select the values (one must be left for training).

`long_passages` joins paragraphs of an article, in groups of four or all, and compares the packaged base, which reads
512 tokens, with and without windows. The passage that contains a question's paragraph is relevant. No value is
selected, so all questions are evaluated.
"""

import os
import tempfile
from dataclasses import replace
from itertools import groupby, product

import numpy as np

from benchmarks.quality.article_split import compare_part, differences, mean_ndcg, metric_cells, scores, table
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Passages, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.significance import question_groups

_SPLIT = SplitOptions(validation=99 / 140, test=40 / 140)
_K1S = (0.2, 0.4, 0.6, 0.9)
_BS = (0.4, 0.6, 0.75, 0.9)
_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)  # of the reranker
_BASELINE = "BM25"
_BEST_NAME = "Hybrid, reranked"


def best_without_download() -> list[str]:
    """Select the values, then evaluate the test questions once; returns a Markdown table and the selected values."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        k1, b = _select_bm25_values(question_set)
        weight = _select_rerank_weight(question_set, k1, b)
        specs = [BM25Spec(name=_BASELINE), *_retrievers(k1, b, {_BEST_NAME: weight})]
        tested = compare_part(question_set, Part.TEST, *specs, split=_SPLIT)
    (verdict,) = differences(tested, (_BASELINE, _BEST_NAME))
    summary = f"k1 {k1:g}, b {b:g} and the reranker's weight {weight:g}"
    return [*table(tested), "", f"Selected on the other articles: {summary}. {verdict}"]


def _select_bm25_values(question_set: QuestionSet) -> tuple[float, float]:
    """Return the best k1 and b for the hybrid, the same for passages and sentences."""
    tried = {f"k1 {k1} b {b}": (k1, b) for k1, b in product(_K1S, _BS)}
    specs = [spec for name, values in tried.items() for spec in _retrievers(*values, {}, f", {name}")]
    ndcg_of_retriever = mean_ndcg(compare_part(question_set, Part.VALIDATION, *specs, split=_SPLIT))
    return tried[max(tried, key=lambda name: ndcg_of_retriever[f"Hybrid, {name}"])]


def _select_rerank_weight(question_set: QuestionSet, k1: float, b: float) -> float:
    """Return the best weight of the reranker for this k1 and b."""
    tried = {f"{weight}": weight for weight in _WEIGHTS}
    ndcg_of_retriever = mean_ndcg(compare_part(question_set, Part.VALIDATION, *_retrievers(k1, b, tried), split=_SPLIT))
    return tried[max(tried, key=lambda name: ndcg_of_retriever[name])]


def _retrievers(k1: float, b: float, weights: dict[str, float], suffix: str = "") -> list[Spec]:
    """Return BM25 on passages and on sentences, their hybrid, and the hybrid reranked with each weight (by name)."""
    selected_on = Part.VALIDATION
    whole, sentences, hybrid = (f"{name}{suffix}" for name in ("BM25, tuned", "BM25 on sentences", "Hybrid"))
    return [
        BM25Spec(name=whole, k1=k1, b=b, selected_on=selected_on),
        WindowedBM25Spec(name=sentences, k1=k1, b=b, selected_on=selected_on),
        HybridSpec(name=hybrid, retrievers=(whole, sentences), fusion=Fusion.MIN_MAX, selected_on=selected_on),
        *(
            RerankSpec(name=name, first_stage=hybrid, weight=weight, selected_on=selected_on)
            for name, weight in weights.items()
        ),
    ]


_ALL = 10_000  # paragraphs, more than any article has
_SIZES = {"chapters of 4 paragraphs": 4, "articles": _ALL}
_BM25 = "BM25"
_TRUNCATED = "Dense, truncated"
_WINDOWS = "Dense, windows"
_LONG_RETRIEVERS = (
    BM25Spec(name=_BM25),
    DenseSpec(name=_TRUNCATED, model=DEFAULT.reference),
    DenseSpec(name=_WINDOWS, model=DEFAULT.reference, windows=True),
    HybridSpec(name="BM25 and dense, truncated", retrievers=(_BM25, _TRUNCATED)),
    HybridSpec(name="BM25 and dense, windows", retrievers=(_BM25, _WINDOWS)),
)


def long_passages() -> list[str]:
    """Evaluate each corpus; returns a Markdown table and the effect of windows."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        tested = {name: _compare_all(join_paragraphs(question_set, count)) for name, count in _SIZES.items()}
    lines = [
        f"| {len(question_set.questions):,} questions | passages | characters per passage | retriever "
        "| R@1 | R@10 | nDCG@10 | 95% interval |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for name, comparison in tested.items():
        lines += _rows(name, comparison)
    verdicts = [f"{name[0].upper()}{name[1:]}: {_verdict(comparison)}" for name, comparison in tested.items()]
    return [*lines, "", *verdicts]


def join_paragraphs(question_set: QuestionSet, count: int) -> QuestionSet:
    """Join each `count` consecutive paragraphs of an article to one passage, which is relevant for their questions."""
    passages: list[Passage] = []
    passage_of_paragraph: dict[str, str] = {}
    for title, article in groupby(question_set.passages, key=lambda passage: passage.title):
        paragraphs = list(article)
        for start in range(0, len(paragraphs), count):
            part = paragraphs[start : start + count]
            passage_of_paragraph |= {paragraph.id: f"c{len(passages)}" for paragraph in part}
            passages.append(Passage(f"c{len(passages)}", "\n".join(member.text for member in part), title))
    questions = tuple(
        replace(question, relevant=tuple(dict.fromkeys(passage_of_paragraph[id_] for id_ in question.relevant)))
        for question in question_set.questions
    )
    return QuestionSet(f"{question_set.name}, {count}", Passages.from_passages(passages), questions)


def _compare_all(question_set: QuestionSet) -> Comparison:
    experiment = Experiment(data=str(korquad()), split=Part.ALL, ks=(1, 10), retriever=_LONG_RETRIEVERS)
    return compare(experiment, question_set)


def _rows(name: str, comparison: Comparison) -> list[str]:
    question_set = comparison.question_set
    groups = question_groups(comparison.question_set)
    length = f"{float(np.median(question_set.passages.texts.lengths())):,.0f}"
    lines = []
    for retriever, retriever_scores in scores(comparison).items():
        corpus = f"{name} | {len(question_set.passages):,} | {length}" if retriever == _BM25 else " | | "
        lines.append(f"| {corpus} | {retriever} | {metric_cells(retriever_scores, groups)} |")
    return lines


def _verdict(comparison: Comparison) -> str:
    (sentence,) = differences(comparison, (_TRUNCATED, _WINDOWS))
    return sentence
