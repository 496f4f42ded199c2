"""A comparison as one HTML file without scripts and external resources, for screens and paper."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part, Split
from mrc_workbench.data.store import CATALOG
from mrc_workbench.retrieval.analysis import evidence as statistics
from mrc_workbench.retrieval.analysis import questions as per_question
from mrc_workbench.retrieval.analysis.evidence import ComparisonEvidence, label
from mrc_workbench.retrieval.analysis.questions import DEPTHS, OUTCOMES, RetrievalOutcome, SliceProperty
from mrc_workbench.retrieval.comparison.compare import Comparison, provenance, values_by_retriever
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure, first_relevant_ranks, required_depth
from mrc_workbench.retrieval.report import charts, words
from mrc_workbench.retrieval.report.charts import OUTCOME_COLOURS, can_render, colour_of, mark_character, render_charts
from mrc_workbench.retrieval.significance import question_groups

_MAX_SLICES = 10
_HARDEST_COUNT = 15
_MAX_PAIRS = 28  # those of 8 retrievers; the report lists only pairs with the baseline above that


def metric_curves(
    comparison: Comparison, evidence: ComparisonEvidence, names: Mapping[str, str], order: Sequence[str]
) -> list[tuple[str, Any]]:
    """Return title and chart of Recall@K over K and of nDCG@10 with its intervals, retrievers in this order."""

    def means(measure: str, ks: Sequence[int]) -> pd.DataFrame:
        rows = []
        for name in order:
            for column in (f"{measure}@{k}" for k in ks):
                values = comparison.scores[name].per_question.get(column)
                if values is not None:
                    interval = evidence.intervals[name][column]
                    rows.append((names[name], Measure.parse(column).cutoff, float(values.mean()), *interval))
        return pd.DataFrame(rows, columns=["retriever", "k", "mean", "low", "high"])

    recall = means("recall", comparison.experiment.ks)
    ndcg = means("ndcg", [DEFAULT_CUTOFF]).drop(columns="k")
    all_names = list(names.values())
    scored = list(ndcg["retriever"])
    title = label(f"ndcg@{DEFAULT_CUTOFF}")
    titled_charts = []
    if len(recall):
        titled_charts.append(("Recall@K", charts.curves(recall, all_names, x="K", y="Recall@K")))
    if scored:
        titled_charts.append((title, charts.intervals(ndcg, all_names, row="retriever", order=scored, x=title)))
    return titled_charts


def slice_sections(
    comparison: Comparison, measure: Measure, names: Mapping[str, str], say: words.Say
) -> list[dict[str, Any]]:
    """Return title, chart and table rows of every property with at least two slices.

    A row holds the slice, its number of questions, and the means by retriever in percent.
    """
    groups = question_groups(comparison.question_set)
    all_names = list(names.values())
    sections = []
    for slice_property in SliceProperty:
        parts = per_question.slices(comparison.question_set, slice_property)[:_MAX_SLICES]
        if len(parts) < 2 or not comparison.scores:
            continue
        table = per_question.slice_table(parts, comparison.scores, str(measure), groups)
        labels = per_question.slice_labels(parts, slice_property)
        if slice_property is SliceProperty.KIND:
            labels = [words.kind_label(kind, say) for kind in labels]
        means: list[dict[str, str]] = [{} for _ in parts]
        for slice_index, name, mean in zip(table["slice"], table["retriever"], table["mean"], strict=True):
            means[slice_index][name] = words.percent(mean)
        rows = list(zip(labels, (len(part.rows) for part in parts), means, strict=True))
        retrievers = table["retriever"].map(names)
        labelled_table = table.assign(label=table["slice"].map(dict(enumerate(labels))), retriever=retrievers)
        chart = charts.intervals(labelled_table, all_names, row="label", order=labels, x=measure.long_name)
        sections.append({"title": say(f"property.{slice_property}"), "chart": chart, "rows": rows})
    return sections


def lost_questions(comparison: Comparison, names: Mapping[str, str], say: words.Say) -> dict[str, Any]:
    """Count the questions lost within the top 10, or as many as every ranking has, and measure the ceilings.

    Returns `k`, the `legend` of occurring outcomes (text and colour), `rows` of counts by retriever, their `chart`
    (None if no question is lost), and the `ceilings` by retriever at the searched `depths`.
    """
    k = min([DEFAULT_CUTOFF, *(ranking.indices.shape[1] for ranking in comparison.rankings.values())])
    counts = per_question.count_outcomes(per_question.find_outcomes(comparison, k))
    outcomes = [outcome.value for outcome in OUTCOMES if outcome is not RetrievalOutcome.FOUND]
    outcomes = [outcome for outcome in outcomes if counts[outcome].any()]
    texts = [str(say(f"fate.{outcome}")) for outcome in outcomes]
    colours = [OUTCOME_COLOURS[outcome] for outcome in outcomes]
    rows = []
    cells = []
    for name, *numbers in counts[outcomes].itertuples():
        rows.append((names[name], sum(numbers), numbers))
        columns = zip(texts, numbers, range(len(texts)), strict=True)
        cells += [(names[name], text, number, order) for text, number, order in columns]
    table = pd.DataFrame(cells, columns=["retriever", "part", "count", "order"])
    title = str(say("column.questions"))
    retrievers = [name for name, _, _ in rows]
    specs = comparison.experiment.specs
    ceilings = per_question.ceilings(comparison)
    ceilings = {name: fractions for name, fractions in ceilings.items() if specs[name].components}
    known = np.flatnonzero(~np.isnan([*ceilings.values()]).all(axis=0)).tolist() if ceilings else []
    return {
        "k": k,
        "chart": charts.stacked_bars(table, retrievers, parts=texts, colours=colours, x=title) if outcomes else None,
        "legend": list(zip(texts, colours, strict=True)),
        "rows": rows,
        "depths": [DEPTHS[index] for index in known],
        "ceilings": [
            (names[name], ["" if np.isnan(fraction) else words.percent(fraction) for fraction in fractions[known]])
            for name, fractions in ceilings.items()
        ],
    }


def hardest_questions(comparison: Comparison) -> list[tuple[str, str, list[int]]]:
    """Return question, article and rank by retriever (0 for none) of the questions with the highest sum of log rank.

    A missing passage ranks one below the last. Questions that all retrievers rank first are left out.
    """
    evaluated = comparison.question_set
    rankings = comparison.rankings.values()
    if not rankings:
        return []
    ranks = np.stack([first_relevant_ranks(ranking, evaluated) for ranking in rankings], axis=1)
    depths = np.array([ranking.indices.shape[1] for ranking in rankings])
    difficulty = np.log(np.where(ranks == 0, depths + 1, ranks)).sum(axis=1)
    rows = [int(row) for row in np.argsort(-difficulty, kind="stable")[:_HARDEST_COUNT] if difficulty[row] > 0]
    hardest = []
    for row in rows:
        question = evaluated.questions[row]
        article = evaluated.passages[evaluated.row_of_passage[question.relevant[0]]].title
        hardest.append((question.text, article, ranks[row].tolist()))
    return hardest


def cost_rows(comparison: Comparison, order: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Return name, seconds to build, milliseconds per query and megabytes of the index, – for unknown values.

    An asterisk marks milliseconds measured on another machine.
    """
    results = {result.name: result for result in comparison.results if result.scores}
    rows = []
    for result in (results[name] for name in order):
        costs = words.retriever_cost(result)
        build = "–" if result.imported else f"{result.build_seconds:.1f}"
        query = "–" if costs.milliseconds is None else f"{costs.milliseconds:.1f}"
        query += "*" if costs.is_measured_elsewhere else ""
        rows.append((result.name, build, query, f"{result.memory_bytes / 1e6:.1f}" if result.memory_bytes else "–"))
    return rows


