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
from mrc_workbench.labs.reading.extractive import combined_scores
from mrc_workbench.labs.reading.pages.evaluation import format_probability
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.workbench.views.resources.sets import cached, content_of, question_set
from mrc_workbench.workbench.views.ui.passages import HitCard, head_html, hits_html
from mrc_workbench.workbench.views.ui.words import plain, word

SPANS = 3  # of each passage
Spans = Sequence[tuple[int, int, float]]  # begin, end and log P, better ones first
# a page that is drawn anew while a question is read asks the same reader from a second thread
_reader_lock = threading.Lock()
_BELOW_THE_TOP = "scroll-margin-top: 5rem"  # the row of pages covers the top


class PassageReading(NamedTuple):
    """What is seen in one passage: spans, and whether "no answer" is likelier than the reader's threshold asks for."""

    spans: Spans = ()
    has_no_answer: bool = False


@cached(content_of, max_entries=128)
def read_passages(reference: str, key: str, question: str, rows: tuple[int, ...]) -> list[PassageReading]:
    """Read the passages at these rows of a stored set. Raises `ModelError`."""
    texts = question_set(key).passages.texts.at(np.array(rows, dtype=np.int64))
    reader = _load_reader(reference)
    with _reader_lock:
        batch_spans = reader.read([(question, text) for text in texts], spans=SPANS)
    threshold = np.inf if reader.threshold is None else reader.threshold
    has_no_answer = (batch_spans.nothing - batch_spans.scores[:, 0] > threshold).tolist()
    columns = (batch_spans.starts.tolist(), batch_spans.ends.tolist(), batch_spans.scores.tolist())
    spans = (
        tuple((start, end, score) for start, end, score in zip(*values, strict=True) if start < end)
        for values in zip(*columns, strict=True)
    )
    return [PassageReading(*values) for values in zip(spans, has_no_answer, strict=True)]


@cached(content_of, max_entries=2)
def _load_reader(reference: str) -> SpanReader:
    return SpanReader(find_model(reference))


@dataclass(frozen=True)
class ReadPassage:
    """A retrieved passage: its row, the retriever's score, and its spans, the best first.

    `total` is the score by which passages compete, see `labs.reading.extractive.summed`.
    """

    row: int
    retrieval_score: float
    spans: Spans
    combined_score: float
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
    selected_index: int
    weight: float
    unit: float
    is_read: bool = True
    has_no_answer: bool = False

    @property
    def relevant_index(self) -> int:
        """The index of the first relevant passage, -1 if there is none."""
        return next((index for index, passage in enumerate(self.passages) if passage.relevant), -1)

    def units_below_best(self, index: int) -> float:
        """The distance of a passage from the best one, in units."""
        return (
            max(passage.retrieval_score for passage in self.passages) - self.passages[index].retrieval_score
        ) / self.unit


def build_column(
    name: str,
    rows: Sequence[int],
    retrieval_scores: Sequence[float],
    spans: Sequence[Spans],
    *,
    relevant: Collection[int],
    weight: float,
    unit: float,
    has_no_answer: bool = False,
) -> ReadColumn:
    best = np.array([[candidate_spans[0][2] if candidate_spans else -np.inf for candidate_spans in spans]])
    totals = combined_scores(best, np.array([retrieval_scores], dtype=np.float64), weight, unit)[0]
    passages = tuple(
        ReadPassage(row, score, passage_spans, total, row in relevant)
        for row, score, passage_spans, total in zip(rows, retrieval_scores, spans, totals.tolist(), strict=True)
    )
    selected_index = int(np.argmax(totals)) if len(totals) and np.isfinite(totals).any() else -1
    return ReadColumn(name, passages, selected_index, weight, unit, is_read=any(spans), has_no_answer=has_no_answer)


