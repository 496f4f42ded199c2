"""Why: which questions a retriever loses and another finds, as a map and as a list; and one question in full.

Of one question: what each retriever put where, and why; its note, and its hard negatives.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

import streamlit as st

from mrc_workbench.data.questions import judgements
from mrc_workbench.data.questions.judgements import Remarks
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.retrieval.analysis.questions import Quadrant
from mrc_workbench.workbench.views.compare import explained
from mrc_workbench.workbench.views.compare.controls import NO_FILTERS, change, choose_in_address, tie
from mrc_workbench.workbench.views.compare.questions import QuestionCase, QuestionList, draw_map, listed
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import answers_line, kind_words, slice_names
from mrc_workbench.workbench.views.resources.retrieval import marked_passages
from mrc_workbench.workbench.views.resources.sets import question_set, split_of
from mrc_workbench.workbench.views.search.answer import draw_reasons
from mrc_workbench.workbench.views.ui import passages, tables
from mrc_workbench.workbench.views.ui.state import leave_top, show_top
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import plain, word

_QUESTION_WIDTH = 420  # pixels: the widest column, in which most questions take one or two lines
_NARROW_QUESTION = 300
_TWO_LINES = 66  # pixels of a row: Streamlit wraps the text of rows above 64
_RANK_WIDTH, _OVERLAP_WIDTH, _KIND_WIDTH = 60, 80, 104


@st.fragment
def draw(view: ComparisonView) -> None:
    if not any(one.rankings for one in view.results):
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    of = listed(view)
    table = view.opened.questions(of.names)
    ids = table["id"][of.mask[table.index]].tolist()
    rows = {question.id: row for row, question in enumerate(view.comparison.question_set.questions)}
    asked = st.query_params.get("question", "")
    if asked in rows:
        draw_question(of, rows[asked], ids)
        return
    leave_top()
    if asked:
        st.warning(word("why.no_such_question", id=plain(asked)), icon=":material/warning:")
    draw_map(of)
    _draw_quadrants(of)
    _draw_filters(of)
    every = len(view.comparison.question_set.questions)
    with st.container(horizontal=True, vertical_alignment="center"):
        if of.filters:
            told = {"count": f"{len(ids):,}", "all": f"{every:,}", "which": of.in_words()}
            st.markdown(word("why.listed", **told), width="content")
            icon = ":material/filter_alt_off:"
            st.button(word("why.clear"), icon=icon, on_click=change, args=(NO_FILTERS,), key="why_clear")
        else:
            st.markdown(word("why.listed_all", all=f"{every:,}"), width="content")
    _draw_list(of)
    draw_remarks(view, judgements.remarks_of(view.data.fingerprint))


def _draw_quadrants(of: QuestionList) -> None:
    if len(of.names) < 2:
        return
    draw_heading(word("why.quadrants", k=of.view.k), help=word("why.quadrants_help"))
    called = of.view.display_names
    options = {name: called[name] for name in of.names}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for letter, chosen in zip("ab", of.pair, strict=True):
            choose_in_address(letter, options, chosen, word(f"why.retriever_{letter}"))
    counts = of.view.opened.quadrants(of.pair, of.view.k)
    a, b = (plain(called[name]) for name in of.pair)
    for place, quadrant in zip(st.columns(4), Quadrant, strict=True):
        label = word(f"why.{quadrant.value}", a=a, b=b)
        kind, value = ("primary", "") if of.quadrant is quadrant else ("secondary", quadrant.value)
        look: dict[str, Any] = {"type": kind, "width": "stretch", "key": f"why_quadrant_{quadrant.value}"}
        place.button(f"**{len(counts[quadrant]):,}**  \n{label}", on_click=change, args=({"quadrant": value},), **look)


def _draw_filters(of: QuestionList) -> None:
    properties = of.view.opened.properties
    with st.expander(word("why.filters"), icon=":material/filter_alt:"):
        words = {"": word("why.any"), **{by.value: word(f"where.by_{by.value}") for by in properties}}
        by = of.by.value if of.by in properties else ""
        choose_in_address("slice", words, by, word("why.slice"), also=("within",))
        parts = of.view.opened.slices(of.by) if of.by else []
        names = slice_names(parts, of.by) if of.by else []
        labels = [f"{name} ({len(part.rows):,})" for name, part in zip(names, parts, strict=True)]
        places = {"": word("why.any"), **{str(place): label for place, label in enumerate(labels)}}
        chosen = "" if of.within is None else str(of.within)
        choose_in_address("within", places, chosen, word("why.within"), disabled=not parts)
        look = {"placeholder": word("why.words_placeholder"), "max_chars": 200, **tie("words", of.words)}
        st.text_input(word("why.words"), type="search", **look)


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
        if rows := tables.selected_rows(st.session_state[key]):
            open_question(ids[rows[0]])

    st.caption(word("why.pick"))
    called = of.view.called(of.names)
    widths = [max(_RANK_WIDTH, ceil(tables.header_width(name))) for name in called]
    wider = sum(widths) - _RANK_WIDTH * len(widths)  # the questions give way to longer names
    bar: dict[str, Any] = {"min_value": 0, "max_value": 100, "format": "%d%%", "width": _OVERLAP_WIDTH}
    bar["help"] = word("data_page.overlap_help")
    columns = {
        "question": tables.text("why.question", width=max(_NARROW_QUESTION, _QUESTION_WIDTH - wider), pinned=True),
        "kind": tables.text("why.kind", width=_KIND_WIDTH),
        **{
            rank: st.column_config.NumberColumn(name, help=word("why.rank_help"), width=width)
            for rank, name, width in zip(ranks, called, widths, strict=True)
        },
        "overlap": st.column_config.ProgressColumn(word("data_page.overlap"), **bar),
    }
    drawn = [name for name in columns if name != "kind" or table["kind"].any()]
    shown_now = shown.assign(kind=[*map(kind_words, shown["kind"])], overlap=(100 * shown["overlap"]).round())
    look: dict[str, Any] = {"hide_index": True, "placeholder": "–", "height": 500, "row_height": _TWO_LINES}
    look |= {"on_select": pick, "selection_mode": tables.SINGLE_ROW, "key": key}
    st.dataframe(shown_now, column_order=drawn, column_config=columns, **look)
    named = {rank: word("why.rank_of", name=name) for rank, name in zip(ranks, of.names, strict=True)}
    with st.container(horizontal=True):
        icon = ":material/arrow_forward:"
        st.button(word("why.first"), icon=icon, on_click=open_question, args=(ids[0],), key="why_first")
        tables.draw_csv("why.csv", lambda: shown.rename(columns=named), "questions.csv", "why_csv")


_COUNTS = ("3", "5", "10", "20")
_PARTS = ("rankings", "scores")


def open_question(id_: str) -> None:
    change({"question": id_, "explained": "", "against": ""})


def draw_question(of: QuestionList, row: int, ids: Sequence[str]) -> None:
    """Draw the question at `row`; `ids` are those of the list it was selected from, in its order."""
    asked = QuestionCase(of, row)
    show_top(asked.question.id)
    passages.draw_style()
    _draw_way(of, asked.question.id, ids)
    st.subheader(plain(asked.question.text), anchor=False)
    remarks = judgements.remarks_of(of.view.data.fingerprint)
    with st.spinner(word("why.reading")):  # the first time, while the analyzer is loaded
        left, right = st.columns([3, 2])
        with left:
            _draw_known(asked)
        with right:
            _draw_note(of.view.data.fingerprint, remarks, asked.question.id)
        draw_heading(word("why.reasons"))
        draw_reasons(asked.asked, [of.view.spec(name) for name in of.names], of.view.names)
    wanted = st.query_params.get("shows", "")
    part = wanted if wanted in _PARTS else _PARTS[0]
    look: dict[str, Any] = {"format_func": lambda name: word(f"why.shows_{name}"), "label_visibility": "collapsed"}
    st.segmented_control(word("compare.view"), _PARTS, **look, **tie("shows", part))
    if part == "scores":
        explained.draw(asked)
    else:
        # training never sees the questions it is measured with: marks of those teach nothing
        learned = split_of(of.view.data.key, of.view.comparison.experiment.split_options).rows[Part.TRAIN]
        questions = question_set(of.view.data.key).questions
        draw_columns(asked, remarks, marks=any(questions[row].id == asked.question.id for row in learned))


def _draw_way(of: QuestionList, name: str, ids: Sequence[str]) -> None:
    place = ids.index(name) if name in ids else None
    before = ids[place - 1] if place else ""
    after = ids[place + 1] if place is not None and place + 1 < len(ids) else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        nothing = dict.fromkeys(("question", "explained", "against"), "")
        st.button(word("why.back"), icon=":material/list:", on_click=change, args=(nothing,), key="why_back")
        for key, icon, target in (("before", "arrow_back", before), ("after", "arrow_forward", after)):
            look: dict[str, Any] = {"icon": f":material/{icon}:", "disabled": not target, "key": f"why_{key}"}
            st.button(word(f"why.{key}"), on_click=open_question, args=(target,), **look)
        told = word("why.not_listed")
        if place is not None:
            which = of.in_words() or word("why.all_questions")
            told = word("why.place", place=f"{place + 1:,}", count=f"{len(ids):,}", which=which)
        st.caption(told, width="content")


def _draw_known(case: QuestionCase) -> None:
    question = case.question
    kind = f"{word('why.kind')}: {plain(kind_words(question.kind))}" if question.kind else ""
    if told := " · ".join(filter(None, (answers_line(question), kind))):
        st.markdown(told)
    marked = marked_passages(case.key, question.text, case.relevant)
    for row, (title, text) in zip(case.relevant, marked, strict=True):
        heading = " · ".join(filter(None, (title.text, case.passage(row).id)))
        with st.expander(word("why.gold", name=plain(heading)), expanded=len(text.text) < 600):
            st.html(f'<div class="found"><p>{passages.marked_html(text, 0, len(text.text))}</p></div>')


def _draw_note(fingerprint: str, remarks: Remarks, question: str) -> None:
    key = f"note_{question}"
    look: dict[str, Any] = {"max_chars": judgements.LONGEST_NOTE, "height": 80}
    look["placeholder"] = word("why.note_placeholder")
    look["on_change"] = lambda: judgements.write_note(fingerprint, question, st.session_state[key])
    st.text_area(word("why.note"), remarks.note(question), key=key, **look)


def draw_remarks(view: ComparisonView, remarks: Remarks) -> None:
    with st.expander(word("why.remarks", count=f"{len(remarks):,}"), icon=":material/edit_note:"):
        st.caption(word("why.remarks_help"))
        if not len(remarks):
            st.info(word("why.no_remarks"), icon=":material/info:")
            return
        table = judgements.as_table(remarks, question_set(view.data.key))
        short = table.assign(passage=table["passage"].str.slice(0, 200))
        columns = {name: tables.text(f"why.remarks_{name}") for name in ("question", "note", "title", "passage")}
        rows = tables.draw_choice(short, columns, f"why_remarks_{len(remarks)}", "multi-row")
        with st.container(horizontal=True):
            pairs = table.iloc[rows][["question_id", "passage_id"]].to_numpy().tolist()
            look: dict[str, Any] = {"on_click": _remove_remarks, "args": (view.data.fingerprint, pairs)}
            label = word("why.remove", count=len(rows))
            st.button(label, icon=":material/delete:", disabled=not rows, key="why_remove", **look)
            tables.draw_csv("why.csv", lambda: table, "notes-and-hard-negatives.csv", "why_remarks_csv")


def _remove_remarks(fingerprint: str, pairs: list[list[str]]) -> None:
    for question, passage in pairs:
        if passage:
            judgements.unmark_negative(fingerprint, question, passage)
        else:
            judgements.write_note(fingerprint, question, "")


def draw_columns(case: QuestionCase, remarks: Remarks, *, marks: bool) -> None:
    chosen = st.query_params.get("n", "")
    chosen = chosen if chosen in _COUNTS else "5"
    st.segmented_control(word("search.k"), _COUNTS, help=word("why.rankings_help"), **tie("n", chosen))
    count = int(chosen)
    st.html(passages.legend_html(truth=bool(case.question.answers)))
    names = case.question_list.names
    rows = tuple(dict.fromkeys(row for name in names for row in _rows(case, name, count)))
    texts = dict(zip(rows, marked_passages(case.key, case.question.text, rows), strict=True))
    for first in range(0, len(names), passages.MOST):
        row_of_names = names[first : first + passages.MOST]
        # as wide as the others, however few are left for the last row
        ranks = [next(iter(passages.right_ranks(case.findings[name], case.relevant)), None) for name in row_of_names]
        wide = min(passages.MOST, len(names))
        places = passages.side_by_side(row_of_names, case.view.names, ranks, f"why_{first}", wide=wide)
        for place, name in zip(places, row_of_names, strict=True):
            with place:
                _draw_column(case, name, count, texts)
                if marks:
                    _draw_marks(case, name, count, remarks)


def _rows(case: QuestionCase, name: str, count: int) -> list[int]:
    found = case.findings[name].rows
    right = [row for row in found if row in case.relevant]
    return [*right, *(row for row in found[:count] if row not in case.relevant)]


def _draw_column(case: QuestionCase, name: str, count: int, texts: dict[int, tuple[MarkedText, MarkedText]]) -> None:
    known = passages.truth_line(case.findings[name], case.relevant, case.depth(name))
    st.html(passages.head_html(name, case.view.names, known))
    rows = _rows(case, name, count)
    if not rows:
        st.info(word("why.found_nothing"), icon=":material/info:")
    spec = case.spec(name)
    for row in rows:
        id_, relevant = case.passage(row).id, row in case.relevant
        one = passages.hit(spec, case.findings, row, id_, texts[row], relevant=relevant, confuser=row in case.confusers)
        st.html(passages.hits_html([one]))


def _draw_marks(case: QuestionCase, name: str, count: int, remarks: Remarks) -> None:
    wrong = [row for row in _rows(case, name, count) if row not in case.relevant]
    if not wrong:
        return
    with st.expander(word("why.mark"), icon=":material/add_circle:"):
        st.caption(word("why.mark_help"))
        ranks = {row: rank for rank, row in enumerate(case.findings[name].rows, start=1)}
        for row in wrong:
            passage = case.passage(row)
            label = " · ".join(filter(None, (str(ranks[row]), passage.title, passage.text[:30])))
            pair, key = (case.question.id, passage.id), f"mark_{name} {row}"
            # the same passage may stand in several columns
            st.session_state[key] = is_marked = pair in remarks.negatives
            change_it = judgements.unmark_negative if is_marked else judgements.mark_negative
            st.checkbox(plain(label), key=key, on_change=change_it, args=(case.view.data.fingerprint, *pair))
