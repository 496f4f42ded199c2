"""The recommended retriever, and the report's texts in a language: names of retrievers, splits and the headline.

The recommendation is the cheapest retriever that a paired test does not find significantly worse than the best on one
metric: the fewest milliseconds per query, then the smallest index. Only milliseconds of the same machine are compared.
If components of a mix were timed on different machines, only those on the same machine count, so that "faster" is a
lower bound. If that leaves no fastest retriever, one without a model comes first, then the smaller index.

Texts of users are escaped. The report's headline is HTML, that of the Compare page Markdown.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mrc_workbench.data.split import MIN_QUESTIONS as FEWEST_COMPARED
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod
from mrc_workbench.retrieval.analysis.evidence import oriented_test
from mrc_workbench.retrieval.comparison.compare import Comparison, Result, values_by_retriever
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.significance import PairTest

LANGUAGES = ("en", "ko")
Say = Callable[..., Markup]
# default names, which results and addresses contain; each has a key in a catalog, such as retriever.best_mix
_RETRIEVERS = ("Dense", "Late", "Best mix", "Hybrid", "Reranked", "BM25 words", "LSA")


@cache
def catalog(language: str) -> dict[str, str]:
    """Return the texts of a language by key, `section.name`. Raises `ValueError` for an unknown language."""
    if language not in LANGUAGES:
        raise ValueError(f"the report is written in {' or '.join(LANGUAGES)}, not in {language!r}")
    tables = tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{name}": text for section, entries in tables.items() for name, text in entries.items()}


def translator(language: str) -> Say:
    """Return `say(key, **values)`: the text of a key as HTML, with escaped values in its fields."""
    texts = catalog(language)

    def say(key: str, /, **values: Any) -> Markup:
        return Markup(texts[key]).format(**values)  # noqa: S704 - format escapes the values

    return say


@cache
def template(path: Path, *, autoescape: bool = False, keep_newline: bool = False) -> Template:
    """Return a template of HTML, or without `autoescape` of Markdown, whose values must be escaped."""
    loader = FileSystemLoader(path.parent)
    environment = Environment(loader=loader, autoescape=autoescape, undefined=StrictUndefined)  # noqa: S701
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.keep_trailing_newline = keep_newline
    return environment.get_template(path.name)


def kind_label(kind: str, say: Say) -> str:
    """Return the text of a question type, or its name if it has no text."""
    with suppress(KeyError):
        return str(say(f"question_kind.{kind}"))
    return kind


def display_name(name: str, language: str) -> str:
    """Return the displayed name of a retriever: default names are translated. The name is not escaped."""
    kind, separator, model = name.partition(" · ")
    if kind not in _RETRIEVERS:
        return name
    texts = catalog(language)
    if model == "trained":
        model = texts["retriever.trained"]
    return texts[f"retriever.{kind.lower().replace(' ', '_')}"] + separator + model


def display_names(names: Iterable[str], language: str) -> dict[str, str]:
    """Return the displayed name of each retriever; none is translated if two would be equal."""
    displayed = {name: display_name(name, language) for name in names}
    return displayed if len(set(displayed.values())) == len(displayed) else {name: name for name in displayed}


def describe_split(parts: Split, say: Callable[..., str]) -> str:
    """Return the method of a split, its number of questions by part, and the number of leaking test questions."""
    key = parts.method.value
    if parts.method is SplitMethod.GROUPED:
        key = "grouped_by_article" if parts.by_article else "grouped_by_passage"
    counts = {part.value: f"{len(parts.rows[part]):,}" for part in PARTS}
    sentences = [say(f"split.{key}", seed=parts.options.seed, **counts)]
    if parts.tests_on_validation:
        sentences.append(say("split.validation_as_test"))
    if parts.draws_validation:
        sentences.append(say("split.validation_drawn", seed=parts.options.seed))
    if parts.method is not SplitMethod.GROUPED and len(parts.rows[Part.TEST]) and len(parts.rows[Part.TRAIN]):
        leaks = {"leaks": f"{parts.leaks:,}", "test": counts["test"]}
        sentences.append(say("split.leaks", **leaks) if parts.leaks else say("split.no_leaks"))
    return " ".join(sentences)


def few_questions_warning(count: int, of: str, say: Callable[..., str], name: str = "") -> str:
    """Return the warning about too few questions, empty if they are enough.

    `of` is a part, "compared", or "training" for the training questions of the mix `name`.
    """
    values = {"name": name, "count": count, "fewest": FEWEST_COMPARED}
    return "" if count >= FEWEST_COMPARED else say(f"split.few_{of}", **values)


FEWEST_QUESTIONS = 30  # for a recommendation
CLEARLY_FASTER = 2.0  # times; a smaller lead may be chance: the machine was busier, or a cache was warm
FEWEST_GROUPS = 6  # with fewer, no difference can reach p < 0.05: there are 2^n swaps
_NEGLIGIBLE_FRACTION = 0.01  # of a time, from another machine
_FOREIGN_FRACTION = 0.1  # of a time, from another machine: a page marks times above it


class TieBreak(StrEnum):
    """The criterion between retrievers that do not differ significantly."""

    SPEED = "speed"
    MACHINES = "machines"  # timed on different machines: no model first, then the smaller index
    SCORE = "score"  # no time is known: the higher mean


@dataclass(frozen=True)
class RetrieverCost:
    """The costs of a retriever."""

    milliseconds: float | None  # per query, None if unknown
    elsewhere: float  # milliseconds of these that were measured on another machine: they ship with the sample
    index_bytes: int  # 0 if unknown
    has_model: bool

    @property
    def is_measured_elsewhere(self) -> bool:
        """Whether a page marks the time as measured on another machine."""
        return self.milliseconds is not None and self.elsewhere > _FOREIGN_FRACTION * self.milliseconds


@dataclass(frozen=True)
class Recommendation:
    """The retriever to use by a metric, and the evidence for it."""

    measure: Measure
    name: str
    best: str
    baseline: str
    mean: float
    best_mean: float
    questions: int
    alternative_count: int  # number of other retrievers with the metric
    ties: tuple[str, ...]  # others that do not differ significantly from the best, best first
    speedup: float | None  # lower bound of the factor to the fastest tie; None if the times cannot be compared
    gain: PairTest | None  # test against the baseline; None for the baseline, or without such a test
    from_best: PairTest | None  # test against the best; None for the best itself
    tie_break: TieBreak
    untimed: tuple[str, ...]  # of the best and its ties
    has_too_few_questions: bool


def rank_by_mean(comparison: Comparison, measure: Measure, names: Iterable[str] | None = None) -> list[str]:
    """Return the retrievers that have the metric by their mean, highest first; equal means keep their order."""
    means = _means(comparison, measure)
    candidates = means.keys() if names is None else means.keys() & set(names)
    return sorted((name for name in means if name in candidates), key=lambda name: -means[name])


def _means(comparison: Comparison, measure: Measure) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in values_by_retriever(comparison.scores, measure).items()}


def recommend(
    comparison: Comparison,
    measure: Measure,
    tests: Sequence[PairTest],
    *,
    baseline: str,
    groups: np.ndarray,
    names: Iterable[str] | None = None,
) -> Recommendation | None:
    """Recommend a retriever with the metric (one of `names`, if given); None if there is none.

    `tests` are corrected paired tests; `groups` number the questions that share a relevant passage.
    """
    ranked = rank_by_mean(comparison, measure, names)
    if not ranked:
        return None
    means = _means(comparison, measure)
    best = ranked[0]
    tests = [test for test in tests if test.measure == str(measure)]
    against_best = {name: oriented_test(name, best, tests) for name in ranked[1:]}
    tied = [best, *(name for name, test in against_best.items() if test is not None and not test.is_significant)]
    costs = {result.name: retriever_cost(result) for result in comparison.results if result.name in tied}
    name, tie_break = _cheapest(tied, costs)
    questions = len(comparison.question_set.questions)
    return Recommendation(
        measure=measure,
        name=name,
        best=best,
        baseline=baseline,
        mean=means[name],
        best_mean=means[best],
        questions=questions,
        alternative_count=len(ranked) - 1,
        ties=tuple(tied_name for tied_name in tied if tied_name != name),
        speedup=_smallest_speedup(name, tied, costs) if tie_break is TieBreak.SPEED else None,
        gain=None if name == baseline else oriented_test(name, baseline, tests),
        from_best=against_best.get(name),
        tie_break=tie_break,
        untimed=tuple(tied_name for tied_name in tied if costs[tied_name].milliseconds is None),
        has_too_few_questions=questions < FEWEST_QUESTIONS or len(np.unique(groups)) < FEWEST_GROUPS,
    )


def retriever_cost(result: Result) -> RetrieverCost:
    """Return the costs of a retriever with scores; an imported run has a time only if it was recorded."""
    questions = len(result.rankings.indices) if result.rankings else 0
    timed = questions > 0 and result.query_seconds > 0
    return RetrieverCost(
        milliseconds=result.query_seconds / questions * 1000 if timed else None,
        elsewhere=result.elsewhere_seconds / questions * 1000 if timed else 0.0,
        index_bytes=result.memory_bytes,
        has_model=result.model_seconds > 0,
    )


def compute_speedup(a: RetrieverCost, b: RetrieverCost) -> float | None:
    """Return a lower bound of how many times a is faster than b; None if a time is unknown, or a's has two machines."""
    if not a.milliseconds or not b.milliseconds:
        return None
    if a.elsewhere <= _NEGLIGIBLE_FRACTION * a.milliseconds:
        return (b.milliseconds - b.elsewhere) / a.milliseconds
    if a.elsewhere >= (1 - _NEGLIGIBLE_FRACTION) * a.milliseconds:
        return b.elsewhere / a.milliseconds
    return None


