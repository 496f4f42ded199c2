"""What a question set is like: sizes, lengths, doubtful questions, and wording shared with the passages."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from data.records import Question, QuestionSet

_WORD = re.compile(r"[^\W_]+")


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
    word_overlap: np.ndarray = field(repr=False)  # (n_answerable,) float64, 0 to 1, NaN without bigrams
    mean_word_overlap: float  # NaN where no question can be measured
    duplicate_questions: dict[str, tuple[str, ...]]  # text -> the ids of the questions that ask it
    answers_not_found: tuple[str, ...]  # ids of questions with an answer in none of their passages
    kinds: dict[str, int]  # question kind -> count, the most frequent first; without a kind: not counted
    made: dict[str, int]  # how questions were made of passages -> count, the most frequent first


def audit(question_set: QuestionSet) -> Audit:
    """Measure a question set. The word overlap is described at `word_overlap`."""
    passages, questions = question_set.passages, question_set.questions
    asked = np.bincount(question_set.relevance.indices, minlength=len(passages))
    overlap = word_overlap(question_set)
    measured = overlap[~np.isnan(overlap)]
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
        word_overlap=overlap,
        mean_word_overlap=float(measured.mean()) if len(measured) else float("nan"),
        duplicate_questions=_duplicates(questions),
        answers_not_found=_answers_not_found(question_set),
        kinds=dict(kinds.most_common()),
        made=question_set.made,
    )


def word_overlap(question_set: QuestionSet) -> np.ndarray:
    """Return how much of each question's wording its passage has, `(n_answerable,)` float64, 0 to 1.

    Overlap = |B(question) ∩ B(passage)| / |B(question)|, where B(text) are the distinct pairs of neighbouring
    letters or digits inside the words of the lower-cased text. Of several relevant passages the highest
    counts; a question without such a pair is NaN. Where values are high, lexical search will do well.
    """
    overlap = np.full(len(question_set.questions), np.nan)
    by_passage = question_set.relevance.tocsc()
    # a large corpus has passages that nobody asks about
    for column in np.flatnonzero(np.diff(by_passage.indptr)).tolist():
        rows = by_passage.indices[by_passage.indptr[column] : by_passage.indptr[column + 1]]
        text = question_set.passages.texts[column].lower()  # two letters side by side are always of one word
        for row in rows:
            if asked := bigrams(question_set.questions[row].text):
                overlap[row] = np.fmax(overlap[row], sum(pair in text for pair in asked) / len(asked))
    measured: np.ndarray = overlap[question_set.answerable]
    return measured


def bigrams(text: str) -> frozenset[str]:
    """Return the distinct pairs of neighbouring letters or digits inside the words, in lower case."""
    words = _WORD.findall(text.lower())
    return frozenset(word[start : start + 2] for word in words for start in range(len(word) - 1))


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
