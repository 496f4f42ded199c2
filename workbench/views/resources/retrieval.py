"""Cached functions: comparisons, opened once for all sessions, and the loaded retrievers of Search; user dictionaries
and wrongly cut words; and explanations of single scores by loaded models."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.dictionary import Dictionary, StoredDictionary, find, load, stored, written
from mrc_workbench.data.text.marking import MarkedText, marked
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.analysis.labs import analyzers_for
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison.compare import materials_of
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import (
    BM25Spec,
    DenseSpec,
    LateSpec,
    SparseSpec,
    TermSpec,
    WindowedBM25Spec,
)
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import Materials
from mrc_workbench.retrieval.explain import BM25Explainer, BM25Explanation, WindowedBM25Explainer, counting_explainer
from mrc_workbench.retrieval.explain.encoders import (
    LateExplanation,
    SentenceExplanation,
    SparseExplanation,
    StaticExplainer,
    StaticExplanation,
    WindowExplanation,
    dense_windows,
    reranker_windows,
    sentence_contributions,
    static_explainer,
    term_contributions,
    token_matches,
)
from mrc_workbench.retrieval.lexical.terms import CutWord, cut_words
from mrc_workbench.retrieval.rankings import Findings, Truth, ask, asking, truth_of
from mrc_workbench.workbench.views.resources.sets import cached, place_of, question_set, split_of

logger = logging.getLogger(__name__)
_one_at_a_time = Lock()  # a page that is drawn anew asks for the same from a second thread
_BM25_SPECS: TypeAdapter[BM25Spec | WindowedBM25Spec] = TypeAdapter(BM25Spec | WindowedBM25Spec)
_BY_CONTENT: dict[Any, Callable[[Any], Any]] = {
    Dictionary: lambda dictionary: dictionary.fingerprint,  # whatever a retriever calls it
    StoredDictionary: lambda kept: (kept.key, kept.fingerprint),
    QuestionSet: lambda questions: questions.fingerprint,
}
_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)


def open_comparison(key: str, folder: Path) -> OpenComparison | None:
    """Open the finished comparison in a folder; None if it cannot be read, or is not of the stored set `key`."""
    return _opened(key, str(folder), (folder / "scores.json").stat().st_mtime)


@cached(max_entries=8)
def _opened(key: str, folder: str, finished: float) -> OpenComparison | None:
    del finished  # only a part of the key: a comparison that ran again is another one
    try:
        return OpenComparison(Path(folder), question_set(key))
    except ValueError as error:
        logger.warning("a kept comparison cannot be opened: %s", error)
        return None


@cached(max_entries=8)
def analyzers_of(key: str) -> tuple[Analyzer, ...]:
    return analyzers_for(question_set(key).passages.texts)


@cached(max_entries=4)
def materials(key: str, experiment: str) -> Materials:
    """Return the experiment's retrievers and what they are built from; they report to the listener of `listening`."""

    def report_progress(fraction: float) -> None:
        if listener := _listener.get():
            listener(fraction)

    return materials_of(Experiment.model_validate_json(experiment), question_set(key), on_progress=report_progress)


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Report the progress (0 to 1) of the retrievers that this session builds meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@cached(max_entries=512)
def findings(key: str, experiment: str, name: str, question: str) -> Findings:
    """Return the results of one retriever of the experiment. Raises what building it raised."""
    return ask(materials(key, experiment).part(name), question)


@cached(max_entries=512)
def truth_in(key: str, question: str) -> Truth | None:
    return truth_of(question_set(key), question)


@cached(max_entries=32)
def marked_passages(key: str, question: str, rows: tuple[int, ...]) -> list[tuple[MarkedText, MarkedText]]:
    """Return title and text of the passages at `rows`, marked for the question."""
    passages = [question_set(key).passages[row] for row in rows]
    answers = truth.answers if (truth := truth_in(key, question)) else ()
    texts = [text for passage in passages for text in (passage.title, passage.text)]
    found = marked(question, texts, [(), answers] * len(passages))
    return list(zip(found[::2], found[1::2], strict=True))


