"""Cached functions of the pages: open comparisons, loaded retrievers, dictionaries, and explanations of scores."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.dictionary import Dictionary, StoredDictionary, find, format_dictionary, load, stored
from mrc_workbench.data.text.marking import MarkedText, mark_texts
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval import explain
from mrc_workbench.retrieval.analysis.labs import analyzers_for
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison import first_stage
from mrc_workbench.retrieval.comparison.compare import build_context
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.explain import BM25Explainer, BM25Explanation, WindowedBM25Explainer, encoders
from mrc_workbench.retrieval.lexical.terms import CutWord, cut_words
from mrc_workbench.retrieval.rankings import GroundTruth, QueryHits, ground_truth, search_lock, search_question
from mrc_workbench.workbench.views.resources.sets import cached, question_set, result_slot, split_of

logger = logging.getLogger(__name__)
_cut_words_lock = Lock()  # a rerun of the page requests the same words from a second thread
_BY_CONTENT: dict[Any, Callable[[Any], Any]] = {
    Dictionary: lambda dictionary: dictionary.fingerprint,
    StoredDictionary: lambda entry: (entry.key, entry.fingerprint),
    QuestionSet: lambda questions: questions.fingerprint,
}
_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)


def open_comparison(key: str, folder: Path) -> OpenComparison | None:
    """Open the finished comparison in a folder; None if it cannot be read, or compares another set than `key`."""
    return _opened(key, str(folder), (folder / "scores.json").stat().st_mtime)


@cached(max_entries=8)
def _opened(key: str, folder: str, finished: float) -> OpenComparison | None:
    del finished  # part of the cache key, because a comparison may run again
    try:
        return OpenComparison(Path(folder), question_set(key))
    except ValueError as error:
        logger.warning("a stored comparison cannot be opened: %s", error)
        return None


@cached(max_entries=8)
def analyzers_of(key: str) -> tuple[Analyzer, ...]:
    return analyzers_for(question_set(key).passages.texts)


@cached(max_entries=4)
def retriever_context(key: str, experiment: str) -> RetrieverContext:
    """Return the context of an experiment; its retrievers report to the listener of `report_progress_to`."""

    def report_progress(fraction: float) -> None:
        if listener := _listener.get():
            listener(fraction)

    return build_context(Experiment.model_validate_json(experiment), question_set(key), on_progress=report_progress)


@contextmanager
def report_progress_to(listener: Callable[[float], None]) -> Iterator[None]:
    """Report the progress, 0 to 1, of the retrievers that this session builds in the `with` block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@cached(max_entries=512)
def findings(key: str, experiment: str, name: str, question: str) -> QueryHits:
    """Return the results of a retriever of the experiment. Raises the errors of building it."""
    return search_question(retriever_context(key, experiment).get_retriever(name), question)


@cached(max_entries=512)
def truth_in(key: str, question: str) -> GroundTruth | None:
    return ground_truth(question_set(key), question)


@cached(max_entries=32)
def marked_passages(key: str, question: str, rows: tuple[int, ...]) -> list[tuple[MarkedText, MarkedText]]:
    passages = [question_set(key).passages[row] for row in rows]
    answers = truth.answers if (truth := truth_in(key, question)) else ()
    texts = [text for passage in passages for text in (passage.title, passage.text)]
    marked_texts = mark_texts(question, texts, [(), answers] * len(passages))
    return list(zip(marked_texts[::2], marked_texts[1::2], strict=True))


class CutWords(NamedTuple):
    """Words that may be cut wrongly, and the texts of the questions that their rows refer to."""

    words: tuple[CutWord, ...]
    questions: tuple[str, ...]


def dictionary_of(reference: str) -> Dictionary | None:
    """Return the dictionary that a retriever names, None if none. Raises `DictionaryError`."""
    if not reference:
        return None
    stored_dictionary = next((dictionary for dictionary in stored() if dictionary.reference == reference), None)
    return _load_dictionary(stored_dictionary) if stored_dictionary else find(reference)


@cached(max_entries=8, hash_funcs=_BY_CONTENT)
def _load_dictionary(stored_dictionary: StoredDictionary) -> Dictionary:
    return load(stored_dictionary.key)


@cached(max_entries=16, hash_funcs=_BY_CONTENT)
def lines_of(stored_dictionary: StoredDictionary) -> str:
    """Return the lines of a stored dictionary. Raises `DictionaryError`."""
    return format_dictionary(_load_dictionary(stored_dictionary))


def words_cut_wrongly(
    data: StoredSet, split_options: SplitOptions, reference: str, on_progress: Callable[[float], None]
) -> CutWords:
    """Return words that the analyzer may cut wrongly, from the training and validation questions.

    The test questions are for evaluating the dictionary. Raises `DictionaryError`.
    """
    results = _cut_words(data, split_options, reference)
    with _cut_words_lock:
        if not results:
            on_progress(0.0)
            rows = split_of(data.key, split_options).rows
            questions = question_set(data.key).with_questions(np.union1d(rows[Part.TRAIN], rows[Part.VALIDATION]))
            words = cut_words(questions, dictionary_of(reference), on_progress) if questions.questions else []
            results.append(CutWords(tuple(words), tuple(question.text for question in questions.questions)))
    return results[0]


def has_cut_words(data: StoredSet, split_options: SplitOptions, reference: str) -> bool:
    """Whether the result of `words_cut_wrongly` is cached. Raises `DictionaryError`."""
    return bool(_cut_words(data, split_options, reference))


def _cut_words(data: StoredSet, split_options: SplitOptions, reference: str) -> list[CutWords]:
    dictionary = dictionary_of(reference)
    split = astuple(split_options)
    return result_slot(("cut words", data.key, data.fingerprint, split, dictionary.fingerprint if dictionary else ""))


