"""The Language page compares tokenizers, trained on a text or of models, and looks inside a language model."""

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
from mrc_workbench.labs.language.comparison import TokenizerGrid
from mrc_workbench.labs.language.pages import pieces
from mrc_workbench.labs.language.pages.resources import open_comparison
from mrc_workbench.labs.language.study import STUDY, StoredTokenizer, TokenizerRequest, stored_tokenizers
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language.tokenizer_training import PreTokenization, TokenizerKind
from mrc_workbench.models.sources import DEFAULT_MASKED_LANGUAGE_MODEL, STARTER, default_model, find_model
from mrc_workbench.workbench.views import study
from mrc_workbench.workbench.views.choices import finished_runs, model_reference
from mrc_workbench.workbench.views.names import base_name, is_a_starter, name_with_download_note, set_name
from mrc_workbench.workbench.views.resources.sets import selected_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose, choose_several, choose_tab, choose_view
from mrc_workbench.workbench.views.ui.words import failure_text, has_text, label_and_help, plain, word

TOKENIZER_VIEWS = {"metrics": pieces.draw_metrics, "pieces": pieces.draw_pieces, "merging": pieces.draw_merges}
_DEFAULT_SIZES = (2_000, 8_000, 32_000)
_CHARACTERS_PER_TOKEN = 20  # characters of Korean articles that a vocabulary needs for each token
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
_MIN_DOCUMENTS = 30  # fewer are unreliable
_REFERENCE = re.compile(r"[\w./:-]{1,200}")
INSIDE_TABS = {"in_context": ("contexts", "attention"), "gaps": ("fill_mask", "over_steps"), "layers": ("layers",)}
INSIDE_VIEWS = {
    "contexts": "in_context:draw_contexts",
    "attention": "in_context:draw_attention",
    "fill_mask": "predictions:draw_masked_predictions",
    "over_steps": "predictions:draw_checkpoint_predictions",
    "layers": "predictions:draw_layer_comparison",
}
# keys of the session
_TYPED = "typed_networks"
_ALLOWED_DOWNLOADS = "allowed_network_downloads"
_STARTED = "started_inside"


def draw() -> None:
    st.title(word("language_page.purpose"), anchor=False)
    tabs = {"tokenizers": draw_tokenizers, "inside": draw_inside}
    name, container = choose_tab("language_tab", {name: word(f"language_page.tab_{name}") for name in tabs})
    with container:
        tabs[name]()


def draw_tokenizers() -> None:
    answer = st.container()
    text = study.pick_text(selected_set())
    request, models = _pick_request(text)
    if request is None:
        answer.info(word("tokenizers.pick_one"), icon=":material/info:")
        return
    job = STUDY.job(request, text.fingerprint)
    comparison = open_comparison(job.folder) if job.done else None
    if comparison is None:
        with answer:
            _draw_job(job, request, text)
        return
    view = pieces.TokenizersView(request, comparison, stored_tokenizers(comparison, job.folder), models)
    with answer:
        _draw_answer(view)
        for model, error in comparison.errors.items():
            pieces.draw_failed(models.get(model, model), error)
        if comparison.errors and st.button(word("tokenizers.again"), icon=":material/replay:", key=f"again_{job.id}"):
            begin(partial(job.start, request))
    if view.tokenizers:
        names = {name: word(f"tokenizers.view_{name}") for name in TOKENIZER_VIEWS}
        name, container = choose_tab("tokenizer_view", names)
        with container:
            TOKENIZER_VIEWS[name](view)


def _draw_job(job: StudyJob[TokenizerRequest, Any], request: TokenizerRequest, text: study.TextSource) -> None:
    grid = request.compared
    options = {grid.label(*item): item for item in product(grid.kinds, grid.splits, grid.vocabularies)}

    def progress_text(status: Status) -> str:
        if not status.progress:
            return word("tokenizers.starting")
        name = pieces.tokenizer_name(*options[status.phase], grid) if status.phase in options else status.phase
        return word("tokenizers.at_work", name=plain(name)) if name else word("tokenizers.counting")

    def reason(status: Status) -> str:
        # translated if the message needs only the text's name, else the message of the process
        key = f"language.{status.code}"
        name = study.text_source_name(text)
        try:
            return word(key, corpus=name, name=name) if has_text(key) else status.message
        except KeyError:
            return status.message

    counts = {"documents": f"{study.documents_in(text):,}", "count": grid.count - len(grid.against)}
    texts: dict[str, Any] = {"about": word("tokenizers.about", **counts), "reason": reason}
    draw_job(job, partial(job.start, request), progress_text, "tokenizers", word("tokenizers.start"), **texts)


