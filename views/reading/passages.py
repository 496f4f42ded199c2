"""The passages that retrievers found, side by side, with the spans that the reader sees in them, and why one won."""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
import streamlit as st

from data.records import QuestionSet
from retrieval.comparison.kinds.spec import Spec
from retrieval.report.colours import colour_of, shape_of
from text.marking import MarkedText
from views.reading.column import ReadColumn, ReadPassage, answer_of, spanned
from views.reading.figures import probability
from views.ui.passages import Hit, head_html, hits_html
from views.ui.words import plain, word

_BELOW_THE_TOP = "scroll-margin-top: 5rem"  # the row of pages covers the top


def legend(*, others: bool) -> None:
    """Draw what the marks mean; of kept readings only the best span is known, no `others`."""
    best, second = (escape(word(f"answers.legend_{one}")) for one in ("best", "second"))
    more = f"<span><u>{second}</u></span>" if others else ""
    st.html(f'<div class="found-legend"><span><mark>{best}</mark></span>{more}</div>')


def draw_head(column: ReadColumn, names: Sequence[str]) -> None:
    """Draw a column's head: the retriever, and the rank of the passage that answers."""
    place = column.right
    truth = word("search.gold_at", rank=place + 1) if place >= 0 else ""
    st.html(head_html(column.name, colour_of(column.name, names), shape_of(column.name, names), truth))


def draw_passages(
    column: ReadColumn,
    spec: Spec,
    question_set: QuestionSet,
    *,
    anchor: str = "",
    below: Callable[[ReadPassage], None] | None = None,
) -> None:
    """Draw a column's passages; where there is an `anchor`, links find each by it and its number."""
    for place, one in enumerate(column.passages):
        passage = question_set.passages[one.row]
        hit = Hit(
            rank=place + 1,
            score=f"{one.found:.{spec.local.digits}f}",
            passage_id=passage.id,
            title=MarkedText(passage.title),
            text=spanned(passage.text, one.spans),
            relevant=one.relevant,
            notes=_notes(column, place, question_set),
        )
        with st.container(gap=None):
            target = f'<span id="{escape(anchor)}-{place + 1}" style="{_BELOW_THE_TOP}"></span>' if anchor else ""
            st.html(target + hits_html([hit]))
            if below:
                below(one)


def _notes(column: ReadColumn, place: int, question_set: QuestionSet) -> list[str]:
    one = column.passages[place]
    if not column.read:
        return []
    if not one.spans or not np.isfinite(one.best):
        return [word("answers.no_span")]
    told = word("answers.span_note", answer=answer_of(column, question_set, place), p=probability(one.best))
    return [f"★ {word('answers.taken')} · {told}" if place == column.won else told]


def reason(column: ReadColumn, question_set: QuestionSet) -> str:
    """Say by which numbers a passage won against the one that answers by the data; empty where it did not. Markdown."""
    right = column.right
    if column.won < 0:
        return ""
    if right < 0:
        return word("answers.why_not_found", k=len(column.passages))
    if right == column.won:
        return ""
    sides = {"won": column.won, "right": right}
    values: dict[str, object] = {}
    for side, place in sides.items():
        one = column.passages[place]
        values |= {
            f"{side}_rank": place + 1,
            f"{side}_answer": plain(answer_of(column, question_set, place) or "–"),
            f"{side}_score": _number(one.best),
            f"{side}_below": f"{column.below(place):.3f}",
            f"{side}_total": _number(one.total),
        }
    kind = "weighed" if column.weight else "by_reader"
    return word(f"answers.why_{kind}", weight=f"{column.weight:g}", **values)


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if np.isfinite(value) and value > -1e8 else "−∞"
