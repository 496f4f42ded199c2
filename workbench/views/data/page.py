"""The Data page: get questions or sentence pairs, check how they were read, and use them; and the panel that generates
questions from passages."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data import apart
from mrc_workbench.data.generate import (
    MadeQuestions,
    MakerOptions,
    PromptLanguage,
    QuestionsError,
    Unanswered,
    make_questions,
    prompts,
)
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions import Audit
from mrc_workbench.data.questions.read import WRITTEN, folder_name, written
from mrc_workbench.data.records import Maker, QuestionSet, as_trained
from mrc_workbench.data.split import Split, SplitOptions
from mrc_workbench.data.store import CATALOG, CatalogEntry, StoredSet, keep, obtain
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.llm import MODEL, Endpoint, EndpointError, may_be_given
from mrc_workbench.workbench.views.data import audit as data_audit
from mrc_workbench.workbench.views.data import pairs as data_pairs
from mrc_workbench.workbench.views.data import preview
from mrc_workbench.workbench.views.data import reading as data_reading
from mrc_workbench.workbench.views.data.preview import Preview, preview_of, preview_with
from mrc_workbench.workbench.views.data.widgets import MEGABYTE, draw_sets, following, reading_progress
from mrc_workbench.workbench.views.names import made_words, maker_name, set_name
from mrc_workbench.workbench.views.navigation import open_page, translate_field, way_to
from mrc_workbench.workbench.views.resources.sets import SAMPLE, audit_of, chosen_set, question_set, split_of, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import choose, choose_tab, show_top
from mrc_workbench.workbench.views.ui.words import (
    errors_told,
    failure_text,
    label_and_help,
    language,
    plain,
    tell_damaged_files,
    word,
)

_DEFAULT_PASSAGES = 2000  # enough to train with, and generated in a minute
_PREVIEWED = 5  # passages
_SHOWN_CHARACTERS = 160  # of a passage below its question
_SHOWN_ROWS = 1000
_SECONDS_BETWEEN_WORDS = 0.1
_STOPPED, _UNANSWERED = "made_stopped", "made_unanswered"  # of the session
_TABS = ("summary", "passages", "figures")
_FOLDER = "folder_upload"  # whether the field takes a folder
_SAMPLE_CSV = Path(__file__).parents[1] / "locales"  # with a `sample.csv` for each language


def draw() -> None:
    apart.make_ready()
    st.title(word("page.data"), anchor=False)
    kinds = ["questions", "pairs"]
    look: dict[str, Any] = {"format_func": lambda kind: word(f"data_page.sort_{kind}"), "required": True}
    look |= {"follows": True, "label_visibility": "collapsed"}
    if choose(st.segmented_control, "sort", word("data_page.sort"), kinds, kinds[0], **look) == "pairs":
        data_pairs.draw(chosen_set())
    else:
        _draw_questions(chosen_set())


def _draw_questions(used: StoredSet) -> None:
    shown = preview.current()
    if shown is None and preview.stored_last() == used.key:
        show_top(f"kept {used.key}")
        st.success(word("data_page.in_use_now", name=plain(set_name(used.name))), icon=":material/check_circle:")
        _draw_next(used)
    _draw_sources()
    shown = preview.current()
    if shown is None:
        draw_sets(used.key)
        _draw_stored(used)
        return
    data_reading.draw(shown)
    if shown.read is None:
        _draw_stored(used)
        return
    tab, place = _choose_tab(*_TABS)
    with place:
        _draw_tab(tab, shown.read.reading.question_set, shown.read.audit, shown.read.split, shown.key)


def _draw_next(used: StoredSet) -> None:
    with st.container(horizontal=True):
        if used.questions:
            way_to("compare", word("data_page.to_compare"), data=used.key)
            way_to("train", word("data_page.to_train"), data=used.key)
        way_to("search", word("data_page.to_search"), data=used.key)


def _draw_stored(used: StoredSet) -> None:
    st.header(word("data_page.set_in_use", name=plain(set_name(used.name))), anchor=False)
    if preview.stored_last() != used.key:
        _draw_next(used)
    with errors_told():
        with st.spinner(word("data_page.auditing"), show_time=True):
            questions, figures = question_set(used.key), audit_of(used.key)
            parts = split_of(used.key, SplitOptions())
        tell_damaged_files(questions)
        _draw_generated(used, questions)
        tab, place = _choose_tab(*_TABS, "make") if used.questions else _choose_tab("make", *_TABS)
        with place:
            if tab == "make":
                _draw_panel(used, questions, figures.article_count)
            else:
                _draw_tab(tab, questions, figures, parts, used.key)


def _choose_tab(*tabs: str) -> tuple[str, Any]:
    return choose_tab("look", {tab: word(f"data_page.look_{tab}") for tab in tabs})


def _draw_tab(tab: str, questions: QuestionSet, figures: Audit, parts: Split, key: str) -> None:
    if tab == "summary":
        data_audit.draw(questions, figures, parts)
    elif tab == "passages":
        data_audit.draw_passages(questions, key)
    else:
        data_audit.draw_figures(questions, figures)
        if questions.questions:
            data_audit.draw_split(questions, parts)
        st.subheader(word("data_page.downloads"), anchor=False)
        st.caption(word("data_page.downloads_about"))
        with st.container(horizontal=True):
            for layout in WRITTEN:  # written on request
                file = (partial(written, questions, layout), f"{folder_name(questions.name)}_{layout}.zip")
                tables.draw_file(f"data_page.download_{layout}", *file, "application/zip")


def _draw_generated(data: StoredSet, questions: QuestionSet) -> None:
    if not questions.made:
        return
    with st.container(border=True):
        st.markdown(made_words(questions.made, len(questions.questions)))
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
    by_model = settings["by"] is Maker.MODEL
    with st.container(horizontal=True, vertical_alignment="center"):
        make = st.button(word("made.make"), type="primary", icon=":material/auto_awesome:", key="made_make")
        label = word("made.try_five" if by_model else "made.preview")
        is_preview = st.button(label, icon=":material/visibility:", key="made_preview")
        make_kept = by_model and st.button(word("made.make_kept"), icon=":material/inventory_2:", key="made_make_kept")
    place = st.empty()
    if st.session_state.pop(_STOPPED, False):
        place.info(word("made.stopped"), icon=":material/info:")
    try:
        if is_preview:
            options = MakerOptions(**settings | {"most": min(_PREVIEWED, settings["most"])})
            _draw_preview(_generate(questions, options, place, server))
        elif make or make_kept:
            options = MakerOptions(**settings)
            name = word("made.name", data=set_name(data.name), by=maker_name(options.made))
            generated = _generate(questions, options, place, None if make_kept else server, name)
            stored = keep(generated.question_set, source=data.name)
            st.session_state[f"{_UNANSWERED}_{stored.key}"] = (generated.left, generated.unanswered)
            use_set(stored.key)
            st.toast(word("made.done", name=plain(stored.name)), icon=":material/check_circle:")
            st.rerun()
    except (EndpointError, LimitError, QuestionsError) as error:
        place.error(plain(failure_text(error)), icon=":material/error:")
        if isinstance(error, EndpointError):
            st.caption(word("made.kept_words"))


def _pick_settings(passages: int, articles: int) -> tuple[dict[str, Any], tuple[str, str]]:
    """Draw how questions are generated; returns arguments of `MakerOptions`, and a server's address and access key."""
    look: dict[str, Any] = {"format_func": lambda by: word(f"made.by_{by}"), "key": f"made_by_{language()}"}
    selected = st.segmented_control(word("made.how"), [*Maker], default=Maker.SENTENCE, required=True, **look)
    by = Maker(selected or Maker.SENTENCE)
    st.markdown(word(f"made.about_{by}"))
    left, right, _ = st.columns([1, 1, 2])
    unit, count = ("most_titles", articles) if by is Maker.TITLE else ("most", passages)
    settings: dict[str, Any] = {"by": by, "language": PromptLanguage(language())}
    with left:
        settings["most"] = _number(unit, max(1, count), min(max(1, count), _DEFAULT_PASSAGES))
    if by is not Maker.TITLE:
        with right:
            settings["per_passage"] = _number("per_passage", 20, 1)
    if by is not Maker.MODEL:
        return settings, ("", "")
    places = st.columns([2, 1, 1])
    with_address = may_be_given()
    address = _text(places[0], "address", placeholder="http://localhost:8000/v1") if with_address else ""
    settings["model"] = _text(places[1], "model", value=os.environ.get(MODEL, "")).strip()
    key = _text(places[2], "secret", type="password", autocomplete="off") if with_address else ""
    default = prompts()[language()]["instruction"].strip()
    look = {"height": 180, "key": f"made_prompt_{language()}"}
    settings["prompt"] = st.text_area(**label_and_help("made.prompt"), value=default, **look)
    return settings, (address, key)


