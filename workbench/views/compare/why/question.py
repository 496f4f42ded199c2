"""One question of a comparison: what each retriever put where, and why; its note, and its hard negatives."""

from collections.abc import Sequence

import streamlit as st

from mrc_workbench.data.questions.judgements import (
    LONGEST_NOTE,
    Remarks,
    as_table,
    mark_negative,
    remarks_of,
    unmark_negative,
    write_note,
)
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.workbench.views import reasons
from mrc_workbench.workbench.views.compare.controls import change, tie
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.compare.why import scores
from mrc_workbench.workbench.views.compare.why.questions import QuestionCase, QuestionList
from mrc_workbench.workbench.views.names import answers_line, kind_words
from mrc_workbench.workbench.views.resources.retrieval import marked_passages
from mrc_workbench.workbench.views.resources.sets import question_set, split_of
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.headings import draw_heading
from mrc_workbench.workbench.views.ui.passages import (
    MOST,
    draw_style,
    head_html,
    hit,
    hits_html,
    legend_html,
    marked_html,
    right_ranks,
    side_by_side,
    truth_line,
)
from mrc_workbench.workbench.views.ui.state import show_top
from mrc_workbench.workbench.views.ui.words import plain, word

_COUNTS = ("3", "5", "10", "20")
_PARTS = ("rankings", "scores")


def open_question(id_: str) -> None:
    """Put a question into the address; the parameters of another one go."""
    change({"question": id_, "explained": "", "against": ""})


def draw(of: QuestionList, row: int, ids: Sequence[str]) -> None:
    """Draw the question at `row`; `ids` are those of the list it was picked from, in its order."""
    asked = QuestionCase(of, row)
    show_top(asked.question.id)
    draw_style()
    _draw_way(of, asked.question.id, ids)
    st.subheader(plain(asked.question.text), anchor=False)
    remarks = remarks_of(of.view.data.fingerprint)
    with st.spinner(word("why.reading")):  # the first time, while the analyzer is loaded
        left, right = st.columns([3, 2])
        with left:
            _draw_known(asked)
        with right:
            _draw_note(of.view.data.fingerprint, remarks, asked.question.id)
        draw_heading(word("why.reasons"))
        reasons.draw(asked.asked, [of.view.spec(name) for name in of.names], of.view.names)
    wanted = st.query_params.get("shows", "")
    part = wanted if wanted in _PARTS else _PARTS[0]
    st.segmented_control(
        word("compare.view"),
        _PARTS,
        format_func=lambda one: word(f"why.shows_{one}"),
        label_visibility="collapsed",
        **tie("shows", part),
    )
    if part == "scores":
        scores.draw(asked)
    else:
        draw_columns(asked, remarks, marks=_can_be_learned(asked))


def _draw_way(of: QuestionList, name: str, ids: Sequence[str]) -> None:
    place = ids.index(name) if name in ids else None
    before = ids[place - 1] if place else ""
    after = ids[place + 1] if place is not None and place + 1 < len(ids) else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        nothing = dict.fromkeys(("question", "explained", "against"), "")
        st.button(word("why.back"), icon=":material/list:", on_click=change, args=(nothing,), key="why_back")
        for key, icon, target in (("before", "arrow_back", before), ("after", "arrow_forward", after)):
            st.button(
                word(f"why.{key}"),
                icon=f":material/{icon}:",
                on_click=open_question,
                args=(target,),
                disabled=not target,
                key=f"why_{key}",
            )
        if place is not None:
            said = of.in_words() or word("why.all_questions")
            st.caption(word("why.place", place=f"{place + 1:,}", count=f"{len(ids):,}", which=said), width="content")
        else:
            st.caption(word("why.not_listed"), width="content")


