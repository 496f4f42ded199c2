"""A comparison as one HTML file without scripts and external resources, for screens and paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from mrc_workbench.retrieval.analysis.questions import DEPTHS, OUTCOMES, RetrievalOutcome, SliceProperty
from mrc_workbench.retrieval.comparison.compare import Comparison, provenance, values_by_retriever
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure, required_depth
from mrc_workbench.retrieval.report import charts, words
from mrc_workbench.retrieval.report.charts import OUTCOME_COLOURS, can_render, colour_of, mark_character, render_charts
from mrc_workbench.retrieval.significance import question_groups

_MAX_SLICES = 10
_HARDEST_COUNT = 15
_MAX_PAIRS = 28  # those of 8 retrievers; the report lists only pairs with the baseline above that


@dataclass(frozen=True)
class _Content:
    """A comparison, with the displayed names of retrievers, and those with scores, best first by `measure`."""

    comparison: Comparison
    evidence: statistics.ComparisonEvidence
    measure: Measure
    names: Mapping[str, str]
    order: Sequence[str]
    say: words.Say


def _metric_curves(content: _Content) -> list[tuple[str, Any]]:
    """Return title and chart of Recall@K over K and of nDCG@10 with its intervals."""
    all_names = list(content.names.values())

    def means(measure: str, ks: Sequence[int]) -> pd.DataFrame:
        rows = []
        for name in content.order:
            values = content.comparison.scores[name].means()
            for k in ks:
                if (column := f"{measure}@{k}") in values:
                    interval = content.evidence.intervals[name][column]
                    rows.append((content.names[name], k, values[column], *interval))
        return pd.DataFrame(rows, columns=["retriever", "k", "mean", "low", "high"])

    recall = means("recall", content.comparison.experiment.ks)
    ndcg = means("ndcg", [DEFAULT_CUTOFF]).drop(columns="k")
    scored = list(ndcg["retriever"])
    title = statistics.label(f"ndcg@{DEFAULT_CUTOFF}")
    titled_charts = []
    if len(recall):
        titled_charts.append(("Recall@K", charts.curves(recall, all_names, x="K", y="Recall@K")))
    if scored:
        titled_charts.append((title, charts.intervals(ndcg, all_names, row="retriever", order=scored, x=title)))
    return titled_charts


def _slice_sections(content: _Content) -> list[dict[str, Any]]:
    """Return title, chart and table rows of every property with at least two slices.

    A row holds the slice, its number of questions, and the means by retriever in percent.
    """
    comparison = content.comparison
    groups = question_groups(comparison.question_set)
    all_names = list(content.names.values())
    sections = []
    for slice_property in SliceProperty:
        parts = per_question.slices(comparison.question_set, slice_property)[:_MAX_SLICES]
        if len(parts) < 2 or not comparison.scores:
            continue
        table = per_question.slice_table(parts, comparison.scores, str(content.measure), groups)
        labels = per_question.slice_labels(parts, slice_property)
        if slice_property is SliceProperty.KIND:
            labels = [words.kind_label(kind, content.say) for kind in labels]
        means: list[dict[str, str]] = [{} for _ in parts]
        for slice_index, name, mean in zip(table["slice"], table["retriever"], table["mean"], strict=True):
            means[slice_index][name] = words.percent(mean)
        rows = list(zip(labels, (len(part.rows) for part in parts), means, strict=True))
        retrievers = table["retriever"].map(content.names)
        labelled_table = table.assign(label=table["slice"].map(dict(enumerate(labels))), retriever=retrievers)
        x = content.measure.long_name
        chart = charts.intervals(labelled_table, all_names, row="label", order=labels, x=x)
        sections.append({"title": content.say(f"property.{slice_property}"), "chart": chart, "rows": rows})
    return sections


def _lost_questions(content: _Content) -> dict[str, Any]:
    """Count the questions lost within the top 10, or as many as every ranking has, and measure the ceilings.

    Returns `k`, the `legend` of occurring outcomes (text and colour), `rows` of counts by retriever, their `chart`
    (None if no question is lost), and the `ceilings` by retriever at the searched `depths`.
    """
    comparison = content.comparison
    names = content.names
    k = min([DEFAULT_CUTOFF, *(ranking.indices.shape[1] for ranking in comparison.rankings.values())])
    counts = per_question.count_outcomes(per_question.find_outcomes(comparison, k))
    outcomes = [outcome.value for outcome in OUTCOMES if outcome is not RetrievalOutcome.FOUND]
    outcomes = [outcome for outcome in outcomes if counts[outcome].any()]
    texts = [str(content.say(f"fate.{outcome}")) for outcome in outcomes]
    colours = [OUTCOME_COLOURS[outcome] for outcome in outcomes]
    rows = []
    cells = []
    for name, *numbers in counts[outcomes].itertuples():
        rows.append((names[name], sum(numbers), numbers))
        columns = zip(texts, numbers, range(len(texts)), strict=True)
        cells += [(names[name], text, number, order) for text, number, order in columns]
    table = pd.DataFrame(cells, columns=["retriever", "part", "count", "order"])
    title = str(content.say("column.questions"))
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


def _hardest_questions(comparison: Comparison) -> list[tuple[str, str, list[int]]]:
    """Return question, article and rank by retriever (0 for none) of the questions with the highest sum of log rank.

    A missing passage ranks one below the last. Questions that all retrievers rank first are left out.
    """
    evaluated = comparison.question_set
    rankings = [*comparison.rankings.values()]
    if not rankings:
        return []
    ranks = per_question.rank_map(rankings, evaluated).ranks
    depths = np.array([ranking.indices.shape[1] for ranking in rankings])
    difficulty = np.log(np.where(ranks == 0, depths + 1, ranks)).sum(axis=1)
    rows = [row for row in np.argsort(-difficulty, kind="stable").tolist() if difficulty[row] > 0]
    articles = [passage.title for passage in per_question.first_relevant_passages(evaluated)]
    return [(evaluated.questions[row].text, articles[row], ranks[row].tolist()) for row in rows[:_HARDEST_COUNT]]


def _cost_rows(content: _Content) -> list[tuple[str, str, str, str]]:
    """Return name, seconds to build, milliseconds per query and megabytes of the index, – for unknown values.

    An asterisk marks milliseconds measured on another machine.
    """
    results = {result.name: result for result in content.comparison.results if result.scores}
    rows = []
    for result in (results[name] for name in content.order):
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


def _tables(content: _Content) -> dict[str, Any]:
    """Return the tables of metrics, the tests of pairs, and the terms that they need."""
    comparison = content.comparison
    judged = statistics.judged_measures(comparison.scores)
    main_measures = [item for item in statistics.displayed_measures(comparison) if item not in judged]
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    tables = []
    for note, columns in (("", main_measures), ("section.hits", hits), ("section.judged", judged)):
        if columns:
            rows = statistics.metric_rows(comparison, content.evidence, columns)
            tables.append((note, columns, {name: rows[name] for name in dict.fromkeys([*content.order, *rows])}))
    all_pairs = len(content.order) * (len(content.order) - 1) // 2 <= _MAX_PAIRS
    pairs = content.evidence.tests if all_pairs else content.evidence.baseline_tests
    return {
        "label": statistics.label,
        "tables": tables,
        "pairs": [test for test in pairs if test.measure == str(content.measure)],
        "all_pairs": all_pairs,
        "format_points": format_points,
        "format_p_value": format_p_value,
        "terms": ("recall", "hit", "mrr", "ndcg", *(Measure.parse(item).name for item in judged), "interval", "test"),
    }


def _pictures(content: _Content) -> dict[str, Any]:
    """Return the rendered charts by section, their legend, and the numbers that they show."""
    displayed = list(content.names.values())
    ordered = [content.names[name] for name in content.order]
    by_k = _metric_curves(content)
    slices = _slice_sections(content)
    losses = _lost_questions(content)
    charts = [*(chart for _, chart in by_k), *(part["chart"] for part in slices)]
    rendered = iter(render_charts([*charts, losses["chart"]] if losses["chart"] else charts))
    return {
        "legend": [(colour_of(name, displayed), mark_character(name, displayed), name) for name in ordered],
        "curves": [(title, next(rendered)) for title, _ in by_k],
        "slices": [(part, next(rendered)) for part in slices],
        "lost": losses,
        "lost_picture": next(rendered, None),
    }


def report(
    comparison: Comparison,
    language: str,
    origin: Mapping[str, Any] | None = None,
    evidence: statistics.ComparisonEvidence | None = None,
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
    groups = question_groups(comparison.question_set)
    measure = recommended.measure if recommended else leading_measure(comparison)
    if recommended is None:
        recommended = words.recommend(comparison, measure, evidence.tests, baseline=evidence.baseline, groups=groups)
    headline = words.Headline(say("page.none"))
    if recommended:
        interval = evidence.intervals[recommended.name][str(measure)]
        headline = words.write_headline(recommended, words.html_style(language, names), interval)
    order = list(dict.fromkeys([*words.rank_by_mean(comparison, measure), *comparison.scores]))
    content = _Content(comparison, evidence, measure, names, order, say)
    data_name = origin["data"]["name"]
    return words.template(Path(__file__).with_name("template.html"), autoescape=True).render(
        **vars(content),
        number="{:,}".format,
        can_render=can_render(),
        language=language,
        name=name,
        created_at=datetime.fromisoformat(origin["created_at"]).strftime("%Y-%m-%d %H:%M"),
        depth=required_depth(comparison.experiment.ks),
        first=names.get(evidence.baseline, evidence.baseline),
        answers=[headline.answer, *headline.notes],
        data_name=say("page.sample") if data_name == CATALOG["sample"].title else data_name,
        warnings=_warnings(content),
        behind=statistics.underjudged_tests(comparison.scores, groups),
        default_grade=RELEVANT_GRADE,
        hardest=_hardest_questions(comparison),
        cost=_cost_rows(content),
        settings=setup_lines(origin, say, comparison.split),
        **_tables(content),
        **_pictures(content),
    )


def _warnings(content: _Content) -> list[str]:
    """Return warnings about too few questions, and the description of the split."""
    comparison = content.comparison
    say = content.say
    warnings = [words.few_questions_warning(len(comparison.question_set.questions), "compared", say)]
    for result in comparison.results:
        if (count := result.training_query_count) is not None:
            warnings.append(words.few_questions_warning(count, "training", say, content.names[result.name]))
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
