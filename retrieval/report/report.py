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
    ComparisonEvidence,
    displayed_measures,
    evidence,
    judged_measures,
    label,
    metric_rows,
    underjudged_tests,
)
from mrc_workbench.retrieval.analysis.questions import (
    DEPTHS,
    OUTCOMES,
    RetrievalOutcome,
    SliceProperty,
    ceilings,
    count_outcomes,
    find_outcomes,
    slice_labels,
    slice_table,
)
from mrc_workbench.retrieval.analysis.questions import slices as make_slices
from mrc_workbench.retrieval.comparison.compare import Comparison, provenance
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure, first_relevant_ranks, required_depth
from mrc_workbench.retrieval.report import charts, words
from mrc_workbench.retrieval.report.charts import OUTCOME_COLOURS, can_render, colour_of, mark_character, render_charts
from mrc_workbench.retrieval.significance import question_groups

_MAX_SLICES = 10
_HARDEST_COUNT = 15
_MAX_PAIRS = 28  # those of 8 retrievers: of more, only the pairs with the first


def metric_curves(
    comparison: Comparison, evidence: ComparisonEvidence, names: Mapping[str, str], order: Sequence[str]
) -> list[tuple[str, Any]]:
    """Return Recall@K over K, and nDCG@10 with its intervals, retrievers in this order: title and chart."""

    def means(measure: str, ks: Sequence[int]) -> pd.DataFrame:
        rows = [
            (
                names[name],
                k,
                float(of.per_question[f"{measure}@{k}"].mean()),
                *evidence.intervals[name][f"{measure}@{k}"],
            )
            for name in order
            for k in ks
            if f"{measure}@{k}" in (of := comparison.scores[name]).per_question
        ]
        return pd.DataFrame(rows, columns=["retriever", "k", "mean", "low", "high"])

    recall = means("recall", comparison.experiment.ks)
    ndcg = means("ndcg", [DEFAULT_CUTOFF]).drop(columns="k")
    all_names = list(names.values())
    scored = list(ndcg["retriever"])
    ndcg_label = label(f"ndcg@{DEFAULT_CUTOFF}")
    titled_charts = []
    if len(recall):
        titled_charts.append(("Recall@K", charts.curves(recall, all_names, x="K", y="Recall@K")))
    if scored:
        titled_charts.append(
            (ndcg_label, charts.intervals(ndcg, all_names, row="retriever", order=scored, x=ndcg_label))
        )
    return titled_charts


def slice_sections(
    comparison: Comparison, measure: Measure, names: Mapping[str, str], say: words.Say
) -> list[dict[str, Any]]:
    """Measure the slices by every property that has at least two: title, chart and table rows of each property.

    A row holds the slice, its number of questions, and the means by retriever in percent.
    """
    groups = question_groups(comparison.question_set)
    every = list(names.values())
    sections = []
    for slice_property in SliceProperty:
        parts = make_slices(comparison.question_set, slice_property)[:_MAX_SLICES]
        if len(parts) < 2 or not comparison.scores:
            continue
        table = slice_table(parts, comparison.scores, str(measure), groups)
        labels = [
            words.kind_label(label, say) if slice_property is SliceProperty.KIND else label
            for label in slice_labels(parts, slice_property)
        ]
        rows: list[tuple[str, int, dict[str, str]]] = [
            (label, len(part.rows), {}) for label, part in zip(labels, parts, strict=True)
        ]
        for slice_index, name, mean in zip(table["slice"], table["retriever"], table["mean"], strict=True):
            rows[slice_index][2][name] = words.percent(mean)
        labelled_table = table.assign(
            label=[labels[slice_index] for slice_index in table["slice"]], retriever=table["retriever"].map(names)
        )
        chart = charts.intervals(labelled_table, every, row="label", order=labels, x=measure.long_name)
        sections.append({"title": say(f"property.{slice_property}"), "chart": chart, "rows": rows})
    return sections


