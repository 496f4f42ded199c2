"""The parts of the scores of the answer passage and of a wrong one, by kind of retriever: a chart, a table, texts."""

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from mrc_workbench.data.text.analyzers import Compounds
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.data.text.marking import TokenKind, weighted_pieces
from mrc_workbench.retrieval.comparison.experiment import LabKind
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, SparseSpec, TermSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.explain import BM25Explanation, Explanation, standing
from mrc_workbench.retrieval.explain.encoders import SentenceExplanation, WindowExplanation
from mrc_workbench.retrieval.explain.standing import ComponentContribution, PassagePair
from mrc_workbench.workbench.views.compare.controls import change_address, choose_in_address
from mrc_workbench.workbench.views.compare.questions import QuestionCase
from mrc_workbench.workbench.views.names import with_display_names
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, part_bars, term_bars
from mrc_workbench.workbench.views.ui.job import compute_on_request
from mrc_workbench.workbench.views.ui.passages import draw_matches, matches_html, shaded_html
from mrc_workbench.workbench.views.ui.state import store_choice
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word, word_or

T = TypeVar("T")
Spans = Sequence[tuple[tuple[int, int], float]]  # start and end of parts of a text, with a weight or score


def draw(case: QuestionCase) -> None:
    names = [name for name in case.question_list.names if case.findings[name].rows]
    if not names:
        return
    st.caption(word("why.scores_help"))
    left, right = st.columns(2)
    with left:
        default = next((name for name in names if case.passage_pair(name).is_lost), names[0])
        requested = st.query_params.get("explained", "")
        name = requested if requested in names else default
        labels = {option: case.view.display_names[option] for option in names}
        choose_in_address("explained", labels, name, word("compare.retriever"), "against")
    with right:
        pair = _pick_wrong(case, name)
    if pair.wrong is None:
        st.info(word("why.nothing_wrong"), icon=":material/info:")
    else:
        _draw_score(case.spec(name), case, pair)


def _pick_wrong(case: QuestionCase, name: str) -> PassagePair:
    findings = case.findings[name]
    wrong = [row for row in findings.rows if row not in case.relevant][:20]
    ids = [case.passage(row).id for row in wrong]
    labels = [word("why.wrong_at", rank=findings.rank_of(row), name=case.passage_name(row)) for row in wrong]
    requested = st.query_params.get("against", "")
    selected = requested if requested in ids else (ids or [""])[0]
    choose_in_address("against", dict(zip(ids, labels, strict=True)), selected, word("why.against"), disabled=not ids)
    return case.passage_pair(name, wrong[ids.index(selected)] if ids else None)


def _pair_rows(pair: PassagePair) -> tuple[int, int]:
    return pair.right, pair.wrong or 0  # `draw` requires a wrong passage


def _explain_both(spec: Spec, pair: PassagePair, label_key: str, explain: Callable[[int], T]) -> list[T] | None:
    """Draw the button that loads a model; after a click, return the explanations of both passages."""
    return compute_on_request(spec.name, word(label_key), lambda: [explain(row) for row in _pair_rows(pair)])


def _columns(both: Sequence[T]) -> Iterator[tuple[T, str]]:
    """Yield each of two with its side, "right" or "wrong", in a separate column."""
    for column, explanation, side in zip(st.columns(2), both, ("right", "wrong"), strict=True):
        with column:
            yield explanation, side


@singledispatch
def _draw_score(spec: Spec, case: QuestionCase, pair: PassagePair) -> None:
    """Draw the parts of both scores of a retriever of this kind, or a note that they are unknown."""
    del case, pair
    st.info(word_or(f"why.whole_{spec.kind}", word("why.whole")), icon=":material/info:")


@_draw_score.register
def _draw_terms(spec: TermSpec, case: QuestionCase, pair: PassagePair) -> None:
    try:
        dictionary = retrieval.dictionary_of(spec.dictionary)
        right, wrong = (retrieval.explain_bm25(case.key, spec, case.question.text, row) for row in _pair_rows(pair))
    except DictionaryError as error:
        st.warning(plain(failure_text(error)), icon=":material/warning:")
        return
    _draw_sums(pair, right.score, wrong.score, spec.digits)
    st.caption("  \n".join([word("why.terms_help"), *_option_texts(spec, right, wrong)]))
    feedback = isinstance(spec, BM25Spec) and spec.fb_docs > 0
    fields = bool(spec.title_weight)
    table = standing.option_table(right, wrong, dictionary, case.passage_name, fields=fields, feedback=feedback)
    _draw_term_bars(table)
    if TokenKind.MORPHEME.value in set(table["kind"]):
        st.caption(word("why.cut_wrongly"))
        if st.button(word("why.to_dictionary"), icon=":material/menu_book:", key="why_dictionary", on_click=_show_lab):
            st.rerun()
    _draw_texts(right, wrong)


