"""Labs: experiments over the validation questions that try values of a retriever, and their results.

The retrievers that a lab tries differ only in its values and are marked as chosen on the validation part; those that
they wrap or are compared with are not. So a lab runs, stops and is stored like any other comparison.

The best of many settings scores higher on the questions that selected it than on others. `cross_fit` measures the
selection instead (Stone 1974, "Cross-validatory choice and assessment of statistical predictions"): the questions are
divided into folds, by article if there are enough; every fold is scored with the setting that is best on the other
folds. No question is scored with a setting that it helped to select.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import or_
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from mrc_workbench.data.split import Part
from mrc_workbench.data.split.partition import TrainingQueries
from mrc_workbench.data.text.analysis import WITH_KIWI
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer, resolve_analyzer
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.experiment import Experiment, LabKind
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.measures import Measure, evaluate, relevant_hits
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.retrieval.significance import (
    Pair,
    PairTest,
    difference_intervals,
    paired_tests,
    proportion_intervals,
)

SpecType = TypeVar("SpecType", bound=Spec)
K1S = (0.3, 0.6, 0.9, 1.2, 1.6, 2.0)
BS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.9)
FIRST_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
DEPTHS = (5, 10, 20, 50, 100)
RERANKER_WEIGHTS = tuple(round(0.1 * step, 1) for step in range(1, 11))
TITLE_WEIGHTS = (1.0, 2.0, 3.0, 5.0)
FB_DOCS = (3, 10)
FB_WEIGHTS = (0.1, 0.3, 0.5)
MAX_VALUES = 12  # of k1, and of b
MAX_CHANGES = 60  # of BM25's options, alone and together
OPTIONS = ("title_weight", "compounds", "dictionary", "fb_docs", "fb_terms", "fb_weight")
UNCHANGED = "unchanged"

OptionChange = dict[str, Any]  # values by option, in place of the present ones

_KIWI_OPTIONS = ("compounds", "dictionary")  # other analyzers hardly use them
_VARIED_FIELDS: dict[LabKind | None, tuple[str, ...]] = {
    None: (),
    LabKind.BM25: ("sentences", "analyzer", "k1", "b"),
    LabKind.LEXICAL: OPTIONS,
    LabKind.HYBRID: ("fusion", "weight"),
    LabKind.RERANK: ("rerank_top_k", "weight"),
    LabKind.INDEX: ("index",),
    LabKind.LAYERS: ("layers",),
}
# the value beside which a part alone is listed, and the weight of each part if it is alone
_SINGLE_COMPONENT_ROWS: dict[LabKind | None, tuple[str, tuple[float, ...]]] = {
    LabKind.HYBRID: ("fusion", (1.0, 0.0)),
    LabKind.RERANK: ("rerank_top_k", (0.0,)),
}
SELECTED = "selected"  # the name of the cross-fitted side of the test


def parse_numbers(text: str, *, maximum: float) -> tuple[float, ...]:
    """Read numbers from 0 to `most`, separated by commas or spaces: ascending, without duplicates.

    Raises `ValueError` for anything else, and if there are none or more than `MOST_VALUES`.
    """
    values = sorted({float(part) for part in re.split(r"[\s,;]+", text.strip()) if part})
    if not 0 < len(values) <= MAX_VALUES or not all(0 <= value <= maximum for value in values):
        raise ValueError(f"{text!r} is not 1 to {MAX_VALUES} numbers between 0 and {maximum}")
    return tuple(values)


def analyzers_for(texts: Iterable[str]) -> tuple[Analyzer, ...]:
    """Return the analyzers worth trying on passages of this script and language, the default one first."""
    best = resolve_analyzer(Analyzer.AUTO, texts)
    if best in LANGUAGE_OF:
        return best, Analyzer.WORD, Analyzer.BIGRAM, Analyzer.WHITESPACE
    others = {
        Analyzer.KIWI_BIGRAM: (Analyzer.KIWI, Analyzer.BIGRAM, Analyzer.WORD),
        Analyzer.BIGRAM: (Analyzer.WORD,),
        Analyzer.JAPANESE: (Analyzer.BIGRAM, Analyzer.WORD),
    }
    return best, *others.get(best, (Analyzer.BIGRAM, Analyzer.WHITESPACE))


def bm25_lab(
    compared: Experiment,
    current: str,
    analyzers: Sequence[Analyzer],
    *,
    sentences: Sequence[int] = (0,),
    k1s: Sequence[float] = K1S,
    bs: Sequence[float] = BS,
) -> Experiment:
    """Return the experiment that tries every analyzer with every k1 and b in place of those of BM25 `present`.

    `sentences` are lengths of windows in which passages are searched, 0 for whole passages. Its other options stay as
    they are, unless the variant cannot use them: windows have no feedback, and a dictionary is Kiwi's.
    """
    spec = _current_spec(compared, current, TermSpec, "is no BM25")  # type: ignore[type-abstract]
    variants: list[Spec] = []
    for length, analyzer, k1, b in product(sentences, analyzers, k1s, bs):
        window = f"windows of {length} · " if length else ""
        values = {"name": f"{window}{analyzer} · k1 {k1:g} · b {b:g}", "analyzer": analyzer, "k1": k1, "b": b}
        values |= {"title": spec.title, "pairs": spec.pairs}
        values |= {"stop_words": spec.stop_words and analyzer in LANGUAGE_OF}
        values |= {"sentences": length} if length else {}
        kind = WindowedBM25Spec if length else BM25Spec
        unused = () if analyzer in WITH_KIWI else _KIWI_OPTIONS
        options = {name: value for name, value in _options(spec).items() if name not in unused}
        values |= {name: value for name, value in options.items() if name in kind.model_fields}
        variants.append(kind.model_validate(values))
    return _lab_experiment(compared, LabKind.BM25, (current,), variants)


def option_changes(**values: Sequence[Any]) -> list[OptionChange]:
    """Return every combination of values of one kind of change: `changes(title_weight=(1, 2))`."""
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def lexical_lab(compared: Experiment, current: str, kinds: Sequence[Sequence[OptionChange]]) -> Experiment:
    """Return the experiment that tries other options of BM25 `present`; `kinds` are the changes of each kind.

    It tries the present values (`UNCHANGED`), every change alone, and every combination of one change of each kind,
    which shows whether the gains add up. Raises `ValueError` if more than `MOST_CHANGES` would be tried, or if
    `present` does not have an option or cannot combine two.
    """
    spec = _current_spec(compared, current, TermSpec, "is no BM25")  # type: ignore[type-abstract]
    single_changes = [change for kind in kinds for change in kind]
    combined_changes = [reduce(or_, parts) for parts in product(*kinds)] if len(kinds) > 1 else []
    all_changes = [*single_changes, *combined_changes]
    if len(all_changes) > MAX_CHANGES:
        raise ValueError(f"{len(all_changes)} changes are too many: {MAX_CHANGES} are tried at most")
    values = spec.model_dump()
    named: list[OptionChange] = [change | {"name": _description(change) or UNCHANGED} for change in ({}, *all_changes)]
    variants = [type(spec).model_validate(values | change) for change in named]
    return _lab_experiment(compared, LabKind.LEXICAL, (current,), variants)


def hybrid_lab(
    compared: Experiment,
    first: str,
    second: str,
    fusions: Sequence[Fusion] = tuple(Fusion),
    weights: Sequence[float] = FIRST_WEIGHTS,
) -> Experiment:
    """Return the experiment that fuses two retrievers in several ways; `weights` (of 1 in total) are the first one's.

    A hybrid of only these two that is compared already is listed beside them.
    """
    variants = [
        HybridSpec(
            name=f"{fusion} · {weight:g}",
            retrievers=(first, second),
            fusion=fusion,
            weights=(weight, round(1 - weight, 9)),
        )
        for fusion, weight in product(fusions, weights)
    ]
    hybrids = [spec for spec in compared.retriever if isinstance(spec, HybridSpec)]
    current = [spec.name for spec in hybrids if {*spec.retrievers} == {first, second}]
    return _lab_experiment(compared, LabKind.HYBRID, (first, second, *current), variants)


def rerank_lab(
    compared: Experiment, current: str, depths: Sequence[int] = DEPTHS, weights: Sequence[float] = RERANKER_WEIGHTS
) -> Experiment:
    """Return the experiment that reranks so many first passages with these weights of the reranker's score."""
    spec = _current_spec(compared, current, RerankSpec, "reranks nothing")
    # the deepest comes first: it scores all pairs there are
    grid = product(sorted(depths, reverse=True), weights)
    values = [{"name": f"{depth} · {weight:g}", "rerank_top_k": depth, "weight": weight} for depth, weight in grid]
    return _lab_experiment(
        compared, LabKind.RERANK, (current,), [spec.model_copy(update=changed) for changed in values]
    )


