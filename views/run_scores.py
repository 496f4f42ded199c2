"""What a training gained: the base, the trained model and BM25 on the same validation questions."""

from typing import Any

import pandas as pd
import streamlit as st

from training.options import CrossEncoderOptions, Kind
from training.runs import Plan
from views.words import word

_COLUMNS = {"recall@1": "R@1", "recall@5": "R@5", "recall@10": "R@10", "mrr@10": "MRR@10", "ndcg@10": "nDCG@10"}
_MAIN = {Kind.BI_ENCODER: "recall@10", Kind.CROSS_ENCODER: "ndcg@10"}
_ROWS = ("before", "after", "interpolated", "bm25")


def draw_scores(plan: Plan, scores: dict[str, Any]) -> None:
    """Draw one sentence and the table; a column's best is bold."""
    rows = {name: scores[name] for name in _ROWS if isinstance(scores.get(name), dict)}
    if not {"before", "after"} <= set(rows):
        st.caption(word("train.no_scores"))
        return
    _sentence(plan, rows)
    table = pd.DataFrame(
        [
            [_row_name(name, scores), *(row.get(column, float("nan")) * 100 for column in _COLUMNS)]
            for name, row in rows.items()
        ],
        columns=["row", *_COLUMNS],
    )
    best = table[[*_COLUMNS]].max()

    def weigh(column: pd.Series) -> list[str]:
        top = best.get(str(column.name))
        return ["font-weight: 700" if value == top else "" for value in column]

    st.dataframe(
        table.style.apply(weigh, axis=0, subset=list(_COLUMNS)).format("{:.2f}", subset=list(_COLUMNS)),
        hide_index=True,
        column_config={
            "row": st.column_config.TextColumn(word("train.row"), width="medium"),
            **{
                column: st.column_config.NumberColumn(label, help=word(f"help.{column.split('@')[0]}"), width="small")
                for column, label in _COLUMNS.items()
            },
        },
    )
    st.caption(_measured_on(plan, scores))


def _sentence(plan: Plan, rows: dict[str, dict[str, float]]) -> None:
    measure = _MAIN[plan.kind]
    before, after = round(rows["before"][measure] * 100, 1), round(rows["after"][measure] * 100, 1)
    outcome = "same" if before == after else "up" if after > before else "down"
    values = {"measure": {"recall@10": "Recall@10", "ndcg@10": "nDCG@10"}[measure], "before": before, "after": after}
    text = word(f"train.went_{outcome}", **values, points=f"{abs(after - before):.1f}")
    if rows["before"] == rows["after"]:
        text += " " + word("train.nothing_learned")
    st.markdown(text)


def _row_name(name: str, scores: dict[str, Any]) -> str:
    if name == "interpolated":
        return word("train.row_interpolated", weight=f"{scores.get('weight', 0):g}")
    return word(f"train.row_{name}")


def _measured_on(plan: Plan, scores: dict[str, Any]) -> str:
    text = word("train.measured_on", questions=f"{scores.get('questions', 0):,}")
    if isinstance(plan.options, CrossEncoderOptions):
        text += " " + word("train.measured_reranked", depth=plan.options.depth)
    return text
