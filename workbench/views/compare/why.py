"""The Why tab: the questions on which retrievers differ, as a map and as a list; a question with its rankings."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import streamlit as st

from mrc_workbench.data.questions import judgements
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.retrieval.analysis.questions import Quadrant
from mrc_workbench.workbench.views.compare import controls, explained
from mrc_workbench.workbench.views.compare.controls import bind_to_address, change_address
from mrc_workbench.workbench.views.compare.questions import QuestionCase, QuestionList, draw_map, read_question_list
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import answers_line, kind_words, slice_names
from mrc_workbench.workbench.views.resources.retrieval import marked_passages
from mrc_workbench.workbench.views.resources.sets import question_set, split_of
from mrc_workbench.workbench.views.search.answer import draw_reasons
from mrc_workbench.workbench.views.ui import passages, tables
from mrc_workbench.workbench.views.ui.state import forget_scroll, scroll_to_top
from mrc_workbench.workbench.views.ui.words import plain, word

_COUNTS = ("3", "5", "10", "20")
_PARTS = ("rankings", "scores")
# Pixels
_QUESTION_WIDTH = 420  # most questions take one or two lines
_NARROW_QUESTION = 300
_TWO_LINES = 66  # Streamlit wraps the text of rows above 64
_RANK_WIDTH = 60
_OVERLAP_WIDTH = 80
_KIND_WIDTH = 104


@st.fragment
def draw(view: ComparisonView) -> None:
    if not any(result.rankings for result in view.results):
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    question_list = read_question_list(view)
    table = view.opened.questions(question_list.names)
    ids = table["id"][question_list.mask[table.index]].tolist()
    rows = {question.id: row for row, question in enumerate(view.comparison.question_set.questions)}
    question_id = st.query_params.get("question", "")
    if question_id in rows:
        draw_question(question_list, rows[question_id], ids)
        return
    forget_scroll()
    if question_id:
        st.warning(word("why.no_such_question", id=plain(question_id)), icon=":material/warning:")
    draw_map(question_list)
    _draw_quadrants(question_list)
    _draw_filters(question_list)
    total = len(view.comparison.question_set.questions)
    with st.container(horizontal=True, vertical_alignment="center"):
        if question_list.filters:
            values = {"count": f"{len(ids):,}", "all": f"{total:,}", "which": question_list.describe()}
            st.markdown(word("why.listed", **values), width="content")
            kwargs: dict[str, Any] = {"on_click": change_address, "args": (controls.NO_FILTERS,), "key": "why_clear"}
            st.button(word("why.clear"), icon=":material/filter_alt_off:", **kwargs)
        else:
            st.markdown(word("why.listed_all", all=f"{total:,}"), width="content")
    _draw_list(question_list)
    draw_remarks(view, judgements.load_remarks(view.data.fingerprint))


def _draw_quadrants(question_list: QuestionList) -> None:
    if len(question_list.names) < 2:
        return
    tables.draw_heading(word("why.quadrants", k=question_list.view.k), help=word("why.quadrants_help"))
    display_names = question_list.view.display_names
    options = {name: display_names[name] for name in question_list.names}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for letter, selected in zip("ab", question_list.pair, strict=True):
            controls.choose_in_address(letter, options, selected, word(f"why.retriever_{letter}"))
    counts = question_list.view.opened.quadrants(question_list.pair, question_list.view.k)
    a, b = (plain(display_names[name]) for name in question_list.pair)
    for column, quadrant in zip(st.columns(4), Quadrant, strict=True):
        label = word(f"why.{quadrant.value}", a=a, b=b)
        kind, value = ("primary", "") if question_list.quadrant is quadrant else ("secondary", quadrant.value)
        kwargs: dict[str, Any] = {"type": kind, "width": "stretch", "key": f"why_quadrant_{quadrant.value}"}
        kwargs |= {"on_click": change_address, "args": ({"quadrant": value},)}
        column.button(f"**{len(counts[quadrant]):,}**  \n{label}", **kwargs)


def _draw_filters(question_list: QuestionList) -> None:
    properties = question_list.view.opened.properties
    with st.expander(word("why.filters"), icon=":material/filter_alt:"):
        words = {"": word("why.any"), **{grouping.value: word(f"where.by_{grouping.value}") for grouping in properties}}
        grouping = question_list.grouping.value if question_list.grouping in properties else ""
        controls.choose_in_address("slice", words, grouping, word("why.slice"), "within")
        parts = question_list.view.opened.slices(question_list.grouping) if question_list.grouping else []
        names = slice_names(parts, question_list.grouping) if question_list.grouping else []
        labels = [f"{name} ({len(part.rows):,})" for name, part in zip(names, parts, strict=True)]
        slice_options = {"": word("why.any"), **{str(index): label for index, label in enumerate(labels)}}
        selected = "" if question_list.within is None else str(question_list.within)
        controls.choose_in_address("within", slice_options, selected, word("why.within"), disabled=not parts)
        kwargs = {"placeholder": word("why.words_placeholder"), **bind_to_address("words", question_list.words)}
        st.text_input(word("why.words"), type="search", max_chars=200, **kwargs)


def _draw_list(question_list: QuestionList) -> None:
    table = question_list.view.opened.questions(question_list.names)
    listed_questions = table[question_list.mask[table.index]].reset_index(drop=True)
    if listed_questions.empty:
        st.info(word("why.none_listed"), icon=":material/search_off:")
        return
    ids = listed_questions["id"].tolist()
    ranks = [f"rank_{column}" for column in range(len(question_list.names))]
    key = f"why_list_{abs(hash((question_list.describe(), question_list.names)))}"

    def pick() -> None:
        if rows := tables.selected_rows(st.session_state[key]):
            open_question(ids[rows[0]])

    st.caption(word("why.pick"))
    display_names = question_list.view.labels_for(question_list.names)
    widths = [max(_RANK_WIDTH, ceil(tables.header_width(name))) for name in display_names]
    wider = sum(widths) - _RANK_WIDTH * len(widths)  # longer names narrow the questions
    bar: dict[str, Any] = {"min_value": 0, "max_value": 100, "format": "%d%%", "width": _OVERLAP_WIDTH}
    bar["help"] = word("data_page.overlap_help")
    columns = {
        "question": tables.text("why.question", width=max(_NARROW_QUESTION, _QUESTION_WIDTH - wider), pinned=True),
        "kind": tables.text("why.kind", width=_KIND_WIDTH),
    }
    for rank, name, width in zip(ranks, display_names, widths, strict=True):
        columns[rank] = st.column_config.NumberColumn(name, help=word("why.rank_help"), width=width)
    columns["overlap"] = st.column_config.ProgressColumn(word("data_page.overlap"), **bar)
    column_order = [name for name in columns if name != "kind" or table["kind"].any()]
    percent = (100 * listed_questions["overlap"]).round()
    displayed = listed_questions.assign(kind=[*map(kind_words, listed_questions["kind"])], overlap=percent)
    kwargs: dict[str, Any] = {"hide_index": True, "placeholder": "–", "height": 500, "row_height": _TWO_LINES}
    kwargs |= {"on_select": pick, "selection_mode": tables.SINGLE_ROW, "key": key}
    st.dataframe(displayed, column_order=column_order, column_config=columns, **kwargs)
    titles = [word("why.rank_of", name=name) for name in question_list.names]
    column_titles = dict(zip(ranks, titles, strict=True))
    with st.container(horizontal=True):
        icon = ":material/arrow_forward:"
        st.button(word("why.first"), icon=icon, on_click=open_question, args=(ids[0],), key="why_first")
        tables.draw_csv("why.csv", lambda: listed_questions.rename(columns=column_titles), "questions.csv", "why_csv")


def open_question(id_: str) -> None:
    change_address({"question": id_, "explained": "", "against": ""})


def draw_question(question_list: QuestionList, row: int, ids: Sequence[str]) -> None:
    """Draw the question at `row`; `ids` of the listed questions, in their order."""
    case = QuestionCase(question_list, row)
    scroll_to_top(case.question.id)
    passages.draw_style()
    _draw_question_navigation(question_list, case.question.id, ids)
    st.subheader(plain(case.question.text), anchor=False)
    remarks = judgements.load_remarks(question_list.view.data.fingerprint)
    with st.spinner(word("why.reading")):  # while the analyzer is loaded
        left, right = st.columns([3, 2])
        with left:
            _draw_answers(case)
        with right:
            _draw_note(question_list.view.data.fingerprint, remarks, case.question.id)
        tables.draw_heading(word("why.reasons"))
        specs = [question_list.view.spec(name) for name in question_list.names]
        draw_reasons(case.results, specs, question_list.view.names)
    requested = st.query_params.get("shows", "")
    part = requested if requested in _PARTS else _PARTS[0]
    kwargs: dict[str, Any] = {"format_func": lambda name: word(f"why.shows_{name}"), "label_visibility": "collapsed"}
    st.segmented_control(word("compare.view"), _PARTS, **kwargs, **bind_to_address("shows", part))
    if part == "scores":
        explained.draw(case)
    else:
        # Hard negatives are useful only for training questions
        split = split_of(case.key, question_list.view.comparison.experiment.split_options)
        questions = question_set(case.key).questions
        marks = any(questions[row].id == case.question.id for row in split.rows[Part.TRAIN])
        draw_columns(case, remarks, marks=marks)


def _draw_question_navigation(question_list: QuestionList, name: str, ids: Sequence[str]) -> None:
    index = ids.index(name) if name in ids else None
    before = ids[index - 1] if index else ""
    after = ids[index + 1] if index is not None and index + 1 < len(ids) else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        cleared = dict.fromkeys(("question", "explained", "against"), "")
        st.button(word("why.back"), icon=":material/list:", on_click=change_address, args=(cleared,), key="why_back")
        for key, icon, target in (("before", "arrow_back", before), ("after", "arrow_forward", after)):
            kwargs: dict[str, Any] = {"icon": f":material/{icon}:", "disabled": not target, "key": f"why_{key}"}
            st.button(word(f"why.{key}"), on_click=open_question, args=(target,), **kwargs)
        text = word("why.not_listed")
        if index is not None:
            which = question_list.describe() or word("why.all_questions")
            text = word("why.position", position=f"{index + 1:,}", count=f"{len(ids):,}", which=which)
        st.caption(text, width="content")


def _draw_answers(case: QuestionCase) -> None:
    question = case.question
    kind = f"{word('why.kind')}: {plain(kind_words(question.kind))}" if question.kind else ""
    if details := " · ".join(filter(None, (answers_line(question), kind))):
        st.markdown(details)
    marked = marked_passages(case.key, question.text, case.relevant)
    for row, (title, text) in zip(case.relevant, marked, strict=True):
        heading = " · ".join(filter(None, (title.text, case.passage(row).id)))
        with st.expander(word("why.gold", name=plain(heading)), expanded=len(text.text) < 600):
            st.html(f'<div class="results"><p>{passages.marked_html(text, 0, len(text.text))}</p></div>')


def _draw_note(fingerprint: str, remarks: judgements.Remarks, question: str) -> None:
    key = f"note_{question}"
    kwargs: dict[str, Any] = {"max_chars": judgements.MAX_NOTE_LENGTH, "height": 80}
    kwargs["placeholder"] = word("why.note_placeholder")
    kwargs["on_change"] = lambda: judgements.write_note(fingerprint, question, st.session_state[key])
    st.text_area(word("why.note"), remarks.note(question), key=key, **kwargs)


def draw_remarks(view: ComparisonView, remarks: judgements.Remarks) -> None:
    with st.expander(word("why.remarks", count=f"{len(remarks):,}"), icon=":material/edit_note:"):
        st.caption(word("why.remarks_help"))
        if not len(remarks):
            st.info(word("why.no_remarks"), icon=":material/info:")
            return
        table = judgements.remarks_table(remarks, question_set(view.data.key))
        short = table.assign(passage=table["passage"].str.slice(0, 200))
        columns = {name: tables.text(f"why.remarks_{name}") for name in ("question", "note", "title", "passage")}
        rows = tables.draw_choice(short, columns, f"why_remarks_{len(remarks)}", multiple=True)
        with st.container(horizontal=True):
            pairs = table.iloc[rows][["question_id", "passage_id"]].to_numpy().tolist()
            kwargs: dict[str, Any] = {"on_click": _remove_remarks, "args": (view.data.fingerprint, pairs)}
            label = word("why.remove", count=len(rows))
            st.button(label, icon=":material/delete:", disabled=not rows, key="why_remove", **kwargs)
            tables.draw_csv("why.csv", lambda: table, "notes-and-hard-negatives.csv", "why_remarks_csv")


def _remove_remarks(fingerprint: str, pairs: list[list[str]]) -> None:
    for question, passage in pairs:
        if passage:
            judgements.unmark_negative(fingerprint, question, passage)
        else:
            judgements.write_note(fingerprint, question, "")


def draw_columns(case: QuestionCase, remarks: judgements.Remarks, *, marks: bool) -> None:
    selected = st.query_params.get("n", "")
    selected = selected if selected in _COUNTS else "5"
    st.segmented_control(word("search.k"), _COUNTS, help=word("why.rankings_help"), **bind_to_address("n", selected))
    count = int(selected)
    st.html(passages.legend_html(truth=bool(case.question.answers)))
    names = case.question_list.names
    rows = tuple(dict.fromkeys(row for name in names for row in _displayed_rows(case, name, count)))
    texts = dict(zip(rows, marked_passages(case.key, case.question.text, rows), strict=True))
    wide = min(passages.MOST, len(names))  # the last row has columns of the same width
    for first in range(0, len(names), passages.MOST):
        row_of_names = names[first : first + passages.MOST]
        ranks = [passages.first_answer_rank(case.findings[name], case.relevant) for name in row_of_names]
        columns = passages.side_by_side(row_of_names, case.view.names, ranks, f"why_{first}", wide=wide)
        for column, name in zip(columns, row_of_names, strict=True):
            with column:
                _draw_column(case, name, count, texts)
                if marks:
                    _draw_marks(case, name, count, remarks)


def _displayed_rows(case: QuestionCase, name: str, count: int) -> list[int]:
    ranked = case.findings[name].rows
    right = [row for row in ranked if row in case.relevant]
    return [*right, *(row for row in ranked[:count] if row not in case.relevant)]


def _draw_column(case: QuestionCase, name: str, count: int, texts: dict[int, tuple[MarkedText, MarkedText]]) -> None:
    known = passages.answer_rank_text(case.findings[name], case.relevant, case.depth(name))
    st.html(passages.head_html(name, case.view.names, known))
    rows = _displayed_rows(case, name, count)
    if not rows:
        st.info(word("why.no_results"), icon=":material/info:")
    spec = case.spec(name)
    confusers = case.view.opened.same_article_rows(case.row)
    for row in rows:
        flags = {"relevant": row in case.relevant, "confuser": row in confusers}
        card = passages.hit_card(spec, case.findings, row, case.passage(row).id, texts[row], **flags)
        st.html(passages.hits_html([card]))


def _draw_marks(case: QuestionCase, name: str, count: int, remarks: judgements.Remarks) -> None:
    wrong = [row for row in _displayed_rows(case, name, count) if row not in case.relevant]
    if not wrong:
        return
    with st.expander(word("why.mark"), icon=":material/add_circle:"):
        st.caption(word("why.mark_help"))
        ranks = {row: rank for rank, row in enumerate(case.findings[name].rows, start=1)}
        for row in wrong:
            passage = case.passage(row)
            label = " · ".join(filter(None, (str(ranks[row]), passage.title, passage.text[:30])))
            pair = (case.question.id, passage.id)
            key = f"mark_{name} {row}"
            # Several columns may show the same passage
            st.session_state[key] = is_marked = pair in remarks.negatives
            change_it = judgements.unmark_negative if is_marked else judgements.mark_negative
            st.checkbox(plain(label), key=key, on_change=change_it, args=(case.view.data.fingerprint, *pair))
