"""Why: which questions a retriever loses and another finds, and for each of them the reason."""

import streamlit as st

from data.remarks import remarks_of
from retrieval.analysis.questions import Quadrant
from views.compare.controls import choose_in_address, clear_filters, set_parameter, tie
from views.compare.scores import ComparisonView
from views.compare.why import map as compare_why_map
from views.compare.why import question as compare_question
from views.compare.why import question as compare_remarks
from views.compare.why.questions import QuestionList, listed
from views.names import kind_words, slice_names
from views.ui import tables
from views.ui.state import leave_top
from views.ui.words import plain, word


@st.fragment
def draw(view: ComparisonView) -> None:
    """Draw the view: one question where the address names one, else all of them."""
    if not any(one.rankings for one in view.results):
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    of = listed(view)
    table = view.opened.questions(of.names)
    ids = table["id"][of.mask[table.index]].tolist()
    rows = {question.id: row for row, question in enumerate(view.comparison.question_set.questions)}
    asked = st.query_params.get("question", "")
    if asked in rows:
        compare_question.draw(of, rows[asked], ids)
        return
    leave_top()
    if asked:
        st.warning(word("why.no_such_question", id=plain(asked)), icon=":material/warning:")
    compare_why_map.draw(of)
    _draw_quadrants(of)
    _draw_filters(of)
    _draw_said(of, len(ids))
    _draw_list(of)
    compare_remarks.draw_remarks(view, remarks_of(view.data.fingerprint))


def _draw_quadrants(of: QuestionList) -> None:
    if len(of.names) < 2:
        return
    st.markdown(f"**{word('why.quadrants', k=of.view.k)}**", help=word("why.quadrants_help"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for letter, chosen in zip("ab", of.pair, strict=True):
            choose_in_address(letter, of.names, chosen, word(f"why.retriever_{letter}"), of.names)
    counts = of.view.opened.quadrants(of.pair, of.view.k)
    a, b = map(plain, of.pair)
    for place, quadrant in zip(st.columns(4), Quadrant, strict=True):
        label = word(f"why.{quadrant.value}", a=a, b=b)
        place.button(
            f"**{len(counts[quadrant]):,}**  \n{label}",
            key=f"why_quadrant_{quadrant.value}",
            type="primary" if of.quadrant is quadrant else "secondary",
            on_click=set_parameter,
            args=("quadrant", quadrant.value),
            width="stretch",
        )


def _draw_filters(of: QuestionList) -> None:
    properties = of.view.opened.properties
    with st.expander(word("why.filters"), icon=":material/filter_alt:"):
        words = {by.value: word(f"where.by_{by.value}") for by in properties}
        by = of.by.value if of.by in properties else ""
        choose_in_address(
            "slice", ["", *words], by, word("why.slice"), [word("why.any"), *words.values()], also=("within",)
        )
        parts = of.view.opened.slices(of.by) if of.by else []
        names = slice_names(parts, of.by) if of.by else []
        labels = [f"{name} ({len(part.rows):,})" for name, part in zip(names, parts, strict=True)]
        places = [str(place) for place in range(len(parts))]
        chosen = "" if of.within is None else str(of.within)
        choose_in_address(
            "within", ["", *places], chosen, word("why.within"), [word("why.any"), *labels], disabled=not parts
        )
        place = tie("words", of.words)
        st.text_input(
            word("why.words"), type="search", placeholder=word("why.words_placeholder"), max_chars=200, **place
        )


def _draw_said(of: QuestionList, count: int) -> None:
    every = len(of.view.comparison.question_set.questions)
    with st.container(horizontal=True, vertical_alignment="center"):
        if of.filtered:
            st.markdown(word("why.listed", count=f"{count:,}", all=f"{every:,}", which=of.in_words()), width="content")
            st.button(word("why.clear"), icon=":material/filter_alt_off:", on_click=clear_filters, key="why_clear")
        else:
            st.markdown(word("why.listed_all", all=f"{every:,}"), width="content")


def _draw_list(of: QuestionList) -> None:
    table = of.view.opened.questions(of.names)
    shown = table[of.mask[table.index]].reset_index(drop=True)
    if shown.empty:
        st.info(word("why.none_listed"), icon=":material/search_off:")
        return
    ids = shown["id"].tolist()
    ranks = [f"rank_{column}" for column in range(len(of.names))]
    key = f"why_list_{abs(hash((of.in_words(), of.names)))}"

    def pick() -> None:
        if rows := st.session_state[key]["selection"]["rows"]:
            compare_question.open_question(ids[rows[0]])

    st.caption(word("why.pick"))
    share, rank_help = st.column_config.ProgressColumn, word("why.rank_help")
    columns = {
        "question": tables.text("why.question", width=280, pinned=True),
        "kind": tables.text("why.kind", width=110),
        **{
            rank: st.column_config.NumberColumn(name, help=rank_help, width=70)
            for rank, name in zip(ranks, of.names, strict=True)
        },
        "overlap": share(word("data_page.overlap"), width=95, help=word("data_page.overlap_help"), format="percent"),
    }
    st.dataframe(
        shown.assign(kind=[*map(kind_words, shown["kind"])]),
        column_order=[name for name in columns if name != "kind" or table["kind"].any()],
        column_config=columns,
        hide_index=True,
        placeholder="–",
        height=420,
        on_select=pick,
        selection_mode="single-row",
        key=key,
    )
    named = {rank: word("why.rank_of", name=name) for rank, name in zip(ranks, of.names, strict=True)}
    with st.container(horizontal=True):
        st.button(
            word("why.first"),
            icon=":material/arrow_forward:",
            on_click=compare_question.open_question,
            args=(ids[0],),
            key="why_first",
        )
        tables.draw_csv("why.csv", lambda: shown.rename(columns=named), "questions.csv", "why_csv")
