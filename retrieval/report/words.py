"""The words of the report in the reader's language: its texts, names of retrievers, splits and the headline.

What a person named or wrote is put into the words as text, never as HTML. The report and the Compare page say the
headline (the retriever to use, its ties, its gain over the baseline) in the same words, one as HTML and the other as
Markdown: both pass a `Style`. Renamed comparisons are for display, never for storage.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mrc_workbench.data.split import FEWEST_QUESTIONS as FEWEST_COMPARED
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod
from mrc_workbench.retrieval.analysis.evidence import (
    CLEARLY_FASTER,
    FEWEST_QUESTIONS,
    Evidence,
    Recommendation,
    TieBreak,
)
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.significance import PairTest

LANGUAGES = ("en", "ko")
Say = Callable[..., Markup]
_RETRIEVERS = {  # the default names, which results and addresses hold, and the keys of what a reader calls them
    "Dense": "dense",
    "Late": "late",
    "Best mix": "best_mix",
    "Hybrid": "hybrid",
    "Reranked": "reranked",
    "BM25 words": "bm25_words",
    "LSA": "lsa",
}
_OF_A_MODEL = " · "  # between the name of a retriever and that of its model
_TRAINED = "trained"


@cache
def catalog(language: str) -> dict[str, str]:
    """Return the texts of a language by key, `section.name`. Raises `ValueError` where the language is not known."""
    if language not in LANGUAGES:
        raise ValueError(f"the report is written in {' or '.join(LANGUAGES)}, not in {language!r}")
    tables = tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{name}": text for section, entries in tables.items() for name, text in entries.items()}


def words_of(language: str) -> Say:
    """Return `say(key, **values)`: the text of a key as HTML, with its fields filled in and escaped."""
    texts = catalog(language)

    def say(key: str, /, **values: Any) -> Markup:
        return Markup(texts[key]).format(**values)  # noqa: S704 - our own words; format escapes the values

    return say


@cache
def template(path: Path, *, autoescape: bool = False, keep_newline: bool = False) -> Template:
    """Return a template of HTML, or without `autoescape` of Markdown, into which texts of users are put escaped."""
    loader = FileSystemLoader(path.parent)
    environment = Environment(loader=loader, autoescape=autoescape, undefined=StrictUndefined)  # noqa: S701
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.keep_trailing_newline = keep_newline
    return environment.get_template(path.name)


def kind_label(kind: str, say: Say) -> str:
    """Return what a reader calls a question type; a type without words keeps its name."""
    with suppress(KeyError):
        return str(say(f"question_kind.{kind}"))
    return kind


def retriever_name(name: str, language: str) -> str:
    """Return the displayed name of a retriever: a default name in a language, any other as it is. Not HTML."""
    kind, separator, model = name.partition(_OF_A_MODEL)
    if kind not in _RETRIEVERS:
        return name
    texts = catalog(language)
    if model == _TRAINED:
        model = texts["retriever.trained"]
    return texts[f"retriever.{_RETRIEVERS[kind]}"] + separator + model


def retriever_names(names: Iterable[str], language: str) -> dict[str, str]:
    """Return the displayed name of each of these retrievers: their own names if two would be equal."""
    called = {name: retriever_name(name, language) for name in names}
    return called if len(set(called.values())) == len(called) else {name: name for name in called}


def split_words(parts: Split, say: Callable[..., str]) -> str:
    """Return how a split came about, its number of questions by part, and how many test questions leak."""
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


def few_words(count: int, of: str, say: Callable[..., str]) -> str:
    """Return the warning that there are too few questions `of` a part, or "compared"; empty if they are enough."""
    return "" if count >= FEWEST_COMPARED else say(f"split.few_{of}", count=count, fewest=FEWEST_COMPARED)


def few_taught_words(name: str, count: int, say: Callable[..., str]) -> str:
    """Return the warning that a mix, `name`, has too few training questions; empty if they are enough."""
    few = {"name": name, "count": count, "fewest": FEWEST_COMPARED}
    return "" if count >= FEWEST_COMPARED else say("split.few_taught", **few)


@dataclass(frozen=True)
class Style:
    """How a page writes: `say` fills in the text of a key, `emphasise` and `escape` write a name."""

    say: Callable[..., str]
    emphasise: Callable[[str], str]
    escape: Callable[[str], str]


@dataclass(frozen=True)
class Headline:
    """The sentence that recommends a retriever, and notes beside it."""

    answer: str
    notes: tuple[str, ...]


def html_style(language: str) -> Style:
    """Write as HTML, with names escaped."""
    say = words_of(language)
    return Style(say, lambda name: say("headline.bold", name=name), lambda name: name)


def markdown_style(language: str, escape: Callable[[str], str]) -> Style:
    """Write as Markdown; `escape` returns a name so that none of it is read as Markdown."""
    texts = catalog(language)

    def say(key: str, /, **values: object) -> str:
        return texts[key].format(**values)

    return Style(say, lambda name: f"**{escape(name)}**", escape)


def headline_words(found: Recommendation, style: Style, interval: tuple[float, float] | None = None) -> Headline:
    """Return the headline in words. `interval` is the 95% interval of the mean, for a single retriever."""
    measure = style.escape(found.measure.long)
    if found.early:
        values = {"best": style.emphasise(found.best), "measure": measure, "mean": percent(found.best_mean)}
        counts = {"questions": f"{found.questions:,}", "fewest": FEWEST_QUESTIONS}
        return Headline(style.say("headline.early", **values, **counts), ())
    values = {"name": style.emphasise(found.name), "measure": measure, "mean": percent(found.mean)}
    if not found.compared:
        low, high = interval or (found.mean, found.mean)
        return Headline(style.say("headline.alone", low=percent(low), high=percent(high), **values), ())
    answer = style.say("headline.use", ties=_ties(found, style), gain=_gain(found, style), **values)
    return Headline(answer, tuple(_notes(found, style)))


def percent(share: float) -> str:
    """Return a share in percent, as the headline and the tables beside it round it."""
    return f"{share * 100:.1f}"


def signed_points(difference: float) -> str:
    """Return one end of an interval in percentage points; a minus sign, never a plus sign or a negative zero."""
    rounded = round(difference * 100, 1)
    return f"{rounded:.1f}".replace("-", "−") if rounded else "0.0"


def interval_of_lead(difference: float, low: float, high: float) -> dict[str, str]:
    """Return the ends of a difference's interval in points, in the direction of a sentence: 2 behind (1 to 3)."""
    ends = (low, high) if difference >= 0 else (-high, -low)
    return dict(zip(("low", "high"), map(signed_points, ends), strict=True))


