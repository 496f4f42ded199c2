"""The reader that stays loaded between questions, and what it reads."""

import threading

import numpy as np

from models.reader import SpanReader
from models.sources import find_model
from views.resources.cached import cached
from views.resources.sets import question_set

SPANS = 3  # of each passage
Spans = tuple[tuple[int, int, float], ...]  # begin, end and log P, better ones first

# a page that is drawn anew while a question is read asks the same reader from a second thread
_one_at_a_time = threading.Lock()


def read(reference: str, key: str, question: str, rows: tuple[int, ...]) -> list[Spans]:
    """Read the passages at these rows of a stored set, and return the spans of each. Raises `ModelError`."""
    return _read(reference, _content(reference), key, question, rows)


@cached(max_entries=128)
def _read(reference: str, content: str, key: str, question: str, rows: tuple[int, ...]) -> list[Spans]:
    texts = question_set(key).passages.texts.at(np.array(rows, dtype=np.int64))
    with _one_at_a_time:
        found = _reader(reference, content).read([(question, text) for text in texts], spans=SPANS)
    columns = (found.starts.tolist(), found.ends.tolist(), found.scores.tolist())
    return [
        tuple((start, end, score) for start, end, score in zip(*of, strict=True) if start < end)
        for of in zip(*columns, strict=True)
    ]


@cached(max_entries=2)
def _reader(reference: str, content: str) -> SpanReader:
    del content  # only a part of the key: a model that took its place is another one
    return SpanReader(find_model(reference))


def _content(reference: str) -> str:
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
