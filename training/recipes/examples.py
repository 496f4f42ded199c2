"""Hard negatives, and the examples that each objective is shown."""

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
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, ranked
from mrc_workbench.training.base import Columns, Examples, processes
from mrc_workbench.training.options import NegativesFrom, RankerOptions, TrainingError
from mrc_workbench.training.ranker_options import (
    TAUGHT,
    BatchesOf,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateOptions,
    SparseEncoderObjective,
    SparseEncoderOptions,
)
from mrc_workbench.training.recipes.material import Material


@dataclass(frozen=True)
class HardNegatives:
    """Of each training question: rows of the corpus, ranks from 1 and scores `(n_questions, count)`.

    Missing ones have the row -1, the rank 0 and the score NaN; the last two also if the ranking lacks a marked passage.
    `positive_scores` are those of the question's best ranked relevant passage `(n_questions,)`, or NaN.
    """

    rows: np.ndarray
    ranks: np.ndarray
    scores: np.ndarray
    positive_scores: np.ndarray


def mine(options: RankerOptions, material: Material) -> HardNegatives:
    """Search the training questions and draw their hard negatives as the options say, after those a user marked.

    Never drawn: a passage relevant to the question, or to one with the same words; one of the articles that test or
    validation questions ask about; one with the answer's text, unless the options allow it. A mark overrules only the
    last. The oldest marks come first.
    """
    queries = [question.text for question in material.train.questions]
    results = _retriever(options, material).search(queries, options.negatives_last)
    # as wide whatever the corpus: the lottery has a number for every place
    rankings = ranked(results.indices, results.scores, options.negatives_last)
    drawn = draw(rankings, material.train, material.relevance, options, material.learnable)
    return led_by(marked_rows(material), drawn, rankings)


def marked_rows(material: Material) -> dict[int, list[int]]:
    """Return rows of the passages marked by a person, by row of the training question, those that may be negatives."""
    row_of_question = {question.id: row for row, question in enumerate(material.train.questions)}
    row_of_passage = material.question_set.row_of_passage
    marked: defaultdict[int, list[int]] = defaultdict(list)
    for question_id, passage_id in material.marked:
        question, passage = row_of_question.get(question_id), row_of_passage.get(passage_id)
        if question is None or passage is None or not material.learnable[passage]:
            continue
        if not material.relevance[question, passage]:
            marked[question].append(passage)
    return dict(marked)


def led_by(marked: dict[int, list[int]], drawn: HardNegatives, rankings: Rankings) -> HardNegatives:
    """Put marked passages, by row of the question, before those drawn from the rankings, which make room for them."""
    rows, ranks, scores = drawn.rows.copy(), drawn.ranks.copy(), drawn.scores.copy()
    for question, passages in marked.items():
        drawn_too = [row for row in rows[question].tolist() if row != NOT_FOUND and row not in passages]
        together = [*passages, *drawn_too][: rows.shape[1]]
        ranking = rankings.indices[question].tolist()
        for place, passage in enumerate(together):
            rank = ranking.index(passage) + 1 if passage in ranking else 0
            rows[question, place], ranks[question, place] = passage, rank
            scores[question, place] = rankings.scores[question, rank - 1] if rank else np.nan
    return HardNegatives(rows, ranks, scores, drawn.positive_scores)


def draw(
    rankings: Rankings, question_set: QuestionSet, relevance: csr_array, options: RankerOptions, allowed: np.ndarray
) -> HardNegatives:
    """Draw negatives from rankings, seeded; `allowed` says of each passage whether it may be, `(n_passages,)` bool."""
    indices, is_known = rankings.indices, rankings.indices != NOT_FOUND
    questions = np.arange(len(indices))[:, None]
    relevant = is_known & np.asarray(relevance[questions, np.maximum(indices, 0)].todense()).astype(bool)
    positive_scores = np.where(relevant, rankings.scores, -np.inf).max(axis=1, initial=-np.inf)
    positive_scores = np.where(np.isfinite(positive_scores), positive_scores, np.nan)
    usable = is_known & ~relevant & allowed[indices]
    usable &= (np.diff(question_set.relevance.indptr) > 0)[:, None]  # where none answers, any other one might
    usable[:, : options.negatives_first - 1] = False
    if options.negatives_margin:
        # a question whose passage the ranking does not hold has no score to keep a distance from
        limit = positive_scores - options.negatives_margin * np.abs(positive_scores)
        usable &= ~(rankings.scores > limit[:, None])
    if not options.negatives_with_answer:
        for question, place in zip(*np.nonzero(usable), strict=True):
            usable[question, place] = not _holds_the_answer(question_set, question, indices[question, place])
    lottery = np.where(usable, np.random.default_rng(options.seed).random(usable.shape), np.inf)
    places = np.argsort(lottery, axis=1, kind="stable")[:, : options.negatives]
    drawn = np.take_along_axis(usable, places, 1)
    order = np.argsort(np.where(drawn, places, indices.shape[1]), axis=1, kind="stable")
    places, drawn = np.take_along_axis(places, order, 1), np.take_along_axis(drawn, order, 1)
    missing = ((0, 0), (0, options.negatives - places.shape[1]))

    def padded(values: np.ndarray, empty: float, kind: str) -> np.ndarray:
        return np.pad(np.where(drawn, values, empty), missing, constant_values=empty).astype(kind)

    return HardNegatives(
        padded(np.take_along_axis(indices, places, 1), NOT_FOUND, "int32"),
        padded(places + 1, 0, "int32"),
        padded(np.take_along_axis(rankings.scores, places, 1), np.nan, "float32"),
        positive_scores,
    )


