"""The Tokenizers tab: tokenizers trained on a text of one's own, side by side with those of models."""

from importlib import import_module
from itertools import product

import streamlit as st

from jobs.status import Status
from language.job import TokenizerJob, TokenizerRequest
from views.language import tokenizer_answer, tokenizer_controls
from views.language.tokenizers_view import TokenizersView, called
from views.resources.language import open_tokenizers
from views.resources.sets import chosen_set
from views.texts import Learned, documents_in, learned_name, pick_text
from views.ui.job import begin, draw_job
from views.ui.problems import failure_text
from views.ui.state import choose_tab
from views.ui.words import known, plain, word

VIEWS = {
    "figures": "views.language.tokenizer_figures",
    "pieces": "views.language.pieces",
    "merging": "views.language.merging",
}


def draw() -> None:
    """Draw what to compare, and the comparison where it was made."""
    answer = st.container()
    learned = pick_text(chosen_set())
    request, models = tokenizer_controls.pick(learned)
    if request is None:
        answer.info(word("tokenizers.pick_one"), icon=":material/info:")
        return
    job = TokenizerJob.of(request, learned.fingerprint)
    kept = open_tokenizers(job.folder) if job.done else None
    if kept is None:
        with answer:
            _draw_job(job, request, learned)
        return
    view = TokenizersView(request, kept, models)
    with answer:
        _draw_answer(view, job)
    if kept.tokenizers:
        name, place = choose_tab("tokenizer_view", {name: word(f"tokenizers.view_{name}") for name in VIEWS})
        with place:
            import_module(VIEWS[name]).draw(view)


def _draw_answer(view: TokenizersView, job: TokenizerJob) -> None:
    tokenizer_answer.draw(view)
    for model, reason in view.kept.failed.items():
        told = {"model": plain(view.models.get(model, model)), "reason": plain(failure_text(reason))}
        st.error(word("tokenizers.model_failed", **told), icon=":material/error:")
    if view.kept.failed and st.button(word("tokenizers.again"), icon=":material/replay:", key=f"again_{job.id}"):
        begin(lambda: job.start(view.request))


def _draw_job(job: TokenizerJob, request: TokenizerRequest, learned: Learned) -> None:
    asked = request.compared
    draw_job(
        job,
        lambda: job.start(request),
        lambda status: _at_work(status, request),
        "tokenizers",
        word("tokenizers.start"),
        about=word("tokenizers.about", documents=f"{documents_in(learned):,}", count=asked.count - len(asked.against)),
        reason=lambda status: _reason(status, learned),
    )


def _at_work(status: Status, request: TokenizerRequest) -> str:
    if not status.share:
        return word("tokenizers.starting")
    asked = request.compared
    ways = {asked.label(*way): way for way in product(asked.kinds, asked.splits, asked.vocabularies)}
    name = called(*ways[status.phase], asked) if status.phase in ways else status.phase
    return word("tokenizers.at_work", name=plain(name)) if name else word("tokenizers.counting")


def _reason(status: Status, learned: Learned) -> str:
    """In the person's language where the text's name is all that the words ask for, else as the process told it."""
    key, name = f"language.{status.code}", learned_name(learned)
    try:
        return word(key, corpus=name, name=name) if known(key) else status.message
    except KeyError:
        return status.message
