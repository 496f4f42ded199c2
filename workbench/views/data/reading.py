"""Draws the preview of files with questions: a summary, errors, buttons, the choice of columns and a report."""

import re
from collections.abc import Sequence
from dataclasses import asdict, fields, replace

import pandas as pd
import streamlit as st

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import CollectionFile, QuestionSetReading
from mrc_workbench.data.split import PARTS, SplitMethod
from mrc_workbench.data.store import CATALOG
from mrc_workbench.workbench.views.data import preview, widgets
from mrc_workbench.workbench.views.data.preview import AuditedDataset, DatasetPreview
from mrc_workbench.workbench.views.names import few_questions_text, set_name, split_text
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, problem_text, show_errors, word

_ROLE_KEYS = {role.name: role.name for role in fields(QuestionColumns)}  # locale keys: `column.KEY`
_ROLE_KEYS |= {"label": "relevance", "part": "question_part"}  # sentence pairs have other words for these roles
_FIRST_ROLES = ("question", "context", "answers", "title", "id", "kind")  # drawn even if they have no column
_FIELDS_IN_ROW = 3
_MOST_READINGS = 5  # with a preview each; users can select others by column
_MOST_LISTED = 50  # columns of each use
_MAX_FILES = 1000
_FILES_WITH_ROWS = 12  # first rows of these files are drawn


def draw(current: DatasetPreview) -> None:
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(current.title or current.name)), anchor=False)
        top = st.container()
        if current.available:
            _draw_column_choice(current)  # before the buttons: a changed column applies before the set is used
        with top:
            if current.error is not None:
                reasons = [failure_text(current.error), *map(problem_text, current.error.file_problems)]
                listed = "\n".join(f"- {plain(reason)}" for reason in reasons)
                st.error(listed if len(reasons) > 1 else plain(reasons[0]), icon=":material/error:")
                st.caption(word("data_page.nothing_lost"))
                _pick_reading(current)
                _pick_encoding(current, current.encoding)
            if current.read is None:
                widgets.forget_store_click()
                _draw_buttons(current)
                return
            reading = current.read.reading
            warnings = [*widgets.left_out_words([reading]), *_gap_texts(reading, is_serious=True)]
            if labels := current.read.audit.labels:
                warnings.append(word("data_page.labels", labels=", ".join(map(plain, labels))))
            widgets.draw_status(
                _summary(current, current.read), warnings, _notes(current.read), is_clean=not reading.problems
            )
            _draw_buttons(current)
            _pick_encoding(current, current.encoding or reading.encoding, is_folded=True)
            _draw_columns(reading)
            _draw_files(reading.files)
            _draw_split(current.read)
            # notices about whole files, such as merged passages; problems of rows have their own lists
            if notices := [problem for problem in reading.problems if problem.row is None]:
                draw_heading(word("data_page.notices"))
                st.markdown("\n".join(f"- {plain(problem_text(problem))}" for problem in notices))
            widgets.draw_problems([reading], current.title)


def _summary(current: DatasetPreview, result: AuditedDataset) -> str:
    reading = result.reading
    audit = result.audit
    if reading.layout is not None:
        return _collection_summary(result)
    given = reading.paragraph_count if reading.columns is None else reading.row_count
    unit = "paragraphs" if reading.columns is None else "rows"
    parts = [
        word(f"data_page.given_{unit}", given=f"{given:,}", passages=f"{audit.passage_count:,}"),
        word("data_page.questions", questions=f"{audit.question_count:,}"),
    ]
    if audit.article_count:
        parts.append(word("data_page.articles", articles=f"{audit.article_count:,}"))
    form = " · ".join(filter(None, (word(f"format.{reading.format.value}"), reading.encoding)))
    text = f"**{word('data_page.understood')}** {', '.join(parts)} · {form}"
    entry = CATALOG.get(current.source)
    return f"{text} · {word('data_page.licence', licence=entry.licence)}" if entry else text


def _collection_summary(result: AuditedDataset) -> str:
    reading = result.reading
    audit = result.audit
    questions = reading.question_set.questions
    counts = {
        "given_files": {"files": len({file.name for file in reading.files}), "passages": audit.passage_count},
        "questions": {"questions": audit.question_count},
        "judgements": {"judgements": reading.judgement_count},
        "articles": {"articles": audit.article_count},
        "graded": {"questions": sum(bool(question.grades) for question in questions)},
        "grouped": {"questions": sum(bool(question.groups) for question in questions)},
    }
    parts = [
        word(f"data_page.{part}", **{name: f"{count:,}" for name, count in values.items()})
        for part, values in counts.items()
        if all(values.values())
    ]
    layout = word("data_page.layout", layout=word(f"layout.{reading.layout}"))
    return f"**{word('data_page.understood')}** {layout} · {', '.join(parts)}"


