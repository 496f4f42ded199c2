"""Tables of a comparison's figures: every measure at every K with the seconds, and the differences of retrievers."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from retrieval.comparison.compare import Result
from retrieval.evaluation.significance import PairTest
from views import tables


def means(found: Sequence[Result]) -> pd.DataFrame:
    """One row a retriever: its name, every measure (0 to 1) and its times; nothing but the name where it failed."""
    rows = []
    for result in found:
        means = result.scores.means() if result.scores else {}
        times = {"build_seconds": result.build_seconds, "query_seconds": result.query_seconds} if means else {}
        rows.append({"retriever": result.name, **means, **times})
    return pd.DataFrame(rows)


def in_points(tests: Sequence[PairTest]) -> pd.DataFrame:
    """One row a test with its fields, the difference and its interval in percentage points."""
    table = pd.DataFrame(tests)
    table[["difference", "low", "high"]] *= 100
    return table


def draw_table(shown: Sequence[Result], measure: str, ks: Sequence[int]) -> None:
    """Draw `measure` at every K of `ks`, MRR, nDCG and times, in percent; the best of a column is bold."""
    figures = means(shown)
    columns = [f"{measure}@{k}" for k in ks] + ["mrr@10", "ndcg@10"]
    figures = figures.reindex(columns=["retriever", *columns, "build_seconds", "query_seconds"])
    questions = next((len(result.rankings.indices) for result in shown if result.rankings), 1)
    figures["per_question"] = figures.pop("query_seconds") / questions * 1000
    figures[columns] *= 100
    styled = figures.style.highlight_max(subset=pd.IndexSlice[:, columns], props=tables.BOLD)
    st.dataframe(
        styled.format("{:.2f}", subset=[*columns, "build_seconds", "per_question"], na_rep="–"),
        hide_index=True,
        column_config={
            "retriever": tables.retriever(width=170),
            **{column: tables.measure(column) for column in columns},
            "build_seconds": tables.number("compare.build", explained_by="help.build"),
            "per_question": tables.number("compare.per_question", explained_by="help.per_question"),
        },
    )