class CutWords(NamedTuple):
    """Words that may be cut wrongly, and the texts of the questions that their rows refer to."""

    words: tuple[CutWord, ...]
    questions: tuple[str, ...]


def dictionary_of(reference: str) -> Dictionary | None:
    """Return the dictionary that a retriever names, None if none. Raises `DictionaryError`."""
    if not reference:
        return None
    kept = next((one for one in stored() if one.reference == reference), None)
    return _kept(kept) if kept else find(reference)


@cached(max_entries=8, hash_funcs=_BY_CONTENT)
def _kept(kept: StoredDictionary) -> Dictionary:
    return load(kept.key)


@cached(max_entries=16, hash_funcs=_BY_CONTENT)
def lines_of(kept: StoredDictionary) -> str:
    """Return the lines of a kept dictionary. Raises `DictionaryError`."""
    return written(_kept(kept))


def words_cut_wrongly(
    data: StoredSet, shares: SplitOptions, reference: str, on_progress: Callable[[float], None]
) -> CutWords:
    """Return words of a set's questions that may be cut wrongly, read with the dictionary named, or with none.

    The questions of the test part are not looked at: they are to judge the dictionary. Raises `DictionaryError`.
    """
    results = _cut_words(data, shares, reference)
    with _one_at_a_time:
        if not results:
            on_progress(0.0)
            rows = split_of(data.key, shares).rows
            asked = question_set(data.key).with_questions(np.union1d(rows[Part.TRAIN], rows[Part.VALIDATION]))
            words = cut_words(asked, dictionary_of(reference), on_progress) if asked.questions else []
            results.append(CutWords(tuple(words), tuple(question.text for question in asked.questions)))
    return results[0]


def is_read(data: StoredSet, shares: SplitOptions, reference: str) -> bool:
    """Whether `words_cut_wrongly` has its answer at once. Raises `DictionaryError`."""
    return bool(_cut_words(data, shares, reference))


def _cut_words(data: StoredSet, shares: SplitOptions, reference: str) -> list[CutWords]:
    dictionary, split = dictionary_of(reference), astuple(shares)
    return place_of(("cut words", data.key, data.fingerprint, split, dictionary.fingerprint if dictionary else ""))


def explained_bm25(key: str, spec: TermSpec, question: str, row: int) -> BM25Explanation:
    """Explain the score of a passage (a row), of windows the best one's. Raises `DictionaryError`: there is none."""
    return _explained_bm25(key, spec.model_dump_json(), dictionary_of(spec.dictionary), question, row)


def counted_bm25(key: str, spec: TermSpec, question: str, row: int, among: QuestionSet | None) -> BM25Explanation:
    """Explain the score with counts from disk, without the places of terms, if it was asked `among` other questions."""
    counter = None
    if among and isinstance(spec, BM25Spec):
        counter = _bm25_counter(key, spec.model_dump_json(), dictionary_of(spec.dictionary), among)
    return counter.explain(question, row) if counter else explained_bm25(key, spec, question, row)


@cached(max_entries=4, hash_funcs=_BY_CONTENT)
def _bm25_counter(key: str, spec: str, dictionary: Dictionary | None, among: QuestionSet) -> BM25Explainer | None:
    options = BM25Spec.model_validate_json(spec).options(dictionary)
    return counting_explainer(question_set(key).passages, options, [question.text for question in among.questions])


@cached(max_entries=8, hash_funcs=_BY_CONTENT)
def _bm25_explainer(key: str, spec: str, dictionary: Dictionary | None) -> BM25Explainer | WindowedBM25Explainer:
    of, passages = _BM25_SPECS.validate_json(spec), question_set(key).passages
    if isinstance(of, WindowedBM25Spec):
        return WindowedBM25Explainer(passages, of.options(dictionary), sentences=of.sentences)
    return BM25Explainer(passages, of.options(dictionary))


