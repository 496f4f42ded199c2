"""Hard negatives, and the training examples of each objective."""

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.marking import answer_spans
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.combine import Fusion, Hybrid
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, rank_candidates
from mrc_workbench.training.base import Columns, Examples, processes
from mrc_workbench.training.options import NegativesFrom, RankerOptions, TrainingError
from mrc_workbench.training.ranker_options import (
    DISTILLATION_OBJECTIVES,
    BatchGrouping,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateOptions,
    SparseEncoderObjective,
    SparseEncoderOptions,
)
from mrc_workbench.training.recipes.training_data import TrainingData


@dataclass(frozen=True)
class HardNegatives:
    """Rows of the corpus, ranks from 1 and scores of each training question's negatives, `(n_questions, count)`.

    Missing negatives have the row -1, the rank 0 and the score NaN; marked passages outside the ranking have the rank 0
    and the score NaN. `positive_scores` are those of the best ranked relevant passage, `(n_questions,)`, or NaN.
    """

    rows: np.ndarray
    ranks: np.ndarray
    scores: np.ndarray
    positive_scores: np.ndarray


def mine_negatives(options: RankerOptions, data: TrainingData) -> HardNegatives:
    """Search the training questions and sample hard negatives from the results, after those that a user marked.

    Excluded are passages that are relevant to the question or to one with the same text; passages of articles of test
    or validation questions; and, unless the options allow them, passages with the answer's text. Only the last rule
    does not apply to marked passages. The oldest marks come first.
    """
    queries = [question.text for question in data.train.questions]
    results = _retriever(options, data).search(queries, options.negatives_last)
    # the same width for any corpus size: sampling draws a number for each rank
    rankings = rank_candidates(results.indices, results.scores, options.negatives_last)
    sampled = sample_negatives(rankings, data.train, data.relevance, options, data.is_trainable)
    return put_marked_first(marked_rows(data), sampled, rankings)


def marked_rows(data: TrainingData) -> dict[int, list[int]]:
    """Return rows of the valid passages that a user marked, by row of the training question."""
    row_of_question = {question.id: row for row, question in enumerate(data.train.questions)}
    row_of_passage = data.question_set.row_of_passage
    marked: defaultdict[int, list[int]] = defaultdict(list)
    for question_id, passage_id in data.marked:
        question = row_of_question.get(question_id)
        passage = row_of_passage.get(passage_id)
        if question is None or passage is None or not data.is_trainable[passage]:
            continue
        if not data.relevance[question, passage]:
            marked[question].append(passage)
    return dict(marked)


def put_marked_first(marked: dict[int, list[int]], sampled: HardNegatives, rankings: Rankings) -> HardNegatives:
    """Put marked passages, by row of the question, before the sampled ones, of which the last are dropped."""
    rows = sampled.rows.copy()
    ranks = sampled.ranks.copy()
    scores = sampled.scores.copy()
    for question, passages in marked.items():
        remaining = [row for row in rows[question].tolist() if row != NOT_FOUND and row not in passages]
        combined = [*passages, *remaining][: rows.shape[1]]
        ranking = rankings.indices[question].tolist()
        for position, passage in enumerate(combined):
            rank = ranking.index(passage) + 1 if passage in ranking else 0
            rows[question, position] = passage
            ranks[question, position] = rank
            scores[question, position] = rankings.scores[question, rank - 1] if rank else np.nan
    return HardNegatives(rows, ranks, scores, sampled.positive_scores)


def sample_negatives(
    rankings: Rankings, question_set: QuestionSet, relevance: csr_array, options: RankerOptions, is_allowed: np.ndarray
) -> HardNegatives:
    """Sample negatives from rankings; `is_allowed`, `(n_passages,)` bool, are the possible negatives."""
    indices = rankings.indices
    is_known = indices != NOT_FOUND
    questions = np.arange(len(indices))[:, None]
    relevant = is_known & np.asarray(relevance[questions, np.maximum(indices, 0)].todense()).astype(bool)
    positive_scores = np.where(relevant, rankings.scores, -np.inf).max(axis=1, initial=-np.inf)
    positive_scores = np.where(np.isfinite(positive_scores), positive_scores, np.nan)
    is_candidate = is_known & ~relevant & is_allowed[indices]
    is_candidate &= (np.diff(question_set.relevance.indptr) > 0)[:, None]  # without a relevant one, any might answer
    is_candidate[:, : options.negatives_first - 1] = False
    if options.negatives_margin:
        # without a relevant passage in the ranking, the limit is NaN and excludes none
        limit = positive_scores - options.negatives_margin * np.abs(positive_scores)
        is_candidate &= ~(rankings.scores > limit[:, None])
    if not options.negatives_with_answer:
        for question, rank_position in zip(*np.nonzero(is_candidate), strict=True):
            passage = indices[question, rank_position]
            is_candidate[question, rank_position] = not _contains_answer(question_set, question, passage)
    random_order = np.where(is_candidate, np.random.default_rng(options.seed).random(is_candidate.shape), np.inf)
    positions = np.argsort(random_order, axis=1, kind="stable")[:, : options.negatives]
    is_sampled = np.take_along_axis(is_candidate, positions, 1)
    order = np.argsort(np.where(is_sampled, positions, indices.shape[1]), axis=1, kind="stable")
    positions = np.take_along_axis(positions, order, 1)
    is_sampled = np.take_along_axis(is_sampled, order, 1)
    missing = ((0, 0), (0, options.negatives - positions.shape[1]))

    def padded(values: np.ndarray, fill_value: float, dtype: str) -> np.ndarray:
        return np.pad(np.where(is_sampled, values, fill_value), missing, constant_values=fill_value).astype(dtype)

    return HardNegatives(
        padded(np.take_along_axis(indices, positions, 1), NOT_FOUND, "int32"),
        padded(positions + 1, 0, "int32"),
        padded(np.take_along_axis(rankings.scores, positions, 1), np.nan, "float32"),
        positive_scores,
    )


