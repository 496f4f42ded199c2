"""What the trainings of readers share: question sets, and answers judged by each field's own rules."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.records import QuestionSet
from data.split import Part, SplitOptions, split
from data.store import find
from reading.judge.scores import EXACT
from training.family import Family
from training.options.common import OptionError
from training.options.questions import ReaderOptions
from training.rankers.material import Marks, Material, Reached, summary
from training.readers.material import is_unanswerable, reader_material
from training.readers.measured import OVERLAP, by_passage


class Readers:
    """Trainings of readers; see `training.family.Family`."""

    measures: Mapping[str, str] = {EXACT: "Exact match", OVERLAP: "F1"}
    curves: tuple[str, ...] = (EXACT, OVERLAP)
    tag = "question-answering"
    counted: tuple[str, ...] = ("questions", "passages")
    examples = "questions"
    split_by = "article"
    compared = "question by question"

    def find(self, reference: str) -> QuestionSet:
        """Return the question set that a person names. Raises `DataError`."""
        return find(reference)

    def check(self, data: QuestionSet, options: ReaderOptions) -> None:
        """Raise `OptionError` where no question has an answer to be read."""
        del options
        if not any(question.answers and question.relevant for question in data.questions):
            message = f"data must hold answers and the passages they stand in: {data.name!r} holds none"
            raise OptionError("data", "no_answers", message)

    def texts(self, data: QuestionSet, options: ReaderOptions) -> Sequence[str]:
        """The passages as they are read."""
        return data.passages.indexed_texts(title=options.title)

    def about(self, data: QuestionSet, shares: SplitOptions, options: ReaderOptions) -> dict[str, Any]:
        """How many questions there are in each part, and by whose rules their answers are judged."""
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
        options: ReaderOptions,
        marked: Marks = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> Material:
        """Split the set as planned. Raises `OptionError`, and `TrainingError` where it is too small."""
        del on_progress
        self.check(data, options)
        return reader_material(data, shares, options, marked)

    def baselines(self, material: Material) -> dict[str, Reached]:
        """None."""
        del material
        return {}

    def measurement(self, kept: Mapping[str, Any], material: Material) -> Reached | None:
        """Read a measurement again; None where it says too little."""
        del material
        return Reached.of(kept)

    def summary(self, measured: Mapping[str, Reached], material: Material, options: ReaderOptions) -> dict[str, Any]:
        """What `scores.json` holds."""
        found = summary(measured, options.best_by, by_passage(material.validation), by_passage(material.sample))
        unanswerable = sum(map(is_unanswerable, material.validation.questions))
        return found | {"rules": options.rules.value} | ({"unanswerable": unanswerable} if unanswerable else {})

    def rows(self, options: ReaderOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        """The base and the model."""
        del options, scores
        return {"before": "The base", "after": "**This model**"}

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        """Paragraphs of a card that say what the figures are of."""
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


READERS: Family = Readers()
