"""The training of a reader on windows of passages with and without answers."""

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
from mrc_workbench.labs.reading.extractive import ContextAnswers, best_threshold, context_rows, read_contexts
from mrc_workbench.labs.reading.scores import EXACT, score_answer
from mrc_workbench.models.reader import SpanReader, SpanTokens, SpanWindow, batch, load_reader, save_options
from mrc_workbench.models.sources import DEFAULT_READER, ModelSource
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import (
    Columns,
    Examples,
    Family,
    MarkedNegatives,
    OnProgress,
    Recipe,
    Task,
    ValidationExamples,
    estimate_seconds,
    finished_model_source,
)
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.recipes.examples import mine_negatives
from mrc_workbench.training.recipes.training_data import (
    QuestionMeasurement,
    QuestionScores,
    RankerFamily,
    TrainingData,
    count_questions,
    require_questions,
    sample_questions,
    summarize,
)
from mrc_workbench.training.text_options import READER, ReaderOptions

if TYPE_CHECKING:
    from mrc_workbench.models.reader_networks import SpanNetwork


F1 = "f1"


class ReaderFamily(RankerFamily):
    """Trainings of readers."""

    measures = {EXACT: "Exact match", F1: "F1"}
    curves = (EXACT, F1)
    tag = "question-answering"
    card_rows = Family.card_rows  # without BM25

    def check(self, data: QuestionSet, options: ReaderOptions) -> None:
        if not any(question.answers and question.relevant for question in data.questions):
            message = f"data must have answers and their passages: {data.name!r} has none"
            raise OptionError("data", "no_answers", message)

    def describe(self, data: QuestionSet, split_options: SplitOptions, options: Any) -> dict[str, Any]:
        unanswerable = sum(map(is_unanswerable, data.questions))
        unanswerable_counts = {"unanswerable_questions": unanswerable} if unanswerable else {}
        rules = {"normalization": options.normalization.value}
        return count_questions(data, split_options) | unanswerable_counts | rules

    def prepare_training_data(self, data: QuestionSet, plan: Any, on_progress: OnProgress | None) -> TrainingData:
        return ReaderTrainingData.from_question_set(data, plan.split, plan.options, plan.marked_negatives)


READER_FAMILY = ReaderFamily()


