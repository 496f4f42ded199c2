"""Language: tokenizers trained on a text side by side with those of models, and views inside a language model."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pkgutil import resolve_name
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.labs.language.comparison import Request
from mrc_workbench.labs.language.pages import pieces
from mrc_workbench.labs.language.pages.resources import open_tokenizers
from mrc_workbench.labs.language.study import STUDY, StoredTokenizer, TokenizerRequest, stored_tokenizers
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language.tokenizer_training import Split, TokenizerKind
from mrc_workbench.models.sources import DEFAULT_MASKED_LANGUAGE_MODEL, STARTER, default_model, find_model
from mrc_workbench.workbench.views import study
from mrc_workbench.workbench.views.choices import finished_runs, model_place
from mrc_workbench.workbench.views.names import base_name, is_a_starter, set_name, told_with_download
from mrc_workbench.workbench.views.resources.sets import chosen_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose, choose_several, choose_tab, choose_view
from mrc_workbench.workbench.views.ui.words import failure_text, known, plain, word


def draw() -> None:
    st.title(word("language_page.purpose"), anchor=False)
    tabs = {"tokenizers": draw_tokenizers, "inside": draw_inside}
    name, place = choose_tab("language_tab", {name: word(f"language_page.tab_{name}") for name in tabs})
    with place:
        tabs[name]()


TOKENIZER_VIEWS = {"figures": pieces.draw_figures, "pieces": pieces.draw_pieces, "merging": pieces.draw_merges}
_USUAL = (2_000, 8_000, 32_000)
_CHARACTERS_A_PIECE = 20  # of text, in Korean articles, for a vocabulary to be found in it
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
_FEW = 30  # documents that are too few to rely on
_REFERENCE = re.compile(r"[\w./:-]{1,200}")


def draw_tokenizers() -> None:
    answer = st.container()
    learned = study.pick_text(chosen_set())
    request, models = _pick_request(learned)
    if request is None:
        answer.info(word("tokenizers.pick_one"), icon=":material/info:")
        return
    job = STUDY.job(request, learned.fingerprint)
    comparison = open_tokenizers(job.folder) if job.done else None
    if comparison is None:
        with answer:
            _draw_job(job, request, learned)
        return
    view = pieces.TokenizersView(request, comparison, stored_tokenizers(comparison, job.folder), models)
    with answer:
        _draw_answer(view)
        for model, error in comparison.errors.items():
            pieces.draw_failed(models.get(model, model), error)
        if comparison.errors and st.button(word("tokenizers.again"), icon=":material/replay:", key=f"again_{job.id}"):
            begin(partial(job.start, request))
    if view.tokenizers:
        name, place = choose_tab("tokenizer_view", {name: word(f"tokenizers.view_{name}") for name in TOKENIZER_VIEWS})
        with place:
            TOKENIZER_VIEWS[name](view)


def _draw_job(job: StudyJob[TokenizerRequest, Any], request: TokenizerRequest, learned: study.Learned) -> None:
    asked = request.compared
    ways = {asked.label(*way): way for way in product(asked.kinds, asked.splits, asked.vocabularies)}

    def at_work(status: Status) -> str:
        if not status.share:
            return word("tokenizers.starting")
        name = pieces.called_by(*ways[status.phase], asked) if status.phase in ways else status.phase
        return word("tokenizers.at_work", name=plain(name)) if name else word("tokenizers.counting")

    def reason(status: Status) -> str:
        # in the person's language where the text's name is all that the words ask for, else as the process told it
        key, name = f"language.{status.code}", study.learned_name(learned)
        try:
            return word(key, corpus=name, name=name) if known(key) else status.message
        except KeyError:
            return status.message

    about = word(
        "tokenizers.about", documents=f"{study.documents_in(learned):,}", count=asked.count - len(asked.against)
    )
    start = partial(job.start, request)
    draw_job(job, start, at_work, "tokenizers", word("tokenizers.start"), about=about, reason=reason)


def _draw_answer(view: pieces.TokenizersView) -> None:
    """Draw which tokenizer cuts words into the fewest pieces, which is closest to morphemes, and the text size."""
    every = view.tokenizers
    if not every:
        return
    able = [one for one in every if pieces.known_enough(one)]
    said = [_fewest(view, able or every)]
    judged = [(one.figures.f1, one) for one in able if one.figures.f1 is not None]
    if len({f"{f1:.2f}" for f1, _ in judged}) > 1:
        f1, best = max(judged, key=lambda one: one[0])
        said.append(word("tokenizers.answer_morphemes", best=plain(view.name(best)), f1=f"{f1:.2f}"))
    if left_out := [plain(view.name(one)) for one in every if one not in able]:
        key = "tokenizers.answer_unknown" if able else "tokenizers.answer_all_unknown"
        said.append(word(key, names=", ".join(left_out), share=f"{pieces.MOST_UNKNOWN:.0%}"))
    st.markdown(" ".join(said))
    figures, corpus = every[0].figures, plain(set_name(view.comparison.corpus))
    limits = word("tokenizers.limits", documents=f"{figures.documents:,}", words=f"{figures.words:,}", data=corpus)
    st.caption(f"{limits} {word('tokenizers.few_documents')}" if figures.documents < _FEW else limits)


def _fewest(view: pieces.TokenizersView, of: Sequence[StoredTokenizer]) -> str:
    ranked = sorted(of, key=lambda one: one.figures.tokens_per_word)
    best, worst = ranked[0], ranked[-1]
    told = {"best": plain(view.name(best)), "tokens": f"{best.figures.tokens_per_word:.2f}"}
    if len(ranked) == 1:
        return word("tokenizers.answer_one", **told)
    others = {"worst": plain(view.name(worst)), "most": f"{worst.figures.tokens_per_word:.2f}"}
    if told["tokens"] == others["most"]:
        return word("tokenizers.answer_alike", tokens=told["tokens"], count=len(ranked))
    return word("tokenizers.answer", **told, **others, count=len(ranked))


def usual_sizes(characters: int) -> list[int]:
    """Return the default vocabulary sizes: those that the length of the text allows, and smaller ones."""
    allowed = [size for size in _USUAL if characters >= _CHARACTERS_A_PIECE * size]
    return allowed if len(allowed) > 1 else [SIZES[0], *allowed]


def _pick_request(learned: study.Learned) -> tuple[TokenizerRequest | None, Mapping[str, str]]:
    """Draw the controls; returns the request, None if incomplete, and the models' names."""
    place = st.expander(word("tokenizers.settings"), icon=":material/tune:")
    with place, st.container(horizontal=True, vertical_alignment="bottom"):
        kinds = [*map(TokenizerKind, _pick("kinds", [*TokenizerKind], [*TokenizerKind], "kind"))]
        splits = [*map(Split, _pick("splits", [*Split], [Split.WORDS], "split"))]
        usual = [str(size) for size in usual_sizes(study.characters_in(learned))]
        look: dict[str, Any] = {"format_func": lambda size: f"{int(size):,}", "key": f"vocabularies_{learned.key}"}
        label, explained = word("tokenizers.vocabularies"), word("tokenizers.vocabularies_help")
        every = [*map(str, SIZES)]
        sizes = choose_several(st.pills, "vocabularies", label, every, usual, wrap=True, help=explained, **look)
        names, against = _pick_models()
    if not (kinds and splits and sizes):
        return None, names
    compared = Request(tuple(kinds), tuple(splits), tuple(map(int, sizes)), tuple(against))
    return TokenizerRequest(study.reference_of(learned), compared), names


