"""An ablation: at work, and what came of it in words, as a picture and as a table, with its trainings folded under
it."""

from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from data.store import StoredSet, stored
from retrieval.comparison.experiment import write_experiment
from retrieval.comparison.first_stage import DenseSpec
from retrieval.report.colours import PALETTE, READABLE
from training.runs.runs import Run, find_run
from training.runs.sweeps import REFERENCE, UNTRAINED, Ablation, Difference, Table, Variant
from views.choices import BM25_NAME, choices_for, model_place
from views.names import experiment_of, is_varied, kind_name, run_name
from views.navigation import open_page
from views.resources.sets import use_set
from views.runs.head import draw_parts
from views.runs.search import setting_words
from views.ui import tables
from views.ui.charts import draw_chart, tips, with_interval
from views.ui.problems import tell_training_failure
from views.ui.words import language, plain, signed, word

_COLOUR = PALETTE[0]
_ROW, _AXIS = 36, 80  # pixels
PERPLEXITY = "perplexity"  # no share of anything, and the lower the better
OF_HIDDEN_TOKENS = (PERPLEXITY, "masked_accuracy")  # comparable only where the same tokens are hidden
_DECIDING = ("ndcg@10", "spearman", "spearman_before")  # the first that there is says which variant is best
_OTHERS = "°"  # marks figures of other hidden tokens
_MISSING = "–"  # a variant has no such figure


