"""The table of a comparison's scores: every measure at every K, and the seconds."""

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.comparison.compare import Result
from views.words import word


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