def _pick(name: str, options: Sequence[str], usual: Sequence[str], called: str) -> list[str]:
    look: dict[str, Any] = {"wrap": True, "help": word(f"tokenizers.{called}_help"), "key": f"picked_{name}"}
    look["format_func"] = lambda one: word(f"tokenizers.{called}_{one}")
    every, first = [*map(str, options)], [*map(str, usual)]
    return choose_several(st.pills, name, word(f"tokenizers.{called}"), every, first, **look)


def _pick_models() -> tuple[dict[str, str], list[str]]:
    """Draw the choice of models to compare with; returns all names by reference, and the existing selected ones."""
    key, names = "tokenizers_against", _local_models()
    typed = [*st.session_state.get(key, ()), *st.query_params.get("beside", "").split("|")]
    names |= {one: one for one in typed if one not in names and _REFERENCE.fullmatch(one)}
    look: dict[str, Any] = {"placeholder": word("tokenizers.against_none"), "width": 320, "key": key}
    look |= {"format_func": lambda one: names.get(one, one), "help": word("tokenizers.against_help")}
    default = [default_model()]
    picked = choose_several(_multiselect, "beside", word("tokenizers.against"), [*names], default, **look)
    there = []
    for one in picked:
        try:
            find_model(one)
            there.append(one)
        except ModelError as error:
            pieces.draw_failed(names[one], error)
    return names, there