def lost_questions(comparison: Comparison, names: Mapping[str, str], say: words.Say) -> dict[str, Any]:
    """Count the questions lost within the first 10, or as many as every ranking has, and measure the ceilings.

    Returns `k`, the `legend` of the fates that occur (text and colour), `rows` of counts by retriever, their `chart`
    (None if no question is lost), and the `ceilings` by retriever at the `depths` that were searched.
    """
    k = min([DEFAULT_CUTOFF, *(ranking.indices.shape[1] for ranking in comparison.rankings.values())])
    counts = count_outcomes(find_outcomes(comparison, k))
    occurring = [fate.value for fate in OUTCOMES if fate is not RetrievalOutcome.FOUND and counts[fate.value].any()]
    texts = [str(say(f"fate.{fate}")) for fate in occurring]
    colours = [OUTCOME_COLOURS[fate] for fate in occurring]
    rows = [
        (names[name], sum(counts_by_outcome), counts_by_outcome)
        for name, *counts_by_outcome in counts[occurring].itertuples()
    ]
    table = pd.DataFrame(
        [
            (name, text, number, index)
            for name, _, counts_by_outcome in rows
            for index, (text, number) in enumerate(zip(texts, counts_by_outcome, strict=True))
        ],
        columns=["retriever", "part", "count", "order"],
    )
    title = str(say("column.questions"))
    retrievers = [name for name, _, _ in rows]
    specs = comparison.experiment.specs
    ceilings_by_name = {name: fractions for name, fractions in ceilings(comparison).items() if specs[name].components}
    known = [
        index
        for index in range(len(DEPTHS))
        if any(not np.isnan(fractions[index]) for fractions in ceilings_by_name.values())
    ]
    return {
        "k": k,
        "chart": charts.stacked_bars(table, retrievers, parts=texts, colours=colours, x=title) if occurring else None,
        "legend": list(zip(texts, colours, strict=True)),
        "rows": rows,
        "depths": [DEPTHS[index] for index in known],
        "ceilings": [
            (names[name], ["" if np.isnan(fraction) else words.percent(fraction) for fraction in fractions[known]])
            for name, fractions in ceilings_by_name.items()
        ],
    }


def hardest_questions(comparison: Comparison) -> list[tuple[str, str, list[int]]]:
    """Return question, article and rank by retriever (0: not found) of the questions that rank lowest over all.

    They have the highest sum of log rank, not found counting as one past the last; none that all rank first is listed.
    """
    evaluated = comparison.question_set
    rankings = comparison.rankings.values()
    if not rankings:
        return []
    ranks = np.stack([first_relevant_ranks(ranking, evaluated) for ranking in rankings], axis=1)
    depths = np.array([ranking.indices.shape[1] for ranking in rankings])
    difficulty = np.log(np.where(ranks == 0, depths + 1, ranks)).sum(axis=1)
    rows = [int(row) for row in np.argsort(-difficulty, kind="stable")[:_HARDEST_COUNT] if difficulty[row] > 0]
    articles = [
        evaluated.passages[evaluated.row_of_passage[evaluated.questions[row].relevant[0]]].title for row in rows
    ]
    return [
        (evaluated.questions[row].text, title, ranks[row].tolist()) for row, title in zip(rows, articles, strict=True)
    ]


