"""One comparison as one HTML file: no script, nothing from elsewhere, for the screen and for paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part, Split
from mrc_workbench.data.store import CATALOG
from mrc_workbench.retrieval.analysis.evidence import (
    Evidence,
    Recommendation,
    at_disadvantage,
    best_first,
    cost_of,
    evidence,
    figures,
    judged_measures,
    label,
    recommend,
    shown_measures,
)
from mrc_workbench.retrieval.analysis.questions import DEPTHS, FATES, Fate, ceilings, fate_counts, fates
from mrc_workbench.retrieval.analysis.slices import Property, labels_of, slice_table
from mrc_workbench.retrieval.analysis.slices import slices as cut
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.spec import ReadingSpec
from mrc_workbench.retrieval.comparison.store import provenance
from mrc_workbench.retrieval.measures import CUT, Measure, depth_of, first_relevant_ranks
from mrc_workbench.retrieval.report import charts
from mrc_workbench.retrieval.report.charts import FATE_COLOURS, can_draw, colour_of, letter_of, pictures
from mrc_workbench.retrieval.report.words import (
    Headline,
    Say,
    few_taught_words,
    few_words,
    headline_words,
    html_style,
    kind_label,
    renamed_comparison,
    renamed_evidence,
    renamed_recommendation,
    retriever_names,
    split_words,
    template,
    words_of,
)
from mrc_workbench.retrieval.significance import question_groups

_MOST_SLICES = 10
_HARDEST = 15
_MOST_PAIRS = 28  # those of 8 retrievers: of more, only the pairs with the first


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


class SliceSection(NamedTuple):
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
    rows = []
    for result in (results[name] for name in order):
        known = cost_of(result)
        build = "–" if result.imported else f"{result.build_seconds:.1f}"
        query = "–" if known.milliseconds is None else f"{known.milliseconds:.1f}{'*' if known.is_foreign else ''}"
        rows.append((result.name, build, query, f"{result.memory_bytes / 1e6:.1f}" if result.memory_bytes else ""))
    return rows


def settings(origin: Mapping[str, Any], say: Say, parts_of_set: Split | None = None) -> list[tuple[str, str]]:
    """Return what the comparison was made of and on, line by line."""
    data, parts, machine, statistics = (origin[key] for key in ("data", "split", "hardware", "statistics"))
    lines = [(name, _specification(values, say)) for name, values in origin["retrievers"].items()]
    counts = {part: f"{count:,}" for part, count in parts["questions"].items()}
    if parts_of_set:
        described = split_words(parts_of_set, say)
    else:
        described = say("setup.split_value", seed=parts["seed"], **counts)
    sizes = {name: f"{data[name]:,}" for name in ("passages", "questions")}
    tries = {name: f"{statistics[name]:,}" for name in ("resamples", "permutations", "seed")}
    gpus = ", ".join(machine["gpus"]) or say("setup.no_gpu")
    memory = f"{machine['memory'] / 2**30:.0f}"
    hardware = {"processor": machine["processor"], "cores": machine["logical_cores"], "memory": memory, "gpus": gpus}
    lines += [
        (say("setup.data"), say("setup.data_value", name=data["name"], **sizes)),
        (say("setup.fingerprint"), data["fingerprint"]),
        (say("setup.split"), described),
        (say("setup.statistics"), say("setup.statistics_value", **tries)),
        (say("setup.hardware"), say("setup.hardware_value", **hardware)),
        (say("setup.versions"), ", ".join(f"{name} {number}" for name, number in origin["versions"].items())),
    ]
    return [*lines, (say("setup.commit"), origin["commit"])] if origin["commit"] else lines


def _specification(values: Mapping[str, Any], say: Say) -> str:
    texts = [str(values["kind"])]
    for key, value in values.items():
        if key == "chosen_on":
            texts.append(say("setup.chosen_on", part=say(f"part.{value}")))
        elif key in ("model", "dictionary"):  # a reference, then the beginning of what identifies its content
            short = {name: str(part)[:12] for name, part in value.items() if name in ("revision", "fingerprint")}
            texts.append(f"{key} {' '.join(str(part) for part in (value | short).values())}")
        elif key != "kind":
            texts.append(f"{key} {_value(value)}")
    return " · ".join(texts)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_value(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def report(
    comparison: Comparison,
    language: str,
    origin: Mapping[str, Any] | None = None,
    found: Evidence | None = None,
    name: str = "",
    *,
    recommended: Recommendation | None = None,
) -> str:
    """Return the report as HTML in a language of `LANGUAGES`; `name` is what a user calls the comparison.

    `origin` is the comparison's provenance and `found` its evidence, both computed if missing. `recommended` decides
    the leading metric and the headline; without it they are those of all retrievers by `leading_measure`. Raises
    `ValueError` for an unknown language.
    """
    say = words_of(language)
    found = found or evidence(comparison)
    origin = origin or provenance(comparison)
    called = retriever_names(comparison.experiment.specs, language)
    if any(name != shown for name, shown in called.items()):
        comparison, found = renamed_comparison(comparison, called), renamed_evidence(found, called)
        recommended = recommended and renamed_recommendation(recommended, called)
    measure = recommended.measure if recommended else leading_measure(comparison)
    if recommended is None:
        groups = question_groups(comparison.question_set)
        recommended = recommend(comparison, measure, found.tests, baseline=found.baseline, groups=groups)
    head = Headline(say("page.none"), ())
    if recommended:
        interval = found.intervals[recommended.name][str(recommended.measure)]
        head = headline_words(recommended, html_style(language), interval)
    names = list(comparison.experiment.specs)
    ranked = best_first(comparison, measure)
    scored = [*ranked, *(name for name in comparison.scores if name not in ranked)]
    all_pairs = len(scored) * (len(scored) - 1) // 2 <= _MOST_PAIRS
    pairs = found.tests if all_pairs else found.against
    judged = judged_measures(comparison.scores)
    shown = [one for one in shown_measures(comparison) if one not in judged]
    listed = [*scored, *(name for name in names if name not in scored)]
    by_k, parts = curves(comparison, found, names, scored), slices(comparison, str(measure), say)
    losses = lost(comparison, say)
    charts = [*(chart for _, chart in by_k), *(part.chart for part in parts), *([losses.chart] if losses.chart else [])]
    drawn = iter(pictures(charts))
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    return template(Path(__file__).with_name("template.html"), autoescape=True).render(
        say=say,
        can_draw=can_draw(),
        language=language,
        name=name,
        label=label,
        comparison=comparison,
        origin=origin,
        made=datetime.fromisoformat(origin["made"]).strftime("%Y-%m-%d %H:%M"),
        measure=measure.long,
        depth=depth_of(comparison.experiment.ks),
        first=found.baseline,
        answers=[head.answer, *head.notes],
        data_name=say("page.sample") if origin["data"]["name"] == CATALOG["sample"].title else origin["data"]["name"],
        notices=_notices(comparison, say),
        tables=[
            (note, columns, {name: rows[name] for name in listed})
            for note, columns in (("", shown), (say("section.hits"), hits), (say("section.judged"), judged))
            if columns and (rows := figures(comparison, found, columns))
        ],
        legend=[(one, colour_of(one, names), letter_of(one, names)) for one in scored],
        curves=[(title, next(drawn)) for title, _ in by_k],
        pairs=[test for test in pairs if test.measure == str(measure)],
        all_pairs=all_pairs,
        points=points,
        p_figure=p_figure,
        slices=[(part, next(drawn)) for part in parts],
        lost=losses,
        lost_picture=next(drawn, None),
        hardest=hardest(comparison),
        cost=cost(comparison, scored),
        elsewhere=any(cost_of(one).is_foreign for one in comparison.results),
        settings=settings(origin, say, comparison.parts),
        terms=("recall", "hit", "mrr", "ndcg", *(Measure.parse(one).name for one in judged), "interval", "test"),
    )


def leading_measure(comparison: Comparison) -> Measure:
    """Return the metric of the headline: the first that all have of nDCG@10, Recall@10, nDCG@K from the top K."""
    wished = [f"ndcg@{CUT}", f"recall@{CUT}", *(f"ndcg@{k}" for k in sorted(comparison.experiment.ks, reverse=True))]
    scores = comparison.scores.values()
    return Measure.parse(next((one for one in wished if all(one in of.per_question for of in scores)), wished[0]))


def points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign unless it is 0.00."""
    shown = round(share * 100, 2)
    return f"{shown:+.2f}".replace("-", "−") if shown else "0.00"