def selected_answer(column: ReadColumn, question_set: QuestionSet, index: int | None = None) -> str:
    """Return the taken span's text, or the best one's of another passage; empty if there is none."""
    index = column.selected_index if index is None else index
    if index < 0 or not column.passages[index].spans:
        return ""
    start, end, _ = column.passages[index].spans[0]
    return question_set.passages[column.passages[index].row].text[start:end]


@dataclass(frozen=True)
class SpannedText(MarkedText):
    """A passage with the best span marked, as if it matched, and the others underlined, as if they answered."""

    @property
    def excerpt(self) -> Span:
        return MarkedText(self.text, (), self.matches).excerpt


def mark_spans(text: str, spans: Sequence[Span]) -> SpannedText:
    return SpannedText(text, tuple(spans[:1]), tuple(spans[1:]))


def draw_legend(*, others: bool) -> None:
    """Draw the meaning of the marks; stored readings have only the best span, no `others`."""
    best, second = (escape(word(f"answers.legend_{kind}")) for kind in ("best", "second"))
    more = f"<span><u>{second}</u></span>" if others else ""
    st.html(f'<div class="results-legend"><span><mark>{best}</mark></span>{more}</div>')


def draw_head(column: ReadColumn, names: Sequence[str]) -> None:
    index = column.relevant_index
    relevant_rank = word("search.gold_at", rank=index + 1) if index >= 0 else ""
    st.html(head_html(column.name, names, relevant_rank))


def draw_passages(
    column: ReadColumn,
    spec: Spec,
    question_set: QuestionSet,
    *,
    anchor: str = "",
    draw_below: Callable[[ReadPassage], None] | None = None,
) -> None:
    """Draw a column's passages; an `anchor` makes each a link target by its number."""
    for index, read_passage in enumerate(column.passages):
        passage = question_set.passages[read_passage.row]
        hit = HitCard(
            rank=index + 1,
            score=f"{read_passage.retrieval_score:.{spec.local_spec.digits}f}",
            passage_id=passage.id,
            title=MarkedText(passage.title),
            text=mark_spans(passage.text, [(start, end) for start, end, _ in read_passage.spans]),
            relevant=read_passage.relevant,
            notes=_notes(column, index, question_set),
        )
        with st.container(gap=None):
            target = f'<span id="{escape(anchor)}-{index + 1}" style="{_BELOW_THE_TOP}"></span>' if anchor else ""
            st.html(target + hits_html([hit]))
            if draw_below:
                draw_below(read_passage)


def _notes(column: ReadColumn, index: int, question_set: QuestionSet) -> list[str]:
    passage = column.passages[index]
    if not column.is_read:
        return []
    if not passage.spans or not np.isfinite(passage.best):
        return [word("answers.no_span")]
    note = word(
        "answers.span_note", answer=selected_answer(column, question_set, index), p=format_probability(passage.best)
    )
    return [f"★ {word('answers.taken')} · {note}" if index == column.selected_index else note]


def explain_selection(column: ReadColumn, question_set: QuestionSet) -> str:
    """Return why a passage won against the relevant one, as Markdown; empty if it did not."""
    relevant_index = column.relevant_index
    if column.selected_index < 0:
        return ""
    if relevant_index < 0:
        return word("answers.why_not_found", k=len(column.passages))
    if relevant_index == column.selected_index:
        return ""
    sides = {"won": column.selected_index, "right": relevant_index}
    values: dict[str, object] = {}
    for side, index in sides.items():
        passage = column.passages[index]
        values |= {
            f"{side}_rank": index + 1,
            f"{side}_answer": plain(selected_answer(column, question_set, index) or "–"),
            f"{side}_score": _format_score(passage.best),
            f"{side}_below": f"{column.units_below_best(index):.3f}",
            f"{side}_total": _format_score(passage.combined_score),
        }
    kind = "weighed" if column.weight else "by_reader"
    return word(f"answers.why_{kind}", weight=f"{column.weight:g}", **values)


def _format_score(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if np.isfinite(value) and value > -1e8 else "−∞"
