"""A language model's answer: what it says as it comes, its citations held against the passages."""

import time
from collections.abc import Generator as Pieces
from collections.abc import Sequence
from html import escape
from queue import Empty, Queue
from threading import Thread

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from chat.asking import EndpointError
from chat.endpoint import Chat, without_thoughts
from data.records import Passage
from data.workspace import LimitError, for_this_user
from reading.generate import answer, kept_answer
from reading.generator import CITATION, GeneratedAnswer, Generator, Request, Support, checked, cited, prompts
from reading.rules import ReadingError, Rules
from views.ui.job import LanguageModel
from views.ui.problems import failure_text
from views.ui.words import language, plain, word

_STOPPED = "answers_stopped"
_SECONDS_BETWEEN_WORDS = 0.15
_MOST_COMING, _MOST_SAID, _MOST_CHECKED = 2000, 20_000, 50  # characters while it comes and then, and citations
_News = str | GeneratedAnswer | Exception
_SIGNS = {Support.HOLDS: "✔", Support.LACKS: "✘", Support.NEVER_SENT: "?"}


def generator_of(model: LanguageModel, k: int) -> Generator:
    """How it is asked, with the first K passages. Raises `ReadingError`."""
    return Generator(name=model.name, model=model.name, prompt=prompts()[language()], most_passages=k)


def draw(
    place: DeltaGenerator, model: LanguageModel, question: str, passages: Sequence[Passage], anchor: str
) -> GeneratedAnswer | None:
    """Let the model answer from the passages, word by word; returns what it said, None where it did not, or not yet.

    It can be stopped, with all that the model is asked of this question, and is then asked again only by a button. What
    was answered before comes at once.
    """
    stopped, this = st.session_state.setdefault(_STOPPED, set()), (model.name, question)
    with place.container(gap="xsmall"):
        st.markdown(f"**{plain(model.name)}**")
        said, button = st.empty(), st.empty()
        try:
            generator, request = generator_of(model, len(passages)), Request("asked", question, passages)
            found = kept_answer(generator, request)
            if not found and this in stopped:
                said.caption(word("answers.was_stopped"))
                button.button(word("answers.ask_again"), key=f"again_{anchor}", on_click=stopped.discard, args=(this,))
                return None
            if not found:
                icon, end = ":material/stop:", stopped.add
                button.button(word("answers.stop"), icon=icon, key=f"stop_{anchor}", on_click=end, args=(this,))
                said.caption(word("answers.waiting"))
                chat = generator.chat(model.endpoint())
                found = _followed(said, chat, answer(generator, chat, request))
        except (EndpointError, LimitError, ReadingError) as error:
            said.error(plain(failure_text(error)), icon=":material/error:")
            button.button(word("answers.ask_again"), key=f"again_{anchor}", icon=":material/replay:")
            return None
        button.empty()
        said.html(answer_html(found.said, anchor, len(found.sent)))
        _draw_checks(found, anchor)
        _draw_usage(found)
    return found


def answer_html(said: str, anchor: str, count: int) -> str:
    """Return an answer with its citations as links to the passages; what was never sent is no link."""
    text, parts, end = without_thoughts(said).strip(), list[str](), 0
    text = text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]} …"
    for found in CITATION.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts += [link_html(number, anchor, count) for number in cited(found.group()).numbers]
        end = found.end()
    return f'<p class="generated">{"".join(parts)}{escape(text[end:])}</p>'


def link_html(number: int, anchor: str, count: int) -> str:
    """Return a cited number as a link to its passage."""
    return (
        f'<a href="#{escape(anchor)}-{number}" target="_self">[{number}]</a>' if 0 < number <= count else f"[{number}]"
    )


def _followed(place: DeltaGenerator, chat: Chat, pieces: Pieces[str, None, GeneratedAnswer]) -> GeneratedAnswer:
    """Draw the end of the answer as it comes. Whoever presses a button, or goes away, ends the call here."""
    news = Queue[_News]()
    Thread(target=for_this_user(_pump), args=(pieces, news), daemon=True).start()
    said, cut = "", False
    try:
        while True:
            came = _next_of(news)
            if isinstance(came, Exception):
                raise came
            if isinstance(came, GeneratedAnswer):
                return came
            said += came
            cut = cut or len(said) > _MOST_COMING
            said = said[-_MOST_COMING:]
            shown = plain(without_thoughts(said)) if said else ""
            waiting = f":gray[{word('answers.thinking' if said else 'answers.waiting')}]"
            place.markdown(f"… {shown}" if cut and shown else shown or waiting)
    finally:
        chat.stop()


def _next_of(news: "Queue[_News]") -> _News:
    """What has come, the pieces of a moment together; no text where nothing did."""
    came, until = "", time.monotonic() + _SECONDS_BETWEEN_WORDS
    while (left := until - time.monotonic()) > 0:
        try:
            one = news.get(timeout=left)
        except Empty:
            break
        if not isinstance(one, str):
            return one
        came += one
    return came


def _pump(pieces: Pieces[str, None, GeneratedAnswer], news: "Queue[_News]") -> None:
    """Take the pieces as they come, until the last one or until the call is ended."""
    try:
        while True:
            news.put(next(pieces))
    except StopIteration as end:
        news.put(end.value)
    except Exception as error:
        news.put(error)


def _draw_checks(found: GeneratedAnswer, anchor: str) -> None:
    if found.refused:
        st.caption(word("answers.refused"))
        return
    citations = checked(found.cited, found.sent, Rules.KORQUAD)
    if not citations:
        st.caption(word("answers.cites_nothing"))
        return
    told = [
        f"{link_html(one.number, anchor, len(found.sent))} {_SIGNS[one.support]} "
        f"{escape(word(f'answers.support_{one.support}'))}"
        for one in citations[:_MOST_CHECKED]
    ]
    st.html(f'<p class="generated"><small>{escape(word("answers.checked"))} {" · ".join(told)}</small></p>')


def _draw_usage(found: GeneratedAnswer) -> None:
    usage = found.usage
    counts = {
        "prompt": "–" if usage.prompt_tokens is None else f"{usage.prompt_tokens:,}",
        "completion": "–" if usage.completion_tokens is None else f"{usage.completion_tokens:,}",
    }
    seconds = {"first": f"{usage.first_seconds:.1f}", "seconds": f"{usage.seconds:.1f}"}
    st.caption(word("answers.usage", **counts, **seconds))
