"""Laboratories: which values suit these data, each an experiment over the validation questions, and what it found.

What it tries differs in the values alone and is marked as chosen on the validation part; what it wraps, and what it is
set against, is not. So it runs, stops and is kept like any other comparison, and searches nothing twice.

The best of many settings scores higher on the questions that selected it than on others. `cross_fit` measures the
selection instead (Stone 1974, "Cross-validatory choice and assessment of statistical predictions"): the questions are
divided into folds, by article where there are enough; every fold is scored with the setting that is best on the other
folds. No question is scored with a setting that it helped to select.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import or_
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.split import Part
from mrc_workbench.data.split.folds import Lessons
from mrc_workbench.data.text.analysis import WITH_KIWI
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer, choose
from mrc_workbench.models.token_layers import TokenLayers
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.experiment import Experiment, Lab
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.evaluation.measures import Measure, evaluate, hits_of
from mrc_workbench.retrieval.evaluation.significance import (
    Pair,
    PairTest,
    difference_intervals,
    paired_tests,
    share_intervals,
)
from mrc_workbench.retrieval.hybrid import Fusion
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings

K1S = (0.3, 0.6, 0.9, 1.2, 1.6, 2.0)
BS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.9)
FIRST_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
DEPTHS = (5, 10, 20, 50, 100)
RERANKER_WEIGHTS = tuple(round(0.1 * step, 1) for step in range(1, 11))
TITLE_WEIGHTS = (1.0, 2.0, 3.0, 5.0)
FEEDBACK_PASSAGES, FEEDBACK_SHARES = (3, 10), (0.1, 0.3, 0.5)
MOST_VALUES = 12  # of k1, and of b
MOST_CHANGES = 60  # of BM25's options, alone and together
OPTIONS = ("title_weight", "compounds", "dictionary", "feedback_passages", "feedback_terms", "feedback_share")
UNCHANGED = "unchanged"

Change = dict[str, Any]  # values by option, in place of the present ones

_OF_KIWI = ("compounds", "dictionary")
_CHANGED = rf"( · ({'|'.join(option.replace('_', ' ') for option in OPTIONS)}) [^·]+)+"
# what `chosen` adds to a name
_CHOSEN = re.compile(rf"( · (first \d+ · weight [\d.]+|{'|'.join((*IndexKind, *TokenLayers))})|{_CHANGED})$")


def numbers(text: str, *, most: float) -> tuple[float, ...]:
    """Read numbers from 0 to `most`, parted by commas or spaces: ascending, each once.

    Raises `ValueError` where one is no such number, or there are none or more than `MOST_VALUES`.
    """
    values = sorted({float(part) for part in re.split(r"[\s,;]+", text.strip()) if part})
    if not 0 < len(values) <= MOST_VALUES or not all(0 <= value <= most for value in values):
        raise ValueError(f"{text!r} is not 1 to {MOST_VALUES} numbers between 0 and {most}")
    return tuple(values)


def analyzers_for(texts: Iterable[str]) -> tuple[Analyzer, ...]:
    """Return the analyzers worth trying on passages of this script and language, the one chosen by itself first."""
    best = choose(Analyzer.AUTO, texts)
    others = {Analyzer.KIWI_BIGRAM: (Analyzer.KIWI, Analyzer.BIGRAM, Analyzer.WORD), Analyzer.BIGRAM: (Analyzer.WORD,)}
    others[Analyzer.JAPANESE] = Analyzer.BIGRAM, Analyzer.WORD
    if best in LANGUAGE_OF:
        return best, Analyzer.WORD, Analyzer.BIGRAM, Analyzer.WHITESPACE
    return best, *others.get(best, (Analyzer.BIGRAM, Analyzer.WHITESPACE))


def bm25_lab(
    compared: Experiment,
    present: str,
    analyzers: Sequence[Analyzer],
    *,
    sentences: Sequence[int] = (0,),
    k1s: Sequence[float] = K1S,
    bs: Sequence[float] = BS,
) -> Experiment:
    """Return the experiment that tries every analyzer with every k1 and b in place of those of BM25 `present`.

    `sentences` are lengths of windows in which passages are searched, 0 for passages as a whole. Its other options stay
    as they are, where what is tried can use them: windows have no feedback, and a dictionary is Kiwi's.
    """
    known = compared.specs[present]
    if not isinstance(known, TermSpec):
        raise ValueError(f"{present!r} is no BM25")
    tried: list[Spec] = []
    for length, analyzer, k1, b in product(sentences, analyzers, k1s, bs):
        window = f"windows of {length} · " if length else ""
        name = f"{window}{analyzer} · k1 {k1:g} · b {b:g}"
        values: dict[str, Any] = {"name": name, "analyzer": analyzer, "k1": k1, "b": b}
        values |= {"title": known.title, "pairs": known.pairs}
        values |= {"stop_words": known.stop_words and analyzer in LANGUAGE_OF}
        kind = WindowedBM25Spec if length else BM25Spec
        of_kiwi = () if analyzer in WITH_KIWI else _OF_KIWI  # the others use little of it, or nothing
        values |= {of: kept for of, kept in _options(known).items() if of in kind.model_fields and of not in of_kiwi}
        tried.append(WindowedBM25Spec(sentences=length, **values) if length else BM25Spec(**values))
    return _lab(compared, Lab.BM25, (present,), tried)


def changes(**values: Sequence[Any]) -> list[Change]:
    """Return every combination of values of one kind of change: `changes(title_weight=(1, 2))`."""
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def lexical_lab(compared: Experiment, present: str, kinds: Sequence[Sequence[Change]]) -> Experiment:
    """Return the experiment that tries other options of BM25 `present`: one change at a time, then all together.

    `kinds` are the changes of each kind. Tried are the present values (`UNCHANGED`), every change alone on top of them,
    and one change of every kind together, in every way. A change alone says what it brings by itself; of a grid of all
    options, thousands on a few questions, the best would be luck; all together say whether what they bring adds up. k1
    and b have a lab of their own. Raises `ValueError` where more than `MOST_CHANGES` would be tried, or where a change
    is of no option that `present` has, or goes against another.
    """
    known = compared.specs[present]
    if not isinstance(known, TermSpec):
        raise ValueError(f"{present!r} is no BM25")
    alone = [change for kind in kinds for change in kind]
    together = [reduce(or_, parts) for parts in product(*kinds)] if len(kinds) > 1 else []
    every = [*alone, *together]
    if len(every) > MOST_CHANGES:
        raise ValueError(f"{len(every)} changes are too many: {MOST_CHANGES} are tried at most")
    values = known.model_dump()
    tried = [type(known).model_validate(values | change | {"name": _told(change)}) for change in ({}, *every)]
    return _lab(compared, Lab.LEXICAL, (present,), tried)


def hybrid_lab(
    compared: Experiment,
    first: str,
    second: str,
    fusions: Sequence[Fusion] = tuple(Fusion),
    weights: Sequence[float] = FIRST_WEIGHTS,
) -> Experiment:
    """Return the experiment that fuses two retrievers in several ways; `weights` are the first one's share of 1.

    A hybrid of the two alone that is compared already stands beside them.
    """
    shares = [(weight, round(1 - weight, 9)) for weight in weights]
    tried = [
        HybridSpec(name=f"{fusion} · {of[0]:g}", of=(first, second), fusion=fusion, weights=of)
        for fusion, of in product(fusions, shares)
    ]
    hybrids = [spec for spec in compared.retriever if isinstance(spec, HybridSpec)]
    present = [spec.name for spec in hybrids if {*spec.of} == {first, second}]
    return _lab(compared, Lab.HYBRID, (first, second, *present), tried)


def rerank_lab(
    compared: Experiment, present: str, depths: Sequence[int] = DEPTHS, weights: Sequence[float] = RERANKER_WEIGHTS
) -> Experiment:
    """Return the experiment that reads as many first passages as `depths` say, and trusts the reranker by `weights`."""
    known = compared.specs[present]
    if not isinstance(known, RerankSpec):
        raise ValueError(f"{present!r} reranks nothing")
    tried = [
        known.model_copy(update={"name": f"{depth} · {weight:g}", "depth": depth, "weight": weight})
        for depth, weight in product(sorted(depths, reverse=True), weights)  # the deepest scores all pairs there are
    ]
    return _lab(compared, Lab.RERANK, (present,), tried)


def index_lab(compared: Experiment, present: str) -> Experiment:
    """Return the experiment that searches the same vectors in every kind of index."""
    known = compared.specs[present]
    if not isinstance(known, DenseSpec):
        raise ValueError(f"{present!r} has no vectors")
    tried = [known.model_copy(update={"name": kind.value, "index": kind}) for kind in IndexKind]
    return _lab(compared, Lab.INDEX, (present,), tried)


def layers_lab(compared: Experiment, present: str) -> Experiment:
    """Return the experiment that compares passages by other layers of the model of late interaction `present`."""
    known = compared.specs[present]
    if not isinstance(known, LateSpec):
        raise ValueError(f"{present!r} compares no tokens")
    tried = [known.model_copy(update={"name": layers.value, "layers": layers}) for layers in TokenLayers]
    return _lab(compared, Lab.LAYERS, (present,), tried)


def tried(experiment: Experiment) -> list[Spec]:
    """Return the retrievers that a lab tries."""
    return [spec for spec in experiment.retriever if spec.chosen_on]


def chosen(experiment: Experiment, name: str) -> Spec:
    """Return what a lab tried under this name as a retriever to use, under a name that tells what it is."""
    spec = experiment.specs[name]
    # what the lab tries other values of, without those of an earlier choice
    present = _CHOSEN.sub("", [one.name for one in experiment.retriever if not one.chosen_on][-1])
    if experiment.lab is Lab.LEXICAL:
        usual = type(spec).model_fields
        options = {name: value for name, value in _options(spec).items() if value != usual[name].default}
        return spec.model_copy(update={"name": f"{present} · {_told(options)}" if options else present})
    if isinstance(spec, HybridSpec) and spec.weights:
        shares = (f"{part} {weight * 100:g}" for part, weight in zip(spec.of, spec.weights, strict=True))
        return spec.model_copy(update={"name": f"Hybrid · {' + '.join(shares)} · {spec.fusion}"})
    if isinstance(spec, RerankSpec):
        return spec.model_copy(update={"name": f"{present} · first {spec.depth} · weight {spec.weight:g}"})
    if isinstance(spec, DenseSpec):
        return spec.model_copy(update={"name": f"{present} · {spec.index}"})
    if isinstance(spec, LateSpec):
        return spec.model_copy(update={"name": f"{present} · {spec.layers}"})
    return spec.model_copy(update={"name": f"BM25 · {name}"})


def _options(spec: Spec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in OPTIONS if name in type(spec).model_fields}


def _told(change: Change) -> str:
    """Return what a change is called: "title weight 2"."""
    values = {of: f"{to:g}" if isinstance(to, float | int) else str(to or "none") for of, to in change.items()}
    return " · ".join(f"{of.replace('_', ' ')} {to}" for of, to in values.items()) or UNCHANGED


def _lab(compared: Experiment, lab: Lab, given: Sequence[str], tries: Sequence[Spec]) -> Experiment:
    known = [spec.model_copy(update={"chosen_on": None}) for spec in compared.needed(given)]
    marked = [spec.model_copy(update={"chosen_on": Part.VALIDATION}) for spec in tries]
    return compared.model_copy(update={"split": Part.VALIDATION, "lab": lab, "retriever": (*known, *marked)})


def lab_figures(lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Measure what a lab tried: a row each with its name, values, mean with the interval "low" to "high", and costs.

    Columns of values are those of the spec ("k1"); of a hybrid "fusion" and "weight", the share of its first part. What
    needs no mixture stands there too, not "tried": a hybrid's two parts at weight 1 and 0, what is reranked at 0. A
    reranking has a "ceiling" and its own "reranking_seconds"; an index the "overlap" with the exact one, and the
    "difference" to its mean with the interval "difference_low" to "difference_high". So has a change of BM25's options
    to the present values, and "changed" names the options that it changes; and so have other layers.
    """
    values = {name: of.per_question[measure] for name, of in lab.scores.items() if measure in of.per_question}
    kind, results = lab.experiment.lab, {one.name: one for one in lab.results if one.name in values}
    rows = [_row(spec, kind, results[spec.name]) for spec in tried(lab.experiment) if spec.name in results]
    by, weights = _ALONE.get(kind, ("", ()))
    rows += [
        {"name": name, "tried": False, by: value, "weight": weight}
        for name, weight in zip(tried(lab.experiment)[0].parts, weights, strict=False)
        for value in dict.fromkeys(row[by] for row in rows)
        if name in values
    ]
    figures = pd.DataFrame(rows)
    if figures.empty:
        return figures
    per_question = np.stack([values[name] for name in figures["name"]], axis=1)
    ends = share_intervals(per_question, groups)
    figures = figures.assign(value=per_question.mean(axis=0), low=ends[:, 0], high=ends[:, 1])
    return _MORE[kind](figures, lab, measure, groups) if kind in _MORE else figures


