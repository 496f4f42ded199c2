"""A question's ranking in every retriever, side by side, as the comparison kept it: nothing is searched."""

import streamlit as st

from data.remarks import Remarks
from retrieval.report.colours import colour_of, shape_of
from text.marking import MarkedText
from views.compare.controls import tie
from views.compare.why import remarks as compare_remarks
from views.compare.why.questions import QuestionCase
from views.resources.retrieval import marked_passages
from views.ui.passages import MOST, head_html, hit, hits_html, legend_html, right_ranks, side_by_side, truth_line
from views.ui.words import word

_COUNTS = ("3", "5", "10", "20")
_TOLD = 30  # letters of a passage in the menu


def draw(case: QuestionCase, remarks: Remarks, *, marks: bool) -> None:
    """Draw a column a retriever, four in a row, the passages that answer on top; `marks`: others can be marked."""
    count = _draw_count()
    st.html(legend_html(truth=bool(case.question.answers)))
    names = case.question_list.names
    rows = tuple(dict.fromkeys(row for name in names for row in _rows(case, name, count)))
    texts = dict(zip(rows, marked_passages(case.view.data.key, case.question.text, rows), strict=True))
    for first in range(0, len(names), MOST):
        row_of_names = names[first : first + MOST]
        # as wide as the others, however few are left for the last row
        ranks = [next(iter(right_ranks(case.findings[name], case.relevant)), None) for name in row_of_names]
        wide = min(MOST, len(names))
        places = side_by_side(row_of_names, case.view.names, ranks, f"why_{first}", wide=wide)
        for place, name in zip(places, row_of_names, strict=True):
            with place:
                _draw_column(case, name, count, texts)
                if marks:
                    _draw_marks(case, name, count, remarks)


def _draw_count() -> int:
    chosen = st.query_params.get("n", "")
    count = chosen if chosen in _COUNTS else "5"
    place = tie("n", count)
    st.segmented_control(word("search.k"), _COUNTS, help=word("why.rankings_help"), **place)
    return int(count)


def _rows(case: QuestionCase, name: str, count: int) -> list[int]:
    """Return rows of those passages that answer, wherever they were found, and of the first others."""
    found = case.findings[name].rows
    right = [row for row in found if row in case.relevant]
    return [*right, *(row for row in found[:count] if row not in case.relevant)]


def _draw_column(case: QuestionCase, name: str, count: int, texts: dict[int, tuple[MarkedText, MarkedText]]) -> None:
    colour, shape = colour_of(name, case.view.names), shape_of(name, case.view.names)
    st.html(head_html(name, colour, shape, truth_line(case.findings[name], case.relevant, case.depth(name))))
    rows = _rows(case, name, count)
    if not rows:
        st.info(word("why.found_nothing"), icon=":material/info:")
    spec = case.spec(name)
    for row in rows:
        id_, relevant = case.passage(row).id, row in case.relevant
        one = hit(spec, case.findings, row, id_, texts[row], relevant=relevant, confuser=row in case.confusers)
        st.html(hits_html([one]))


def _draw_marks(case: QuestionCase, name: str, count: int, remarks: Remarks) -> None:
    """Draw the menu of a column's passages that do not answer: each can be a hard negative."""
    wrong = [row for row in _rows(case, name, count) if row not in case.relevant]
    if not wrong:
        return
    with st.expander(word("why.mark"), icon=":material/add_circle:"):
        st.caption(word("why.mark_help"))
        ranks = {row: rank for rank, row in enumerate(case.findings[name].rows, start=1)}
        for row in wrong:
            passage = case.passage(row)
            label = f"{ranks[row]} · {' · '.join(filter(None, (passage.title, passage.text[:_TOLD])))}"
            pair = (case.question.id, passage.id)
            compare_remarks.draw_mark(case.view.data.fingerprint, remarks, pair, label, f"{name} {row}")
