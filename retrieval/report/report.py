"""One comparison as one HTML file: no script, nothing from elsewhere, for the screen and for paper."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part, Split
from mrc_workbench.data.store import CATALOG
from mrc_workbench.retrieval.analysis.evidence import (
    Evidence,
    at_disadvantage,
    evidence,
    figures,
    judged_measures,
    label,
    shown_measures,
)
from mrc_workbench.retrieval.analysis.questions import (
    DEPTHS,
    FATES,
    Fate,
    Property,
    ceilings,
    fate_counts,
    fates,
    labels_of,
    slice_table,
)
from mrc_workbench.retrieval.analysis.questions import slices as cut
from mrc_workbench.retrieval.comparison.compare import Comparison, provenance
from mrc_workbench.retrieval.measures import CUT, Measure, depth_of, first_relevant_ranks
from mrc_workbench.retrieval.report import charts, words
from mrc_workbench.retrieval.report.charts import FATE_COLOURS, can_draw, colour_of, letter_of, pictures
from mrc_workbench.retrieval.significance import question_groups

_MOST_SLICES = 10
_HARDEST = 15
_MOST_PAIRS = 28  # those of 8 retrievers: of more, only the pairs with the first


def curves(
    comparison: Comparison, found: Evidence, names: Mapping[str, str], order: Sequence[str]
) -> list[tuple[str, Any]]:
    """Return Recall@K over K, and nDCG@10 with its intervals, retrievers in this order: title and chart."""

    def means(measure: str, ks: Sequence[int]) -> pd.DataFrame:
        rows = [
            (names[name], k, float(of.per_question[f"{measure}@{k}"].mean()), *found.intervals[name][f"{measure}@{k}"])
            for name in order
            for k in ks
            if f"{measure}@{k}" in (of := comparison.scores[name]).per_question
        ]
        return pd.DataFrame(rows, columns=["retriever", "k", "mean", "low", "high"])

    recall, ndcg = means("recall", comparison.experiment.ks), means("ndcg", [CUT]).drop(columns="k")
    every, scored, ndcg_label = list(names.values()), list(ndcg["retriever"]), label(f"ndcg@{CUT}")
    drawn = []
    if len(recall):
        drawn.append(("Recall@K", charts.curves(recall, every, x="K", y="Recall@K")))
    if scored:
        drawn.append((ndcg_label, charts.intervals(ndcg, every, row="retriever", order=scored, x=ndcg_label)))
    return drawn


def slices(comparison: Comparison, measure: Measure, names: Mapping[str, str], say: words.Say) -> list[dict[str, Any]]:
    """Measure the slices by every property that has at least two: title, chart and table rows of each property.

    A row holds the slice, its number of questions, and the means by retriever in percent.
    """
    groups, every = question_groups(comparison.question_set), list(names.values())
    sections = []
    for by in Property:
        parts = cut(comparison.question_set, by)[:_MOST_SLICES]
        if len(parts) < 2 or not comparison.scores:
            continue
        table = slice_table(parts, comparison.scores, str(measure), groups)
        labels = [words.kind_label(label, say) if by is Property.KIND else label for label in labels_of(parts, by)]
        rows: list[tuple[str, int, dict[str, str]]] = [
            (label, len(part.rows), {}) for label, part in zip(labels, parts, strict=True)
        ]
        for place, name, share in zip(table["slice"], table["retriever"], table["mean"], strict=True):
            rows[place][2][name] = words.percent(share)
        drawn = table.assign(label=[labels[place] for place in table["slice"]], retriever=table["retriever"].map(names))
        chart = charts.intervals(drawn, every, row="label", order=labels, x=measure.long)
        sections.append({"title": say(f"property.{by}"), "chart": chart, "rows": rows})
    return sections


def lost(comparison: Comparison, names: Mapping[str, str], say: words.Say) -> dict[str, Any]:
    """Count the questions lost within the first 10, or as many as every ranking has, and measure the ceilings.

    Returns `k`, the `legend` of the fates that occur (text and colour), `rows` of counts by retriever, their `chart`
    (None if no question is lost), and the `ceilings` by retriever at the `depths` that were searched.
    """
    k = min([CUT, *(one.indices.shape[1] for one in comparison.rankings.values())])
    counts = fate_counts(fates(comparison, k))
    occur = [fate.value for fate in FATES if fate is not Fate.FOUND and counts[fate.value].any()]
    texts = [str(say(f"fate.{fate}")) for fate in occur]
    colours = [FATE_COLOURS[fate] for fate in occur]
    rows = [(names[name], sum(numbers), numbers) for name, *numbers in counts[occur].itertuples()]
    table = pd.DataFrame(
        [
            (name, text, number, place)
            for name, _, numbers in rows
            for place, (text, number) in enumerate(zip(texts, numbers, strict=True))
        ],
        columns=["retriever", "part", "count", "place"],
    )
    title, retrievers = str(say("column.questions")), [name for name, _, _ in rows]
    specs = comparison.experiment.specs
    limits = {name: shares for name, shares in ceilings(comparison).items() if specs[name].parts}
    known = [place for place in range(len(DEPTHS)) if any(not np.isnan(shares[place]) for shares in limits.values())]
    return {
        "k": k,
        "chart": charts.stacked(table, retrievers, parts=texts, colours=colours, x=title) if occur else None,
        "legend": list(zip(texts, colours, strict=True)),
        "rows": rows,
        "depths": [DEPTHS[place] for place in known],
        "ceilings": [
            (names[name], ["" if np.isnan(share) else words.percent(share) for share in shares[known]])
            for name, shares in limits.items()
        ],
    }


def hardest(comparison: Comparison) -> list[tuple[str, str, list[int]]]:
    """Return question, article and rank by retriever (0: not found) of the questions that rank lowest over all.

    They have the highest sum of log rank, not found counting as one past the last; none that all rank first is listed.
    """
    asked, rankings = comparison.question_set, comparison.rankings.values()
    if not rankings:
        return []
    ranks = np.stack([first_relevant_ranks(one, asked) for one in rankings], axis=1)
    depths = np.array([one.indices.shape[1] for one in rankings])
    depth = np.log(np.where(ranks == 0, depths + 1, ranks)).sum(axis=1)
    rows = [int(row) for row in np.argsort(-depth, kind="stable")[:_HARDEST] if depth[row] > 0]
    articles = [asked.passages[asked.row_of_passage[asked.questions[row].relevant[0]]].title for row in rows]
    return [(asked.questions[row].text, title, ranks[row].tolist()) for row, title in zip(rows, articles, strict=True)]


def cost(comparison: Comparison, order: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Return name, seconds to build, milliseconds per query and megabytes of the index; an imported run's are –.

    An asterisk marks milliseconds measured on another machine.
    """
    results = {result.name: result for result in comparison.results if result.scores}
    rows = []
    for result in (results[name] for name in order):
        known = words.cost_of(result)
        build = "–" if result.imported else f"{result.build_seconds:.1f}"
        query = "–" if known.milliseconds is None else f"{known.milliseconds:.1f}{'*' if known.is_foreign else ''}"
        rows.append((result.name, build, query, f"{result.memory_bytes / 1e6:.1f}" if result.memory_bytes else "–"))
    return rows


