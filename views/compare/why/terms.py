"""What a score is made of, term by term: of BM25 with its dictionary and feedback, and of a sparse encoder."""

from collections.abc import Iterator
from typing import Any, Protocol

import pandas as pd
import streamlit as st

from retrieval.comparison.experiment import Lab
from retrieval.comparison.first_stage import BM25Spec, LateSpec, SparseSpec, TermSpec
from retrieval.explain.bm25 import BM25Explanation
from retrieval.explain.encoders import LateExplanation, SparseExplanation
from retrieval.explain.standing import Duel, option_table, weighed_table
from text.analysis import Piece, TokenKind
from text.analyzers import Compounds
from text.dictionary import DictionaryError
from views.compare.controls import change
from views.compare.why.questions import QuestionCase
from views.resources.retrieval import dictionary_of, explained_bm25, explained_late, explained_sparse
from views.ui import tables
from views.ui.charts import draw_chart, term_bars
from views.ui.job import once_asked
from views.ui.passages import draw_matches, matches_html, weighed_html
from views.ui.problems import failure_text
from views.ui.state import keep
from views.ui.words import plain, word

_BARS = 12


class Shaded(Protocol):
    """An explanation that tells what the letters of a passage add to its score."""

    def title_pieces(self) -> list[Piece]: ...

    def text_pieces(self) -> list[Piece]: ...


def draw_sums(of: Duel, right: float, wrong: float, digits: int) -> None:
    ranked = (of.right_rank, of.wrong_rank)
    ranks = [word("why.sums_rank", rank=rank) if rank else word("why.sums_no_rank") for rank in ranked]
    values = {"right": f"{right:.{digits}f}", "wrong": f"{wrong:.{digits}f}"}
    difference = f"{right - wrong:+.{digits}f}"
    st.markdown(word("why.sums", right_rank=ranks[0], wrong_rank=ranks[1], difference=difference, **values))


def draw_parts_of_words(table: pd.DataFrame) -> None:
    """Draw the words of most difference as bars, and all of them with the sum as a table."""
    sides = {"right": word("why.right"), "wrong": word("why.wrong")}
    shown = table.head(_BARS)
    labels = [
        f"{term} ({word(f'why.kind_{kind}')})" if kind in ("letters", "expansion", "added") else term
        for term, kind in zip(shown["term"], shown["kind"], strict=True)
    ]
    long = pd.concat(
        [pd.DataFrame({"term": labels, "side": label, "value": shown[side].tolist()}) for side, label in sides.items()]
    )
    draw_chart(term_bars, long, labels, list(sides.values()), x=word("why.adds"), y=word("why.term"))
    with st.expander(word("compare.as_table")):
        _draw_word_table(table, sides)


def _draw_word_table(table: pd.DataFrame, sides: dict[str, str]) -> None:
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
        "idf": st.column_config.NumberColumn("idf", format="%.2f", help=word("why.idf_help")),
        "title_right": tables.number("why.title_right", explained_by=""),
        "text_right": tables.number("why.text_right", explained_by=""),
        "in_right": _held("right", table),
        "held_right": tables.number("why.weight_held", "%.3f"),
        "right": tables.number("why.right", "%.3f"),
        "title_wrong": tables.number("why.title_wrong", explained_by=""),
        "text_wrong": tables.number("why.text_wrong", explained_by=""),
        "in_wrong": _held("wrong", table),
        "held_wrong": tables.number("why.weight_held", "%.3f"),
        "wrong": tables.number("why.wrong", "%.3f"),
        "difference": tables.number("compare.difference", "%+.3f", ""),
    }
    shown = {name: column for name, column in columns.items() if name in table}
    tables.draw(pd.concat([told.astype(object), pd.DataFrame([total])], ignore_index=True), shown, placeholder="")


def _held(side: str, table: pd.DataFrame) -> Any:
    """The column of how often, or of whether, a term stands in a passage."""
    whether = pd.api.types.is_bool_dtype(table[f"in_{side}"]) if f"in_{side}" in table else False
    return tables.checkbox(f"why.stands_{side}") if whether else tables.number(f"why.in_{side}")


