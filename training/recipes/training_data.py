"""Training and validation data of rankers: split question sets and their evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet, strip_hidden_text
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import find
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure, Scores, evaluate
from mrc_workbench.retrieval.rankings import Rankings, Retriever
from mrc_workbench.retrieval.significance import intervals_of, mean_interval, question_groups
from mrc_workbench.training.base import Family, MarkedNegatives, Measurement, OnProgress
from mrc_workbench.training.options import BestBy, QuestionOptions, TrainingError

MEASURED_KS = (1, 5, 10)
_MEASURES = (*(f"recall@{k}" for k in MEASURED_KS), f"mrr@{DEFAULT_CUTOFF}", f"ndcg@{DEFAULT_CUTOFF}")
_PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)
_MAX_SAMPLE = 100  # training questions that are evaluated in addition to validation questions
_MAX_TEST_QUESTIONS = 2000


class QuestionScores(Scores):
    """All measures of each question, as a run stores them."""

    def to_dict(self) -> dict[str, Any]:
        return {name: values.tolist() for name, values in self.per_question.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Sequence[float]]) -> Self:
        return cls(MEASURED_KS, {name: np.array(values) for name, values in stored.items()})


QuestionMeasurement = Measurement[QuestionScores]


def summarize(
    measured: Mapping[str, QuestionMeasurement],
    best_by: str,
    validation: QuestionSet,
    sample: QuestionSet,
    test: QuestionSet | None = None,
) -> dict[str, Any]:
    """Return means, 95% intervals and gains on validation questions, the training sample and test questions."""
    validation_scores = {name: result.validation for name, result in measured.items()}
    training_scores = {name: result.training for name, result in measured.items() if result.training}
    test_scores = {name: result.test for name, result in measured.items() if result.test}
    content = {
        **_summarize_scores(validation_scores, best_by, validation),
        "training_sample": {
            **{name: scores.means() for name, scores in training_scores.items()},
            "gain": _gain(training_scores, best_by, question_groups(sample)),
            "questions": len(sample.questions),
        },
        "measured_on": "validation",
    }
    if {"bm25", "interpolated"} <= validation_scores.keys():
        groups = question_groups(validation)
        content["interpolated_gain"] = _gain(validation_scores, best_by, groups, "bm25", "interpolated")
    if test and {"before", "after"} <= test_scores.keys():
        content["test"] = _summarize_scores(test_scores, best_by, test)
    if validation.generated_counts:
        content["synthetic_questions"] = validation.generated_counts
    return content


def _summarize_scores(scores: Mapping[str, Scores], best_by: str, question_set: QuestionSet) -> dict[str, Any]:
    groups = question_groups(question_set)
    return {
        **{name: result.means() for name, result in scores.items()},
        "intervals": {name: intervals_of(result, groups) for name, result in scores.items()},
        "gain": _gain(scores, best_by, groups),
        "questions": len(question_set.questions),
    }


def _gain(
    scores: Mapping[str, Scores], measure: str, groups: np.ndarray, baseline: str = "before", candidate: str = "after"
) -> dict[str, Any]:
    gain = scores[candidate].per_question[measure] - scores[baseline].per_question[measure]
    return {"measure": measure, "difference": float(gain.mean()), "interval": list(mean_interval(gain, groups))}


@dataclass(frozen=True)
class TrainingData:
    """Training, validation and test questions over one corpus."""

    question_set: QuestionSet
    train: QuestionSet
    validation: QuestionSet
    is_trainable: np.ndarray  # (n_passages,) bool: not of an article of test or validation questions
    texts: list[str]  # indexed texts of the passages
    first_stage: BM25
    marked: MarkedNegatives = ()
    article_of_passage: np.ndarray | None = None  # (n_passages,) int, the groups of the split
    published_as: Mapping[str, Part] = field(default_factory=dict)  # see `data.split.Split`
    test: QuestionSet | None = None  # selects nothing

    @classmethod
    def from_question_set(
        cls,
        question_set: QuestionSet,
        split_options: SplitOptions,
        options: QuestionOptions,
        marked: MarkedNegatives = (),
    ) -> Self:
        """Split the set, without source texts of synthetic questions. Raises `TrainingError` for too few questions."""
        parts = split(question_set, split_options)  # before titles change
        question_set = strip_hidden_text(question_set)
        train, validation, test = (parts.questions(question_set, part) for part in _PARTS)
        held_out = question_set.relevance[np.concatenate([parts.rows[Part.VALIDATION], parts.rows[Part.TEST]])].indices
        require_questions(train, validation)
        all_questions = [question.text for question in question_set.questions]
        bm25 = BM25Options(title=options.title)
        return cls(
            question_set=question_set,
            train=train,
            validation=sample_questions(validation, options.evaluation_limit, split_options.seed),
            is_trainable=~np.isin(parts.group_of_passage, parts.group_of_passage[held_out]),
            texts=list(question_set.passages.indexed_texts(title=options.title)),
            first_stage=BM25("BM25", question_set.passages, bm25, all_questions=all_questions),
            marked=marked,
            article_of_passage=parts.group_of_passage,
            published_as=parts.published_as,
            test=sample_questions(test, _MAX_TEST_QUESTIONS, split_options.seed) if test.questions else None,
        )

    @cached_property
    def relevance(self) -> csr_array:
        """Boolean `(n_train_questions, n_passages)`: questions with the same text share their passages."""
        group_of_text: dict[str, int] = {}
        texts = [question.text.strip() for question in self.train.questions]
        group_numbers = [group_of_text.setdefault(text, len(group_of_text)) for text in texts]
        ones = np.ones(len(group_numbers), dtype=np.int32)
        same_text = csr_array((ones, (np.arange(len(group_numbers)), group_numbers)))
        relevance: csr_array = ((same_text @ (same_text.T @ self.train.relevance.astype(np.int32))) > 0).tocsr()
        return relevance

    @cached_property
    def title_lengths(self) -> np.ndarray:
        """The number of characters of title and line break in each text, `(n_passages,)` int64."""
        lengths = np.fromiter(map(len, self.texts), dtype=np.int64, count=len(self.texts))
        return np.asarray(lengths - self.question_set.passages.texts.lengths())

    def positive_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of training questions and of their relevant passages, `(n_pairs,)` each."""
        pairs: tuple[np.ndarray, np.ndarray] = self.train.relevance.nonzero()
        return pairs

    @cached_property
    def sample(self) -> QuestionSet:
        """A random sample of training questions, as many as validation questions, at most 100."""
        rows = np.random.default_rng(0).permutation(len(self.train.questions))
        return self.train.with_questions(np.sort(rows[: min(len(self.validation.questions), _MAX_SAMPLE)]))

    @cached_property
    def evaluation_questions(self) -> QuestionSet:
        """The validation questions, then the training sample."""
        return replace(self.question_set, questions=self.validation.questions + self.sample.questions)

    @cached_property
    def held_out(self) -> Self:
        """The data with validation questions as training questions: any passage can be their negative."""
        return replace(self, train=self.validation, is_trainable=np.ones(len(self.texts), dtype=bool), marked=())

    def evaluate(self, retriever: Retriever, *, with_test: bool = False) -> QuestionMeasurement:
        """Evaluate a retriever on `evaluation_questions` and, with `with_test`, on test questions."""
        measurement = self.evaluate_rankings(_search(retriever, self.evaluation_questions, DEFAULT_CUTOFF))
        if not with_test or self.test is None:
            return measurement
        return replace(measurement, test=_scores(_search(retriever, self.test, DEFAULT_CUTOFF), self.test))

    def evaluate_rankings(self, rankings: Rankings) -> QuestionMeasurement:
        """Evaluate rankings of `evaluation_questions`: Recall@1, @5, @10, MRR@10, nDCG@10."""
        scores = _scores(rankings, self.evaluation_questions).per_question
        end = len(self.validation.questions)
        validation = {name: values[:end] for name, values in scores.items()}
        training = {name: values[end:] for name, values in scores.items()}
        return QuestionMeasurement(QuestionScores(MEASURED_KS, validation), QuestionScores(MEASURED_KS, training))

    @cached_property
    def first_stage_scores(self) -> QuestionMeasurement:
        """The results of BM25, with which models are compared."""
        return self.evaluate(self.first_stage, with_test=True)

    def candidates(self, question_set: QuestionSet, depth: int) -> Rankings:
        return _search(self.first_stage, question_set, depth)

    def baselines(self) -> dict[str, QuestionMeasurement]:
        return {"bm25": self.first_stage_scores}

    def read_measurement(self, stored: Mapping[str, Any]) -> QuestionMeasurement | None:
        return QuestionMeasurement.from_dict(stored, QuestionScores.from_dict) if "training" in stored else None

    def summarize(self, measured: Mapping[str, QuestionMeasurement], options: QuestionOptions) -> dict[str, Any]:
        return summarize(measured, options.best_by, self.validation, self.sample, self.test)