def settings(origin: Mapping[str, Any], say: words.Say, parts_of_set: Split | None = None) -> list[tuple[str, str]]:
    """Return what the comparison was made of and on, line by line."""
    data, parts, machine, statistics = (origin[key] for key in ("data", "split", "hardware", "statistics"))
    lines = [(name, _specification(values, say)) for name, values in origin["retrievers"].items()]
    counts = {part: f"{count:,}" for part, count in parts["questions"].items()}
    if parts_of_set:
        described = words.split_words(parts_of_set, say)
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


def _specification(values: Mapping[str, Any], say: words.Say) -> str:
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
    recommended: words.Recommendation | None = None,
) -> str:
    """Return the report as HTML in a language of `LANGUAGES`; `name` is what a user calls the comparison.

    `origin` is the comparison's provenance and `found` its evidence, both computed if missing. `recommended` decides
    the headline, by default of all retrievers by `leading_measure`. Raises `ValueError` for an unknown language.
    """
    say = words.words_of(language)
    found = found or evidence(comparison)
    origin = origin or provenance(comparison)
    names = words.retriever_names(comparison.experiment.specs, language)
    first = names.get(found.baseline, found.baseline)
    groups = question_groups(comparison.question_set)
    measure = recommended.measure if recommended else leading_measure(comparison)
    if recommended is None:
        recommended = words.recommend(comparison, measure, found.tests, baseline=found.baseline, groups=groups)
    head = words.Headline(say("page.none"))
    if recommended:
        interval = found.intervals[recommended.name][str(measure)]
        head = words.headline_words(recommended, words.html_style(language, names), interval)
    ranked = words.best_first(comparison, measure)
    scored = [*ranked, *(name for name in comparison.scores if name not in ranked)]
    all_pairs = len(scored) * (len(scored) - 1) // 2 <= _MOST_PAIRS
    pairs = found.tests if all_pairs else found.against
    judged = judged_measures(comparison.scores)
    shown = [one for one in shown_measures(comparison) if one not in judged]
    listed = [*scored, *(name for name in names if name not in scored)]
    by_k, parts = curves(comparison, found, names, scored), slices(comparison, measure, names, say)
    losses = lost(comparison, names, say)
    charts = [*(chart for _, chart in by_k), *(part["chart"] for part in parts)]
    drawn = iter(pictures([*charts, losses["chart"]] if losses["chart"] else charts))
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    displayed = list(names.values())
    return words.template(Path(__file__).with_name("template.html"), autoescape=True).render(
        say=say,
        number="{:,}".format,
        names=names,
        can_draw=can_draw(),
        language=language,
        name=name,
        label=label,
        comparison=comparison,
        made=datetime.fromisoformat(origin["made"]).strftime("%Y-%m-%d %H:%M"),
        measure=measure.long,
        depth=depth_of(comparison.experiment.ks),
        first=first,
        answers=[head.answer, *head.notes],
        data_name=say("page.sample") if origin["data"]["name"] == CATALOG["sample"].title else origin["data"]["name"],
        warnings=_warnings(comparison, names, say),
        behind=at_disadvantage(comparison.scores, groups),
        default_grade=RELEVANT_GRADE,
        tables=[
            (note, columns, {name: rows[name] for name in listed})
            for note, columns in (("", shown), (say("section.hits"), hits), (say("section.judged"), judged))
            if columns and (rows := figures(comparison, found, columns))
        ],
        legend=[(one, colour_of(names[one], displayed), letter_of(names[one], displayed)) for one in scored],
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
        elsewhere=any(words.cost_of(one).is_foreign for one in comparison.results),
        settings=settings(origin, say, comparison.parts),
        terms=("recall", "hit", "mrr", "ndcg", *(Measure.parse(one).name for one in judged), "interval", "test"),
    )


def _warnings(comparison: Comparison, names: Mapping[str, str], say: words.Say) -> list[str]:
    """Return the warnings of too few questions, and how the split came about."""
    warnings = [words.few_words(len(comparison.question_set.questions), "compared", say)]
    taught = {names[one.name]: one.taught_by for one in comparison.results if one.taught_by is not None}
    warnings += [words.few_words(count, "taught", say, name) for name, count in taught.items()]
    if comparison.parts and comparison.experiment.split is not Part.ALL:
        warnings.append(words.split_words(comparison.parts, say))
    return [warning for warning in warnings if warning]


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