def _option_texts(spec: TermSpec, right: BM25Explanation, wrong: BM25Explanation) -> Iterator[str]:
    if spec.title_weight:
        lengths = {"mean_title": f"{right.mean_title_length:.1f}", "mean_text": f"{right.mean_length:.1f}"}
        lengths |= {"right_title": f"{right.title_length}", "right_text": f"{right.length}"}
        lengths |= {"wrong_title": f"{wrong.title_length}", "wrong_text": f"{wrong.length}"}
        yield word("why.by_fields", weight=f"{spec.title_weight:g}", **lengths)
    if isinstance(spec, BM25Spec) and spec.fb_docs:
        percent = f"{spec.fb_weight * 100:g}"
        yield word("why.by_feedback", passages=spec.fb_docs, terms=spec.fb_terms, share=percent)
    if spec.pairs:
        yield word("why.by_pairs")
    if spec.compounds is not Compounds.AS_READ:
        yield word(f"why.compounds_{spec.compounds.value}")
    if spec.dictionary:
        yield word("why.by_dictionary")


def _show_lab() -> None:
    store_choice("lab", LabKind.LEXICAL.value)
    store_choice("view", "tune")
    change_address({"question": "", "lab": LabKind.LEXICAL.value, "view": "tune"})


@_draw_score.register
def _draw_sparse(spec: SparseSpec, case: QuestionCase, pair: PassagePair) -> None:
    st.caption(word("why.weighed_help"))
    request = (case.key, spec, case.question.text)
    explanations = _explain_both(spec, pair, "why.weighed_ask", lambda row: retrieval.explain_sparse(*request, row))
    if explanations is None:
        return
    right, wrong = explanations
    _draw_sums(pair, right.score, wrong.score, spec.digits)
    expansion = {"right": f"{right.by_expansion:.{spec.digits}f}", "wrong": f"{wrong.by_expansion:.{spec.digits}f}"}
    st.markdown(word("why.by_expansion", **expansion))
    _draw_term_bars(standing.weighted_term_table(right, wrong))
    _draw_texts(right, wrong)


@_draw_score.register
def _draw_late(spec: LateSpec, case: QuestionCase, pair: PassagePair) -> None:
    st.caption(word("why.matches_help"))
    experiment = case.view.comparison.experiment.model_dump_json()
    request = (case.key, experiment, spec, case.question.text)
    explanations = _explain_both(spec, pair, "why.matches_ask", lambda row: retrieval.explain_late(*request, row))
    if explanations is None:
        return
    right, wrong = explanations
    _draw_sums(pair, right.score, wrong.score, spec.digits)
    draw_matches({"right": right, "wrong": wrong})
    for explained, side in _columns(explanations):
        tables.draw_heading(word(f"why.{side}"))
        st.html(matches_html(explained, gold=side == "right"))


@_draw_score.register
def _draw_tokens(spec: DenseSpec, case: QuestionCase, pair: PassagePair) -> None:
    key = case.key
    question = case.question.text
    right, wrong = (retrieval.explain_static(key, spec.model, spec.title, question, row) for row in _pair_rows(pair))
    if right is None or wrong is None:
        _draw_sentences(case, spec, pair)
        return
    _draw_sums(pair, right.score, wrong.score, spec.digits)
    st.caption(word("why.tokens_help"))
    _draw_term_bars(standing.token_table(right, wrong))
    _draw_texts(right, wrong)


