"""Search k1 and b on seven datasets, and test defaults from other datasets: `python -m benchmarks bm25_values`.

Two kinds of defaults are tested by leaving one dataset out: the pair with the largest gain on the other datasets and a
loss on none; and one of two pairs, selected by a threshold of a statistic of the corpus or the questions. The
statistic, the threshold and both pairs are those with the largest gain on the other datasets.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.quality.article_split import MEASURE, SPLIT, compare_part, scores, workspace
from benchmarks.quality.mixes import paraphrase_set, read_pair_set
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, split
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import Analyzer, resolve_analyzer
from mrc_workbench.retrieval.analysis.labs import cross_fit
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.significance import mean_interval, question_groups

K1S = (0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 3.0)
BS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
PAIRS = [*product(K1S, BS)]
DEFAULT = (0.9, 0.4)
_FILES = {
    "NPL (vaswani)": "vaswani.beir.zip",
    "Cranfield": "cranfield.beir.zip",
    "XQuAD Russian": "xquad.ru.json",
    "JaQuAD dev": "jaquad_dev.json",
}
_PAIRS = {"KorSTS test": "korsts_test.tsv", "KLUE-STS dev": "klue_sts_dev.json", "KorNLI dev": "kornli_xnli_dev.tsv"}


class SetResult(NamedTuple):
    """The nDCG@10 of a dataset with each of the `PAIRS`, and its statistics."""

    question_set: QuestionSet
    values: np.ndarray  # (n_pairs, n_questions) float64
    groups: np.ndarray  # (n_questions,) of `question_groups`
    statistics: Mapping[str, float]
    cross_validated: tuple[float, float, float]  # gain and its 95% interval

    @property
    def gains(self) -> np.ndarray:
        """The mean difference of each pair from the default, `(n_pairs,)`."""
        means = self.values.mean(axis=1)
        gains: np.ndarray = means - means[PAIRS.index(DEFAULT)]
        return gains

    def gain(self, pair: int) -> tuple[float, float, float]:
        """Return the mean difference of a pair from the default, and its 95% interval."""
        differences = self.values[pair] - self.values[PAIRS.index(DEFAULT)]
        return float(differences.mean()), *mean_interval(differences, self.groups)


def bm25_values() -> list[str]:
    """Search each dataset with each pair; returns a Markdown table, and the gains of a common pair."""
    with workspace():
        measured = {name: _measure(question_set) for name, question_set in selection_sets()}
        pair = harmless_pair([*measured.values()])
        confirmed = {name: _gain(question_set, part, pair) for name, question_set, part in held_out_sets()}
    k1, b = PAIRS[pair]
    return [
        *report(measured),
        f"On datasets that were not used to select k1 {k1:g} and b {b:g}: {_format_gains(confirmed)}.",
    ]


def report(measured: Mapping[str, SetResult]) -> list[str]:
    """Return a row for each dataset, and the gains of a common pair."""
    lines = [
        "| dataset | passages | questions | k1 0.9, b 0.4 | best in hindsight | cross-validated "
        "| pair from other datasets | selected by a statistic |",
        "|---|---:|---:|---:|---|---|---|---|",
    ]
    for name, result in measured.items():
        others = [other_result for other, other_result in measured.items() if other != name]
        rule = threshold_rule(others)
        cells = [
            name,
            f"{len(result.question_set.passages):,}",
            f"{len(result.question_set.questions):,}",
            f"{result.values[PAIRS.index(DEFAULT)].mean() * 100:.2f}",
            _format_pair(result, int(result.gains.argmax())),
            _format_gain(result.cross_validated),
            _format_pair(result, harmless_pair(others)),
            f"{_format_pair(result, rule.pair(result.statistics))}, {rule.statistic}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *_describe_common_pair(measured)]


def harmless_pair(sets: list[SetResult]) -> int:
    """Return the pair with the largest mean gain among those that lose on none of the datasets."""
    gains = np.stack([result.gains for result in sets])
    means = np.where(gains.min(axis=0) >= 0, gains.mean(axis=0), -np.inf)
    return int(means.argmax())


@dataclass(frozen=True)
class Rule:
    """One pair if a statistic is above a threshold, another pair otherwise."""

    statistic: str
    threshold: float
    above: int
    below: int

    def pair(self, statistics: Mapping[str, float]) -> int:
        return self.above if statistics[self.statistic] > self.threshold else self.below


def threshold_rule(sets: list[SetResult]) -> Rule:
    """Return the rule with the largest total gain; thresholds are halfway between the values of two datasets."""
    best = -np.inf
    rules = list[Rule]()
    for statistic in sets[0].statistics:
        values = sorted(result.statistics[statistic] for result in sets)
        for low, high in pairwise(values):
            threshold = (low + high) / 2
            above = np.sum([result.gains for result in sets if result.statistics[statistic] > threshold], axis=0)
            below = np.sum([result.gains for result in sets if result.statistics[statistic] <= threshold], axis=0)
            if above.max() + below.max() > best:
                best = above.max() + below.max()
                rules.append(Rule(statistic, threshold, int(above.argmax()), int(below.argmax())))
    return rules[-1]


def selection_sets() -> Iterator[tuple[str, QuestionSet]]:
    """Yield the datasets on which values may be selected, as no other table evaluates a selected value on them."""
    folder = Path(os.environ.get("MRC_DATA", ""))
    for name, file in _FILES.items():
        yield name, read_file(folder / file).question_set
    whole = read_file(korquad()).question_set
    parts = split(whole, SPLIT)
    rows = np.sort(np.concatenate([parts.rows[part] for part in (Part.TRAIN, Part.VALIDATION)]))
    yield "KorQuAD, the other 100 articles", whole.with_questions(rows)
    yield "Korean sample", read_entry(CATALOG["sample"]).question_set
    yield "KorSTS train", paraphrase_set(read_pair_set("korsts_train.tsv"), "KorSTS train")


def held_out_sets() -> Iterator[tuple[str, QuestionSet, Part]]:
    """Yield datasets with other questions, on which the common pair is evaluated once."""
    yield "KorQuAD, test articles", read_file(korquad()).question_set, Part.TEST
    for name, file in _PAIRS.items():
        yield name, paraphrase_set(read_pair_set(file), name), Part.ALL


def _gain(question_set: QuestionSet, part: Part, pair: int) -> tuple[float, float, float]:
    """Return the mean difference of a pair to the default, and its 95% interval."""
    specs = [BM25Spec(name=_retriever_name(k1, b), k1=k1, b=b) for k1, b in (DEFAULT, PAIRS[pair])]
    comparison = compare_part(question_set, part, *specs)
    default_scores, pair_scores = (scores(comparison)[spec.name].per_question[MEASURE] for spec in specs)
    differences = pair_scores - default_scores
    return float(differences.mean()), *mean_interval(differences, question_groups(comparison.question_set))


def _measure(question_set: QuestionSet) -> SetResult:
    specs = [BM25Spec(name=_retriever_name(k1, b), k1=k1, b=b) for k1, b in PAIRS]
    comparison = compare_part(question_set, Part.ALL, *specs)
    values = np.stack([scores(comparison)[spec.name].per_question[MEASURE] for spec in specs])
    groups = question_groups(comparison.question_set)
    candidates = pd.DataFrame({"name": [spec.name for spec in specs], "is_variant": True})
    fit = cross_fit(comparison, candidates, _retriever_name(*DEFAULT), MEASURE, groups)
    if fit is None:
        raise ValueError(f"{question_set.name} has too few groups of questions")
    gain = (fit.test.difference, fit.test.low, fit.test.high)
    return SetResult(comparison.question_set, values, groups, statistics(comparison.question_set), gain)


def statistics(question_set: QuestionSet) -> dict[str, float]:
    """Return the statistics for rules: lengths in terms, repetition and rarity of terms."""
    texts = question_set.passages.indexed_texts(title=True)
    analyzer = resolve_analyzer(Analyzer.AUTO, texts)
    passages = tokens_of(analyzer, texts)
    questions = tokens_of(analyzer, [question.text for question in question_set.questions])
    lengths = np.diff(passages.offsets)
    counts = counts_by_term(passages.ids, passages.offsets, len(passages.vocabulary))
    document_frequencies = np.bincount(counts.indices, minlength=len(passages.vocabulary))
    idf = np.log1p((len(texts) - document_frequencies + 0.5) / (document_frequencies + 0.5))
    return {
        "passage length": float(lengths.mean()),
        "length variation": float(lengths.std() / lengths.mean()),
        "term frequency": float(counts.data.mean()),
        "idf": float(idf[passages.ids].mean()),
        "question length": float(np.diff(questions.offsets).mean()),
        "passages": float(len(texts)),
    }


def _describe_common_pair(measured: Mapping[str, SetResult]) -> list[str]:
    """Return a line on the pair with the largest gain on all datasets, selected on these datasets."""
    pair = harmless_pair([*measured.values()])
    k1, b = PAIRS[pair]
    gains = _format_gains({name: result.gain(pair) for name, result in measured.items()})
    return [
        f"One pair for all datasets, selected in hindsight: k1 {k1:g} and b {b:g} lose on none of them. "
        f"Points of nDCG@10: {gains}."
    ]


def _format_gains(gains: Mapping[str, tuple[float, float, float]]) -> str:
    return ", ".join(f"{name} {_format_gain(gain)}" for name, gain in gains.items())


def _retriever_name(k1: float, b: float) -> str:
    return f"k1 {k1:g} b {b:g}"


def _format_pair(result: SetResult, pair: int) -> str:
    k1, b = PAIRS[pair]
    return f"{k1:g}, {b:g}: {_format_gain(result.gain(pair))}"


def _format_gain(gain: tuple[float, float, float]) -> str:
    mean, low, high = (f"{100 * value:+.2f}" for value in gain)
    return f"{mean} ({low} to {high})"