class ReaderRecipe(Recipe[ReaderOptions, TrainingData]):
    """The training of a reader."""

    kind = READER
    family = READER_FAMILY
    options = ReaderOptions
    base = DEFAULT_READER
    measure = "f1"
    colour = PALETTE[4]

    def evaluate(self, source: ModelSource) -> QuestionMeasurement:
        """Evaluate a reader on questions with their passages; a base without a head gets a random one."""
        return self._evaluate_reader(self._make_reader(source, new_head=True))[0]

    def build_task(self, source: ModelSource) -> Task:
        options = self._options
        data = self._data
        model = load_reader(source, new_head=True)
        resolved_options = adapt(model, options)
        tokens = self._wrap_model(model).tokens
        training_windows = _make_windows(options, data, tokens, negatives=options.negative_question_fraction > 0)
        if len(training_windows.windows) < 2:
            missing = training_windows.counts["missing"]
            raise TrainingError("nothing_to_read", f"{missing:,} answers are missing from their passages")
        validation_windows = _make_windows(options, data.held_out, tokens, negatives=False)
        return Task(
            model=model,
            loss=None,
            columns=training_windows.columns(),
            examples=training_windows.examples(),
            evaluate=lambda trained: self._evaluate_reader(self._wrap_model(trained))[0],
            resolved_options=resolved_options,
            metadata={"answers": training_windows.counts | {"windows": len(training_windows.windows)}},
            held_out=ValidationExamples.create_if_usable(
                validation_windows.columns(),
                validation_windows.examples(),
                features=partial(validation_windows.features, model),
            ),
            features=partial(training_windows.features, model),
        )

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        """Evaluate the model, and store its span options and threshold for no answer in its folder."""
        measurement, threshold = self._evaluate_reader(self._make_reader(finished_model_source(model_folder)))
        save_options(model_folder, self._options.span_options, threshold)
        return {"after": measurement}, {}

    def estimate_evaluation_seconds(self, model: Any) -> float:
        reader = self._wrap_model(model)
        pairs = [
            (question.text, self._data.question_set.passages.texts[row])
            for question_set in (self._data.validation, self._data.sample)
            for question, row in zip(question_set.questions, context_rows(question_set).tolist(), strict=True)
        ]
        return estimate_seconds(reader.read, sorted(pairs, key=lambda pair: len(pair[1])))

    def _evaluate_reader(self, reader: SpanReader) -> tuple[QuestionMeasurement, float | None]:
        """Return the results and the best threshold for no answer on validation questions, or None."""
        question_sets = (self._data.validation, self._data.sample)
        rules = self._options.normalization
        readings = [read_contexts(reader, questions) for questions in question_sets]
        threshold = best_threshold(readings[0], question_sets[0], rules)

        def scored(answers: ContextAnswers, question_set: QuestionSet) -> QuestionScores:
            answer_pairs = zip(answers.predictions(threshold), question_set.questions, strict=True)
            values = np.array([score_answer(answer, question.answers, rules) for answer, question in answer_pairs])
            return QuestionScores((), {EXACT: values[:, 0], F1: values[:, 1]})

        validation, training = map(scored, readings, question_sets)
        return QuestionMeasurement(validation, training), threshold

    def _make_reader(self, source: ModelSource, *, new_head: bool = False) -> SpanReader:
        precision = self._options.precision
        return SpanReader(source, options=self._options.span_options, precision=precision, new_head=new_head)

    def _wrap_model(self, model: Any) -> SpanReader:
        reader = self._make_reader(ModelSource(self._options.base))
        reader.model = model
        return reader


class ReaderTrainingData(TrainingData):
    """Training and validation questions of a reader, including unanswerable ones."""

    @classmethod
    def from_question_set(
        cls, question_set: QuestionSet, split_options: SplitOptions, options: Any, marked: MarkedNegatives = ()
    ) -> Self:
        """Split the set, including unanswerable questions. Raises `TrainingError` if they are too few."""

        def readable(question_set: QuestionSet) -> QuestionSet:
            """Exclude questions with a passage, but no answer."""
            rows = [row for row, question in enumerate(question_set.questions) if question.answers]
            return question_set if len(rows) == len(question_set.questions) else question_set.with_questions(rows)

        all_data = super().from_question_set(question_set, split_options, replace(options, evaluation_limit=0), marked)
        all_data = replace(all_data, train=readable(all_data.train), validation=readable(all_data.validation))
        data = add_unanswerable_questions(all_data)
        require_questions(data.train, data.validation, "questions with answers in passages")
        return replace(data, validation=sample_questions(data.validation, options.evaluation_limit, split_options.seed))

    def baselines(self) -> dict[str, QuestionMeasurement]:
        return {}

    def summarize(self, measured: Mapping[str, QuestionMeasurement], options: Any) -> dict[str, Any]:
        validation = _assign_rejected_passages(self.validation)
        content = summarize(measured, options.best_by, validation, _assign_rejected_passages(self.sample))
        content["normalization"] = options.normalization.value
        if unanswerable := sum(map(is_unanswerable, self.validation.questions)):
            content["unanswerable"] = unanswerable
        return content


M = TypeVar("M", bound=TrainingData)


