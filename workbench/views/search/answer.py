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
from mrc_workbench.data.text.analysis import has_cached_tokens
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import find_incomplete_mixes
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, SparseSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.pace import forecast_retrievers
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext, Spec
from mrc_workbench.retrieval.explain.standing import (
    PassagePair,
    decisive_token,
    select_passage_pair,
    term_table,
    token_table,
    word_reason,
)
from mrc_workbench.retrieval.rankings import DEPTH, GroundTruth, QueryHits
from mrc_workbench.workbench.views.choices import RetrieverChoices, rounded_duration
from mrc_workbench.workbench.views.names import base_name, retriever_name
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.passages import reason_html
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word


@dataclass(frozen=True)
class QuestionResults:
    """A question, the rows that answer it, and what retrievers found, those that others wrap included.

    `key` is that of the stored set, `depths` are those of the searches, `among` the questions searched together.
    """

    key: str
    text: str
    relevant: tuple[int, ...]
    findings: Mapping[str, QueryHits]
    depths: Mapping[str, int]
    among: QuestionSet | None = None

    def duel(self, name: str, against: int | None = None) -> PassagePair:
        return select_passage_pair(self.findings[name], self.relevant, against=against)


def draw_reasons(results: QuestionResults, specs: Sequence[Spec], names: Sequence[str]) -> None:
    st.html("".join(reason_html(spec.name, names, " ".join(reason_sentences(results, spec))) for spec in specs))


def reason_sentences(results: QuestionResults, spec: Spec) -> list[str]:
    duel = results.duel(spec.name)
    if duel.right_rank is None:
        rank_text = word("why.place_none", depth=results.depths[spec.name])
    else:
        rank_text = word("why.place_first") if duel.right_rank == 1 else word("why.place_at", rank=duel.right_rank)
    return [rank_text, *_reasons(spec.local_spec, results, duel)]


@singledispatch
def _reasons(spec: Spec, results: QuestionResults, duel: PassagePair) -> list[str]:
    del spec, results, duel
    return []


@_reasons.register
def _window_reasons(spec: WindowedBM25Spec, results: QuestionResults, duel: PassagePair) -> list[str]:
    return [word("why.best_windows", sentences=spec.sentences), *_term_reasons(spec, results, duel)]


@_reasons.register
def _term_reasons(spec: TermSpec, results: QuestionResults, duel: PassagePair) -> list[str]:
    if duel.wrong is None:
        return []
    try:
        rows = (duel.right, duel.wrong)
        right, wrong = (
            retrieval.explain_counted_bm25(results.key, spec, results.text, row, results.among) for row in rows
        )
    except DictionaryError as error:
        return [failure_text(error)]
    table = term_table(right, wrong)
    reason = word_reason(table[table["in_question"] > 0], lost=duel.is_lost)
    texts = [
        word(
            "why.words_held",
            held=reason.in_right,
            asked=reason.question_words,
            other=reason.in_wrong,
            rank=duel.wrong_rank,
        )
    ]
    if reason.decisive_word:
        counts = {"here": reason.decisive_in_right, "there": reason.decisive_in_wrong}
        texts.append(word("why.word_lost" if duel.is_lost else "why.word_won", term=reason.decisive_word, **counts))
    if reason.missing_words:
        listed = ", ".join(word("why.quoted", text=text) for text in reason.missing_words[:3])
        texts.append(word("why.words_nowhere", terms=listed))
    if len(added := table[table["in_question"] == 0]):
        sums = {side: f"{added[side].sum():.{spec.digits}f}" for side in ("right", "wrong")}
        texts.append(word("why.words_added", count=len(added), **sums))
    return texts


@_reasons.register
def _cosine_reasons(spec: DenseSpec, results: QuestionResults, duel: PassagePair) -> list[str]:
    if duel.wrong is None:
        return []
    key = results.key
    question = results.text
    rows = (duel.right, duel.wrong)
    right, wrong = (retrieval.explain_static(key, spec.model, spec.title, question, row) for row in rows)
    if right is None or wrong is None:
        return _score_reasons(spec, results, duel, "why.cosines")
    texts = [word("why.cosines", right=f"{right.score:.3f}", wrong=f"{wrong.score:.3f}", rank=duel.wrong_rank)]
    if telling := decisive_token(token_table(right, wrong), lost=duel.is_lost):
        texts.append(word("why.token_lost" if duel.is_lost else "why.token_won", term=telling))
    return texts


@_reasons.register(LateSpec)
@_reasons.register(SparseSpec)
def _score_reasons(spec: Spec, results: QuestionResults, duel: PassagePair, key: str = "why.scores") -> list[str]:
    if duel.right_rank is None or duel.wrong_rank is None:
        return []
    scores = results.findings[spec.name].scores
    right, wrong = (f"{scores[rank - 1]:.{spec.digits}f}" for rank in (duel.right_rank, duel.wrong_rank))
    return [word(key, right=right, wrong=wrong, rank=duel.wrong_rank)]