def index_lab(compared: Experiment, current: str) -> Experiment:
    """Return the experiment that searches the same vectors in every kind of index."""
    spec = _current_spec(compared, current, DenseSpec, "has no vectors")
    variants = [spec.model_copy(update={"name": kind.value, "index": kind}) for kind in IndexKind]
    return _lab_experiment(compared, LabKind.INDEX, (current,), variants)


def layers_lab(compared: Experiment, current: str) -> Experiment:
    """Return the experiment that compares passages by other layers of the model of late interaction `present`."""
    spec = _current_spec(compared, current, LateSpec, "compares no tokens")
    variants = [spec.model_copy(update={"name": layers.value, "layers": layers}) for layers in TokenLayers]
    return _lab_experiment(compared, LabKind.LAYERS, (current,), variants)


def tried_specs(experiment: Experiment) -> list[Spec]:
    """Return the retrievers that a lab tries."""
    return [spec for spec in experiment.retriever if spec.selected_on]


def selected_spec(experiment: Experiment, name: str) -> Spec:
    """Return what a lab tried under this name as a retriever to use, under a name that describes it."""
    spec = experiment.specs[name]
    current = _reference_spec(experiment)
    if isinstance(spec, HybridSpec) and spec.weights:
        weights = (f"{part} {weight * 100:g}" for part, weight in zip(spec.retrievers, spec.weights, strict=True))
        name = f"Hybrid · {' + '.join(weights)} · {spec.fusion}"
    elif experiment.lab is LabKind.LEXICAL or isinstance(spec, RerankSpec | DenseSpec | LateSpec):
        name = current.name.removesuffix(_settings_suffix(current)) + _settings_suffix(spec)
    else:
        name = f"BM25 · {name}"
    return spec.model_copy(update={"name": name})