def _draw_known(case: QuestionCase) -> None:
    question = case.question
    kind = f"{word('why.kind')}: {plain(kind_words(question.kind))}" if question.kind else ""
    if told := " · ".join(filter(None, (answers_line(question), kind))):
        st.markdown(told)
    for row, (title, text) in zip(
        case.relevant, marked_passages(case.view.data.key, question.text, case.relevant), strict=True
    ):
        id_ = case.view.comparison.question_set.passages[row].id
        heading = " · ".join(part for part in (title.text, id_) if part)
        with st.expander(word("why.gold", name=plain(heading)), expanded=len(text.text) < 600):
            st.html(f'<div class="found"><p>{marked_html(text, 0, len(text.text))}</p></div>')


def _can_be_learned(case: QuestionCase) -> bool:
    """Whether marks of this question teach anything: training never sees those it is measured with."""
    options, questions = case.view.comparison.experiment.split_options, question_set(case.view.data.key).questions
    parts = split_of(case.view.data.key, options)
    return any(questions[row].id == case.question.id for row in parts.rows[Part.TRAIN])


def _draw_note(fingerprint: str, remarks: Remarks, question: str) -> None:
    key = f"note_{question}"
    st.text_area(
        word("why.note"),
        value=remarks.note(question),
        key=key,
        max_chars=LONGEST_NOTE,
        height=80,
        placeholder=word("why.note_placeholder"),
        on_change=lambda: write_note(fingerprint, question, st.session_state[key]),
    )


def draw_remarks(view: ComparisonView, remarks: Remarks) -> None:
    with st.expander(word("why.remarks", count=f"{len(remarks):,}"), icon=":material/edit_note:"):
        st.caption(word("why.remarks_help"))
        if not len(remarks):
            st.info(word("why.no_remarks"), icon=":material/info:")
            return
        table = as_table(remarks, question_set(view.data.key))
        short = table.assign(passage=table["passage"].str.slice(0, 200))
        columns = {name: tables.text(f"why.remarks_{name}") for name in ("question", "note", "title", "passage")}
        rows = tables.draw_choice(short, columns, f"why_remarks_{len(remarks)}", "multi-row")
        with st.container(horizontal=True):
            st.button(
                word("why.remove", count=len(rows)),
                icon=":material/delete:",
                disabled=not rows,
                on_click=_remove_remarks,
                args=(view.data.fingerprint, table.iloc[rows][["question_id", "passage_id"]].to_numpy().tolist()),
                key="why_remove",
            )
            tables.draw_csv("why.csv", lambda: table, "notes-and-hard-negatives.csv", "why_remarks_csv")


def _remove_remarks(fingerprint: str, pairs: list[list[str]]) -> None:
    for question, passage in pairs:
        if passage:
            unmark_negative(fingerprint, question, passage)
        else:
            write_note(fingerprint, question, "")


def draw_columns(case: QuestionCase, remarks: Remarks, *, marks: bool) -> None:
    """Draw a column a retriever, four in a row, the passages that answer on top; `marks`: others can be marked."""
    chosen = st.query_params.get("n", "")
    chosen = chosen if chosen in _COUNTS else "5"
    st.segmented_control(word("search.k"), _COUNTS, help=word("why.rankings_help"), **tie("n", chosen))
    count = int(chosen)
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


def _rows(case: QuestionCase, name: str, count: int) -> list[int]:
    """Return rows of those passages that answer, wherever they were found, and of the first others."""
    found = case.findings[name].rows
    right = [row for row in found if row in case.relevant]
    return [*right, *(row for row in found[:count] if row not in case.relevant)]


def _draw_column(case: QuestionCase, name: str, count: int, texts: dict[int, tuple[MarkedText, MarkedText]]) -> None:
    known = truth_line(case.findings[name], case.relevant, case.depth(name))
    st.html(head_html(name, case.view.names, known))
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
            label = " · ".join(filter(None, (str(ranks[row]), passage.title, passage.text[:30])))
            pair, key = (case.question.id, passage.id), f"mark_{name} {row}"
            # the same passage may stand in several columns
            st.session_state[key] = is_marked = pair in remarks.negatives
            change_it = unmark_negative if is_marked else mark_negative
            st.checkbox(plain(label), key=key, on_change=change_it, args=(case.view.data.fingerprint, *pair))
