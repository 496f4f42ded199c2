"""Training and validation data of sentence pairs, and the training examples of each objective."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.files import current_names
from mrc_workbench.data.pairs import Label, PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import PAIR_CATALOG, find
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.texts import Texts
from mrc_workbench.labs.embeddings import judgement
from mrc_workbench.labs.embeddings.encoder import DistinctSentences
from mrc_workbench.labs.embeddings.geometry import alignment, positive_rows, uniformity
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import LOSS, Columns, Examples, Family, Measurement, OnProgress, estimate_seconds
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.text_options import SentenceBestBy, SentenceObjective, SentenceOptions, SentencePairOptions

SPEARMAN = "spearman"
PEARSON = "pearson"
ACCURACY = "accuracy"
_SAMPLE = 500  # training pairs that are evaluated in addition to validation pairs


@dataclass(frozen=True)
class PairPredictions:
    """A model's and people's scores or labels of pairs; `gold` is empty for pairs without any."""

    measure: str
    predicted: np.ndarray  # (n_pairs,) float32 cosines or scores, or int labels
    gold: np.ndarray  # (n_pairs,) float32 scores from 0 to 1, or int labels
    geometry: dict[str, float] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """Return the metrics by name. An undefined correlation, as of constant scores, is 0."""
        metrics: dict[str, float] = {}
        if self.measure == SPEARMAN:
            correlations = {
                SPEARMAN: judgement.spearman(self.predicted, self.gold),
                PEARSON: judgement.pearson(self.predicted, self.gold),
            }
            metrics = {name: value if math.isfinite(value) else 0.0 for name, value in correlations.items()}
        elif self.measure:
            metrics = {ACCURACY: float((self.predicted == self.gold).mean())}
        return metrics | self._finite_geometry

    def to_dict(self) -> dict[str, Any]:
        predicted = self.predicted.tolist()
        gold = self.gold.tolist()
        return {"measure": self.measure, "predicted": predicted, "gold": gold, "geometry": self._finite_geometry}

    @property
    def _finite_geometry(self) -> dict[str, float]:
        return {name: value for name, value in self.geometry.items() if math.isfinite(value)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        stored = current_names(stored, {"said": "predicted", "right": "gold"}, "before.json")
        dtype = np.int8 if stored["measure"] == ACCURACY else np.float32
        predicted, gold = (np.array(stored[name], dtype=dtype) for name in ("predicted", "gold"))
        return cls(stored["measure"], predicted, gold, stored["geometry"])


PairMeasurement = Measurement[PairPredictions]


@dataclass(frozen=True)
class PairTrainingData:
    """Training pairs, validation pairs for the loss, and evaluation pairs; `measure` is empty without labels."""

    train: PairSet
    validation: PairSet
    evaluation_pairs: PairSet
    sample: PairSet | None
    measure: str
    best_by: str  # selects the best checkpoint: the measure or `LOSS`
    evaluation_set_name: str

    @classmethod
    def from_pairs(cls, data: PairSet, split_options: SplitOptions, options: SentencePairOptions) -> Self:
        """Split the data and the evaluation set. Raises `DataError`, `OptionError` and `TrainingError`."""
        evaluation_set = _find_evaluation_set(data, options)
        rows = split_pairs(data, split_options)
        evaluation_rows = rows if evaluation_set is data else split_pairs(evaluation_set, split_options)
        validation = evaluation_rows[Part.VALIDATION]
        if len(rows[Part.TRAIN]) < 2 or len(validation) < 2:
            counts = f"{len(rows[Part.TRAIN])} training and {len(validation)} validation pairs are too few"
            raise TrainingError("too_few_pairs", f"{counts}: use more pairs, or change the split")
        uses_labels = evaluation_set.kind is PairKind.LABELLED and not isinstance(options, SentenceOptions)
        measure = SPEARMAN if evaluation_set.kind is PairKind.SCORED else ACCURACY if uses_labels else ""
        sample_rows = _sample_rows(rows[Part.TRAIN], min(len(validation), _SAMPLE), split_options.seed)
        return cls(
            train=data.at(rows[Part.TRAIN]),
            validation=data.at(_sample_rows(rows[Part.VALIDATION], options.evaluation_limit, split_options.seed)),
            evaluation_pairs=evaluation_set.at(_sample_rows(validation, options.evaluation_limit, split_options.seed)),
            sample=data.at(sample_rows) if measure and evaluation_set is data else None,
            measure=measure,
            best_by=measure if measure and options.best_by is SentenceBestBy.AUTO else LOSS,
            evaluation_set_name=evaluation_set.name,
        )

    def baselines(self) -> dict[str, PairMeasurement]:
        return {}

    def read_measurement(self, stored: Mapping[str, Any]) -> PairMeasurement | None:
        if stored.get("evaluation_key") != self.evaluation_pairs.fingerprint:
            return None
        return PairMeasurement.from_dict(stored, PairPredictions.from_dict)

    def summarize(self, measured: Mapping[str, PairMeasurement], options: SentencePairOptions) -> dict[str, Any]:
        validation = {name: result.validation for name, result in measured.items()}
        training = {name: result.training for name, result in measured.items() if result.training}
        scores: dict[str, Any] = {name: result.means() for name, result in validation.items()}
        if self.measure:
            scores |= _intervals_and_gain(validation, self.evaluation_sentences.groups)
        if training and self.sample_sentences:
            means = {name: result.means() for name, result in training.items()}
            gain = _intervals_and_gain(training, self.sample_sentences.groups)["gain"]
            scores["training_sample"] = {**means, "gain": gain, "questions": len(self.sample_sentences.sentence_rows)}
        sample = {"pairs": len(self.evaluation_pairs), "evaluation_set": self.evaluation_set_name}
        return scores | {"measured_on": "validation", **sample, "best_by": self.best_by}

    def require_evaluation(self, held_out: object) -> None:
        if self.best_by == LOSS and held_out is None:
            message = "there are no validation examples to select a checkpoint: set evaluation_set to a scored set"
            raise TrainingError("nothing_judges", message)

    @cached_property
    def evaluation_sentences(self) -> DistinctSentences:
        return DistinctSentences.from_pairs(self.evaluation_pairs)

    @cached_property
    def sample_sentences(self) -> DistinctSentences | None:
        return DistinctSentences.from_pairs(self.sample) if self.sample else None

    @cached_property
    def texts(self) -> list[str]:
        return self.train.sentences


def _find_evaluation_set(data: PairSet, options: SentencePairOptions) -> PairSet:
    """Return the evaluation set, by default the data. Raises `DataError` and `OptionError`."""
    if not options.evaluation_set.strip():
        return data
    evaluation_set = find(options.evaluation_set)
    expected_kind = PairKind.SCORED if isinstance(options, SentenceOptions) else data.kind
    if evaluation_set.kind is not expected_kind:
        holds = f"{evaluation_set.name} holds {evaluation_set.kind}"
        message = f"evaluation_set must name a set of {expected_kind} pairs, and {holds}"
        raise OptionError("evaluation_set", "evaluation_set", message)
    return evaluation_set


def _sample_rows(rows: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """Sample at most `limit` rows, in their order; 0: all."""
    if not 0 < limit < len(rows):
        return rows
    return np.asarray(rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit])])


def predict_pairs(pairs: PairSet, distinct: DistinctSentences, vectors: np.ndarray, measure: str) -> PairPredictions:
    """Predict scores of pairs from the vectors of their distinct sentences, `(n_sentences, dimensions)`."""
    geometry = {"uniformity": uniformity(vectors)}
    if pairs.kind is PairKind.SENTENCES:
        return PairPredictions("", np.zeros(0, np.float32), np.zeros(0, np.float32), geometry)
    first, second = (vectors[distinct.sentence_rows[:, column]] for column in range(2))
    positives = positive_rows(pairs)
    geometry = {"alignment": alignment(first[positives], second[positives]), **geometry}
    gold = pairs.gold if measure else np.zeros(0, np.float32)
    return PairPredictions(measure, judgement.cosines(first, second), gold.astype(np.float32), geometry)


def _intervals_and_gain(results: Mapping[str, PairPredictions], groups: np.ndarray) -> dict[str, Any]:
    """Return the intervals of all metrics, and the gain from before to after with its paired bootstrap interval."""
    names = [*results]
    gold = results["after"].gold
    if results["after"].measure == ACCURACY:
        hits = np.stack([result.predicted == gold for result in results.values()], axis=1).astype(np.float64)
        draws = {ACCURACY: judgement.resampled_means(hits, groups)}
        bounds = (0.0, 1.0)
    else:
        predictions = [result.predicted.astype(np.float64) for result in results.values()]
        by_rank, by_value = judgement.resampled_correlations(predictions, gold.astype(float), groups)
        draws = {SPEARMAN: by_rank, PEARSON: by_value}
        bounds = (-1.0, 1.0)
    means = {name: result.means() for name, result in results.items()}
    intervals = {
        name: {
            measure: judgement.bootstrap_interval(means[name][measure], resampled[:, column], bounds)[1:]
            for measure, resampled in draws.items()
        }
        for column, name in enumerate(names)
    }
    measure, resampled = next(iter(draws.items()))
    difference = means["after"][measure] - means["before"][measure]
    resampled_difference = resampled[:, names.index("after")] - resampled[:, names.index("before")]
    width = bounds[1] - bounds[0]
    interval = judgement.bootstrap_interval(difference, resampled_difference, (-width, width))
    gain = {"measure": measure, "difference": difference, "interval": [interval.low, interval.high]}
    if np.array_equal(results["after"].predicted, results["before"].predicted):
        gain["interval"] = [0.0, 0.0]  # the same model
    return {"intervals": intervals, "gain": gain}


class SentencePairFamily(Family):
    """Trainings on a set of sentence pairs."""

    measures = {SPEARMAN: "Spearman", PEARSON: "Pearson", ACCURACY: "Accuracy"}
    curves = (SPEARMAN, PEARSON, ACCURACY, "alignment", "uniformity")
    tag = "sentence-embeddings"

    def find(self, reference: str) -> PairSet:
        return find(reference)

    def check(self, data: PairSet, options: SentencePairOptions) -> None:
        options.check_pair_kind(data.name, data.kind)
        _find_evaluation_set(data, options)

    def texts(self, data: PairSet, options: SentencePairOptions) -> Sequence[str]:
        return data.sentences

    def describe(self, data: PairSet, split_options: SplitOptions, options: SentencePairOptions) -> dict[str, Any]:
        rows = split_pairs(data, split_options)
        parts = {f"{part.value}_pairs": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
        evaluation_set = _find_evaluation_set(data, options)
        details = {"evaluation_set": evaluation_set.name, "evaluation_set_fingerprint": evaluation_set.fingerprint}
        evaluation_details = {} if evaluation_set is data else details
        licence = next((entry.licence for entry in PAIR_CATALOG.values() if entry.title == data.name), "")
        licence_details = {"licence": licence} if licence else {}
        return {"pairs": len(data), "kind": data.kind.value, **licence_details, **parts, **evaluation_details}

    def prepare_training_data(self, data: PairSet, plan: Any, on_progress: OnProgress | None) -> PairTrainingData:
        return PairTrainingData.from_pairs(data, plan.split, plan.options)


PAIR_FAMILY = SentencePairFamily()


def make_triples(pairs: PairSet) -> tuple[list[str], np.ndarray, csr_array]:
    """Make triples from triplets or labelled pairs, without those that contain a sentence twice.

    Returns the sentences, the triples as their rows `(n, 3)` int64, and `(n_sentences, n_sentences)` pairs of sentences
    that cannot be negatives of each other. In labelled pairs, each entailment forms a triple with a contradiction of
    the same premise, in turn; premises without either form none (Gao et al. 2021, 4.1).
    """
    distinct = DistinctSentences.from_pairs(pairs)
    rows = distinct.sentence_rows
    entailed_pairs = distinct.sentence_rows[:, :2]
    if pairs.kind is PairKind.LABELLED:
        entailed_pairs = entailed_pairs[pairs.values == Label.ENTAILMENT]
        rows = _cycle_negatives(entailed_pairs, distinct.sentence_rows[pairs.values == Label.CONTRADICTION])
    sorted_rows = np.sort(rows, axis=1)
    rows = rows[(sorted_rows[:, 1:] != sorted_rows[:, :-1]).all(axis=1)]
    n = len(distinct.sentences)
    own_rows = np.arange(n)  # neither a sentence nor its entailments are its negatives
    related = np.concatenate([np.stack([own_rows, own_rows]), entailed_pairs.T], axis=1)
    relevance = csr_array((np.ones(related.shape[1], dtype=np.int32), (related[0], related[1])), shape=(n, n))
    return distinct.sentences, rows, relevance


def _cycle_negatives(entailed: np.ndarray, contradicted: np.ndarray) -> np.ndarray:
    """Give the i-th entailed pair of a premise its i-th contradicted one, starting over if they are fewer."""
    contradicted = contradicted[np.argsort(contradicted[:, 0], kind="stable")]
    premises, first, count = np.unique(contradicted[:, 0], return_index=True, return_counts=True)
    entailed = entailed[np.isin(entailed[:, 0], premises)]
    entailed = entailed[np.argsort(entailed[:, 0], kind="stable")]
    _, starts, pair_counts = np.unique(entailed[:, 0], return_index=True, return_counts=True)
    repetition = np.arange(len(entailed)) - np.repeat(starts, pair_counts)
    position = np.searchsorted(premises, entailed[:, 0])
    negatives = contradicted[first[position] + repetition % count[position], 1]
    return np.concatenate([entailed, negatives[:, None]], axis=1)


def encoder_examples(options: SentenceOptions, pairs: PairSet) -> tuple[Columns, Examples]:
    """What an objective reads of pairs, a label in the last column. Raises `TrainingError` `no_triples`."""
    match options.objective:
        case SentenceObjective.TRIPLET | SentenceObjective.SIMCSE_SUPERVISED:
            return _triplet_examples(pairs, in_batch_negatives=options.uses_in_batch_negatives)
        case SentenceObjective.SIMCSE_UNSUPERVISED:
            columns = {"sentence": pairs.sentences, "again": list(pairs.sentences)}
            return _independent_examples(columns, in_batch_negatives=True)
        case SentenceObjective.TSDAE:
            damaged_sentences = delete_words(pairs.sentences, options.deletion, options.seed)
            return _independent_examples({"damaged": damaged_sentences, "whole": pairs.sentences})
        case SentenceObjective.DISTILLATION:
            return _independent_examples(_text_columns(pairs))  # the label is a teacher's
        case SentenceObjective.NLI_SOFTMAX:
            return labelled_pairs(pairs, pairs.values)
        case SentenceObjective.COSINE | SentenceObjective.COSENT:
            return labelled_pairs(pairs, pairs.gold)


def labelled_pairs(pairs: PairSet, labels: np.ndarray) -> tuple[Columns, Examples]:
    """Both sentences and a label; any pairs may stand together."""
    columns, examples = _independent_examples(_text_columns(pairs))
    return columns | {"label": labels.tolist()}, examples


def delete_words(sentences: Sequence[str], deletion: float, seed: int) -> list[str]:
    """Delete words, split at spaces, with the probability `deletion`; at least one remains (Wang et al. 2021, 3)."""
    rng = np.random.default_rng(seed)
    texts = []
    for sentence in sentences:
        words = sentence.split()
        remains = rng.random(len(words)) >= deletion
        if words and not remains.any():
            remains[rng.integers(len(words))] = True
        texts.append(" ".join(np.array(words, dtype=object)[remains]))
    return texts


def _text_columns(pairs: PairSet) -> Columns:
    return {f"sentence_{number}": list(column) for number, column in enumerate(pairs.texts, start=1)}


def _triplet_examples(pairs: PairSet, *, in_batch_negatives: bool) -> tuple[Columns, Examples]:
    sentences, triples, relevance = make_triples(pairs)
    if not len(triples):
        message = f"{pairs.name} has no premise with both an entailed and a contradicted sentence"
        raise TrainingError("no_triples", message)
    names = ("sentence", "positive", "negative")
    rows = dict(zip(names, triples.T.tolist(), strict=True))
    columns = {name: [sentences[row] for row in column] for name, column in rows.items()}
    passage_rows = triples[:, 1:].astype(np.int32)
    lengths = _lengths(columns)
    order = np.arange(len(passage_rows))
    return columns, Examples(triples[:, 0], passage_rows, relevance, lengths, in_batch_negatives, order)


def _independent_examples(columns: Columns, *, in_batch_negatives: bool = False) -> tuple[Columns, Examples]:
    lengths = _lengths(columns)
    order = np.arange(len(lengths))
    return columns, Examples.independent(lengths, in_batch_negatives=in_batch_negatives, article=order)


def _lengths(columns: Columns) -> np.ndarray:
    return np.asarray(np.sum([[len(text) for text in column] for column in columns.values()], axis=0, dtype=float))


class TeacherVectors:
    """Labels pairs with a teacher's vectors of the first sentences. Raises `OptionError` for other dimensions."""

    def __init__(self, teacher: str, pairs: PairSet, dimensions: int, precision: Precision) -> None:
        self._teacher = teacher
        self._precision = precision
        self._dimensions = dimensions
        self._sentences: Texts = pairs.texts[0]
        teacher_dimensions = self._encoder().encode("question", ["a"]).shape[1]
        if teacher_dimensions != dimensions:
            message = f"teacher vectors have {teacher_dimensions} dimensions, those of the base {dimensions}"
            raise OptionError("teacher", "dimensions", message)

    def labels(self, on_progress: Callable[[float], None]) -> list[Any]:
        sentences, rows = self._distinct_sentences
        return list(self._encoder(on_progress).encode_sentences(sentences)[rows])

    def placeholder_labels(self) -> list[Any]:
        return [np.zeros(self._dimensions, dtype=np.float32)] * len(self._sentences)

    def estimate_seconds(self) -> float:
        encoder = self._encoder()
        sentences = sorted(self._distinct_sentences[0], key=len)
        return estimate_seconds(lambda sample: encoder.encode("question", sample), sentences)

    def _encoder(self, on_progress: Callable[[float], None] | None = None) -> BiEncoder:
        return BiEncoder(find_model(self._teacher), [], precision=self._precision, on_progress=on_progress)

    @cached_property
    def _distinct_sentences(self) -> tuple[list[str], np.ndarray]:
        sentences, rows = np.unique(np.array(list(self._sentences), dtype=object), return_inverse=True)
        return sentences.tolist(), rows