@_reasons.register
def _component_reasons(spec: HybridSpec | LearnedSpec, results: QuestionResults, duel: PassagePair) -> list[str]:
    parts = []
    for part in spec.retrievers:
        rank = results.findings[part].rank_of(duel.right) if part in results.findings else None
        key = "why.part_brings" if rank and rank <= spec.top_k else "why.part_misses"
        parts.append(word(key, name=retriever_name(part), rank=rank or 0, depth=spec.top_k))
    return [word("why.parts", parts=", ".join(parts))]


@_reasons.register
def _reranking_reasons(spec: RerankSpec, results: QuestionResults, duel: PassagePair) -> list[str]:
    if spec.first_stage not in results.findings:
        return []
    before = results.findings[spec.first_stage].rank_of(duel.right)
    after = duel.right_rank
    first = retriever_name(spec.first_stage)
    if before is None or before > spec.rerank_top_k:
        return [word("why.not_reranked", first=first, depth=spec.rerank_top_k)]
    if after is None or before == after:
        return [word("why.rerank_left", first=first, before=before)]
    return [word("why.rerank_up" if after < before else "why.rerank_down", first=first, before=before)]


SOON_SECONDS = 3.0  # seconds: who takes longer is selected on demand


def waits(data: StoredSet, choices: RetrieverChoices) -> dict[str, float]:
    """Return expected seconds by retriever, those it wraps included, without loading; unknown ones are left out."""
    known = [name for name in choices.searchable if all(_is_here(spec) for spec in choices.needed([name]))]
    if not known:
        return {}
    context = retrieval.retriever_context(data.key, choices.experiment(data, known, Part.ALL).model_dump_json())
    # of so many passages even the names of the files take long to compute
    own_waits = {spec.name: _own_wait(spec, context, check_files=not choices.large) for spec in choices.needed(known)}
    needed = {name: [own_waits[spec.name] for spec in choices.needed([name])] for name in known}
    return {name: sum(filter(None, parts)) for name, parts in needed.items() if None not in parts}


def _is_here(spec: Spec) -> bool:
    if not spec.needs_model:
        return True
    try:
        return not find_model(str(dict(spec.local_spec)["model"])).hub_id
    except ModelError:  # it fails at once and says why
        return True


def _own_wait(spec: Spec, context: RetrieverContext, *, check_files: bool) -> float | None:
    retriever = context.retrievers[spec.name]
    if isinstance(retriever, Exception):  # it fails at once
        return 0.0
    if retriever.is_built or (check_files and _is_stored(spec, retriever, context)):
        return 0.0
    whole = context.full_set
    single_question = QuestionSet(whole.name, whole.passages, (Question("", "?"),))
    questions = whole if isinstance(spec, LearnedSpec) else single_question
    return forecast_retrievers({spec.name: spec}, questions)[spec.name].seconds


def _is_stored(spec: Spec, retriever: CachedRetriever, context: RetrieverContext) -> bool:
    if isinstance(spec, TermSpec):
        try:
            dictionary = context.dictionary(spec.dictionary) if spec.dictionary else None
        except DictionaryError:
            return False
        texts = context.texts(spec.title)
        return has_cached_tokens(spec.options(dictionary).analysis(texts), texts)
    if isinstance(spec, DenseSpec):
        return context.encoder(spec.model, spec.title, spec.precision).has_passages(context.texts(spec.title))
    if isinstance(spec, LateSpec):
        return spec.encoder(context).has_passages(
            context.texts(spec.title), context.passages.title_lengths(title=spec.title)
        )
    # what others learn from all questions, or weigh of all passages, was made when these were compared
    question_texts = [question.text for question in context.full_set.questions]
    return len(question_texts) > 1 and retriever.is_cached(question_texts, retriever.depth)


logger = logging.getLogger(__name__)

Outcome = QueryHits | Exception


