"""Figures of an evaluation as tables: for the page, for its charts, and to take away."""

import math

import pandas as pd

from reading.depth import Fate
from reading.scores import EXACT
from views.reading.evaluation_view import ReadingView
from views.ui.words import word

FATES = {fate: fate.name.lower() for fate in Fate}


def curve_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever and K: the measure with its interval, and the ceiling; shares."""
    rows = []
    for name in view.answered:
        for k in view.ks:
            told = view.shares(name, k)
            low, high = told["interval"][view.measure]
            rows.append((name, k, told[view.measure], low, high, told["ceiling"]))
    return pd.DataFrame(rows, columns=["retriever", "k", "value", "low", "high", "ceiling"])


def figure_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever, the best first: the measure in percent for every K, and at the chosen one its interval."""
    rows = []
    for name in sorted(view.answered, key=lambda one: -view.shares(one)[view.measure]):
        told = view.shares(name)
        low, high = told["interval"][view.measure]
        row = {"retriever": name, **{str(k): 100 * view.shares(name, k)[view.measure] for k in view.ks}}
        weight = view.told["weights"][view.reader.name][name]["weight"]
        rows.append(row | {"low": 100 * low, "high": 100 * high, "ceiling": 100 * told["ceiling"], "weight": weight})
    return pd.DataFrame(rows)


def long_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever and K with every figure, shares, and what they are of."""
    of = {"data": view.told["data"], "part": view.told["split"], "questions": view.told["questions"]}
    of |= {"rules": view.rules.value, "reader": view.reader.name}
    rows = []
    for name in view.answered:
        for k in view.ks:
            told = view.shares(name, k)
            figures = {measure: told[measure] for measure in (EXACT, view.rules.overlap_name)}
            ends = {
                f"{measure}_{end}": value
                for measure, pair in told["interval"].items()
                for end, value in zip(("low", "high"), pair, strict=True)
            }
            rows.append(
                {"retriever": name, "k": k, **figures, **ends, "ceiling": told["ceiling"], **told["fates"], **of}
            )
    return pd.DataFrame(rows)


def fate_table(view: ReadingView) -> pd.DataFrame:
    """One row a retriever and fate: how many questions, and their share."""
    rows = []
    for name, answered in view.answered.items():
        found = answered.depth.fate[:, view.place]
        for fate, key in FATES.items():
            count = int((found == fate).sum())
            label = word(f"answers.fate_{key}")
            rows.append({"retriever": name, "fate": key, "label": label, "count": count, "share": count / len(found)})
    return pd.DataFrame(rows)


def difference_table(view: ReadingView) -> pd.DataFrame:
    """One row two retrievers told apart by the measure, the higher one first, in points; the largest first."""
    rows = []
    for told in view.told["differences"][view.reader.name]:
        if told["measure"] != view.measure or not {told["a"], told["b"]} <= view.answered.keys():
            continue
        low, high = told["interval"]
        a, b, difference = told["a"], told["b"], told["difference"]
        if difference < 0:
            a, b, difference, low, high = b, a, -difference, -high, -low
        verdict = word("compare.higher" if told["sure"] else "compare.unsure")
        points = {"difference": 100 * difference, "low": 100 * low, "high": 100 * high}
        rows.append({"a": a, "b": b, "verdict": verdict, **points, "p_family": told["p"], "sure": told["sure"]})
    columns = ["a", "b", "verdict", "difference", "low", "high", "p_family", "sure"]
    return pd.DataFrame(rows, columns=columns).sort_values("difference", ascending=False, kind="stable")


def probability(score: float) -> str:
    """P of a span, whose score is its logarithm."""
    share = math.exp(min(0.0, score))
    return f"{share:.2f}" if share >= 0.005 else "< 0.01"
