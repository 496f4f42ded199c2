"""Figures of an evaluation as tables, drawn and taken away; how sure differences are; and the answer in a sentence."""

import math

import pandas as pd
import streamlit as st

from embeddings.bootstrap import Difference, Figure
from embeddings.results import Evaluation, ModelResult, Published, published_for
from views.embeddings.controls import has_seen
from views.embeddings.evaluation_view import ACCURACY, SHARES, EvaluationView
from views.ui import tables
from views.ui.words import plain, word

LINE = " · "  # where a chart may begin a new line of a name
MEASURES = (*SHARES, "alignment", "uniformity", "anisotropy")


def scaled(measure: str, figure: Figure) -> Figure:
    """The figure as it is told: correlations and shares a hundredfold, distances as they are."""
    return Figure(*(100 * part for part in figure)) if measure in SHARES else figure


def ends(measure: str, figure: Figure) -> str:
    """The interval of a figure that is `scaled`; an open end is a sign of infinity."""
    digits = ".1f" if measure in SHARES else ".3f"
    return f"{format(figure.low, digits)} – {format(figure.high, digits)}".replace("-inf", "−∞").replace("-", "−")


def figure_table(view: EvaluationView) -> pd.DataFrame:
    """One row a model, the best first and those that failed last: every figure, and its interval as text."""
    failed = {view.names[one.model]: one for one in view.evaluation.results if one.error}
    rows = []
    for name, one in {**view.measured, **failed}.items():
        row: dict[str, object] = {"model": name}
        for measure in MEASURES:
            if measure in one.figures:
                figure = scaled(measure, one.figures[measure])
                row |= {measure: figure.value, f"{measure}_interval": ends(measure, figure)}
        if one.error is None:
            row |= {"dimensions": one.dimensions, "seconds": one.seconds}
        rows.append(row)
    return pd.DataFrame(rows).fillna({f"{measure}_interval": "" for measure in MEASURES})


def published(view: EvaluationView) -> list[Published]:
    """What others published of the measure looked at, of this set and part, the highest first."""
    found = published_for(view.data.name, view.part.value)
    return sorted((one for one in found if one.measure == view.measure), key=lambda one: -one.value)


def dot_table(view: EvaluationView) -> pd.DataFrame:
    """One row a model, the highest first: "value" with "low" to "high"; others' figures, not "ours", have none."""
    rows: list[dict[str, object]] = []
    for name, one in view.measured.items():
        if view.measure in one.figures:
            figure = scaled(view.measure, one.figures[view.measure])
            rows.append({"model": name, **figure._asdict(), "ours": True, "source": ""})
    for other in published(view):
        value = 100 * other.value
        row = {"model": published_name(other), "value": value, "low": math.nan, "high": math.nan}
        rows.append({**row, "ours": False, "source": other.source})
    table = pd.DataFrame(rows, columns=["model", "value", "low", "high", "ours", "source"])
    return table.sort_values("value", ascending=False, kind="stable", ignore_index=True)


def published_name(one: Published) -> str:
    """What a chart calls a model of others: that it is not ours, and what it learned from, each in a line."""
    parts = [word("embeddings.not_ours", model=one.model)]
    if one.encoder == "cross-encoder":
        parts.append(word("embeddings.is_cross_encoder"))
    if one.learned_from:
        parts.append(word("embeddings.learned_from", data=one.learned_from))
    return LINE.join(parts)


def long_table(evaluation: Evaluation) -> pd.DataFrame:
    """One row a model and figure, as they are: correlations from -1 to 1, and what they are of."""
    of = {"data": evaluation.data, "part": evaluation.part.value, "rows": len(evaluation.rows)}
    return pd.DataFrame(
        {"model": name, "measure": measure, **figure._asdict(), **of}
        for name, one in evaluation.measured.items()
        for measure, figure in one.figures.items()
    )


