"""What a laboratory found: figures with their intervals, and what each value costs."""

from collections.abc import Container

import numpy as np
import pandas as pd

from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.experiment import Lab
from retrieval.comparison.kinds.spec import Spec
from retrieval.comparison.labs import OPTIONS, tried
from retrieval.dense.index import IndexKind
from retrieval.evaluation.measures import Measure, evaluate
from retrieval.evaluation.significance import difference_intervals, share_intervals
from retrieval.rankings import NOT_FOUND, Rankings


def lab_figures(lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Measure what a lab tried: a row each with its name, values, mean with the interval "low" to "high", and costs.

    Columns of values are those of the spec ("k1"); of a hybrid "fusion" and "weight", the share of its first part. What
    needs no mixture stands there too, not "tried": a hybrid's two parts at weight 1 and 0, what is reranked at 0. A
    reranking has a "ceiling" and its own "reranking_seconds"; an index the "overlap" with the exact one, and the
    "difference" to its mean with the interval "difference_low" to "difference_high". So has a change of BM25's options
    to the present values, and "changed" names the options that it changes.
    """
    values = {name: of.per_question[measure] for name, of in lab.scores.items() if measure in of.per_question}
    specs, results = lab.experiment.specs, [one for one in lab.results if one.name in values]
    rows = [_row(specs[one.name], lab.experiment.lab, one) for one in results if specs[one.name].chosen_on]
    rows += _unmixed(rows, lab, values.keys())
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


def _row(spec: Spec, lab: Lab | None, result: Result) -> dict[str, object]:
    values = {name: getattr(spec, name, None) for name in _VALUES[lab]}
    seconds, of_model = result.query_seconds, result.model_seconds
    costs = {"build_seconds": result.build_seconds, "query_seconds": seconds, "search_seconds": seconds - of_model}
    return {"name": spec.name, "tried": True, **values, **costs, "memory_bytes": result.memory_bytes}


def _unmixed(rows: list[dict[str, object]], lab: Comparison, known: Container[str]) -> list[dict[str, object]]:
    """Return rows of the retrievers that are mixed, each alone, for every fusion or depth tried."""
    by, weights = _ALONE.get(lab.experiment.lab, ("", ()))
    return [
        {"name": name, "tried": False, by: value, "weight": weight}
        for name, weight in zip(tried(lab.experiment)[0].parts, weights, strict=False)
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
    if IndexKind.EXACT not in lab.scores:
        return figures
    k, exact = Measure.parse(measure).cut, lab.rankings[IndexKind.EXACT]
    overlaps = [overlap(exact, lab.rankings[name], k) for name in figures["name"]]
    return _against(figures, lab, IndexKind.EXACT, measure, groups).assign(overlap=overlaps)


def _with_changes(figures: pd.DataFrame, lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Add which options are changed, and what that brings against the present values, with its interval."""
    (present,) = (spec for spec in lab.experiment.retriever if not spec.chosen_on)
    specs = lab.experiment.specs
    changed = [
        tuple(of for of in OPTIONS if getattr(specs[name], of, None) != getattr(present, of, None))
        for name in figures["name"]
    ]
    figures = figures.assign(changed=pd.Series(changed))
    return _against(figures, lab, present.name, measure, groups) if present.name in lab.scores else figures


def _against(figures: pd.DataFrame, lab: Comparison, base: str, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Add the difference of each mean to that of `base`, with its interval."""
    values = np.stack([lab.scores[name].per_question[measure] for name in figures["name"]], axis=1)
    differences = values - lab.scores[base].per_question[measure][:, None]
    ends = difference_intervals(differences, groups)
    return figures.assign(difference=differences.mean(axis=0), difference_low=ends[:, 0], difference_high=ends[:, 1])


_VALUES: dict[Lab | None, tuple[str, ...]] = {
    None: (),
    Lab.BM25: ("sentences", "analyzer", "k1", "b"),
    Lab.LEXICAL: OPTIONS,
    Lab.HYBRID: ("fusion", "weight"),
    Lab.RERANK: ("depth", "weight"),
    Lab.INDEX: ("index",),
}
# what a part alone stands beside in every row, and the weight of each part where it is alone
_ALONE: dict[Lab | None, tuple[str, tuple[float, ...]]] = {
    Lab.HYBRID: ("fusion", (1.0, 0.0)),
    Lab.RERANK: ("depth", (0.0,)),
}
_MORE = {Lab.LEXICAL: _with_changes, Lab.RERANK: _with_ceilings, Lab.INDEX: _with_losses}