def variants_chart(table: pd.DataFrame, *, x: str, y: str) -> alt.LayerChart:
    """One row a "variant": its "value" with "low" to "high", hollow where it is not "alike", beside the "reference".

    The dashed line is the figure of the row that is the reference.
    """
    base = alt.Chart(table).encode(
        y=alt.Y("variant:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        tooltip=[*tips(("variant:N", y)), *with_interval("value", x, ",.2f")],
    )
    scale = alt.Scale(zero=False, padding=12)
    whole = alt.X("value:Q", title=x, scale=scale, axis=alt.Axis(tickCount=5))
    line = alt.Chart(table[table["reference"]]).mark_rule(color=READABLE, strokeDash=[5, 4], strokeWidth=1.5)
    intervals = base.mark_rule(strokeWidth=3, color=_COLOUR).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    marks = base.mark_point(size=110, opacity=1, strokeWidth=2, stroke=_COLOUR).encode(
        x=whole,
        fill=alt.condition("datum.alike", alt.value(_COLOUR), alt.value("white")),
    )
    return (line.encode(x=whole) + intervals + marks).properties(height=_AXIS + _ROW * len(table))


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
    told = [_best_words(table, measure)] if varied and len(_rivals(table, measure)) > 1 else []
    base = known.get(UNTRAINED)
    if base and (apart := _apart(reference, base, measure)):
        told.append(_worth(apart, measure))
    return told


def _rivals(table: Table, measure: str) -> dict[int, Variant]:
    """The reference and what was varied, as far as they could be measured."""
    return {one.number: one for one in table.variants if measure in (one.figures or {}) and one.number != UNTRAINED}


def _best_words(table: Table, measure: str) -> str:
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


def draw_table(table: Table, key: str, base: str, *, varied: bool) -> None:
    """Draw the choice of a measure, its picture, the table of all of them, and what must be known to read it."""
    measures = table.measures
    if not measures:
        _failures(table, base, varied=varied)
        return
    measure = _pick_measure(measures, key)
    figures = _figures(table, measure, varied=varied)
    if len(figures):
        draw_chart(variants_chart, figures, x=measure_name(measure), y=word("ablation.variant"))
    _draw_numbers(table, measures, measure, varied=varied)
    st.caption(" ".join(_notes(table, measure, varied=varied)))
    _failures(table, base, varied=varied)


def as_written(table: Table) -> pd.DataFrame:
    """Return the table as figures: one row a variant, shares from 0 to 1, differences to the reference."""
    rows: list[dict[str, Any]] = []
    for one in table.variants:
        row: dict[str, Any] = {"variant": one.number, "same_hidden_tokens": one.alike, "failed": one.code}
        row |= {"changed": ", ".join(f"{name} = {value}" for name, value in one.changed.items())}
        for name in table.measures:
            if figure := (one.figures or {}).get(name):
                row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
            if apart := (one.differences or {}).get(name):
                row |= {f"{name}_difference_{end}": value for end, value in apart._asdict().items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _pick_measure(measures: list[str], key: str) -> str:
    chosen = st.pills(
        word("ablation.measure"),
        measures,
        default=measures[-1],
        format_func=measure_name,
        key=f"ablation_measure_{key}_{len(measures)}",  # more of them are known at the end
        required=True,
        label_visibility="collapsed",
    )
    return str(chosen or measures[-1])


def _figures(table: Table, measure: str, *, varied: bool) -> pd.DataFrame:
    rows = [
        {
            "variant": variant_name(one, varied=varied),
            "reference": one.number == REFERENCE,
            "alike": is_comparable(one, measure),
            **{end: in_units(measure, value) for end, value in (one.figures or {})[measure]._asdict().items()},
        }
        for one in table.variants
        if measure in (one.figures or {})
    ]
    return pd.DataFrame(rows)


def _draw_numbers(table: Table, measures: list[str], measure: str, *, varied: bool) -> None:
    """Underneath, figures stay numbers, so that columns sort by them."""
    rows = [_row(one, measures, measure, varied=varied) for one in table.variants]
    numbers = pd.DataFrame(rows, columns=["variant", *measures, "difference", "p"])
    style = numbers.style.format("{:.4f}", subset=["p"], na_rep="")
    best = {name: _best_number(table, name) for name in measures}
    for place, one in enumerate(table.variants):
        for name in measures:
            style = tables.write(style, place, name, _cell(one, name))
            if one.number == best[name]:
                style = style.map(lambda _: tables.BOLD, subset=pd.IndexSlice[[place], [name]])
        apart = (one.differences or {}).get(measure)
        told = f"{signed(apart.value)} [{signed(apart.low)}, {signed(apart.high)}]" if apart else ""
        style = tables.write(style, place, "difference", told)
    known = any(measure in (one.differences or {}) for one in table.variants)
    columns = {"variant": tables.text("ablation.variant", pinned=True, width=150), measure: _column(measure)}
    if known:
        columns["difference"] = tables.number("ablation.difference", width=125)
        columns["p"] = tables.number("ablation.p", "%.4f", width=60)
    columns |= {name: _column(name) for name in measures if name != measure}
    tables.draw(style, columns, placeholder=_MISSING)


def _column(measure: str) -> ColumnConfig:
    return st.column_config.NumberColumn(measure_name(measure), help=measure_help(measure), width=155)


def _row(one: Variant, measures: list[str], measure: str, *, varied: bool) -> dict[str, Any]:
    figures, apart = one.figures or {}, (one.differences or {}).get(measure)
    return {
        "variant": variant_name(one, varied=varied),
        **{name: in_units(name, figures[name].value) if name in figures else None for name in measures},
        "difference": 100 * apart.value if apart else None,
        "p": apart.p if apart else None,
    }


def _cell(one: Variant, name: str) -> str:
    figure = (one.figures or {}).get(name)
    if figure is None:
        return ""
    value, low, high = (figure_words(name, end) for end in figure)
    return f"{value} [{low}–{high}]{'' if is_comparable(one, name) else ' ' + _OTHERS}"


def _best_number(table: Table, name: str) -> int:
    """The number of the variant that is best by a measure, among those that are comparable."""
    known = {
        one.number: one.figures[name].value
        for one in table.variants
        if one.figures and name in one.figures and is_comparable(one, name)
    }
    sign = -1 if name == PERPLEXITY else 1
    return max(known, key=lambda number: sign * known[number], default=-1)


def _notes(table: Table, measure: str, *, varied: bool) -> list[str]:
    notes = [word("ablation.dashed", name=variant_name(Variant(REFERENCE, {}), varied=varied))]
    if varied and any(measure in (one.differences or {}) for one in table.variants):
        notes.append(word("ablation.tested_together"))
    others = [one for one in table.variants for name in OF_HIDDEN_TOKENS if name in (one.figures or {})]
    if any(not one.alike for one in others):
        notes.append(word("ablation.other_tokens", mark=_OTHERS))
    judges = [word("ablation.questions", count=f"{table.questions:,}")] if table.questions else []
    judges += [word("ablation.pairs", count=f"{table.pairs:,}")] if table.pairs else []
    if judges:
        notes.append(word("ablation.judged_on", judges=" · ".join(judges)))
    return [*notes, word("ablation.intervals_of")]


def _failures(table: Table, base: str, *, varied: bool) -> None:
    for one in table.variants:
        if one.code:
            st.markdown(word("ablation.failed", name=plain(variant_name(one, varied=varied))))
            tell_training_failure(one.code, one.message, base)


def draw_ablation(ablation: Ablation) -> None:
    """Draw what came of an ablation that ended, or what was known when it did, and its trainings."""
    if ablation.done and (table := ablation.table):
        for told in conclusions(table, varied=is_varied(ablation.plan())):
            st.markdown(told)
    _draw_known(ablation)


def draw_ablation_buttons(ablation: Ablation) -> None:
    """Draw the ways from an ablation that is done: to Compare, and as files."""
    table, experiment = ablation.table, experiment_of(ablation.plan())
    if ablation.done and table:
        tuned = [run for one in table.variants if one.tuned and (run := find_run(one.tuned))]
        _draw_way_to_compare(ablation, tuned)
        tables.draw_csv("ablation.csv", lambda: as_written(table), f"{ablation.id}.csv", f"csv_{ablation.id}")
    if experiment:
        st.download_button(
            word("ablation.file"),
            write_experiment(experiment),
            f"{ablation.id}.toml",
            "application/toml",
            key=f"file_{ablation.id}",
            help=word("ablation.file_help"),
            icon=":material/download:",
            on_click="ignore",
        )


def draw_ablation_so_far(ablation: Ablation) -> None:
    """Draw what an ablation at work has come to."""
    st.caption(word("ablation.goes_on"))
    _draw_known(ablation)


def _draw_known(ablation: Ablation) -> None:
    plan = ablation.plan()
    if table := ablation.table:
        draw_table(table, ablation.id, plan.options.base, varied=is_varied(plan))
    parts = _trainings(ablation)
    draw_parts(ablation, parts, word("ablation.trainings", count=len(parts)), _part_name)


def _trainings(ablation: Ablation) -> list[Run]:
    """Those made for it, and those of before that it took as they were."""
    named = [name for one in ablation.table.variants for name in (one.model, one.tuned)] if ablation.table else []
    taken = [run for name in named if name and (run := find_run(name))]
    return list(dict.fromkeys([*taken, *ablation.parts()]))


def _part_name(run: Run) -> str:
    plan = run.plan()
    is_of_base = plan.trial is not None and plan.trial.whole and plan.trial.number == UNTRAINED
    return f"{word('ablation.untrained') if is_of_base else run_name(plan)} · {kind_name(plan.kind)}"


def _draw_way_to_compare(ablation: Ablation, tuned: list[Run]) -> None:
    """Draw the button that compares all of its fine-tuned models on the test questions."""
    if not tuned:
        return
    fingerprint = tuned[0].plan().fingerprint
    data = next((kept for kept in stored() if kept.fingerprint == fingerprint), None)
    help_text = word("ablation.compare_help" if data else "train.use_no_data")
    pressed = st.button(
        word("ablation.compare"),
        key=f"compare_{ablation.id}",
        icon=":material/leaderboard:",
        disabled=data is None,
        help=help_text,
    )
    if pressed and data:
        _compare(data, tuned)


def _compare(data: StoredSet, tuned: list[Run]) -> None:
    use_set(data.key)
    models = {model_place(run) for run in tuned}
    specs = choices_for(data).specs.values()
    names = [spec.name for spec in specs if isinstance(spec, DenseSpec) and spec.model in models]
    open_page("compare", data=data.key, retrievers="|".join([BM25_NAME, *names]), part="test", lang=language())
