"""Which part of a passage a training shows: all of it or, of one that the model does not read whole, one window.

Cut off, a passage would teach by its beginning, which need not hold the answer. Shown is the window that holds the
question's answer, where answers are known and the passage is the question's. Of several that do, of a passage where
none does, and of negatives, it is the window that fits the question best by BM25's terms: a negative's first window is
easily told apart, its nearest one is what searching will have to.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from data.records import Question
from models.windows import Window
from retrieval.lexical.weights import TermStatistics, term_statistics
from retrieval.rankings import NOT_FOUND
from text.analysis import analyze
from text.marking import answer_spans
from text.matching import Span
from training.engine.task import Columns, Examples
from training.rankers.material import Material

Cut = Callable[[str, int], list[Window]]  # windows of the passage in a row, beside a question; none where it fits


class ShownPassages:
    """Texts of passages as a training shows them beside training questions.

    `cut` tells the windows of a passage; without it every text is shown as it is, and the model cuts off what it does
    not read.
    """

    def __init__(self, material: Material, cut: Cut | None = None) -> None:
        self._material, self._cut = material, cut
        self._fit = WindowFit(material)
        self._long: set[int] = set()

    def columns(self, columns: Columns, examples: Examples) -> Columns:
        """Return what a loss reads of examples, with their passages as they are shown: a text or a list in a column."""
        if not self._cut:
            return columns
        shown, column = dict(columns), 0
        for name, values in list(columns.items())[1:]:  # the first holds the questions
            if isinstance(values[0], str):
                shown[name] = self.texts(examples.question, examples.passages[:, column])
                column += 1
            elif isinstance(values[0], list) and isinstance(values[0][0], str):
                there = examples.passages != NOT_FOUND
                counts = there.sum(axis=1)
                texts = iter(self.texts(np.repeat(examples.question, counts), examples.passages[there]))
                shown[name] = [list(islice(texts, count)) for count in counts.tolist()]
        return shown

    def texts(self, questions: np.ndarray, rows: np.ndarray) -> list[str]:
        """Return what is shown of passages beside questions of the training, both as rows `(n,)`."""
        texts = [self._material.texts[row] for row in rows.tolist()]
        asked = [self._material.train.questions[row] for row in questions.tolist()]
        long = {place: windows for place, windows in self._windows(asked, rows) if windows}
        self._long |= {int(rows[place]) for place in long}
        candidates = {
            place: self._with_answer(asked[place], int(rows[place]), windows) or windows
            for place, windows in long.items()
        }
        told = {place: [window.text(texts[place]) for window in windows] for place, windows in candidates.items()}
        self._fit.read([asked[place].text for place in told], [text for parts in told.values() for text in parts])
        for place, parts in told.items():
            texts[place] = self._fit.best(asked[place].text, parts)
        return texts

    @property
    def told(self) -> dict[str, Any]:
        """What the training's provenance says of it; empty where every passage was shown whole."""
        return {"windows": {"passages": len(self._long)}} if self._long else {}

    def _windows(self, asked: Sequence[Question], rows: np.ndarray) -> Iterator[tuple[int, list[Window]]]:
        if self._cut:
            for place, (question, row) in enumerate(zip(asked, rows.tolist(), strict=True)):
                yield place, self._cut(question.text, row)

    def _with_answer(self, question: Question, row: int, windows: Sequence[Window]) -> list[Window]:
        """The windows that hold an answer whole; none of a passage that is not the question's."""
        passages = self._material.question_set.passages
        if passages.ids[row] not in question.relevant:
            return []
        text, start = self._material.texts[row], len(self._material.texts[row]) - len(passages.texts[row])
        answers = answer_spans(_composed(text[start:]), question.answers)
        held = [_composed_span(text, start, window) for window in windows]
        return [
            window
            for window, (first, last) in zip(windows, held, strict=True)
            if any(first <= answer[0] and answer[1] <= last for answer in answers)
        ]


class WindowFit:
    """How well windows fit questions by the terms of BM25, as the first stage counts them.

    `score = sum over question terms of idf * f / (f + k1)`, with the idf of the term among whole passages: windows of a
    passage are of one length, so that length holds none back.
    """

    def __init__(self, material: Material) -> None:
        self._material = material
        self._counts: dict[str, Counter[str]] = {}
        self._idf: dict[str, float] = {}

    def read(self, questions: Sequence[str], windows: Sequence[str]) -> None:
        """Analyze what will be scored."""
        new = list(dict.fromkeys(text for text in (*questions, *windows) if text not in self._counts))
        if not new:
            return
        analysis = self._material.first_stage.analysis
        self._counts |= zip(new, map(Counter, analyze(analysis, new)), strict=True)
        terms = list({term for text in questions for term in self._counts[text]} - self._idf.keys())
        known = self._statistics
        places = known.places_of(terms)
        held = np.where(places >= 0, known.holders[places], 0)
        self._idf |= zip(terms, np.log1p((known.n_passages - held + 0.5) / (held + 0.5)).tolist(), strict=True)

    @cached_property
    def _statistics(self) -> TermStatistics:
        return term_statistics(self._material.first_stage.analysis, self._material.texts)

    def best(self, question: str, windows: Sequence[str]) -> str:
        """The window that fits best, of equals the first. All were `read`."""
        return max(windows, key=lambda window: self._score(question, window))

    def _score(self, question: str, window: str) -> float:
        counts, k1 = self._counts[window], self._material.first_stage.options.k1
        asked = self._counts[question].items()
        return sum(n * self._idf[term] * counts[term] / (counts[term] + k1) for term, n in asked if counts[term])


def _composed_span(text: str, start: int, window: Window) -> Span:
    """Letters of a window among those of the composed text that begins at `start`."""
    first, last = (len(_composed(text[start : max(start, place)])) for place in window[1:])
    return first, last


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