def _number(name: str, most: int, default: int) -> int:
    look: dict[str, Any] = {"min_value": 1, "max_value": most, "value": default, "key": f"made_{name}_{most}"}
    return int(st.number_input(**label_and_help(f"made.{name}"), **look))


def _text(place: DeltaGenerator, name: str, **look: Any) -> str:
    return str(place.text_input(**label_and_help(f"made.{name}"), key=f"made_{name}", **look))


def _generate(
    questions: QuestionSet, options: MakerOptions, place: DeltaGenerator, server: tuple[str, str] | None, name: str = ""
) -> MadeQuestions:
    """Generate questions under a bar that can be stopped; without a `server`, only a model's stored answers count."""
    last_drawn = 0.0
    endpoint = Endpoint.of(*server) if server and options.by is Maker.MODEL else None

    def follow(done: int, total: int) -> None:
        """Draw the bar a few times a second; a click on a button stops the work there."""
        nonlocal last_drawn
        if time.monotonic() - last_drawn >= _SECONDS_BETWEEN_WORDS:
            last_drawn = time.monotonic()
            bar.progress(done / max(1, total), word("made.working", done=f"{done:,}", total=f"{total:,}"))

    with place.container():
        bar = st.progress(0.0, word("made.working", done="0", total=f"{options.most:,}"))
        stop = partial(st.session_state.update, {_STOPPED: True})
        st.button(word("made.stop"), on_click=stop, icon=":material/stop:", key="made_stop")
    generated = make_questions(questions, options, endpoint, name=name, on_progress=follow)
    place.empty()
    return generated


