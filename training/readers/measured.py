"""What a reader reaches: its answers to questions whose passage it is given, judged question by question."""

from dataclasses import replace

import numpy as np

from data.records import QuestionSet
from models.readers.reader import SpanReader
from reading.extractive import ReadPassages, best_threshold, read_own_passages
from reading.judge.rules import Rules, judged
from reading.judge.scores import EXACT
from retrieval.evaluation.measures import Scores
from training.rankers.material import Reached

OVERLAP = "f1"  # whatever the rules call it: one name for what a training is told by


def answered(
    reader: SpanReader, validation: QuestionSet, sample: QuestionSet, rules: Rules
) -> tuple[Reached, float | None]:
    """Let a reader answer both; returns how right that is, and the threshold of saying that there is no answer.

    The threshold is the best one on the validation questions; None where all of them have an answer.
    """
    read = [read_own_passages(reader, one) for one in (validation, sample)]
    threshold = best_threshold(read[0], validation, rules)
    of_both = (_judged(one, of, rules, threshold) for one, of in zip(read, (validation, sample), strict=True))
    return Reached(*of_both), threshold


def by_passage(question_set: QuestionSet) -> QuestionSet:
    """The questions as they are drawn together: those about one passage stand or fall with those it does not answer."""
    asked = (one if one.relevant else replace(one, relevant=one.rejected[:1]) for one in question_set.questions)
    return replace(question_set, questions=tuple(asked))


def _judged(read: ReadPassages, question_set: QuestionSet, rules: Rules, threshold: float | None) -> Scores:
    said = zip(read.said(threshold), question_set.questions, strict=True)
    values = np.array([judged(answer, question.answers, rules) for answer, question in said])
    return Scores((), {EXACT: values[:, 0], OVERLAP: values[:, 1]})