def best(figures: pd.DataFrame) -> str:
    """Return the name with the highest mean; of several the one without a mixture, then of least depth, then first."""
    top = figures[figures["value"] == figures["value"].max()]
    return str(top.sort_values([name for name in ("tried", "depth") if name in top], kind="stable")["name"].iloc[0])


def ceiling(first: Rankings, lab: Comparison, depth: int, measure: str) -> float:
    """Mean of `measure` if a reranker put all relevant passages among the first `depth` before the others."""
    hits = hits_of(first, lab.question_set)
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


def _with_gains(figures: pd.DataFrame, lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    present = next(spec.name for spec in reversed(lab.experiment.retriever) if not spec.chosen_on)
    return _against(figures, lab, present, measure, groups) if present in lab.scores else figures


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
    Lab.LAYERS: ("layers",),
}
# what a part alone stands beside in every row, and the weight of each part where it is alone
_ALONE: dict[Lab | None, tuple[str, tuple[float, ...]]] = {
    Lab.HYBRID: ("fusion", (1.0, 0.0)),
    Lab.RERANK: ("depth", (0.0,)),
}
_MORE = {Lab.LAYERS: _with_gains, Lab.LEXICAL: _with_changes, Lab.RERANK: _with_ceilings, Lab.INDEX: _with_losses}


