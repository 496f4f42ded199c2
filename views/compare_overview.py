"""The overview of a comparison: who finds more and how sure that is, in a sentence, tables and pictures."""

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.compare import Result
from retrieval.evidence import turned
from retrieval.significance import PairTest
from views import charts
from views.chart_resources import draw_chart
from views.resources import intervals, tests
from views.shown import Shown
from views.words import plain, signed, word


def draw_answer(shown: Shown) -> None:
    """Say in one sentence whether anything beats the first retriever, by how much, and how sure that is."""
    names = shown.scored_names
    if len(names) < 2:
        return
    with_first = [test for test in tests(shown.address, names, shown.figure) if test.a == names[0]]
    surely_above = [test for test in with_first if test.sure and test.difference < 0]
    best = min(surely_above or with_first, key=lambda test: test.difference)  # of the first less the other
    values = {
        "best": plain(best.b),
        "first": plain(best.a),
        "points": f"{abs(best.difference) * 100:.1f}",
        "low": signed(-best.high),
        "high": signed(-best.low),
        "figure": shown.figure_label,
        "questions": f"{len(shown.found.asked.questions):,}",
    }
    sure = ("more" if best.difference < 0 else "less") if best.sure else "unsure"
    sure = sure if best.wins or best.losses else "same"
    st.markdown(word(f"compare.answer_{sure}", **values))


def draw(shown: Shown) -> None:
    """Draw the tables and the pictures, and what to do next."""
    draw_table(shown.results, shown.over_k, shown.found.experiment.ks)
    if shown.scored:
        _draw_pictures(shown)
        _draw_pairs(shown)
    st.info(word("compare.next"), icon=":material/lightbulb:")


def means(found: Sequence[Result]) -> pd.DataFrame:
    """One row a retriever: its name, every measure (0 to 1) and its times; nothing but the name where it failed."""
    rows = []
    for result in found:
        means = result.scores.means() if result.scores else {}
        times = {"build_seconds": result.build_seconds, "query_seconds": result.query_seconds} if means else {}
        rows.append({"retriever": result.name, **means, **times})
    return pd.DataFrame(rows)


def draw_table(shown: Sequence[Result], measure: str, ks: Sequence[int]) -> None:
    """Draw `measure` at every K of `ks`, MRR, nDCG and times, in percent; the best of a column is bold."""
    figures = means(shown)
    columns = [f"{measure}@{k}" for k in ks] + ["mrr@10", "ndcg@10"]
    figures = figures.reindex(columns=["retriever", *columns, "build_seconds", "query_seconds"])
    questions = next((len(result.rankings.indices) for result in shown if result.rankings), 1)
    figures["per_question"] = figures.pop("query_seconds") / questions * 1000
    figures[columns] *= 100
    best = {column: figures[column].max() for column in columns}

    def weigh(column: pd.Series) -> list[str]:
        top = best.get(str(column.name))
        return ["font-weight: 700" if value == top else "" for value in column]

    numbers: list[Hashable] = [*columns, "build_seconds", "per_question"]
    st.dataframe(
        figures.style.apply(weigh, axis=0).format("{:.2f}", subset=numbers, na_rep="–"),
        hide_index=True,
        width="stretch",
        column_config=_column_words(columns),
    )


def _column_words(columns: Sequence[str]) -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "retriever": st.column_config.TextColumn(word("compare.retriever"), pinned=True, width=170),
        **{column: number(_label(column), help=word(f"help.{column.split('@')[0]}")) for column in columns},
        "build_seconds": number(word("compare.build"), help=word("help.build")),
        "per_question": number(word("compare.per_question"), help=word("help.per_question")),
    }


def _label(column: str) -> str:
    measure, cut = column.split("@")
    return {"recall": "R", "hit": "Hit", "mrr": "MRR", "ndcg": "nDCG"}[measure] + f"@{cut}"


def _draw_pictures(shown: Shown) -> None:
    over_k, detail = shown.over_k, word("compare.retriever")
    height = word(f"measure.{over_k}")
    ends = intervals(shown.address)
    curve = pd.DataFrame(
        [
            (result.name, k, result.scores.means()[f"{over_k}@{k}"], *ends[result.name][f"{over_k}@{k}"])
            for result in shown.results
            if result.scores
            for k in result.scores.ks
            if f"{over_k}@{k}" in result.scores.per_question
        ],
        columns=[detail, "K", height, "low", "high"],
    )
    bars = pd.DataFrame(
        [
            (result.name, result.scores.means()[shown.figure], *ends[result.name][shown.figure])
            for result in shown.scored
            if result.scores
        ],
        columns=[detail, shown.figure_label, "low", "high"],
    )
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{word('compare.curve', measure=height)}**")
        draw_chart(charts.curves, curve, shown.names, x="K", y=height, detail=detail)
    with right:
        st.markdown(f"**{word('compare.bars', measure=shown.figure_label)}**")
        draw_chart(charts.bars, bars, shown.names, value=shown.figure_label, detail=detail)
    with st.expander(word("compare.as_table")):
        st.caption(word("compare.interval_help"))
        curve["text"] = [_with_interval(*row) for row in curve[[height, "low", "high"]].itertuples(index=False)]
        st.dataframe(curve.pivot_table(index=detail, columns="K", values="text", aggfunc="first", sort=False))


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{value * 100:.2f} [{low * 100:.1f}, {high * 100:.1f}]"


def _draw_pairs(shown: Shown) -> None:
    found = [
        turned(test) if test.difference < 0 else test  # the better one first, as the words beside it say
        for test in tests(shown.address, shown.scored_names, shown.figure)
    ]
    if not found:
        return
    st.subheader(word("compare.pairs", figure=shown.figure_label))
    st.caption(word("compare.pairs_help"))
    table = pd.DataFrame(
        {
            "in_words": [_in_words(test, len(shown.found.asked.questions)) for test in found],
            "difference": [test.difference * 100 for test in found],
            "low": [test.low * 100 for test in found],
            "high": [test.high * 100 for test in found],
            "p": [test.p for test in found],
            "p_holm": [test.p_holm for test in found],
            "wins": [test.wins for test in found],
            "ties": [test.ties for test in found],
            "losses": [test.losses for test in found],
        }
    )
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        column_config={
            "in_words": text(word("compare.in_words"), width=330, pinned=True),
            "difference": number(word("compare.difference"), format="%+.2f", help=word("compare.difference_help")),
            "low": number(word("compare.low"), format="%+.2f", help=word("compare.interval_help")),
            "high": number(word("compare.high"), format="%+.2f", help=word("compare.interval_help")),
            "p": number("p", format="%.4f", help=word(f"compare.p_{_kind_of_test(shown)}")),
            "p_holm": number("p (Holm)", format="%.4f", help=word("compare.p_holm_help")),
            **{name: number(word(f"compare.{name}"), help=word(f"compare.{name}_help")) for name in _COUNTS},
        },
    )


_COUNTS = ("wins", "ties", "losses")


def _kind_of_test(shown: Shown) -> str:
    return "mcnemar" if shown.measure == "hit" else "randomization"


def _in_words(test: PairTest, questions: int) -> str:
    if not test.sure:
        return word("compare.pair_unsure", a=test.a, b=test.b, questions=f"{questions:,}")
    return word("compare.pair_sure", better=test.a, worse=test.b, points=f"{test.difference * 100:.1f}")
