"""Figures of an evaluation as tables: for the page, for its charts, and to take away."""

import math

import pandas as pd

from embeddings.bootstrap import Difference, Figure
from embeddings.results import Evaluation, Published, published_for
from views.embeddings.evaluation_view import SHARES, EvaluationView
from views.ui.words import word

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
