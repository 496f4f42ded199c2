"""What rankers learn from and are measured on: question sets, and what a search finds in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet, as_trained
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import find
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.measures import CUT, Measure, Scores, evaluate
from mrc_workbench.retrieval.rankings import Rankings, Retriever
from mrc_workbench.retrieval.significance import intervals_of, mean_interval, question_groups
from mrc_workbench.training.base import Family, Marks, OnProgress
from mrc_workbench.training.options import BestBy, QuestionOptions, TrainingError

MEASURED_KS = (1, 5, 10)
_MEASURES = (*(f"recall@{k}" for k in MEASURED_KS), f"mrr@{CUT}", f"ndcg@{CUT}")
_PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)
_SAMPLE = 100  # training questions that are measured beside the validation questions, at most
_TESTED = 2000  # test questions that base and finished model are asked, at most: of a large set some tell enough


@dataclass(frozen=True)
class Reached:
    """What a model reaches on the questions that judge it and, beside them, on a few that it learns from.

    On test questions, where it was asked these, too: nothing is chosen by them.
    """

    validation: Scores
    training: Scores
    test: Scores | None = None

    def means(self) -> dict[str, dict[str, float]]:
        return {"validation": self.validation.means(), "training": self.training.means()}

    def kept(self) -> dict[str, Any]:
        every = {"validation": self.validation, "training": self.training}
        every |= {} if self.test is None else {"test": self.test}
        return {of: {name: one.tolist() for name, one in scores.per_question.items()} for of, scores in every.items()}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self | None:
        """Read what was kept; earlier versions kept the validation questions alone, which says too little."""
        if not {"validation", "training"} <= kept.keys():
            return None
        every = (kept[questions] for questions in ("validation", "training", "test") if questions in kept)
        read = ({name: np.array(values) for name, values in one.items()} for one in every)
        return cls(*(Scores(MEASURED_KS, one) for one in read))


def summary(
    measured: Mapping[str, Reached],
    best_by: str,
    validation: QuestionSet,
    sample: QuestionSet,
    test: QuestionSet | None = None,
) -> dict[str, Any]:
    """Means on validation questions, their 95% intervals, and the gain; means and gain on the training sample, too.

    Of a reranker mixed with BM25, the gain over BM25 is told besides; on test questions the same, where both the base
    and the trained model were asked these.
    """
    judging = {name: reached.validation for name, reached in measured.items()}
    learned = {name: reached.training for name, reached in measured.items()}
    tested = {name: reached.test for name, reached in measured.items() if reached.test is not None}
    mixed = ("bm25", "interpolated")  # what a reranker is used as, against what it reranks
    over_bm25 = _gain(judging, best_by, question_groups(validation), *mixed) if judging.keys() >= {*mixed} else None
    return {
        **_figures(judging, best_by, validation),
        **({"mixed_gain": over_bm25} if over_bm25 else {}),
        "training_sample": {
            **{name: scores.means() for name, scores in learned.items()},
            "gain": _gain(learned, best_by, question_groups(sample)),
            "questions": len(sample.questions),
        },
        **({"test": _figures(tested, best_by, test)} if test and tested.keys() >= {"before", "after"} else {}),
        "measured_on": "validation",
        **({"made_questions": validation.made} if validation.made else {}),
    }


def _figures(scores: Mapping[str, Scores], best_by: str, asked: QuestionSet) -> dict[str, Any]:
    """Means, intervals and gain on the questions that were asked."""
    groups = question_groups(asked)
    return {
        **{name: one.means() for name, one in scores.items()},
        "intervals": {name: intervals_of(one, groups) for name, one in scores.items()},
        "gain": _gain(scores, best_by, groups),
        "questions": len(asked.questions),
    }


def _gain(
    scores: Mapping[str, Scores], measure: str, groups: np.ndarray, over: str = "before", of: str = "after"
) -> dict[str, Any]:
    """The paired difference of two measurements, with its 95% interval."""
    gain = scores[of].per_question[measure] - scores[over].per_question[measure]
    return {"measure": measure, "difference": float(gain.mean()), "interval": list(mean_interval(gain, groups))}


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
    published_as: Mapping[str, Part] = field(default_factory=dict)  # see `data.split.Split`
    test: QuestionSet | None = None  # None where there are none; nothing is chosen by these

    @classmethod
    def of(cls, question_set: QuestionSet, shares: SplitOptions, options: QuestionOptions, marked: Marks = ()) -> Self:
        """Split the set as planned, its passages without what made questions ask with (`data.records.as_trained`).

        Raises `TrainingError` where there is nothing to learn from or to measure on.
        """
        parts = split(question_set, shares)  # by the titles as they are
        question_set = as_trained(question_set)
        train, validation, test = (parts.questions(question_set, part) for part in _PARTS)
        held_out = question_set.relevance[np.concatenate([parts.rows[Part.VALIDATION], parts.rows[Part.TEST]])].indices
        learnable = ~np.isin(parts.group_of_passage, parts.group_of_passage[held_out])
        if len(train.questions) < 2 or not validation.questions:
            raise TrainingError(
                "too_few",
                f"{len(train.questions)} training and {len(validation.questions)} validation questions are too few: "
                "use more articles, or change the split",
            )
        validation = some_of(validation, options.evaluation_limit, shares.seed)
        all_questions = [question.text for question in question_set.questions]
        bm25 = BM25Options(title=options.title)
        first_stage = BM25("BM25", question_set.passages, bm25, all_questions=all_questions)
        # a training asks for them in any order
        texts = list(question_set.passages.indexed_texts(title=options.title))
        told = (question_set, train, validation, learnable, texts, first_stage, marked, parts.group_of_passage)
        sampled = some_of(test, _TESTED, shares.seed) if test.questions else None
        return cls(*told, parts.published_as, sampled)

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
        reached = self.evaluated(_found(retriever, self.measured, CUT))
        if not tested or self.test is None:
            return reached
        return replace(reached, test=_scores(_found(retriever, self.test, CUT), self.test))

    def evaluated(self, rankings: Rankings) -> Reached:
        """The same of rankings of the questions of `measured`."""
        scores, end = _scores(rankings, self.measured), len(self.validation.questions)
        both = (slice(end), slice(end, None))
        read = ({name: values[of] for name, values in scores.per_question.items()} for of in both)
        return Reached(*(Scores(scores.ks, one) for one in read))

    @cached_property
    def first_stage_scores(self) -> Reached:
        """What BM25 reaches: the line every model is held against."""
        return self.measure(self.first_stage, tested=True)

    def candidates(self, question_set: QuestionSet, depth: int) -> Rankings:
        return _found(self.first_stage, question_set, depth)


def some_of(question_set: QuestionSet, limit: int, seed: int) -> QuestionSet:
    """Return so many of the questions by chance, in their order; 0: all."""
    if not 0 < limit < len(question_set.questions):
        return question_set
    chosen = np.random.default_rng(seed).permutation(len(question_set.questions))[:limit]
    return question_set.with_questions(np.sort(chosen))


def _found(retriever: Retriever, question_set: QuestionSet, depth: int) -> Rankings:
    return retriever.search([question.text for question in question_set.questions], depth)


def _scores(rankings: Rankings, question_set: QuestionSet) -> Scores:
    """The measures of a training, of every question."""
    scores = evaluate(rankings, question_set, MEASURED_KS)
    known = {name: scores.per_question[name] for name in _MEASURES if name in scores.per_question}
    return Scores(scores.ks, known)


def counts(data: QuestionSet, shares: SplitOptions) -> dict[str, Any]:
    """Say how many questions and passages there are, how many questions in each part, and how they were split."""
    found = split(data, shares)
    parts = {f"{part.value}_questions": len(found.rows[part]) for part in _PARTS}
    return {"questions": len(data.questions), "passages": len(data.passages), **parts, "split": found.description}


class Rankers(Family):
    """Trainings on a question set."""

    measures = {of: Measure.parse(of).long for of in _MEASURES}
    curves = tuple(measure.value for measure in BestBy)
    tag = "retrieval"
    counted = ("questions", "passages")
    examples = "questions"
    split_by = "article"
    compared = "question by question"

    def find(self, reference: str) -> QuestionSet:
        return find(reference)

    def texts(self, data: QuestionSet, options: QuestionOptions) -> Sequence[str]:
        return data.passages.indexed_texts(title=options.title)

    def about(self, data: QuestionSet, shares: SplitOptions, options: QuestionOptions) -> dict[str, Any]:
        del options
        return counts(data, shares) | ({"made_questions": data.made} if data.made else {})

    def material(
        self, data: QuestionSet, shares: SplitOptions, options: Any, marked: Marks = (), tell: OnProgress | None = None
    ) -> Material:
        del tell
        return Material.of(data, shares, options, marked)

    def baselines(self, material: Material) -> dict[str, Reached]:
        return {"bm25": material.first_stage_scores}

    def measurement(self, kept: Mapping[str, Any], material: Material) -> Reached | None:
        del material
        return Reached.of(kept)

    def summary(self, measured: Mapping[str, Reached], material: Material, options: QuestionOptions) -> dict[str, Any]:
        return summary(measured, options.best_by, material.validation, material.sample, material.test)

    def rows(self, options: QuestionOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        alone = f", alone over BM25's first {options.reranked}" if options.reranked else ""
        return {
            "bm25": "BM25",
            "before": f"The base{alone}",
            "after": f"**This model**{alone}",
            "interpolated": f"This model, mixed with BM25 (weight {scores.get('weight', '')})",
        }

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        data = made.get("data", {})
        searched = f", in all {data['passages']:,} passages" if data.get("passages") else ""
        chosen = "the checkpoint and the weight" if "interpolated" in scores else "the checkpoint"
        yield (
            f"In percent, on {scores.get('questions', 0):,} validation questions that it was not trained on{searched}; "
            f"they also chose {chosen}. In brackets: 95% bootstrap intervals."
        )
        if data.get("made_questions"):
            yield (
                "Questions of this set were made of its passages, which were read without the sentence or the title "
                "that asks. The figures are no measure of what people find."
            )
        if active := scores.get("active_terms"):
            counts = f"{active['question']:,.1f} terms in a question and {active['passage']:,.1f} in a passage"
            yield f"It gives a weight to {counts}, on average."


RANKERS = Rankers()
