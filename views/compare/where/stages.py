"""Lost questions: in which step each retriever loses them, every number a way to the questions themselves."""

import pandas as pd
import streamlit as st

from retrieval.analysis.questions import FATES, Fate, fate_counts
from views.compare import charts
from views.compare.controls import show_why
from views.compare.scores import ComparisonView
from views.ui.charts import draw_chart
from views.ui.words import plain, word

_LOST = [fate.value for fate in FATES if fate is not Fate.FOUND]


def draw(view: ComparisonView) -> None:
    """Draw how many questions each retriever picked loses in which step; a click shows them."""
    st.subheader(word("where.lost", k=view.k))
    st.caption(word("where.lost_help", k=view.k))
    counts = fate_counts(view.opened.fates(view.k))
    counts = counts.loc[[one.name for one in view.results if one.name in counts.index]]
    if not len(counts):
        st.info(word("where.no_fate", k=view.k), icon=":material/info:")
        return
    if counts[_LOST].to_numpy().any():
        _draw_chart(counts)
    else:
        st.success(word("where.none_lost", k=view.k), icon=":material/check_circle:")
    _draw_numbers(counts, len(view.comparison.question_set.questions))


def show_questions(of: str, fate: str) -> None:
    """Have the page show, one by one, the questions that had this fate with a retriever."""
    show_why({"of": of, "fate": fate})


def _draw_chart(counts: pd.DataFrame) -> None:
    occur = [fate for fate in _LOST if counts[fate].any()]
    long = counts[occur].rename_axis("retriever").reset_index().melt("retriever", var_name="fate", value_name="count")
    long["label"] = long["fate"].map(lambda fate: word(f"fate.{fate}"))
    labels = [word(f"fate.{fate}") for fate in occur]
    draw_chart(
        charts.lost_questions,
        long,
        order=list(counts.index),
        fates=dict(zip(labels, occur, strict=True)),
        x=word("where.lost_questions"),
    )


def _draw_numbers(counts: pd.DataFrame, questions: int) -> None:
    occur = [fate.value for fate in FATES if fate is Fate.FOUND or counts[fate.value].any()]
    widths = [2, *(1 for _ in occur)]
    with st.expander(word("where.numbers")):
        st.caption(word("where.click_number"))
        head, *heads = st.columns(widths, vertical_alignment="bottom")
        head.markdown(f"**{word('compare.retriever')}**")
        for place, fate in zip(heads, occur, strict=True):
            place.markdown(f"**{word(f'fate.{fate}')}**", help=word(f"fate_help.{fate}"))
        for name, row in counts.iterrows():
            first, *places = st.columns(widths, vertical_alignment="center")
            first.markdown(plain(str(name)))
            for place, fate in zip(places, occur, strict=True):
                _draw_number(place, str(name), fate, int(row[fate]), questions)


def _draw_number(place: st.delta_generator.DeltaGenerator, name: str, fate: str, count: int, questions: int) -> None:
    if not count:
        place.markdown("–")
        return
    place.button(
        f":primary[{count:,} · {count / questions:.1%}]",
        key=f"fate_{name}_{fate}",
        type="tertiary",
        on_click=show_questions,
        args=(name, fate),
        help=word("where.show_questions", fate=word(f"fate.{fate}")),
    )
