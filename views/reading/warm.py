"""The reader that stays loaded between questions, and what it reads."""

import threading
from typing import NamedTuple

import numpy as np

from models.reader import SpanReader
from models.sources import find_model
from views.resources.cached import cached
from views.resources.sets import question_set

SPANS = 3  # of each passage
Spans = tuple[tuple[int, int, float], ...]  # begin, end and log P, better ones first


class Reading(NamedTuple):
    """What is seen in one passage: spans, and whether "no answer" is likelier than the reader's threshold asks for."""

    spans: Spans = ()
    silent: bool = False


# a page that is drawn anew while a question is read asks the same reader from a second thread
_one_at_a_time = threading.Lock()


def read(reference: str, key: str, question: str, rows: tuple[int, ...]) -> list[Reading]:
    """Read the passages at these rows of a stored set, and return what is seen in each. Raises `ModelError`."""
    return _read(reference, _content(reference), key, question, rows)


@cached(max_entries=128)
def _read(reference: str, content: str, key: str, question: str, rows: tuple[int, ...]) -> list[Reading]:
    texts = question_set(key).passages.texts.at(np.array(rows, dtype=np.int64))
    reader = _reader(reference, content)
    with _one_at_a_time:
        found = reader.read([(question, text) for text in texts], spans=SPANS)
    above = np.inf if reader.threshold is None else reader.threshold
    silent = (found.nothing - found.scores[:, 0] > above).tolist()
    columns = (found.starts.tolist(), found.ends.tolist(), found.scores.tolist())
    spans = (
        tuple((start, end, score) for start, end, score in zip(*of, strict=True) if start < end)
        for of in zip(*columns, strict=True)
    )
    return [Reading(*of) for of in zip(spans, silent, strict=True)]


@cached(max_entries=2)
def _reader(reference: str, content: str) -> SpanReader:
    del content  # only a part of the key: a model that took its place is another one
    return SpanReader(find_model(reference))


def _content(reference: str) -> str:
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