def difference_table(view: EvaluationView, measure: str) -> pd.DataFrame:
    """One row two models told apart by the measure, the higher one first, the largest difference first."""
    scale, rows = 100 if measure in SHARES else 1, []
    for found in view.evaluation.differences.get(measure, []):
        one = found if found.difference >= 0 else turned(found)
        told = {"a": view.names[one.a], "b": view.names[one.b], "difference": scale * one.difference}
        verdict = word("compare.higher" if one.sure else "compare.unsure")
        ends = {"low": scale * one.low, "high": scale * one.high}
        rows.append({**told, **ends, "p": one.p, "p_family": one.p_family, "verdict": verdict})
    columns = ["a", "b", "verdict", "difference", "low", "high", "p_family", "p"]
    return pd.DataFrame(rows, columns=columns).sort_values("difference", ascending=False, kind="stable")


def turned(one: Difference) -> Difference:
    """The same test with its models exchanged."""
    return Difference(one.b, one.a, -one.difference, -one.high, -one.low, one.p, one.p_family)


def draw_differences(view: EvaluationView, measure: str, *, expanded: bool = False) -> None:
    """Draw the differences by a measure, foldable; nothing where fewer than two models have a figure."""
    table = difference_table(view, measure)
    if table.empty:
        return
    form, unit = ("%+.2f", "difference") if measure in SHARES else ("%+.4f", "difference_plain")
    with st.expander(word("embeddings.differences", measure=word(f"embeddings.{measure}")), expanded=expanded):
        columns = {
            "a": tables.text("embeddings.higher", "", width="medium"),
            "b": tables.text("embeddings.lower", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number(f"embeddings.{unit}", form),
            **tables.interval(form),
            "p_family": tables.number("embeddings.p_family", "%.4f"),
        }
        tables.draw(table, columns)
        st.caption(word("embeddings.differences_help"))


def draw_answer(view: EvaluationView) -> None:
    """Say which model is best by the measure looked at; and what else bears on that."""
    known = {name: one for name, one in view.measured.items() if view.measure in one.figures}
    if known:
        st.markdown(_sentence(view, known))
    elif view.measured:
        st.markdown(word("embeddings.answer_none" if not view.measure else "embeddings.answer_no_probe"))
    seen = [view.names[one] for one, run in view.runs.items() if one in view.evaluation.measured and _seen(view, one)]
    if seen:
        st.warning(word("embeddings.has_seen", models=", ".join(map(plain, seen))), icon=":material/warning:")


def _seen(view: EvaluationView, reference: str) -> bool:
    return has_seen(view.runs[reference], view.data, view.part)


def _sentence(view: EvaluationView, known: dict[str, ModelResult]) -> str:
    (best, first), *others = known.items()
    figure = first.figures[view.measure]
    told = {
        "best": plain(best),
        "value": f"{figure.value * 100:.1f}",
        "measure": word(f"embeddings.{view.measure}"),
        "pairs": f"{len(first.probe.correct) if first.probe else len(view.evaluation.rows):,}",
    }
    kind = "accuracy" if view.measure == ACCURACY else "people"
    if not others:
        ends = {"low": f"{figure.low * 100:.1f}", "high": f"{figure.high * 100:.1f}"}
        return word(f"embeddings.answer_{kind}_one", **told, **ends)
    second, other = others[0]
    test = _between(view, first.model, other.model)
    told |= {"second": plain(second), "other": f"{other.figures[view.measure].value * 100:.1f}"}
    if test is None:
        return word(f"embeddings.answer_{kind}_one", **told, low="–", high="–")
    told |= {"points": _signed(test.difference), "low": _signed(test.low), "high": _signed(test.high)}
    return word(f"embeddings.answer_{kind}_{'sure' if test.sure else 'unsure'}", **told)


def _between(view: EvaluationView, first: str, second: str) -> Difference | None:
    """The first less the second."""
    for one in view.differences:
        if (one.a, one.b) == (first, second):
            return one
        if (one.b, one.a) == (first, second):
            return turned(one)
    return None


def _signed(share: float) -> str:
    return f"{share * 100:+.1f}".replace("inf", "∞")  # an open end, where too little is known
