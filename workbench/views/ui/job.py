"""Jobs on the pages (start, progress, end), models loaded on request, and the choice of a language model."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from mrc_workbench.data.jobs.folder import Job, State, Status
from mrc_workbench.data.problems import MISSING_EXTRA
from mrc_workbench.models.llm import ADDRESS, MODEL, Endpoint, users_may_set_address
from mrc_workbench.workbench.views.ui.words import duration, plain, search_failure_text, show_errors, word

logger = logging.getLogger(__name__)
T = TypeVar("T")
_POLL_SECONDS = 0.5


def draw_job(
    job: Job,
    start: Callable[[], object],
    progress_text: Callable[[Status], str],
    section: str,
    label: str,
    *,
    about: str = "",
    reason: Callable[[Status], str] = lambda status: status.message,
    by_itself: bool = False,
) -> None:
    """Draw the progress of a job, or why it ended without a result, and the button `label` that starts it.

    The locale `section` has the texts "failed", "interrupted" and "stopped". `by_itself` starts a job at once, unless
    it failed or a user stopped it.
    """
    if job.running:
        follow(job, progress_text, interval=_POLL_SECONDS)
        return
    begun = f"started_{job.id}"
    if by_itself and job.can_autostart and begun not in st.session_state:
        st.session_state[begun] = True
        begin(start)
    status = job.status()
    if job.failed:
        failed = status.state is State.FAILED
        lacks_library = status.code == MISSING_EXTRA
        why = word("extra.job") if lacks_library else plain(reason(status))
        message = word(f"{section}.failed", reason=why) if failed else word(f"{section}.interrupted")
        st.error(message, icon=":material/error:")
        if lacks_library:
            st.code(status.message, language=None, wrap_lines=True)
        draw_last_lines(job, word("job.log"))
    elif status.state is State.STOPPED:
        st.info(word(f"{section}.stopped"), icon=":material/info:")
    if about:
        st.markdown(about)
    if st.button(label, type="primary", icon=":material/play_arrow:", key=f"start_{job.id}"):
        begin(start)


def begin(start: Callable[[], object]) -> None:
    with show_errors():
        start()
        st.rerun()


def follow(
    job: Job,
    progress_text: Callable[[Status], str],
    draw_below: Callable[[Status], None] | None = None,
    *,
    interval: float = 1.0,
    text: Callable[[Status], str] | None = None,
) -> None:
    """Draw the job every `interval` seconds until it ends; it continues without the page.

    `text` replaces `progress_text` with the time left. `draw_below` draws more below the bar.
    """

    def default_text(status: Status) -> str:
        return with_time_left(progress_text(status), status)

    st.fragment(_draw, run_every=interval)(job, text or default_text, draw_below)


def _draw(job: Job, text: Callable[[Status], str], draw_below: Callable[[Status], None] | None) -> None:
    if not job.running:
        st.rerun()
    status = job.status()
    bar, button = st.columns([5, 1], vertical_alignment="bottom")
    bar.progress(min(1.0, status.progress), text=text(status))
    # A job that can save stops first, and ends on a second click
    is_stopping = status.state is State.STOPPING
    name, icon = ("end", "dangerous") if is_stopping else ("stop", "stop")
    kwargs: dict[str, Any] = {"icon": f":material/{icon}:", "key": f"{name}_{job.id}", "width": "stretch"}
    kwargs["help"] = word(f"job.{name}_help") if job.can_save else None
    button.button(word(f"job.{name}"), on_click=job.stop if job.can_save and not is_stopping else job.kill, **kwargs)
    if draw_below:
        draw_below(status)


def with_time_left(text: str, status: Status) -> str:
    if status.state is State.STOPPING or not status.remaining_seconds:
        return text
    return word("job.left", at_work=text, left=duration(status.remaining_seconds))


def draw_log(job: Job, lines: int) -> None:
    st.code(job.log(lines) or word("job.log_empty"), language=None, height=400, wrap_lines=True)


def draw_last_lines(job: Job, heading: str) -> None:
    if log := job.log(lines=40):
        with st.expander(heading):
            st.code(log, language=None)


def compute_on_request(name: str, label: str, compute: Callable[[], T]) -> T | None:
    """Draw the button `label` for a retriever; after a click, return the result of `compute`, None if it fails."""
    pressed = f"why_model_{name}"
    if not st.session_state.get(pressed):
        press = partial(st.session_state.update, {pressed: True})
        st.button(label, on_click=press, icon=":material/psychology:", key=f"ask_{pressed}")
        return None
    try:
        with st.spinner(word("search.loading"), show_time=True):
            return compute()
    except Exception as error:
        logger.warning("the model of %r cannot be asked: %s", name, error)
        st.error(plain(search_failure_text(error)), icon=":material/error:")
        return None


@dataclass(frozen=True)
class LanguageModel:
    """A model with the address and key that a user entered; empty ones come from the environment."""

    name: str
    address: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def endpoint(self) -> Endpoint:
        return Endpoint.from_input(self.address, self.key)


def language_model() -> LanguageModel | None:
    """Return the selected language model; None without a name or an address."""
    typed = {name: str(st.session_state.get(f"answers_{name}", "")).strip() for name in ("address", "secret")}
    address, key = typed.values() if users_may_set_address() else ("", "")
    name = str(st.session_state.get("answers_model", os.environ.get(MODEL, ""))).strip()
    known = bool(address or os.environ.get(ADDRESS, "").strip())
    return LanguageModel(name, address, key) if name and known else None


def pick_language_model() -> LanguageModel | None:
    named = language_model()
    label = word("answers.language_model_is", model=plain(named.name)) if named else word("answers.no_language_model")
    with st.popover(label, icon=":material/smart_toy:"):
        draw_language_model()
    return language_model()


def draw_language_model() -> None:
    st.caption(word("answers.language_model_about"))
    typed = users_may_set_address()
    with st.form("answers_language_model", border=False):  # submit all fields at once
        if typed:
            _draw_text("address", placeholder="http://localhost:11434/v1")
        _draw_text("model", value=os.environ.get(MODEL, "").strip())
        if typed:
            _draw_text("secret", type="password", autocomplete="off")
        st.form_submit_button(word("answers.use_model"), key="use_model", type="primary", width="stretch")


def _draw_text(name: str, **kwargs: str) -> None:
    st.text_input(word(f"made.{name}"), key=f"answers_{name}", help=word(f"answers.{name}_help"), **kwargs)  # type: ignore[call-overload]
