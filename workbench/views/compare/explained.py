"""What the scores of the answer passage and of a wrong one are made of, by the kind of retriever: a chart, a table, and
both texts.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from mrc_workbench.data.text.analyzers import Compounds
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.data.text.marking import TokenKind, weighted_pieces
from mrc_workbench.retrieval.comparison.experiment import Lab
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, SparseSpec, TermSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.explain import BM25Explanation, Explanation
from mrc_workbench.retrieval.explain.encoders import SentenceExplanation, WindowExplanation
from mrc_workbench.retrieval.explain.standing import Duel, PartContribution, option_table, token_table, weighed_table
from mrc_workbench.workbench.views.compare.controls import change, choose_in_address
from mrc_workbench.workbench.views.compare.questions import QuestionCase
from mrc_workbench.workbench.views.names import with_display_names
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, part_bars, term_bars
from mrc_workbench.workbench.views.ui.job import once_asked
from mrc_workbench.workbench.views.ui.passages import draw_matches, matches_html, weighed_html
from mrc_workbench.workbench.views.ui.state import keep
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import failure_text, known, plain, word

T = TypeVar("T")
Spans = Sequence[tuple[tuple[int, int], float]]  # parts of a text, start and end, with a weight or score each


def draw(case: QuestionCase) -> None:
    names = [name for name in case.question_list.names if case.findings[name].rows]
    if not names:
        return
    st.caption(word("why.scores_help"))
    left, right = st.columns(2)
    with left:
        lost = next((name for name in names if case.duel(name).lost), names[0])  # to a wrong passage above
        wanted = st.query_params.get("explained", "")
        name = wanted if wanted in names else lost
        labels = {one: case.view.display_names[one] for one in names}
        choose_in_address("explained", labels, name, word("compare.retriever"), also=("against",))
    with right:
        of = _pick_wrong(case, name)
    if of.wrong is None:
        st.info(word("why.nothing_wrong"), icon=":material/info:")
    else:
        _draw_score(case.spec(name), case, of)


def _pick_wrong(case: QuestionCase, name: str) -> Duel:
    found = case.findings[name]
    wrong = [row for row in found.rows if row not in case.relevant][:20]
    ids = [case.passage(row).id for row in wrong]
    labels = [word("why.wrong_at", rank=found.rank_of(row), name=case.passage_name(row)) for row in wrong]
    wanted = st.query_params.get("against", "")
    chosen = wanted if wanted in ids else (ids or [""])[0]
    choose_in_address("against", dict(zip(ids, labels, strict=True)), chosen, word("why.against"), disabled=not ids)
    return case.duel(name, wrong[ids.index(chosen)] if ids else None)


def _rows(of: Duel) -> tuple[int, int]:
    return of.right, of.wrong or 0  # without a wrong passage nothing is drawn


def _ask_both(spec: Spec, of: Duel, ask: str, explain: Callable[[int], T]) -> list[T] | None:
    """Draw the button that loads a model and, once it was pressed, return what it explains of both passages."""
    return once_asked(spec.name, word(ask), lambda: [explain(row) for row in _rows(of)])


def _columns(of_both: Sequence[T]) -> Iterator[tuple[T, str]]:
    """Yield each of two with its side, "right" or "wrong", in a column of its own."""
    for column, of, side in zip(st.columns(2), of_both, ("right", "wrong"), strict=True):
        with column:
            yield of, side


@singledispatch
def _draw_score(spec: Spec, case: QuestionCase, of: Duel) -> None:
    """Draw what the two scores of a retriever of this kind are made of; say so where that is not known."""
    del case, of
    key = f"why.whole_{spec.kind}"
    st.info(word(key if known(key) else "why.whole"), icon=":material/info:")


@_draw_score.register
def _draw_terms(spec: TermSpec, case: QuestionCase, of: Duel) -> None:
    try:
        dictionary = retrieval.dictionary_of(spec.dictionary)
        right, wrong = (retrieval.explained_bm25(case.key, spec, case.question.text, row) for row in _rows(of))
    except DictionaryError as error:
        st.warning(plain(failure_text(error)), icon=":material/warning:")
        return
    _draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption("  \n".join([word("why.terms_help"), *_options_in_words(spec, right, wrong)]))
    feedback = isinstance(spec, BM25Spec) and spec.feedback_passages > 0
    fields = bool(spec.title_weight)
    table = option_table(right, wrong, dictionary, case.passage_name, fields=fields, feedback=feedback)
    _draw_parts_of_words(table)
    if TokenKind.MORPHEME.value in set(table["kind"]):
        st.caption(word("why.cut_wrongly"))
        if st.button(word("why.to_dictionary"), icon=":material/menu_book:", key="why_dictionary", on_click=_show_lab):
            st.rerun()
    _draw_texts(right, wrong)


def _options_in_words(spec: TermSpec, right: BM25Explanation, wrong: BM25Explanation) -> Iterator[str]:
    if spec.title_weight:
        lengths = {"mean_title": f"{right.mean_title_length:.1f}", "mean_text": f"{right.mean_length:.1f}"}
        lengths |= {"right_title": f"{right.title_length}", "right_text": f"{right.length}"}
        lengths |= {"wrong_title": f"{wrong.title_length}", "wrong_text": f"{wrong.length}"}
        yield word("why.by_fields", weight=f"{spec.title_weight:g}", **lengths)
    if isinstance(spec, BM25Spec) and spec.feedback_passages:
        share = f"{spec.feedback_share * 100:g}"
        yield word("why.by_feedback", passages=spec.feedback_passages, terms=spec.feedback_terms, share=share)
    if spec.pairs:
        yield word("why.by_pairs")
    if spec.compounds is not Compounds.AS_READ:
        yield word(f"why.compounds_{spec.compounds.value}")
    if spec.dictionary:
        yield word("why.by_dictionary")


def _show_lab() -> None:
    chosen = {"lab": Lab.LEXICAL.value, "view": "tune"}
    for name, value in chosen.items():
        keep(name, value)
    change({"question": "", **chosen})


@_draw_score.register
def _draw_sparse(spec: SparseSpec, case: QuestionCase, of: Duel) -> None:
    st.caption(word("why.weighed_help"))
    asked = (case.key, spec.model_dump_json(), case.question.text)
    found = _ask_both(spec, of, "why.weighed_ask", lambda row: retrieval.explained_sparse(*asked, row))
    if found is None:
        return
    right, wrong = found
    _draw_sums(of, right.score, wrong.score, spec.digits)
    expansion = {"right": right.by_expansion, "wrong": wrong.by_expansion}
    st.markdown(word("why.by_expansion", **{side: f"{value:.{spec.digits}f}" for side, value in expansion.items()}))
    _draw_parts_of_words(weighed_table(right, wrong))
    _draw_texts(right, wrong)


@_draw_score.register
def _draw_late(spec: LateSpec, case: QuestionCase, of: Duel) -> None:
    st.caption(word("why.matches_help"))
    experiment = case.view.comparison.experiment.model_dump_json()
    asked = (case.key, experiment, spec.model_dump_json(), case.question.text)
    found = _ask_both(spec, of, "why.matches_ask", lambda row: retrieval.explained_late(*asked, row))
    if found is None:
        return
    right, wrong = found
    _draw_sums(of, right.score, wrong.score, spec.digits)
    draw_matches({"right": right, "wrong": wrong})
    for explained, side in _columns(found):
        draw_heading(word(f"why.{side}"))
        st.html(matches_html(explained, gold=side == "right"))


@_draw_score.register
def _draw_tokens(spec: DenseSpec, case: QuestionCase, of: Duel) -> None:
    key, question = case.key, case.question.text
    right, wrong = (retrieval.explained_static(key, spec.model, spec.title, question, row) for row in _rows(of))
    if right is None or wrong is None:
        _draw_sentences(case, spec, of)
        return
    _draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption(word("why.tokens_help"))
    _draw_parts_of_words(token_table(right, wrong))
    _draw_texts(right, wrong)


def _draw_sentences(case: QuestionCase, spec: DenseSpec, of: Duel) -> None:
    st.caption(word("why.sentences_help"))
    key, question = case.key, case.question.text

    def explain(row: int) -> WindowExplanation | SentenceExplanation:
        windows = retrieval.explained_cosine(key, spec.model_dump_json(), question, row)
        return windows or retrieval.explained_sentences(key, spec.model, spec.title, question, row)

    found = _ask_both(spec, of, "why.sentences_ask", explain)
    if found is None:
        return
    for explained, side in _columns(found):
        st.markdown(word(f"why.{side}_cosine", score=f"{explained.score:.3f}"))
        if isinstance(explained, WindowExplanation):
            _draw_window(explained, gold=side == "right")
        else:
            _draw_sentence(explained, gold=side == "right")


def _draw_sentence(one: SentenceExplanation, *, gold: bool) -> None:
    # the least similar is not shaded: cosines of sentences differ, and have no zero that means something
    least = min((sentence.cosine for sentence in one.sentences), default=0.0)
    weights = [(sentence.span, sentence.cosine - least) for sentence in one.sentences]
    scored = [(sentence.span, sentence.cosine) for sentence in one.sentences]
    _draw_scored(one.passage.text, weights, scored, ("sentence", "cosine"), gold=gold)


@_draw_score.register
def _draw_fusion(spec: HybridSpec, case: QuestionCase, of: Duel) -> None:
    right, wrong = (case.view.opened.fusion(spec, case.row, row) for row in _rows(of))
    if right is None or wrong is None:
        st.info(word("why.not_deep_enough", depth=spec.depth), icon=":material/info:")
        return
    _draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption(word("why.fusion_help", fusion=word(f"why.fusion_{spec.fusion.name.lower()}")))
    _draw_added(case, [dict(right.parts), dict(wrong.parts)])


@_draw_score.register
def _draw_reranking(spec: RerankSpec, case: QuestionCase, of: Duel) -> None:
    right, wrong = (case.view.opened.reranking(spec, case.row, row) for row in _rows(of))
    if right is None or wrong is None:
        st.info(word("why.not_known"), icon=":material/info:")
        return
    for side, one in (("right", right), ("wrong", wrong)):
        if one.first is None:
            first = plain(case.view.display_names[spec.first])
            st.markdown(word(f"why.{side}_not_read", first=first, depth=spec.depth))
        else:
            ranks = {"before": one.rank_before, "after": one.rank_after}
            st.markdown(word(f"why.{side}_moved", score=f"{one.score:.3f}", **ranks))
    read = [{spec.first: one.first, spec.name: one.reranker} if one.first else {} for one in (right, wrong)]
    st.caption(word("why.rerank_help"))
    _draw_added(case, [{name: part for name, part in one.items() if part} for one in read])
    if spec.windows and any(read):
        _draw_reranked(case, spec, of, [bool(one) for one in read])


def _draw_added(case: QuestionCase, found: Sequence[dict[str, PartContribution]]) -> None:
    rows = [
        (word(f"why.{side}"), name, part.rank, part.score, part.normalised, part.weight, part.value)
        for side, parts in zip(("right", "wrong"), found, strict=True)
        for name, part in parts.items()
    ]
    if not rows:
        return
    table = pd.DataFrame(rows, columns=["side", "part", "rank", "score", "normalised", "weight", "value"])
    table["rank"] = table["rank"].astype("Int64")
    displayed, every = with_display_names(table, case.view.display_names, ["part"]), case.view.called(case.view.names)
    draw_chart(part_bars, displayed, every, x=word("why.adds"), title=word("compare.retriever"))
    columns = {
        "side": tables.text("why.passage", pinned=True),
        "part": tables.text("compare.retriever"),
        "rank": tables.number("search.rank"),
        "score": tables.number("why.score", "%.3f"),
        "normalised": tables.number("why.normalised", "%.4f"),
        "weight": tables.number("why.weight", "%.2f"),
        "value": tables.number("why.adds", "%.4f"),
    }
    tables.draw(table, columns, retrievers=("part",), placeholder="–")


def _draw_reranked(case: QuestionCase, spec: RerankSpec, of: Duel, read: Sequence[bool]) -> None:
    st.caption(word("why.windows_help"))
    asked = (case.key, spec.model_dump_json(), case.question.text)
    is_read = dict(zip(_rows(of), read, strict=True))
    found = _ask_both(
        spec, of, "why.windows_ask", lambda row: retrieval.explained_reranking(*asked, row) if is_read[row] else None
    )
    if found is None:
        return
    for (explained, was_read), side in _columns([*zip(found, read, strict=True)]):
        draw_heading(word(f"why.{side}"))
        if explained:
            _draw_window(explained, gold=side == "right")
        elif was_read:
            st.caption(word("why.windows_whole"))


def _draw_window(one: WindowExplanation, *, gold: bool) -> None:
    st.caption(word("why.windows_best", place=one.best + 1, count=len(one.windows)))
    best = one.windows[one.best].window
    weights = [((best.start, best.end), 1.0), ((0, best.head), 1.0)]
    scored = [((found.window.start, found.window.end), found.score) for found in one.windows]
    _draw_scored(one.text, weights, scored, ("window", "score"), gold=gold)


def _draw_scored(text: str, weights: Spans, scored: Spans, names: tuple[str, str], *, gold: bool) -> None:
    """Draw a text shaded by weights, and a table of parts of it with their scores; `names` are its two columns."""
    st.html(weighed_html([], weighted_pieces(text, weights, 0, len(text)), gold=gold))
    part, score = names
    columns = {part: tables.text(f"why.{part}", width="large"), score: tables.number(f"why.{score}", "%.3f")}
    rows = [(text[slice(*span)], value) for span, value in scored]
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def _draw_sums(of: Duel, right: float, wrong: float, digits: int) -> None:
    ranked = (of.right_rank, of.wrong_rank)
    ranks = [word("why.sums_rank", rank=rank) if rank else word("why.sums_no_rank") for rank in ranked]
    values = {"right": f"{right:.{digits}f}", "wrong": f"{wrong:.{digits}f}"}
    difference = f"{right - wrong:+.{digits}f}"
    st.markdown(word("why.sums", right_rank=ranks[0], wrong_rank=ranks[1], difference=difference, **values))


def _draw_parts_of_words(table: pd.DataFrame) -> None:
    sides = {"right": word("why.right"), "wrong": word("why.wrong")}
    shown = table.head(12)  # of most difference; the table has all
    labels = [
        f"{term} ({word(f'why.kind_{kind}')})" if kind in ("letters", "expansion", "added") else term
        for term, kind in zip(shown["term"], shown["kind"], strict=True)
    ]
    bars = shown.assign(term=labels).rename(columns=sides)
    long = bars.melt("term", [*sides.values()], var_name="side")
    draw_chart(term_bars, long, labels, list(sides.values()), x=word("why.adds"), y=word("why.term"))
    with st.expander(word("compare.as_table")):
        _draw_word_table(table, sides)


def _draw_word_table(table: pd.DataFrame, sides: dict[str, str]) -> None:
    def of_passage(side: str) -> dict[str, Any]:
        whether = f"in_{side}" in table and pd.api.types.is_bool_dtype(table[f"in_{side}"])  # or how often
        return {
            f"title_{side}": tables.number(f"why.title_{side}", explained_by=""),
            f"text_{side}": tables.number(f"why.text_{side}", explained_by=""),
            f"in_{side}": tables.checkbox(f"why.stands_{side}") if whether else tables.number(f"why.in_{side}"),
            f"held_{side}": tables.number("why.weight_held", "%.3f"),
            side: tables.number(f"why.{side}", "%.3f"),
        }

    total = {"term": word("why.sum"), **{side: table[side].sum() for side in (*sides, "difference")}}
    told = table.assign(kind=[word(f"why.kind_{kind}") for kind in table["kind"]])
    columns = {
        "term": tables.text("why.term", pinned=True),
        "kind": tables.text("why.term_kind"),
        "known": tables.checkbox("why.term_known"),
        "own": tables.checkbox("why.own"),
        "stands_as": tables.text("why.stands_as"),
        "in_question": tables.number("why.in_question"),
        "weight": tables.number("why.term_weight", "%.3f"),
        "sources": tables.text("why.sources"),
        "asked": tables.number("why.weight_asked", "%.3f"),
        "passages": tables.number("why.in_passages"),
        "idf": tables.figure("idf", "%.2f", word("why.idf_help")),
        **of_passage("right"),
        **of_passage("wrong"),
        "difference": tables.number("compare.difference", "%+.3f", ""),
    }
    shown = {name: column for name, column in columns.items() if name in table}
    tables.draw(pd.concat([told.astype(object), pd.DataFrame([total])], ignore_index=True), shown, placeholder="")


def _draw_texts(right: Explanation, wrong: Explanation) -> None:
    st.caption(word("why.shades"))
    for explained, side in _columns((right, wrong)):
        draw_heading(word(f"why.{side}"))
        st.html(weighed_html(explained.title_pieces(), explained.text_pieces(), gold=side == "right"))
