"""The passages of a set with their questions, the answers marked where they stand."""

import math
from html import escape

import numpy as np
import streamlit as st

from data.questions.audit import questions_of
from data.records import Passage, Question, QuestionSet
from text.marking import merged
from views.resources.sets import passages_found
from views.ui.state import PAGE_OF_LIST
from views.ui.words import plain, word

_A_PAGE = 5
_SHOWN_CHARACTERS = 5000
_SHOWN_QUESTIONS = 30
# translucent amber under the theme's own text colour, and a line: readable on light and dark, and without colour
_MARK = "background: rgba(255, 176, 0, 0.35); color: inherit; border-bottom: 2px solid #E69F00; border-radius: 2px"
_TEXT = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.7"


def draw(questions: QuestionSet, key: str) -> None:
    """Draw a page of passages; `key` tells the set from others."""
    wanted = _filter()
    rows = passages_found(questions, wanted) if wanted else np.arange(len(questions.passages))
    if not len(rows):
        st.info(word("data_page.none_found"), icon=":material/search_off:")
        return
    pages = math.ceil(len(rows) / _A_PAGE)
    st.caption(word("data_page.found", count=f"{len(rows):,}", all=f"{len(questions.passages):,}"))
    place = st.container()
    page = _page(pages, f"{key} {wanted}")
    shown = rows[(page - 1) * _A_PAGE : page * _A_PAGE].tolist()
    asked = questions_of(questions, shown)
    with place:
        for row in shown:
            _passage(questions.passages[row], asked[row])


def _filter() -> str:
    wanted = st.text_input(
        word("data_page.filter"),
        key="find",
        type="search",
        placeholder=word("data_page.filter_placeholder"),
        max_chars=200,
        bind="query-params",
    )
    return (wanted or "").strip()


def _page(pages: int, listed: str) -> int:
    """Let a person turn the pages. The page in the address counts for the first list that a session draws."""
    given = "" if "passages_listed" in st.session_state else st.query_params.get(PAGE_OF_LIST, "")
    st.session_state["passages_listed"] = True
    first = int(given) if given.isdecimal() and 1 <= int(given) <= pages else 1
    page = st.pagination(pages, default=first, key=f"{PAGE_OF_LIST} {listed}", persist_state="session")
    if page > 1 or PAGE_OF_LIST in st.query_params:
        st.query_params[PAGE_OF_LIST] = str(page)
    return page


def _passage(passage: Passage, asked: list[Question]) -> None:
    with st.container(border=True):
        text, questions = st.columns([3, 2])
        with text:
            st.markdown(f"**{plain(passage.title)}**" if passage.title else f"**{plain(passage.id)}**")
            st.html(_marked(passage.text, [answer for question in asked for answer in question.answers]))
        with questions:
            st.markdown(f"**{word('data_page.asked', count=f'{len(asked):,}')}**")
            st.html(_listed(asked) if asked else f"<p>{escape(word('data_page.nothing_asked'))}</p>")


def _marked(text: str, answers: list[str]) -> str:
    shown, parts, end = text[:_SHOWN_CHARACTERS], [], 0
    places = ((shown.find(answer), len(answer)) for answer in answers if answer)
    for start, stop in merged((start, start + length) for start, length in places if start >= 0):
        parts += [escape(shown[end:start]), f'<mark style="{_MARK}">{escape(shown[start:stop])}</mark>']
        end = stop
    parts.append(escape(shown[end:]))
    if len(text) > len(shown):
        parts.append(f" … <em>{escape(word('data_page.more_characters', count=f'{len(text) - len(shown):,}'))}</em>")
    return f'<div style="{_TEXT}">{"".join(parts)}</div>'


def _listed(asked: list[Question]) -> str:
    items = []
    for question in asked[:_SHOWN_QUESTIONS]:
        answers = " | ".join(question.answers)
        answer = f'<br><small>→ <mark style="{_MARK}">{escape(answers)}</mark></small>' if answers else ""
        items.append(f'<li style="margin-bottom: 0.4rem">{escape(question.text)}{answer}</li>')
    if len(asked) > _SHOWN_QUESTIONS:
        items.append(f"<li>{escape(word('data_page.more_questions', count=len(asked) - _SHOWN_QUESTIONS))}</li>")
    return f'<ol style="{_TEXT}; white-space: normal; padding-left: 1.5rem">{"".join(items)}</ol>'
