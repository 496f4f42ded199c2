"""The Retrieval view: whether models that follow people better find more, too, on the question set in use."""

import pandas as pd
import streamlit as st

from data.store import StoredSet
from embeddings.bootstrap import Figure
from retrieval.comparison.store import StoredComparison, kept_comparisons, origin_of
from views.embeddings import charts
from views.embeddings.evaluation_view import EvaluationView, kept_figures
from views.names import set_name
from views.resources.sets import chosen_set
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import plain, word

_MEASURE, _LONG = "ndcg@10", "nDCG@10"
_CORRELATION = "spearman"


def draw(view: EvaluationView) -> None:
    """Draw every model that was measured on this part and searched with on the question set in use."""
    data = chosen_set()
    st.caption(word("embeddings.retrieval_help", data=plain(set_name(data.name))))
    people = kept_figures(view.data, view.part, _CORRELATION)
    part, found = _searched(data, set(people))
    table = _table(view, people, found)
    if table.empty:
        st.info(word("embeddings.retrieval_none"), icon=":material/info:")
        return
    draw_chart(charts.against, table, _names(view, table), y=_LONG)
    columns = {
        "model": tables.text("embeddings.model", "", pinned=True, width="medium"),
        "spearman": tables.number("embeddings.spearman", "%.2f"),
        "value": st.column_config.NumberColumn(_LONG, format="%.2f", help=word("help.ndcg")),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    st.caption(word("embeddings.retrieval_of", part=word(f"part.{part}")))


def _table(view: EvaluationView, people: dict[str, Figure], found: dict[str, float]) -> pd.DataFrame:
    rows = [
        {"model": view.names.get(one, one), "spearman": 100 * figure.value, "value": 100 * found[one]}
        for one, figure in people.items()
        if one in found
    ]
    table = pd.DataFrame(rows, columns=["model", "spearman", "value"])
    return table.sort_values("spearman", ascending=False, ignore_index=True)


def _names(view: EvaluationView, table: pd.DataFrame) -> list[str]:
    return [*dict.fromkeys([*view.every, *table["model"]])]


def _searched(data: StoredSet, models: set[str]) -> tuple[str, dict[str, float]]:
    """The part that most of these models were asked, and nDCG@10 there by model, of its newest comparison."""
    by_part: dict[str, dict[str, float]] = {}
    for kept in kept_comparisons():
        if kept.data_fingerprint == data.fingerprint and kept.lab is None:
            found = by_part.setdefault(kept.part.value, {})
            for model, value in _dense_figures(kept).items():
                if model in models:
                    found.setdefault(model, value)  # the newest stands first
    return max(by_part.items(), key=lambda one: len(one[1]), default=("all", {}))


def _dense_figures(kept: StoredComparison) -> dict[str, float]:
    """nDCG@10 of what searched with one bi-encoder alone, by its reference."""
    specs = origin_of(kept.folder).get("experiment", {}).get("retriever", [])
    return {
        spec["model"]: kept.figures[spec["name"]][_MEASURE]
        for spec in specs
        if spec.get("kind") == "dense" and "model" in spec and _MEASURE in kept.figures.get(spec["name"], {})
    }
