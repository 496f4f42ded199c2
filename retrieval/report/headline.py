"""The headline of a comparison in words: the retriever to use, its ties, and its gain over the baseline.

The report and the Compare page say it in the same words, one as HTML and the other as Markdown: both pass how they fill
in a text, how they emphasise a name and how they escape one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrc_workbench.retrieval.analysis.recommendation import CLEARLY_FASTER, FEWEST_QUESTIONS, Recommendation, TieBreak
from mrc_workbench.retrieval.evaluation.significance import PairTest
from mrc_workbench.retrieval.report.words import catalog, words_of


@dataclass(frozen=True)
class Style:
    """How a page writes: `say` fills in the text of a key, `emphasise` and `escape` write a name."""

    say: Callable[..., str]
    emphasise: Callable[[str], str]
    escape: Callable[[str], str]


@dataclass(frozen=True)
class Headline:
    """The sentence that recommends, and what is to be known beside it."""

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
    """Return the headline in words. `interval` is the 95% interval of the mean: told where nothing else is compared."""
    measure = style.escape(found.measure.long)
    values = {"name": style.emphasise(found.name), "measure": measure, "mean": percent(found.mean)}
    if found.early:
        return Headline(_early(found, style), ())
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
    """Return the ends of a difference's interval for a sentence that says "ahead" or "behind" without a sign.

    The ends are percentage points in the direction of the sentence: 2 behind (1 to 3).
    """
    ends = (low, high) if difference >= 0 else (-high, -low)
    return dict(zip(("low", "high"), map(signed_points, ends), strict=True))


def _early(found: Recommendation, style: Style) -> str:
    return style.say(
        "headline.early",
        best=style.emphasise(found.best),
        measure=style.escape(found.measure.long),
        mean=percent(found.best_mean),
        questions=f"{found.questions:,}",
        fewest=FEWEST_QUESTIONS,
    )


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
    said_before = found.best == found.baseline  # the gain over the baseline is the same test
    if found.from_best is not None and not said_before and (found.from_best.wins or found.from_best.losses):
        names = {"best": style.escape(found.best), "name": style.escape(found.name)}
        notes.append(style.say("headline.not_the_highest", **names, **_difference(found.from_best)))
    if found.ties and found.tie_break is TieBreak.MACHINES:
        notes.append(style.say("headline.other_machines"))
    elif found.ties and found.tie_break is TieBreak.SCORE:
        notes.append(style.say("headline.no_speed_known"))
    elif found.untimed and found.ties:
        notes.append(style.say("headline.untimed", names=_listed(found.untimed, style)))
    return notes


def _difference(test: PairTest) -> dict[str, str]:
    """Return the size of a difference and the ends of its interval, so that they read with "above" or "below"."""
    sign = 1 if test.difference >= 0 else -1
    low, high = sorted((sign * test.low, sign * test.high))
    return {"points": percent(abs(test.difference)), "low": signed_points(low), "high": signed_points(high)}


def _listed(names: Sequence[str], style: Style) -> str:
    return ", ".join(style.escape(name) for name in names)
