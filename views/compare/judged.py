"""How much of what was found somebody judged: who is at a disadvantage, the figures, and the way to judge more."""

import streamlit as st

from retrieval.analysis.evidence import JUDGED, judged_measures
from retrieval.evaluation.measures import CUT
from views.compare.scores import ComparisonView, means
from views.search.judging import draw_begin
from views.ui import tables
from views.ui.words import plain, word


def draw_notice(view: ComparisonView) -> None:
    """Say which retrievers are at a disadvantage, where some are, and offer to judge what was found."""
    behind = [test for test in view.opened.at_disadvantage if test.a in view.scored_names]
    if not behind:
        return
    shares = {name: of.means().get(JUDGED, 0.0) for name, of in view.comparison.scores.items()}
    names = ", ".join(f"{plain(test.a)} ({shares[test.a] * 100:.0f}%)" for test in behind)
    best = behind[0].b
    said = word("compare.behind", names=names, best=plain(best), share=f"{shares[best] * 100:.0f}", k=CUT)
    st.warning(said, icon=":material/balance:")
    _begin(view)


def draw(view: ComparisonView) -> None:
    """Draw the figures of what was judged; where only relevant passages are known, what that means."""
    judged = judged_measures({result.name: result.scores for result in view.scored if result.scores})
    if view.comparison.question_set.judged is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(word("compare.only_relevant"), width="stretch")
            _begin(view)
    if JUDGED not in judged:
        return
    st.markdown(f"**{word('compare.judged')}**")
    st.caption(word("compare.judged_about"))
    table = means(view.scored)
    table["unjudged"] = 1 - table[JUDGED]
    shown = [JUDGED, "unjudged", *(one for one in judged if one != JUDGED)]
    table[shown] *= 100
    columns = {
        "retriever": tables.retriever(width=tables.width_of(table["retriever"])),
        JUDGED: tables.measure(JUDGED),
        "unjudged": tables.number("compare.unjudged", "%.2f"),
        **{one: tables.measure(one) for one in judged if one != JUDGED},
    }
    tables.draw(table.style.format(dict.fromkeys(shown, "{:.2f}"), na_rep="–"), columns, placeholder="–")
    if not view.opened.at_disadvantage:
        _begin(view)


def _begin(view: ComparisonView) -> None:
    draw_begin(view.data, view.opened.folder.name, len(view.comparison.question_set.questions))
