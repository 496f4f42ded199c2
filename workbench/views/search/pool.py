"""A list to judge: what all retrievers of a comparison found and nobody judged, one passage after another, blind.

The list is a function of the comparison and of what stands in the address, and every judgement is kept at once: a
reload, another day or another browser goes on where it was.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from mrc_workbench.data.generate.judge import JudgeOptions, ToJudge, Verdicts, judge_with_model, verdicts_of_models
from mrc_workbench.data.generate.make import PromptLanguage, QuestionsError
from mrc_workbench.data.questions.judgements import Verdict, judgements_of, verdicts_of
from mrc_workbench.data.records import Passage, Question, QuestionSet, composed
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.llm_answers import EndpointError
from mrc_workbench.retrieval.analysis.evidence import Pooled, pool
from mrc_workbench.retrieval.comparison.store import kept_comparison
from mrc_workbench.workbench.views.names import answers_line
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.search.judging import draw_agreement, draw_making, put
from mrc_workbench.workbench.views.ui.job import LanguageModel, pick_language_model
from mrc_workbench.workbench.views.ui.passages import weighed_html
from mrc_workbench.workbench.views.ui.problems import failure_text
from mrc_workbench.workbench.views.ui.state import remember, remembered
from mrc_workbench.workbench.views.ui.words import duration, language, plain, word

_ADDRESS = ("pool", "pool_n", "pool_k", "pool_at")  # the comparison's key, questions, depth, and the place in the list
_KEYS = {Verdict.RIGHT: ("1", "check_circle"), Verdict.WRONG: ("2", "cancel"), Verdict.UNSURE: ("3", "help")}
_STOPPED = "pool_stopped"  # of the session
_SECONDS_BETWEEN_WORDS = 0.2


@dataclass(frozen=True)
class Round:
    """The list, the questions and the corpus it is of, and what the person has judged of it."""

    asked: QuestionSet  # whose questions are those of the comparison
    pairs: Sequence[Pooled]
    verdicts: Verdicts

    @cached_property
    def given(self) -> list[Verdict | None]:
        """The verdict of each of the list, None where there is none yet."""
        return [
            self.verdicts.get((composed(self.question(at).text), self.passage(at).id)) for at in range(len(self.pairs))
        ]

    def question(self, at: int) -> Question:
        return self.asked.questions[self.pairs[at].question]

    def passage(self, at: int) -> Passage:
        return self.asked.passages[self.pairs[at].passage]

    def next_open(self, at: int) -> int | None:
        """Place of the next one that is not judged, from the one after `at` and then from the first; None: all are."""
        order = [*range(at + 1, len(self.pairs)), *range(at + 1)]
        return next((one for one in order if self.given[one] is None), None)


def draw(data: StoredSet) -> None:
    """Draw the round that the address tells of, in place of the page."""
    st.title(word("pool.title"), anchor=False)
    st.button(word("pool.close"), icon=":material/arrow_back:", on_click=_close, type="tertiary", key="pool_close")
    found = _round(data)
    if found is None or not found.pairs:
        st.info(word("pool.gone" if found is None else "pool.nothing"), icon=":material/info:")
        return
    st.caption(word("pool.about"))
    done = sum(one is not None for one in found.given)
    counts = {"done": f"{done:,}", "total": f"{len(found.pairs):,}"}
    st.progress(done / len(found.pairs), word("pool.progress", **counts))
    first = found.next_open(-1)
    if first is None:
        st.success(word("pool.all_done"), icon=":material/task_alt:")
        draw_making(data)
    places = [str(place) for place in range(1, len(found.pairs) + 1)]
    at = int(remembered("pool_at", str((first or 0) + 1), places)) - 1
    _draw_one(found, at)
    with st.expander(word("pool.by_model"), icon=":material/smart_toy:"):
        _draw_model(found)
    draw_agreement(found.asked)
    if first is not None:
        with st.expander(word("judging.make"), icon=":material/library_add:"):
            draw_making(data)


def _round(data: StoredSet) -> Round | None:
    """Make the list that the address tells of; None where its comparison is gone, or is of another set."""
    kept = kept_comparison(st.query_params.get("pool", ""))
    opened = open_comparison(data.key, kept.folder) if kept else None
    if opened is None:
        return None
    asked = opened.question_set
    pairs = pool(opened.comparison, _number("pool_n", 20), _number("pool_k", 10))
    return Round(asked, pairs, verdicts_of(judgements_of(asked.corpus_fingerprint)))


def _number(name: str, usual: int) -> int:
    told = st.query_params.get(name, "")
    return int(told) if re.fullmatch("[1-9][0-9]{0,3}", told) else usual


def _close() -> None:
    for name in _ADDRESS:
        st.query_params.pop(name, None)
        st.session_state.pop(f"kept_{name}", None)


def _draw_one(found: Round, at: int) -> None:
    question, passage = found.question(at), found.passage(at)
    of_question = [place for place, pair in enumerate(found.pairs) if pair.question == found.pairs[at].question]
    numbers = [*dict.fromkeys(pair.question for pair in found.pairs)]
    places = {
        "question": numbers.index(found.pairs[at].question) + 1,
        "questions": len(numbers),
        "passage": of_question.index(at) + 1,
        "passages": len(of_question),
    }
    with st.container(border=True, key="pool_one"):
        st.caption(word("pool.place", **places))
        st.markdown(f"#### {plain(question.text)}")
        if line := answers_line(question):
            st.caption(line)
        st.html(weighed_html([(passage.title, 0.0)], [(passage.text, 0.0)], gold=False))
    with st.container(horizontal=True, key="pool_verdicts"):
        for verdict, (key, icon) in _KEYS.items():
            # keys hold the place: a second press, before the next passage is seen, is of the one that was
            st.button(
                word(f"pool.say_{verdict}"),
                icon=f":material/{icon}:",
                shortcut=key,
                type="primary" if found.given[at] is verdict else "secondary",
                help=word(f"pool.say_{verdict}_help"),
                on_click=_judge,
                args=(found, at, verdict),
                key=f"pool_{verdict}_{at}",
            )
    with st.container(horizontal=True):
        for name, icon, key, to in (
            ("back", "chevron_left", "Left", at - 1),
            ("next", "chevron_right", "Right", at + 1),
        ):
            st.button(
                word(f"pool.{name}"),
                icon=f":material/{icon}:",
                shortcut=key,
                type="tertiary",
                disabled=not 0 <= to < len(found.pairs),
                on_click=remember,
                args=("pool_at", str(to + 1)),
                key=f"pool_{name}_{at}",
            )


def _judge(found: Round, at: int, verdict: Verdict) -> None:
    put(found.asked.corpus_fingerprint, found.question(at).text, found.passage(at).id, verdict)
    to = found.next_open(at)
    remember("pool_at", str((at if to is None else to) + 1))


def _draw_model(found: Round) -> None:
    """Draw which model is to judge the same list, how far it is, and the way to begin and to stop it."""
    st.caption(word("pool.by_model_about"))
    place = st.empty()
    with st.container(horizontal=True, vertical_alignment="center"):
        model = pick_language_model()
        known = verdicts_of_models(found.asked.corpus_fingerprint).get(model.name, {}) if model else {}
        wanted = [ToJudge(found.question(at).text, found.passage(at)) for at in range(len(found.pairs))]
        done = sum((composed(one.question), one.passage.id) in known for one in wanted)
        label = word("pool.model_go_on" if 0 < done < len(wanted) else "pool.model_begin")
        pressed = st.button(label, disabled=not model, icon=":material/play_arrow:", key="pool_model")
    if model and known:
        counts = {"done": f"{done:,}", "total": f"{len(wanted):,}"}
        st.caption(word("pool.model_done", model=plain(model.name), **counts))
    if st.session_state.pop(_STOPPED, False):
        st.info(word("pool.model_stopped"), icon=":material/info:")
    if pressed and model:
        try:
            _ask(found.asked.corpus_fingerprint, wanted, model, place)
        except (EndpointError, LimitError, QuestionsError) as error:
            place.error(plain(failure_text(error)), icon=":material/error:")


def _ask(
    corpus: str, wanted: Sequence[ToJudge], model: LanguageModel, place: "st.delta_generator.DeltaGenerator"
) -> None:
    """Let the model judge under a bar that can be stopped, and draw the page anew with what came of it."""
    began, told, first = time.monotonic(), 0.0, None
    with place.container():
        bar = st.progress(0.0, word("pool.progress", done="0", total=f"{len(wanted):,}"))
        st.button(word("job.stop"), on_click=_stop, icon=":material/stop:", key="pool_model_stop")

    def follow(done: int, total: int) -> None:
        nonlocal told, first
        first = done if first is None else first
        if time.monotonic() - told < _SECONDS_BETWEEN_WORDS:
            return
        told = time.monotonic()
        text = word("pool.progress", done=f"{done:,}", total=f"{total:,}")
        if done > first:
            left = (told - began) * (total - done) / (done - first)
            text = word("job.left", at_work=text, left=duration(left))
        bar.progress(done / total, text)

    options = JudgeOptions(model.name, PromptLanguage(language()))
    judged = judge_with_model(corpus, wanted, options, model.endpoint(), follow)
    place.empty()
    if not judged.failed:
        st.rerun()
    reason = failure_text(judged.error) if judged.error else judged.said
    place.warning(
        word("pool.model_failed", count=f"{judged.failed:,}", reason=plain(reason)), icon=":material/warning:"
    )


def _stop() -> None:
    st.session_state[_STOPPED] = True