def _draw_preview(generated: MadeQuestions) -> None:
    """Draw the questions over the beginnings of their passages, as training reads them."""
    trained = as_trained(generated.question_set)
    for question in generated.question_set.questions[:_PREVIEWED]:
        passage = trained.passages[trained.row_of_passage[question.relevant[0]]]
        title = f"{passage.title} · " if passage.title else ""
        rest = "…" if len(passage.text) > _SHOWN_CHARACTERS else ""
        st.markdown(f"**{plain(question.text)}**")
        st.caption(f"→ {plain(title + passage.text[:_SHOWN_CHARACTERS] + rest)}")
    _draw_unanswered(generated.question_set, generated.unanswered)


def _draw_unanswered(questions: QuestionSet, unanswered: Sequence[Unanswered]) -> None:
    if not unanswered:
        return
    with st.expander(word("made.unanswered", count=f"{len(unanswered):,}"), icon=":material/warning:"):
        rows = []
        for one in unanswered[:_SHOWN_ROWS]:
            reason = failure_text(QuestionsError(one.code, one.said, **one.details))
            rows.append((questions.passages[one.row].text[:_SHOWN_CHARACTERS], reason, one.said))
        columns = {name: tables.text(f"made.{name}", "", width="medium") for name in ("passage", "reason", "said")}
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def _draw_sources() -> None:
    """Draw the upload field and, without a preview, the sample and the download; each ends in a preview."""
    _draw_upload(is_large=preview.current() is None)
    if preview.current() is not None:
        return
    sample, korquad = CATALOG[SAMPLE], CATALOG["korquad-v1-dev"]
    download = word("data_page.korquad_download", size=f"{korquad.size / MEGABYTE:.1f}")
    offers = (
        (sample, set_name(sample.title), word("data_page.sample_about"), ":material/visibility:"),
        (korquad, download, word("data_page.korquad_about"), ":material/download:"),
    )
    opened = None
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.no_file"), width="content")
        for entry, label, about, icon in offers:
            look: dict[str, Any] = {"type": "tertiary", "icon": icon, "key": f"look_{entry.id}"}
            look["help"] = f"{about}  \n{word('data_page.licence', licence=entry.licence)}"
            if st.button(label, **look):
                opened = entry
    if opened is not None:
        _open_entry(opened)


def _open_entry(entry: CatalogEntry) -> None:
    preview.drop()
    bar = st.empty()
    try:
        content = obtain(entry, following(bar.progress))
    except DataError as error:
        preview.show(Preview(entry.path.name, entry.id, set_name(entry.title), error=error))
        st.rerun()
    bar.empty()
    with reading_progress() as progress:
        preview.show(preview_of([(content, entry.path.name)], source=entry.id, title=entry.title, progress=progress))
    st.rerun()


def _draw_upload(*, is_large: bool) -> None:
    is_folder = bool(st.session_state.get(_FOLDER)) and is_large
    key = f"upload_{preview.upload_round()}{'_folder' if is_folder else ''}"
    translate_field(key, is_large=is_large, is_folder=is_folder)
    words = label_and_help("data_page.upload", megabytes=f"{st.get_option('server.maxUploadSize'):,}")
    files = st.file_uploader(**words, accept_multiple_files="directory" if is_folder else True, key=key)
    if is_large:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(word("data_page.formats"), width="content")
            st.toggle(**label_and_help("data_page.folder"), key=_FOLDER)
            look: dict[str, Any] = {"type": "tertiary", "icon": ":material/download:", "on_click": "ignore"}
            look |= {"file_name": word("data_page.sample_csv_name"), "mime": "text/csv", "key": "sample_csv"}
            st.download_button(**label_and_help("data_page.sample_csv"), data=sample_csv(language()), **look)
    if files:
        new = [(file.getvalue(), file.name) for file in files]
        preview.empty_field()  # the files are held by the preview
        with reading_progress() as progress:
            preview.show(preview_with(new, preview.current(), progress))
        st.rerun()


def sample_csv(language: str) -> bytes:
    """Return a small file to start from, as UTF-8 with a byte order mark: spreadsheets read it as such then."""
    return (_SAMPLE_CSV / language / "sample.csv").read_text(encoding="utf-8").encode("utf-8-sig")
