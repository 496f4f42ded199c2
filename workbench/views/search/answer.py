"""A question asked of each retriever: how long one takes to answer, how it is built and asked, and its results."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.analysis import are_kept
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import blind_parts
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, TermSpec
from mrc_workbench.retrieval.comparison.multistage import LearnedSpec
from mrc_workbench.retrieval.comparison.pace import forecasts
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, Spec
from mrc_workbench.retrieval.explain.encoders import LateExplanation
from mrc_workbench.retrieval.rankings import DEPTH, Findings, Truth
from mrc_workbench.workbench.views.choices import Choices, rounded_duration
from mrc_workbench.workbench.views.names import base_name, retriever_name, retriever_names
from mrc_workbench.workbench.views.reasons import AskedQuestion
from mrc_workbench.workbench.views.resources.retrieval import explained_late, findings, listening, materials
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import once_asked
from mrc_workbench.workbench.views.ui.passages import draw_matches, matches_html
from mrc_workbench.workbench.views.ui.words import known, plain, word

SOON = 3.0  # seconds: who takes longer is selected on demand


def waits(data: StoredSet, choices: Choices) -> dict[str, float]:
    """Return expected seconds by retriever, those it wraps included, without loading; unknown ones are left out."""
    known = [name for name in choices.searchable if all(_is_here(spec) for spec in choices.needed([name]))]
    if not known:
        return {}
    made = materials(data.key, choices.experiment(data, known, Part.ALL).model_dump_json())
    # of so many passages even the names of the files take long to compute
    own = {spec.name: _own_wait(spec, made, look=not choices.large) for spec in choices.needed(known)}
    needed = {name: [own[spec.name] for spec in choices.needed([name])] for name in known}
    return {name: sum(filter(None, parts)) for name, parts in needed.items() if None not in parts}


def _is_here(spec: Spec) -> bool:
    if not spec.needs_model:
        return True
    try:
        return not find_model(str(dict(spec.local)["model"])).hub_id
    except ModelError:  # it fails at once and says why
        return True


def _own_wait(spec: Spec, made: Materials, *, look: bool) -> float | None:
    retriever = made.made[spec.name]
    if isinstance(retriever, Exception):  # it fails at once
        return 0.0
    if retriever.ready or (look and _is_stored(spec, retriever, made)):
        return 0.0
    whole = made.whole
    one_question = QuestionSet(whole.name, whole.passages, (Question("", "?"),))
    asked = whole if isinstance(spec, LearnedSpec) else one_question
    return forecasts({spec.name: spec}, asked)[spec.name].seconds


def _is_stored(spec: Spec, retriever: CachedRetriever, made: Materials) -> bool:
    if isinstance(spec, TermSpec):
        try:
            dictionary = made.dictionary(spec.dictionary) if spec.dictionary else None
        except DictionaryError:
            return False
        texts = made.texts(spec.title)
        return are_kept(spec.options(dictionary).analysis(texts), texts)
    if isinstance(spec, DenseSpec):
        return made.encoder(spec.model, spec.title, spec.precision).has_passages(made.texts(spec.title))
    if isinstance(spec, LateSpec):
        return spec.encoder(made).has_passages(made.texts(spec.title), made.passages.heads(title=spec.title))
    # what others learn from all questions, or weigh of all passages, was made when these were compared
    asked = [question.text for question in made.whole.questions]
    return len(asked) > 1 and retriever.remembers(asked, retriever.depth)


logger = logging.getLogger(__name__)

Outcome = Findings | Exception


def everything(data: StoredSet, choices: Choices) -> str:
    """Return one experiment of all that can be picked, as JSON: another pick finds the models loaded."""
    return choices.experiment(data, choices.searchable, Part.ALL).model_dump_json()


@dataclass(frozen=True)
class Search:
    """A question to be asked of the retrievers `picked`; `expected` are the seconds until each answers, if known."""

    data: StoredSet
    choices: Choices
    picked: Sequence[str]
    question: str
    expected: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def made(self) -> dict[str, CachedRetriever | Exception]:
        """Every retriever that can be searched, or why it cannot be had; none is built yet."""
        key = self.data.key, everything(self.data, self.choices)
        with st.spinner(word("search.preparing"), show_time=True):
            again = st.session_state.pop("try_failed_again", False)
            if again and any(isinstance(one, Exception) for one in materials(*key).made.values()):
                materials.clear(*key)
            return materials(*key).made

    @cached_property
    def order(self) -> list[str]:
        """Names of the selected retrievers and those they wrap: the soonest first, but after what it wraps."""

        def wait(name: str) -> tuple[bool, float]:
            return name in self.pending, self.expected.get(name, inf)

        names = sorted((spec.name for spec in self.choices.needed([*self.picked])), key=wait)
        return list(dict.fromkeys(spec.name for name in names for spec in self.needed(name)))

    @cached_property
    def pending(self) -> list[str]:
        needed = [spec.name for spec in self.choices.needed([*self.picked])]
        return [name for name in needed if isinstance(made := self.made[name], CachedRetriever) and not made.ready]

    def needed(self, name: str) -> list[Spec]:
        return self.choices.needed([name])

    def outcomes(self, place: DeltaGenerator) -> Iterator[tuple[str, Outcome]]:
        """Yield what each retriever found, or why it failed, as soon as it has answered.

        `place`, an empty one, says meanwhile which one is built.
        """
        key = self.data.key, everything(self.data, self.choices)
        for name in self.order:
            failed = self._build(name, place) if name in self.pending else None
            yield name, failed or _outcome(*key, name, self.question)
        place.empty()

    def _build(self, name: str, place: DeltaGenerator) -> Exception | None:
        pending = [one for one in self.order if one in self.pending]
        details = {"name": plain(retriever_name(name)), "number": pending.index(name) + 1, "all": len(pending)}
        model = dict(self.choices.specs[name]).get("model")
        details |= {"model": plain(base_name(model, read=self.choices.plans))} if model else {}
        text = word(f"search.loading_{'model' if model else 'one'}", **details)
        with place.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/progress_activity: {text}", help=word("search.loading"))
            bar = st.empty()
            st.button(word("search.stop"), icon=":material/stop:", on_click=_stop, key=f"search_stop {name}")
        return _prepared(self.made[name], bar)


def _prepared(retriever: CachedRetriever | Exception, place: DeltaGenerator) -> Exception | None:
    """Build a retriever, with a bar in `place` if it reports progress; returns the error if it fails.

    Each move of the bar lets the run be stopped; what was analyzed or encoded is stored.
    """
    if isinstance(retriever, Exception):
        return retriever
    began = time.perf_counter()

    def draw(share: float) -> None:
        # of too small a share done, the time left cannot be told
        left = (time.perf_counter() - began) * (1 - share) / share if share > 0.02 else None
        place.progress(min(1.0, share), word("search.preparing_left", left=rounded_duration(left)) if left else None)

    try:
        with listening(draw):
            retriever.prepare()
    except Exception as error:
        logger.warning("retriever %r cannot be built: %s", retriever.name, error, exc_info=not hasattr(error, "code"))
        return error
    finally:
        place.empty()
    return None


def _stop() -> None:
    st.query_params.pop("q", None)
    st.session_state.pop("kept_q", None)
    st.session_state["search_stopped"] = True


def try_failed_again() -> None:
    st.session_state["try_failed_again"] = True


def _outcome(key: str, experiment: str, name: str, question: str) -> Outcome:
    try:
        return findings(key, experiment, name, question)
    except Exception as error:
        logger.warning("retriever %r failed: %s", name, error, exc_info=not hasattr(error, "code"))
        return error


@dataclass(frozen=True)
class SearchAnswer:
    """A question, what each retriever found (those that others wrap included), and what the set knows of it."""

    data: StoredSet
    question: str
    outcomes: dict[str, Outcome]
    truth: Truth | None
    k: int
    judged: tuple[int, ...] = ()  # rows of the passages that a person judged right

    @property
    def questions(self) -> QuestionSet:
        return question_set(self.data.key)

    @property
    def right(self) -> tuple[int, ...]:
        """Rows of the passages that are known to answer: the set's, then those that a person judged so."""
        return tuple(dict.fromkeys((self.truth.rows if self.truth else ()) + self.judged))

    def shown(self, name: str) -> list[int]:
        """Rows of the first passages that a retriever found, and of those that answer wherever they were found."""
        rows = self.found[name].rows
        return [*rows[: self.k], *(row for row in rows[self.k :] if row in self.right)]

    @property
    def asked(self) -> AskedQuestion:
        depths = dict.fromkeys(self.found, DEPTH)
        return AskedQuestion(self.data.key, self.question, self.right, self.found, depths)

    def blind(self, specs: Sequence[Spec]) -> dict[str, list[str]]:
        """Parts that found nothing, and the mixes among `specs` that found something without them."""
        nothing = {name: int(not found.rows) for name, found in self.found.items()}
        mixes: dict[str, list[str]] = {}
        for name, part in blind_parts(specs, nothing):
            if name in self.found and not nothing[name]:
                mixes.setdefault(part, []).append(name)
        return mixes

    @property
    def found(self) -> dict[str, Findings]:
        return {name: outcome for name, outcome in self.outcomes.items() if isinstance(outcome, Findings)}


