"""The best retrieval of KorQuAD that needs no downloaded model: the README's second table of its article split.

BM25 over whole passages and over single sentences, fused by min-max, and reranked by the starter as it comes. Nothing
is trained, so of the articles that are not the test's all but one choose its values (one must be left to train on).
"""

import os
import tempfile
from itertools import product

from benchmarks.korquad import korquad
from data.read import read_file
from data.records import QuestionSet
from data.split import Part, SplitOptions
from retrieval.comparison.compare import Comparison, compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.kinds.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.comparison.kinds.multistage import HybridSpec, RerankSpec
from retrieval.comparison.kinds.spec import Spec
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.significance import intervals_of, pair_tests, question_groups
from retrieval.multistage.fusion import Fusion

_SPLIT = SplitOptions(validation=99 / 140, test=40 / 140)
_K1S, _BS = (0.2, 0.4, 0.6, 0.9), (0.4, 0.6, 0.75, 0.9)
_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)  # the reranker's share
_MEASURE = "ndcg@10"
_BASELINE, _BEST = "BM25", "Hybrid, reranked"


def measure() -> list[str]:
    """Choose the values, then ask the test questions once; returns a Markdown table and what was chosen."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        k1, b = _chosen_terms(question_set)
        weight = _chosen_weight(question_set, k1, b)
        tested = _compared(question_set, Part.TEST, BM25Spec(name=_BASELINE), *_retrievers(k1, b, {_BEST: weight}))
    return [*_table(tested), "", *_verdict(tested, f"k1 {k1:g}, b {b:g} and the reranker's share {weight:g}")]


def _chosen_terms(question_set: QuestionSet) -> tuple[float, float]:
    """Return the k1 and b, the same for passages and sentences, with which their hybrid is best."""
    tried = {f"k1 {k1} b {b}": (k1, b) for k1, b in product(_K1S, _BS)}
    specs = [spec for name, values in tried.items() for spec in _retrievers(*values, {}, f", {name}")]
    figures = _figures(_compared(question_set, Part.VALIDATION, *specs))
    return tried[max(tried, key=lambda name: figures[f"Hybrid, {name}"])]


def _chosen_weight(question_set: QuestionSet, k1: float, b: float) -> float:
    """Return the reranker's share that is best over the hybrid of this k1 and b."""
    tried = {f"{weight}": weight for weight in _WEIGHTS}
    figures = _figures(_compared(question_set, Part.VALIDATION, *_retrievers(k1, b, tried)))
    return tried[max(tried, key=lambda name: figures[name])]


def _retrievers(k1: float, b: float, weights: dict[str, float], suffix: str = "") -> list[Spec]:
    """BM25 of passages and of sentences, their hybrid, and the hybrid reranked with each weight under its name."""
    chosen = Part.VALIDATION
    whole, sentences, hybrid = (f"{name}{suffix}" for name in ("BM25, chosen", "BM25 of sentences", "Hybrid"))
    return [
        BM25Spec(name=whole, k1=k1, b=b, chosen_on=chosen),
        WindowedBM25Spec(name=sentences, k1=k1, b=b, chosen_on=chosen),
        HybridSpec(name=hybrid, of=(whole, sentences), fusion=Fusion.MIN_MAX, chosen_on=chosen),
        *(RerankSpec(name=name, first=hybrid, weight=weight, chosen_on=chosen) for name, weight in weights.items()),
    ]


def _compared(question_set: QuestionSet, part: Part, *retrievers: Spec) -> Comparison:
    experiment = Experiment(
        data=str(korquad()),
        split=part,
        validation_share=_SPLIT.validation,
        test_share=_SPLIT.test,
        seed=_SPLIT.seed,
        ks=(1, 10),
        retriever=retrievers,
    )
    return compare(experiment, question_set)


def _scores(comparison: Comparison) -> dict[str, Scores]:
    if failed := [result for result in comparison.results if result.error]:
        raise RuntimeError(f"{failed[0].name}: {failed[0].error}")
    return comparison.scores


def _figures(comparison: Comparison) -> dict[str, float]:
    return {name: scores.means()[_MEASURE] for name, scores in _scores(comparison).items()}


def _table(tested: Comparison) -> list[str]:
    groups = question_groups(tested.question_set)
    lines = [
        f"| {len(tested.question_set.questions):,} test questions | R@1 | R@10 | nDCG@10 | 95 % |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, scores in _scores(tested).items():
        means, (low, high) = scores.means(), intervals_of(scores, groups)[_MEASURE]
        cells = " | ".join(f"{means[measure] * 100:.2f}" for measure in ("recall@1", "recall@10", _MEASURE))
        lines.append(f"| {name} | {cells} | {low * 100:.2f} to {high * 100:.2f} |")
    return lines


def _verdict(tested: Comparison, values: str) -> list[str]:
    pairs = pair_tests(_scores(tested), [_MEASURE], question_groups(tested.question_set))
    (pair,) = (pair for pair in pairs if (pair.a, pair.b) == (_BASELINE, _BEST))
    return [
        f"Chosen on the other articles: {values}. {_BEST} is {-pair.difference * 100:.2f} points of nDCG@10 above BM25 "
        f"({-pair.high * 100:.2f} to {-pair.low * 100:.2f}), randomization test p = {pair.p:.4f}, {pair.p_holm:.4f} "
        f"after Holm's correction over all {len(pairs)} pairs; better for {pair.losses} questions, worse for "
        f"{pair.wins}."
    ]