def draw_texts(right: Shaded, wrong: Shaded) -> None:
    """Draw both passages, their letters shaded by what they add."""
    st.caption(word("why.shades"))
    for place, explained, side in zip(st.columns(2), (right, wrong), ("right", "wrong"), strict=True):
        with place:
            st.markdown(f"**{word(f'why.{side}')}**")
            st.html(weighed_html(explained.title_pieces(), explained.text_pieces(), gold=side == "right"))


def draw_terms(spec: TermSpec, case: QuestionCase, of: Duel) -> None:
    """Draw what both scores are made of, or why that is not known any more."""
    try:
        dictionary = dictionary_of(spec.dictionary)
        right, wrong = (
            explained_bm25(case.view.data.key, spec, case.question.text, row) for row in (of.right, of.wrong or 0)
        )
    except DictionaryError as error:
        st.warning(plain(failure_text(error)), icon=":material/warning:")
        return
    draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption("  \n".join([word("why.terms_help"), *_options_in_words(spec, right, wrong)]))
    feedback = isinstance(spec, BM25Spec) and spec.feedback_passages > 0
    fields = bool(spec.title_weight)
    table = option_table(right, wrong, dictionary, case.passage_name, fields=fields, feedback=feedback)
    draw_parts_of_words(table)
    if TokenKind.MORPHEME.value in set(table["kind"]):
        st.caption(word("why.cut_wrongly"))
        if st.button(word("why.to_dictionary"), icon=":material/menu_book:", key="why_dictionary", on_click=_show_lab):
            st.rerun()
    draw_texts(right, wrong)


def _options_in_words(spec: TermSpec, right: BM25Explanation, wrong: BM25Explanation) -> Iterator[str]:
    """Say how the retriever's options change what is counted; Markdown."""
    if spec.title_weight:
        lengths = {
            "right_title": right.title_length,
            "right_text": right.length,
            "wrong_title": wrong.title_length,
            "wrong_text": wrong.length,
            "mean_title": f"{right.mean_title_length:.1f}",
            "mean_text": f"{right.mean_length:.1f}",
        }
        yield word("why.by_fields", weight=f"{spec.title_weight:g}", **lengths)
    if isinstance(spec, BM25Spec) and spec.feedback_passages:
        share = f"{spec.feedback_share * 100:g}"
        yield word("why.by_feedback", passages=spec.feedback_passages, terms=spec.feedback_terms, share=share)
    if spec.compounds is not Compounds.AS_READ:
        yield word(f"why.compounds_{spec.compounds.value}")
    if spec.dictionary:
        yield word("why.by_dictionary")


def _show_lab() -> None:
    chosen = {"lab": Lab.LEXICAL.value, "view": "tune"}
    for name, value in chosen.items():
        keep(name, value)
    change({"question": "", **chosen})


def draw_sparse(spec: SparseSpec, case: QuestionCase, of: Duel) -> None:
    st.caption(word("why.weighed_help"))

    def tell() -> list[SparseExplanation]:
        rows = (of.right, of.wrong or 0)
        return [explained_sparse(case.view.data.key, spec.model_dump_json(), case.question.text, row) for row in rows]

    found = once_asked(spec.name, word("why.weighed_ask"), tell)
    if found is None:
        return
    right, wrong = found
    draw_sums(of, right.score, wrong.score, spec.digits)
    expansion = {"right": right.by_expansion, "wrong": wrong.by_expansion}
    st.markdown(word("why.by_expansion", **{side: f"{value:.{spec.digits}f}" for side, value in expansion.items()}))
    draw_parts_of_words(weighed_table(right, wrong))
    draw_texts(right, wrong)


def draw_late(spec: LateSpec, case: QuestionCase, of: Duel) -> None:
    """Draw which token of either passage answered each token of the question."""
    st.caption(word("why.matches_help"))

    def tell() -> list[LateExplanation]:
        rows = (of.right, of.wrong or 0)
        return [explained_late(case.view.data.key, spec.model_dump_json(), case.question.text, row) for row in rows]

    found = once_asked(spec.name, word("why.matches_ask"), tell)
    if found is None:
        return
    right, wrong = found
    draw_sums(of, right.score, wrong.score, spec.digits)
    draw_matches({"right": right, "wrong": wrong})
    for place, explained, side in zip(st.columns(2), found, ("right", "wrong"), strict=True):
        with place:
            st.markdown(f"**{word(f'why.{side}')}**")
            st.html(matches_html(explained, gold=side == "right"))
