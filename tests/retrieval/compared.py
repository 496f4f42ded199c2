"""A comparison whose every figure can be counted: rankings written by hand over the small set."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import Rankings
from tests.depth import DEEP
from tests.doubles import small_set

# Stemmers differ only in the library's rules, and in Turkish's own lower case; a deep run goes through all
STEMMERS = {*LANGUAGE_OF} - {Analyzer.ENGLISH, Analyzer.TURKISH}
ANALYZERS = [name for name in Analyzer if name is not Analyzer.AUTO and (DEEP or name not in STEMMERS)]
LOST = ValueError("it is <lost>")
BIGRAMS = {"name": "bigrams", "kind": "bm25", "analyzer": "bigram"}
WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}
LOST_MODEL = {"name": "lost", "kind": "dense", "model": "no such model!"}


def experiment_of(*specs: Mapping[str, object], **more: object) -> Experiment:
    return Experiment.model_validate({"data": "small", "ks": (1, 3), "retriever": specs} | more)


def passages(*texts: str) -> list[Passage]:
    return [Passage(f"p{row}", text) for row, text in enumerate(texts)]


def rankings(*rows: list[int]) -> Rankings:
    indices = np.array(rows, dtype=np.int32)
    scores = np.where(indices >= 0, 10.0 - np.arange(indices.shape[1]), -np.inf)
    return Rankings(indices, scores.astype(np.float32))


def rankings_of(rows: Sequence[Sequence[int]], depth: int = 10) -> Rankings:
    ranked = Rankings.empty(len(rows), depth)
    for row, passages in enumerate(rows):
        ranked.indices[row, : len(passages)] = passages
        ranked.scores[row, : len(passages)] = np.arange(len(passages), 0, -1)
    return ranked


def assert_equal_rankings(actual: Rankings, expected: Rankings, **tolerance: float) -> None:
    """Assert the same passages, and scores within `rtol` and `atol`, by default 0."""
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_allclose(actual.scores, expected.scores, **{"rtol": 0, **tolerance})


def ir_measures_by_name(ks: Sequence[int]) -> dict[str, Any]:
    from ir_measures import RR, R, Success, nDCG

    kinds = {"recall": R, "hit": Success, "mrr": RR, "ndcg": nDCG}
    return {f"{name}@{k}": measure @ k for name, measure in kinds.items() for k in ks}


def hits_of(rankings: Rankings) -> list[dict[int, float]]:
    """Return the scores of each question's hits by passage."""
    pairs = zip(rankings.indices.tolist(), rankings.scores.tolist(), strict=True)
    return [{row: score for row, score in zip(*hits, strict=True) if row >= 0} for hits in pairs]


def rankings_at(ranks: Sequence[int], depth: int) -> Rankings:
    """Rankings with each question's passage, that of its row, at its rank (0 for nowhere), and the others in order."""
    orders = [[other for other in range(len(ranks)) if other != row] for row in range(len(ranks))]
    for row, rank in enumerate(ranks):
        if rank:
            orders[row].insert(rank - 1, row)
    return rankings_of([order[:depth] for order in orders], depth)


def comparison_of(
    rows_by_retriever: Mapping[str, Sequence[Sequence[int]] | None],
    question_set: QuestionSet | None = None,
    ks: Sequence[int] = (1, 3),
    depth: int = 10,
) -> Comparison:
    """Rows of the corpus by retriever and question; a retriever without any failed."""
    question_set = question_set or small_set()
    specs = [{"name": name, "kind": "bm25", "analyzer": "word"} for name in rows_by_retriever]
    experiment = experiment_of(*specs, ks=ks)
    results = []
    for name, rows in rows_by_retriever.items():
        if rows is None:
            results.append(Result(name, error=LOST))
        else:
            rankings = rankings_of(rows, depth)
            scores = evaluate(rankings, question_set, ks)
            results.append(Result(name, rankings, scores, build_seconds=1.0, query_seconds=0.6))
    return Comparison(experiment, question_set, tuple(results))


RIGHT = [[0], [1], [2], [3], [4], [1, 2]]  # every relevant passage first
LATE = [[4, 0], [4, 1], [4, 2], [4, 3], [0, 4], [1, 4, 2]]  # second place but for the last question
NONE = [[4], [4], [4], [4], [0], [4]]


def repeated(rows: Sequence[Sequence[int]], copies: int = 8) -> list[list[int]]:
    """Rows of the small set for the same questions of `many_questions`."""
    return [[5 * copy + row for row in passage_rows] for copy in range(copies) for passage_rows in rows]


def many_questions(copies: int = 8) -> tuple[QuestionSet, Comparison]:
    """Enough questions that right and wrong are surely apart: each passage and question, `copies` times over."""
    small = small_set()
    copied = product(range(copies), small.passages)
    passages = tuple(Passage(f"{p.id}-{n}", f"{p.text} {n}", p.title) for n, p in copied)
    questions = tuple(
        Question(f"{q.id}-{n}", f"{q.text} {n}", q.answers, tuple(f"{id_}-{n}" for id_ in q.relevant))
        for n, q in product(range(copies), small.questions)
    )
    question_set = QuestionSet("many", passages, questions)
    right = repeated(RIGHT, copies)
    rows = {"right": right, "late": repeated(LATE, copies), "same": right, "lost": None}
    return question_set, comparison_of(rows, question_set)


def partly_judged(ks: Sequence[int] = (1, 3), depth: int = 10, n_questions: int = 12) -> tuple[QuestionSet, Comparison]:
    """Return runs with ten ("known") and six ("unknown") judged results; both rank the relevant one first."""
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(n_questions + 18))
    judged = range(n_questions)
    grades = [{f"p{passage}": 2 * (passage == row) for passage in judged} for row in judged]
    questions = tuple(Question.from_grades(f"q{row}", f"{row}?", of) for row, of in enumerate(grades))
    question_set = QuestionSet("judged", passages, questions)
    known = [[row, *[passage for passage in judged if passage != row][:9]] for row in judged]
    unknown = [[*rows[:6], *range(n_questions, n_questions + 4)] for rows in known]
    return question_set, comparison_of({"known": known, "unknown": unknown}, question_set, ks, depth)