def _ties(found: Recommendation, style: Style) -> str:
    if not found.ties:
        return ""
    names = _listed(found.ties, style)
    if found.faster is None or found.faster < CLEARLY_FASTER:
        return style.say("headline.tie", names=names)
    if len(found.ties) > 1:
        return style.say("headline.tie_fastest", names=names)
    times = f"{found.faster:.1f}" if found.faster < 3 else f"{found.faster:.0f}"
    return style.say("headline.tie_faster", names=names, times=times)


def _gain(found: Recommendation, style: Style) -> str:
    if found.name == found.baseline:
        return style.say("headline.gain_of_baseline")
    test = found.gain
    if test is None:
        return style.say("headline.gain_unknown")
    baseline = style.escape(found.baseline)
    if not test.wins and not test.losses:
        return style.say("headline.gain_same", baseline=baseline)
    side = "more" if test.difference >= 0 else "less"
    key = f"headline.gain_{side}" if test.sure else f"headline.gain_maybe_{side}"
    return style.say(key, baseline=baseline, **_difference(test))


def _notes(found: Recommendation, style: Style) -> list[str]:
    notes: list[str] = []
    test = None if found.best == found.baseline else found.from_best  # the gain over the baseline is the same test
    if test is not None and (test.wins or test.losses):
        names = {"best": style.escape(found.best), "name": style.escape(found.name)}
        notes.append(style.say("headline.not_the_highest", **names, **_difference(test)))
    if found.ties and found.tie_break is TieBreak.MACHINES:
        notes.append(style.say("headline.other_machines"))
    elif found.ties and found.tie_break is TieBreak.SCORE:
        notes.append(style.say("headline.no_speed_known"))
    elif found.untimed and found.ties:
        notes.append(style.say("headline.untimed", names=_listed(found.untimed, style)))
    return notes


def _difference(test: PairTest) -> dict[str, str]:
    ends = interval_of_lead(test.difference, test.low, test.high)
    return {"points": percent(abs(test.difference)), **ends}


def _listed(names: Sequence[str], style: Style) -> str:
    return ", ".join(style.escape(name) for name in names)


Names = Mapping[str, str]


def renamed_comparison(comparison: Comparison, names: Names) -> Comparison:
    """Return the comparison with every retriever, and every part of one, called by `names`."""
    content: dict[str, Any] = comparison.experiment.model_dump(mode="json", exclude_none=True)
    for spec in content["retriever"]:
        spec["name"] = names[spec["name"]]
        if "of" in spec:
            spec["of"] = [names[part] for part in spec["of"]]
        if "first" in spec:
            spec["first"] = names[spec["first"]]
    results = tuple(replace(result, name=names[result.name]) for result in comparison.results)
    return Comparison(Experiment.model_validate(content), comparison.question_set, results, comparison.parts)


def renamed_evidence(evidence: Evidence, names: Names) -> Evidence:
    """Return the intervals and the tests with every retriever called by `names`."""
    return Evidence(
        names.get(evidence.baseline, evidence.baseline),
        {names[name]: intervals for name, intervals in evidence.intervals.items()},
        tuple(_renamed_test(test, names) for test in evidence.against),
        tuple(_renamed_test(test, names) for test in evidence.others),
    )


def renamed_recommendation(found: Recommendation, names: Names) -> Recommendation:
    """Return the recommendation with every retriever called by `names`."""
    return replace(
        found,
        name=names[found.name],
        best=names[found.best],
        baseline=names.get(found.baseline, found.baseline),
        ties=tuple(names[name] for name in found.ties),
        untimed=tuple(names[name] for name in found.untimed),
        gain=found.gain and _renamed_test(found.gain, names),
        from_best=found.from_best and _renamed_test(found.from_best, names),
    )


def _renamed_test(test: PairTest, names: Names) -> PairTest:
    return replace(test, a=names[test.a], b=names[test.b])