def add_unanswerable_questions(data: M) -> M:
    """Add the set's unanswerable questions to the training and validation questions.

    Their known wrong passages (SQuAD 2.0, KLUE-MRC) determine the part: validation if validation questions ask about
    all their articles, training if no validation or test question asks about any. Others, and those published for
    another part, are excluded.
    """
    groups = data.article_of_passage
    unanswerable_questions = [question for question in data.question_set.questions if is_unanswerable(question)]
    if groups is None or not unanswerable_questions:
        return data
    is_validation_passage = np.isin(groups, groups[data.validation.relevance.indices])
    rejected_rows = [data.question_set.row_of_passage.rows(question.rejected) for question in unanswerable_questions]

    def added(question_set: QuestionSet, is_allowed: np.ndarray, parts: tuple[Part, ...]) -> QuestionSet:
        added_questions = (
            question
            for question, passage_rows in zip(unanswerable_questions, rejected_rows, strict=True)
            if (passage_rows >= 0).all()
            and is_allowed[passage_rows].all()
            and data.published_as.get(question.part, parts[0]) in parts
        )
        return replace(question_set, questions=(*question_set.questions, *added_questions))

    has_validation = Part.VALIDATION in data.published_as.values()
    evaluation_parts = (Part.VALIDATION,) if has_validation else (Part.VALIDATION, Part.TRAIN)
    train = added(data.train, data.is_trainable, (Part.TRAIN,))
    return replace(data, train=train, validation=added(data.validation, is_validation_passage, evaluation_parts))


def _assign_rejected_passages(question_set: QuestionSet) -> QuestionSet:
    """Group unanswerable questions with the other questions of their passage, for the bootstrap."""
    questions = [q if q.relevant else replace(q, relevant=q.rejected[:1]) for q in question_set.questions]
    return replace(question_set, questions=tuple(questions))


def is_unanswerable(question: Question) -> bool:
    """Whether a question has known wrong passages, but no relevant ones and no answer."""
    return bool(question.rejected) and not question.answers and not question.relevant


Span = tuple[int, int]


@dataclass(frozen=True)
class AnswerLocation:
    """Character spans of an answer in a passage. `is_corrected`: the position in the file was wrong."""

    spans: tuple[Span, ...]
    is_corrected: bool = False


def locate_answer(question: Question, text: str) -> AnswerLocation:
    """Find the answers at the positions in the file, else nearest to them, else wherever they occur."""
    starts = question.starts or (-1,) * len(question.answers)
    positioned_answers = [(answer, start) for answer, start in zip(question.answers, starts, strict=True) if start >= 0]
    exact = [(answer, start) for answer, start in positioned_answers if text.startswith(answer, start)]
    if exact:
        return AnswerLocation(tuple((start, start + len(answer)) for answer, start in exact))
    occurrences = [(_find_all(text, answer), start) for answer, start in positioned_answers]
    nearest_spans = [min(spans, key=lambda span: abs(span[0] - start)) for spans, start in occurrences if spans]
    if nearest_spans:
        return AnswerLocation(tuple(nearest_spans), is_corrected=True)
    if unicodedata.is_normalized("NFC", text):
        return AnswerLocation(tuple(answer_spans(text, question.answers)), is_corrected=bool(positioned_answers))
    answer_forms = ((answer, unicodedata.normalize("NFD", answer)) for answer in question.answers)
    all_spans = tuple(span for forms in answer_forms for form in dict.fromkeys(forms) for span in _find_all(text, form))
    return AnswerLocation(all_spans, is_corrected=bool(positioned_answers))


def _find_all(text: str, answer: str) -> list[Span]:
    matches = re.finditer(f"(?={re.escape(answer)})", text) if answer else ()
    return [(match.start(), match.start() + len(answer)) for match in matches]


_NO_ANSWER = (0,)  # the token that stands for no answer


