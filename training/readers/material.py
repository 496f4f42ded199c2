"""What a reader learns from and is measured on: questions that a passage answers, and those that nobody can answer."""

from dataclasses import replace

import numpy as np

from data.records import Question, QuestionSet
from data.split import SplitOptions
from training.options.common import TrainingError
from training.options.questions import ReaderOptions
from training.rankers.material import Marks, Material, some_of


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
