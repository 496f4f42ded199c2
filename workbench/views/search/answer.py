"""A question sent to each retriever: the expected wait, the search, its results, and sentences that explain them."""

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
from mrc_workbench.retrieval.explain import standing
from mrc_workbench.retrieval.explain.standing import PassagePair
from mrc_workbench.retrieval.rankings import DEPTH, GroundTruth, QueryHits
from mrc_workbench.workbench.views.choices import RetrieverChoices
from mrc_workbench.workbench.views.names import base_name, retriever_name
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.passages import reason_html
from mrc_workbench.workbench.views.ui.words import failure_text, plain, rounded_duration, word

logger = logging.getLogger(__name__)

SOON_SECONDS = 3.0  # the search page does not select slower retrievers by default
Outcome = QueryHits | Exception


@dataclass(frozen=True)
class QuestionResults:
    """A question, the rows that answer it, and the hits of retrievers and of their components, by name.

    `key` of the stored dataset, `depths` of the searches, `among`: the questions that were searched together.
    """

    key: str
    text: str
    relevant: tuple[int, ...]
    findings: Mapping[str, QueryHits]
    depths: Mapping[str, int]
    among: QuestionSet | None = None

    def passage_pair(self, name: str, against: int | None = None) -> PassagePair:
        return standing.select_passage_pair(self.findings[name], self.relevant, against=against)


def draw_reasons(results: QuestionResults, specs: Sequence[Spec], names: Sequence[str]) -> None:
    st.html("".join(reason_html(spec.name, names, " ".join(reason_sentences(results, spec))) for spec in specs))


def reason_sentences(results: QuestionResults, spec: Spec) -> list[str]:
    pair = results.passage_pair(spec.name)
    if pair.right_rank is None:
        rank_text = word("why.rank_none", depth=results.depths[spec.name])
    else:
        rank_text = word("why.rank_first") if pair.right_rank == 1 else word("why.rank_at", rank=pair.right_rank)
    return [rank_text, *_reasons(spec.local_spec, results, pair)]


@singledispatch
def _reasons(spec: Spec, results: QuestionResults, pair: PassagePair) -> list[str]:
    del spec, results, pair
    return []


@_reasons.register
def _window_reasons(spec: WindowedBM25Spec, results: QuestionResults, pair: PassagePair) -> list[str]:
    return [word("why.best_windows", sentences=spec.sentences), *_term_reasons(spec, results, pair)]


@_reasons.register
def _term_reasons(spec: TermSpec, results: QuestionResults, pair: PassagePair) -> list[str]:
    if pair.wrong is None:
        return []
    try:
        right = retrieval.explain_counted_bm25(results.key, spec, results.text, pair.right, results.among)
        wrong = retrieval.explain_counted_bm25(results.key, spec, results.text, pair.wrong, results.among)
    except DictionaryError as error:
        return [failure_text(error)]
    table = standing.term_table(right, wrong)
    reason = standing.word_reason(table[table["in_question"] > 0], lost=pair.is_lost)
    counts = {"held": reason.in_right, "total": reason.question_words, "other": reason.in_wrong}
    texts = [word("why.words_held", rank=pair.wrong_rank, **counts)]
    if reason.decisive_word:
        counts = {"here": reason.decisive_in_right, "there": reason.decisive_in_wrong}
        texts.append(word("why.word_lost" if pair.is_lost else "why.word_won", term=reason.decisive_word, **counts))
    if reason.missing_words:
        listed = ", ".join(word("why.quoted", text=text) for text in reason.missing_words[:3])
        texts.append(word("why.words_nowhere", terms=listed))
    if len(added := table[table["in_question"] == 0]):
        sums = {side: f"{added[side].sum():.{spec.digits}f}" for side in ("right", "wrong")}
        texts.append(word("why.words_added", count=len(added), **sums))
    return texts


@_reasons.register
def _cosine_reasons(spec: DenseSpec, results: QuestionResults, pair: PassagePair) -> list[str]:
    if pair.wrong is None:
        return []
    key = results.key
    question = results.text
    rows = (pair.right, pair.wrong)
    right, wrong = (retrieval.explain_static(key, spec.model, spec.title, question, row) for row in rows)
    if right is None or wrong is None:
        return _score_reasons(spec, results, pair, "why.cosines")
    texts = [word("why.cosines", right=f"{right.score:.3f}", wrong=f"{wrong.score:.3f}", rank=pair.wrong_rank)]
    if telling := standing.decisive_token(standing.token_table(right, wrong), lost=pair.is_lost):
        texts.append(word("why.token_lost" if pair.is_lost else "why.token_won", term=telling))
    return texts