def _cheapest(tied: Sequence[str], costs: Mapping[str, RetrieverCost]) -> tuple[str, TieBreak]:
    """Return the cheapest of the ties, which are listed best first, and the criterion.

    Ties without a clearly faster one count as equally fast: the smaller index decides.
    """
    timed = [name for name in tied if costs[name].milliseconds is not None]
    if not timed:
        return tied[0], TieBreak.SCORE
    if len(timed) > 1 and not any((_smallest_speedup(name, timed, costs) or 0.0) >= 1 for name in timed):
        return min(timed, key=lambda name: (costs[name].has_model, costs[name].index_bytes or inf)), TieBreak.MACHINES
    leads = {name: [compute_speedup(costs[other], costs[name]) for other in timed if other != name] for name in timed}
    fast = [name for name in timed if not any(lead is not None and lead >= CLEARLY_FASTER for lead in leads[name])]
    return min(fast, key=lambda name: costs[name].index_bytes or inf), TieBreak.SPEED


def _smallest_speedup(name: str, tied: Sequence[str], costs: Mapping[str, RetrieverCost]) -> float | None:
    """Return a lower bound of how many times a retriever is faster than every other tie with a known time."""
    others = [costs[other] for other in tied if other != name and costs[other].milliseconds is not None]
    leads = [compute_speedup(costs[name], other) for other in others]
    known = [lead for lead in leads if lead is not None]
    return min(known) if known and len(known) == len(leads) else None


