"""The Tokenizers tab: tokenizers trained on the passages of the set in use, side by side with those of models."""

from importlib import import_module
from itertools import product

import streamlit as st

from data.store import StoredSet
from jobs.status import State, Status
from language.job import TokenizerJob, TokenizerRequest
from views import job as job_view
from views.language import tokenizer_answer, tokenizer_controls
from views.language.tokenizers_view import TokenizersView, called
from views.problem_words import errors_told
from views.resources.tokenizers import open_comparison
from views.state import choose_tab, chosen_set
from views.words import known, plain, word

VIEWS = {
    "figures": "views.language.tokenizer_figures",
    "pieces": "views.language.pieces",
    "merging": "views.language.merging",
}
_POLL_SECONDS = 0.5


def draw() -> None:
    """Draw what to compare, and the comparison where it was made."""
    data = chosen_set()
    answer = st.container()
    request, models = tokenizer_controls.pick(data)
    if request is None:
        answer.info(word("tokenizers.pick_one"), icon=":material/info:")
        return
    job = TokenizerJob.of(request, data.fingerprint)
    kept = open_comparison(job.folder) if job.done else None
    if kept is None:
        with answer:
            _draw_job(job, request, data)
        return
    view = TokenizersView(data, request, kept, models)
    with answer:
        _draw_answer(view, job)
    if kept.tokenizers:
        name, place = choose_tab("tokenizer_view", {name: word(f"tokenizers.view_{name}") for name in VIEWS})
        with place:
            import_module(VIEWS[name]).draw(view)


def _draw_answer(view: TokenizersView, job: TokenizerJob) -> None:
    tokenizer_answer.draw(view)
    for model, reason in view.kept.failed.items():
        told = {"model": plain(view.models.get(model, model)), "reason": plain(reason)}
        st.error(word("tokenizers.model_failed", **told), icon=":material/error:")
    if view.kept.failed and st.button(word("tokenizers.again"), icon=":material/replay:", key=f"again_{job.id}"):
        _start(job, view.request)


def _start(job: TokenizerJob, request: TokenizerRequest) -> None:
    with errors_told():
        job.start(request)
        st.rerun()


def _draw_job(job: TokenizerJob, request: TokenizerRequest, data: StoredSet) -> None:
    """Draw how far a job is, or the button that starts it."""
    if job.running:
        job_view.follow(job, lambda status: _at_work(status, request), every=_POLL_SECONDS)
        return
    _tell_end(job, data)
    asked = request.compared
    st.markdown(word("tokenizers.about", passages=f"{data.passages:,}", count=asked.count - len(asked.against)))
    if st.button(word("tokenizers.start"), type="primary", icon=":material/play_arrow:", key=f"compare_{job.id}"):
        _start(job, request)


def _at_work(status: Status, request: TokenizerRequest) -> str:
    if not status.share:
        return word("tokenizers.starting")
    asked = request.compared
    ways = {asked.label(*way): way for way in product(asked.kinds, asked.splits, asked.vocabularies)}
    name = called(*ways[status.phase], asked) if status.phase in ways else status.phase
    return word("tokenizers.at_work", name=plain(name)) if name else word("tokenizers.counting")


def _tell_end(job: TokenizerJob, data: StoredSet) -> None:
    status = job.status()
    if job.failed:
        if status.state is State.FAILED:
            st.error(word("tokenizers.failed", reason=plain(_reason(status, data))), icon=":material/error:")
        else:
            st.error(word("tokenizers.interrupted"), icon=":material/error:")
        if log := job.log(lines=40):
            with st.expander(word("tokenizers.log")):
                st.code(log, language=None)
    elif status.state is State.STOPPED:
        st.info(word("tokenizers.stopped"), icon=":material/info:")


def _reason(status: Status, data: StoredSet) -> str:
    """In the person's language where the set's name is all that the words ask for, else as the process told it."""
    key = f"language.{status.code}"
    try:
        return word(key, corpus=data.name) if known(key) else status.message
    except KeyError:
        return status.message