def _local_models() -> dict[str, str]:
    """Names by reference of the packaged base and the finished transformers."""
    base = {} if default_model() == STARTER else {default_model(): base_name(default_model())}
    runs = {model_place(run): plan.name for run, plan in finished_runs().items()}
    return base | {model: name for model, name in runs.items() if not is_a_starter(model)}


def _multiselect(label: str, options: Sequence[str], *, selection_mode: str, **look: Any) -> list[str]:
    del selection_mode  # there is but one
    picked: list[str] = st.multiselect(label, options, accept_new_options=True, **look)
    return picked


INSIDE_TABS = {"in_context": ("contexts", "attention"), "gaps": ("fill_mask", "over_steps"), "layers": ("layers",)}
INSIDE_VIEWS = {
    "contexts": "in_context:draw_contexts",
    "attention": "in_context:draw_attention",
    "fill_mask": "predictions:draw_beside",
    "over_steps": "predictions:draw_course",
    "layers": "predictions:draw_layers",
}
_TYPED = "typed_networks"  # of the session
_LET_IN = "networks_let_in"  # of the session: models of the hub that a click had fetched
_ASKED = "asked_inside"  # of the session


def draw_inside() -> None:
    names = _names()
    references, look = [*names], dict[str, Any](help=word("inside.model_help"), accept_new_options=True, width=360)
    look["format_func"] = lambda one: told_with_download(one, names.get(one, one))
    model = choose(st.selectbox, "network", word("inside.model"), references, references[0], follows=True, **look)
    name, place = choose_view("inside", INSIDE_TABS, lambda one: word(f"inside.view_{one}"))
    with place:
        if may_load(model):
            resolve_name(f"mrc_workbench.labs.language.pages.{INSIDE_VIEWS[name]}")(model, names)
            return
        st.info(word("inside.fetch_about", model=plain(model)), icon=":material/info:")
        if st.button(word("inside.fetch"), type="primary", icon=":material/download:", key="fetch_network"):
            allow_download(model)


@contextmanager
def display_failures() -> Iterator[None]:
    """Draw the failure of a model or a text, raised inside, and a spinner while it works."""
    try:
        with st.spinner(word("inside.at_work"), show_time=True):
            yield
    except Failure as error:
        st.error(plain(reason(error)), icon=":material/error:")


def reason(error: Failure) -> str:
    """Return a failure's text with the model's display name: not Markdown."""
    if name := _names().get(str(error.details.get("model"))):
        error = type(error)(error.code, str(error), **{**error.details, "model": name})
    return failure_text(error)


def _names() -> Mapping[str, str]:
    """Names by reference: local models, typed references, and one of the hub."""
    local = _local_models()
    typed = st.session_state.setdefault(_TYPED, {})
    given = st.query_params.get("network", "")
    if given not in local and _REFERENCE.fullmatch(given):
        typed[given] = given
    return local | {one: one for one in (*typed, DEFAULT_MASKED_LANGUAGE_MODEL) if one not in local}


def may_load(model: str) -> bool:
    """Whether a model may be loaded: it is on this machine, or the user let it be downloaded."""
    try:
        on_the_hub = find_model(model).hub_id is not None
    except ModelError:
        return True
    return not on_the_hub or model in st.session_state.get(_LET_IN, ())


def allow_download(model: str) -> None:
    st.session_state.setdefault(_LET_IN, set()).add(model)
    st.rerun()


def draw_as_table(table: pd.DataFrame, columns: Mapping[str, ColumnConfig], **look: Any) -> None:
    with st.expander(word("inside.as_table")):
        tables.draw(table, columns, **look)


def start_button(name: str, what: Hashable, label: str) -> bool:
    """Draw the button that starts the work `name`; returns whether this session started it for `what`."""
    known = st.session_state.setdefault(_ASKED, set())
    if st.button(label, type="primary", icon=":material/play_arrow:", key=name):
        known.add((name, what))
    return (name, what) in known


@contextmanager
def progress_bar(name: str, what: Hashable) -> Iterator[Callable[[float], None]]:
    """Yield a function that reports the fraction done, in a progress bar with a button that stops the work."""
    place, bars = st.empty(), list[Any]()

    def tell(share: float) -> None:
        if not bars:
            with place.container(horizontal=True, vertical_alignment="center"):
                bars.append(st.progress(0.0))
                stop, icon = word("inside.stop"), ":material/stop:"
                forget = st.session_state[_ASKED].discard
                st.button(stop, icon=icon, key=f"stop_{name}", on_click=forget, args=((name, what),))
        bars[0].progress(min(1.0, share))

    try:
        yield tell
    except Failure:
        place.empty()
        raise
    place.empty()