def _draw_answer(view: pieces.TokenizersView) -> None:
    tokenizers = view.tokenizers
    if not tokenizers:
        return
    comparable = [item for item in tokenizers if pieces.knows_enough_words(item)]
    sentences = [_fewest_tokens_text(view, comparable or tokenizers)]
    scored = [(item.metrics.f1, item) for item in comparable if item.metrics.f1 is not None]
    if len({f"{f1:.2f}" for f1, _ in scored}) > 1:
        f1, best = max(scored, key=lambda item: item[0])
        sentences.append(word("tokenizers.answer_morphemes", best=plain(view.name(best)), f1=f"{f1:.2f}"))
    if left_out := [plain(view.name(item)) for item in tokenizers if item not in comparable]:
        key = "tokenizers.answer_unknown" if comparable else "tokenizers.answer_all_unknown"
        sentences.append(word(key, names=", ".join(left_out), fraction=f"{pieces.MAX_UNKNOWN_WORDS:.0%}"))
    st.markdown(" ".join(sentences))
    metrics = tokenizers[0].metrics
    corpus = plain(set_name(view.comparison.corpus))
    limits = word("tokenizers.limits", documents=f"{metrics.documents:,}", words=f"{metrics.words:,}", data=corpus)
    st.caption(f"{limits} {word('tokenizers.few_documents')}" if metrics.documents < _MIN_DOCUMENTS else limits)


def _fewest_tokens_text(view: pieces.TokenizersView, tokenizers: Sequence[StoredTokenizer]) -> str:
    ranked = sorted(tokenizers, key=lambda tokenizer: tokenizer.metrics.tokens_per_word)
    best = ranked[0]
    worst = ranked[-1]
    values = {"best": plain(view.name(best)), "tokens": f"{best.metrics.tokens_per_word:.2f}"}
    if len(ranked) == 1:
        return word("tokenizers.answer_one", **values)
    others = {"worst": plain(view.name(worst)), "most": f"{worst.metrics.tokens_per_word:.2f}"}
    if values["tokens"] == others["most"]:
        return word("tokenizers.answer_alike", tokens=values["tokens"], count=len(ranked))
    return word("tokenizers.answer", **values, **others, count=len(ranked))


def default_sizes(characters: int) -> list[int]:
    allowed = [size for size in _DEFAULT_SIZES if characters >= _CHARACTERS_PER_TOKEN * size]
    return allowed if len(allowed) > 1 else [SIZES[0], *allowed]


def _pick_request(text: study.TextSource) -> tuple[TokenizerRequest | None, Mapping[str, str]]:
    """Draw the controls; returns the request, None if incomplete, and the models' names."""
    expander = st.expander(word("tokenizers.settings"), icon=":material/tune:")
    with expander, st.container(horizontal=True, vertical_alignment="bottom"):
        kinds = [*map(TokenizerKind, _pick("kinds", [*TokenizerKind], [*TokenizerKind], "kind"))]
        splits = [*map(PreTokenization, _pick("splits", [*PreTokenization], [PreTokenization.WORDS], "split"))]
        default = [str(size) for size in default_sizes(study.characters_in(text))]
        look = label_and_help("tokenizers.vocabularies")
        look |= {"format_func": lambda size: f"{int(size):,}", "key": f"vocabularies_{text.key}", "wrap": True}
        sizes = choose_several(st.pills, "vocabularies", options=[*map(str, SIZES)], default=default, **look)
        names, against = _pick_models()
    if not (kinds and splits and sizes):
        return None, names
    compared = TokenizerGrid(tuple(kinds), tuple(splits), tuple(map(int, sizes)), tuple(against))
    return TokenizerRequest(study.reference_of(text), compared), names


def _pick(name: str, options: Sequence[str], default: Sequence[str], label_key: str) -> list[str]:
    look = label_and_help(f"tokenizers.{label_key}") | {"wrap": True, "key": f"picked_{name}"}
    look["format_func"] = lambda option: word(f"tokenizers.{label_key}_{option}")
    return choose_several(st.pills, name, options=[*map(str, options)], default=default, **look)