def require_questions(train: QuestionSet, validation: QuestionSet, kind: str = "questions") -> None:
    """Raise `TrainingError` if training or validation questions are too few."""
    if len(train.questions) < 2 or not validation.questions:
        counts = f"{len(train.questions)} training and {len(validation.questions)} validation {kind} are too few"
        raise TrainingError("too_few", f"{counts}: use more articles, or change the split")


def sample_questions(question_set: QuestionSet, limit: int, seed: int) -> QuestionSet:
    """Return a random sample of at most `limit` questions, in their order; 0: all."""
    if not 0 < limit < len(question_set.questions):
        return question_set
    selected = np.random.default_rng(seed).permutation(len(question_set.questions))[:limit]
    return question_set.with_questions(np.sort(selected))


def _search(retriever: Retriever, question_set: QuestionSet, depth: int) -> Rankings:
    return retriever.search([question.text for question in question_set.questions], depth)


def _scores(rankings: Rankings, question_set: QuestionSet) -> QuestionScores:
    scores = evaluate(rankings, question_set, MEASURED_KS).per_question
    return QuestionScores(MEASURED_KS, {name: scores[name] for name in _MEASURES if name in scores})


def count_questions(data: QuestionSet, split_options: SplitOptions) -> dict[str, Any]:
    """Return the counts of questions, passages and the questions of each part, and a description of the split."""
    partition = split(data, split_options)
    parts = {f"{part.value}_questions": len(partition.rows[part]) for part in _PARTS}
    return {"questions": len(data.questions), "passages": len(data.passages), **parts, "split": partition.description}


