"""What the Compare page shows of a finished comparison: the sentence, the table, the pictures."""

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.compare import Comparison, Result
from retrieval.metrics import DEFAULT_KS
from retrieval.significance import mean_interval
from views import charts
from views.state import remember, remembered
from views.words import plain, word

_MEASURES = ("recall", "hit", "mrr", "ndcg")


def answer(found: Comparison, shown: Sequence[Result]) -> None:
    """Say in one sentence who finds more, and how sure that is."""
    scored = [result for result in shown if result.scores]
    measure = "recall@10"
    if len(scored) < 2:
        return
    by_mean = sorted(scored, key=lambda r: r.scores.means()[measure] if r.scores else 0.0, reverse=True)
    first = scored[0]
    best = by_mean[0] if by_mean[0] is not first else by_mean[1]
    difference = best.scores.per_question[measure] - first.scores.per_question[measure]  # type: ignore[union-attr]
    low, high = mean_interval(difference)
    sure = "unsure" if low <= 0 <= high else ("more" if difference.mean() > 0 else "less")
    st.markdown(
        word(
            f"compare.answer_{sure}",
            best=plain(best.name),
            first=plain(first.name),
            points=f"{abs(difference.mean()) * 100:.1f}",
            low=f"{low * 100:+.1f}",
            high=f"{high * 100:+.1f}",
            questions=f"{len(found.asked.questions):,}",
        )
    )


def results(shown: Sequence[Result], names: Sequence[str]) -> None:
    """Draw the choice of K and measure, the table, the pictures, and what to do next."""
    ks = [str(k) for k in DEFAULT_KS]
    left, right = st.columns([2, 2], vertical_alignment="bottom")
    k = left.segmented_control("K", ks, default=remembered("k", "10", ks), help=word("compare.k_help")) or "10"
    remember("k", k)
    allowed = list(_MEASURES)
    measure = right.segmented_control(
        word("compare.measure"),
        allowed,
        default=remembered("measure", "recall", allowed),
        format_func=lambda value: word(f"measure.{value}"),
        help=word("compare.measure_help"),
    )
    measure = measure or "recall"
    remember("measure", measure)
    table(shown, measure if measure in ("recall", "hit") else "recall")
    scored = [result for result in shown if result.scores]
    if scored:
        _pictures(scored, names, measure, k)
        _next_step()


def means(found: Sequence[Result]) -> pd.DataFrame:
    """One row a retriever: its name, every measure (0 to 1) and its times; nothing but the name where it failed."""
    rows = []
    for result in found:
        means = result.scores.means() if result.scores else {}
        times = {"build_seconds": result.build_seconds, "query_seconds": result.query_seconds} if means else {}
        rows.append({"retriever": result.name, **means, **times})
    return pd.DataFrame(rows)


def table(shown: Sequence[Result], measure: str) -> None:
    """Draw `measure` at every K, MRR, nDCG and times, in percent; the best of a column is bold."""
    figures = means(shown)
    columns = [f"{measure}@{k}" for k in DEFAULT_KS] + ["mrr@10", "ndcg@10"]
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


def _pictures(scored: Sequence[Result], names: Sequence[str], measure: str, k: str) -> None:
    over_k = measure if measure in ("recall", "hit") else "recall"
    height, detail = word(f"measure.{over_k}"), word("compare.retriever")
    table_of_means = means(scored).rename(columns={"retriever": detail})
    at_k = {f"{over_k}@{at}": at for at in DEFAULT_KS}
    points = table_of_means.rename(columns=at_k).melt(detail, list(at_k.values()), "K", height)
    chosen = f"{measure}@{k}" if measure in ("recall", "hit") else f"{measure}@10"
    heights = table_of_means[[detail, chosen]].rename(columns={chosen: _label(chosen)})
    left, right = st.columns(2)
    with left:
        st.markdown(f"**{word('compare.curve', measure=height)}**")
        st.altair_chart(charts.curves(points, names, x="K", y=height, detail=detail))
    with right:
        st.markdown(f"**{word('compare.bars', measure=_label(chosen))}**")
        st.altair_chart(charts.bars(heights, names, value=_label(chosen), detail=detail))
    with st.expander(word("compare.as_table")):
        wide = points.pivot_table(index=detail, columns="K", values=height, sort=False)
        st.dataframe(wide.style.format("{:.2%}"), width="stretch")


def _next_step() -> None:
    st.info(word("compare.next"), icon=":material/lightbulb:")
