"""What each objective of sentences is shown, pairs, triples or a teacher's vectors, and what it makes smaller."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.pairs.records import Label, PairKind, PairSet
from mrc_workbench.data.texts import Texts
from mrc_workbench.labs.embeddings.encoder import Distinct
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import Columns, Examples, seconds_for
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.text_options import CrossSentenceObjective, SentenceObjective, SentenceOptions


@dataclass(frozen=True)
class _Triples:
    """Rows `(n, 3)` int64 of `sentences`, and which sentences are no negatives of which, `(n_sentences, n_sentences)`.

    That is a sentence itself, and everything that follows from it in any row.
    """

    sentences: list[str]
    rows: np.ndarray
    relevance: csr_array


def triples_of(pairs: PairSet) -> _Triples:
    """Make triples of triplets or of labelled pairs.

    Of labelled pairs, each that says entailment becomes a triple with a contradiction of the same premise, its
    contradictions taken in turn; premises without either make none (Gao et al. 2021, 4.1). A triple that holds a
    sentence twice is none.
    """
    distinct = Distinct.of(pairs)
    rows, follows = distinct.places, distinct.places[:, :2]
    if pairs.kind is PairKind.LABELLED:
        follows = follows[pairs.values == Label.ENTAILMENT]
        rows = _in_turn(follows, distinct.places[pairs.values == Label.CONTRADICTION])
    ordered = np.sort(rows, axis=1)
    rows = rows[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
    n = len(distinct.sentences)
    itself = np.arange(n)
    of = np.concatenate([itself, follows[:, 0]]), np.concatenate([itself, follows[:, 1]])
    relevance = csr_array((np.ones(len(of[0]), dtype=np.int32), of), shape=(n, n))
    return _Triples(distinct.sentences, rows, relevance)


def _in_turn(entailed: np.ndarray, contradicted: np.ndarray) -> np.ndarray:
    """Give the i-th entailed pair of a premise its i-th contradicted one, from the first again where they are fewer."""
    contradicted = contradicted[np.argsort(contradicted[:, 0], kind="stable")]
    premises, first, count = np.unique(contradicted[:, 0], return_index=True, return_counts=True)
    entailed = entailed[np.isin(entailed[:, 0], premises)]
    entailed = entailed[np.argsort(entailed[:, 0], kind="stable")]
    _, begins, held = np.unique(entailed[:, 0], return_index=True, return_counts=True)
    turn = np.arange(len(entailed)) - np.repeat(begins, held)
    place = np.searchsorted(premises, entailed[:, 0])
    negatives = contradicted[first[place] + turn % count[place], 1]
    return np.concatenate([entailed, negatives[:, None]], axis=1)


def encoder_examples(options: SentenceOptions, pairs: PairSet) -> tuple[Columns, Examples]:
    """What an objective reads of some pairs, the label where it has one in the last column.

    Raises `TrainingError` `no_triples` where labelled pairs make none.
    """
    match options.objective:
        case SentenceObjective.TRIPLET | SentenceObjective.SIMCSE_SUPERVISED:
            return _triples(pairs, contrasts=options.contrasts)
        case SentenceObjective.SIMCSE_UNSUPERVISED:
            sentences = pairs.sentences
            return _apart({"sentence": sentences, "again": list(sentences)}, contrasts=True)
        case SentenceObjective.TSDAE:
            sentences = pairs.sentences
            return _apart({"damaged": damaged(sentences, options.deletion, options.seed), "whole": sentences})
        case SentenceObjective.DISTILLATION:
            return _apart(_texts(pairs))  # the label is a teacher's
        case SentenceObjective.NLI_SOFTMAX:
            return labelled_pairs(pairs, pairs.values)
        case SentenceObjective.COSINE | SentenceObjective.COSENT:
            return labelled_pairs(pairs, pairs.gold)


def labelled_pairs(pairs: PairSet, labels: np.ndarray) -> tuple[Columns, Examples]:
    """Both sentences and a label, any of which may stand together."""
    columns, examples = _apart(_texts(pairs))
    return columns | {"label": labels.tolist()}, examples


def damaged(sentences: Sequence[str], deletion: float, seed: int) -> list[str]:
    """Take words from sentences, each with the probability `deletion`; one is left at least (Wang et al. 2021, 3).

    A word is what stands between spaces. The same seed takes the same words: a training that goes on reads what it did.
    """
    rng = np.random.default_rng(seed)
    found = []
    for sentence in sentences:
        words = sentence.split()
        stays = rng.random(len(words)) >= deletion
        if len(words) and not stays.any():
            stays[rng.integers(len(words))] = True
        found.append(" ".join(word for word, is_left in zip(words, stays, strict=True) if is_left))
    return found


def _texts(pairs: PairSet) -> Columns:
    return {f"sentence_{number}": list(column) for number, column in enumerate(pairs.texts, start=1)}


def _triples(pairs: PairSet, *, contrasts: bool) -> tuple[Columns, Examples]:
    triples = triples_of(pairs)
    if not len(triples.rows):
        message = f"{pairs.name} holds no premise with both an entailed and a contradicted sentence"
        raise TrainingError("no_triples", message)
    columns = {
        name: [triples.sentences[row] for row in column.tolist()]
        for name, column in zip(("sentence", "positive", "negative"), triples.rows.T, strict=True)
    }
    shown = triples.rows[:, 1:].astype(np.int32)
    lengths, order = _lengths(columns), np.arange(len(shown))
    return columns, Examples(triples.rows[:, 0], shown, triples.relevance, lengths, contrasts, order)


def _apart(columns: Columns, *, contrasts: bool = False) -> tuple[Columns, Examples]:
    """Examples of which none holds what another one does."""
    lengths = _lengths(columns)
    return columns, Examples.apart(lengths, contrasts=contrasts, article=np.arange(len(lengths)))


def _lengths(columns: Columns) -> np.ndarray:
    lengths: np.ndarray = np.sum([[len(text) for text in column] for column in columns.values()], axis=0, dtype=float)
    return lengths


class TeachersVectors:
    """A teacher's vectors of length 1, `(dimensions,)` float32 each, one of every pair's first sentence.

    They are kept in the workspace, so a training that is resumed asks for none again. Raises `OptionError` where they
    have other dimensions than the student's, `dimensions`.
    """

    def __init__(self, teacher: str, pairs: PairSet, dimensions: int, precision: Precision) -> None:
        self._teacher, self._precision, self._dimensions = teacher, precision, dimensions
        self._sentences: Texts = pairs.texts[0]
        found = self._encoder().encode("question", ["a"]).shape[1]
        if found != dimensions:
            message = f"teacher gives vectors of {found} dimensions, and the base has {dimensions}: both must be alike"
            raise OptionError("teacher", "dimensions", message)

    def labels(self, on_progress: Callable[[float], None]) -> list[Any]:
        different, places = self._different
        return list(self._encoder(on_progress).encode_sentences(different)[places])

    def stand_ins(self) -> list[Any]:
        return [np.zeros(self._dimensions, dtype=np.float32)] * len(self._sentences)

    def seconds(self) -> float:
        encoder = self._encoder()
        return seconds_for(lambda some: encoder.encode("question", some), sorted(self._different[0], key=len))

    def _encoder(self, on_progress: Callable[[float], None] | None = None) -> BiEncoder:
        return BiEncoder(find_model(self._teacher), [], precision=self._precision, on_progress=on_progress)

    @cached_property
    def _different(self) -> tuple[list[str], np.ndarray]:
        different, places = np.unique(np.array(list(self._sentences), dtype=object), return_inverse=True)
        return different.tolist(), places


def sentence_loss(model: Any, options: SentenceOptions, *, processes: int = 1) -> Any:
    """Return the loss module of an objective.

    TSDAE's ties the weights of the encoder to those of its decoder, so that it is to be made before any are frozen.
    Raises `OptionError` where no decoder can be made of the base.
    """
    from sentence_transformers.sentence_transformer import losses

    match options.objective:
        case SentenceObjective.NLI_SOFTMAX:
            both, difference, product = options.concatenation.parts
            loss: Any = losses.SoftmaxLoss(
                model,
                model.get_embedding_dimension(),
                len(Label),
                concatenation_sent_rep=both,
                concatenation_sent_difference=difference,
                concatenation_sent_multiplication=product,
            )
        case SentenceObjective.COSINE:
            loss = losses.CosineSimilarityLoss(model)
        case SentenceObjective.COSENT:
            loss = losses.CoSENTLoss(model, scale=options.scale)
        case SentenceObjective.TRIPLET:
            metric = losses.TripletDistanceMetric.COSINE
            loss = losses.TripletLoss(model, distance_metric=metric, triplet_margin=options.triplet_margin)
        case SentenceObjective.SIMCSE_UNSUPERVISED | SentenceObjective.SIMCSE_SUPERVISED:
            loss = losses.MultipleNegativesRankingLoss(
                model, scale=1 / options.temperature, gather_across_devices=processes > 1
            )
        case SentenceObjective.DISTILLATION:
            loss = losses.MSELoss(model)
        case SentenceObjective.TSDAE:
            _require_decoder(model, options.base)
            loss = losses.DenoisingAutoEncoderLoss(model).float()
    return loss


def cross_sentence_loss(model: Any, objective: CrossSentenceObjective) -> Any:
    """Return the loss module of a cross-encoder's objective; gold scores are learned behind a sigmoid."""
    from sentence_transformers.cross_encoder import losses
    from torch.nn import Sigmoid

    match objective:
        case CrossSentenceObjective.BINARY_CROSS_ENTROPY:
            return losses.BinaryCrossEntropyLoss(model)
        case CrossSentenceObjective.MSE:
            return losses.MSELoss(model, Sigmoid())
        case CrossSentenceObjective.CROSS_ENTROPY:
            return losses.CrossEntropyLoss(model)


def _require_decoder(model: Any, base: str) -> None:
    """Raise `OptionError` where the library has no decoder of the base's architecture that reads a vector."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    decoder = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if decoder is None or "encoder_hidden_states" not in signature(decoder.forward).parameters:
        message = f"objective tsdae needs a base that can be a decoder, such as BERT or RoBERTa, and {base} is none"
        raise OptionError("objective", "no_decoder", message)
