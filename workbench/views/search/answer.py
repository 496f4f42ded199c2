"""A question asked of each retriever: how long one takes to answer, how it is built and asked, and what it found.

And why each retriever puts the answer passage where it does, in a plain sentence or two.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from math import inf

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
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, SparseSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.pace import forecasts
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, Spec
from mrc_workbench.retrieval.explain.standing import Duel, duel, telling_token, term_table, token_table, word_reason
from mrc_workbench.retrieval.rankings import DEPTH, Findings, Truth
from mrc_workbench.workbench.views.choices import Choices, rounded_duration
from mrc_workbench.workbench.views.names import base_name, retriever_name
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.passages import reason_html
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word


@dataclass(frozen=True)
class AskedQuestion:
    """A question, the rows that answer it, and what retrievers found, those that others wrap included.

    `key` is that of the stored set, `depths` are those of the searches, `among` the questions searched together.
    """

    key: str
    text: str
    relevant: tuple[int, ...]
    findings: Mapping[str, Findings]
    depths: Mapping[str, int]
    among: QuestionSet | None = None

    def duel(self, name: str, against: int | None = None) -> Duel:
        return duel(self.findings[name], self.relevant, against=against)


def draw_reasons(asked: AskedQuestion, specs: Sequence[Spec], names: Sequence[str]) -> None:
    st.html("".join(reason_html(spec.name, names, " ".join(sentences(asked, spec))) for spec in specs))


def sentences(asked: AskedQuestion, spec: Spec) -> list[str]:
    of = asked.duel(spec.name)
    if of.right_rank is None:
        place = word("why.place_none", depth=asked.depths[spec.name])
    else:
        place = word("why.place_first") if of.right_rank == 1 else word("why.place_at", rank=of.right_rank)
    return [place, *_reasons(spec.local, asked, of)]


@singledispatch
def _reasons(spec: Spec, asked: AskedQuestion, of: Duel) -> list[str]:
    del spec, asked, of
    return []


@_reasons.register
def _of_windows(spec: WindowedBM25Spec, asked: AskedQuestion, of: Duel) -> list[str]:
    return [word("why.best_windows", sentences=spec.sentences), *_of_words(spec, asked, of)]


@_reasons.register
def _of_words(spec: TermSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    try:
        rows = (of.right, of.wrong)
        right, wrong = (retrieval.counted_bm25(asked.key, spec, asked.text, row, asked.among) for row in rows)
    except DictionaryError as error:
        return [failure_text(error)]
    table = term_table(right, wrong)
    found = word_reason(table[table["in_question"] > 0], lost=of.lost)
    said = [word("why.words_held", held=found.in_right, asked=found.asked, other=found.in_wrong, rank=of.wrong_rank)]
    if found.telling:
        counts = {"here": found.telling_in_right, "there": found.telling_in_wrong}
        said.append(word("why.word_lost" if of.lost else "why.word_won", term=found.telling, **counts))
    if found.nowhere:
        listed = ", ".join(word("why.quoted", text=text) for text in found.nowhere[:3])
        said.append(word("why.words_nowhere", terms=listed))
    if len(added := table[table["in_question"] == 0]):
        sums = {side: f"{added[side].sum():.{spec.digits}f}" for side in ("right", "wrong")}
        said.append(word("why.words_added", count=len(added), **sums))
    return said


@_reasons.register
def _of_cosines(spec: DenseSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    key, question = asked.key, asked.text
    rows = (of.right, of.wrong)
    right, wrong = (retrieval.explained_static(key, spec.model, spec.title, question, row) for row in rows)
    if right is None or wrong is None:
        return _of_scores(spec, asked, of, "why.cosines")
    said = [word("why.cosines", right=f"{right.score:.3f}", wrong=f"{wrong.score:.3f}", rank=of.wrong_rank)]
    if telling := telling_token(token_table(right, wrong), lost=of.lost):
        said.append(word("why.token_lost" if of.lost else "why.token_won", term=telling))
    return said


@_reasons.register(LateSpec)
@_reasons.register(SparseSpec)
def _of_scores(spec: Spec, asked: AskedQuestion, of: Duel, key: str = "why.scores") -> list[str]:
    if of.right_rank is None or of.wrong_rank is None:
        return []
    scores = asked.findings[spec.name].scores
    right, wrong = (f"{scores[rank - 1]:.{spec.digits}f}" for rank in (of.right_rank, of.wrong_rank))
    return [word(key, right=right, wrong=wrong, rank=of.wrong_rank)]


@_reasons.register
def _of_parts(spec: HybridSpec | LearnedSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    parts = []
    for part in spec.of:
        rank = asked.findings[part].rank_of(of.right) if part in asked.findings else None
        key = "why.part_brings" if rank and rank <= spec.depth else "why.part_misses"
        parts.append(word(key, name=retriever_name(part), rank=rank or 0, depth=spec.depth))
    return [word("why.parts", parts=", ".join(parts))]


@_reasons.register
def _of_reranking(spec: RerankSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    if spec.first not in asked.findings:
        return []
    before, after = asked.findings[spec.first].rank_of(of.right), of.right_rank
    first = retriever_name(spec.first)
    if before is None or before > spec.depth:
        return [word("why.not_reranked", first=first, depth=spec.depth)]
    if after is None or before == after:
        return [word("why.rerank_left", first=first, before=before)]
    return [word("why.rerank_up" if after < before else "why.rerank_down", first=first, before=before)]


SOON = 3.0  # seconds: who takes longer is selected on demand


def waits(data: StoredSet, choices: Choices) -> dict[str, float]:
    """Return expected seconds by retriever, those it wraps included, without loading; unknown ones are left out."""
    known = [name for name in choices.searchable if all(_is_here(spec) for spec in choices.needed([name]))]
    if not known:
        return {}
    made = retrieval.materials(data.key, choices.experiment(data, known, Part.ALL).model_dump_json())
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


@dataclass(frozen=True)
class Search:
    """A question to be asked of the retrievers `picked`; `expected` are the seconds until each answers, if known."""

    data: StoredSet
    choices: Choices
    picked: Sequence[str]
    question: str
    expected: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def experiment(self) -> str:
        """One experiment of all that can be picked, as JSON: another pick finds the models loaded."""
        return self.choices.experiment(self.data, self.choices.searchable, Part.ALL).model_dump_json()

    @cached_property
    def made(self) -> dict[str, CachedRetriever | Exception]:
        """Every retriever that can be searched, or why it cannot be had; none is built yet."""
        key = self.data.key, self.experiment
        with st.spinner(word("search.preparing"), show_time=True):
            again = st.session_state.pop("try_failed_again", False)
            if again and any(isinstance(one, Exception) for one in retrieval.materials(*key).made.values()):
                retrieval.materials.clear(*key)
            return retrieval.materials(*key).made

    @cached_property
    def order(self) -> list[str]:
        """Names of the selected retrievers and those they wrap: the soonest first, but after what it wraps."""

        def wait(name: str) -> tuple[bool, float]:
            return name in self.pending, self.expected.get(name, inf)

        names = sorted((spec.name for spec in self.choices.needed([*self.picked])), key=wait)
        return list(dict.fromkeys(spec.name for name in names for spec in self.needed(name)))

    @cached_property
    def retrievers(self) -> dict[str, CachedRetriever]:
        """The selected retrievers and those they wrap, without those that failed."""
        made = {spec.name: self.made[spec.name] for spec in self.choices.needed([*self.picked])}
        return {name: retriever for name, retriever in made.items() if isinstance(retriever, CachedRetriever)}

    @cached_property
    def pending(self) -> list[str]:
        return [name for name, retriever in self.retrievers.items() if not retriever.ready]

    def needed(self, name: str) -> list[Spec]:
        return self.choices.needed([name])

    def outcomes(self, place: DeltaGenerator) -> Iterator[tuple[str, Outcome]]:
        """Yield what each retriever found, or why it failed, as soon as it has answered.

        `place`, an empty one, says meanwhile which one is built.
        """
        for name in self.order:
            outcome: Outcome
            try:
                if name in self.pending:
                    self._build(name, place)
                outcome = retrieval.findings(self.data.key, self.experiment, name, self.question)
            except Exception as error:
                logger.warning("retriever %r failed: %s", name, error, exc_info=not hasattr(error, "code"))
                outcome = error
            yield name, outcome
        place.empty()

    def _build(self, name: str, place: DeltaGenerator) -> None:
        """Build a retriever, with its name and a bar in `place`.

        Each move of the bar lets the run be stopped; what was analyzed or encoded is stored.
        """
        pending = [one for one in self.order if one in self.pending]
        details = {"name": plain(retriever_name(name)), "number": pending.index(name) + 1, "all": len(pending)}
        model = dict(self.choices.specs[name]).get("model")
        details |= {"model": plain(base_name(model, read=self.choices.plans))} if model else {}
        text = word(f"search.loading_{'model' if model else 'one'}", **details)
        with place.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/progress_activity: {text}", help=word("search.loading"))
            bar = st.empty()
            st.button(word("search.stop"), icon=":material/stop:", on_click=_stop, key=f"search_stop {name}")
        began = time.perf_counter()

        def draw(share: float) -> None:
            # of too small a share done, the time left cannot be told
            left = (time.perf_counter() - began) * (1 - share) / share if share > 0.02 else None
            bar.progress(min(1.0, share), word("search.preparing_left", left=rounded_duration(left)) if left else None)

        try:
            with retrieval.listening(draw):
                self.retrievers[name].prepare()
        finally:
            bar.empty()


def _stop() -> None:
    st.query_params.pop("q", None)
    st.session_state.pop("kept_q", None)
    st.session_state["search_stopped"] = True


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
