"""What came out of an ablation, in words: its variants, its measures, and what can be told apart."""

from typing import NamedTuple

from training.runs.ablations import REFERENCE, UNTRAINED, Difference, Table, Variant
from views.runs.search import setting_words
from views.ui.words import plain, signed, word

PERPLEXITY = "perplexity"  # no share of anything, and the lower the better
OF_HIDDEN_TOKENS = (PERPLEXITY, "masked_accuracy")  # comparable only where the same tokens are hidden
_DECIDING = ("ndcg@10", "spearman", "spearman_before")  # the first that there is says which variant is best


class Apart(NamedTuple):
    """Two variants' figures of a measure, how far the first is above the second, and between what, tested."""

    figure: float
    other: float
    difference: Difference


def variant_name(variant: Variant, *, varied: bool) -> str:
    """Return what a variant is called: not Markdown. Where nothing is `varied`, two are with and without training."""
    if variant.number == UNTRAINED:
        return word("ablation.untrained")
    if variant.number == REFERENCE:
        return word("ablation.reference" if varied else "ablation.trained")
    return setting_words(variant.changed)


def measure_name(name: str) -> str:
    """Return what a measure is called."""
    return word(f"ablation.measure_{_key(name)}")


def measure_help(name: str) -> str:
    """Return what a measure says."""
    return word(f"ablation.help_{_key(name)}")


def in_units(name: str, value: float) -> float:
    """Return a figure as it is shown: a hundredfold, but for perplexity."""
    return value if name == PERPLEXITY else 100 * value


def figure_words(name: str, value: float) -> str:
    """Return a figure with as many digits as it is worth."""
    return f"{in_units(name, value):,.1f}"


def is_comparable(variant: Variant, measure: str) -> bool:
    """Whether a figure may be held against the reference's."""
    return variant.alike or measure not in OF_HIDDEN_TOKENS


def conclusions(table: Table, *, varied: bool) -> list[str]:
    """Return as Markdown which variant is best, and what the training itself is worth, each as far as it was asked."""
    measure = next((name for name in _DECIDING if name in table.measures), None)
    known = {one.number: one for one in table.variants}
    reference = known.get(REFERENCE)
    if measure is None or reference is None or measure not in (reference.figures or {}):
        return [word("ablation.nothing_judges")]
    told = [_best(table, measure)] if varied and len(_rivals(table, measure)) > 1 else []
    base = known.get(UNTRAINED)
    if base and (apart := _apart(reference, base, measure)):
        told.append(_worth(apart, measure))
    return told


def _rivals(table: Table, measure: str) -> dict[int, Variant]:
    """The reference and what was varied, as far as they could be measured."""
    return {one.number: one for one in table.variants if measure in (one.figures or {}) and one.number != UNTRAINED}


def _best(table: Table, measure: str) -> str:
    measured = _rivals(table, measure)
    best = max(measured.values(), key=lambda one: (_value(one, measure), one.number == REFERENCE))
    values = {"measure": measure_name(measure), "figure": figure_words(measure, _value(best, measure))}
    tested = (best.differences or {}).get(measure)
    if best.number == REFERENCE or tested is None:
        return word("ablation.reference_best", **values)
    reference = figure_words(measure, _value(measured[REFERENCE], measure))
    name = plain(variant_name(best, varied=True))
    key = "ablation.best" if tested.low > 0 else "ablation.best_unsure"
    return word(key, name=name, reference=reference, **values, **_points(tested))


def _apart(reference: Variant, base: Variant, measure: str) -> Apart | None:
    """How far the reference is above the base: the difference is known the other way round."""
    tested = (base.differences or {}).get(measure)
    if tested is None:
        return None
    turned = Difference(-tested.value, -tested.high, -tested.low, tested.p)
    return Apart(_value(reference, measure), _value(base, measure), turned)


def _worth(apart: Apart, measure: str) -> str:
    if apart.difference.low > 0:
        key = "ablation.helped"
    else:
        key = "ablation.harmed" if apart.difference.high < 0 else "ablation.unsure"
    figures = {"figure": figure_words(measure, apart.figure), "without": figure_words(measure, apart.other)}
    return word(key, measure=measure_name(measure), **figures, **_points(apart.difference))


def _points(difference: Difference) -> dict[str, str]:
    return {
        "points": signed(difference.value),
        "low": signed(difference.low),
        "high": signed(difference.high),
    }


def _value(variant: Variant, measure: str) -> float:
    return (variant.figures or {})[measure].value


def _key(measure: str) -> str:
    return measure.partition("@")[0]
