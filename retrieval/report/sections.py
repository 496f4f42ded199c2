"""The report's sections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.split import Split
from mrc_workbench.retrieval.analysis.evidence import Evidence, label
from mrc_workbench.retrieval.analysis.questions import DEPTHS, FATES, Fate, ceilings, fate_counts, fates
from mrc_workbench.retrieval.analysis.recommendation import cost_of
from mrc_workbench.retrieval.analysis.slices import Property, labels_of, slice_table
from mrc_workbench.retrieval.analysis.slices import slices as cut
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.evaluation.measures import CUT, Measure, first_relevant_ranks
from mrc_workbench.retrieval.evaluation.significance import question_groups
from mrc_workbench.retrieval.report import charts
from mrc_workbench.retrieval.report.drawing import FATE_COLOURS
from mrc_workbench.retrieval.report.split_words import split_words
from mrc_workbench.retrieval.report.words import Say, kind_label

_MOST_SLICES = 10
_HARDEST = 15
_IDENTIFIED = ("model", "dictionary")  # `Spec.resolved` gives their reference and what identifies their content


def curves(
    comparison: Comparison, found: Evidence, names: Sequence[str], order: Sequence[str]
) -> list[tuple[str, Any]]:
    """Return Recall@K over K, and nDCG@10 with its intervals, retrievers in this order: title and chart."""

    def means(measure: str, ks: Sequence[int]) -> pd.DataFrame:
        rows = [
            (name, k, float(of.per_question[f"{measure}@{k}"].mean()), *found.intervals[name][f"{measure}@{k}"])
            for name in order
            for k in ks
            if f"{measure}@{k}" in (of := comparison.scores[name]).per_question
        ]
        return pd.DataFrame(rows, columns=["retriever", "k", "mean", "low", "high"])

    recall, ndcg = means("recall", comparison.experiment.ks), means("ndcg", [CUT]).drop(columns="k")
    scored, ndcg_label = list(ndcg["retriever"]), label(f"ndcg@{CUT}")
    drawn = []
    if len(recall):
        drawn.append(("Recall@K", charts.curves(recall, names, x="K", y="Recall@K")))
    if scored:
        drawn.append((ndcg_label, charts.intervals(ndcg, names, row="retriever", order=scored, x=ndcg_label)))
    return drawn


@dataclass(frozen=True)
class SliceSection:
    """One property of the questions: its chart, and rows of (slice, questions, means by retriever in percent)."""

    title: str
    chart: Any
    rows: list[tuple[str, int, dict[str, str]]]


def slices(comparison: Comparison, measure: str, say: Say) -> list[SliceSection]:
    """Measure the parts of the questions by every property that tells at least two apart."""
    scores, groups = comparison.scores, question_groups(comparison.question_set)
    called = Measure.parse(measure).long
    sections = []
    for by in Property:
        parts = cut(comparison.question_set, by)[:_MOST_SLICES]
        if len(parts) < 2 or not scores:
            continue
        table = slice_table(parts, scores, measure, groups)
        labels = [kind_label(label, say) if by is Property.KIND else label for label in labels_of(parts, by)]
        table["label"] = [labels[place] for place in table["slice"]]
        chart = charts.intervals(table, list(comparison.experiment.specs), row="label", order=labels, x=called)
        means = {
            (place, name): f"{share * 100:.1f}"
            for place, name, share in zip(table["slice"], table["retriever"], table["mean"], strict=True)
        }
        rows = [
            (labels[place], len(part.rows), {name: means[place, name] for name in scores if (place, name) in means})
            for place, part in enumerate(parts)
        ]
        sections.append(SliceSection(say(f"property.{by}"), chart, rows))
    return sections


@dataclass(frozen=True)
class LostSection:
    """Counts of lost questions by retriever and fate, their chart (None where none is lost), and the ceilings."""

    k: int  # how many passages of each ranking were looked at
    chart: Any
    legend: list[tuple[str, str]]  # the fates that occur, and their colours
    rows: list[tuple[str, int, list[int]]]
    depths: tuple[int, ...]
    ceilings: list[tuple[str, list[str]]]


def lost(comparison: Comparison, say: Say) -> LostSection:
    """Count what became of the questions within the first 10, or as many as every ranking has."""
    k = min([CUT, *(one.indices.shape[1] for one in comparison.rankings.values())])
    counts = fate_counts(fates(comparison, k))
    occur = [fate.value for fate in FATES if fate is not Fate.FOUND and counts[fate.value].any()]
    texts = [str(say(f"fate.{fate}")) for fate in occur]
    colours = [FATE_COLOURS[fate] for fate in occur]
    rows = [(str(name), sum(numbers), numbers) for name, *numbers in counts[occur].itertuples()]
    table = pd.DataFrame(
        [
            (name, text, number, place)
            for name, _, numbers in rows
            for place, (text, number) in enumerate(zip(texts, numbers, strict=True))
        ],
        columns=["retriever", "part", "count", "place"],
    )
    title = str(say("column.questions"))
    chart = charts.stacked(table, list(counts.index), parts=texts, colours=colours, x=title) if occur else None
    specs = comparison.experiment.specs
    limits = {name: shares for name, shares in ceilings(comparison).items() if specs[name].parts}
    known = [place for place in range(len(DEPTHS)) if any(not np.isnan(shares[place]) for shares in limits.values())]
    return LostSection(
        k=k,
        chart=chart,
        legend=list(zip(texts, colours, strict=True)),
        rows=rows,
        depths=tuple(DEPTHS[place] for place in known),
        ceilings=[
            (name, ["" if np.isnan(share) else f"{share * 100:.1f}" for share in shares[known]])
            for name, shares in limits.items()
        ],
    )


def hardest(comparison: Comparison) -> list[tuple[str, str, list[int]]]:
    """Return question, article and rank by retriever (0: not found) of the questions that stand lowest over all.

    Low is a high sum of log rank, a passage that was not found counting as one past the last. None that all rank first.
    """
    rankings = comparison.rankings.values()
    if not rankings:
        return []
    ranks = np.stack([first_relevant_ranks(one, comparison.question_set) for one in rankings], axis=1)
    depths = np.array([one.indices.shape[1] for one in rankings])
    depth = np.log(np.where(ranks == 0, depths + 1, ranks)).sum(axis=1)
    rows = [int(row) for row in np.argsort(-depth, kind="stable")[:_HARDEST] if depth[row] > 0]
    passages, row_of = comparison.question_set.passages, comparison.question_set.row_of_passage
    questions = comparison.question_set.questions
    return [
        (questions[row].text, passages[row_of[questions[row].relevant[0]]].title, ranks[row].tolist()) for row in rows
    ]


def cost(comparison: Comparison, order: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Return name, seconds to build, milliseconds per query and megabytes of the index; an imported run's are –.

    An asterisk marks milliseconds measured on another machine.
    """
    results = {result.name: result for result in comparison.results if result.scores}
    return [
        (
            result.name,
            "–" if result.imported else f"{result.build_seconds:.1f}",
            _milliseconds(result),
            f"{result.memory_bytes / 1e6:.1f}" if result.memory_bytes else "",
        )
        for result in (results[name] for name in order)
    ]