def _draw_sentences(case: QuestionCase, spec: DenseSpec, pair: PassagePair) -> None:
    st.caption(word("why.sentences_help"))
    key = case.key
    question = case.question.text

    def explain(row: int) -> WindowExplanation | SentenceExplanation:
        windows = retrieval.explain_cosine(key, spec, question, row)
        return windows or retrieval.explain_sentences(key, spec.model, spec.title, question, row)

    explanations = _explain_both(spec, pair, "why.sentences_ask", explain)
    if explanations is None:
        return
    for explained, side in _columns(explanations):
        st.markdown(word(f"why.{side}_cosine", score=f"{explained.score:.3f}"))
        if isinstance(explained, WindowExplanation):
            _draw_window(explained, gold=side == "right")
            continue
        scored = [(sentence.span, sentence.cosine) for sentence in explained.sentences]
        lowest = min((cosine for _, cosine in scored), default=0.0)  # not shaded: a cosine of 0 has no meaning here
        weights = [(span, cosine - lowest) for span, cosine in scored]
        _draw_scored(explained.passage.text, weights, scored, ("sentence", "cosine"), gold=side == "right")


@_draw_score.register
def _draw_fusion(spec: HybridSpec, case: QuestionCase, pair: PassagePair) -> None:
    right, wrong = (case.view.opened.fusion(spec, case.row, row) for row in _pair_rows(pair))
    if right is None or wrong is None:
        st.info(word("why.not_deep_enough", depth=spec.top_k), icon=":material/info:")
        return
    _draw_sums(pair, right.score, wrong.score, spec.digits)
    st.caption(word("why.fusion_help", fusion=word(f"why.fusion_{spec.fusion.name.lower()}")))
    _draw_added(case, [dict(right.components), dict(wrong.components)])


@_draw_score.register
def _draw_reranking(spec: RerankSpec, case: QuestionCase, pair: PassagePair) -> None:
    right, wrong = (case.view.opened.reranking(spec, case.row, row) for row in _pair_rows(pair))
    if right is None or wrong is None:
        st.info(word("why.not_known"), icon=":material/info:")
        return
    for side, entry in (("right", right), ("wrong", wrong)):
        if entry.first is None:
            first = plain(case.view.display_names[spec.first_stage])
            st.markdown(word(f"why.{side}_not_read", first=first, depth=spec.rerank_top_k))
        else:
            ranks = {"before": entry.rank_before, "after": entry.rank_after}
            st.markdown(word(f"why.{side}_moved", score=f"{entry.score:.3f}", **ranks))
    read = [
        {spec.first_stage: entry.first, spec.name: entry.reranker} if entry.first else {} for entry in (right, wrong)
    ]
    st.caption(word("why.rerank_help"))
    _draw_added(case, [{name: part for name, part in entry.items() if part} for entry in read])
    if spec.windows and any(read):
        _draw_reranked(case, spec, pair, [bool(entry) for entry in read])


def _draw_added(case: QuestionCase, contributions: Sequence[dict[str, ComponentContribution]]) -> None:
    rows = [
        (word(f"why.{side}"), name, part.rank, part.score, part.normalised, part.weight, part.value)
        for side, parts in zip(("right", "wrong"), contributions, strict=True)
        for name, part in parts.items()
    ]
    if not rows:
        return
    table = pd.DataFrame(rows, columns=["side", "part", "rank", "score", "normalised", "weight", "value"])
    table["rank"] = table["rank"].astype("Int64")
    displayed = with_display_names(table, case.view.display_names, ["part"])
    all_names = case.view.labels_for(case.view.names)
    draw_chart(part_bars, displayed, all_names, x=word("why.adds"), title=word("compare.retriever"))
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


def _draw_reranked(case: QuestionCase, spec: RerankSpec, pair: PassagePair, read: Sequence[bool]) -> None:
    st.caption(word("why.windows_help"))
    request = (case.key, spec, case.question.text)
    is_read = dict(zip(_pair_rows(pair), read, strict=True))

    def explain(row: int) -> WindowExplanation | None:
        return retrieval.explain_reranking(*request, row) if is_read[row] else None

    explanations = _explain_both(spec, pair, "why.windows_ask", explain)
    if explanations is None:
        return
    for (explained, was_read), side in _columns([*zip(explanations, read, strict=True)]):
        tables.draw_heading(word(f"why.{side}"))
        if explained:
            _draw_window(explained, gold=side == "right")
        elif was_read:
            st.caption(word("why.windows_whole"))


def _draw_window(explanation: WindowExplanation, *, gold: bool) -> None:
    st.caption(word("why.windows_best", position=explanation.best + 1, count=len(explanation.windows)))
    best = explanation.windows[explanation.best].window
    weights = [((best.start, best.end), 1.0), ((0, best.title_length), 1.0)]
    scored = [((entry.window.start, entry.window.end), entry.score) for entry in explanation.windows]
    _draw_scored(explanation.text, weights, scored, ("window", "score"), gold=gold)