def draw_blind(answer: SearchAnswer, specs: Sequence[Spec], choices: Choices) -> None:
    called = retriever_names(choices.specs)
    for part, names in answer.blind(specs).items():
        key = "search.blind_words" if isinstance(choices.specs[part], TermSpec) else "search.blind"
        said = word(key, part=plain(called[part]), names=plain(", ".join(called[name] for name in names)))
        st.info(said, icon=":material/visibility_off:")


def draw_table(answer: SearchAnswer, specs: Sequence[Spec]) -> None:
    found = {spec.name: answer.found[spec.name] for spec in specs if spec.name in answer.found}
    passages = answer.questions.passages

    def label(row: int) -> str:
        named = " · ".join(filter(None, (passages[row].title, passages[row].id)))
        return f"✔ {named}" if row in answer.right else named

    table = pd.DataFrame({"rank": range(1, answer.k + 1)})
    columns = {"rank": tables.number("search.rank", width="small", pinned=True)}
    called = retriever_names(found)
    for spec in specs:
        if outcome := found.get(spec.name):
            passage, score, name = f"{spec.name} passage", f"{spec.name} score", called[spec.name]
            table[passage] = pd.Series([label(row) for row in outcome.rows[: answer.k]], dtype=object)
            table[score] = pd.Series(outcome.scores[: answer.k], dtype=float)
            columns[passage] = st.column_config.TextColumn(name)
            title, about = word("search.score_of", name=name), word(f"{score_word(spec)}_help")
            columns[score] = tables.figure(title, f"%.{spec.local.digits}f", about)
    with st.expander(word("search.as_table"), icon=":material/table:"):
        tables.draw(table, columns)
        tables.draw_csv("search.csv", lambda: _long_table(answer, found), "search.csv")