def _gap_texts(reading: QuestionSetReading, *, is_serious: bool) -> list[str]:
    """Return the gaps between the files of a collection; all but unjudged questions are serious."""
    gaps = [gap for gap in reading.gaps if (gap.code != ProblemCode.UNJUDGED_QUESTIONS) is is_serious]
    return [plain(problem_text(gap)) for gap in gaps]


def _pick_encoding(current: DatasetPreview, used: str, *, is_folded: bool = False) -> None:
    encoding = widgets.pick_encoding(current.encodings, used, f"encoding_{current.key}", is_folded=is_folded)
    if encoding is not None:
        _read_again(replace(current, encoding=encoding, number=current.number + 1), None)


def _read_again(current: DatasetPreview, columns: QuestionColumns | None) -> None:
    with widgets.reading_progress() as progress:
        preview.STATE.show(preview.read_again(current, columns, progress))
    st.rerun()


def _draw_column_choice(current: DatasetPreview) -> None:
    st.caption(word("data_page.columns"))
    current_columns = asdict(current.columns)
    first = [role for role in current_columns if role in _FIRST_ROLES or current_columns[role] is not None]
    more = [role for role in current_columns if role not in first]
    columns = _pick_columns(first, current)
    widgets.draw_first_rows(
        current.first_rows, current.available, {_ROLE_KEYS[role]: name for role, name in columns.items()}
    )
    if more:
        with st.expander(word("data_page.more_roles"), key=f"more_roles_{current.key}"):
            columns |= _pick_columns(more, current)
    if columns != current_columns:
        _read_again(current, QuestionColumns(**columns))


def _pick_columns(roles: Sequence[str], current: DatasetPreview) -> dict[str, str | None]:
    columns: dict[str, str | None] = {}
    for start in range(0, len(roles), _FIELDS_IN_ROW):
        row = roles[start : start + _FIELDS_IN_ROW]
        for role, container in zip(row, st.columns(_FIELDS_IN_ROW), strict=False):
            column = getattr(current.columns, role)
            key = _key(role, current)
            columns[role] = widgets.pick_column(container, _ROLE_KEYS[role], column, current.available, key)
    return columns


def _key(role: str, current: DatasetPreview) -> str:
    return f"column_{role}_{current.key}_{current.number}"


def _notes(result: AuditedDataset) -> list[str]:
    audit = result.audit
    unjudged = sum(int(gap.details["ids"]) for gap in result.reading.gaps if gap.code == ProblemCode.UNJUDGED_QUESTIONS)
    counts = {
        "unanswerable": audit.unanswerable_count - unjudged,  # the gaps report them
        "duplicates": sum(map(len, audit.duplicate_questions.values())),
        "answers_not_found": 0 if audit.labels else len(audit.missing_answer_ids),
    }
    doubtful = " · ".join(f"{word(f'data_page.{name}')} {count:,}" for name, count in counts.items() if count)
    notes = _gap_texts(result.reading, is_serious=False)
    notes += [f"{word('data_page.look_below')} {doubtful}"] if doubtful else []
    if audit.question_count:
        return notes
    has_columns = bool(result.reading.available_columns)  # one of them may have the questions
    return [word("data_page.passages_only" if has_columns else "data_page.passages_only_without_columns"), *notes]


def _draw_buttons(current: DatasetPreview) -> None:
    def leave_labels_out() -> None:
        if current.available:
            st.session_state[_key("answers", current)] = None  # as the user would select it
        else:
            preview.STATE.show(preview.without_answers(current))

    with st.container(horizontal=True, vertical_alignment="bottom"):
        if current.read is not None:
            button = label_and_help("data_page.use") | {"key": "use"}
            name = widgets.draw_store_button(current.title, set_name(current.title), current.key, **button)
            if name is not None:
                with show_errors():
                    with st.spinner(word("data_page.keeping")):
                        preview.use(current, current.read, name)
                    st.rerun()
            if current.read.audit.labels:
                st.button(word("data_page.leave_labels_out"), key="leave_labels_out", on_click=leave_labels_out)
        widgets.draw_discard_button("discard", preview.drop)