@dataclass(frozen=True)
class QuestionSearch:
    """A question to be asked of the retrievers `picked`; `expected` are the seconds until each answers, if known."""

    data: StoredSet
    choices: RetrieverChoices
    selected: Sequence[str]
    question: str
    expected: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def experiment(self) -> str:
        """One experiment of all that can be picked, as JSON: another pick finds the models loaded."""
        return self.choices.experiment(self.data, self.choices.searchable, Part.ALL).model_dump_json()

    @cached_property
    def retrievers_or_errors(self) -> dict[str, CachedRetriever | Exception]:
        """Every retriever that can be searched, or why it cannot be had; none is built yet."""
        key = self.data.key, self.experiment
        with st.spinner(word("search.preparing"), show_time=True):
            again = st.session_state.pop("try_failed_again", False)
            if again and any(
                isinstance(retriever, Exception) for retriever in retrieval.retriever_context(*key).retrievers.values()
            ):
                retrieval.retriever_context.clear(*key)
            return retrieval.retriever_context(*key).retrievers

    @cached_property
    def order(self) -> list[str]:
        """Names of the selected retrievers and those they wrap: the soonest first, but after what it wraps."""

        def wait(name: str) -> tuple[bool, float]:
            return name in self.pending, self.expected.get(name, inf)

        names = sorted((spec.name for spec in self.choices.needed([*self.selected])), key=wait)
        return list(dict.fromkeys(spec.name for name in names for spec in self.needed(name)))

    @cached_property
    def retrievers(self) -> dict[str, CachedRetriever]:
        """The selected retrievers and those they wrap, without those that failed."""
        by_name = {spec.name: self.retrievers_or_errors[spec.name] for spec in self.choices.needed([*self.selected])}
        return {name: retriever for name, retriever in by_name.items() if isinstance(retriever, CachedRetriever)}

    @cached_property
    def pending(self) -> list[str]:
        return [name for name, retriever in self.retrievers.items() if not retriever.is_built]

    def needed(self, name: str) -> list[Spec]:
        return self.choices.needed([name])

    def outcomes(self, container: DeltaGenerator) -> Iterator[tuple[str, Outcome]]:
        """Yield what each retriever found, or why it failed, as soon as it has answered.

        `place`, an empty one, says meanwhile which one is built.
        """
        for name in self.order:
            outcome: Outcome
            try:
                if name in self.pending:
                    self._build(name, container)
                outcome = retrieval.findings(self.data.key, self.experiment, name, self.question)
            except Exception as error:
                logger.warning("retriever %r failed: %s", name, error, exc_info=not hasattr(error, "code"))
                outcome = error
            yield name, outcome
        container.empty()

    def _build(self, name: str, container: DeltaGenerator) -> None:
        """Build a retriever, with its name and a bar in `place`.

        Each move of the bar lets the run be stopped; what was analyzed or encoded is stored.
        """
        pending = [pending_name for pending_name in self.order if pending_name in self.pending]
        details = {"name": plain(retriever_name(name)), "number": pending.index(name) + 1, "all": len(pending)}
        model = dict(self.choices.specs[name]).get("model")
        details |= {"model": plain(base_name(model, read=self.choices.plans))} if model else {}
        text = word(f"search.loading_{'model' if model else 'one'}", **details)
        with container.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/progress_activity: {text}", help=word("search.loading"))
            bar = st.empty()
            st.button(word("search.stop"), icon=":material/stop:", on_click=_stop, key=f"search_stop {name}")
        started = time.perf_counter()

        def draw(fraction: float) -> None:
            # of too small a share done, the time left cannot be told
            left = (time.perf_counter() - started) * (1 - fraction) / fraction if fraction > 0.02 else None
            bar.progress(
                min(1.0, fraction), word("search.preparing_left", left=rounded_duration(left)) if left else None
            )

        try:
            with retrieval.report_progress_to(draw):
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
    truth: GroundTruth | None
    k: int
    judged: tuple[int, ...] = ()  # rows of the passages that a person judged right

    @property
    def questions(self) -> QuestionSet:
        return question_set(self.data.key)

    @property
    def right(self) -> tuple[int, ...]:
        """Rows of the passages that are known to answer: the set's, then those that a person judged so."""
        return tuple(dict.fromkeys((self.truth.rows if self.truth else ()) + self.judged))

    def displayed_rows(self, name: str) -> list[int]:
        """Rows of the first passages that a retriever found, and of those that answer wherever they were found."""
        rows = self.findings[name].rows
        return [*rows[: self.k], *(row for row in rows[self.k :] if row in self.right)]

    @property
    def results(self) -> QuestionResults:
        depths = dict.fromkeys(self.findings, DEPTH)
        return QuestionResults(self.data.key, self.question, self.right, self.findings, depths)

    def blind(self, specs: Sequence[Spec]) -> dict[str, list[str]]:
        """Parts that found nothing, and the mixes among `specs` that found something without them."""
        nothing = {name: int(not findings.rows) for name, findings in self.findings.items()}
        mixes: dict[str, list[str]] = {}
        for name, part in find_incomplete_mixes(specs, nothing):
            if name in self.findings and not nothing[name]:
                mixes.setdefault(part, []).append(name)
        return mixes

    @property
    def findings(self) -> dict[str, QueryHits]:
        return {name: outcome for name, outcome in self.outcomes.items() if isinstance(outcome, QueryHits)}
