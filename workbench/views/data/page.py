"""The Data page: get questions or sentence pairs, check how they were read, and use them; and the panel that generates
questions from passages."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data import apart
from mrc_workbench.data.generate.make import (
    MadeQuestions,
    MakerOptions,
    PromptLanguage,
    QuestionsError,
    Unanswered,
    make_questions,
    prompts,
)
from mrc_workbench.data.questions.audit import Audit
from mrc_workbench.data.records import Maker, QuestionSet, as_trained
from mrc_workbench.data.split import Split, SplitOptions
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.llm.asking import EndpointError
from mrc_workbench.models.llm.endpoint import MODEL, Endpoint, may_be_given
from mrc_workbench.workbench.views.data import audit as data_audit
from mrc_workbench.workbench.views.data import pairs as data_pairs
from mrc_workbench.workbench.views.data import preview, ways
from mrc_workbench.workbench.views.data import reading as data_reading
from mrc_workbench.workbench.views.data.ways import draw_sets
from mrc_workbench.workbench.views.names import made_words, maker_name, set_name
from mrc_workbench.workbench.views.navigation import open_page, way_to
from mrc_workbench.workbench.views.resources.sets import audit_of, chosen_set, question_set, split_of, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.problems import errors_told, failure_text, tell_damaged_files
from mrc_workbench.workbench.views.ui.state import choose, choose_tab, show_top
from mrc_workbench.workbench.views.ui.words import language, plain, word

_USUAL = 2000  # passages: enough to train with, and made in a minute
_PREVIEWED = 5  # passages
_SHOWN_CHARACTERS = 160  # of a passage below its question
_SHOWN_ROWS = 1000
_SECONDS_BETWEEN_WORDS = 0.1
_STOPPED, _UNANSWERED = "made_stopped", "made_unanswered"  # of the session
_QUESTIONS, _PAIRS = "questions", "pairs"
_LOOK = "look"  # its name in the address
_SUMMARY, _PASSAGES, _FIGURES, _MAKE = "summary", "passages", "figures", "make"
_LOOKS = (_SUMMARY, _PASSAGES, _FIGURES)
_SPLIT = SplitOptions()


def draw() -> None:
    apart.make_ready()
    st.title(word("page.data"), anchor=False)
    kind = choose(
        st.segmented_control,
        "sort",
        word("data_page.sort"),
        [_QUESTIONS, _PAIRS],
        _QUESTIONS,
        follows=True,
        format_func=lambda one: word(f"data_page.sort_{one}"),
        required=True,
        label_visibility="collapsed",
    )
    if kind == _PAIRS:
        data_pairs.draw(chosen_set())
    else:
        _draw_questions(chosen_set())


def _draw_questions(used: StoredSet) -> None:
    shown = preview.current()
    if shown is None and preview.kept_now() == used.key:
        show_top(f"kept {used.key}")
        st.success(word("data_page.in_use_now", name=plain(set_name(used.name))), icon=":material/check_circle:")
        _draw_next(used)
    ways.draw()
    shown = preview.current()
    if shown is None:
        draw_sets(used.key)
        _draw_stored(used)
        return
    data_reading.draw(shown)
    if shown.read is None:
        _draw_stored(used)
        return
    opened, place = choose_tab(_LOOK, _labels(_LOOKS))
    with place:
        found = shown.read
        _draw_look(opened, found.reading.question_set, found.audit, found.split, shown.sha256[:16])


def _draw_next(used: StoredSet) -> None:
    with st.container(horizontal=True):
        if used.questions:
            way_to("compare", word("data_page.to_compare"), data=used.key)
            way_to("train", word("data_page.to_train"), data=used.key)
        way_to("search", word("data_page.to_search"), data=used.key)


def _draw_stored(used: StoredSet) -> None:
    st.header(word("data_page.set_in_use", name=plain(set_name(used.name))), anchor=False)
    if preview.kept_now() != used.key:
        _draw_next(used)
    with errors_told():
        with st.spinner(word("data_page.auditing"), show_time=True):
            questions, figures = question_set(used.key), audit_of(used.key)
            found = split_of(used.key, _SPLIT)
        tell_damaged_files(questions)
        draw_made(used, questions)
        looks = (*_LOOKS, _MAKE) if used.questions else (_MAKE, *_LOOKS)
        opened, place = choose_tab(_LOOK, _labels(looks))
        with place:
            if opened == _MAKE:
                draw_panel(used, questions, figures.article_count)
            else:
                _draw_look(opened, questions, figures, found, used.key)


def _labels(looks: Sequence[str]) -> dict[str, str]:
    return {look: word(f"data_page.look_{look}") for look in looks}


def _draw_look(look: str, questions: QuestionSet, figures: Audit, found: Split, key: str) -> None:
    """Draw one of the looks at a set; `key` tells the set from others."""
    if look == _SUMMARY:
        data_audit.draw(questions, figures, found)
    elif look == _PASSAGES:
        data_audit.draw_passages(questions, key)
    else:
        data_audit.draw_figures(questions, figures)
        if questions.questions:
            data_audit.draw_split(questions, found)
        data_audit.draw_downloads(questions)


@dataclass(frozen=True)
class Chosen:
    """How questions are to be made, and where a language model is asked."""

    by: Maker
    most: int = 0
    per_passage: int = 1
    model: str = ""
    prompt: str = ""
    address: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def options(self, most: int = 0) -> MakerOptions:
        """Return the options, of `most` passages at most where told. Raises `QuestionsError`."""
        return MakerOptions(
            by=self.by,
            most=min(most or self.most, self.most),
            per_passage=self.per_passage,
            model=self.model,
            prompt=self.prompt,
            language=PromptLanguage(language()),
        )


def draw_made(data: StoredSet, questions: QuestionSet) -> None:
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
def draw_panel(data: StoredSet, questions: QuestionSet, articles: int) -> None:
    st.caption(word("made.about"))
    chosen = _pick(len(questions.passages), articles)
    by_model = chosen.by is Maker.MODEL
    with st.container(horizontal=True, vertical_alignment="center"):
        make = st.button(word("made.make"), type="primary", icon=":material/auto_awesome:", key="made_make")
        preview = st.button(
            word("made.try_five" if by_model else "made.preview"), icon=":material/visibility:", key="made_preview"
        )
        make_kept = by_model and st.button(word("made.make_kept"), icon=":material/inventory_2:", key="made_make_kept")
    place = st.empty()
    if st.session_state.pop(_STOPPED, False):
        place.info(word("made.stopped"), icon=":material/info:")
    try:
        if preview:
            _draw_preview(_made(questions, chosen, place, most=_PREVIEWED))
        elif make or make_kept:
            name = word("made.name", data=set_name(data.name), by=maker_name(chosen.options().made))
            found = _made(questions, chosen, place, calls=not make_kept, name=name)
            kept = keep(found.question_set, source=data.name)
            st.session_state[f"{_UNANSWERED}_{kept.key}"] = (found.left, found.unanswered)
            use_set(kept.key)
            st.toast(word("made.done", name=plain(kept.name)), icon=":material/check_circle:")
            st.rerun()
    except (EndpointError, LimitError, QuestionsError) as error:
        place.error(plain(failure_text(error)), icon=":material/error:")
        if isinstance(error, EndpointError):
            st.caption(word("made.kept_words"))


def _pick(passages: int, articles: int) -> Chosen:
    chosen = st.segmented_control(
        word("made.how"),
        list(Maker),
        default=Maker.SENTENCE,
        required=True,
        format_func=lambda one: word(f"made.by_{one}"),
        key=f"made_by_{language()}",
    )
    by = Maker(chosen or Maker.SENTENCE)
    st.markdown(word(f"made.about_{by}"))
    left, right, _ = st.columns([1, 1, 2])
    unit, count = ("most_titles", articles) if by is Maker.TITLE else ("most", passages)
    with left:
        most = _number(unit, max(1, count), min(max(1, count), _USUAL))
    if by is Maker.TITLE:
        return Chosen(by, most)
    with right:
        per_passage = _number("per_passage", 20, 1)
    return _with_model(most, per_passage) if by is Maker.MODEL else Chosen(by, most, per_passage)


def _with_model(most: int, per_passage: int) -> Chosen:
    address, model, key = st.columns([2, 1, 1])
    usual = prompts()[language()]["instruction"].strip()
    return Chosen(
        Maker.MODEL,
        most,
        per_passage,
        address=_text(address, "address", placeholder="http://localhost:8000/v1") if may_be_given() else "",
        model=_text(model, "model", value=os.environ.get(MODEL, "")).strip(),
        key=_text(key, "secret", type="password", autocomplete="off") if may_be_given() else "",
        prompt=st.text_area(
            word("made.prompt"), usual, key=f"made_prompt_{language()}", help=word("made.prompt_help"), height=180
        ),
    )


def _number(name: str, most: int, usual: int) -> int:
    return int(
        st.number_input(word(f"made.{name}"), 1, most, usual, key=f"made_{name}_{most}", help=word(f"made.{name}_help"))
    )


def _text(place: DeltaGenerator, name: str, **look: str) -> str:
    return str(
        place.text_input(word(f"made.{name}"), key=f"made_{name}", help=word(f"made.{name}_help"), **look)  # type: ignore[call-overload]
    )


def _made(
    questions: QuestionSet, chosen: Chosen, place: DeltaGenerator, *, most: int = 0, calls: bool = True, name: str = ""
) -> MadeQuestions:
    """Make questions under a bar that can be stopped. Raises `QuestionsError`, `EndpointError`."""
    options, told = chosen.options(most), 0.0
    endpoint = Endpoint.of(chosen.address, chosen.key) if calls and chosen.by is Maker.MODEL else None

    def follow(done: int, total: int) -> None:
        """Draw the bar a few times a second; whoever presses a button ends the work there."""
        nonlocal told
        if time.monotonic() - told >= _SECONDS_BETWEEN_WORDS:
            told = time.monotonic()
            bar.progress(done / max(1, total), word("made.working", done=f"{done:,}", total=f"{total:,}"))

    with place.container():
        bar = st.progress(0.0, word("made.working", done="0", total=f"{options.most:,}"))
        st.button(word("made.stop"), on_click=_stop, icon=":material/stop:", key="made_stop")
    found = make_questions(questions, options, endpoint, name=name, on_progress=follow)
    place.empty()
    return found


def _stop() -> None:
    st.session_state[_STOPPED] = True


def _draw_preview(found: MadeQuestions) -> None:
    """Draw the questions over the beginnings of their passages, as training reads them."""
    trained = as_trained(found.question_set)
    for question in found.question_set.questions[:_PREVIEWED]:
        passage = trained.passages[trained.row_of_passage[question.relevant[0]]]
        title = f"{passage.title} · " if passage.title else ""
        rest = "…" if len(passage.text) > _SHOWN_CHARACTERS else ""
        st.markdown(f"**{plain(question.text)}**")
        st.caption(f"→ {plain(title + passage.text[:_SHOWN_CHARACTERS] + rest)}")
    _draw_unanswered(found.question_set, found.unanswered)


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
