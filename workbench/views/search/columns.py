"""The results of a question side by side: a column per retriever, drawn as soon as its retriever has answered."""

from collections.abc import Sequence

import streamlit as st

from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.rankings import DEPTH, Findings
from mrc_workbench.workbench.views.choices import Choices, method_line
from mrc_workbench.workbench.views.forecasts import rounded_duration
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.resources.retrieval import marked_passages
from mrc_workbench.workbench.views.search.answer import Search, SearchAnswer, score_word
from mrc_workbench.workbench.views.search.judging import draw_mark
from mrc_workbench.workbench.views.search.waits import SOON
from mrc_workbench.workbench.views.ui.passages import (
    card,
    head_html,
    hit,
    hits_html,
    legend_html,
    right_ranks,
    switch_html,
    truth_line,
)
from mrc_workbench.workbench.views.ui.problems import search_failure_text
from mrc_workbench.workbench.views.ui.words import plain, word


class Columns:
    """The places of the columns: all heads in one row, so that the results below begin at one height."""

    def __init__(self, answer: SearchAnswer, specs: Sequence[Spec], choices: Choices) -> None:
        self._answer, self._specs, self._choices = answer, specs, choices
        self.building = st.empty()  # where it is told which retriever is being built
        st.html(legend_html(truth=bool(answer.truth and answer.truth.answers)))
        with st.container(key="beside_search"):
            self._switch = st.empty()
            names = [spec.name for spec in specs]
            self._heads = {name: column.empty() for name, column in zip(names, st.columns(len(specs)), strict=True)}
            self._bodies = {name: column.empty() for name, column in zip(names, st.columns(len(specs)), strict=True)}

    def draw_switch(self) -> None:
        """Draw the names that a narrow screen switches columns by, with the ranks of answer passages known by now."""
        found = [self._answer.found.get(spec.name) for spec in self._specs]
        ranks = [next(iter(right_ranks(one, self._answer.right)), None) if one else None for one in found]
        names = [spec.name for spec in self._specs]
        self._switch.html(switch_html(names, [*self._choices.specs], ranks, "search"))

    def draw_pending(self, name: str, wait: float | None) -> None:
        """Draw a column whose retriever is not built yet, with the seconds that this is expected to take."""
        self._draw_head(self._choices.specs[name], "")
        with self._bodies[name].container():
            text = word("search.pending")
            if wait is not None and wait > SOON:
                text = word("search.pending_time", time=rounded_duration(wait))
            st.caption(f":material/hourglass_empty: {text}")

    def draw(self, name: str) -> None:
        """Draw the column of a retriever that has answered, or failed."""
        spec, outcome = self._choices.specs[name], self._answer.outcomes[name]
        known = isinstance(outcome, Findings) and self._answer.right
        self._draw_head(spec, truth_line(self._answer.found[name], self._answer.right, DEPTH) if known else "")
        with self._bodies[name].container():
            if isinstance(outcome, Exception):
                st.error(plain(search_failure_text(outcome)), icon=":material/error:")
            elif not outcome.rows:
                st.caption(f":material/search_off: {word('search.found_nothing')}")
            else:
                _draw_hits(self._answer, spec)

    def _draw_head(self, spec: Spec, truth: str) -> None:
        every = [*self._choices.specs]
        does = method_line(spec, self._choices).removeprefix(f"{retriever_name(spec.name)}: ")
        with self._heads[spec.name].container():
            st.html(head_html(spec.name, every, truth, does))
            score = score_word(spec)
            st.caption(word(score), help=word(f"{score}_help"))


def _draw_hits(answer: SearchAnswer, spec: Spec) -> None:
    rows = tuple(answer.shown(spec.name))
    marks = marked_passages(answer.data.key, answer.question, rows)
    ids = answer.questions.passages.ids
    known = answer.truth.rows if answer.truth else ()
    for row, texts in zip(rows, marks, strict=True):
        one = hit(spec, answer.found, row, ids[row], texts, relevant=row in answer.right)
        key, is_right = f"{spec.name} {row}", row in answer.judged
        with card(key):
            st.html(hits_html([one]))
            if row not in known:
                draw_mark(answer.questions, answer.question, row, key, is_right=is_right)


def draw_each(search: Search, answer: SearchAnswer, columns: Columns) -> None:
    """Draw each column as soon as its retriever has answered; the outcomes are added to those of the answer."""
    waiting = [name for name in search.picked if any(spec.name in search.pending for spec in search.needed(name))]
    if waiting:
        columns.draw_switch()
    for name in waiting:
        columns.draw_pending(name, search.expected.get(name))
    for name, outcome in search.outcomes(columns.building):
        answer.outcomes[name] = outcome
        if name in search.picked:
            columns.draw(name)
    columns.draw_switch()