@_reasons.register(LateSpec)
@_reasons.register(SparseSpec)
def _score_reasons(spec: Spec, results: QuestionResults, pair: PassagePair, key: str = "why.scores") -> list[str]:
    if pair.right_rank is None or pair.wrong_rank is None:
        return []
    scores = results.findings[spec.name].scores
    right, wrong = (f"{scores[rank - 1]:.{spec.digits}f}" for rank in (pair.right_rank, pair.wrong_rank))
    return [word(key, right=right, wrong=wrong, rank=pair.wrong_rank)]


@_reasons.register
def _component_reasons(spec: HybridSpec | LearnedSpec, results: QuestionResults, pair: PassagePair) -> list[str]:
    parts = []
    for part in spec.retrievers:
        rank = results.findings[part].rank_of(pair.right) if part in results.findings else None
        key = "why.part_brings" if rank and rank <= spec.top_k else "why.part_misses"
        parts.append(word(key, name=retriever_name(part), rank=rank or 0, depth=spec.top_k))
    return [word("why.parts", parts=", ".join(parts))]


@_reasons.register
def _reranking_reasons(spec: RerankSpec, results: QuestionResults, pair: PassagePair) -> list[str]:
    if spec.first_stage not in results.findings:
        return []
    before = results.findings[spec.first_stage].rank_of(pair.right)
    after = pair.right_rank
    first = retriever_name(spec.first_stage)
    if before is None or before > spec.rerank_top_k:
        return [word("why.not_reranked", first=first, depth=spec.rerank_top_k)]
    if after is None or before == after:
        return [word("why.rerank_left", first=first, before=before)]
    return [word("why.rerank_up" if after < before else "why.rerank_down", first=first, before=before)]


def expected_waits(data: StoredSet, choices: RetrieverChoices) -> dict[str, float]:
    """Return the expected seconds of each retriever and its components, if known, without loading any."""
    known = [name for name in choices.searchable if all(_has_local_model(spec) for spec in choices.needed([name]))]
    if not known:
        return {}
    context = retrieval.retriever_context(data.key, choices.experiment(data, known, Part.ALL).model_dump_json())
    # On a large corpus even the names of the cache files take long to compute
    waits = {spec.name: _expected_wait(spec, context, check_files=not choices.large) for spec in choices.needed(known)}
    needed = {name: [waits[spec.name] for spec in choices.needed([name])] for name in known}
    return {name: sum(filter(None, parts)) for name, parts in needed.items() if None not in parts}


def _has_local_model(spec: Spec) -> bool:
    if not spec.needs_model:
        return True
    try:
        return not find_model(str(dict(spec.local_spec)["model"])).hub_id
    except ModelError:  # the search reports it
        return True


def _expected_wait(spec: Spec, context: RetrieverContext, *, check_files: bool) -> float | None:
    retriever = context.retrievers[spec.name]
    if isinstance(retriever, Exception):
        return 0.0
    if retriever.is_built or (check_files and _is_stored(spec, retriever, context)):
        return 0.0
    questions = context.full_set
    if not isinstance(spec, LearnedSpec):
        questions = QuestionSet(questions.name, questions.passages, (Question("", "?"),))
    return forecast_retrievers({spec.name: spec}, questions)[spec.name].seconds


def _is_stored(spec: Spec, retriever: CachedRetriever, context: RetrieverContext) -> bool:
    if isinstance(spec, TermSpec):
        try:
            dictionary = spec.load_dictionary(context)
        except DictionaryError:
            return False
        texts = context.texts(spec.title)
        return has_cached_tokens(spec.options(dictionary).analysis(texts), texts)
    if isinstance(spec, DenseSpec):
        return context.encoder(spec.model, spec.title, spec.precision).has_passages(context.texts(spec.title))
    if isinstance(spec, LateSpec):
        title_lengths = context.passages.title_lengths(title=spec.title)
        return spec.encoder(context).has_passages(context.texts(spec.title), title_lengths)
    # A comparison of all questions stores the results of the other kinds
    question_texts = [question.text for question in context.full_set.questions]
    return len(question_texts) > 1 and retriever.is_cached(question_texts, retriever.depth)


