"""What the scores of the answer passage and of a wrong one are made of: a chart, a table and both texts."""

from collections.abc import Sequence
from functools import singledispatch

import pandas as pd
import streamlit as st

from retrieval.comparison.first_stage import DenseSpec, SparseSpec, TermSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.explain.duel import Duel, token_table
from retrieval.explain.multistage import PartContribution
from views.compare.controls import choose_in_address
from views.compare.why import sentences as compare_question_sentences
from views.compare.why import terms as compare_question_weighed
from views.compare.why import terms as compare_terms
from views.compare.why import windows as compare_windows
from views.compare.why.questions import QuestionCase
from views.compare.why.terms import draw_parts_of_words, draw_sums, draw_texts
from views.resources.explanations import explained_static
from views.ui import tables
from views.ui.charts import draw_chart, part_bars
from views.ui.words import known, plain, word

_WRONG_OFFERED = 20


def draw(case: QuestionCase) -> None:
    """Draw the parts of one retriever's scores, and the choice of it and of the wrong passage."""
    names = [name for name in case.question_list.names if case.findings[name].rows]
    if not names:
        return
    st.caption(word("why.scores_help"))
    left, right = st.columns(2)
    with left:
        name = _pick_retriever(case, names)
    with right:
        of = _pick_wrong(case, name)
    if of.wrong is None:
        st.info(word("why.nothing_wrong"), icon=":material/info:")
    else:
        _draw_score(case.spec(name), case, of)


@singledispatch
def _draw_score(spec: Spec, case: QuestionCase, of: Duel) -> None:
    """Draw what the two scores of a retriever of this kind are made of; say so where that is not known."""
    del case, of
    key = f"why.whole_{spec.kind}"
    st.info(word(key if known(key) else "why.whole"), icon=":material/info:")


def _pick_retriever(case: QuestionCase, names: Sequence[str]) -> str:
    """The one in the address, else the first that puts a wrong passage above, else the first."""
    lost = next((name for name in names if case.duel(name).lost), names[0])
    wanted = st.query_params.get("explained", "")
    chosen = wanted if wanted in names else lost
    choose_in_address("explained", names, chosen, word("compare.retriever"), names, also=("against",))
    return chosen


def _pick_wrong(case: QuestionCase, name: str) -> Duel:
    found = case.findings[name]
    wrong = [row for row in found.rows if row not in case.relevant][:_WRONG_OFFERED]
    ids = [case.passage(row).id for row in wrong]
    labels = [
        word("why.wrong_at", rank=found.rank_of(row), name=" · ".join(filter(None, (case.passage(row).title, id_))))
        for row, id_ in zip(wrong, ids, strict=True)
    ]
    wanted = st.query_params.get("against", "")
    chosen = wanted if wanted in ids else (ids or [""])[0]
    choose_in_address("against", ids, chosen, word("why.against"), labels, disabled=not ids)
    return case.duel(name, wrong[ids.index(chosen)] if ids else None)


@_draw_score.register
def _draw_terms(spec: TermSpec, case: QuestionCase, of: Duel) -> None:
    compare_terms.draw_terms(case, spec, of)


@_draw_score.register
def _draw_tokens(spec: DenseSpec, case: QuestionCase, of: Duel) -> None:
    key, question = case.view.data.key, case.question.text
    right, wrong = (explained_static(key, spec.model, spec.title, question, row) for row in (of.right, of.wrong or 0))
    if right is None or wrong is None:
        compare_question_sentences.draw(case, spec, of)
        return
    draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption(word("why.tokens_help"))
    draw_parts_of_words(token_table(right, wrong))
    draw_texts(right, wrong)


@_draw_score.register
def _draw_weighed(spec: SparseSpec, case: QuestionCase, of: Duel) -> None:
    compare_question_weighed.draw_sparse(case, spec, of)


@_draw_score.register
def _draw_fusion(spec: HybridSpec, case: QuestionCase, of: Duel) -> None:
    found = [case.view.opened.fusion(spec, case.row, row) for row in (of.right, of.wrong or 0)]
    if found[0] is None or found[1] is None:
        st.info(word("why.not_deep_enough", depth=spec.depth), icon=":material/info:")
        return
    draw_sums(of, found[0].score, found[1].score, spec.digits)
    st.caption(word("why.fusion_help", fusion=word(f"why.fusion_{spec.fusion.name.lower()}")))
    _draw_added(case, [dict(one.parts) for one in found if one])


@_draw_score.register
def _draw_reranking(spec: RerankSpec, case: QuestionCase, of: Duel) -> None:
    found = [case.view.opened.reranking(spec, case.row, row) for row in (of.right, of.wrong or 0)]
    if found[0] is None or found[1] is None:
        st.info(word("why.not_known"), icon=":material/info:")
        return
    for side, one in zip(("right", "wrong"), found, strict=True):
        if one is None or one.first is None:
            st.markdown(word(f"why.{side}_not_read", first=plain(spec.first), depth=spec.depth))
        else:
            ranks = {"before": one.rank_before, "after": one.rank_after}
            st.markdown(word(f"why.{side}_moved", score=f"{one.score:.3f}", **ranks))
    read = [{spec.first: one.first, spec.name: one.reranker} if one and one.first else {} for one in found]
    st.caption(word("why.rerank_help"))
    _draw_added(case, [{name: part for name, part in one.items() if part} for one in read])
    if spec.windows and any(read):
        compare_windows.draw_reranked(case, spec, of, [bool(one) for one in read])


def _draw_added(case: QuestionCase, found: Sequence[dict[str, PartContribution]]) -> None:
    """Draw what the parts (by name) add to the scores of the right and of the wrong passage."""
    rows = [
        (word(f"why.{side}"), name, part.rank, part.score, part.normalised, part.weight, part.value)
        for side, parts in zip(("right", "wrong"), found, strict=True)
        for name, part in parts.items()
    ]
    if not rows:
        return
    table = pd.DataFrame(rows, columns=["side", "part", "rank", "score", "normalised", "weight", "value"])
    table["rank"] = table["rank"].astype("Int64")
    draw_chart(part_bars, table, case.view.names, x=word("why.adds"), title=word("compare.retriever"))
    columns = {
        "side": tables.text("why.passage", pinned=True),
        "part": tables.text("compare.retriever"),
        "rank": tables.number("search.rank"),
        "score": tables.number("why.score", "%.3f"),
        "normalised": tables.number("why.normalised", "%.4f"),
        "weight": tables.number("why.weight", "%.2f"),
        "value": tables.number("why.adds", "%.4f"),
    }
    st.dataframe(table, hide_index=True, placeholder="–", column_config=columns)
