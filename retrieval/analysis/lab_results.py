"""What a laboratory found: figures with their intervals, and what each value costs."""

import numpy as np
import pandas as pd

from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.experiment import BM25Spec, HybridSpec, Lab, RerankSpec, Spec
from retrieval.comparison.labs import tried
from retrieval.dense.index import IndexKind
from retrieval.evaluation.measures import Measure, evaluate
from retrieval.evaluation.significance import difference_intervals, share_intervals
from retrieval.rankings import NOT_FOUND, Rankings


def lab_figures(lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Measure what a lab tried: a row each with its name, values, mean with the interval "low" to "high", and costs.

    Columns of values are those of the spec ("k1"); of a hybrid "fusion" and "weight", the share of its first part. What
    needs no mixture stands there too, not "tried": a hybrid's two parts at weight 1 and 0, what is reranked at 0. A
    reranking has a "ceiling" and its own "reranking_seconds"; an index the "overlap" with the exact one, and the
    "difference" to its mean with the interval "difference_low" to "difference_high".
    """
    specs = {spec.name: spec for spec in lab.experiment.retriever}
    results = [one for one in lab.results if one.scores and measure in one.scores.per_question]
    rows = [_row(specs[one.name], one) for one in results if specs[one.name].chosen_on]
    rows += _unmixed(rows, lab, {one.name for one in results})
    values = {one.name: one.scores.per_question[measure] for one in results if one.scores}
    figures = pd.DataFrame(rows)
    if figures.empty:
        return figures
    per_question = np.stack([values[name] for name in figures["name"]], axis=1)
    ends = share_intervals(per_question, groups)
    figures = figures.assign(value=per_question.mean(axis=0), low=ends[:, 0], high=ends[:, 1])
    more = _MORE.get(lab.experiment.lab) if lab.experiment.lab else None
    return more(figures, lab, measure, groups) if more else figures


def best(figures: pd.DataFrame) -> str:
    """Return the name with the highest mean; of several the one without a mixture, then of least depth, then first."""
    top = figures[figures["value"] == figures["value"].max()]
    return str(top.sort_values([name for name in ("tried", "depth") if name in top], kind="stable")["name"].iloc[0])


def ceiling(first: Rankings, lab: Comparison, depth: int, measure: str) -> float:
    """Mean of `measure` if a reranker put all relevant passages among the first `depth` before the others."""
    rows = np.arange(len(first.indices))[:, None]
    hits = np.asarray(lab.question_set.relevance[rows, np.maximum(first.indices, 0)].todense()) & (
        first.indices != NOT_FOUND
    )
    hits[:, depth:] = False
    order = np.argsort(~hits, axis=1, kind="stable")
    best = Rankings(np.take_along_axis(first.indices, order, 1), first.scores)
    return float(evaluate(best, lab.question_set, lab.experiment.ks).per_question[measure].mean())


def overlap(exact: Rankings, other: Rankings, k: int) -> float:
    """Share of the first k passages of `exact` that are among those of `other`, averaged over the questions."""
    there = exact.indices[:, :k, None] == other.indices[:, None, :k]
    wanted = exact.indices[:, :k] != NOT_FOUND
    shared = (there.any(axis=2) & wanted).sum(axis=1)
    counts = wanted.sum(axis=1)
    return float((shared[counts > 0] / counts[counts > 0]).mean()) if counts.any() else 1.0


def _row(spec: Spec, result: Result) -> dict[str, object]:
    values = {name: getattr(spec, name) for name in _VALUES[spec.kind]}
    if isinstance(spec, BM25Spec):
        values["sentences"] = 0  # passages as a whole
    if isinstance(spec, HybridSpec) and spec.weights:
        values["weight"] = spec.weights[0]
    seconds, of_model = result.query_seconds, result.model_seconds
    costs = {"build_seconds": result.build_seconds, "query_seconds": seconds, "search_seconds": seconds - of_model}
    return {"name": spec.name, "tried": True, **values, **costs, "memory_bytes": result.memory_bytes}


_VALUES = {
    "bm25": ("analyzer", "k1", "b"),
    "bm25-windows": ("sentences", "analyzer", "k1", "b"),
    "dense": ("index",),
    "hybrid": ("fusion",),
    "rerank": ("depth", "weight"),
    "run": (),
    "milvus": (),
}


def _unmixed(rows: list[dict[str, object]], lab: Comparison, known: set[str]) -> list[dict[str, object]]:
    """Return rows of the retrievers that are mixed, each alone, for every fusion or depth tried."""
    spec = next(iter(tried(lab.experiment)))
    if isinstance(spec, HybridSpec):
        by, alone = "fusion", zip(spec.of, (1.0, 0.0), strict=False)
    elif isinstance(spec, RerankSpec):
        by, alone = "depth", zip((spec.first,), (0.0,), strict=True)
    else:
        return []
    return [
        {"name": name, "tried": False, by: value, "weight": weight}
        for name, weight in alone
        for value in dict.fromkeys(row[by] for row in rows)
        if name in known
    ]


def _with_ceilings(figures: pd.DataFrame, lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    del groups
    (first,) = {part for spec in tried(lab.experiment) for part in spec.parts}
    found = next(one for one in lab.results if one.name == first)
    if found.rankings is None:
        return figures
    reached = {depth: ceiling(found.rankings, lab, depth, measure) for depth in figures["depth"].unique()}
    reranking = (figures["query_seconds"] - found.query_seconds).clip(lower=0).fillna(0)  # alone it reranks nothing
    return figures.assign(ceiling=figures["depth"].map(reached), reranking_seconds=reranking)


def _with_losses(figures: pd.DataFrame, lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Add what each index loses against the exact one: of the measure, with its interval, and of the passages found."""
    results = {one.name: one for one in lab.results}
    exact = results[IndexKind.EXACT]
    if exact.scores is None or exact.rankings is None:
        return figures
    scores = [results[name].scores for name in figures["name"]]
    values = np.stack([of.per_question[measure] for of in scores if of], axis=1)
    differences = values - exact.scores.per_question[measure][:, None]
    ends = difference_intervals(differences, groups)
    found = [results[name].rankings for name in figures["name"]]
    return figures.assign(
        difference=differences.mean(axis=0),
        difference_low=ends[:, 0],
        difference_high=ends[:, 1],
        overlap=[overlap(exact.rankings, one, Measure.parse(measure).cut) if one else np.nan for one in found],
    )


_MORE = {Lab.RERANK: _with_ceilings, Lab.INDEX: _with_losses}
