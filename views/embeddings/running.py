"""Work that the page asked for, in a process of its own: how far it is, a way to stop it, and what went wrong."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from data.pairs.store import StoredPairs
from embeddings.job import EmbeddingJob, Request
from jobs.status import Status
from models.hub import ModelError
from views.ui.job import draw_job
from views.ui.problems import failure_text
from views.ui.words import known, plain, word


def finished(
    request: Request, data: StoredPairs, names: Mapping[str, str], *, start: str | None = None
) -> EmbeddingJob | None:
    """Return the job of a request that has its result; else draw how it goes and return None.

    It starts by itself, once a session, or by a button where it is given the words of one to `start` it.
    """
    try:
        job = EmbeddingJob.of(request, data.fingerprint)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return None
    if job.done:
        return job
    draw(job, request, names, start=start)
    return None


def draw(job: EmbeddingJob, request: Request, names: Mapping[str, str], *, start: str | None = None) -> None:
    """Start a job nobody has started yet, once; and draw how far it is, or why it ended without a result."""
    draw_job(
        job,
        lambda: job.start(request),
        lambda status: _at_work(status, names),
        "embeddings",
        start or word("embeddings.start"),
        reason=lambda status: _reason(status, request),
        by_itself=start is None,
    )


def _at_work(status: Status, names: Mapping[str, str]) -> str:
    model = names.get(status.phase, status.phase)
    return word("embeddings.at_work", model=plain(model)) if model else word("embeddings.starting")


def _reason(status: Status, request: Request) -> str:
    """In the person's language where the model is all that the words ask for, else as the process told it."""
    model: Any = getattr(request, "model", "")
    key = f"model.{status.code}" if known(f"model.{status.code}") else f"embeddings.failed_{status.code}"
    try:
        return word(key, model=model)
    except KeyError:
        return status.message
