"""Cached functions: comparisons, opened once for all sessions, and the retrievers of Search that stay loaded."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from retrieval.analysis.labs import analyzers_for
from retrieval.analysis.open_comparison import OpenComparison
from retrieval.comparison.compare import Comparison, compare, is_kept, retrievers_of
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.spec import CachedRetriever
from retrieval.rankings import Findings, ask, truth_of
from text.analyzers import Analyzer
from text.marking import MarkedText, marked
from views.resources.cached import cached
from views.resources.sets import question_set

logger = logging.getLogger(__name__)
_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)


def open_comparison(key: str, folder: Path) -> OpenComparison | None:
    """Open the finished comparison in a folder; None where it cannot be read, or is not of the stored set `key`."""
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
def finished_part(key: str, experiment: str) -> Comparison | None:
    """Return a comparison that is still going on, cut to what is done; None where rankings are gone."""
    wanted = Experiment.model_validate_json(experiment)
    return compare(wanted, question_set(key)) if is_kept(wanted, question_set(key)) else None


@cached(max_entries=8)
def analyzers_of(key: str) -> tuple[Analyzer, ...]:
    return analyzers_for(question_set(key).passages.texts)


@cached(max_entries=4)
def retrievers(key: str, experiment: str) -> dict[str, CachedRetriever | Exception]:
    """Return the experiment's retrievers, which build themselves when first searched, and tell the one `listening`."""
    return retrievers_of(Experiment.model_validate_json(experiment), question_set(key), on_progress=_tell)


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Have the retrievers that are built meanwhile, by this session, tell how far they are, 0 to 1."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def _tell(share: float) -> None:
    if listener := _listener.get():
        listener(share)


@cached(max_entries=512)
def findings(key: str, experiment: str, name: str, question: str) -> Findings:
    """Return what one retriever of the experiment finds. Raises what making or building it raised."""
    retriever = retrievers(key, experiment)[name]
    if isinstance(retriever, Exception):
        raise retriever
    return ask(retriever, question)


@cached(max_entries=32)
def marked_passages(key: str, question: str, rows: tuple[int, ...]) -> list[tuple[MarkedText, MarkedText]]:
    """Return title and text of the passages at `rows`, marked for the question."""
    passages = [question_set(key).passages[row] for row in rows]
    truth = truth_of(question_set(key), question)
    answers = truth.answers if truth else ()
    texts = [text for passage in passages for text in (passage.title, passage.text)]
    found = marked(question, texts, [(), answers] * len(passages))
    return list(zip(found[::2], found[1::2], strict=True))