SELECTED = "selected"  # the name of the cross-fitted side of the test


@dataclass(frozen=True)
class CrossFit:
    """The gain of selecting a setting, cross-fitted.

    `test` compares what is selected (side `a`, positive where it scores higher) with the present setting (side `b`).
    `selections` says in how many folds each setting is selected, by name, the most frequent first.
    """

    test: PairTest
    selections: Mapping[str, int]

    @property
    def folds(self) -> int:
        return sum(self.selections.values())


def cross_fit(
    lab: Comparison, figures: pd.DataFrame, present: str, measure: str, groups: np.ndarray
) -> CrossFit | None:
    """Cross-fit the selection among the settings of `figures` (see `lab_figures`) against the setting `present`.

    `groups` `(n_questions,)` are those of `question_groups`. Returns None if `present` has no value of the measure, or
    if all questions are in one fold.
    """
    values = {
        name: scores.per_question[measure] for name, scores in lab.scores.items() if measure in scores.per_question
    }
    folds = Lessons.of(lab.question_set, np.arange(len(lab.question_set.questions))).folds
    numbers = np.unique(folds)
    if present not in values or len(numbers) < 2:
        return None
    per_setting = np.stack([values[name] for name in figures["name"]], axis=1)
    fitted = np.empty(len(folds))
    selections: Counter[str] = Counter()
    for fold in numbers.tolist():
        inside = folds == fold
        selected = best(figures.assign(value=per_setting[~inside].mean(axis=0)))
        fitted[inside] = values[selected][inside]
        selections[selected] += 1
    (test,) = paired_tests([Pair(SELECTED, present, measure, fitted, values[present])], groups)
    return CrossFit(test, dict(selections.most_common()))
