"""What each objective is shown: examples as texts, and what batches must know of them."""

import numpy as np

from retrieval.rankings import NOT_FOUND
from training.engine.task import Columns, Examples
from training.options.bi_encoder import TAUGHT, BatchesOf, BiEncoderObjective, BiEncoderOptions
from training.options.common import TrainingError
from training.options.cross_encoder import CrossEncoderObjective, CrossEncoderOptions
from training.options.questions import RankerOptions
from training.options.sparse_encoder import SparseEncoderObjective, SparseEncoderOptions
from training.rankers.material import Material
from training.rankers.negatives import filled, mine

ANCHOR = "anchor"  # the column of an encoder's questions; the others hold passages
_SIDE_BY_SIDE = (BiEncoderObjective.MULTIPLE_NEGATIVES, SparseEncoderObjective.SPLADE, *TAUGHT)
_LISTS = (CrossEncoderObjective.LAMBDA, CrossEncoderObjective.RANKNET, CrossEncoderObjective.LISTNET)


def encoder_examples(options: BiEncoderOptions | SparseEncoderOptions, material: Material) -> tuple[Columns, Examples]:
    """Questions with a relevant passage each, and with the hard negatives that the options ask for.

    Triplets and GIST take one negative an example: a question with several stands in as many examples.
    """
    questions, positives = material.positive_pairs()
    rows = positives[:, None].astype(np.int32)
    if options.negatives:
        negatives = _all_negatives(options, material)[questions]
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
    examples = Examples(questions, rows, material.relevance, lengths, options.contrasts, article)
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
        return _triplets(material, questions, drawn)
    asked, positives = material.positive_pairs()
    questions, rows = np.concatenate([asked, questions]), np.concatenate([positives, drawn])
    columns: Columns = {
        "question": _question_texts(material, questions),
        "passage": _passage_texts(material, rows),
        "label": [1.0] * len(asked) + [0.0] * len(drawn),
    }
    return columns, _alone(material, questions, rows[:, None])


def _lists(material: Material, negatives: np.ndarray) -> tuple[Columns, Examples]:
    relevance = material.train.relevance
    documents = [
        [*relevance.indices[relevance.indptr[row] : relevance.indptr[row + 1]], *found[found != NOT_FOUND]]
        for row, found in enumerate(negatives)
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


def _triplets(material: Material, questions: np.ndarray, negatives: np.ndarray) -> tuple[Columns, Examples]:
    relevance = material.train.relevance
    positives = relevance.indices[relevance.indptr[questions]]
    columns: Columns = {
        "question": _question_texts(material, questions),
        "positive": _passage_texts(material, positives),
        "negative": _passage_texts(material, negatives),
    }
    return columns, _alone(material, questions, np.stack([positives, negatives], axis=1))


def _no_negatives() -> TrainingError:
    message = "no hard negative could be drawn: take more ranks or another retriever, or allow the answer's text"
    return TrainingError("no_negatives", message)


def _all_negatives(options: RankerOptions, material: Material) -> np.ndarray:
    found = mine(options, material).rows
    return filled(found, material.train, material.relevance, options, material.learnable)


def _alone(material: Material, questions: np.ndarray, rows: np.ndarray) -> Examples:
    """Examples that say nothing to each other: any may stand in a batch with any."""
    lengths = _lengths(material, questions, rows)
    return Examples(questions, rows.astype(np.int32), material.relevance, lengths, in_batch=False)


def _lengths(material: Material, questions: np.ndarray, rows: np.ndarray) -> np.ndarray:
    asked = np.array([len(question.text) for question in material.train.questions])
    texts = np.array([*map(len, material.texts), 0])  # the last one stands where there is no passage
    return np.asarray(asked[questions] + texts[rows].max(axis=1))


def _question_texts(material: Material, questions: np.ndarray) -> list[str]:
    return [material.train.questions[row].text for row in questions.tolist()]


def _passage_texts(material: Material, rows: np.ndarray) -> list[str]:
    return [material.texts[row] for row in rows.tolist()]