def filled(
    rows: np.ndarray, question_set: QuestionSet, relevance: csr_array, options: RankerOptions, allowed: np.ndarray
) -> np.ndarray:
    """Fill missing negatives with random passages that `draw` may draw, of any rank; -1 if none is left."""
    full, rng, candidates = rows.copy(), np.random.default_rng(options.seed), np.flatnonzero(allowed)
    for question in np.flatnonzero((rows == NOT_FOUND).any(axis=1)):
        missing = full[question] == NOT_FOUND
        taken = np.concatenate([full[question][~missing], relevance[[question]].indices])
        # as many as are surely enough, drawn anew for each question: the corpus may be large
        tried = rng.permutation(candidates) if len(candidates) < 1000 else rng.choice(candidates, 200, replace=False)
        free = (
            row
            for row in tried[~np.isin(tried, taken)]
            if options.negatives_with_answer or not _holds_the_answer(question_set, int(question), row)
        )
        drawn = list(islice(free, int(missing.sum())))
        full[question, np.flatnonzero(missing)[: len(drawn)]] = drawn
    return full


def as_table(mined: HardNegatives, material: Material) -> pd.DataFrame:
    """One row a negative: by question, marked ones first, then by rank."""
    marked = marked_rows(material)
    questions, places = np.nonzero(mined.rows != NOT_FOUND)
    passages, row_of = material.question_set.passages, material.question_set.row_of_passage
    queries = [material.train.questions[row] for row in questions]
    rows = mined.rows[questions, places].tolist()
    drawn = [passages[row] for row in rows]
    return pd.DataFrame(
        {
            "question_id": [question.id for question in queries],
            "question": [question.text for question in queries],
            "positive": [passages[row_of[one.relevant[0]]].text if one.relevant else "" for one in queries],
            "positive_score": mined.positive_scores[questions],
            "passage_id": [passage.id for passage in drawn],
            "title": [passage.title for passage in drawn],
            "passage": [passage.text for passage in drawn],
            "rank": mined.ranks[questions, places],
            "score": mined.scores[questions, places],
            "marked": [row in marked.get(int(question), ()) for question, row in zip(questions, rows, strict=True)],
        }
    )


def _retriever(options: RankerOptions, material: Material) -> Retriever:
    passages, title = material.question_set.passages, options.title
    if options.negatives_from is NegativesFrom.BM25:
        return material.first_stage
    encoder = BiEncoder(find_model(options.negatives_model), material.texts)
    dense = Dense("dense", passages, encoder, title=title, windows=options.window_options)
    if options.negatives_from is NegativesFrom.DENSE:
        return dense
    depth = max(100, options.negatives_last)
    # by ranks: a share of a negative's score is measured against the relevant passage's, and z-scores have no zero
    return Hybrid("hybrid", [material.first_stage, dense], n_passages=len(passages), depth=depth, fusion=Fusion.RRF)


def _holds_the_answer(question_set: QuestionSet, question: int, passage: int) -> bool:
    answers = question_set.questions[question].answers
    if not answers:
        return False
    return bool(answer_spans(unicodedata.normalize("NFC", question_set.passages[passage].text), answers))


ANCHOR = "anchor"  # the column of an encoder's questions; the others hold passages
_SIDE_BY_SIDE = (BiEncoderObjective.MULTIPLE_NEGATIVES, SparseEncoderObjective.SPLADE, *TAUGHT)
_LISTS = (CrossEncoderObjective.LAMBDA, CrossEncoderObjective.RANKNET, CrossEncoderObjective.LISTNET)


