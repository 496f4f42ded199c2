"""Labs: experiments that try settings of a retriever on the validation questions, and their results.

A lab is a comparison: its variants differ only in the tried values and have `selected_on = "validation"`; the
retrievers that they wrap, and the current one, do not.

The best of many settings scores higher on the questions that selected it than on others. `cross_fit` measures the
selection instead (Stone 1974, "Cross-validatory choice and assessment of statistical predictions"): it divides the
questions into folds, by article if there are enough, and scores each fold with the best setting of the other folds.
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
from mrc_workbench.retrieval import significance
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import Comparison, Result, values_by_retriever
from mrc_workbench.retrieval.comparison.experiment import Experiment, LabKind
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.measures import Measure, evaluate, relevant_hits
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings

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
MAX_CHANGES = 60  # of BM25's options, single and combined
OPTIONS = ("title_weight", "compounds", "dictionary", "fb_docs", "fb_terms", "fb_weight")
UNCHANGED = "unchanged"

OptionChange = dict[str, Any]  # new values by option

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
# the column to repeat for each single component, and the weight of that component
_SINGLE_COMPONENT_ROWS: dict[LabKind | None, tuple[str, tuple[float, ...]]] = {
    LabKind.HYBRID: ("fusion", (1.0, 0.0)),
    LabKind.RERANK: ("rerank_top_k", (0.0,)),
}
SELECTED = "selected"  # the name of the cross-fitted side of the test


def parse_numbers(text: str, *, maximum: float) -> tuple[float, ...]:
    """Read 1 to `MAX_VALUES` numbers from 0 to `maximum`, separated by commas or spaces: ascending, without duplicates.

    Raises `ValueError` for anything else.
    """
    values = sorted({float(part) for part in re.split(r"[\s,;]+", text.strip()) if part})
    if not 0 < len(values) <= MAX_VALUES or not all(0 <= value <= maximum for value in values):
        raise ValueError(f"{text!r} is not 1 to {MAX_VALUES} numbers between 0 and {maximum}")
    return tuple(values)


def analyzers_for(texts: Iterable[str]) -> tuple[Analyzer, ...]:
    """Return the analyzers worth trying on these passages, the default one first."""
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
    """Return the experiment that tries every analyzer with every k1 and b instead of those of the BM25 `current`.

    `sentences` are lengths of windows, 0 for whole passages. Other options stay, unless the variant cannot use them:
    windows have no feedback, and only Kiwi has a dictionary.
    """
    spec = _current_spec(compared, current, TermSpec, "is no BM25")  # type: ignore[type-abstract]
    variants: list[Spec] = []
    for length, analyzer, k1, b in product(sentences, analyzers, k1s, bs):
        window = f"windows of {length} · " if length else ""
        kind = WindowedBM25Spec if length else BM25Spec
        unused = () if analyzer in WITH_KIWI else _KIWI_OPTIONS
        options = {name: value for name, value in _options(spec).items() if name not in unused}
        values = {
            **{name: value for name, value in options.items() if name in kind.model_fields},
            **({"sentences": length} if length else {}),
            "name": f"{window}{analyzer} · k1 {k1:g} · b {b:g}",
            "title": spec.title,
            "pairs": spec.pairs,
            "stop_words": spec.stop_words and analyzer in LANGUAGE_OF,
        }
        variants.append(kind.model_validate(values | {"analyzer": analyzer, "k1": k1, "b": b}))
    return _lab_experiment(compared, LabKind.BM25, (current,), variants)


def option_changes(**values: Sequence[Any]) -> list[OptionChange]:
    """Return every combination of values of one kind of change: `option_changes(title_weight=(1, 2))`."""
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def lexical_lab(compared: Experiment, current: str, kinds: Sequence[Sequence[OptionChange]]) -> Experiment:
    """Return the experiment that tries other options of the BM25 `current`; `kinds` are the changes of each kind.

    It tries the current values (`UNCHANGED`), every single change, and every combination of one change of each kind,
    which shows whether the gains add up. Raises `ValueError` for more than `MAX_CHANGES`, and if `current` does not
    have an option or cannot combine two.
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

    A compared hybrid of exactly these two is the reference.
    """
    grid = [(fusion, (weight, round(1 - weight, 9))) for fusion, weight in product(fusions, weights)]
    variants = [
        HybridSpec(name=f"{fusion} · {pair[0]:g}", retrievers=(first, second), fusion=fusion, weights=pair)
        for fusion, pair in grid
    ]
    hybrids = [spec for spec in compared.retriever if isinstance(spec, HybridSpec)]
    current = [spec.name for spec in hybrids if {*spec.retrievers} == {first, second}]
    return _lab_experiment(compared, LabKind.HYBRID, (first, second, *current), variants)


def rerank_lab(
    compared: Experiment, current: str, depths: Sequence[int] = DEPTHS, weights: Sequence[float] = RERANKER_WEIGHTS
) -> Experiment:
    """Return the experiment that tries these depths with these weights of the reranker's score."""
    spec = _current_spec(compared, current, RerankSpec, "reranks nothing")
    grid = product(sorted(depths, reverse=True), weights)  # the deepest first: it scores all pairs, which are cached
    values = [{"name": f"{depth} · {weight:g}", "rerank_top_k": depth, "weight": weight} for depth, weight in grid]
    variants = [spec.model_copy(update=changed) for changed in values]
    return _lab_experiment(compared, LabKind.RERANK, (current,), variants)