@dataclass(frozen=True)
class Style:
    """The markup of a page: `say` returns the text of a key, `emphasise` and `escape` format a name."""

    say: Callable[..., str]
    emphasise: Callable[[str], str]
    escape: Callable[[str], str]


@dataclass(frozen=True)
class Headline:
    """The sentence that recommends a retriever, and notes."""

    answer: str
    notes: Sequence[str] = ()


def html_style(language: str, names: Mapping[str, str]) -> Style:
    """Return the style of HTML; `names` are the displayed names of retrievers."""
    say = translator(language)
    return Style(say, lambda name: say("headline.bold", name=names[name]), lambda name: names.get(name, name))


def markdown_style(language: str, escape: Callable[[str], str]) -> Style:
    """Return the style of Markdown; `escape` escapes a name."""
    texts = catalog(language)

    def say(key: str, /, **values: object) -> str:
        return texts[key].format(**values)

    return Style(say, lambda name: f"**{escape(name)}**", escape)


def write_headline(
    recommendation: Recommendation, style: Style, interval: tuple[float, float] | None = None
) -> Headline:
    """Return the headline. `interval` is the 95% interval of the mean, for a single retriever."""
    measure = style.escape(recommendation.measure.long_name)
    if recommendation.has_too_few_questions:
        best = style.emphasise(recommendation.best)
        counts = {"questions": f"{recommendation.questions:,}", "fewest": FEWEST_QUESTIONS}
        mean = percent(recommendation.best_mean)
        return Headline(style.say("headline.early", best=best, measure=measure, mean=mean, **counts))
    values = {"name": style.emphasise(recommendation.name), "measure": measure, "mean": percent(recommendation.mean)}
    if not recommendation.alternative_count:
        low, high = interval or (recommendation.mean, recommendation.mean)
        return Headline(style.say("headline.alone", low=percent(low), high=percent(high), **values))
    ties = _ties_text(recommendation, style)
    gain = _gain_text(recommendation, style)
    return Headline(style.say("headline.use", ties=ties, gain=gain, **values), _notes(recommendation, style))