def p_figure(p: float) -> str:
    """Return a p-value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _notices(comparison: Comparison, say: Say) -> list[str]:
    asked, results, part = comparison.question_set, comparison.results, comparison.experiment.split
    notices = [few_words(len(asked.questions), "compared", say)]
    notices += [few_taught_words(one.name, one.taught_by, say) for one in results if one.taught_by is not None]
    if comparison.parts and part is not Part.ALL:
        notices.append(split_words(comparison.parts, say))
    if asked.made:
        made = f"{sum(asked.made.values()):,}"
        notices.append(say("notice.made", made=made, questions=f"{len(asked.questions):,}"))
    short = [result for result in results if result.short and result.error is None]
    if short:
        names = ", ".join(f"{result.name} {result.short:,}" for result in short)
        notices.append(say("notice.short", k=depth_of(comparison.experiment.ks), names=names))
    notices += [
        say("notice.shallow", name=name, depth=f"{depth:,}", needed=f"{comparison.depth:,}")
        for name, depth in comparison.shallow
    ]
    if nothing := [result for result in short if result.unanswered]:
        notices.append(say("notice.nothing", names=", ".join(f"{one.name} {one.unanswered:,}" for one in nothing)))
    notices += [say("notice.blind", name=name, part=blind, count=f"{of:,}") for name, blind, of in comparison.blind]
    if (grade := comparison.experiment.relevant_from) != RELEVANT_GRADE:
        notices.append(say("notice.relevant_from", grade=grade))
    for test in at_disadvantage(comparison.scores, question_groups(asked)):
        share, best = (f"{comparison.scores[name].means()[test.measure] * 100:.0f}" for name in (test.a, test.b))
        notices.append(say("notice.behind", name=test.a, best=test.b, share=share, of_best=best))
    specs = comparison.experiment.specs
    for name, count, around in comparison.cut_off:
        notices.append(say("notice.cut_off", name=name, count=f"{count:,}", passages=f"{len(asked.passages):,}"))
        notices += [say("notice.cut_off_too", names=", ".join(around), name=name)] if around else []
        notices += [say("notice.cut_off_help", name=name)] if isinstance(specs[name], ReadingSpec) else []
    for spec, result in zip(comparison.experiment.retriever, results, strict=True):
        if result.error is not None:
            notices.append(say("notice.failed", name=spec.name, reason=str(result.error)))
        notices += [
            say(f"notice.{note}", name=spec.name, count=f"{result.notes[note]:,}")
            for note in ("unknown_passages", "aliases", "repeated", "other_questions", "rising_scores")  # from outside
            if result.notes.get(note)
        ]
        if spec.tuned_on(part):
            notices.append(say("notice.flattered", name=spec.name, part=say(f"part.{spec.chosen_on}")))
    return [notice for notice in notices if notice]