def _pick_reading(current: DatasetPreview) -> None:
    """Draw the possible readings, which map roles to columns; a selected one reads the files again."""
    if not current.candidates:
        return
    draw_heading(word("data_page.readings"))
    selected = None
    for number, candidate in enumerate(current.candidates[:_MOST_READINGS]):
        columns = {role: name for role, name in asdict(candidate).items() if name is not None}
        labels = {role: word(f"column.{_ROLE_KEYS[role]}") for role in columns}
        titles = {role: f"{labels[role]} ({name})" for role, name in columns.items()}  # roles may share a column
        rows = [{titles[role]: row.get(name, "") for role, name in columns.items()} for row in current.first_rows]
        with st.container(border=True):
            st.markdown(" · ".join(f"{labels[role]} ← {plain(name)}" for role, name in columns.items()))
            st.dataframe(pd.DataFrame(rows, columns=[*titles.values()]), hide_index=True)
            answers = current.columns.answers
            label = "search_answers" if answers is not None and columns.get("context") == answers else "read_so"
            key = f"reading_{current.key}_{number}"
            if st.button(word(f"data_page.{label}"), icon=":material/check:", key=key):
                selected = candidate
    if len(current.candidates) > _MOST_READINGS:
        st.caption(word("data_page.more_readings", count=f"{len(current.candidates) - _MOST_READINGS:,}"))
    if selected is not None:
        _read_again(replace(current, number=current.number + 1), selected)


def _draw_columns(reading: QuestionSetReading) -> None:
    roles: dict[str, list[str]] = {}
    for role, name in (asdict(reading.columns) if reading.columns is not None else {}).items():
        if name is not None:
            roles.setdefault(name, []).append(word(f"column.{_ROLE_KEYS[role]}"))
    uses = {"used": reading.used_columns, "metadata": reading.metadata_columns, "unused": reading.unused_columns}
    lines = []
    for use, names in uses.items():
        listed = [plain(name) + (f" ({', '.join(roles[name])})" if name in roles else "") for name in names]
        if len(names) > _MOST_LISTED:
            listed[_MOST_LISTED:] = [word("data_page.more_columns", count=f"{len(names) - _MOST_LISTED:,}")]
        if names:
            lines.append(f"- **{word(f'data_page.columns_{use}')}**: {', '.join(listed)}")
    if lines:
        draw_heading(word("data_page.columns_report"), help=word("data_page.columns_report_help"))
        st.markdown("\n".join(lines))


def _draw_files(files: Sequence[CollectionFile]) -> None:
    if not files:
        return
    parts = {file.name: re.findall(r"(\D*)(\d*)", file.name.casefold()) for file in files}  # file 2 before file 10
    files = sorted(files, key=lambda file: [(int(number or -1), text) for text, number in parts[file.name]])
    draw_heading(word("data_page.files_report", count=f"{len(files):,}"))
    columns = {
        "file": tables.text("data_page.file"),
        "role": tables.text("data_page.file_role"),
        "rows": tables.number("data_page.file_rows", "localized", width=100),
        "left_out": tables.number("data_page.file_rows_left_out", "localized", width=110),
        "format": tables.text("data_page.file_format"),
        "encoding": tables.text("data_page.file_encoding"),
    }
    table = pd.DataFrame(map(vars, files[:_MAX_FILES])).rename(columns={"name": "file", "row_count": "rows"})
    table = table.drop(columns="first_rows")
    for column in ("role", "format"):
        table[column] = [word(f"{column}.{value}") for value in table[column]]
    for optional in ("encoding", "left_out"):
        if not table[optional].any():
            del columns[optional]
    if len(files) > _MAX_FILES:
        st.caption(word("data_page.first_rows", count=f"{_MAX_FILES:,}"))
    tables.draw(table, columns)
    if with_rows := [file for file in files[:_FILES_WITH_ROWS] if file.first_rows]:
        with st.expander(word("data_page.first_of_files"), icon=":material/table_rows:"):
            for file in with_rows:
                st.markdown(f"**{plain(file.name)}** · {word(f'role.{file.role}')}")
                st.dataframe(pd.DataFrame(list(file.first_rows)), hide_index=True)


def _draw_split(result: AuditedDataset) -> None:
    if not result.reading.question_set.questions:
        return
    counts = ", ".join(f"{word(f'part.{part}')} {len(result.split.rows[part]):,}" for part in PARTS)
    source = "published" if result.split.is_published else "drawn"
    draw_heading(word("data_page.split_report"))
    st.markdown(word(f"data_page.split_{source}", counts=counts))
    if result.split.method is not SplitMethod.GROUPED:
        st.caption(split_text(result.split))
    parts = [part for part in PARTS if len(result.split.rows[part]) or not result.split.is_published]
    if few := [text for part in parts if (text := few_questions_text(len(result.split.rows[part]), part))]:
        st.markdown(f":material/warning: {' '.join(few)}")