def encoder_examples(
    options: BiEncoderOptions | SparseEncoderOptions | LateOptions, material: Material
) -> tuple[Columns, Examples]:
    """Questions with a relevant passage each, and with the hard negatives that the options ask for.

    Triplets and GIST take one negative an example: a question with several has as many examples.
    """
    questions, positives = material.positive_pairs()
    rows = positives[:, None].astype(np.int32)
    if options.negatives:
        mined = mine(options, material).rows
        negatives = filled(mined, material.train, material.relevance, options, material.learnable)[questions]
        if options.objective in _SIDE_BY_SIDE:
            rows = np.hstack([rows, negatives])
        else:
            questions = np.repeat(questions, options.negatives)
            rows = np.stack([np.repeat(positives, options.negatives), negatives.ravel()], axis=1).astype(np.int32)
        complete = (rows != NOT_FOUND).all(axis=1)  # a corpus can be too small to fill every place
        questions, rows = questions[complete], rows[complete]
    if not len(rows):
        raise _no_negatives()
    names = [ANCHOR, "positive", *(f"negative_{number + 1}" for number in range(rows.shape[1] - 1))]
    columns = [_question_texts(material, questions), *(_passage_texts(material, column) for column in rows.T)]
    lengths = _lengths(material, questions, rows)
    together = options.contrasts and options.batches_of is BatchesOf.ARTICLES
    articles = material.article_of_passage if together else None
    article = None if articles is None else articles[rows[:, 0]]
    # several processes would each encode passages of their own
    shared = isinstance(options, BiEncoderOptions | LateOptions) and options.shares_passages and processes() == 1
    examples = Examples(questions, rows, material.relevance, lengths, options.contrasts, article, shared)
    return dict(zip(names, columns, strict=True)), examples


def cross_encoder_examples(options: CrossEncoderOptions, material: Material) -> tuple[Columns, Examples]:
    """What the objective reads: labelled pairs, lists of a question's passages, or triplets for a teacher."""
    negatives = mine(options, material).rows
    if (negatives == NOT_FOUND).all():  # so few passages that none is near: any other one, then
        negatives = filled(negatives, material.train, material.relevance, options, material.learnable)
    if (negatives == NOT_FOUND).all():
        raise _no_negatives()
    if options.objective in _LISTS:
        return _lists(material, negatives)
    questions, places = np.nonzero(negatives != NOT_FOUND)
    drawn = negatives[questions, places]
    if options.objective is CrossEncoderObjective.MARGIN_MSE:
        relevance = material.train.relevance
        positives = relevance.indices[relevance.indptr[questions]]
        triplets: Columns = {
            "question": _question_texts(material, questions),
            "positive": _passage_texts(material, positives),
            "negative": _passage_texts(material, drawn),
        }
        return triplets, _alone(material, questions, np.stack([positives, drawn], axis=1))
    of_positives, positives = material.positive_pairs()
    questions, rows = np.concatenate([of_positives, questions]), np.concatenate([positives, drawn])
    columns: Columns = {
        "question": _question_texts(material, questions),
        "passage": _passage_texts(material, rows),
        "label": [1.0] * len(of_positives) + [0.0] * len(drawn),
    }
    return columns, _alone(material, questions, rows[:, None])


def _lists(material: Material, negatives: np.ndarray) -> tuple[Columns, Examples]:
    relevance = material.train.relevance
    documents = [
        [*relevance.indices[relevance.indptr[row] : relevance.indptr[row + 1]], *drawn[drawn != NOT_FOUND]]
        for row, drawn in enumerate(negatives)
    ]
    counts = np.diff(relevance.indptr)
    kept = [row for row, rows in enumerate(documents) if len(rows) > counts[row]]  # the others: nothing to compare
    columns: Columns = {
        "question": _question_texts(material, np.array(kept)),
        "passages": [_passage_texts(material, np.array(documents[row])) for row in kept],
        "labels": [[1.0] * int(counts[row]) + [0.0] * int(len(documents[row]) - counts[row]) for row in kept],
    }
    longest = max(len(documents[row]) for row in kept)
    rows = np.array([documents[row] + [NOT_FOUND] * (longest - len(documents[row])) for row in kept], dtype=np.int32)
    return columns, _alone(material, np.array(kept), rows)


def _no_negatives() -> TrainingError:
    message = "no hard negative could be drawn: take more ranks or another retriever, or allow the answer's text"
    return TrainingError("no_negatives", message)


def _alone(material: Material, questions: np.ndarray, rows: np.ndarray) -> Examples:
    """Examples that say nothing to each other: any may stand in a batch with any."""
    lengths = _lengths(material, questions, rows)
    return Examples(questions, rows.astype(np.int32), material.relevance, lengths, in_batch=False)


def _lengths(material: Material, questions: np.ndarray, rows: np.ndarray) -> np.ndarray:
    question_lengths = np.array([len(question.text) for question in material.train.questions])
    texts = np.array([*map(len, material.texts), 0])  # the last one stands where there is no passage
    return np.asarray(question_lengths[questions] + texts[rows].max(axis=1))


def _question_texts(material: Material, questions: np.ndarray) -> list[str]:
    return [material.train.questions[row].text for row in questions.tolist()]


def _passage_texts(material: Material, rows: np.ndarray) -> list[str]:
    return [material.texts[row] for row in rows.tolist()]
