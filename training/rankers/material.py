"""What a training works on: the question set, its split, the indexed texts, and the first stage to beat."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from data.records import QuestionSet, as_trained
from data.split import Part, SplitOptions, split
from retrieval.evaluation.measures import CUT, Scores, evaluate
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.rankings import Rankings, Retriever
from training.options.common import TrainingError
from training.options.questions import QuestionOptions
from training.rankers.reached import MEASURED_KS, Reached

_MEASURED = (*(f"recall@{k}" for k in MEASURED_KS), f"mrr@{CUT}", f"ndcg@{CUT}")
_SAMPLE = 100  # training questions that are measured beside the validation questions, at most
_TESTED = 2000  # test questions that base and finished model are asked, at most: of a large set some tell enough
Marks = tuple[tuple[str, str], ...]  # ids of a question and of a passage marked as a hard negative of it


@dataclass(frozen=True)
class Material:
    """The questions to learn from and to measure on, over one corpus."""

    question_set: QuestionSet
    train: QuestionSet
    validation: QuestionSet
    learnable: np.ndarray  # (n_passages,) bool: all but those of articles that test or validation questions ask about
    texts: list[str]  # of the passages, as they are indexed
    first_stage: BM25
    marked: Marks = ()
    article_of_passage: np.ndarray | None = None  # (n_passages,) int, as the split has them
    test: QuestionSet | None = None  # None where there are none; nothing is chosen by these

    @classmethod
    def of(cls, question_set: QuestionSet, shares: SplitOptions, options: QuestionOptions, marked: Marks = ()) -> Self:
        """Split the set as planned, its passages without what made questions ask with (`data.made.as_trained`).

        Raises `TrainingError` where there is nothing to learn from or to measure on.
        """
        parts = split(question_set, shares)  # by the titles as they are
        question_set = as_trained(question_set)
        parted = (parts.questions(question_set, part) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST))
        train, validation, test = parted
        held_out = question_set.relevance[np.concatenate([parts.rows[Part.VALIDATION], parts.rows[Part.TEST]])].indices
        learnable = ~np.isin(parts.group_of_passage, parts.group_of_passage[held_out])
        if len(train.questions) < 2 or not validation.questions:
            raise TrainingError(
                "too_few",
                f"{len(train.questions)} training and {len(validation.questions)} validation questions are too few: "
                "use more articles, or change the split",
            )
        validation = some_of(validation, options.evaluation_limit, shares.seed)
        first_stage = BM25("BM25", question_set.passages, BM25Options(title=options.title))
        # a training asks for them in any order
        texts = list(question_set.passages.indexed_texts(title=options.title))
        told = (question_set, train, validation, learnable, texts, first_stage, marked, parts.group_of_passage)
        return cls(*told, some_of(test, _TESTED, shares.seed) if test.questions else None)

    @cached_property
    def relevance(self) -> csr_array:
        """Boolean `(n_train_questions, n_passages)`: questions with the same words share their passages."""
        numbers: dict[str, int] = {}
        number = [numbers.setdefault(question.text.strip(), len(numbers)) for question in self.train.questions]
        same = csr_array((np.ones(len(number), dtype=np.int32), (np.arange(len(number)), number)))
        relevance: csr_array = ((same @ (same.T @ self.train.relevance.astype(np.int32))) > 0).tocsr()
        return relevance

    @cached_property
    def heads(self) -> np.ndarray:
        """Letters of each text that are the passage's title and its line break, `(n_passages,)` int64."""
        lengths = np.fromiter(map(len, self.texts), dtype=np.int64, count=len(self.texts))
        heads: np.ndarray = lengths - self.question_set.passages.texts.lengths()
        return heads

    def positive_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Every training question with each of its relevant passages: rows of both, `(n_pairs,)` each."""
        questions, passages = self.train.relevance.nonzero()
        return questions, passages

    @cached_property
    def sample(self) -> QuestionSet:
        """Training questions by chance, as many as there are validation questions, at most 100."""
        count = min(len(self.validation.questions), _SAMPLE)
        return self.train.with_questions(
            np.sort(np.random.default_rng(0).permutation(len(self.train.questions))[:count])
        )

    @cached_property
    def measured(self) -> QuestionSet:
        """What is asked to measure a model: the validation questions and, after them, the training sample."""
        return replace(self.question_set, questions=self.validation.questions + self.sample.questions)

    @cached_property
    def held_out(self) -> Self:
        """The same corpus with the validation questions in the place of those to learn from: a loss can be read of it.

        Any passage may be a negative of theirs, as nothing is learned.
        """
        anything = np.ones(len(self.texts), dtype=bool)
        return replace(self, train=self.validation, learnable=anything, marked=())

    def measure(self, retriever: Retriever, *, tested: bool = False) -> Reached:
        """Recall@1, @5, @10, MRR@10, nDCG@10 of a retriever on the questions of `measured`.

        With `tested` on the test questions, too.
        """
        reached = self.evaluated(_asked(retriever, self.measured))
        if not tested or self.test is None:
            return reached
        return replace(reached, test=_scores(_asked(retriever, self.test), self.test))

    def evaluated(self, rankings: Rankings) -> Reached:
        """The same of rankings of the questions of `measured`."""
        scores, end = _scores(rankings, self.measured), len(self.validation.questions)
        validation = Scores(scores.ks, {name: values[:end] for name, values in scores.per_question.items()})
        training = Scores(scores.ks, {name: values[end:] for name, values in scores.per_question.items()})
        return Reached(validation, training)

    @cached_property
    def first_stage_scores(self) -> Reached:
        """What BM25 reaches: the line every model is held against."""
        return self.measure(self.first_stage, tested=True)

    def candidates(self, question_set: QuestionSet, depth: int) -> Rankings:
        """Return BM25's first `depth` passages of the questions."""
        return self.first_stage.search([question.text for question in question_set.questions], depth)


def some_of(question_set: QuestionSet, limit: int, seed: int) -> QuestionSet:
    """Return so many of the questions by chance, in their order; 0: all."""
    if not 0 < limit < len(question_set.questions):
        return question_set
    chosen = np.random.default_rng(seed).permutation(len(question_set.questions))[:limit]
    return question_set.with_questions(np.sort(chosen))


def _asked(retriever: Retriever, question_set: QuestionSet) -> Rankings:
    return retriever.search([question.text for question in question_set.questions], CUT)


def _scores(rankings: Rankings, question_set: QuestionSet) -> Scores:
    """The measures of a training, of every question."""
    scores = evaluate(rankings, question_set, MEASURED_KS)
    known = {name: scores.per_question[name] for name in _MEASURED if name in scores.per_question}
    return Scores(scores.ks, known)
