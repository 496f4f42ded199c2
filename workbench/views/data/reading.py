"""The preview of files with questions: what was understood, what is wrong, the button that uses the set, its columns;
and what the preview of sentence pairs shares: status, columns, first rows, and rows that cannot be used."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.collection import LONGEST_NAME, display_name
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.rows import FileReading
from mrc_workbench.data.formats.tables import column_names
from mrc_workbench.data.pairs.store import PairFileReading
from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.questions.read import Reading
from mrc_workbench.data.store import CATALOG
from mrc_workbench.workbench.views.data import preview, report
from mrc_workbench.workbench.views.data.preview import Preview, Read
from mrc_workbench.workbench.views.data.report import pick_encoding, pick_other_encoding, pick_reading, role_key
from mrc_workbench.workbench.views.data.ways import reading_progress
from mrc_workbench.workbench.views.names import set_name
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.words import (
    catalog,
    errors_told,
    failure_text,
    label_and_help,
    language,
    plain,
    problem_text,
    reason_text,
    word,
)

_ROLES = tuple(role.name for role in fields(Columns))
_FIRST_ROLES = ("question", "context", "answers", "title", "id", "kind")  # drawn even if they have no column
_FIELDS_IN_ROW = 3
_SHOWN_ROWS = 1000
_SHOWN_COLUMNS = 30  # of the first rows


def draw(shown: Preview) -> None:
    """Draw the file under preview: what became of it and what to do with it, above where a person corrects it."""
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(shown.title or shown.name)), anchor=False)
        top = st.container()
        if shown.available:
            _columns(shown)  # before the buttons: whoever changes a column and at once uses the set has it read anew
        with top:
            if shown.error is not None:
                reasons = [failure_text(shown.error), *map(problem_text, shown.error.file_problems)]
                listed = "\n".join(f"- {plain(reason)}" for reason in reasons)
                st.error(listed if len(reasons) > 1 else plain(reasons[0]), icon=":material/error:")
                st.caption(word("data_page.nothing_lost"))
                _choices(shown)
            if shown.read is not None:
                reading = shown.read.reading
                warnings = [*left_out_words([reading]), *_gaps(reading, grave=True)]
                if labels := shown.read.audit.labels:
                    warnings.append(word("data_page.labels", labels=", ".join(map(plain, labels))))
                understood, notes = _understood(shown, shown.read), _notes(shown.read)
                draw_status(understood, warnings, notes, is_clean=not reading.problems)
            _buttons(shown)
            if shown.read is not None:
                used = shown.encoding or shown.read.reading.encoding
                _read_in(pick_other_encoding(shown.encodings, used, f"encoding_{shown.sha256[:16]}"), shown)
                report.draw(shown.read)
                draw_problems([shown.read.reading], shown.title)


def _understood(shown: Preview, found: Read) -> str:
    """Return what was read as Markdown; of a catalog set with its licence."""
    reading, figures = found.reading, found.audit
    if reading.layout is not None:
        return _understood_collection(found)
    given = reading.paragraph_count if reading.columns is None else reading.row_count
    unit = "paragraphs" if reading.columns is None else "rows"
    parts = [
        word(f"data_page.given_{unit}", given=f"{given:,}", passages=f"{figures.passage_count:,}"),
        word("data_page.questions", questions=f"{figures.question_count:,}"),
    ]
    if figures.article_count:
        parts.append(word("data_page.articles", articles=f"{figures.article_count:,}"))
    form = " · ".join(filter(None, (word(f"format.{reading.format.value}"), reading.encoding)))
    text = f"**{word('data_page.understood')}** {', '.join(parts)} · {form}"
    entry = CATALOG.get(shown.source)
    return f"{text} · {word('data_page.licence', licence=entry.licence)}" if entry else text


def _understood_collection(found: Read) -> str:
    reading, figures = found.reading, found.audit
    questions = reading.question_set.questions
    counts = {
        "given_files": {"files": len({file.name for file in reading.files}), "passages": figures.passage_count},
        "questions": {"questions": figures.question_count},
        "judgements": {"judgements": reading.judgement_count},
        "articles": {"articles": figures.article_count},
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


def _gaps(reading: Reading, *, grave: bool) -> list[str]:
    """Return what is missing between the files of a collection; unjudged questions are not `grave`."""
    return [plain(problem_text(gap)) for gap in reading.gaps if (gap.code != ProblemCode.UNJUDGED_QUESTIONS) is grave]


def _choices(shown: Preview) -> None:
    """Draw the readings and encodings to choose from; the files are read again as the user chooses."""
    key = shown.sha256[:16]
    readings = [asdict(columns) for columns in shown.candidates]
    roles = pick_reading(readings, shown.first_rows, f"reading_{key}", answers=shown.columns.answers)
    if roles is not None:
        _read_again(replace(shown, number=shown.number + 1), Columns(**roles))
    _read_in(pick_encoding(shown.encodings, shown.encoding, f"encoding_{key}"), shown)


def _read_in(encoding: str | None, shown: Preview) -> None:
    """Read the files again in the encoding that the user chose, if any."""
    if encoding is not None:
        _read_again(replace(shown, encoding=encoding, number=shown.number + 1), None)


def _read_again(shown: Preview, columns: Columns | None) -> None:
    with reading_progress() as progress:
        preview.show(preview.read_again(shown, columns, progress))
    st.rerun()


def _columns(shown: Preview) -> None:
    st.caption(word("data_page.columns"))
    given = asdict(shown.columns)
    first = [role for role in _ROLES if role in _FIRST_ROLES or given[role] is not None]
    more = [role for role in _ROLES if role not in first]
    columns = _pick_columns(first, shown)
    draw_first(shown.first_rows, shown.available, {role_key(role): name for role, name in columns.items()})
    if more:
        with st.expander(word("data_page.more_roles"), key=f"more_roles_{shown.sha256[:16]}"):
            columns |= _pick_columns(more, shown)
    if columns != given:
        _read_again(shown, Columns(**columns))


def _pick_columns(roles: Sequence[str], shown: Preview) -> dict[str, str | None]:
    """Draw the fields for the columns of some roles, a few in a row."""
    given = asdict(shown.columns)
    columns: dict[str, str | None] = {}
    for start in range(0, len(roles), _FIELDS_IN_ROW):
        row = roles[start : start + _FIELDS_IN_ROW]
        for role, place in zip(row, st.columns(_FIELDS_IN_ROW), strict=False):
            columns[role] = pick_column(place, role_key(role), given[role], shown.available, _key(role, shown))
    return columns


def _key(role: str, shown: Preview) -> str:
    return f"column_{role}_{shown.sha256[:16]}_{shown.number}"


def _notes(found: Read) -> list[str]:
    """Return further notes on the set as Markdown; the audit below has the details."""
    figures, gaps = found.audit, found.reading.gaps
    unjudged = sum(int(gap.details["ids"]) for gap in gaps if gap.code == ProblemCode.UNJUDGED_QUESTIONS)
    counts = {
        "unanswerable": figures.unanswerable_count - unjudged,  # which is told already
        "duplicates": sum(map(len, figures.duplicate_questions.values())),
        "answers_not_found": 0 if figures.labels else len(figures.answers_not_found),
    }
    doubtful = " · ".join(f"{word(f'data_page.{name}')} {count:,}" for name, count in counts.items() if count)
    notes = _gaps(found.reading, grave=False)
    notes += [f"{word('data_page.look_below')} {doubtful}"] if doubtful else []
    if figures.question_count:
        return notes
    has_columns = bool(found.reading.available_columns)  # to choose the column of questions from
    return [word("data_page.passages_only" if has_columns else "data_page.passages_only_without_columns"), *notes]


def _buttons(shown: Preview) -> None:
    def leave_labels_out() -> None:
        if shown.available:
            st.session_state[_key("answers", shown)] = None  # as if it was chosen so: the file is read again
        else:
            preview.show(preview.without_answers(shown))

    with st.container(horizontal=True, vertical_alignment="bottom"):
        if shown.read is not None:
            name = draw_name(shown.title, set_name(shown.title), shown.sha256[:16])
            look: dict[str, Any] = {"type": "primary", "icon": ":material/check:", "key": "use"}
            if st.button(**label_and_help("data_page.use"), **look):
                with errors_told():
                    with st.spinner(word("data_page.keeping")):
                        preview.use(shown, shown.read, name)
                    st.rerun()
            if shown.read.audit.labels:
                st.button(word("data_page.leave_labels_out"), key="leave_labels_out", on_click=leave_labels_out)
        if st.button(word("data_page.discard"), icon=":material/close:", key="discard"):
            preview.drop()
            st.rerun()


def draw_name(stored: str, called: str, key: str) -> str:
    """Draw the field for the name of a set under preview; return the name to store it under.

    `called` is the display name of a set whose name is `stored`, which stays unless the user changes the field.
    """
    look: dict[str, Any] = {"max_chars": LONGEST_NAME, "key": f"set_name_{key}", "width": 320}
    entered = st.text_input(**label_and_help("data_page.name"), value=called, **look)
    name = display_name(entered or "")
    return stored if name == called else name or stored


def draw_status(understood: str, warnings: Sequence[str], notes: Sequence[str], *, is_clean: bool) -> None:
    """Draw one box of Markdown with the icon of its gravest point; `is_clean`: the reading has no problems."""
    points = [*warnings, *notes] or ([word("data_page.no_problem")] if is_clean else [])
    text = "\n".join([understood, "", *(f"- {point}" for point in points)])
    if warnings:
        st.warning(text, icon=":material/warning:")
    elif notes or not is_clean:
        st.info(text, icon=":material/info:")
    else:
        st.success(text, icon=":material/check_circle:")


def pick_column(place: DeltaGenerator, role: str, given: str | None, available: Sequence[str], key: str) -> str | None:
    """Draw the field for the column of a role; returns the selected column, None for none."""
    options = [None, *available]
    index = options.index(given) if given in options else 0
    look: dict[str, Any] = {"format_func": lambda name: word("column.none") if name is None else name, "key": key}
    column: str | None = place.selectbox(**label_and_help(f"column.{role}"), options=options, index=index, **look)
    return column


def draw_first(
    first_rows: Sequence[Mapping[str, str]], available: Sequence[str], chosen: Mapping[str, str | None]
) -> None:
    """Draw the first rows; the columns `chosen` for a role come first, titled with it."""
    if not first_rows:
        return
    roles = {name: role for role, name in chosen.items() if name is not None}
    names = sorted(available, key=lambda name: (name not in roles, available.index(name)))[:_SHOWN_COLUMNS]
    titles = {name: f"{name} ({word(f'column.{roles[name]}')})" if name in roles else name for name in names}
    table = pd.DataFrame([[row.get(name, "") for name in names] for row in first_rows], columns=names)
    columns = {name: st.column_config.TextColumn(title) for name, title in titles.items()}
    st.dataframe(table, hide_index=True, column_config=columns)


def left_out_words(readings: Sequence[FileReading]) -> list[str]:
    """Return, as Markdown, how many rows of which file were left out; one of several files is named."""
    texts = []
    for reading in readings:
        if any(problem.leaves_out_row for problem in reading.problems):
            text = word("data_page.left_out", left_out=f"{reading.left_out:,}", rows=f"{reading.row_count:,}")
            if isinstance(reading, PairFileReading) and len(readings) > 1:
                text = f"{plain(reading.name)}: {text}"
            texts.append(text)
    return texts


def draw_problems(readings: Sequence[FileReading], title: str) -> None:
    """Draw the rows left out or repaired, by file; notices about whole files are in the report."""
    for place, reading in enumerate(readings):
        if isinstance(reading, PairFileReading) and reading.problems and len(readings) > 1:
            st.markdown(f"**{plain(reading.name)}**")
        _draw_problems(reading, title if len(readings) == 1 else f"{title}_{place + 1}")


def _draw_problems(reading: FileReading, title: str) -> None:
    left_out = [problem for problem in reading.problems if problem.leaves_out_row]
    reported = [problem for problem in reading.problems if problem.row is None] if isinstance(reading, Reading) else []
    others = [problem for problem in reading.problems if not problem.leaves_out_row and problem not in reported]
    if left_out:
        whole = partial(_in_words, reading.rejected, left_out, texts := catalog(language()))
        with st.expander(word("data_page.see_left_out")):
            if len(left_out) > _SHOWN_ROWS:
                st.caption(word("data_page.first_rows", shown=f"{_SHOWN_ROWS:,}"))
            wide = {texts["data_page.problem_column"]: st.column_config.TextColumn(width="large")}
            first = _in_words(reading.rejected.head(_SHOWN_ROWS), left_out, texts)
            st.dataframe(first, hide_index=True, column_config=wide)
            if len(left_out) < reading.left_out:
                st.caption(word("data_page.first_kept", kept=f"{len(left_out):,}"))
            tables.draw_csv("data_page.download_left_out", whole, f"{title}_left_out.csv")
    if others:
        count = f"{reading.problem_count - reading.left_out - len(reported):,}"
        with st.expander(word("data_page.see_others", count=count), icon=":material/info:"):
            for problem in others[:_SHOWN_ROWS]:
                st.text(problem_text(problem))


def _in_words(table: pd.DataFrame, problems: list[Problem], texts: Mapping[str, str]) -> pd.DataFrame:
    """Return the table with the reader's problems, one a row, in the user's language."""
    words = [reason_text(problem, texts) for problem in problems[: len(table)]]
    table = table.assign(problem=words)
    table.columns = column_names([texts["data_page.row_column"], texts["data_page.problem_column"], *table.columns[2:]])
    return table
