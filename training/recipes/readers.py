"""How a reader is trained: what it learns from, windows of passages with and without answers, and its recipe.

It points at the answer in a passage, or at none.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.text.marking import answer_spans
from mrc_workbench.labs.reading.extractive import ReadPassages, best_threshold, own_passages, read_own_passages
from mrc_workbench.labs.reading.scores import EXACT, judged
from mrc_workbench.models.reader import SpanReader, SpanTokens, SpanWindow, batch, keep_options, load_reader
from mrc_workbench.models.sources import DEFAULT_READER, ModelSource
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import (
    Columns,
    Examples,
    Family,
    HeldOut,
    Marks,
    OnProgress,
    Recipe,
    Task,
    finished,
    seconds_for,
)
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.recipes.examples import mine
from mrc_workbench.training.recipes.material import (
    Material,
    QuestionMeasurement,
    QuestionScores,
    Rankers,
    counts,
    some_of,
    summary,
)
from mrc_workbench.training.text_options import READER, ReaderOptions

if TYPE_CHECKING:
    from mrc_workbench.models.reader_networks import SpanNetwork


OVERLAP = "f1"  # by any rules


class Readers(Rankers):
    """Trainings of readers."""

    measures = {EXACT: "Exact match", OVERLAP: "F1"}
    curves = (EXACT, OVERLAP)
    tag = "question-answering"
    rows = Family.rows  # BM25 reads nothing

    def check(self, data: QuestionSet, options: ReaderOptions) -> None:
        if not any(question.answers and question.relevant for question in data.questions):
            message = f"data must hold answers and the passages they stand in: {data.name!r} holds none"
            raise OptionError("data", "no_answers", message)

    def about(self, data: QuestionSet, shares: SplitOptions, options: Any) -> dict[str, Any]:
        unanswerable = sum(map(is_unanswerable, data.questions))
        more = {"unanswerable_questions": unanswerable} if unanswerable else {}
        return {**counts(data, shares), **more, "rules": options.rules.value}

    def material(self, data: QuestionSet, plan: Any, tell: OnProgress | None = None) -> Material:
        return ReaderMaterial.of(data, plan.split, plan.options, plan.marked_negatives)


READERS = Readers()


class ReaderRecipe(Recipe[ReaderOptions, Material]):
    """How a reader is trained."""

    kind = READER
    family = READERS
    options = ReaderOptions
    base = DEFAULT_READER
    measure = "f1"
    colour = PALETTE[4]

    def measured(self, source: ModelSource) -> QuestionMeasurement:
        """Measure a reader on the questions that judge it, each with its passage; a base with the head drawn for it."""
        return self._answered(self._reader(source, new_head=True))[0]

    def task(self, source: ModelSource) -> Task:
        options, material = self._options, self._material
        model = load_reader(source, new_head=True)
        settled = adapt(model, options)
        tokens = self._live(model).tokens
        shown = _windows(options, material, tokens, negatives=options.negatives_share > 0)
        if len(shown.windows) < 2:
            message = f"{shown.counts['lost']:,} answers do not stand in their passages, and nothing else is to be read"
            raise TrainingError("nothing_to_read", message)
        held_out = _windows(options, material.held_out, tokens, negatives=False)
        return Task(
            model=model,
            loss=None,
            columns=shown.columns(),
            examples=shown.examples(),
            measure=lambda trained: self._answered(self._live(trained))[0],
            settled=settled,
            metadata={"answers": shown.counts | {"windows": len(shown.windows)}},
            held_out=HeldOut.of(held_out.columns(), held_out.examples(), features=partial(held_out.features, model)),
            features=partial(shown.features, model),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        """Measure the model, and keep beside it how it reads and when it says that there is no answer."""
        reached, threshold = self._answered(self._reader(finished(model_folder)))
        keep_options(model_folder, self._options.span_options, threshold)
        return {"after": reached}, {}

    def seconds_to_measure(self, model: Any) -> float:
        reader, passages = self._live(model), self._material.question_set.passages.texts
        pairs = [
            (question.text, passages[row])
            for asked in (self._material.validation, self._material.sample)
            for question, row in zip(asked.questions, own_passages(asked).tolist(), strict=True)
        ]
        return seconds_for(reader.read, sorted(pairs, key=lambda pair: len(pair[1])))

    def _answered(self, reader: SpanReader) -> tuple[QuestionMeasurement, float | None]:
        """Return the results and the threshold for no answer that is the best on validation questions, or None."""
        both, rules = (self._material.validation, self._material.sample), self._options.rules
        read = [read_own_passages(reader, asked) for asked in both]
        threshold = best_threshold(read[0], both[0], rules)

        def scored(answers: ReadPassages, question_set: QuestionSet) -> QuestionScores:
            answered = zip(answers.said(threshold), question_set.questions, strict=True)
            values = np.array([judged(answer, question.answers, rules) for answer, question in answered])
            return QuestionScores((), {EXACT: values[:, 0], OVERLAP: values[:, 1]})

        validation, training = map(scored, read, both)
        return QuestionMeasurement(validation, training), threshold

    def _reader(self, source: ModelSource, *, new_head: bool = False) -> SpanReader:
        options, precision = self._options.span_options, self._options.precision
        return SpanReader(source, options=options, precision=precision, new_head=new_head)

    def _live(self, model: Any) -> SpanReader:
        reader = self._reader(ModelSource(self._options.base))
        reader.model = model
        return reader


class ReaderMaterial(Material):
    """The questions that a reader learns from and is measured on, those without an answer among them."""

    @classmethod
    def of(cls, question_set: QuestionSet, shares: SplitOptions, options: Any, marked: Marks = ()) -> Self:
        """Split the set as planned, its unanswerable questions with it. Raises `TrainingError` if they are too few."""

        def readable(question_set: QuestionSet) -> QuestionSet:
            """Without questions that name a passage and no answer: what is not said cannot be pointed at."""
            rows = [row for row, question in enumerate(question_set.questions) if question.answers]
            return question_set if len(rows) == len(question_set.questions) else question_set.with_questions(rows)

        whole = super().of(question_set, shares, replace(options, evaluation_limit=0), marked)
        whole = replace(whole, train=readable(whole.train), validation=readable(whole.validation))
        material = with_unanswerable(whole)
        train, validation = material.train, material.validation
        if len(train.questions) < 2 or not validation.questions:
            raise TrainingError(
                "too_few",
                f"{len(train.questions)} training and {len(validation.questions)} validation questions that can be "
                "read are too few: use more articles, or change the split",
            )
        return replace(material, validation=some_of(validation, options.evaluation_limit, shares.seed))

    def baselines(self) -> dict[str, QuestionMeasurement]:
        return {}  # BM25 reads nothing

    def summary(self, measured: Mapping[str, QuestionMeasurement], options: Any) -> dict[str, Any]:
        figures = summary(measured, options.best_by, _by_passage(self.validation), _by_passage(self.sample))
        unanswerable = sum(map(is_unanswerable, self.validation.questions))
        return figures | {"rules": options.rules.value} | ({"unanswerable": unanswerable} if unanswerable else {})


M = TypeVar("M", bound=Material)


def with_unanswerable(material: M) -> M:
    """Add the set's unanswerable questions after those to learn from and to measure on.

    Their known wrong passages (SQuAD 2.0, KLUE-MRC) decide: they are measured if validation questions ask about all
    their articles, and learned from if no validation or test question asks about any. Others are left out, and so are
    those published for another part.
    """
    groups = material.article_of_passage
    if groups is None or not (unanswerable := [one for one in material.question_set.questions if is_unanswerable(one)]):
        return material
    judging = np.isin(groups, groups[material.validation.relevance.indices])
    rows = [material.question_set.row_of_passage.rows(question.rejected) for question in unanswerable]

    def added(own: QuestionSet, allowed: np.ndarray, parts: tuple[Part, ...]) -> QuestionSet:
        more = (
            question
            for question, read in zip(unanswerable, rows, strict=True)
            if (read >= 0).all() and allowed[read].all() and material.published_as.get(question.part, parts[0]) in parts
        )
        return replace(own, questions=(*own.questions, *more))

    has_validation = Part.VALIDATION in material.published_as.values()
    judging_parts = (Part.VALIDATION,) if has_validation else (Part.VALIDATION, Part.TRAIN)
    return replace(
        material,
        train=added(material.train, material.learnable, (Part.TRAIN,)),
        validation=added(material.validation, judging, judging_parts),
    )


def _by_passage(question_set: QuestionSet) -> QuestionSet:
    """The questions as they are drawn together: those about one passage stand or fall with those it does not answer."""
    questions = (one if one.relevant else replace(one, relevant=one.rejected[:1]) for one in question_set.questions)
    return replace(question_set, questions=tuple(questions))


def is_unanswerable(question: Question) -> bool:
    """Whether a passage is known that does not answer it, and none that does."""
    return bool(question.rejected) and not question.answers and not question.relevant


Span = tuple[int, int]


@dataclass(frozen=True)
class Located:
    """Characters of a passage that answer, several if the same words occur more than once.

    `mended`: the file named another position, where the answer does not stand.
    """

    spans: tuple[Span, ...]
    mended: bool = False


def located(question: Question, text: str) -> Located:
    """Find the answers: at the positions in the file, else nearest to these, else all that `answer_spans` finds."""
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
    if unicodedata.is_normalized("NFC", text):
        return Located(tuple(answer_spans(text, question.answers)), mended=bool(claimed))
    both = ((answer, unicodedata.normalize("NFD", answer)) for answer in question.answers)
    every = tuple(span for forms in both for form in dict.fromkeys(forms) for span in _all(text, form))
    return Located(every, mended=bool(claimed))


def _all(text: str, answer: str) -> list[Span]:
    matches = re.finditer(f"(?={re.escape(answer)})", text) if answer else ()
    return [(match.start(), match.start() + len(answer)) for match in matches]


_NOTHING = (0,)  # the place that stands for no answer


@dataclass
class WindowsToRead:
    """Windows, the tokens where answers begin and end, `(0,)` without an answer, and counts.

    `counts`: `answers` looked for, `mended` ones at another position than in the file, `lost` ones that do not occur,
    and windows `without_answer`.
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
        answer = located(question, text)
        self.counts["answers"] += 1
        self.counts["mended"] += answer.mended and bool(answer.spans)
        self.counts["lost"] += not answer.spans
        if answer.spans:
            for window in self.tokens.windows(question.text, text):
                self._add(question.text, text, window, answer.spans)

    def add_rejected(self, question: Question, text: str, rng: np.random.Generator) -> None:
        windows = list(self.tokens.windows(question.text, text))
        self._add(question.text, text, windows[int(rng.integers(len(windows)))], ())

    def columns(self) -> Columns:
        questions, passages = zip(*self.texts, strict=True) if self.texts else ((), ())
        return {"question": list(questions), "passage": list(passages)}

    def examples(self) -> Examples:
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


def _windows(options: ReaderOptions, material: Material, tokens: SpanTokens, *, negatives: bool) -> WindowsToRead:
    windows, texts = WindowsToRead(tokens), material.texts
    row_of, rng = material.question_set.row_of_passage, np.random.default_rng(options.seed)
    mined = mine(options, material).rows if negatives else None
    for number, question in enumerate(material.train.questions):
        for place, row in enumerate(row_of.rows(question.relevant).tolist()):
            # answer positions are of the first passage, without its title
            starts = [start + int(material.heads[row]) if start >= 0 else start for start in question.starts]
            shown = replace(question, starts=tuple(starts) if place == 0 else ())
            windows.add_answered(shown, texts[row])
        for row in row_of.rows(question.rejected).tolist():
            if row >= 0 and material.learnable[row]:
                windows.add_rejected(question, texts[row], rng)
        if mined is not None and rng.random() < options.negatives_share:
            for row in mined[number][mined[number] != NOT_FOUND].tolist():
                windows.add_rejected(question, texts[row], rng)
    return windows