def _draw_scored(text: str, weights: Spans, scored: Spans, names: tuple[str, str], *, gold: bool) -> None:
    """Draw a text shaded by weights, and a table of its parts and scores with the columns `names`."""
    st.html(shaded_html([], weighted_pieces(text, weights, 0, len(text)), gold=gold))
    part, score = names
    columns = {part: tables.text(f"why.{part}", width="large"), score: tables.number(f"why.{score}", "%.3f")}
    rows = [(text[slice(*span)], value) for span, value in scored]
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def _draw_sums(pair: PassagePair, right: float, wrong: float, digits: int) -> None:
    ranked = (pair.right_rank, pair.wrong_rank)
    ranks = [word("why.sums_rank", rank=rank) if rank else word("why.sums_no_rank") for rank in ranked]
    values = {"right": f"{right:.{digits}f}", "wrong": f"{wrong:.{digits}f}"}
    difference = f"{right - wrong:+.{digits}f}"
    st.markdown(word("why.sums", right_rank=ranks[0], wrong_rank=ranks[1], difference=difference, **values))


def _draw_term_bars(table: pd.DataFrame) -> None:
    sides = {"right": word("why.right"), "wrong": word("why.wrong")}
    displayed = table.head(12)  # the largest differences; the table has all
    labels = []
    for term, kind in zip(displayed["term"], displayed["kind"], strict=True):
        has_note = kind in ("letters", "expansion", "added")
        labels.append(f"{term} ({word(f'why.kind_{kind}')})" if has_note else term)
    bars = displayed.assign(term=labels).rename(columns=sides)
    long = bars.melt("term", [*sides.values()], var_name="side")
    draw_chart(term_bars, long, labels, list(sides.values()), x=word("why.adds"), y=word("why.term"))
    with st.expander(word("compare.as_table")):
        _draw_term_table(table, sides)


def _draw_term_table(table: pd.DataFrame, sides: dict[str, str]) -> None:
    def passage_columns(side: str) -> dict[str, Any]:
        keys = (f"title_{side}", f"text_{side}")
        counts = {key: tables.number(f"why.{key}", explained_by="") for key in keys}
        is_bool = f"in_{side}" in table and pd.api.types.is_bool_dtype(table[f"in_{side}"])
        in_passage = tables.checkbox(f"why.stands_{side}") if is_bool else tables.number(f"why.in_{side}")
        weight = {f"{side}_weight": tables.number("why.passage_weight", "%.3f")}
        return {**counts, f"in_{side}": in_passage, **weight, side: tables.number(f"why.{side}", "%.3f")}

    total = {"term": word("why.sum"), **{side: table[side].sum() for side in (*sides, "difference")}}
    rows = table.assign(kind=[word(f"why.kind_{kind}") for kind in table["kind"]])
    columns = {
        "term": tables.text("why.term", pinned=True),
        "kind": tables.text("why.term_kind"),
        "known": tables.checkbox("why.term_known"),
        "own": tables.checkbox("why.own"),
        "surfaces": tables.text("why.surfaces"),
        "in_question": tables.number("why.in_question"),
        "weight": tables.number("why.term_weight", "%.3f"),
        "sources": tables.text("why.sources"),
        "question_weight": tables.number("why.question_weight", "%.3f"),
        "passages": tables.number("why.in_passages"),
        "idf": tables.labelled_number("idf", "%.2f", word("why.idf_help")),
        **passage_columns("right"),
        **passage_columns("wrong"),
        "difference": tables.number("compare.difference", "%+.3f", ""),
    }
    displayed_columns = {name: column for name, column in columns.items() if name in table}
    with_total = pd.concat([rows.astype(object), pd.DataFrame([total])], ignore_index=True)
    tables.draw(with_total, displayed_columns, placeholder="")


def _draw_texts(right: Explanation, wrong: Explanation) -> None:
    st.caption(word("why.shades"))
    for explained, side in _columns((right, wrong)):
        tables.draw_heading(word(f"why.{side}"))
        st.html(shaded_html(explained.title_pieces(), explained.text_pieces(), gold=side == "right"))