def explain_bm25(key: str, spec: first_stage.TermSpec, question: str, row: int) -> BM25Explanation:
    """Explain the score of a passage (a row), or of its best window. Raises `DictionaryError`."""
    return _explain_bm25_cached(key, spec, dictionary_of(spec.dictionary), question, row)


def explain_counted_bm25(
    key: str, spec: first_stage.TermSpec, question: str, row: int, among: QuestionSet | None
) -> BM25Explanation:
    """Explain the score; if the question is `among` others, with counts from disk and without term positions."""
    counter = None
    if among and isinstance(spec, first_stage.BM25Spec):
        counter = _bm25_counter(key, spec, dictionary_of(spec.dictionary), among)
    return counter.explain(question, row) if counter else explain_bm25(key, spec, question, row)


@cached(max_entries=4, hash_funcs=_BY_CONTENT)
def _bm25_counter(
    key: str, spec: first_stage.BM25Spec, dictionary: Dictionary | None, among: QuestionSet
) -> BM25Explainer | None:
    texts = [question.text for question in among.questions]
    return explain.counting_explainer(question_set(key).passages, spec.options(dictionary), texts)


@cached(max_entries=8, hash_funcs=_BY_CONTENT)
def _bm25_explainer(
    key: str, spec: first_stage.TermSpec, dictionary: Dictionary | None
) -> BM25Explainer | WindowedBM25Explainer:
    passages = question_set(key).passages
    if isinstance(spec, first_stage.WindowedBM25Spec):
        return WindowedBM25Explainer(passages, spec.options(dictionary), sentences=spec.sentences)
    return BM25Explainer(passages, spec.options(dictionary))


@cached(max_entries=512, hash_funcs=_BY_CONTENT)
def _explain_bm25_cached(
    key: str, spec: first_stage.TermSpec, dictionary: Dictionary | None, question: str, row: int
) -> BM25Explanation:
    return _bm25_explainer(key, spec, dictionary).explain(question, row)


@cached(max_entries=8)
def _static_explainer(key: str, model: str, title: bool) -> encoders.StaticExplainer | None:
    try:
        return encoders.static_explainer(model, question_set(key).passages, title=title)
    except (ModelError, OSError) as error:  # a deleted run or cache
        logger.warning("the model %r cannot be read: %s", model, error)
        return None


@cached(max_entries=512)
def explain_static(key: str, model: str, title: bool, question: str, row: int) -> encoders.StaticExplanation | None:
    """Explain the cosine of a passage (a row); None unless the model is an available starter."""
    explainer = _static_explainer(key, model, title)
    return explainer.explain(question, row) if explainer else None


@cached(max_entries=2)
def _encoder(key: str, model: str, title: bool) -> BiEncoder:
    return BiEncoder(find_model(model), question_set(key).passages.indexed_texts(title=title))


@cached(max_entries=2)
def _term_encoder(key: str, spec: first_stage.SparseSpec) -> SparseTextEncoder:
    texts = question_set(key).passages.indexed_texts(title=spec.title)
    return SparseTextEncoder(find_model(spec.model), texts, precision=spec.precision)


@cached(max_entries=512)
def explain_sparse(key: str, spec: first_stage.SparseSpec, question: str, row: int) -> encoders.SparseExplanation:
    """Load the model, and explain the score of a passage (a row) by term. Raises `ModelError`."""
    passage = question_set(key).passages[row]
    return encoders.term_contributions(_term_encoder(key, spec), question, passage, title=spec.title)


@cached(max_entries=512)
def explain_late(
    key: str, experiment: str, spec: first_stage.LateSpec, question: str, row: int
) -> encoders.LateExplanation:
    """Load the model, and explain the score of a passage (a row) by token. Raises `ModelError`."""
    context = retriever_context(key, experiment)
    passages = question_set(key).passages
    encoder = spec.encoder(context)
    encoder.load()  # without the lock: others may search
    with search_lock:
        encoder.fit(context.texts(spec.title), passages.title_lengths(title=spec.title))
        return encoders.token_matches(encoder, question, passages[row], title=spec.title)


@cached(max_entries=512)
def explain_sentences(key: str, model: str, title: bool, question: str, row: int) -> encoders.SentenceExplanation:
    """Load the model, and score a passage (a row) by sentence. Raises `ModelError`."""
    passage = question_set(key).passages[row]
    return encoders.sentence_contributions(_encoder(key, model, title), question, passage, title=title)


@cached(max_entries=512)
def explain_cosine(key: str, spec: first_stage.DenseSpec, question: str, row: int) -> encoders.WindowExplanation | None:
    """Score a passage (a row) by window; None if the dense retriever has no windows. Raises `ModelError`."""
    if not (options := spec.window_options):
        return None
    encoder = _encoder(key, spec.model, spec.title)
    return encoders.dense_windows(encoder, question, question_set(key).passages[row], options, title=spec.title)


@cached(max_entries=2)
def _scorer(key: str, model: str, title: bool) -> CrossEncoderScorer:
    return CrossEncoderScorer(find_model(model), question_set(key).passages.indexed_texts(title=title))


@cached(max_entries=512)
def explain_reranking(key: str, spec: RerankSpec, question: str, row: int) -> encoders.WindowExplanation | None:
    """Score a passage (a row) by window with a reranker. Raises `ModelError`."""
    scorer = _scorer(key, spec.model, spec.title)
    options = spec.window_options or WindowOptions()
    return encoders.reranker_windows(scorer, question, question_set(key).passages[row], options, title=spec.title)
