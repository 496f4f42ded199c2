"""One comparison as one HTML file: no script, nothing from elsewhere, for the screen and for paper."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from data.records import RELEVANT_GRADE
from retrieval.analysis.evidence import (
    Evidence,
    at_disadvantage,
    evidence,
    figures,
    judged_measures,
    label,
    shown_measures,
    turned,
)
from retrieval.comparison.compare import Comparison
from retrieval.comparison.spec import ReadingSpec
from retrieval.comparison.store import provenance
from retrieval.evaluation.measures import CUT, Measure, depth_of
from retrieval.evaluation.significance import question_groups
from retrieval.report.charts import pictures
from retrieval.report.drawing import colour_of, letter_of
from retrieval.report.sections import Say, cost, curves, hardest, lost, settings, slices, words_of

_MOST_PAIRS = 28  # those of 8 retrievers: of more, only the pairs with the first


def report(
    comparison: Comparison,
    language: str,
    origin: Mapping[str, Any] | None = None,
    found: Evidence | None = None,
    name: str = "",
) -> str:
    """Return the report as HTML in a language of `LANGUAGES`.

    `origin` is the comparison's provenance and `found` its evidence, both found out where left out; `name` is what a
    person calls the comparison. Raises `ValueError` where the language is not known.
    """
    say = words_of(language)
    found = found or evidence(comparison)
    origin = origin or provenance(comparison)
    measure = headline(comparison)
    names = list(comparison.experiment.specs)
    scored = list(comparison.scores)
    all_pairs = len(scored) * (len(scored) - 1) // 2 <= _MOST_PAIRS
    pairs, told = found.tests if all_pairs else found.against, dict.fromkeys((measure, f"ndcg@{CUT}"))
    judged = judged_measures(comparison.scores)
    shown = [one for one in shown_measures(comparison) if one not in judged]
    by_k, parts, losses = curves(comparison, found, names), slices(comparison, measure, say), lost(comparison, say)
    charts = [*(chart for _, chart in by_k), *(part.chart for part in parts), *([losses.chart] if losses.chart else [])]
    drawn = iter(pictures(charts))
    several_relevant = any(len(question.relevant) > 1 for question in comparison.question_set.questions)
    hits = [f"hit@{k}" for k in comparison.experiment.ks] if several_relevant else []
    return _template().render(
        say=say,
        language=language,
        name=name,
        label=label,
        comparison=comparison,
        origin=origin,
        made=datetime.fromisoformat(origin["made"]).strftime("%Y-%m-%d %H:%M"),
        measure=measure,
        depth=depth_of(comparison.experiment.ks),
        first=found.baseline,
        answers=dict.fromkeys(_answer(comparison, found, one, say) for one in told),
        notices=_notices(comparison, say),
        tables=[
            (note, columns, figures(comparison, found, columns))
            for note, columns in (("", shown), (say("section.hits"), hits), (say("section.judged"), judged))
            if columns
        ],
        legend=[(one, colour_of(one, names), letter_of(one, names)) for one in scored],
        curves=[(title, next(drawn)) for title, _ in by_k],
        pairs=[(one, tests) for one in told if (tests := [test for test in pairs if test.measure == one])],
        all_pairs=all_pairs,
        points=points,
        p_figure=p_figure,
        slices=[(part, next(drawn)) for part in parts],
        lost=losses,
        lost_picture=next(drawn, None),
        hardest=hardest(comparison),
        cost=cost(comparison),
        settings=settings(origin, say),
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


def headline(comparison: Comparison) -> str:
    """Return the measure of the sentence: the first that all have of Recall@10, nDCG@10, Recall@K from the top K."""
    wished = [f"recall@{CUT}", f"ndcg@{CUT}", *(f"recall@{k}" for k in sorted(comparison.experiment.ks, reverse=True))]
    scores = comparison.scores.values()
    return next((one for one in wished if all(one in of.per_question for of in scores)), wished[1])


def points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign unless it is 0.00."""
    shown = round(share * 100, 2)
    return f"{shown:+.2f}".replace("-", "−") if shown else "0.00"


def p_figure(p: float) -> str:
    """Return a p-value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _answer(comparison: Comparison, found: Evidence, measure: str, say: Say) -> str:
    means = {name: of.means()[measure] for name, of in comparison.scores.items() if measure in of.per_question}
    if not means:
        return say("page.none")
    first = found.baseline if found.baseline in means else next(iter(means))
    others = [name for name in means if name != first]
    if not others:
        low, high = (f"{share * 100:.1f}" for share in found.intervals[first][measure])
        mean = f"{means[first] * 100:.1f}"
        return say("answer.alone", first=first, measure=label(measure), mean=mean, low=low, high=high)
    best = max(others, key=lambda name: means[name])
    test = found.test(best, measure)
    if test is None:  # both have scores of this measure, so they were tested
        raise ValueError(f"the evidence holds no test of {best!r} against {first!r}")
    kind = "unsure" if not test.sure else ("more" if test.difference > 0 else "leads")
    if kind == "leads":
        test = turned(test)  # by how much the first is ahead
    return say(
        f"answer.{kind}",
        best=best,
        first=first,
        points=f"{abs(test.difference) * 100:.2f}",
        measure=label(measure),
        low=points(test.low),
        high=points(test.high),
        p=f"p {p_figure(test.p_family)}" if test.p_family < 0.001 else f"p = {p_figure(test.p_family)}",
        questions=f"{len(comparison.question_set.questions):,}",
    )


def _notices(comparison: Comparison, say: Say) -> list[str]:
    asked = comparison.question_set
    made = say("notice.made", made=f"{sum(asked.made.values()):,}", questions=f"{len(asked.questions):,}")
    told: list[str] = [made] if asked.made else []
    short = [result for result in comparison.results if result.short and result.error is None]
    if short:
        found_fewer = ", ".join(f"{result.name} {result.short:,}" for result in short)
        told.append(say("notice.short", k=depth_of(comparison.experiment.ks), names=found_fewer))
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
            for note in ("unknown_passages", "repeated", "other_questions")  # what of an imported run was passed over
            if result.notes.get(note)
        ]
        if spec.tuned_on(comparison.experiment.split):
            told.append(say("notice.flattered", name=spec.name, part=say(f"part.{spec.chosen_on}")))
    return told