def _milliseconds(result: Result) -> str:
    known = cost_of(result)
    if known.milliseconds is None:
        return "–"
    return f"{known.milliseconds:.1f}{'*' if known.is_foreign else ''}"


def settings(origin: Mapping[str, Any], say: Say, parts_of_set: Split | None = None) -> list[tuple[str, str]]:
    """Return what the comparison was made of and on, line by line."""
    data, parts, machine, statistics = (origin[key] for key in ("data", "split", "hardware", "statistics"))
    lines = [(name, _specification(told, say)) for name, told in origin["retrievers"].items()]
    counts = {part: f"{count:,}" for part, count in parts["questions"].items()}
    described = str(say("setup.split_value", seed=parts["seed"], **counts))  # of a comparison whose set is not known
    if parts_of_set:
        described = split_words(parts_of_set, say)
    value = say(
        "setup.data_value", name=data["name"], passages=f"{data['passages']:,}", questions=f"{data['questions']:,}"
    )
    tries = {name: f"{statistics[name]:,}" for name in ("resamples", "permutations", "seed")}
    gpus = ", ".join(machine["gpus"]) or say("setup.no_gpu")
    memory = f"{machine['memory'] / 2**30:.0f}"
    told = {"processor": machine["processor"], "cores": machine["logical_cores"], "memory": memory, "gpus": gpus}
    lines += [
        (say("setup.data"), value),
        (say("setup.fingerprint"), data["fingerprint"]),
        (say("setup.split"), described),
        (say("setup.statistics"), say("setup.statistics_value", **tries)),
        (say("setup.hardware"), say("setup.hardware_value", **told)),
        (say("setup.versions"), ", ".join(f"{name} {number}" for name, number in origin["versions"].items())),
    ]
    return [*lines, (say("setup.commit"), origin["commit"])] if origin["commit"] else lines


def _specification(told: Mapping[str, Any], say: Say) -> str:
    texts = [str(told["kind"])]
    for key, value in told.items():
        if key == "chosen_on":
            texts.append(say("setup.chosen_on", part=say(f"part.{value}")))
        elif key != "kind":
            texts.append(f"{key} {_identity(value) if key in _IDENTIFIED else _value(value)}")
    return " · ".join(texts)


def _identity(value: Mapping[str, Any]) -> str:
    """Return a reference, then the beginning of what identifies its content."""
    texts = {name: str(part) for name, part in value.items()}
    return " ".join(text[:12] if name in ("revision", "fingerprint") else text for name, text in texts.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_value(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