def _pick_models() -> tuple[dict[str, str], list[str]]:
    key = "tokenizers_against"
    names = _local_models()
    typed_references = [*st.session_state.get(key, ()), *st.query_params.get("beside", "").split("|")]
    valid_references = [reference for reference in typed_references if _REFERENCE.fullmatch(reference)]
    names |= {reference: reference for reference in valid_references if reference not in names}
    look = label_and_help("tokenizers.against") | {"placeholder": word("tokenizers.against_none")}
    look |= {"format_func": lambda reference: names.get(reference, reference), "width": 320, "key": key}
    selected = choose_several(_multiselect, "beside", options=[*names], default=[default_model()], **look)
    available = []
    for reference in selected:
        try:
            find_model(reference)
            available.append(reference)
        except ModelError as error:
            pieces.draw_failed(names[reference], error)
    return names, available


def _local_models() -> dict[str, str]:
    base = {} if default_model() == STARTER else {default_model(): base_name(default_model())}
    runs = {model_reference(run): plan.name for run, plan in finished_runs().items()}
    return base | {model: name for model, name in runs.items() if not is_a_starter(model)}


def _multiselect(label: str, options: Sequence[str], *, selection_mode: str, **look: Any) -> list[str]:
    del selection_mode  # always several
    selected: list[str] = st.multiselect(label, options, accept_new_options=True, **look)
    return selected


def draw_inside() -> None:
    names = _model_names()
    references = [*names]
    look = label_and_help("inside.model") | {"accept_new_options": True, "width": 360}
    look["format_func"] = lambda key: name_with_download_note(key, names.get(key, key))
    model = choose(st.selectbox, "network", options=references, default=references[0], follows=True, **look)
    name, container = choose_view("inside", INSIDE_TABS, lambda key: word(f"inside.view_{key}"))
    with container:
        if may_load(model):
            resolve_name(f"mrc_workbench.labs.language.pages.{INSIDE_VIEWS[name]}")(model, names)
            return
        st.info(word("inside.fetch_about", model=plain(model)), icon=":material/info:")
        if st.button(word("inside.fetch"), type="primary", icon=":material/download:", key="fetch_network"):
            allow_download(model)


@contextmanager
def display_failures() -> Iterator[None]:
    """Draw a spinner while the body runs, and the `Failure` that it raises."""
    try:
        with st.spinner(word("inside.at_work"), show_time=True):
            yield
    except Failure as error:
        st.error(plain(reason(error)), icon=":material/error:")


def reason(error: Failure) -> str:
    """Return a failure's text with the model's display name: not Markdown."""
    if name := _model_names().get(str(error.details.get("model"))):
        error = type(error)(error.code, str(error), **{**error.details, "model": name})
    return failure_text(error)


def _model_names() -> Mapping[str, str]:
    local = _local_models()
    typed_references = st.session_state.setdefault(_TYPED, {})
    requested = st.query_params.get("network", "")
    if requested not in local and _REFERENCE.fullmatch(requested):
        typed_references[requested] = requested
    references = (*typed_references, DEFAULT_MASKED_LANGUAGE_MODEL)
    return local | {reference: reference for reference in references if reference not in local}


def may_load(model: str) -> bool:
    try:
        is_remote = find_model(model).hub_id is not None
    except ModelError:
        return True
    return not is_remote or model in st.session_state.get(_ALLOWED_DOWNLOADS, ())


def allow_download(model: str) -> None:
    st.session_state.setdefault(_ALLOWED_DOWNLOADS, set()).add(model)
    st.rerun()


def draw_as_table(table: pd.DataFrame, columns: Mapping[str, ColumnConfig], **look: Any) -> None:
    with st.expander(word("inside.as_table")):
        tables.draw(table, columns, **look)


def start_button(name: str, subject: Hashable, label: str) -> bool:
    """Draw the button that starts the task `name`; returns whether this session started it for `subject`."""
    started = st.session_state.setdefault(_STARTED, set())
    if st.button(label, type="primary", icon=":material/play_arrow:", key=name):
        started.add((name, subject))
    return (name, subject) in started


@contextmanager
def progress_bar(name: str, subject: Hashable) -> Iterator[Callable[[float], None]]:
    """Yield a function that reports the fraction done, in a progress bar with a button that stops the work."""
    container = st.empty()
    bars = list[Any]()

    def report(fraction: float) -> None:
        if not bars:
            with container.container(horizontal=True, vertical_alignment="center"):
                bars.append(st.progress(0.0))
                stop = word("inside.stop")
                icon = ":material/stop:"
                discard = st.session_state[_STARTED].discard
                st.button(stop, icon=icon, key=f"stop_{name}", on_click=discard, args=((name, subject),))
        bars[0].progress(min(1.0, fraction))

    try:
        yield report
    except Failure:
        container.empty()
        raise
    container.empty()
