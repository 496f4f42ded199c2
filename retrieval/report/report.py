"""One comparison as one HTML file: no script, nothing from elsewhere, for the screen and for paper."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part
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
from mrc_workbench.retrieval.analysis.recommendation import Recommendation, best_first, cost_of, recommend
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.spec import ReadingSpec
from mrc_workbench.retrieval.comparison.store import provenance
from mrc_workbench.retrieval.evaluation.measures import CUT, Measure, depth_of
from mrc_workbench.retrieval.evaluation.significance import question_groups
from mrc_workbench.retrieval.report.charts import pictures
from mrc_workbench.retrieval.report.drawing import can_draw, colour_of, letter_of
from mrc_workbench.retrieval.report.headline import Headline, headline_words, html_style
from mrc_workbench.retrieval.report.renaming import renamed_comparison, renamed_evidence, renamed_recommendation
from mrc_workbench.retrieval.report.sections import cost, curves, hardest, lost, settings, slices
from mrc_workbench.retrieval.report.split_words import few_taught_words, few_words, split_words
from mrc_workbench.retrieval.report.words import Say, retriever_names, words_of

_MOST_PAIRS = 28  # those of 8 retrievers: of more, only the pairs with the first


def report(
    comparison: Comparison,
    language: str,
    origin: Mapping[str, Any] | None = None,
    found: Evidence | None = None,
    name: str = "",
    *,
    recommended: Recommendation | None = None,
) -> str:
    """Return the report as HTML in a language of `LANGUAGES`.

    `origin` is the comparison's provenance and `found` its evidence, both found out where left out; `name` is what a
    person calls the comparison. `recommended` decides the leading metric and the headline; without it they are those of
    all retrievers by `leading_measure`. Raises `ValueError` where the language is not known.
    """
    say = words_of(language)
    found = found or evidence(comparison)
    origin = origin or provenance(comparison)
    called = retriever_names(comparison.experiment.specs, language)
    if any(name != shown for name, shown in called.items()):
        comparison, found = renamed_comparison(comparison, called), renamed_evidence(found, called)
        recommended = recommended and renamed_recommendation(recommended, called)
    measure = recommended.measure if recommended else leading_measure(comparison)
    head = _headline(found, recommended or _recommended(comparison, found, measure), language)
    names = list(comparison.experiment.specs)
    ranked = best_first(comparison, measure)
    scored = [*ranked, *(name for name in comparison.scores if name not in ranked)]
    all_pairs = len(scored) * (len(scored) - 1) // 2 <= _MOST_PAIRS
    pairs = found.tests if all_pairs else found.against
    judged = judged_measures(comparison.scores)
    shown = [one for one in shown_measures(comparison) if one not in judged]
    by_k, parts = curves(comparison, found, names, scored), slices(comparison, str(measure), say)
    losses = lost(comparison, say)
    charts = [*(chart for _, chart in by_k), *(part.chart for part in parts), *([losses.chart] if losses.chart else [])]
    drawn = iter(pictures(charts))
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    return _template().render(
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
            (note, columns, _ordered(figures(comparison, found, columns), scored))
            for note, columns in (("", shown), (say("section.hits"), hits), (say("section.judged"), judged))
            if columns
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


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html")


def leading_measure(comparison: Comparison) -> Measure:
    """Return the metric of the headline: the first that all have of nDCG@10, Recall@10, nDCG@K from the top K."""
    wished = [f"ndcg@{CUT}", f"recall@{CUT}", *(f"ndcg@{k}" for k in sorted(comparison.experiment.ks, reverse=True))]
    scores = comparison.scores.values()
    return Measure.parse(next((one for one in wished if all(one in of.per_question for of in scores)), wished[0]))


def _recommended(comparison: Comparison, found: Evidence, measure: Measure) -> Recommendation | None:
    groups = question_groups(comparison.question_set)
    return recommend(comparison, measure, found.tests, baseline=found.baseline, groups=groups)


def _headline(found: Evidence, recommended: Recommendation | None, language: str) -> Headline:
    if recommended is None:
        return Headline(words_of(language)("page.none"), ())
    interval = found.intervals[recommended.name][str(recommended.measure)]
    return headline_words(recommended, html_style(language), interval)


def _ordered(rows: Mapping[str, Any], first: Sequence[str]) -> dict[str, Any]:
    """Return the rows in the order of `first`, then the others: retrievers without scores."""
    return {name: rows[name] for name in [*first, *(name for name in rows if name not in first)]}


def points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign unless it is 0.00."""
    shown = round(share * 100, 2)
    return f"{shown:+.2f}".replace("-", "−") if shown else "0.00"


def p_figure(p: float) -> str:
    """Return a p-value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _split_notices(comparison: Comparison, say: Say) -> list[str]:
    """Say that too few questions are compared, or taught a mix, and how the part that is compared was drawn."""
    asked = len(comparison.question_set.questions)
    told = [few_words(asked, "compared", say)]
    told += [few_taught_words(one.name, one.taught_by, say) for one in comparison.results if one.taught_by is not None]
    if comparison.parts and comparison.experiment.split is not Part.ALL:
        told.append(split_words(comparison.parts, say))
    return [notice for notice in told if notice]


def _notices(comparison: Comparison, say: Say) -> list[str]:
    asked = comparison.question_set
    told: list[str] = _split_notices(comparison, say)
    made = say("notice.made", made=f"{sum(asked.made.values()):,}", questions=f"{len(asked.questions):,}")
    told += [made] if asked.made else []
    short = [result for result in comparison.results if result.short and result.error is None]
    if short:
        found_fewer = ", ".join(f"{result.name} {result.short:,}" for result in short)
        told.append(say("notice.short", k=depth_of(comparison.experiment.ks), names=found_fewer))
    told += [
        say("notice.shallow", name=name, depth=f"{depth:,}", needed=f"{comparison.depth:,}")
        for name, depth in comparison.shallow
    ]
    if nothing := [result for result in short if result.unanswered]:
        told.append(say("notice.nothing", names=", ".join(f"{one.name} {one.unanswered:,}" for one in nothing)))
    told += [say("notice.blind", name=name, part=part, count=f"{of:,}") for name, part, of in comparison.blind]
    if (grade := comparison.experiment.relevant_from) != RELEVANT_GRADE:
        told.append(say("notice.relevant_from", grade=grade))
    for test in at_disadvantage(comparison.scores, question_groups(asked)):
        shares = (f"{comparison.scores[name].means()[test.measure] * 100:.0f}" for name in (test.a, test.b))
        told.append(
            say("notice.behind", name=test.a, best=test.b, **dict(zip(("share", "of_best"), shares, strict=True)))
        )
    specs = comparison.experiment.specs
    for name, count, around in comparison.cut_off:
        told.append(say("notice.cut_off", name=name, count=f"{count:,}", passages=f"{len(asked.passages):,}"))
        told += [say("notice.cut_off_too", names=", ".join(around), name=name)] if around else []
        told += [say("notice.cut_off_help", name=name)] if isinstance(specs[name], ReadingSpec) else []
    for spec, result in zip(comparison.experiment.retriever, comparison.results, strict=True):
        if result.error is not None:
            told.append(say("notice.failed", name=spec.name, reason=str(result.error)))
        told += [
            say(f"notice.{note}", name=spec.name, count=f"{result.notes[note]:,}")
            for note in ("unknown_passages", "aliases", "repeated", "other_questions", "rising_scores")  # from outside
            if result.notes.get(note)
        ]
        if spec.tuned_on(comparison.experiment.split):
            told.append(say("notice.flattered", name=spec.name, part=say(f"part.{spec.chosen_on}")))
    return told