@dataclass
class ReaderWindows:
    """Windows, the start and end tokens of their answers, `(0,)` without any, and counts for the provenance."""

    tokens: SpanTokens
    windows: list[SpanWindow] = field(default_factory=list)
    starts: list[Sequence[int]] = field(default_factory=list)
    ends: list[Sequence[int]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("answers", "corrected", "missing", "without_answer"), 0)
    )

    def add_answered(self, question: Question, text: str) -> None:
        answer = locate_answer(question, text)
        self.counts["answers"] += 1
        self.counts["corrected"] += answer.is_corrected and bool(answer.spans)
        self.counts["missing"] += not answer.spans
        if answer.spans:
            for window in self.tokens.windows(question.text, text):
                self._add_window(question.text, text, window, answer.spans)

    def add_rejected(self, question: Question, text: str, rng: np.random.Generator) -> None:
        windows = list(self.tokens.windows(question.text, text))
        self._add_window(question.text, text, windows[int(rng.integers(len(windows)))], ())

    def columns(self) -> Columns:
        questions, passages = zip(*self.texts, strict=True) if self.texts else ((), ())
        return {"question": list(questions), "passage": list(passages)}

    def examples(self) -> Examples:
        return Examples.independent(np.array([window.width for window in self.windows], dtype=float))

    def features(self, model: "SpanNetwork", rows: Sequence[int]) -> dict[str, Any]:
        """Return a batch of tokens, and the start and end tokens as masks, `(n_rows, width)` bool."""
        import torch

        pad = model.tokenizer.pad_token_id or 0
        arrays = batch([self.windows[row] for row in rows], pad, segments=model.has_segments)
        for name, positions in (("starts", self.starts), ("ends", self.ends)):
            marks = np.zeros(arrays["allowed"].shape, dtype=bool)
            for array_row, row in enumerate(rows):
                marks[array_row, list(positions[row])] = True
            arrays[name] = marks
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def _add_window(self, question: str, text: str, window: SpanWindow, spans: Sequence[Span]) -> None:
        characters = self.tokens.tokens_of(text).offsets[window.first : window.last]
        token_spans = [positions for span in spans if (positions := _token_positions(span, characters, window))]
        begins, finishes = zip(*token_spans, strict=True) if token_spans else (_NO_ANSWER, _NO_ANSWER)
        self.windows.append(window)
        self.starts.append(begins)
        self.ends.append(finishes)
        self.texts.append((question, text[int(characters[0, 0]) : int(characters[-1, 1])] if len(characters) else ""))
        self.counts["without_answer"] += not token_spans


def _token_positions(span: Span, characters: np.ndarray, window: SpanWindow) -> tuple[int, int] | None:
    """Return the positions of the first and last token of a span; None if the span is not inside the window."""
    overlapping = np.flatnonzero((characters[:, 0] < span[1]) & (characters[:, 1] > span[0]))
    if not len(overlapping) or span[0] < characters[0, 0] or span[1] > characters[-1, 1]:
        return None
    return window.start + int(overlapping[0]), window.start + int(overlapping[-1])


def _make_windows(options: ReaderOptions, data: TrainingData, tokens: SpanTokens, *, negatives: bool) -> ReaderWindows:
    windows = ReaderWindows(tokens)
    texts = data.texts
    row_of = data.question_set.row_of_passage
    rng = np.random.default_rng(options.seed)
    mined_rows = mine_negatives(options, data).rows if negatives else None
    for number, question in enumerate(data.train.questions):
        for position, row in enumerate(row_of.rows(question.relevant).tolist()):
            # answer positions refer to the first passage, without its title
            starts = [start + int(data.title_lengths[row]) if start >= 0 else start for start in question.starts]
            located_question = replace(question, starts=tuple(starts) if position == 0 else ())
            windows.add_answered(located_question, texts[row])
        for row in row_of.rows(question.rejected).tolist():
            if row >= 0 and data.is_trainable[row]:
                windows.add_rejected(question, texts[row], rng)
        if mined_rows is not None and rng.random() < options.negative_question_fraction:
            for row in mined_rows[number][mined_rows[number] != NOT_FOUND].tolist():
                windows.add_rejected(question, texts[row], rng)
    return windows
