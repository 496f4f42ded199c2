"""The Data page: load questions or sentence pairs, check them, and use them; and generate questions from passages."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data import generate, subprocess_reader
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions import Audit
from mrc_workbench.data.questions.read import EXPORT_LAYOUTS, export_archive, folder_name
from mrc_workbench.data.records import QuestionGenerator, QuestionSet, strip_hidden_text
from mrc_workbench.data.split import Split, SplitOptions
from mrc_workbench.data.store import CATALOG, CatalogEntry, StoredSet, fetch, save_question_set
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.llm import MODEL, Endpoint, EndpointError, users_may_set_address
from mrc_workbench.workbench.views.data import audit as data_audit
from mrc_workbench.workbench.views.data import pairs as data_pairs
from mrc_workbench.workbench.views.data import preview
from mrc_workbench.workbench.views.data import reading as data_reading
from mrc_workbench.workbench.views.data.preview import DatasetPreview, preview_of, preview_with
from mrc_workbench.workbench.views.data.widgets import MEGABYTE, download_progress, draw_sets, reading_progress
from mrc_workbench.workbench.views.names import generated_text, generator_name, set_name
from mrc_workbench.workbench.views.navigation import draw_page_link, open_page, translate_field
from mrc_workbench.workbench.views.resources.sets import SAMPLE, audit_of, question_set, selected_set, split_of, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import choose, choose_tab, scroll_to_top
from mrc_workbench.workbench.views.ui.words import (
    draw_damaged_files,
    failure_text,
    label_and_help,
    language,
    plain,
    show_errors,
    word,
)

_DEFAULT_PASSAGES = 2000  # enough for a training, and generated in a minute
_PREVIEWED = 5  # passages
_PREVIEW_CHARACTERS = 160  # of a passage below its question
_SECONDS_BETWEEN_WORDS = 0.1
_STOPPED = "made_stopped"  # session key
_UNANSWERED = "made_unanswered"  # session key
_TABS = ("summary", "passages", "figures")
_FOLDER = "folder_upload"  # widget key: whether to upload a folder
_SAMPLE_CSV = Path(__file__).parents[1] / "locales"  # with a `sample.csv` for each language


def draw() -> None:
    subprocess_reader.preload_server()
    st.title(word("page.data"), anchor=False)
    kinds = ["questions", "pairs"]
    kwargs: dict[str, Any] = {"format_func": lambda kind: word(f"data_page.sort_{kind}"), "required": True}
    kwargs |= {"follows": True, "label_visibility": "collapsed"}
    if choose(st.segmented_control, "sort", word("data_page.sort"), kinds, kinds[0], **kwargs) == "pairs":
        data_pairs.draw(selected_set())
    else:
        _draw_questions(selected_set())


def _draw_questions(used: StoredSet) -> None:
    current = preview.STATE.current()
    if current is None and preview.STATE.stored_last() == used.key:
        scroll_to_top(f"kept {used.key}")
        st.success(word("data_page.in_use_now", name=plain(set_name(used.name))), icon=":material/check_circle:")
        _draw_next(used)
    _draw_sources()
    current = preview.STATE.current()
    if current is None:
        draw_sets(used.key)
        _draw_stored(used)
        return
    data_reading.draw(current)
    if current.read is None:
        _draw_stored(used)
        return
    tab, container = _choose_tab(*_TABS)
    with container:
        _draw_tab(tab, current.read.reading.question_set, current.read.audit, current.read.split, current.key)


def _draw_next(used: StoredSet) -> None:
    with st.container(horizontal=True):
        if used.questions:
            draw_page_link("compare", word("data_page.to_compare"), data=used.key)
            draw_page_link("train", word("data_page.to_train"), data=used.key)
        draw_page_link("search", word("data_page.to_search"), data=used.key)


def _draw_stored(used: StoredSet) -> None:
    st.header(word("data_page.set_in_use", name=plain(set_name(used.name))), anchor=False)
    if preview.STATE.stored_last() != used.key:
        _draw_next(used)
    with show_errors():
        with st.spinner(word("data_page.auditing"), show_time=True):
            questions = question_set(used.key)
            audit = audit_of(used.key)
            parts = split_of(used.key, SplitOptions())
        draw_damaged_files(questions)
        _draw_generated(used, questions)
        tab, container = _choose_tab(*_TABS, "make") if used.questions else _choose_tab("make", *_TABS)
        with container:
            if tab == "make":
                _draw_panel(used, questions, audit.article_count)
            else:
                _draw_tab(tab, questions, audit, parts, used.key)


def _choose_tab(*tabs: str) -> tuple[str, Any]:
    return choose_tab("look", {tab: word(f"data_page.look_{tab}") for tab in tabs})


def _draw_tab(tab: str, questions: QuestionSet, audit: Audit, parts: Split, key: str) -> None:
    if tab == "summary":
        data_audit.draw(questions, audit, parts)
    elif tab == "passages":
        data_audit.draw_passages(questions, key)
    else:
        data_audit.draw_distributions(questions, audit)
        if questions.questions:
            data_audit.draw_split(questions, parts)
        st.subheader(word("data_page.downloads"), anchor=False)
        st.caption(word("data_page.downloads_about"))
        with st.container(horizontal=True):
            for layout in EXPORT_LAYOUTS:
                name = f"{folder_name(questions.name)}_{layout}.zip"
                content = partial(export_archive, questions, layout)
                tables.draw_file(f"data_page.download_{layout}", content, name, "application/zip")


def _draw_generated(data: StoredSet, questions: QuestionSet) -> None:
    if not questions.generated_counts:
        return
    with st.container(border=True):
        st.markdown(generated_text(questions.generated_counts, len(questions.questions)))
        if st.button(word("made.train"), type="primary", icon=":material/model_training:", key="made_train"):
            open_page("train", data=data.key)
        left, unanswered = st.session_state.get(f"{_UNANSWERED}_{data.key}", (0, ()))
        if left:
            st.caption(word("made.left", count=f"{left:,}"))
        _draw_unanswered(questions, unanswered)


@st.fragment
def _draw_panel(data: StoredSet, questions: QuestionSet, articles: int) -> None:
    st.caption(word("made.about"))
    settings, server = _pick_settings(len(questions.passages), articles)
    by_model = settings["by"] is QuestionGenerator.MODEL
    with st.container(horizontal=True, vertical_alignment="center"):
        make = st.button(word("made.make"), type="primary", icon=":material/auto_awesome:", key="made_make")
        label = word("made.try_five" if by_model else "made.preview")
        is_preview = st.button(label, icon=":material/visibility:", key="made_preview")
        make_stored = by_model and st.button(word("made.make_kept"), "made_make_kept", icon=":material/inventory_2:")
    container = st.empty()
    if st.session_state.pop(_STOPPED, False):
        container.info(word("made.stopped"), icon=":material/info:")
    try:
        if is_preview:
            options = generate.GenerationOptions(**settings | {"limit": min(_PREVIEWED, settings["limit"])})
            _draw_preview(_generate(questions, options, container, server))
        elif make or make_stored:
            options = generate.GenerationOptions(**settings)
            name = word("made.name", data=set_name(data.name), by=generator_name(options.generator_label))
            generated = _generate(questions, options, container, None if make_stored else server, name)
            stored = save_question_set(generated.question_set, source=data.name)
            st.session_state[f"{_UNANSWERED}_{stored.key}"] = (generated.pending_count, generated.failed_passages)
            use_set(stored.key)
            st.toast(word("made.done", name=plain(stored.name)), icon=":material/check_circle:")
            st.rerun()
    except (EndpointError, LimitError, generate.QuestionsError) as error:
        container.error(plain(failure_text(error)), icon=":material/error:")
        if isinstance(error, EndpointError):
            st.caption(word("made.kept_words"))


def _pick_settings(passages: int, articles: int) -> tuple[dict[str, Any], tuple[str, str]]:
    """Draw the settings; returns arguments of `GenerationOptions`, and the address and access key of a server."""
    default = QuestionGenerator.SENTENCE
    kwargs: dict[str, Any] = {"format_func": lambda by: word(f"made.by_{by}"), "key": f"made_by_{language()}"}
    kwargs |= {"default": default, "required": True}
    by = QuestionGenerator(st.segmented_control(word("made.how"), [*QuestionGenerator], **kwargs) or default)
    st.markdown(word(f"made.about_{by}"))
    left, right, _ = st.columns([1, 1, 2])
    unit, count = ("most_titles", articles) if by is QuestionGenerator.TITLE else ("most", passages)
    settings: dict[str, Any] = {"by": by, "language": generate.PromptLanguage(language())}
    with left:
        settings["limit"] = _number(unit, max(1, count), min(max(1, count), _DEFAULT_PASSAGES))
    if by is not QuestionGenerator.TITLE:
        with right:
            settings["per_passage"] = _number("per_passage", 20, 1)
    if by is not QuestionGenerator.MODEL:
        return settings, ("", "")
    columns = st.columns([2, 1, 1])
    with_address = users_may_set_address()
    address = _text(columns[0], "address", placeholder="http://localhost:8000/v1") if with_address else ""
    settings["model"] = _text(columns[1], "model", value=os.environ.get(MODEL, "")).strip()
    key = _text(columns[2], "secret", type="password", autocomplete="off") if with_address else ""
    instruction = generate.prompts()[language()]["instruction"].strip()
    kwargs = {"value": instruction, "height": 180, "key": f"made_prompt_{language()}"}
    settings["prompt"] = st.text_area(**label_and_help("made.prompt"), **kwargs)
    return settings, (address, key)


def _number(name: str, most: int, default: int) -> int:
    kwargs: dict[str, Any] = {"min_value": 1, "max_value": most, "value": default, "key": f"made_{name}_{most}"}
    return int(st.number_input(**label_and_help(f"made.{name}"), **kwargs))


def _text(column: DeltaGenerator, name: str, **kwargs: Any) -> str:
    return str(column.text_input(**label_and_help(f"made.{name}"), key=f"made_{name}", **kwargs))


def _generate(
    questions: QuestionSet,
    options: generate.GenerationOptions,
    container: DeltaGenerator,
    server: tuple[str, str] | None,
    name: str = "",
) -> generate.GeneratedQuestions:
    """Generate questions with a progress bar and a stop button; without a `server`, only from stored answers."""
    last_rendered = 0.0
    endpoint = Endpoint.from_input(*server) if server and options.by is QuestionGenerator.MODEL else None

    def follow(done: int, total: int) -> None:
        """Draw the bar a few times per second, which is also where a click on a button interrupts the work."""
        nonlocal last_rendered
        if time.monotonic() - last_rendered >= _SECONDS_BETWEEN_WORDS:
            last_rendered = time.monotonic()
            bar.progress(done / max(1, total), word("made.working", done=f"{done:,}", total=f"{total:,}"))

    with container.container():
        bar = st.progress(0.0, word("made.working", done="0", total=f"{options.limit:,}"))
        stop = partial(st.session_state.update, {_STOPPED: True})
        st.button(word("made.stop"), on_click=stop, icon=":material/stop:", key="made_stop")
    generated = generate.generate_questions(questions, options, endpoint, name=name, on_progress=follow)
    container.empty()
    return generated


def _draw_preview(generated: generate.GeneratedQuestions) -> None:
    trained = strip_hidden_text(generated.question_set)
    for question in generated.question_set.questions[:_PREVIEWED]:
        passage = trained.passages[trained.row_of_passage[question.relevant[0]]]
        title = f"{passage.title} · " if passage.title else ""
        rest = "…" if len(passage.text) > _PREVIEW_CHARACTERS else ""
        st.markdown(f"**{plain(question.text)}**")
        st.caption(f"→ {plain(title + passage.text[:_PREVIEW_CHARACTERS] + rest)}")
    _draw_unanswered(generated.question_set, generated.failed_passages)


def _draw_unanswered(questions: QuestionSet, unanswered: Sequence[generate.FailedPassage]) -> None:
    if not unanswered:
        return
    with st.expander(word("made.unanswered", count=f"{len(unanswered):,}"), icon=":material/warning:"):
        rows = []
        for item in unanswered[: data_audit.MAX_ROWS]:
            reason = failure_text(generate.QuestionsError(item.code, item.answer_excerpt, **item.details))
            rows.append((questions.passages[item.row].text[:_PREVIEW_CHARACTERS], reason, item.answer_excerpt))
        columns = {name: tables.text(f"made.{name}", "", width="medium") for name in ("passage", "reason", "said")}
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def _draw_sources() -> None:
    _draw_upload(is_large=preview.STATE.current() is None)
    if preview.STATE.current() is not None:
        return
    sample = CATALOG[SAMPLE]
    korquad = CATALOG["korquad-v1-dev"]
    download = word("data_page.korquad_download", size=f"{korquad.size / MEGABYTE:.1f}")
    offers = (
        (sample, set_name(sample.title), word("data_page.sample_about"), ":material/visibility:"),
        (korquad, download, word("data_page.korquad_about"), ":material/download:"),
    )
    opened = None
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.no_file"), width="content")
        for entry, label, about, icon in offers:
            kwargs: dict[str, Any] = {"type": "tertiary", "icon": icon, "key": f"look_{entry.id}"}
            kwargs["help"] = f"{about}  \n{word('data_page.licence', licence=entry.licence)}"
            if st.button(label, **kwargs):
                opened = entry
    if opened is not None:
        _open_entry(opened)


def _open_entry(entry: CatalogEntry) -> None:
    preview.drop()
    bar = st.empty()
    try:
        content = fetch(entry, download_progress(bar.progress))
    except DataError as error:
        preview.STATE.show(DatasetPreview(entry.path.name, entry.id, set_name(entry.title), error=error))
        st.rerun()
    bar.empty()
    with reading_progress() as progress:
        read = preview_of([(content, entry.path.name)], source=entry.id, title=entry.title, progress=progress)
        preview.STATE.show(read)
    st.rerun()


def _draw_upload(*, is_large: bool) -> None:
    is_folder = bool(st.session_state.get(_FOLDER)) and is_large
    key = f"upload_{preview.STATE.upload_round()}{'_folder' if is_folder else ''}"
    translate_field(key, is_large=is_large, is_folder=is_folder)
    words = label_and_help("data_page.upload", megabytes=f"{st.get_option('server.maxUploadSize'):,}")
    files = st.file_uploader(**words, accept_multiple_files="directory" if is_folder else True, key=key)
    if is_large:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(word("data_page.formats"), width="content")
            st.toggle(**label_and_help("data_page.folder"), key=_FOLDER)
            kwargs: dict[str, Any] = {"type": "tertiary", "icon": ":material/download:", "on_click": "ignore"}
            kwargs |= {"file_name": word("data_page.sample_csv_name"), "mime": "text/csv", "key": "sample_csv"}
            st.download_button(**label_and_help("data_page.sample_csv"), data=sample_csv(language()), **kwargs)
    if files:
        new = [(file.getvalue(), file.name) for file in files]
        preview.STATE.empty_field()  # the preview holds the files
        with reading_progress() as progress:
            preview.STATE.show(preview_with(new, preview.STATE.current(), progress))
        st.rerun()


def sample_csv(language: str) -> bytes:
    """Return a small sample file in UTF-8 with a byte order mark, by which spreadsheets recognise the encoding."""
    return (_SAMPLE_CSV / language / "sample.csv").read_text(encoding="utf-8").encode("utf-8-sig")
