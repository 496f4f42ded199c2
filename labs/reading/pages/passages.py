"""The reader that stays loaded, what it sees in the passages that retrievers found, whose span is taken, and why."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
import streamlit as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analyzers import Span
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.labs.reading.extractive import summed
from mrc_workbench.labs.reading.pages.evaluation import probability
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.workbench.views.resources.sets import cached, content_of, question_set
from mrc_workbench.workbench.views.ui.passages import Hit, head_html, hits_html
from mrc_workbench.workbench.views.ui.words import plain, word

SPANS = 3  # of each passage
Spans = Sequence[tuple[int, int, float]]  # begin, end and log P, better ones first
# a page that is drawn anew while a question is read asks the same reader from a second thread
_one_at_a_time = threading.Lock()
_BELOW_THE_TOP = "scroll-margin-top: 5rem"  # the row of pages covers the top


class Reading(NamedTuple):
    """What is seen in one passage: spans, and whether "no answer" is likelier than the reader's threshold asks for."""

    spans: Spans = ()
    silent: bool = False


@cached(content_of, max_entries=128)
def read(reference: str, key: str, question: str, rows: tuple[int, ...]) -> list[Reading]:
    """Read the passages at these rows of a stored set. Raises `ModelError`."""
    texts = question_set(key).passages.texts.at(np.array(rows, dtype=np.int64))
    reader = _reader(reference)
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


@cached(content_of, max_entries=2)
def _reader(reference: str) -> SpanReader:
    return SpanReader(find_model(reference))


@dataclass(frozen=True)
class ReadPassage:
    """A retrieved passage: its row, the retriever's score, and its spans, the best first.

    `total` is the score by which passages compete, see `labs.reading.extractive.summed`.
    """

    row: int
    found: float
    spans: Spans
    total: float
    relevant: bool

    @property
    def best(self) -> float:
        return self.spans[0][2] if self.spans else -np.inf


@dataclass(frozen=True)
class ReadColumn:
    """The first K passages of a retriever; `won` is the index of the one whose span is taken, -1 if none.

    The retriever's score counts `weight` times, in `unit`s. `read` is False without a reader, and `silent` True if the
    reader finds no answer in all of them.
    """

    name: str
    passages: tuple[ReadPassage, ...]
    won: int
    weight: float
    unit: float
    read: bool = True
    silent: bool = False

    @property
    def right(self) -> int:
        """The index of the first relevant passage, -1 if there is none."""
        return next((place for place, one in enumerate(self.passages) if one.relevant), -1)

    def below(self, place: int) -> float:
        """The distance of a passage from the best one, in units."""
        return (max(one.found for one in self.passages) - self.passages[place].found) / self.unit


def read_column(
    name: str,
    rows: Sequence[int],
    found: Sequence[float],
    spans: Sequence[Spans],
    *,
    relevant: Collection[int],
    weight: float,
    unit: float,
    silent: bool = False,
) -> ReadColumn:
    best = np.array([[one[0][2] if one else -np.inf for one in spans]])
    totals = summed(best, np.array([found], dtype=np.float64), weight, unit)[0]
    passages = tuple(
        ReadPassage(row, score, of, total, row in relevant)
        for row, score, of, total in zip(rows, found, spans, totals.tolist(), strict=True)
    )
    won = int(np.argmax(totals)) if len(totals) and np.isfinite(totals).any() else -1
    return ReadColumn(name, passages, won, weight, unit, read=any(spans), silent=silent)


def answer_of(column: ReadColumn, question_set: QuestionSet, place: int | None = None) -> str:
    """Return the taken span's text, or the best one's of another passage; empty if there is none."""
    place = column.won if place is None else place
    if place < 0 or not column.passages[place].spans:
        return ""
    start, end, _ = column.passages[place].spans[0]
    return question_set.passages[column.passages[place].row].text[start:end]


@dataclass(frozen=True)
class SpannedText(MarkedText):
    """A passage with the best span marked, as if it matched, and the others underlined, as if they answered."""

    @property
    def excerpt(self) -> Span:
        return MarkedText(self.text, (), self.matches).excerpt


def spanned(text: str, spans: Sequence[Span]) -> SpannedText:
    return SpannedText(text, tuple(spans[:1]), tuple(spans[1:]))


def legend(*, others: bool) -> None:
    """Draw the meaning of the marks; stored readings have only the best span, no `others`."""
    best, second = (escape(word(f"answers.legend_{one}")) for one in ("best", "second"))
    more = f"<span><u>{second}</u></span>" if others else ""
    st.html(f'<div class="found-legend"><span><mark>{best}</mark></span>{more}</div>')


def draw_head(column: ReadColumn, names: Sequence[str]) -> None:
    place = column.right
    truth = word("search.gold_at", rank=place + 1) if place >= 0 else ""
    st.html(head_html(column.name, names, truth))


def draw_passages(
    column: ReadColumn,
    spec: Spec,
    question_set: QuestionSet,
    *,
    anchor: str = "",
    below: Callable[[ReadPassage], None] | None = None,
) -> None:
    """Draw a column's passages; an `anchor` makes each a link target by its number."""
    for place, one in enumerate(column.passages):
        passage = question_set.passages[one.row]
        hit = Hit(
            rank=place + 1,
            score=f"{one.found:.{spec.local.digits}f}",
            passage_id=passage.id,
            title=MarkedText(passage.title),
            text=spanned(passage.text, [(start, end) for start, end, _ in one.spans]),
            relevant=one.relevant,
            notes=_notes(column, place, question_set),
        )
        with st.container(gap=None):
            target = f'<span id="{escape(anchor)}-{place + 1}" style="{_BELOW_THE_TOP}"></span>' if anchor else ""
            st.html(target + hits_html([hit]))
            if below:
                below(one)


def _notes(column: ReadColumn, place: int, question_set: QuestionSet) -> list[str]:
    one = column.passages[place]
    if not column.read:
        return []
    if not one.spans or not np.isfinite(one.best):
        return [word("answers.no_span")]
    told = word("answers.span_note", answer=answer_of(column, question_set, place), p=probability(one.best))
    return [f"★ {word('answers.taken')} · {told}" if place == column.won else told]


def reason(column: ReadColumn, question_set: QuestionSet) -> str:
    """Return why a passage won against the relevant one, as Markdown; empty if it did not."""
    right = column.right
    if column.won < 0:
        return ""
    if right < 0:
        return word("answers.why_not_found", k=len(column.passages))
    if right == column.won:
        return ""
    sides = {"won": column.won, "right": right}
    values: dict[str, object] = {}
    for side, place in sides.items():
        one = column.passages[place]
        values |= {
            f"{side}_rank": place + 1,
            f"{side}_answer": plain(answer_of(column, question_set, place) or "–"),
            f"{side}_score": _number(one.best),
            f"{side}_below": f"{column.below(place):.3f}",
            f"{side}_total": _number(one.total),
        }
    kind = "weighed" if column.weight else "by_reader"
    return word(f"answers.why_{kind}", weight=f"{column.weight:g}", **values)


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if np.isfinite(value) and value > -1e8 else "−∞"