def _settings_suffix(spec: Spec) -> str:
    match spec:
        case RerankSpec(rerank_top_k=depth, weight=float(weight)):
            return f" · first {depth} · weight {weight:g}"
        case DenseSpec(index=kind):
            return f" · {kind}"
        case LateSpec(layers=layers):
            return f" · {layers}"
    fields = type(spec).model_fields
    changed = {name: value for name, value in _options(spec).items() if value != fields[name].default}
    return f" · {_description(changed)}" if changed else ""


def _options(spec: Spec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in OPTIONS if name in type(spec).model_fields}


def _description(change: OptionChange) -> str:
    values = {
        name: f"{value:g}" if isinstance(value, float | int) else str(value or "none") for name, value in change.items()
    }
    return " · ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())


def _current_spec(compared: Experiment, name: str, kind: type[SpecType], problem: str) -> SpecType:
    spec = compared.specs[name]
    if not isinstance(spec, kind):
        raise ValueError(f"{name!r} {problem}")
    return spec


def _reference_spec(experiment: Experiment) -> Spec:
    """Return the retriever whose values a lab varies; of a hybrid lab, the last that it lists beside those tried."""
    return [spec for spec in experiment.retriever if not spec.selected_on][-1]


def _lab_experiment(
    compared: Experiment, lab: LabKind, reference_names: Sequence[str], tried: Sequence[Spec]
) -> Experiment:
    references = [spec.model_copy(update={"selected_on": None}) for spec in compared.with_dependencies(reference_names)]
    variants = [spec.model_copy(update={"selected_on": Part.VALIDATION}) for spec in tried]
    return compared.model_copy(update={"split": Part.VALIDATION, "lab": lab, "retriever": (*references, *variants)})