def percent(fraction: float) -> str:
    """Return a fraction in percent, rounded as in the tables."""
    return f"{fraction * 100:.1f}"


def difference_interval(difference: float, low: float, high: float) -> dict[str, str]:
    """Return the ends of a difference's interval in points, signed as in a sentence: 2 points below (1 to 3)."""
    ends = {"low": low, "high": high} if difference >= 0 else {"low": -high, "high": -low}
    rounded = {name: round(end * 100, 1) or 0.0 for name, end in ends.items()}  # never a negative zero
    return {name: f"{end:.1f}".replace("-", "−") for name, end in rounded.items()}


def _ties_text(recommendation: Recommendation, style: Style) -> str:
    if not recommendation.ties:
        return ""
    names = ", ".join(map(style.escape, recommendation.ties))
    if recommendation.speedup is None or recommendation.speedup < CLEARLY_FASTER:
        return style.say("headline.tie", names=names)
    if len(recommendation.ties) > 1:
        return style.say("headline.tie_fastest", names=names)
    times = f"{recommendation.speedup:.1f}" if recommendation.speedup < 3 else f"{recommendation.speedup:.0f}"
    return style.say("headline.tie_faster", names=names, times=times)


def _gain_text(recommendation: Recommendation, style: Style) -> str:
    if recommendation.name == recommendation.baseline:
        return style.say("headline.gain_of_baseline")
    test = recommendation.gain
    if test is None:
        return style.say("headline.gain_unknown")
    baseline = style.escape(recommendation.baseline)
    if not test.wins and not test.losses:
        return style.say("headline.gain_same", baseline=baseline)
    direction = "more" if test.difference >= 0 else "less"
    key = f"headline.gain_{direction}" if test.is_significant else f"headline.gain_maybe_{direction}"
    return style.say(key, baseline=baseline, **difference_values(test))


def _notes(recommendation: Recommendation, style: Style) -> list[str]:
    notes: list[str] = []
    test = recommendation.from_best
    is_gain = recommendation.best == recommendation.baseline  # then the headline reports this test
    if test is not None and not is_gain and (test.wins or test.losses):
        names = {"best": style.escape(recommendation.best), "name": style.escape(recommendation.name)}
        notes.append(style.say("headline.not_the_highest", **names, **difference_values(test)))
    if recommendation.ties and recommendation.tie_break is TieBreak.MACHINES:
        notes.append(style.say("headline.other_machines"))
    elif recommendation.ties and recommendation.tie_break is TieBreak.SCORE:
        notes.append(style.say("headline.no_speed_known"))
    elif recommendation.untimed and recommendation.ties:
        notes.append(style.say("headline.untimed", names=", ".join(map(style.escape, recommendation.untimed))))
    return notes


def difference_values(test: PairTest) -> dict[str, str]:
    """Return the difference and the ends of its interval in points, as in `difference_interval`."""
    ends = difference_interval(test.difference, test.low, test.high)
    return {"points": percent(abs(test.difference)), **ends}