@cached(max_entries=512, hash_funcs=_BY_CONTENT)
def _explained_bm25(key: str, spec: str, dictionary: Dictionary | None, question: str, row: int) -> BM25Explanation:
    return _bm25_explainer(key, spec, dictionary).explain(question, row)


@cached(max_entries=8)
def _static_explainer(key: str, model: str, title: bool) -> StaticExplainer | None:
    try:
        return static_explainer(model, question_set(key).passages, title=title)
    except (ModelError, OSError) as error:  # a run that was deleted, or a workspace's cache
        logger.warning("the model %r cannot be looked into: %s", model, error)
        return None


@cached(max_entries=512)
def explained_static(key: str, model: str, title: bool, question: str, row: int) -> StaticExplanation | None:
    """Explain the cosine of a passage (a row) where the model is a starter that is still there, else None."""
    explainer = _static_explainer(key, model, title)
    return explainer.explain(question, row) if explainer else None


@cached(max_entries=2)
def _encoder(key: str, model: str, title: bool) -> BiEncoder:
    return BiEncoder(find_model(model), question_set(key).passages.indexed_texts(title=title))


@cached(max_entries=2)
def _term_encoder(key: str, spec: str) -> SparseTextEncoder:
    of = SparseSpec.model_validate_json(spec)
    texts = question_set(key).passages.indexed_texts(title=of.title)
    return SparseTextEncoder(find_model(of.model), texts, precision=of.precision)


@cached(max_entries=512)
def explained_sparse(key: str, spec: str, question: str, row: int) -> SparseExplanation:
    """Explain the score of a passage (a row) term by term, which loads the model. Raises `ModelError`."""
    title = SparseSpec.model_validate_json(spec).title
    return term_contributions(_term_encoder(key, spec), question, question_set(key).passages[row], title=title)


@cached(max_entries=512)
def explained_late(key: str, experiment: str, spec: str, question: str, row: int) -> LateExplanation:
    """Explain the score of a passage (a row) token by token, which loads the model. Raises `ModelError`."""
    of, made_from, passages = LateSpec.model_validate_json(spec), materials(key, experiment), question_set(key).passages
    encoder = of.encoder(made_from)
    encoder.load()  # meanwhile others may ask theirs
    with asking:
        encoder.fit(made_from.texts(of.title), passages.heads(title=of.title))
        return token_matches(encoder, question, passages[row], title=of.title)


@cached(max_entries=512)
def explained_sentences(key: str, model: str, title: bool, question: str, row: int) -> SentenceExplanation:
    """Score a passage (a row) sentence by sentence, which loads the model. Raises `ModelError`."""
    passage = question_set(key).passages[row]
    return sentence_contributions(_encoder(key, model, title), question, passage, title=title)


@cached(max_entries=512)
def explained_cosine(key: str, spec: str, question: str, row: int) -> WindowExplanation | None:
    """Score a passage (a row) window by window; None if the dense model has no windows. Raises `ModelError`."""
    of = DenseSpec.model_validate_json(spec)
    if not (options := of.window_options):
        return None
    encoder, passage = _encoder(key, of.model, of.title), question_set(key).passages[row]
    return dense_windows(encoder, question, passage, options, title=of.title)


@cached(max_entries=2)
def _scorer(key: str, model: str, title: bool) -> CrossEncoderScorer:
    return CrossEncoderScorer(find_model(model), question_set(key).passages.indexed_texts(title=title))


@cached(max_entries=512)
def explained_reranking(key: str, spec: str, question: str, row: int) -> WindowExplanation | None:
    """Score a passage (a row) window by window with a reranker, given as JSON. As `explained_cosine` otherwise."""
    of = RerankSpec.model_validate_json(spec)
    scorer, passage = _scorer(key, of.model, of.title), question_set(key).passages[row]
    return reranker_windows(scorer, question, passage, of.window_options or WindowOptions(), title=of.title)
