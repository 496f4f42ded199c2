"""What was understood of a file, what is wrong with it, and the button that puts it to use."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial

import pandas as pd
import streamlit as st

from data.files.columns import Columns
from data.files.tables import column_names
from data.problems import Problem
from data.read import Reading
from views import tables
from views.data import preview
from views.data.preview import Preview, Read
from views.problem_words import errors_told, failure_text, problem_text, reason_text
from views.words import catalog, language, plain, word

_SHOWN_ROWS = 1000
_SHOWN_COLUMNS = 30  # of the first rows
_ROLES = tuple(role.name for role in fields(Columns))


def draw(shown: Preview) -> None:
    """Draw the file under preview."""
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(shown.title or shown.name)), anchor=False)
        if shown.error is not None:
            st.error(plain(failure_text(shown.error)), icon=":material/error:")
            st.caption(word("data_page.nothing_lost"))
        if shown.read is not None:
            _understood(shown.read)
        if shown.available:
            _columns(shown)
        if shown.read is not None:
            _problems(shown.read, shown.title)
            _labels(shown, shown.read)
            _warnings(shown.read)
        _buttons(shown)


def _understood(found: Read) -> None:
    reading, figures = found.reading, found.audit
    given = reading.paragraph_count if reading.columns is None else reading.row_count
    unit = "paragraphs" if reading.columns is None else "rows"
    parts = [
        word(f"data_page.given_{unit}", given=f"{given:,}", passages=f"{figures.passage_count:,}"),
        word("data_page.questions", questions=f"{figures.question_count:,}"),
    ]
    if figures.article_count:
        parts.append(word("data_page.articles", articles=f"{figures.article_count:,}"))
    st.markdown(f"**{word('data_page.understood')}** {', '.join(parts)} · {_format(reading)}")
    if not figures.question_count:
        st.info(word("data_page.passages_only"), icon=":material/info:")


def _format(reading: Reading) -> str:
    return " · ".join(filter(None, (word(f"format.{reading.format.value}"), reading.encoding)))


def _columns(shown: Preview) -> None:
    st.caption(word("data_page.columns"))
    places = [place for _ in range(2) for place in st.columns(len(_ROLES) // 2)]
    given = asdict(shown.columns)
    options = [None, *shown.available]
    chosen = {
        role: place.selectbox(
            word(f"column.{role}"),
            options,
            index=options.index(given[role]) if given[role] in options else 0,
            format_func=lambda name: word("column.none") if name is None else name,
            help=word(f"column.{role}_help"),
            key=_key(role, shown),
        )
        for role, place in zip(_ROLES, places, strict=True)
    }
    _first_rows(shown, chosen)
    if chosen != given:
        with st.spinner(word("data_page.reading"), show_time=True):
            preview.show(preview.with_columns(shown, Columns(**chosen)))
        st.rerun()


def _key(role: str, shown: Preview) -> str:
    return f"column_{role}_{shown.sha256[:16]}"


def _first_rows(shown: Preview, chosen: Mapping[str, str | None]) -> None:
    """What is in the columns: first those that are chosen, named by their role too."""
    if not shown.first_rows:
        return
    roles = {name: role for role, name in chosen.items() if name is not None}
    names = sorted(shown.available, key=lambda name: (name not in roles, shown.available.index(name)))[:_SHOWN_COLUMNS]
    titles = {name: f"{name} ({word(f'column.{roles[name]}')})" if name in roles else name for name in names}
    table = pd.DataFrame([[row.get(name, "") for name in names] for row in shown.first_rows], columns=names)
    st.dataframe(
        table,
        hide_index=True,
        column_config={name: st.column_config.TextColumn(title) for name, title in titles.items()},
    )


def _labels(shown: Preview, found: Read) -> None:
    """Offer to leave answers out that are no part of any passage."""
    if not (labels := found.audit.labels):
        return
    named = ", ".join(plain(label) for label in labels)
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/warning: {word('data_page.labels', labels=named)}", width="stretch")
        st.button(word("data_page.leave_labels_out"), key="leave_labels_out", on_click=_leave_out, args=(shown,))


def _leave_out(shown: Preview) -> None:
    if shown.available:
        st.session_state[_key("answers", shown)] = None  # as if it was chosen so: the file is read again
    else:
        preview.show(preview.without_answers(shown))


def _warnings(found: Read) -> None:
    """What the audit below tells in full, where it is decided whether the set is used."""
    figures = found.audit
    counts = {
        "unanswerable": figures.unanswerable_count,
        "duplicates": sum(map(len, figures.duplicate_questions.values())),
        "answers_not_found": 0 if figures.labels else len(figures.answers_not_found),
    }
    told = [f"{word(f'data_page.{name}')} {count:,}" for name, count in counts.items() if count]
    if told:
        st.caption(f":material/info: {word('data_page.look_below')} {' · '.join(told)}")


def _problems(found: Read, title: str) -> None:
    left_out = [problem for problem in found.reading.problems if problem.leaves_out_row]
    others = [problem for problem in found.reading.problems if not problem.leaves_out_row]
    if not found.reading.problems:
        st.success(word("data_page.no_problem"), icon=":material/check_circle:")
    if left_out:
        counts = {"left_out": f"{found.reading.left_out:,}", "rows": f"{found.reading.row_count:,}"}
        st.warning(word("data_page.left_out", **counts), icon=":material/warning:")
        with st.expander(word("data_page.see_left_out")):
            _left_out(found, left_out, title)
    if others:
        count = f"{found.reading.problem_count - found.reading.left_out:,}"
        with st.expander(word("data_page.see_others", count=count), icon=":material/info:"):
            for problem in others[:_SHOWN_ROWS]:
                st.text(problem_text(problem))


def _left_out(found: Read, left_out: list[Problem], title: str) -> None:
    texts = catalog(language())
    if len(left_out) > _SHOWN_ROWS:
        st.caption(word("data_page.first_rows", shown=f"{_SHOWN_ROWS:,}"))
    st.dataframe(
        _in_words(found.reading.rejected.head(_SHOWN_ROWS), left_out, texts),
        hide_index=True,
        column_config={texts["data_page.problem_column"]: st.column_config.TextColumn(width="large")},
    )
    whole = partial(_in_words, found.reading.rejected, left_out, texts)
    if len(left_out) < found.reading.left_out:
        st.caption(word("data_page.first_kept", kept=f"{len(left_out):,}"))
    tables.draw_csv("data_page.download_left_out", whole, f"{title}_left_out.csv")


def _in_words(table: pd.DataFrame, problems: list[Problem], texts: Mapping[str, str]) -> pd.DataFrame:
    """The table with the reader's English problems in the person's words; there is one problem a row."""
    words = [reason_text(problem, texts) for problem in problems[: len(table)]]
    table = table.assign(problem=words)
    table.columns = column_names([texts["data_page.row_column"], texts["data_page.problem_column"], *table.columns[2:]])
    return table


def _buttons(shown: Preview) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if shown.read is not None and st.button(
            word("data_page.use"), type="primary", icon=":material/check:", help=word("data_page.use_help"), key="use"
        ):
            with errors_told():
                with st.spinner(word("data_page.keeping")):
                    preview.use(shown)
                st.rerun()
        if st.button(word("data_page.discard"), icon=":material/close:", key="discard"):
            preview.drop()
            st.rerun()
