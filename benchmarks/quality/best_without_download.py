"""The best retrieval of KorQuAD that needs no downloaded model: a table of its article split.

BM25 over whole passages and over single sentences, fused by min-max, and reranked by the starter as it comes. Nothing
is trained, so of the articles that are not the test's all but one choose its values (one must be left to train on).
"""

import os
import tempfile
from itertools import product

from benchmarks.material import korquad
from benchmarks.quality.article_split import compared, differences, figures, table
from data.read import read_file
from data.records import QuestionSet
from data.split import Part, SplitOptions
from retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.hybrid import Fusion

_SPLIT = SplitOptions(validation=99 / 140, test=40 / 140)
_K1S, _BS = (0.2, 0.4, 0.6, 0.9), (0.4, 0.6, 0.75, 0.9)
_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)  # the reranker's share
_BASELINE, _BEST = "BM25", "Hybrid, reranked"


def measure() -> list[str]:
    """Choose the values, then ask the test questions once; returns a Markdown table and what was chosen."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        k1, b = _chosen_terms(question_set)
        weight = _chosen_weight(question_set, k1, b)
        specs = [BM25Spec(name=_BASELINE), *_retrievers(k1, b, {_BEST: weight})]
        tested = compared(question_set, Part.TEST, *specs, split=_SPLIT)
    (verdict,) = differences(tested, (_BASELINE, _BEST))
    chosen = f"k1 {k1:g}, b {b:g} and the reranker's share {weight:g}"
    return [*table(tested), "", f"Chosen on the other articles: {chosen}. {verdict}"]


def _chosen_terms(question_set: QuestionSet) -> tuple[float, float]:
    """Return the k1 and b, the same for passages and sentences, with which their hybrid is best."""
    tried = {f"k1 {k1} b {b}": (k1, b) for k1, b in product(_K1S, _BS)}
    specs = [spec for name, values in tried.items() for spec in _retrievers(*values, {}, f", {name}")]
    reached = figures(compared(question_set, Part.VALIDATION, *specs, split=_SPLIT))
    return tried[max(tried, key=lambda name: reached[f"Hybrid, {name}"])]


def _chosen_weight(question_set: QuestionSet, k1: float, b: float) -> float:
    """Return the reranker's share that is best over the hybrid of this k1 and b."""
    tried = {f"{weight}": weight for weight in _WEIGHTS}
    reached = figures(compared(question_set, Part.VALIDATION, *_retrievers(k1, b, tried), split=_SPLIT))
    return tried[max(tried, key=lambda name: reached[name])]


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
