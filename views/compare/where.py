"""Where retrievers win and lose: on which questions, in which step, and what their candidates would allow."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from retrieval.analysis.questions import DEPTHS, FATES, Fate, fate_counts
from retrieval.comparison.compare import Result
from views.compare import charts
from views.compare import slices as compare_slices
from views.compare.controls import show_why
from views.compare.scores import ComparisonView
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import plain, word

_LOST = [fate.value for fate in FATES if fate is not Fate.FOUND]


def draw_lost(view: ComparisonView) -> None:
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


_TOLD = 4  # in sentences; the table has all


class Reach(NamedTuple):
    """How far a retriever gets with its candidates, the first `depth` of each source; shares of the questions."""

    retriever: str
    sources: tuple[str, ...]
    depth: int
    hit: float
    ceiling: float  # NaN where a source was not searched so deep


def draw_ceilings(view: ComparisonView) -> None:
    """Draw how high Hit@K could be by depth, and how high it is, of every retriever picked that wraps others."""
    st.subheader(word("where.ceilings", k=view.k))
    st.caption(word("where.ceilings_help", k=view.k))
    wrapping = [one for one in view.results if view.spec(one.name).parts and _hit(one, view.k) is not None]
    if not wrapping:
        st.info(word("where.no_wrapping"), icon=":material/info:")
        return
    reads = {one.name: view.spec(one.name).candidates(view.k) for one in wrapping}
    depths = tuple(sorted({*DEPTHS, *reads.values()}))
    ceilings = view.opened.ceilings(depths)
    known = [
        Reach(
            one.name,
            view.spec(one.name).sources,
            reads[one.name],
            _hit(one, view.k) or 0.0,
            float(ceilings[one.name][depths.index(reads[one.name])]),
        )
        for one in wrapping
        if one.name in ceilings
    ]
    _draw_sentences(known, view.k)
    curves = _curves(known, ceilings, depths, view.k)
    if curves["depth"].nunique() > 1:
        draw_chart(
            charts.ceilings,
            curves,
            pd.DataFrame(known).drop(columns="sources").dropna(),
            view.names,
            x=word("where.candidates"),
            y=word("where.questions_share"),
        )
        st.caption(word("where.how_to_read", k=view.k))
    _draw_ceiling_table(known, curves, view.k)


def _hit(result: Result, k: int) -> float | None:
    return result.scores.means().get(f"hit@{k}") if result.scores else None


def _curves(known: Sequence[Reach], ceilings: Mapping[str, np.ndarray], depths: Sequence[int], k: int) -> pd.DataFrame:
    """Ceilings of each retriever from K on: fewer candidates than K cannot fill the first K."""
    rows = [
        (one.retriever, depth, share)
        for one in known
        for depth, share in zip(depths, ceilings[one.retriever], strict=True)
        if depth >= min(k, one.depth) and not np.isnan(share)
    ]
    return pd.DataFrame(rows, columns=["retriever", "depth", "ceiling"])


def _draw_sentences(known: Sequence[Reach], k: int) -> None:
    lines = [
        word(
            "where.ceiling_told",
            name=plain(one.retriever),
            k=k,
            own=f"{one.hit:.1%}",
            depth=word("where.depth_each" if len(one.sources) > 1 else "where.depth_one", depth=one.depth),
            sources=plain(", ".join(one.sources)),
            ceiling=f"{one.ceiling:.1%}",
            order=f"{(one.ceiling - one.hit) * 100:.1f}",
            more=f"{(1 - one.ceiling) * 100:.1f}",
        )
        for one in known[:_TOLD]
        if not np.isnan(one.ceiling)
    ]
    st.markdown("\n".join(f"- {line}" for line in lines))


def _draw_ceiling_table(known: Sequence[Reach], curves: pd.DataFrame, k: int) -> None:
    share_at = {(name, depth): share for name, depth, share in curves.itertuples(index=False)}
    depths = sorted({int(depth) for depth in curves["depth"]})
    rows = [
        {
            "retriever": one.retriever,
            "sources": ", ".join(one.sources),
            "depth": one.depth,
            "hit": one.hit * 100,
            "ceiling": one.ceiling * 100,
            **{str(depth): share_at.get((one.retriever, depth), np.nan) * 100 for depth in depths},
        }
        for one in known
    ]
    share = st.column_config.NumberColumn
    columns = {
        "retriever": tables.retriever(),
        "sources": tables.text("where.sources"),
        "depth": tables.number("where.reads"),
        "hit": share(f"Hit@{k}", format="%.2f"),
        "ceiling": tables.number("where.ceiling", "%.2f"),
        **{str(depth): share(word("where.ceiling_at", depth=depth), format="%.2f") for depth in depths},
    }
    with st.expander(word("compare.as_table")):
        tables.draw(pd.DataFrame(rows), columns, placeholder="–")


def draw(view: ComparisonView) -> None:
    """Draw the slices of the questions, the steps that lose them, and the ceilings."""
    if not any(one.rankings for one in view.results):  # all failed: no K would help
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    compare_slices.draw(view)
    draw_lost(view)
    draw_ceilings(view)