def score_word(spec: Spec) -> str:
    key = f"search.score_{spec.local.score_kind}"
    return key if known(key) else "search.score_other"


def _long_table(answer: SearchAnswer, found: dict[str, Findings]) -> pd.DataFrame:
    passages, is_known = answer.questions.passages, bool(answer.truth or answer.judged)
    rows = []
    for name, outcome in found.items():
        for rank, row in enumerate(outcome.rows[: answer.k], start=1):
            passage, relevant = passages[row], row in answer.right if is_known else None
            about = (passage.id, passage.title, outcome.scores[rank - 1], relevant)
            rows.append((answer.question, name, rank, *about))
    return pd.DataFrame(rows, columns=["question", "retriever", "rank", "passage_id", "title", "score", "relevant"])


@st.fragment
def draw_pieces(answer: SearchAnswer, spec: LateSpec, experiment: str) -> None:
    found, passages = answer.found[spec.name], answer.questions.passages
    compared = found.rows[: spec.depth] if spec.first else found.rows  # below, another retriever's order stays
    rows = [row for row in answer.shown(spec.name) if row in compared]
    if not rows:
        return

    def label(row: int) -> str:
        return plain(" · ".join(filter(None, (str(found.rank_of(row)), passages[row].title, passages[row].id))))

    title = word("search.pieces", name=plain(retriever_name(spec.name)))
    with st.expander(title, icon=":material/join_inner:", expanded=True):
        st.caption(word("why.matches_help"))
        key = f"pieces {spec.name} {answer.question}"
        picked: int = st.selectbox(word("search.pieces_of"), rows, format_func=label, key=key)

        def tell() -> LateExplanation:
            return explained_late(answer.data.key, experiment, spec.model_dump_json(), answer.question, picked)

        explained = once_asked(spec.name, word("search.pieces_ask"), tell)
        if explained is None:
            return
        left, right = st.columns([3, 2])
        with left:
            st.html(matches_html(explained, gold=picked in answer.right))
        with right:
            draw_matches({"answered": explained})
