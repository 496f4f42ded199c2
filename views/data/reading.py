"""What was understood of a file, what is wrong with it, and the button that puts it to use."""

from dataclasses import asdict, fields

import streamlit as st

from data.files.columns import Columns
from data.read import Reading
from views.data import preview, rows
from views.data.preview import Preview, Read
from views.problem_words import errors_told, failure_text
from views.words import plain, word

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
            rows.draw_problems([shown.read.reading], shown.title)
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
    rows.draw_first(shown.first_rows, shown.available, chosen)
    if chosen != given:
        with st.spinner(word("data_page.reading"), show_time=True):
            preview.show(preview.with_columns(shown, Columns(**chosen)))
        st.rerun()


def _key(role: str, shown: Preview) -> str:
    return f"column_{role}_{shown.sha256[:16]}"


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