def fill_missing(
    rows: np.ndarray, question_set: QuestionSet, relevance: csr_array, options: RankerOptions, is_allowed: np.ndarray
) -> np.ndarray:
    """Fill missing negatives with random passages of any rank that `sample_negatives` allows; -1 if none is left."""
    filled_rows = rows.copy()
    rng = np.random.default_rng(options.seed)
    candidates = np.flatnonzero(is_allowed)
    for question in np.flatnonzero((rows == NOT_FOUND).any(axis=1)):
        missing = filled_rows[question] == NOT_FOUND
        excluded = np.concatenate([filled_rows[question][~missing], relevance[[question]].indices])
        # for a large corpus, 200 candidates are enough
        shuffled = rng.permutation(candidates) if len(candidates) < 1000 else rng.choice(candidates, 200, replace=False)
        available = iter(shuffled[~np.isin(shuffled, excluded)])
        if not options.negatives_with_answer:
            available = (row for row in available if not _contains_answer(question_set, int(question), row))
        sampled = list(islice(available, int(missing.sum())))
        filled_rows[question, np.flatnonzero(missing)[: len(sampled)]] = sampled
    return filled_rows


def to_table(mined: HardNegatives, data: TrainingData) -> pd.DataFrame:
    """Return a table with a row per negative, by question, marked ones first, then by rank."""
    marked = marked_rows(data)
    questions, positions = np.nonzero(mined.rows != NOT_FOUND)
    passages = data.question_set.passages
    row_of = data.question_set.row_of_passage
    queries = [data.train.questions[row] for row in questions]
    rows = mined.rows[questions, positions].tolist()
    negatives = [passages[row] for row in rows]
    return pd.DataFrame(
        {
            "question_id": [question.id for question in queries],
            "question": [question.text for question in queries],
            "positive": [passages[row_of[query.relevant[0]]].text if query.relevant else "" for query in queries],
            "positive_score": mined.positive_scores[questions],
            "passage_id": [passage.id for passage in negatives],
            "title": [passage.title for passage in negatives],
            "passage": [passage.text for passage in negatives],
            "rank": mined.ranks[questions, positions],
            "score": mined.scores[questions, positions],
            "marked": [row in marked.get(int(question), ()) for question, row in zip(questions, rows, strict=True)],
        }
    )


def _retriever(options: RankerOptions, data: TrainingData) -> Retriever:
    passages = data.question_set.passages
    title = options.title
    if options.negatives_from is NegativesFrom.BM25:
        return data.first_stage
    encoder = BiEncoder(find_model(options.negatives_model), data.texts)
    dense = Dense("dense", passages, encoder, title=title, windows=options.window_options)
    if options.negatives_from is NegativesFrom.DENSE:
        return dense
    depth = max(100, options.negatives_last)
    # by ranks: the margin is a fraction of a score, and z-scores have no zero
    return Hybrid("hybrid", [data.first_stage, dense], n_passages=len(passages), depth=depth, fusion=Fusion.RRF)


def _contains_answer(question_set: QuestionSet, question: int, passage: int) -> bool:
    answers = question_set.questions[question].answers
    if not answers:
        return False
    return bool(answer_spans(unicodedata.normalize("NFC", question_set.passages[passage].text), answers))


ANCHOR = "anchor"  # the question column of an encoder's examples; the others hold passages
_MULTI_NEGATIVE_OBJECTIVES = (
    BiEncoderObjective.MULTIPLE_NEGATIVES,
    SparseEncoderObjective.SPLADE,
    *DISTILLATION_OBJECTIVES,
)
_LISTWISE_OBJECTIVES = (CrossEncoderObjective.LAMBDA, CrossEncoderObjective.RANKNET, CrossEncoderObjective.LISTNET)


