"""The recipe of a reader: it points at the answer in a passage, or at none."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from data.records import Question, QuestionSet
from data.split import Part, SplitOptions, split
from models.reader import SpanReader, SpanTokens, keep_options, load_reader
from models.sources import DEFAULT_READER, ModelSource
from reading.extractive import ReadPassages, best_threshold, own_passages, read_own_passages
from reading.rules import judged
from reading.scores import EXACT
from retrieval.evaluation.measures import Scores
from retrieval.rankings import NOT_FOUND
from retrieval.report.drawing import PALETTE
from training.base import Family, Recipe, finished
from training.engine.adaptation import adapt
from training.engine.task import HeldOut, Task, seconds_for
from training.options.common import OptionError, TrainingError
from training.options.questions import READER, ReaderOptions
from training.rankers.examples import mine
from training.rankers.material import Marks, Material, Rankers, Reached, summary
from training.readers.material import WindowsToRead, is_unanswerable, reader_material, rejected_rows

OVERLAP = "f1"  # whatever the rules call it: one name for what a training is told by


def by_passage(question_set: QuestionSet) -> QuestionSet:
    """The questions as they are drawn together: those about one passage stand or fall with those it does not answer."""
    asked = (one if one.relevant else replace(one, relevant=one.rejected[:1]) for one in question_set.questions)
    return replace(question_set, questions=tuple(asked))


class Readers(Rankers):
    """Trainings of readers; see `training.base.Family`."""

    measures = {EXACT: "Exact match", OVERLAP: "F1"}
    curves = (EXACT, OVERLAP)
    tag = "question-answering"

    def check(self, data: QuestionSet, options: ReaderOptions) -> None:
        del options
        if not any(question.answers and question.relevant for question in data.questions):
            message = f"data must hold answers and the passages they stand in: {data.name!r} holds none"
            raise OptionError("data", "no_answers", message)

    def about(self, data: QuestionSet, shares: SplitOptions, options: Any) -> dict[str, Any]:
        rows = split(data, shares).rows
        parts = {f"{part.value}_questions": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
        unanswerable = sum(map(is_unanswerable, data.questions))
        more = {"unanswerable_questions": unanswerable} if unanswerable else {}
        told = {"questions": len(data.questions), "passages": len(data.passages), **parts, **more}
        return told | {"rules": options.rules.value}

    def material(
        self,
        data: QuestionSet,
        shares: SplitOptions,
        options: Any,
        marked: Marks = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> Material:
        del on_progress
        self.check(data, options)
        return reader_material(data, shares, options, marked)

    def baselines(self, material: Material) -> dict[str, Reached]:
        del material
        return {}

    def summary(self, measured: Mapping[str, Reached], material: Material, options: Any) -> dict[str, Any]:
        found = summary(measured, options.best_by, by_passage(material.validation), by_passage(material.sample))
        unanswerable = sum(map(is_unanswerable, material.validation.questions))
        return found | {"rules": options.rules.value} | ({"unanswerable": unanswerable} if unanswerable else {})

    def rows(self, options: Any, scores: Mapping[str, Any]) -> dict[str, str]:
        """The base and the model: BM25 reads nothing."""
        return Family.rows(self, options, scores)

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        yield (
            f"In percent, on {scores.get('questions', 0):,} validation questions that it was not trained on, each with "
            f"the passage it was asked of, by the rules of {scores.get('rules', '')}; they also chose the checkpoint. "
            "In brackets: 95% bootstrap intervals."
        )
        if met := made.get("answers"):
            yield (
                f"Of {met['answers']:,} passages with answers, {met['mended']:,} had theirs at another place than the "
                f"file said, which was mended, and {met['lost']:,} nowhere. It was shown {met['windows']:,} windows, "
                f"{met['without_answer']:,} of them without an answer."
            )


READERS = Readers()


class ReaderRecipe(Recipe[ReaderOptions, Material]):
    """How a reader is trained; see `training.base.Recipe`."""

    kind = READER
    family = READERS
    options = ReaderOptions
    base = DEFAULT_READER
    measure = "f1"
    colour = PALETTE[4]
    does = "A reader: it is given a question and a passage, and points at the answer or says that there is none."
    hub_task = "question-answering"
    loading = (
        "from models.reader import SpanReader\nfrom models.sources import find_model",
        'SpanReader(find_model("{folder}"))',
    )
    usage = """spans = model.read([("a question", "a passage with its answer")])
print(spans.starts[0, 0], spans.ends[0, 0], spans.scores[0, 0])  # letters of the passage, and log P: higher is better
# plain transformers loads it, too: AutoModelForQuestionAnswering.from_pretrained(...)"""

    def measured(self, source: ModelSource) -> Reached:
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
            *(model, None, shown.columns(), shown.examples(), lambda trained: self._answered(self._live(trained))[0]),
            settled=settled,
            told={"answers": shown.counts | {"windows": len(shown.windows)}},
            held_out=HeldOut.of(held_out.columns(), held_out.examples(), features=partial(held_out.features, model)),
            features=partial(shown.features, model),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
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

    def _answered(self, reader: SpanReader) -> tuple[Reached, float | None]:
        """How right a reader is on both sets of questions, and its threshold of saying that there is no answer.

        The threshold is the best one on the validation questions; None where all of them have an answer.
        """
        both, rules = (self._material.validation, self._material.sample), self._options.rules
        read = [read_own_passages(reader, asked) for asked in both]
        threshold = best_threshold(read[0], both[0], rules)

        def scored(answers: ReadPassages, asked: QuestionSet) -> Scores:
            said = zip(answers.said(threshold), asked.questions, strict=True)
            values = np.array([judged(answer, question.answers, rules) for answer, question in said])
            return Scores((), {EXACT: values[:, 0], OVERLAP: values[:, 1]})

        return Reached(*map(scored, read, both)), threshold

    def _reader(self, source: ModelSource, *, new_head: bool = False) -> SpanReader:
        options, precision = self._options.span_options, self._options.precision
        return SpanReader(source, options=options, precision=precision, new_head=new_head)

    def _live(self, model: Any) -> SpanReader:
        reader = self._reader(ModelSource(self._options.base))
        reader.model = model
        return reader


def _windows(options: ReaderOptions, material: Material, tokens: SpanTokens, *, negatives: bool) -> WindowsToRead:
    """Windows of the passages that answer the questions to learn from, and of some that do not."""
    found, texts = WindowsToRead(tokens), material.texts
    row_of, rng = material.question_set.row_of_passage, np.random.default_rng(options.seed)
    mined = mine(options, material).rows if negatives else None
    for number, question in enumerate(material.train.questions):
        for place, row in enumerate(row_of.rows(question.relevant).tolist()):
            found.add_answered(_told_of(question, place, int(material.heads[row])), texts[row])
        for row in rejected_rows(question, material):
            found.add_rejected(question, texts[row], rng)
        if mined is not None and rng.random() < options.negatives_share:
            for row in mined[number][mined[number] != NOT_FOUND].tolist():
                found.add_rejected(question, texts[row], rng)
    return found


def _told_of(question: Question, place: int, head: int) -> Question:
    """The question with what is known of its passage in that place: only of the first one is told where answers begin.

    The letters of a title, `head`, come before those that were counted.
    """
    starts = tuple(start + head if start >= 0 else start for start in question.starts) if place == 0 else ()
    return question if starts == question.starts else replace(question, starts=starts)
