"""The Wrong pairs view: where a model sees two sentences most otherwise than people do."""

import numpy as np
import pandas as pd
import streamlit as st

from embeddings.judgement import wrong_pairs
from views.embeddings.evaluation_view import EvaluationView, pick_model
from views.ui import tables
from views.ui.state import choose
from views.ui.words import word

_MOST = 100
_SIDES = ("both", "too_alike", "too_different")


def draw(view: EvaluationView) -> None:
    """Draw the pairs that one model misplaces most, with the cosines of all."""
    if not view.evaluation.differences.get("spearman") and "spearman" not in _measures(view):
        st.info(word("embeddings.no_gold"), icon=":material/info:")
        return
    cosines = {view.names[one]: column for one, column in view.evaluation.cosines.items()}
    names = [*view.measured]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        of = pick_model(view, "wrong_of", "embeddings.wrong_of")
        side = choose(
            st.segmented_control,
            "wrong_side",
            word("embeddings.wrong_side"),
            _SIDES,
            "both",
            format_func=lambda one: word(f"embeddings.wrong_{one}"),
        )
    table = _table(view, cosines, view.names[of], side)
    columns = {
        "gold": tables.number("embeddings.gold", "%.1f"),
        **{name: st.column_config.NumberColumn(name, format="%.3f", help=word("embeddings.cosine")) for name in names},
        "misplaced": tables.number("embeddings.misplaced", "%+.0f"),
        "first": tables.text("embeddings.first_sentence", "", width="large"),
        "second": tables.text("embeddings.second_sentence", "", width="large"),
    }
    tables.draw(table, columns, height=560)
    st.caption(word("embeddings.wrong_help"))
    tables.draw_csv("embeddings.wrong_csv", lambda: table, "wrong_pairs.csv", "wrong_csv")


def _measures(view: EvaluationView) -> set[str]:
    return {measure for one in view.measured.values() for measure in one.figures}


def _table(view: EvaluationView, cosines: dict[str, np.ndarray], of: str, side: str) -> pd.DataFrame:
    evaluation = view.evaluation
    found = wrong_pairs(cosines, evaluation.values, of, len(evaluation.rows))
    wanted = {"too_alike": found.misplaced > 0, "too_different": found.misplaced < 0}.get(side, found.misplaced != 0)
    places = found.rows[wanted][:_MOST]
    first, second = (column.at(evaluation.rows[places]) for column in view.pairs.texts[:2])
    low, high = view.data.scale
    return pd.DataFrame(
        {
            "first": first,
            "second": second,
            "gold": low + evaluation.values[places] * (high - low),
            **{name: column[wanted][:_MOST] for name, column in found.cosines.items()},
            "misplaced": 100 * found.misplaced[wanted][:_MOST],
        }
    )