def lab_results(lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Measure what a lab tried: a row each with its name, values, mean with the interval "low" to "high", and costs.

    Columns of values are those of the spec ("k1"); of a hybrid "fusion" and "weight", that of its first part. Parts
    alone are listed too, not "is_variant": those of a hybrid at weight 1 and 0, the first stage of a reranker at 0. A
    reranker has a "ceiling" and its own "reranking_seconds". An index has the "overlap" with the exact one, and the
    "difference" to its mean with the interval "difference_low" to "difference_high". So have changes of BM25's options
    and layers, to the present values; "changed" names the changed options.
    """
    values = {
        name: retriever_scores.per_question[measure]
        for name, retriever_scores in lab.scores.items()
        if measure in retriever_scores.per_question
    }
    kind = lab.experiment.lab
    results = {result.name: result for result in lab.results if result.name in values}
    rows = [_result_row(spec, kind, results[spec.name]) for spec in tried_specs(lab.experiment) if spec.name in results]
    by, weights = _SINGLE_COMPONENT_ROWS.get(kind, ("", ()))
    rows += [
        {"name": name, "is_variant": False, by: value, "weight": weight}
        for name, weight in zip(tried_specs(lab.experiment)[0].components, weights, strict=False)
        for value in dict.fromkeys(row[by] for row in rows)
        if name in values
    ]
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    per_question = np.stack([values[name] for name in table["name"]], axis=1)
    intervals = proportion_intervals(per_question, groups)
    table = table.assign(value=per_question.mean(axis=0), low=intervals[:, 0], high=intervals[:, 1])
    if kind is LabKind.RERANK:
        return _with_ceilings(table, lab, measure)
    reference = _reference_spec(lab.experiment)
    if kind is LabKind.LEXICAL:
        specs = [_options(lab.experiment.specs[name]) for name in table["name"]]
        current_options = _options(reference)
        changed = [tuple(name for name in OPTIONS if spec.get(name) != current_options.get(name)) for spec in specs]
        table = table.assign(changed=pd.Series(changed))
    base = IndexKind.EXACT if kind is LabKind.INDEX else reference.name
    if kind in (LabKind.LEXICAL, LabKind.INDEX, LabKind.LAYERS) and base in lab.scores:
        differences = per_question - lab.scores[base].per_question[measure][:, None]
        low, high = difference_intervals(differences, groups).T
        table = table.assign(difference=differences.mean(axis=0), difference_low=low, difference_high=high)
    if kind is LabKind.INDEX and base in lab.scores:
        cut = Measure.parse(measure).cutoff
        rankings = lab.rankings
        table = table.assign(overlap=[overlap(rankings[base], rankings[name], cut) for name in table["name"]])
    return table


def _result_row(spec: Spec, lab: LabKind | None, result: Result) -> dict[str, object]:
    return {
        "name": spec.name,
        "is_variant": True,
        **{name: getattr(spec, name, None) for name in _VARIED_FIELDS[lab]},
        "build_seconds": result.build_seconds,
        "query_seconds": result.query_seconds,
        "search_seconds": result.query_seconds - result.model_seconds,
        "memory_bytes": result.memory_bytes,
    }


def _with_ceilings(table: pd.DataFrame, lab: Comparison, measure: str) -> pd.DataFrame:
    (name,) = {part for spec in tried_specs(lab.experiment) for part in spec.components}
    first = next(result for result in lab.results if result.name == name)
    if first.rankings is None:
        return table
    ceilings = {depth: ceiling(first.rankings, lab, depth, measure) for depth in table["rerank_top_k"].unique()}
    reranking = (table["query_seconds"] - first.query_seconds).clip(lower=0).fillna(0)  # alone it reranks nothing
    return table.assign(ceiling=table["rerank_top_k"].map(ceilings), reranking_seconds=reranking)


def best_setting_name(table: pd.DataFrame) -> str:
    """Return the name with the highest mean; of several the one without a mixture, then of least depth, then first."""
    top = table[table["value"] == table["value"].max()]
    return str(
        top.sort_values([name for name in ("is_variant", "rerank_top_k") if name in top], kind="stable")["name"].iloc[0]
    )


def ceiling(first: Rankings, lab: Comparison, depth: int, measure: str) -> float:
    """Return the mean of `measure` if a reranker put all relevant passages among the first `depth` on top."""
    hits = relevant_hits(first, lab.question_set)
    hits[:, depth:] = False
    order = np.argsort(~hits, axis=1, kind="stable")
    best = Rankings(np.take_along_axis(first.indices, order, 1), first.scores)
    return float(evaluate(best, lab.question_set, lab.experiment.ks).per_question[measure].mean())


def overlap(exact: Rankings, other: Rankings, k: int) -> float:
    """Return the share of the first k passages of `exact` that are among those of `other`, averaged over questions."""
    is_shared = exact.indices[:, :k, None] == other.indices[:, None, :k]
    expected = exact.indices[:, :k] != NOT_FOUND
    shared = (is_shared.any(axis=2) & expected).sum(axis=1)
    counts = expected.sum(axis=1)
    return float((shared[counts > 0] / counts[counts > 0]).mean()) if counts.any() else 1.0


@dataclass(frozen=True)
class CrossFit:
    """The gain of selecting a setting, cross-fitted.

    `test` compares what is selected (side `a`, positive if it scores higher) with the present setting (side `b`).
    `selections` says in how many folds each setting is selected, by name, the most frequent first.
    """

    test: PairTest
    selections: Mapping[str, int]

    @property
    def folds(self) -> int:
        return sum(self.selections.values())


def cross_fit(lab: Comparison, table: pd.DataFrame, current: str, measure: str, groups: np.ndarray) -> CrossFit | None:
    """Cross-fit the selection among the settings of `figures` (see `lab_figures`) against the setting `present`.

    Returns None if `present` has no value of the measure, or if all questions are in one fold.
    """
    values = {
        name: retriever_scores.per_question[measure]
        for name, retriever_scores in lab.scores.items()
        if measure in retriever_scores.per_question
    }
    folds = TrainingQueries.from_question_set(lab.question_set, np.arange(len(lab.question_set.questions))).folds
    if current not in values or len(np.unique(folds)) < 2:
        return None
    per_setting = np.stack([values[name] for name in table["name"]], axis=1)
    fitted = np.empty(len(folds))
    selections: Counter[str] = Counter()
    for fold in np.unique(folds).tolist():
        is_in_fold = folds == fold
        selected = best_setting_name(table.assign(value=per_setting[~is_in_fold].mean(axis=0)))
        fitted[is_in_fold] = values[selected][is_in_fold]
        selections[selected] += 1
    (test,) = paired_tests([Pair(SELECTED, current, measure, fitted, values[current])], groups)
    return CrossFit(test, dict(selections.most_common()))
