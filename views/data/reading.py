"""What was understood of a file and what is wrong with it, the button that puts it to use, and its columns."""

from dataclasses import asdict, fields

import streamlit as st

from data.formats.columns import Columns
from data.questions.read import Reading
from data.store import CATALOG
from views.data import preview, rows
from views.data.preview import Preview, Read
from views.data.rows import draw_status
from views.ui.problems import errors_told, failure_text
from views.ui.words import plain, word

_ROLES = tuple(role.name for role in fields(Columns))


def draw(shown: Preview) -> None:
    """Draw the file under preview: what became of it and what to do with it, above where a person corrects it."""
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(shown.title or shown.name)), anchor=False)
        top = st.container()
        if shown.available:
            _columns(shown)  # before the buttons: whoever changes a column and at once uses the set has it read anew
        with top:
            if shown.error is not None:
                st.error(plain(failure_text(shown.error)), icon=":material/error:")
                st.caption(word("data_page.nothing_lost"))
            if shown.read is not None:
                warnings, notes = _warnings(shown.read), _notes(shown.read)
                draw_status(_understood(shown), warnings, notes, is_clean=not shown.read.reading.problems)
            _buttons(shown)
            if shown.read is not None:
                rows.draw_problems([shown.read.reading], shown.title)


def _understood(shown: Preview) -> str:
    """What was read, as Markdown; of a known set its licence too."""
    if shown.read is None:
        return ""
    reading, figures = shown.read.reading, shown.read.audit
    given = reading.paragraph_count if reading.columns is None else reading.row_count
    unit = "paragraphs" if reading.columns is None else "rows"
    parts = [
        word(f"data_page.given_{unit}", given=f"{given:,}", passages=f"{figures.passage_count:,}"),
        word("data_page.questions", questions=f"{figures.question_count:,}"),
    ]
    if figures.article_count:
        parts.append(word("data_page.articles", articles=f"{figures.article_count:,}"))
    told = f"**{word('data_page.understood')}** {', '.join(parts)} · {_format(reading)}"
    entry = CATALOG.get(shown.source)
    return f"{told} · {word('data_page.licence', licence=entry.licence)}" if entry else told


def _format(reading: Reading) -> str:
    return " · ".join(filter(None, (word(f"format.{reading.format.value}"), reading.encoding)))


def _columns(shown: Preview) -> None:
    st.caption(word("data_page.columns"))
    places = [place for _ in range(2) for place in st.columns(len(_ROLES) // 2)]
    given = asdict(shown.columns)
    chosen = {
        role: rows.pick_column(place, role, given[role], shown.available, _key(role, shown))
        for role, place in zip(_ROLES, places, strict=True)
    }
    rows.draw_first(shown.first_rows, shown.available, chosen)
    if chosen != given:
        with st.spinner(word("data_page.reading"), show_time=True):
            preview.show(preview.with_columns(shown, Columns(**chosen)))
        st.rerun()


def _key(role: str, shown: Preview) -> str:
    return f"column_{role}_{shown.sha256[:16]}"


def _leave_out(shown: Preview) -> None:
    if shown.available:
        st.session_state[_key("answers", shown)] = None  # as if it was chosen so: the file is read again
    else:
        preview.show(preview.without_answers(shown))


def _warnings(found: Read) -> list[str]:
    """What may be wrong with the file, as Markdown."""
    told = rows.left_out_words([found.reading])
    if labels := found.audit.labels:
        told.append(word("data_page.labels", labels=", ".join(plain(label) for label in labels)))
    return told


def _notes(found: Read) -> list[str]:
    """What else is to be known before the set is used, as Markdown; the audit below tells it in full."""
    figures = found.audit
    counts = {
        "unanswerable": figures.unanswerable_count,
        "duplicates": sum(map(len, figures.duplicate_questions.values())),
        "answers_not_found": 0 if figures.labels else len(figures.answers_not_found),
    }
    doubtful = " · ".join(f"{word(f'data_page.{name}')} {count:,}" for name, count in counts.items() if count)
    told = [f"{word('data_page.look_below')} {doubtful}"] if doubtful else []
    return told if figures.question_count else [word("data_page.passages_only"), *told]


def _buttons(shown: Preview) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if shown.read is not None and st.button(
            word("data_page.use"), type="primary", icon=":material/check:", help=word("data_page.use_help"), key="use"
        ):
            with errors_told():
                with st.spinner(word("data_page.keeping")):
                    preview.use(shown)
                st.rerun()
        if shown.read is not None and shown.read.audit.labels:
            st.button(word("data_page.leave_labels_out"), key="leave_labels_out", on_click=_leave_out, args=(shown,))
        if st.button(word("data_page.discard"), icon=":material/close:", key="discard"):
            preview.drop()
            st.rerun()
