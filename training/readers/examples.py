"""What a reader learns from: windows of passages beside questions, with the places where an answer begins and ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from data.records import Question
from models.readers.reader import SpanTokens, SpanWindow, batch
from training.engine.task import Columns, Examples
from training.readers.answers import Span, located

if TYPE_CHECKING:
    from models.readers.span_network import SpanNetwork

_NOTHING = (0,)  # the place that stands for no answer


@dataclass
class WindowsToRead:
    """Windows, the places `begins` and `finishes` of each that answer, `(0,)` where none does, and what was met.

    `counts`: `answers` that were looked for in their passage, those `mended`, whose place in the file was another, and
    those `lost`, which do not stand there; `without_answer`, the windows that hold none.
    """

    tokens: SpanTokens
    windows: list[SpanWindow] = field(default_factory=list)
    begins: list[Sequence[int]] = field(default_factory=list)
    finishes: list[Sequence[int]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("answers", "mended", "lost", "without_answer"), 0)
    )

    def add_answered(self, question: Question, text: str) -> None:
        """Add the windows of a passage that answers; none where its answer is lost."""
        found = located(question, text)
        self.counts["answers"] += 1
        self.counts["mended"] += found.mended and bool(found.spans)
        self.counts["lost"] += not found.spans
        if found.spans:
            for window in self.tokens.windows(question.text, text):
                self._add(question.text, text, window, found.spans)

    def add_rejected(self, question: Question, text: str, rng: np.random.Generator) -> None:
        """Add one window, by chance, of a passage that does not answer."""
        windows = list(self.tokens.windows(question.text, text))
        self._add(question.text, text, windows[int(rng.integers(len(windows)))], ())

    def columns(self) -> Columns:
        """Questions and what is read beside them, for who wants to know how long they are."""
        questions, passages = zip(*self.texts, strict=True) if self.texts else ((), ())
        return {"question": list(questions), "passage": list(passages)}

    def examples(self) -> Examples:
        """As batches are made of them: any may stand together, those of like length do."""
        rows = np.arange(len(self.windows))
        itself = csr_array((np.ones(len(rows), dtype=np.int32), (rows, rows)), shape=(len(rows), len(rows)))
        lengths = np.array([window.width for window in self.windows], dtype=float)
        return Examples(rows, rows[:, None].astype(np.int32), itself, lengths, in_batch=False)

    def features(self, model: "SpanNetwork", rows: Sequence[int]) -> dict[str, Any]:
        """What the model reads of some of them: a batch of tokens, and the places as marks, `(n_rows, width)` bool."""
        import torch

        pad = model.tokenizer.pad_token_id or 0
        made = batch([self.windows[row] for row in rows], pad, segments=model.has_segments)
        for name, places in (("begins", self.begins), ("finishes", self.finishes)):
            marks = np.zeros(made["allowed"].shape, dtype=bool)
            for line, row in enumerate(rows):
                marks[line, list(places[row])] = True
            made[name] = marks
        return {name: torch.from_numpy(values) for name, values in made.items()}

    def _add(self, question: str, text: str, window: SpanWindow, spans: Sequence[Span]) -> None:
        letters = self.tokens.of(text).letters[window.first : window.last]
        inside = [places for span in spans if (places := _places_of(span, letters, window))]
        begins, finishes = zip(*inside, strict=True) if inside else (_NOTHING, _NOTHING)
        self.windows.append(window)
        self.begins.append(begins)
        self.finishes.append(finishes)
        self.texts.append((question, text[int(letters[0, 0]) : int(letters[-1, 1])] if len(letters) else ""))
        self.counts["without_answer"] += not inside


def _places_of(span: Span, letters: np.ndarray, window: SpanWindow) -> tuple[int, int] | None:
    """The places of the tokens with the first and the last letter of a span; None where one lies outside."""
    touched = np.flatnonzero((letters[:, 0] < span[1]) & (letters[:, 1] > span[0]))
    if not len(touched) or span[0] < letters[0, 0] or span[1] > letters[-1, 1]:
        return None
    return window.start + int(touched[0]), window.start + int(touched[-1])
