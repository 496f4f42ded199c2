"""What is worth knowing of a comparison before anything is looked for: on which kind of question they part, and one."""

import pandas as pd
import streamlit as st

from retrieval.analysis.slices import Property, most_contested, most_telling
from retrieval.comparison.first_stage import DenseSpec
from views import reasons
from views.compare.charts import on_slices
from views.compare.controls import show_why
from views.compare.scores import ComparisonView
from views.compare.why.questions import QuestionCase, listed
from views.names import answers_line, slice_names
from views.ui.charts import draw_chart
from views.ui.passages import draw_style
from views.ui.words import plain, signed, word

_CHARTED = 5


def draw(view: ComparisonView) -> None:
    """Draw the retrievers by kind of question, and beside it one question that they disagree on, with the reason."""
    if len(view.scored) < 2:
        return
    left, right = st.columns(2)
    with left:
        _draw_kinds(view)
    with right, st.container(border=True):
        _draw_question(view)


def draw_sentences(view: ComparisonView) -> None:
    """Say on which kind of question another is furthest above the baseline, and on which below, where that is sure."""
    by = _kinds(view)
    parts = view.opened.slices(by) if len(view.scored) > 1 else []
    if not parts:
        return
    figures, labels = _figures(view, by), slice_names(parts, by)
    sides = {"ahead": figures[figures["difference"] > 0], "behind": figures[figures["difference"] < 0]}
    said = [
        word(
            f"compare.finding_{side}",
            questions=word(f"where.on_{by.value}", label=plain(labels[most["slice"]])),
            name=plain(most["retriever"]),
            first=plain(view.baseline),
            points=f"{abs(most['difference']) * 100:.1f}",
            low=signed(most["difference_low"]),
            high=signed(most["difference_high"]),
        )
        for side, table in sides.items()
        if (most := most_telling(table)) is not None
    ]
    if said:
        st.markdown(" ".join(said))


def _kinds(view: ComparisonView) -> Property:
    return Property.KIND if Property.KIND in view.opened.properties else Property.OVERLAP


def _draw_kinds(view: ComparisonView) -> None:
    by = _kinds(view)
    parts = view.opened.slices(by)
    if not parts:
        return
    st.markdown(f"**{word('compare.by_kind', by=word(f'where.by_{by.value}'), figure=view.figure.long)}**")
    labels = slice_names(parts, by)
    figures = _figures(view, by)
    drawn = figures[figures["slice"].isin(most_contested(figures, _CHARTED))]
    sizes = drawn.groupby("slice")["questions"].first()
    rows = {place: f"{labels[place]} ({count:,})" for place, count in dict(sizes).items()}
    drawn = drawn.assign(row=drawn["slice"].map(rows))
    title = word("where.with_interval", figure=view.figure.long)
    draw_chart(on_slices, drawn, view.leading, view.names, [*rows.values()], x=title)


def _figures(view: ComparisonView, by: Property) -> pd.DataFrame:
    """The figures by kind of question of those that lead, tested with all that are picked."""
    figures = view.opened.slice_figures(by, view.scored_names, str(view.figure))
    return figures[figures["retriever"].isin(view.leading)]


@st.fragment
def _draw_question(view: ComparisonView) -> None:
    pair = _pair(view)
    rows = view.opened.disputed_rows(pair, 1)
    if not rows:
        st.caption(word("compare.all_agree"))
        return
    case = QuestionCase(listed(view), rows[0])
    draw_style()
    st.caption(word("compare.disputed", names=plain(" · ".join(pair))))
    st.markdown("  \n".join(filter(None, (f"**{plain(case.question.text)}**", answers_line(case.question)))))
    with st.spinner(word("why.reading")):
        reasons.draw(case.asked, [case.view.spec(name) for name in _by_rank(case, pair)], case.view.names)
    if st.button(word("compare.open_question"), icon=":material/arrow_forward:", type="tertiary", key="disputed"):
        show_why({"question": case.question.id})
        st.rerun()  # the whole page: another view is to be seen


def _pair(view: ComparisonView) -> tuple[str, str]:
    """The baseline and the best dense retriever, whose finds are least alike; the best of any kind where none is."""
    first, *others = view.leading
    dense = [name for name in others if isinstance(view.spec(name).local, DenseSpec)]
    means = {name: view.comparison.scores[name].means()[str(view.figure)] for name in dense or others}
    return first, max(means, key=means.__getitem__)


def _by_rank(case: QuestionCase, pair: tuple[str, str]) -> list[str]:
    """The two, first the one that puts the answer higher."""
    return sorted(pair, key=lambda name: case.duel(name).right_rank or case.depth(name) + 1)