@dataclass(frozen=True)
class QuestionSearch:
    """A question for the selected retrievers; `expected` seconds until each answers, if known."""

    data: StoredSet
    choices: RetrieverChoices
    selected: Sequence[str]
    question: str
    expected: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def experiment(self) -> str:
        """An experiment of all searchable retrievers, as JSON, so that every selection shares the loaded models."""
        return self.choices.experiment(self.data, self.choices.searchable, Part.ALL).model_dump_json()

    @cached_property
    def retrievers_or_errors(self) -> dict[str, CachedRetriever | Exception]:
        """Every searchable retriever, not built yet, or the error that prevents it."""
        key = self.data.key
        with st.spinner(word("search.preparing"), show_time=True):
            retrievers = retrieval.retriever_context(key, self.experiment).retrievers
            again = st.session_state.pop("try_failed_again", False)
            if again and any(isinstance(retriever, Exception) for retriever in retrievers.values()):
                retrieval.retriever_context.clear(key, self.experiment)
                retrievers = retrieval.retriever_context(key, self.experiment).retrievers
            return retrievers

    @cached_property
    def order(self) -> list[str]:
        """Names of the selected retrievers and their components, fastest first, each after its components."""

        def wait(name: str) -> tuple[bool, float]:
            return name in self.pending, self.expected.get(name, inf)

        names = sorted((spec.name for spec in self.choices.needed([*self.selected])), key=wait)
        return list(dict.fromkeys(spec.name for name in names for spec in self.choices.needed([name])))

    @cached_property
    def retrievers(self) -> dict[str, CachedRetriever]:
        """The selected retrievers and their components, without those that failed."""
        by_name = {spec.name: self.retrievers_or_errors[spec.name] for spec in self.choices.needed([*self.selected])}
        return {name: retriever for name, retriever in by_name.items() if isinstance(retriever, CachedRetriever)}

    @cached_property
    def pending(self) -> list[str]:
        return [name for name, retriever in self.retrievers.items() if not retriever.is_built]

    def outcomes(self, container: DeltaGenerator) -> Iterator[tuple[str, Outcome]]:
        """Yield the hits or the error of each retriever as soon as it is known; `container` shows builds."""
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
        """Build a retriever, with its name and a progress bar in `container`.

        Each update of the bar lets Streamlit stop the run; analyzed and encoded texts stay in the cache.
        """
        pending = [pending_name for pending_name in self.order if pending_name in self.pending]
        details = {"name": plain(retriever_name(name)), "number": pending.index(name) + 1, "all": len(pending)}
        model = dict(self.choices.specs[name]).get("model")
        details |= {"model": plain(base_name(model, plans=self.choices.plans))} if model else {}
        text = word(f"search.loading_{'model' if model else 'retriever'}", **details)
        with container.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/progress_activity: {text}", help=word("search.loading"))
            bar = st.empty()
            st.button(word("search.stop"), icon=":material/stop:", on_click=_stop, key=f"search_stop {name}")
        started = time.perf_counter()

        def draw(fraction: float) -> None:
            text = None
            if 0.02 < fraction < 1:  # below, an estimate of the time left is unreliable
                left = (time.perf_counter() - started) * (1 - fraction) / fraction
                text = word("search.preparing_left", left=rounded_duration(left))
            bar.progress(min(1.0, fraction), text)

        try:
            with retrieval.report_progress_to(draw):
                self.retrievers[name].prepare()
        finally:
            bar.empty()


def _stop() -> None:
    st.query_params.pop("q", None)
    st.session_state.pop("stored_q", None)
    st.session_state["search_stopped"] = True


@dataclass(frozen=True)
class SearchAnswer:
    """A question, the outcome of each retriever and its components, and the known answer passages."""

    data: StoredSet
    question: str
    outcomes: dict[str, Outcome]
    truth: GroundTruth | None
    k: int
    judged: tuple[int, ...] = ()  # rows of the passages that a user judged right

    @property
    def questions(self) -> QuestionSet:
        return question_set(self.data.key)

    @property
    def right(self) -> tuple[int, ...]:
        """Rows of the known answer passages: those of the dataset, then those that a user judged right."""
        return tuple(dict.fromkeys((self.truth.rows if self.truth else ()) + self.judged))

    def displayed_rows(self, name: str) -> list[int]:
        """Return the rows of the top `k` hits of a retriever, and of the answer passages below them."""
        rows = self.findings[name].rows
        return [*rows[: self.k], *(row for row in rows[self.k :] if row in self.right)]

    @property
    def results(self) -> QuestionResults:
        depths = dict.fromkeys(self.findings, DEPTH)
        return QuestionResults(self.data.key, self.question, self.right, self.findings, depths)

    def blind(self, specs: Sequence[Spec]) -> dict[str, list[str]]:
        """Return the components without hits, each with the mixes of `specs` that have hits without it."""
        is_empty = {name: int(not findings.rows) for name, findings in self.findings.items()}
        mixes: dict[str, list[str]] = {}
        for name, part in find_incomplete_mixes(specs, is_empty):
            if name in self.findings and not is_empty[name]:
                mixes.setdefault(part, []).append(name)
        return mixes

    @property
    def findings(self) -> dict[str, QueryHits]:
        return {name: outcome for name, outcome in self.outcomes.items() if isinstance(outcome, QueryHits)}
