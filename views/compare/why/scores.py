"""What the scores of the answer passage and of a wrong one are made of: a chart, a table and both texts."""

from collections.abc import Sequence
from functools import singledispatch

import pandas as pd
import streamlit as st

from retrieval.comparison.first_stage import DenseSpec, LateSpec, SparseSpec, TermSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.explain.encoders import SentenceExplanation, WindowExplanation
from retrieval.explain.standing import Duel, PartContribution, token_table
from text.analysis import weighted_pieces
from views.compare.controls import choose_in_address
from views.compare.why.questions import QuestionCase
from views.compare.why.terms import (
    draw_late,
    draw_parts_of_words,
    draw_sparse,
    draw_sums,
    draw_terms,
    draw_texts,
)
from views.resources.retrieval import explained_cosine, explained_reranking, explained_sentences, explained_static
from views.ui import tables
from views.ui.charts import draw_chart, part_bars
from views.ui.job import once_asked
from views.ui.passages import weighed_html
from views.ui.words import known, plain, word

_WRONG_OFFERED = 20


def draw(case: QuestionCase) -> None:
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
    choose_in_address("explained", {name: name for name in names}, chosen, word("compare.retriever"), also=("against",))
    return chosen


def _pick_wrong(case: QuestionCase, name: str) -> Duel:
    found = case.findings[name]
    wrong = [row for row in found.rows if row not in case.relevant][:_WRONG_OFFERED]
    ids = [case.passage(row).id for row in wrong]
    labels = [word("why.wrong_at", rank=found.rank_of(row), name=case.passage_name(row)) for row in wrong]
    wanted = st.query_params.get("against", "")
    chosen = wanted if wanted in ids else (ids or [""])[0]
    choose_in_address("against", dict(zip(ids, labels, strict=True)), chosen, word("why.against"), disabled=not ids)
    return case.duel(name, wrong[ids.index(chosen)] if ids else None)


_draw_score.register(TermSpec, draw_terms)
_draw_score.register(SparseSpec, draw_sparse)
_draw_score.register(LateSpec, draw_late)


@_draw_score.register
def _draw_tokens(spec: DenseSpec, case: QuestionCase, of: Duel) -> None:
    key, question = case.view.data.key, case.question.text
    right, wrong = (explained_static(key, spec.model, spec.title, question, row) for row in (of.right, of.wrong or 0))
    if right is None or wrong is None:
        _draw_sentences(case, spec, of)
        return
    draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption(word("why.tokens_help"))
    draw_parts_of_words(token_table(right, wrong))
    draw_texts(right, wrong)


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
        _draw_reranked(case, spec, of, [bool(one) for one in read])


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
    tables.draw(table, columns, placeholder="–")


def _draw_reranked(case: QuestionCase, spec: RerankSpec, of: Duel, read: Sequence[bool]) -> None:
    st.caption(word("why.windows_help"))
    key, json, question = case.view.data.key, spec.model_dump_json(), case.question.text

    def tell() -> list[WindowExplanation | None]:
        rows = zip((of.right, of.wrong or 0), read, strict=True)
        return [explained_reranking(key, json, question, row) if is_read else None for row, is_read in rows]

    found = once_asked(spec.name, word("why.windows_ask"), tell)
    if found is None:
        return
    for place, one, side, is_read in zip(st.columns(2), found, ("right", "wrong"), read, strict=True):
        with place:
            st.markdown(f"**{word(f'why.{side}')}**")
            if one:
                _draw_window(one, gold=side == "right")
            elif is_read:
                st.caption(word("why.windows_whole"))


def _draw_window(one: WindowExplanation, *, gold: bool) -> None:
    st.caption(word("why.windows_best", place=one.best + 1, count=len(one.windows)))
    best = one.windows[one.best].window
    spans = [((best.start, best.end), 1.0), ((0, best.head), 1.0)]
    pieces = weighted_pieces(one.text, spans, 0, len(one.text))
    st.html(weighed_html([], pieces, gold=gold))
    texts = [one.text[scored.window.start : scored.window.end] for scored in one.windows]
    table = pd.DataFrame({"window": texts, "score": [scored.score for scored in one.windows]})
    columns = {"window": tables.text("why.window", width="large"), "score": tables.number("why.score", "%.3f")}
    tables.draw(table, columns)


def _draw_sentences(case: QuestionCase, spec: DenseSpec, of: Duel) -> None:
    """Draw the button that loads the model and, once it was pressed, both passages."""
    st.caption(word("why.sentences_help"))
    key, question = case.view.data.key, case.question.text

    def tell() -> list[WindowExplanation | SentenceExplanation]:
        return [
            explained_cosine(key, spec.model_dump_json(), question, row)
            or explained_sentences(key, spec.model, spec.title, question, row)
            for row in (of.right, of.wrong or 0)
        ]

    found = once_asked(spec.name, word("why.sentences_ask"), tell)
    if found is None:
        return
    for place, one, side in zip(st.columns(2), found, ("right", "wrong"), strict=True):
        with place:
            st.markdown(word(f"why.{side}_cosine", score=f"{one.score:.3f}"))
            if isinstance(one, WindowExplanation):
                _draw_window(one, gold=side == "right")
            else:
                _draw_sentence(one, gold=side == "right")


def _draw_sentence(one: SentenceExplanation, *, gold: bool) -> None:
    # the least similar is not shaded: cosines of sentences differ, and have no zero that means something
    least = min((sentence.cosine for sentence in one.sentences), default=0.0)
    weights = [(sentence.span, sentence.cosine - least) for sentence in one.sentences]
    pieces = weighted_pieces(one.passage.text, weights, 0, len(one.passage.text))
    st.html(weighed_html([], pieces, gold=gold))
    texts = [one.passage.text[slice(*sentence.span)] for sentence in one.sentences]
    table = pd.DataFrame({"sentence": texts, "cosine": [sentence.cosine for sentence in one.sentences]})
    columns = {"sentence": tables.text("why.sentence", width="large"), "cosine": tables.number("why.cosine", "%.3f")}
    tables.draw(table, columns)