def encoder_examples(
    options: BiEncoderOptions | SparseEncoderOptions | LateOptions, data: TrainingData
) -> tuple[Columns, Examples]:
    """Return questions with one relevant passage and hard negatives each; triplets and GIST use one negative."""
    questions, positives = data.positive_pairs()
    rows = positives[:, None].astype(np.int32)
    if options.negatives:
        mined = mine_negatives(options, data).rows
        negatives = fill_missing(mined, data.train, data.relevance, options, data.is_trainable)[questions]
        if options.objective in _MULTI_NEGATIVE_OBJECTIVES:
            rows = np.hstack([rows, negatives])
        else:
            questions = np.repeat(questions, options.negatives)
            rows = np.stack([np.repeat(positives, options.negatives), negatives.ravel()], axis=1).astype(np.int32)
        complete = (rows != NOT_FOUND).all(axis=1)  # a small corpus can have too few negatives
        questions = questions[complete]
        rows = rows[complete]
    if not len(rows):
        raise _no_negatives_error()
    names = [ANCHOR, "positive", *(f"negative_{number + 1}" for number in range(rows.shape[1] - 1))]
    columns = [_question_texts(data, questions), *(_passage_texts(data, column) for column in rows.T)]
    lengths = _lengths(data, questions, rows)
    groups_by_article = options.uses_in_batch_negatives and options.group_batches_by is BatchGrouping.ARTICLES
    articles = data.article_of_passage if groups_by_article else None
    article = None if articles is None else articles[rows[:, 0]]
    can_share = isinstance(options, BiEncoderOptions | LateOptions) and options.shares_passages
    is_shared = can_share and processes() == 1  # several processes encode separate passages
    examples = Examples(questions, rows, data.relevance, lengths, options.uses_in_batch_negatives, article, is_shared)
    return dict(zip(names, columns, strict=True)), examples


def cross_encoder_examples(options: CrossEncoderOptions, data: TrainingData) -> tuple[Columns, Examples]:
    """Return labelled pairs, lists of a question's passages, or triplets for a teacher, by objective."""
    negatives = mine_negatives(options, data).rows
    if (negatives == NOT_FOUND).all():  # a small corpus: use any other passages
        negatives = fill_missing(negatives, data.train, data.relevance, options, data.is_trainable)
    if (negatives == NOT_FOUND).all():
        raise _no_negatives_error()
    if options.objective in _LISTWISE_OBJECTIVES:
        return _list_examples(data, negatives)
    questions, positions = np.nonzero(negatives != NOT_FOUND)
    negative_rows = negatives[questions, positions]
    if options.objective is CrossEncoderObjective.MARGIN_MSE:
        relevance = data.train.relevance
        positives = relevance.indices[relevance.indptr[questions]]
        texts = (_passage_texts(data, positives), _passage_texts(data, negative_rows))
        triplets: Columns = {"question": _question_texts(data, questions), "positive": texts[0], "negative": texts[1]}
        return triplets, _independent_examples(data, questions, np.stack([positives, negative_rows], axis=1))
    positive_questions, positives = data.positive_pairs()
    questions = np.concatenate([positive_questions, questions])
    rows = np.concatenate([positives, negative_rows])
    labels = [1.0] * len(positive_questions) + [0.0] * len(negative_rows)
    columns: Columns = {"question": _question_texts(data, questions), "passage": _passage_texts(data, rows)}
    return columns | {"label": labels}, _independent_examples(data, questions, rows[:, None])


def _list_examples(data: TrainingData, negatives: np.ndarray) -> tuple[Columns, Examples]:
    relevance = data.train.relevance
    documents = [
        [
            *relevance.indices[relevance.indptr[row] : relevance.indptr[row + 1]],
            *question_negatives[question_negatives != NOT_FOUND],
        ]
        for row, question_negatives in enumerate(negatives)
    ]
    counts = np.diff(relevance.indptr)
    selected = [row for row, rows in enumerate(documents) if len(rows) > counts[row]]  # those with negatives
    columns: Columns = {
        "question": _question_texts(data, np.array(selected)),
        "passages": [_passage_texts(data, np.array(documents[row])) for row in selected],
        "labels": [[1.0] * int(counts[row]) + [0.0] * int(len(documents[row]) - counts[row]) for row in selected],
    }
    longest = max(len(documents[row]) for row in selected)
    padded = [documents[row] + [NOT_FOUND] * (longest - len(documents[row])) for row in selected]
    return columns, _independent_examples(data, np.array(selected), np.array(padded))


def _no_negatives_error() -> TrainingError:
    message = "no hard negatives are available: use more ranks or another retriever, or allow the answer's text"
    return TrainingError("no_negatives", message)


def _independent_examples(data: TrainingData, questions: np.ndarray, rows: np.ndarray) -> Examples:
    lengths = _lengths(data, questions, rows)
    return Examples(questions, rows.astype(np.int32), data.relevance, lengths, in_batch_negatives=False)


def _lengths(data: TrainingData, questions: np.ndarray, rows: np.ndarray) -> np.ndarray:
    question_lengths = np.array([len(question.text) for question in data.train.questions])
    text_lengths = np.array([*map(len, data.texts), 0])  # row -1: no passage
    return np.asarray(question_lengths[questions] + text_lengths[rows].max(axis=1))


def _question_texts(data: TrainingData, questions: np.ndarray) -> list[str]:
    return [data.train.questions[row].text for row in questions.tolist()]


def _passage_texts(data: TrainingData, rows: np.ndarray) -> list[str]:
    return [data.texts[row] for row in rows.tolist()]
