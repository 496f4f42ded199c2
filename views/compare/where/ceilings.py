"""Ceilings: what the candidates of a hybrid or a reranker hold, beside what it makes of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from retrieval.analysis.questions import DEPTHS
from retrieval.comparison.compare import Result
from views.compare import charts
from views.compare.scores import ComparisonView
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import plain, word

_TOLD = 4  # in sentences; the table has all


class Reach(NamedTuple):
    """How far a retriever gets with its candidates, the first `depth` of each source; shares of the questions."""

    retriever: str
    sources: tuple[str, ...]
    depth: int
    hit: float
    ceiling: float  # NaN where a source was not searched so deep


def draw(view: ComparisonView) -> None:
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
    _draw_table(known, curves, view.k)


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


def _draw_table(known: Sequence[Reach], curves: pd.DataFrame, k: int) -> None:
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
        st.dataframe(pd.DataFrame(rows), hide_index=True, placeholder="–", column_config=columns)
