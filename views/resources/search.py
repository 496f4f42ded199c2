"""Cached functions of the Search page: the retrievers that stay loaded, and what they found."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from retrieval.asking import Findings, ask, truth_of
from retrieval.comparison.build import retrievers_of
from retrieval.comparison.cached import CachedRetriever
from retrieval.comparison.experiment import Experiment
from text.marking import MarkedText, marked
from views.resources.cached import cached
from views.resources.sets import question_set


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


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)


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