def setup_lines(origin: Mapping[str, Any], say: words.Say, parts_of_set: Split | None = None) -> list[tuple[str, str]]:
    """Return title and text of each line about the data, settings, versions and machine of the comparison."""
    data, parts, machine, resampling = (origin[key] for key in ("data", "split", "hardware", "statistics"))
    lines = [(name, _describe_spec(values, say)) for name, values in origin["retrievers"].items()]
    counts = {part: f"{count:,}" for part, count in parts["questions"].items()}
    if parts_of_set:
        described = words.describe_split(parts_of_set, say)
    else:
        described = say("setup.split_value", seed=parts["seed"], **counts)
    sizes = {name: f"{data[name]:,}" for name in ("passages", "questions")}
    statistic_values = {name: f"{resampling[name]:,}" for name in ("resamples", "permutations", "seed")}
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
        elif key in ("model", "dictionary"):  # a reference, then the beginning of its revision or fingerprint
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
    evidence: ComparisonEvidence | None = None,
    name: str = "",
    *,
    recommended: words.Recommendation | None = None,
) -> str:
    """Return the report as HTML in a language of `LANGUAGES`; `name` is the user's name of the comparison.

    `origin` is the comparison's provenance, computed if missing, as is the evidence. `recommended` decides the
    headline, by default of all retrievers by `leading_measure`. Raises `ValueError` for an unknown language.
    """
    say = words.translator(language)
    evidence = evidence or statistics.evidence(comparison)
    origin = origin or provenance(comparison)
    names = words.display_names(comparison.experiment.specs, language)
    baseline = evidence.baseline
    first = names.get(baseline, baseline)
    groups = question_groups(comparison.question_set)
    measure = recommended.measure if recommended else leading_measure(comparison)
    if recommended is None:
        recommended = words.recommend(comparison, measure, evidence.tests, baseline=baseline, groups=groups)
    headline = words.Headline(say("page.none"))
    if recommended:
        interval = evidence.intervals[recommended.name][str(measure)]
        headline = words.write_headline(recommended, words.html_style(language, names), interval)
    ranked = words.rank_by_mean(comparison, measure)
    scored = [*ranked, *(name for name in comparison.scores if name not in ranked)]
    all_pairs = len(scored) * (len(scored) - 1) // 2 <= _MAX_PAIRS
    pairs = evidence.tests if all_pairs else evidence.baseline_tests
    judged = statistics.judged_measures(comparison.scores)
    main_measures = [item for item in statistics.displayed_measures(comparison) if item not in judged]
    listed = [*scored, *(name for name in names if name not in scored)]
    by_k = metric_curves(comparison, evidence, names, scored)
    parts = slice_sections(comparison, measure, names, say)
    losses = lost_questions(comparison, names, say)
    charts = [*(chart for _, chart in by_k), *(part["chart"] for part in parts)]
    rendered = iter(render_charts([*charts, losses["chart"]] if losses["chart"] else charts))
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    tables = []
    for note, columns in (("", main_measures), (say("section.hits"), hits), (say("section.judged"), judged)):
        if columns:
            rows = statistics.metric_rows(comparison, evidence, columns)
            tables.append((note, columns, {retriever: rows[retriever] for retriever in listed}))
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
        behind=statistics.underjudged_tests(comparison.scores, groups),
        default_grade=RELEVANT_GRADE,
        tables=tables,
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
    """Return warnings about too few questions, and the description of the split."""
    warnings = [words.few_questions_warning(len(comparison.question_set.questions), "compared", say)]
    for result in comparison.results:
        if result.training_query_count is not None:
            name = names[result.name]
            warnings.append(words.few_questions_warning(result.training_query_count, "training", say, name))
    if comparison.split and comparison.experiment.split is not Part.ALL:
        warnings.append(words.describe_split(comparison.split, say))
    return [warning for warning in warnings if warning]


def leading_measure(comparison: Comparison) -> Measure:
    """Return the metric of the headline: the first of nDCG@10, Recall@10, nDCG@K (largest K first) that all have."""
    at_ks = [f"ndcg@{k}" for k in sorted(comparison.experiment.ks, reverse=True)]
    preferred = [f"ndcg@{DEFAULT_CUTOFF}", f"recall@{DEFAULT_CUTOFF}", *at_ks]
    scores = comparison.scores
    shared = (measure for measure in preferred if len(values_by_retriever(scores, measure)) == len(scores))
    return Measure.parse(next(shared, preferred[0]))


def format_points(difference: float) -> str:
    """Return a difference of fractions in percentage points, with its sign unless it is 0.00."""
    rounded = round(difference * 100, 2)
    return f"{rounded:+.2f}".replace("-", "−") if rounded else "0.00"


def format_p_value(p: float) -> str:
    """Return a p-value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