class RankerFamily(Family):
    """Trainings on a question set."""

    measures = {name: Measure.parse(name).long_name for name in _MEASURES}
    curves = tuple(measure.value for measure in BestBy)
    tag = "retrieval"

    def find(self, reference: str) -> QuestionSet:
        return find(reference)

    def texts(self, data: QuestionSet, options: QuestionOptions) -> Sequence[str]:
        return data.passages.indexed_texts(title=options.title)

    def describe(self, data: QuestionSet, split_options: SplitOptions, options: QuestionOptions) -> dict[str, Any]:
        synthetic = {"synthetic_questions": data.generated_counts} if data.generated_counts else {}
        return count_questions(data, split_options) | synthetic

    def prepare_training_data(self, data: QuestionSet, plan: Any, on_progress: OnProgress | None) -> TrainingData:
        return TrainingData.from_question_set(data, plan.split, plan.options, plan.marked_negatives)

    def card_rows(self, options: QuestionOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        suffix = f", reranking BM25's first {options.rerank_depth}" if options.rerank_depth else ""
        return {
            "bm25": "BM25",
            "before": f"The base{suffix}",
            "after": f"**This model**{suffix}",
            "interpolated": f"This model, interpolated with BM25 (weight {scores.get('weight', '')})",
        }


RANKER_FAMILY = RankerFamily()