def cost_rows(comparison: Comparison, order: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Return name, seconds to build, milliseconds per query and megabytes of the index; an imported run's are –.

    An asterisk marks milliseconds measured on another machine.
    """
    results = {result.name: result for result in comparison.results if result.scores}
    rows = []
    for result in (results[name] for name in order):
        costs = words.retriever_cost(result)
        build = "–" if result.imported else f"{result.build_seconds:.1f}"
        query = (
            "–"
            if costs.milliseconds is None
            else f"{costs.milliseconds:.1f}{'*' if costs.is_measured_elsewhere else ''}"
        )
        rows.append((result.name, build, query, f"{result.memory_bytes / 1e6:.1f}" if result.memory_bytes else "–"))
    return rows


def setup_lines(origin: Mapping[str, Any], say: words.Say, parts_of_set: Split | None = None) -> list[tuple[str, str]]:
    """Return what the comparison was made of and on, line by line."""
    data, parts, machine, statistics = (origin[key] for key in ("data", "split", "hardware", "statistics"))
    lines = [(name, _describe_spec(values, say)) for name, values in origin["retrievers"].items()]
    counts = {part: f"{count:,}" for part, count in parts["questions"].items()}
    if parts_of_set:
        described = words.describe_split(parts_of_set, say)
    else:
        described = say("setup.split_value", seed=parts["seed"], **counts)
    sizes = {name: f"{data[name]:,}" for name in ("passages", "questions")}
    statistic_values = {name: f"{statistics[name]:,}" for name in ("resamples", "permutations", "seed")}
    gpus = ", ".join(machine["gpus"]) or say("setup.no_gpu")
    memory = f"{machine['memory'] / 2**30:.0f}"
    hardware = {"processor": machine["processor"], "cores": machine["logical_cores"], "memory": memory, "gpus": gpus}
    lines += [
        (say("setup.data"), say("setup.data_value", name=data["name"], **sizes)),
        (say("setup.fingerprint"), data["fingerprint"]),
        (say("setup.split"), described),
        (say("setup.statistics"), say("setup.statistics_value", **statistic_values)),
        (say("setup.hardware"), say("setup.hardware_value", **hardware)),
        (say("setup.versions"), ", ".join(f"{name} {number}" for name, number in origin["versions"].items())),
    ]
    return [*lines, (say("setup.commit"), origin["commit"])] if origin["commit"] else lines


def _describe_spec(values: Mapping[str, Any], say: words.Say) -> str:
    texts = [str(values["kind"])]
    for key, value in values.items():
        if key == "selected_on":
            texts.append(say("setup.selected_on", part=say(f"part.{value}")))
        elif key in ("model", "dictionary"):  # a reference, then the beginning of what identifies its content
            short = {name: str(part)[:12] for name, part in value.items() if name in ("revision", "fingerprint")}
            texts.append(f"{key} {' '.join(str(part) for part in (value | short).values())}")
        elif key != "kind":
            texts.append(f"{key} {_format_value(value)}")
    return " · ".join(texts)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_format_value(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def report(
    comparison: Comparison,
    language: str,
    origin: Mapping[str, Any] | None = None,
    comparison_evidence: ComparisonEvidence | None = None,
    name: str = "",
    *,
    recommended: words.Recommendation | None = None,
) -> str:
    """Return the report as HTML in a language of `LANGUAGES`; `name` is what a user calls the comparison.

    `origin` is the comparison's provenance and `found` its evidence, both computed if missing. `recommended` decides
    the headline, by default of all retrievers by `leading_measure`. Raises `ValueError` for an unknown language.
    """
    say = words.translator(language)
    comparison_evidence = comparison_evidence or evidence(comparison)
    origin = origin or provenance(comparison)
    names = words.display_names(comparison.experiment.specs, language)
    first = names.get(comparison_evidence.baseline, comparison_evidence.baseline)
    groups = question_groups(comparison.question_set)
    measure = recommended.measure if recommended else leading_measure(comparison)
    if recommended is None:
        recommended = words.recommend(
            comparison, measure, comparison_evidence.tests, baseline=comparison_evidence.baseline, groups=groups
        )
    headline = words.Headline(say("page.none"))
    if recommended:
        interval = comparison_evidence.intervals[recommended.name][str(measure)]
        headline = words.write_headline(recommended, words.html_style(language, names), interval)
    ranked = words.rank_by_mean(comparison, measure)
    scored = [*ranked, *(name for name in comparison.scores if name not in ranked)]
    all_pairs = len(scored) * (len(scored) - 1) // 2 <= _MAX_PAIRS
    pairs = comparison_evidence.tests if all_pairs else comparison_evidence.baseline_tests
    judged = judged_measures(comparison.scores)
    main_measures = [item for item in displayed_measures(comparison) if item not in judged]
    listed = [*scored, *(name for name in names if name not in scored)]
    by_k = metric_curves(comparison, comparison_evidence, names, scored)
    parts = slice_sections(comparison, measure, names, say)
    losses = lost_questions(comparison, names, say)
    charts = [*(chart for _, chart in by_k), *(part["chart"] for part in parts)]
    rendered = iter(render_charts([*charts, losses["chart"]] if losses["chart"] else charts))
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    displayed = list(names.values())
    return words.template(Path(__file__).with_name("template.html"), autoescape=True).render(
        say=say,
        number="{:,}".format,
        names=names,
        can_render=can_render(),
        language=language,
        name=name,
        label=label,
        comparison=comparison,
        created_at=datetime.fromisoformat(origin["created_at"]).strftime("%Y-%m-%d %H:%M"),
        measure=measure.long_name,
        depth=required_depth(comparison.experiment.ks),
        first=first,
        answers=[headline.answer, *headline.notes],
        data_name=say("page.sample") if origin["data"]["name"] == CATALOG["sample"].title else origin["data"]["name"],
        warnings=_warnings(comparison, names, say),
        behind=underjudged_tests(comparison.scores, groups),
        default_grade=RELEVANT_GRADE,
        tables=[
            (note, columns, {name: rows[name] for name in listed})
            for note, columns in (("", main_measures), (say("section.hits"), hits), (say("section.judged"), judged))
            if columns and (rows := metric_rows(comparison, comparison_evidence, columns))
        ],
        legend=[(item, colour_of(names[item], displayed), mark_character(names[item], displayed)) for item in scored],
        curves=[(title, next(rendered)) for title, _ in by_k],
        pairs=[test for test in pairs if test.measure == str(measure)],
        all_pairs=all_pairs,
        format_points=format_points,
        format_p_value=format_p_value,
        slices=[(part, next(rendered)) for part in parts],
        lost=losses,
        lost_picture=next(rendered, None),
        hardest=hardest_questions(comparison),
        cost=cost_rows(comparison, scored),
        elsewhere=any(words.retriever_cost(item).is_measured_elsewhere for item in comparison.results),
        settings=setup_lines(origin, say, comparison.split),
        terms=("recall", "hit", "mrr", "ndcg", *(Measure.parse(item).name for item in judged), "interval", "test"),
    )


def _warnings(comparison: Comparison, names: Mapping[str, str], say: words.Say) -> list[str]:
    """Return the warnings of too few questions, and how the split came about."""
    warnings = [words.few_questions_warning(len(comparison.question_set.questions), "compared", say)]
    training_counts = {
        names[result.name]: result.training_query_count
        for result in comparison.results
        if result.training_query_count is not None
    }
    warnings += [words.few_questions_warning(count, "training", say, name) for name, count in training_counts.items()]
    if comparison.split and comparison.experiment.split is not Part.ALL:
        warnings.append(words.describe_split(comparison.split, say))
    return [warning for warning in warnings if warning]


def leading_measure(comparison: Comparison) -> Measure:
    """Return the metric of the headline: the first that all have of nDCG@10, Recall@10, nDCG@K from the top K."""
    preferred = [
        f"ndcg@{DEFAULT_CUTOFF}",
        f"recall@{DEFAULT_CUTOFF}",
        *(f"ndcg@{k}" for k in sorted(comparison.experiment.ks, reverse=True)),
    ]
    scores = comparison.scores.values()
    return Measure.parse(
        next(
            (
                candidate
                for candidate in preferred
                if all(candidate in retriever_scores.per_question for retriever_scores in scores)
            ),
            preferred[0],
        )
    )


def format_points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign unless it is 0.00."""
    rounded = round(difference * 100, 2)
    return f"{rounded:+.2f}".replace("-", "−") if rounded else "0.00"


def format_p_value(p: float) -> str:
    """Return a p-value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
