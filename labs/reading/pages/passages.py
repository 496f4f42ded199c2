"""Retrieved passages with the spans of a reader, the selected answer, and the reason for the selection."""

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
from mrc_workbench.labs.reading.pages.evaluation import Weight, format_probability
from mrc_workbench.models.reader import SpanReader
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.workbench.views.resources.sets import cached, content_of, question_set
from mrc_workbench.workbench.views.ui.passages import HitCard, head_html, hits_html
from mrc_workbench.workbench.views.ui.words import plain, word

SPANS = 3  # of each passage
Spans = Sequence[tuple[int, int, float]]  # begin, end and log P, the best first
_reader_lock = threading.Lock()  # a rerun of the page calls the same reader from a second thread
_SCROLL_STYLE = "scroll-margin-top: 5rem"  # below the navigation bar


class PassageReading(NamedTuple):
    """The spans of a passage, and whether the reader returns "no answer" by its threshold."""

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
    """A retrieved passage: its row, the retriever's score, its spans, and its score for the selection of the answer.

    See `labs.reading.extractive.combined_scores`.
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
    """The top K passages of a retriever; `selected_index` is the passage with the answer, -1 without one.

    `weight` is that of the retrieval score in `unit`s. `is_read` is False without a reader, and `has_no_answer` True if
    the reader finds no answer in any passage.
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
        """The index of the first relevant passage, -1 without any."""
        return next((index for index, passage in enumerate(self.passages) if passage.relevant), -1)

    def units_below_best(self, index: int) -> float:
        """Return the distance of a passage's retrieval score from the best, in units."""
        best = max(passage.retrieval_score for passage in self.passages)
        return (best - self.passages[index].retrieval_score) / self.unit


def build_column(
    name: str,
    rows: Sequence[int],
    retrieval_scores: Sequence[float],
    spans: Sequence[Spans],
    *,
    relevant: Collection[int],
    weight: Weight,
    has_no_answer: bool = False,
) -> ReadColumn:
    best = np.array([[candidate_spans[0][2] if candidate_spans else -np.inf for candidate_spans in spans]])
    totals = combined_scores(best, np.array([retrieval_scores], dtype=np.float64), *weight)[0]
    passages = tuple(
        ReadPassage(row, score, passage_spans, total, row in relevant)
        for row, score, passage_spans, total in zip(rows, retrieval_scores, spans, totals.tolist(), strict=True)
    )
    selected_index = int(np.argmax(totals)) if len(totals) and np.isfinite(totals).any() else -1
    return ReadColumn(name, passages, selected_index, *weight, is_read=any(spans), has_no_answer=has_no_answer)


def selected_answer(column: ReadColumn, question_set: QuestionSet, index: int | None = None) -> str:
    """Return the selected span's text, or the best span of another passage; empty without a span."""
    index = column.selected_index if index is None else index
    if index < 0 or not column.passages[index].spans:
        return ""
    start, end, _ = column.passages[index].spans[0]
    return question_set.passages[column.passages[index].row].text[start:end]


@dataclass(frozen=True)
class SpannedText(MarkedText):
    """A passage with the best span marked as a match, and other spans underlined as answers."""

    @property
    def excerpt(self) -> Span:
        return MarkedText(self.text, (), self.matches).excerpt


def mark_spans(text: str, spans: Sequence[Span]) -> SpannedText:
    return SpannedText(text, tuple(spans[:1]), tuple(spans[1:]))


def draw_legend(*, others: bool) -> None:
    """Draw the meaning of the marks; stored evaluations have no `others` than the best span."""
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
            target = f'<span id="{escape(anchor)}-{index + 1}" style="{_SCROLL_STYLE}"></span>' if anchor else ""
            st.html(target + hits_html([hit]))
            if draw_below:
                draw_below(read_passage)


def _notes(column: ReadColumn, index: int, question_set: QuestionSet) -> list[str]:
    passage = column.passages[index]
    if not column.is_read:
        return []
    if not passage.spans or not np.isfinite(passage.best):
        return [word("answers.no_span")]
    answer = selected_answer(column, question_set, index)
    note = word("answers.span_note", answer=answer, p=format_probability(passage.best))
    return [f"★ {word('answers.taken')} · {note}" if index == column.selected_index else note]


def explain_selection(column: ReadColumn, question_set: QuestionSet) -> str:
    """Return why another passage than the relevant one was selected, as Markdown; empty if not so."""
    relevant_index = column.relevant_index
    if column.selected_index < 0:
        return ""
    if relevant_index < 0:
        return word("answers.why_not_found", k=len(column.passages))
    if relevant_index == column.selected_index:
        return ""
    sides = {"selected": column.selected_index, "right": relevant_index}
    values: dict[str, object] = {}
    for side, index in sides.items():
        passage = column.passages[index]
        values |= {
            f"{side}_rank": index + 1,
            f"{side}_answer": plain(selected_answer(column, question_set, index) or "–"),
            f"{side}_score": _format_score(passage.best),
            f"{side}_gap": f"{column.units_below_best(index):.3f}",
            f"{side}_total": _format_score(passage.combined_score),
        }
    kind = "weighted" if column.weight else "by_reader"
    return word(f"answers.why_{kind}", weight=f"{column.weight:g}", **values)


def _format_score(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if np.isfinite(value) and value > -1e8 else "−∞"