def index_lab(compared: Experiment, current: str) -> Experiment:
    """Return the experiment that searches the same vectors in every kind of index."""
    spec = _current_spec(compared, current, DenseSpec, "has no vectors")
    variants = [spec.model_copy(update={"name": kind.value, "index": kind}) for kind in IndexKind]
    return _lab_experiment(compared, LabKind.INDEX, (current,), variants)


def layers_lab(compared: Experiment, current: str) -> Experiment:
    """Return the experiment that tries the layers of the late interaction model of `current`."""
    spec = _current_spec(compared, current, LateSpec, "compares no tokens")
    variants = [spec.model_copy(update={"name": layers.value, "layers": layers}) for layers in TokenLayers]
    return _lab_experiment(compared, LabKind.LAYERS, (current,), variants)


def tried_specs(experiment: Experiment) -> list[Spec]:
    """Return the variants of a lab."""
    return [spec for spec in experiment.retriever if spec.selected_on]


def selected_spec(experiment: Experiment, name: str) -> Spec:
    """Return the lab's variant of this name as a retriever, under a name that describes its settings."""
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
    parts = []
    for name, value in change.items():
        text = f"{value:g}" if isinstance(value, float | int) else str(value or "none")
        parts.append(f"{name.replace('_', ' ')} {text}")
    return " · ".join(parts)


def _current_spec(compared: Experiment, name: str, kind: type[SpecType], problem: str) -> SpecType:
    spec = compared.specs[name]
    if not isinstance(spec, kind):
        raise ValueError(f"{name!r} {problem}")
    return spec


def _reference_spec(experiment: Experiment) -> Spec:
    """Return the retriever that a lab varies; of a hybrid lab, the last one that is no variant."""
    return [spec for spec in experiment.retriever if not spec.selected_on][-1]


def _lab_experiment(
    compared: Experiment, lab: LabKind, reference_names: Sequence[str], tried: Sequence[Spec]
) -> Experiment:
    references = [spec.model_copy(update={"selected_on": None}) for spec in compared.with_dependencies(reference_names)]
    variants = [spec.model_copy(update={"selected_on": Part.VALIDATION}) for spec in tried]
    return compared.model_copy(update={"split": Part.VALIDATION, "lab": lab, "retriever": (*references, *variants)})


def lab_results(lab: Comparison, measure: str, groups: np.ndarray) -> pd.DataFrame:
    """Measure the variants of a lab: a row each with name, values, mean, interval "low" to "high", and costs.

    Columns of values are the fields of the spec ("k1"); a hybrid has "fusion" and the "weight" of its first component.
    Single components are rows, too, without "is_variant": those of a hybrid at weight 1 and 0, the first stage of a
    reranker at 0. A reranker has a "ceiling" and its own "reranking_seconds". An index has the "overlap" with the exact
    one. Indexes, options of BM25 and layers have the "difference" from the exact index or the current values, with the
    interval "difference_low" to "difference_high"; "changed" names the changed options.
    """
    values = values_by_retriever(lab.scores, measure)
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
    intervals = significance.proportion_intervals(per_question, groups)
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
        low, high = significance.difference_intervals(differences, groups).T
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
    reranking = (table["query_seconds"] - first.query_seconds).clip(lower=0).fillna(0)  # 0 for the first stage
    return table.assign(ceiling=table["rerank_top_k"].map(ceilings), reranking_seconds=reranking)


def best_setting_name(table: pd.DataFrame) -> str:
    """Return the name with the highest mean; of equal ones a single component, then the least depth, then the first."""
    top = table[table["value"] == table["value"].max()]
    criteria = [name for name in ("is_variant", "rerank_top_k") if name in top]
    return str(top.sort_values(criteria, kind="stable")["name"].iloc[0])


def ceiling(first: Rankings, lab: Comparison, depth: int, measure: str) -> float:
    """Return the mean of `measure` if a reranker moved all relevant passages of the top `depth` to the top."""
    hits = relevant_hits(first, lab.question_set)
    hits[:, depth:] = False
    order = np.argsort(~hits, axis=1, kind="stable")
    best = Rankings(np.take_along_axis(first.indices, order, 1), first.scores)
    return float(evaluate(best, lab.question_set, lab.experiment.ks).per_question[measure].mean())


def overlap(exact: Rankings, other: Rankings, k: int) -> float:
    """Return the fraction of the top k of `exact` that `other` has in its top k, averaged over questions."""
    is_shared = exact.indices[:, :k, None] == other.indices[:, None, :k]
    expected = exact.indices[:, :k] != NOT_FOUND
    shared = (is_shared.any(axis=2) & expected).sum(axis=1)
    counts = expected.sum(axis=1)
    return float((shared[counts > 0] / counts[counts > 0]).mean()) if counts.any() else 1.0


@dataclass(frozen=True)
class CrossFit:
    """The cross-fitted gain of selecting a setting.

    `test` compares the selected settings (side `a`, positive if they score higher) with the current one (side `b`).
    `selections` counts the folds that select each setting, the most frequent first.
    """

    test: significance.PairTest
    selections: Mapping[str, int]

    @property
    def folds(self) -> int:
        return sum(self.selections.values())


def cross_fit(lab: Comparison, table: pd.DataFrame, current: str, measure: str, groups: np.ndarray) -> CrossFit | None:
    """Cross-fit the selection among the settings of `table` (see `lab_results`) against the setting `current`.

    Returns None if `current` has no value of the measure, or if all questions are in one fold.
    """
    values = values_by_retriever(lab.scores, measure)
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
    pair = significance.Pair(SELECTED, current, measure, fitted, values[current])
    (test,) = significance.paired_tests([pair], groups)
    return CrossFit(test, dict(selections.most_common()))
