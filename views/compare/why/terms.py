"""The terms of BM25: of the question, of a user dictionary, and those that feedback took from passages."""

from collections.abc import Callable, Iterator

import pandas as pd
import streamlit as st

from data.records import Passage
from retrieval.comparison.experiment import Lab
from retrieval.comparison.first_stage import BM25Spec, TermSpec
from retrieval.explain.bm25 import BM25Explanation, TermContribution
from retrieval.explain.duel import Duel, term_table
from text.dictionary import Dictionary, name_of
from text.located import TokenKind
from text.morphemes import Compounds
from text.problems import DictionaryError
from views.compare.controls import change
from views.compare.why.parts import draw_parts_of_words, draw_sums, draw_texts
from views.compare.why.questions import QuestionCase
from views.resources.explanations import dictionary_of, explained_bm25
from views.ui.problems import failure_text
from views.ui.state import keep
from views.ui.words import plain, word


def draw(case: QuestionCase, spec: TermSpec, of: Duel) -> None:
    """Draw what both scores are made of, or why that is not known any more."""
    try:
        dictionary = dictionary_of(spec.dictionary)
        right, wrong = (explained_bm25(case.view.data.key, spec, case.question.text, row) for row in _rows(of))
    except DictionaryError as error:
        st.warning(plain(failure_text(error)), icon=":material/warning:")
        return
    draw_sums(of, right.score, wrong.score, spec.digits)
    st.caption("  \n".join([word("why.terms_help"), *_options_in_words(spec, right, wrong)]))
    table = terms_told(right, wrong, spec, dictionary, lambda row: _name(case.passage(row)))
    draw_parts_of_words(table)
    if TokenKind.MORPHEME.value in set(table["kind"]):
        _draw_way_to_dictionary()
    draw_texts(right, wrong)


def terms_told(
    right: BM25Explanation,
    wrong: BM25Explanation,
    spec: TermSpec,
    dictionary: Dictionary | None,
    called: Callable[[int], str],
) -> pd.DataFrame:
    """Return the `term_table` with what the retriever's options add to it; `called` is the name of a passage (a row).

    Fields: "title_..." and "text_..." count where a term stands. Feedback: "weight" in the question, "sources", and
    the kind "added". A dictionary: "own", whether the term is a word of it, and "stands_as", what is read as the term.
    """
    table = term_table(right, wrong)
    ours, theirs = (_in_order(one, table) for one in (right, wrong))
    if spec.title_weight:
        for side, terms in (("right", ours), ("wrong", theirs)):
            counts = {f"title_{side}": [one.in_title for one in terms], f"text_{side}": [one.in_text for one in terms]}
            table = table.drop(columns=f"in_{side}").assign(**counts)
    if isinstance(spec, BM25Spec) and spec.feedback_passages:
        sources = [", ".join(map(called, one.sources)) for one in ours]
        table = table.assign(weight=[one.weight for one in ours], sources=sources)
        table["kind"] = ["added" if one.added else one.kind.value for one in ours]
    if dictionary:
        own = {*dictionary.parts, *dictionary.names.values()}
        stands = [", ".join(_surfaces(pair, (right, wrong), dictionary)) for pair in zip(ours, theirs, strict=True)]
        is_own = [one.text in own and one.kind is not TokenKind.LETTERS for one in ours]
        table = table.assign(own=is_own, stands_as=stands)
    return table


def _name(passage: Passage) -> str:
    return " · ".join(filter(None, (passage.title, passage.id)))


def _rows(of: Duel) -> tuple[int, int]:
    return of.right, of.wrong or 0


def _in_order(of: BM25Explanation, table: pd.DataFrame) -> list[TermContribution]:
    terms = {(term.text, term.kind.value): term for term in of.terms}
    return [terms[key] for key in zip(table["term"], table["kind"], strict=True)]


def _surfaces(
    pair: tuple[TermContribution, ...], of: tuple[BM25Explanation, ...], dictionary: Dictionary
) -> Iterator[str]:
    """What stands in the question and in both passages where the term is read, and is another word: a synonym."""
    if pair[0].kind is TokenKind.LETTERS or pair[0].text not in dictionary.names.values():
        return
    question = [of[0].question[slice(*span)] for span in pair[0].question_spans]
    held = [one.passage.text[slice(*span)] for one, term in zip(of, pair, strict=True) for span in term.passage_spans]
    for surface in dict.fromkeys([*question, *held]):
        if name_of(surface) != pair[0].text:
            yield surface


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


def _draw_way_to_dictionary() -> None:
    st.caption(word("why.cut_wrongly"))
    if st.button(word("why.to_dictionary"), icon=":material/menu_book:", key="why_dictionary", on_click=_show_lab):
        st.rerun()


def _show_lab() -> None:
    chosen = {"lab": Lab.LEXICAL.value, "view": "tune"}
    for name, value in chosen.items():
        keep(name, value)
    change({"question": "", **chosen})
