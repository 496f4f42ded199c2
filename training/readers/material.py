"""What a reader learns from: windows of passages with and without answers."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from data.records import Question, QuestionSet
from data.split import SplitOptions
from models.reader import SpanTokens, SpanWindow, batch
from text.marking import answer_spans
from training.engine.task import Columns, Examples
from training.options.common import TrainingError
from training.options.questions import ReaderOptions
from training.rankers.material import Marks, Material, some_of

if TYPE_CHECKING:
    from models.reader_networks import SpanNetwork

Span = tuple[int, int]


@dataclass(frozen=True)
class Located:
    """Letters of a passage that answer, several where nobody says which of the same words is meant.

    `mended`: the file named another place, where the answer does not stand.
    """

    spans: tuple[Span, ...]
    mended: bool = False


def located(question: Question, text: str) -> Located:
    """Find the answers of a question in a passage.

    Where the file says at which letter an answer begins and it does, that is it. Where it does not, the same words
    nearest to that letter are; and where nothing is said, all of them that may be meant (`text.marking.answer_spans`).
    """
    starts = question.starts or (-1,) * len(question.answers)
    claimed = [(answer, start) for answer, start in zip(question.answers, starts, strict=True) if start >= 0]
    exact = tuple((start, start + len(answer)) for answer, start in claimed if text.startswith(answer, start))
    if exact:
        return Located(exact)
    near = [
        min(found, key=lambda span: abs(span[0] - start)) for answer, start in claimed if (found := _all(text, answer))
    ]
    if near:
        return Located(tuple(near), mended=True)
    return Located(_anywhere(question, text), mended=bool(claimed))


def _all(text: str, answer: str) -> list[Span]:
    """Every place where it stands, those that overlap, too."""
    found = re.finditer(f"(?={re.escape(answer)})", text) if answer else ()
    return [(match.start(), match.start() + len(answer)) for match in found]


def _anywhere(question: Question, text: str) -> tuple[Span, ...]:
    if unicodedata.is_normalized("NFC", text):
        return tuple(answer_spans(text, question.answers))
    both = ((answer, unicodedata.normalize("NFD", answer)) for answer in question.answers)
    return tuple(span for forms in both for form in dict.fromkeys(forms) for span in _all(text, form))


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
        return Examples.apart(np.array([window.width for window in self.windows], dtype=float))

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


def reader_material(
    question_set: QuestionSet, shares: SplitOptions, options: ReaderOptions, marked: Marks = ()
) -> Material:
    """Split the set as planned, its unanswerable questions with it; at most so many as asked for judge.

    Raises `TrainingError` where there is nothing to learn from or to measure on.
    """
    whole = Material.of(question_set, shares, replace(options, evaluation_limit=0), marked)
    material = with_unanswerable(_of_answers(whole))
    train, validation = material.train, material.validation
    if len(train.questions) < 2 or not validation.questions:
        raise TrainingError(
            "too_few",
            f"{len(train.questions)} training and {len(validation.questions)} validation questions that can be read "
            "are too few: use more articles, or change the split",
        )
    return replace(material, validation=some_of(validation, options.evaluation_limit, shares.seed))


def with_unanswerable(material: Material) -> Material:
    """Add, after the questions to learn from and to measure on, those of the set that nobody can answer.

    They are told by the passages that do not answer them (SQuAD 2.0, KLUE-MRC). These follow their articles: to measure
    on where validation questions ask about all of them, to learn from where validation and test questions ask about
    none. A question whose passages lie on both sides is left out.
    """
    groups = material.article_of_passage
    if groups is None or not (asked := [one for one in material.question_set.questions if is_unanswerable(one)]):
        return material
    judging = np.isin(groups, groups[material.validation.relevance.indices])
    rows = [material.question_set.row_of_passage.rows(question.rejected) for question in asked]

    def added(own: QuestionSet, allowed: np.ndarray) -> QuestionSet:
        more = (one for one, read in zip(asked, rows, strict=True) if (read >= 0).all() and allowed[read].all())
        return replace(own, questions=(*own.questions, *more))

    return replace(
        material, train=added(material.train, material.learnable), validation=added(material.validation, judging)
    )


def is_unanswerable(question: Question) -> bool:
    """Whether a passage is known that does not answer it, and none that does."""
    return bool(question.rejected) and not question.answers and not question.relevant


def rejected_rows(question: Question, material: Material) -> list[int]:
    """Rows of the passages told not to answer a question, those that may be learned from."""
    rows = material.question_set.row_of_passage.rows(question.rejected)
    return [row for row in rows.tolist() if row >= 0 and material.learnable[row]]


def _of_answers(material: Material) -> Material:
    """Without questions that name a passage and no answer: what is not said cannot be pointed at."""

    def kept(question_set: QuestionSet) -> QuestionSet:
        rows = [row for row, question in enumerate(question_set.questions) if question.answers]
        return question_set if len(rows) == len(question_set.questions) else question_set.with_questions(rows)

    return replace(material, train=kept(material.train), validation=kept(material.validation))
