"""What a question set is like: sizes, lengths, doubtful questions, and wording shared with the passages."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from data.audit.overlap import Overlap, overlap_of
from data.records import Question, QuestionSet

_MOST_LABELS = 5
_TIMES_AN_ANSWER = 5  # that labels repeat, on average at least


@dataclass(frozen=True)
class Audit:
    """The figures of a question set; lengths are in characters."""

    passage_count: int
    question_count: int
    unanswerable_count: int
    article_count: int  # different titles; 0 where no passage has one
    passages_without_question: int
    questions_per_passage: np.ndarray = field(repr=False)  # (n_passages,) int64
    passage_lengths: np.ndarray = field(repr=False)  # (n_passages,) int64
    question_lengths: np.ndarray = field(repr=False)  # (n_questions,) int64
    overlap: Overlap
    duplicate_questions: dict[str, tuple[str, ...]]  # text -> the ids of the questions that ask it
    answers_not_found: tuple[str, ...]  # ids of questions with an answer in none of their passages
    labels: tuple[str, ...]  # the answers, where they are a few labels such as True and False, not of the passages
    kinds: dict[str, int]  # question kind -> count, the most frequent first; without a kind: not counted
    made: dict[str, int]  # how questions were made of passages -> count, the most frequent first


def audit(question_set: QuestionSet) -> Audit:
    """Measure a question set. The overlap is described at `data.audit.overlap`."""
    passages, questions = question_set.passages, question_set.questions
    asked = np.bincount(question_set.relevance.indices, minlength=len(passages))
    lost = _answers_not_found(question_set)
    kinds = Counter(question.kind for question in questions if question.kind)
    return Audit(
        passage_count=len(passages),
        question_count=len(questions),
        unanswerable_count=len(questions) - len(question_set.answerable),
        article_count=len(set(pc.unique(passages.titles.column).to_pylist()) - {""}),
        passages_without_question=int((asked == 0).sum()),
        questions_per_passage=asked.astype(np.int64),
        passage_lengths=passages.texts.lengths(),
        question_lengths=np.array([len(question.text) for question in questions], dtype=np.int64),
        overlap=overlap_of(question_set),
        duplicate_questions=_duplicates(questions),
        answers_not_found=lost,
        labels=_labels(question_set, lost),
        kinds=dict(kinds.most_common()),
        made=question_set.made,
    )


def _duplicates(questions: tuple[Question, ...]) -> dict[str, tuple[str, ...]]:
    ids = defaultdict(list)
    for question in questions:
        ids[question.text].append(question.id)
    return {text: tuple(same) for text, same in ids.items() if len(same) > 1}


def _answers_not_found(question_set: QuestionSet) -> tuple[str, ...]:
    texts, row_of = question_set.passages.texts, question_set.row_of_passage

    def is_lost(question: Question) -> bool:
        passages = [texts[row_of[id_]] for id_ in question.relevant]
        return bool(passages) and any(all(answer not in text for text in passages) for answer in question.answers)

    return tuple(question.id for question in question_set.questions if is_lost(question))


def _labels(question_set: QuestionSet, lost: tuple[str, ...]) -> tuple[str, ...]:
    """The answers, the most frequent first, where they are few, repeat, and mostly stand in no passage; else none."""
    given = [answer for question in question_set.questions for answer in question.answers]
    counts = Counter(answer.strip() for answer in given)
    answered = sum(bool(question.answers) for question in question_set.questions)
    are_few = 0 < len(counts) <= _MOST_LABELS and len(given) >= _TIMES_AN_ANSWER * len(counts)
    return tuple(label for label, _ in counts.most_common()) if are_few and 2 * len(lost) > answered else ()
