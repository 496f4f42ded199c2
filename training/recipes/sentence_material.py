"""What trainings on sentence pairs learn from and are measured on, and what each objective reads of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.pairs import Label, PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import PAIR_CATALOG, find
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.texts import Texts
from mrc_workbench.labs.embeddings.encoder import Distinct
from mrc_workbench.labs.embeddings.geometry import alignment, positive_rows, uniformity
from mrc_workbench.labs.embeddings.judgement import correlation_draws, cosines, figure, mean_draws, pearson, spearman
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import LOSS, Columns, Examples, Family, Measurement, OnProgress, seconds_for
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.text_options import JudgedBy, PairOptions, SentenceObjective, SentenceOptions

SPEARMAN, PEARSON, ACCURACY = "spearman", "pearson", "accuracy"
_SAMPLE = 500  # training pairs that are measured beside those that judge, at most


@dataclass(frozen=True)
class Judgement:
    """A model's scores or labels of pairs beside people's; `right` is empty for pairs without any."""

    measure: str
    said: np.ndarray  # (n_pairs,) float32 cosines or scores, or int labels
    right: np.ndarray  # (n_pairs,) float32 scores from 0 to 1, or int labels
    geometry: dict[str, float] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """The figures by name. A correlation that is not defined, as of constant scores, is 0."""
        known: dict[str, float] = {}
        if self.measure == SPEARMAN:
            correlations = {SPEARMAN: spearman(self.said, self.right), PEARSON: pearson(self.said, self.right)}
            known = {name: value if math.isfinite(value) else 0.0 for name, value in correlations.items()}
        elif self.measure:
            known = {ACCURACY: float((self.said == self.right).mean())}
        return known | self._finite_geometry

    def kept(self) -> dict[str, Any]:
        said, right = self.said.tolist(), self.right.tolist()
        return {"measure": self.measure, "said": said, "right": right, "geometry": self._finite_geometry}

    @property
    def _finite_geometry(self) -> dict[str, float]:
        return {name: value for name, value in self.geometry.items() if math.isfinite(value)}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        dtype = np.int8 if kept["measure"] == ACCURACY else np.float32
        said, right = (np.array(kept[name], dtype=dtype) for name in ("said", "right"))
        return cls(kept["measure"], said, right, kept["geometry"])


PairMeasurement = Measurement[Judgement]


@dataclass(frozen=True)
class PairMaterial:
    """The pairs to learn from, those of the same data that are held out, and those that a model is measured on.

    `measure` is Spearman's correlation, accuracy, or empty if the pairs that judge have no labels. `sample` are
    training pairs measured beside them; None if they have no labels, or other data judges.
    """

    train: PairSet
    validation: PairSet
    judge: PairSet
    sample: PairSet | None
    measure: str
    judged_by: str  # what picks the best checkpoint: the measure or `LOSS`
    judged_on: str  # the name of the set that judges

    @classmethod
    def of(cls, data: PairSet, shares: SplitOptions, options: PairOptions) -> Self:
        """Split the set as planned, and the one that judges. Raises `DataError`, `OptionError` and `TrainingError`."""
        judging = _judging_set(data, options)
        rows = split_pairs(data, shares)
        validation = rows[Part.VALIDATION] if judging is data else split_pairs(judging, shares)[Part.VALIDATION]
        if len(rows[Part.TRAIN]) < 2 or len(validation) < 2:
            raise TrainingError(
                "too_few_pairs",
                f"{len(rows[Part.TRAIN])} training and {len(validation)} validation pairs are too few: "
                "use more pairs, or change the split",
            )
        labelled = judging.kind is PairKind.LABELLED and not isinstance(options, SentenceOptions)
        # nobody said what is right of other pairs
        measure = SPEARMAN if judging.kind is PairKind.SCORED else ACCURACY if labelled else ""
        drawn = _some(rows[Part.TRAIN], min(len(validation), _SAMPLE), shares.seed)
        return cls(
            train=data.at(rows[Part.TRAIN]),
            validation=data.at(_some(rows[Part.VALIDATION], options.evaluation_limit, shares.seed)),
            judge=judging.at(_some(validation, options.evaluation_limit, shares.seed)),
            sample=data.at(drawn) if measure and judging is data else None,
            measure=measure,
            judged_by=measure if measure and options.best_by is JudgedBy.AUTO else LOSS,
            judged_on=judging.name,
        )

    def baselines(self) -> dict[str, PairMeasurement]:
        return {}

    def measurement(self, stored: Mapping[str, Any]) -> PairMeasurement | None:
        return PairMeasurement.of(stored, Judgement.of) if stored.get("judge") == self.judge.fingerprint else None

    def summary(self, measured: Mapping[str, PairMeasurement], options: PairOptions) -> dict[str, Any]:
        judged = {name: one.validation for name, one in measured.items()}
        learned = {name: one.training for name, one in measured.items() if one.training}
        scores: dict[str, Any] = {name: one.means() for name, one in judged.items()}
        if self.measure:
            scores |= _sure(judged, self.judged.groups)
        if learned and self.sampled:
            means = {name: one.means() for name, one in learned.items()}
            gain = _sure(learned, self.sampled.groups)["gain"]
            scores["training_sample"] = {**means, "gain": gain, "questions": len(self.sampled.places)}
        about = {"measured_on": "validation", "pairs": len(self.judge), "judged_on": self.judged_on}
        return {**scores, **about, "judged_by": self.judged_by}

    def require_judge(self, held_out: object) -> None:
        if self.judged_by == LOSS and held_out is None:
            message = "nothing is held out whose loss could pick a checkpoint: name a scored set to be judged on"
            raise TrainingError("nothing_judges", message)

    @cached_property
    def judged(self) -> Distinct:
        return Distinct.of(self.judge)

    @cached_property
    def sampled(self) -> Distinct | None:
        return Distinct.of(self.sample) if self.sample else None

    @cached_property
    def texts(self) -> list[str]:
        return self.train.sentences


def _judging_set(data: PairSet, options: PairOptions) -> PairSet:
    """Return the set whose validation part judges a model. Raises `DataError` and `OptionError`."""
    if not options.judged_on.strip():
        return data
    judging = find(options.judged_on)
    wanted = PairKind.SCORED if isinstance(options, SentenceOptions) else data.kind
    if judging.kind is not wanted:
        message = f"judged_on must name a set of {wanted} pairs, and {judging.name} holds {judging.kind}"
        raise OptionError("judged_on", "judged_on", message)
    return judging


def _some(rows: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Sample at most so many of the rows, in their order; all if `most` is 0."""
    if not 0 < most < len(rows):
        return rows
    return np.asarray(rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:most])])


def judgement(pairs: PairSet, distinct: Distinct, vectors: np.ndarray, measure: str) -> Judgement:
    """Judge pairs by the vectors of their distinct sentences, `(n_sentences, dimensions)`."""
    geometry = {"uniformity": uniformity(vectors)}
    if pairs.kind is PairKind.SENTENCES:
        return Judgement("", np.zeros(0, np.float32), np.zeros(0, np.float32), geometry)
    first, second = (vectors[distinct.places[:, column]] for column in range(2))
    alike = positive_rows(pairs)
    geometry = {"alignment": alignment(first[alike], second[alike]), **geometry}
    right = pairs.gold if measure else np.zeros(0, np.float32)
    return Judgement(measure, cosines(first, second), right.astype(np.float32), geometry)


def _sure(judged: Mapping[str, Judgement], groups: np.ndarray) -> dict[str, Any]:
    """The intervals of every figure, and the gain from before to after with that of the paired bootstrap."""
    names, right = [*judged], judged["after"].right
    if judged["after"].measure == ACCURACY:
        hits = np.stack([one.said == right for one in judged.values()], axis=1).astype(np.float64)
        draws, ends = {ACCURACY: mean_draws(hits, groups)}, (0.0, 1.0)
    else:
        said = [one.said.astype(np.float64) for one in judged.values()]
        by_rank, by_value = correlation_draws(said, right.astype(float), groups)
        draws, ends = {SPEARMAN: by_rank, PEARSON: by_value}, (-1.0, 1.0)
    means = {name: one.means() for name, one in judged.items()}
    intervals = {
        name: {measure: figure(means[name][measure], drawn[:, column], ends)[1:] for measure, drawn in draws.items()}
        for column, name in enumerate(names)
    }
    measure, drawn = next(iter(draws.items()))
    difference = means["after"][measure] - means["before"][measure]
    drawn_difference = drawn[:, names.index("after")] - drawn[:, names.index("before")]
    interval = figure(difference, drawn_difference, (ends[0] - ends[1], ends[1] - ends[0]))
    gain = {"measure": measure, "difference": difference, "interval": [interval.low, interval.high]}
    if np.array_equal(judged["after"].said, judged["before"].said):
        gain["interval"] = [0.0, 0.0]  # the same model: nothing is open
    return {"intervals": intervals, "gain": gain}


class SentencePairs(Family):
    """Trainings on a set of sentence pairs."""

    measures = {SPEARMAN: "Spearman", PEARSON: "Pearson", ACCURACY: "Accuracy"}
    curves = (SPEARMAN, PEARSON, ACCURACY, "alignment", "uniformity")
    tag = "sentence-embeddings"

    def find(self, reference: str) -> PairSet:
        return find(reference)

    def check(self, data: PairSet, options: PairOptions) -> None:
        options.require_fitting(data.name, data.kind)
        _judging_set(data, options)

    def texts(self, data: PairSet, options: PairOptions) -> Sequence[str]:
        return data.sentences

    def about(self, data: PairSet, shares: SplitOptions, options: PairOptions) -> dict[str, Any]:
        rows = split_pairs(data, shares)
        parts = {f"{part.value}_pairs": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
        judging = _judging_set(data, options)
        judged = {} if judging is data else {"judged_on": judging.name, "judged_on_fingerprint": judging.fingerprint}
        licence = next((entry.licence for entry in PAIR_CATALOG.values() if entry.title == data.name), "")
        licensed = {"licence": licence} if licence else {}
        return {"pairs": len(data), "kind": data.kind.value, **licensed, **parts, **judged}

    def material(self, data: PairSet, plan: Any, tell: OnProgress | None = None) -> PairMaterial:
        return PairMaterial.of(data, plan.split, plan.options)


PAIRS = SentencePairs()


def triples_of(pairs: PairSet) -> tuple[list[str], np.ndarray, csr_array]:
    """Make triples of triplets or of labelled pairs, without those that hold a sentence twice.

    Returns the sentences, the triples as their rows `(n, 3)` int64, and which sentences are no negatives of which,
    `(n_sentences, n_sentences)`.
    Of labelled pairs, each entailment becomes a triple with a contradiction of the same premise, its contradictions
    taken in turn; premises without either make none (Gao et al. 2021, 4.1).
    """
    distinct = Distinct.of(pairs)
    rows, follows = distinct.places, distinct.places[:, :2]
    if pairs.kind is PairKind.LABELLED:
        follows = follows[pairs.values == Label.ENTAILMENT]
        rows = _in_turn(follows, distinct.places[pairs.values == Label.CONTRADICTION])
    ordered = np.sort(rows, axis=1)
    rows = rows[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
    n = len(distinct.sentences)
    itself = np.arange(n)  # a sentence is no negative of itself, nor is what follows from it in any row
    related = np.concatenate([np.stack([itself, itself]), follows.T], axis=1)
    relevance = csr_array((np.ones(related.shape[1], dtype=np.int32), (related[0], related[1])), shape=(n, n))
    return distinct.sentences, rows, relevance


def _in_turn(entailed: np.ndarray, contradicted: np.ndarray) -> np.ndarray:
    """Give the i-th entailed pair of a premise its i-th contradicted one, starting over if they are fewer."""
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
    """What an objective reads of pairs, a label in the last column. Raises `TrainingError` `no_triples`."""
    match options.objective:
        case SentenceObjective.TRIPLET | SentenceObjective.SIMCSE_SUPERVISED:
            return _triples(pairs, contrasts=options.contrasts)
        case SentenceObjective.SIMCSE_UNSUPERVISED:
            return _apart({"sentence": pairs.sentences, "again": list(pairs.sentences)}, contrasts=True)
        case SentenceObjective.TSDAE:
            words_left = damaged(pairs.sentences, options.deletion, options.seed)
            return _apart({"damaged": words_left, "whole": pairs.sentences})
        case SentenceObjective.DISTILLATION:
            return _apart(_texts(pairs))  # the label is a teacher's
        case SentenceObjective.NLI_SOFTMAX:
            return labelled_pairs(pairs, pairs.values)
        case SentenceObjective.COSINE | SentenceObjective.COSENT:
            return labelled_pairs(pairs, pairs.gold)


def labelled_pairs(pairs: PairSet, labels: np.ndarray) -> tuple[Columns, Examples]:
    """Both sentences and a label; any pairs may stand together."""
    columns, examples = _apart(_texts(pairs))
    return columns | {"label": labels.tolist()}, examples


def damaged(sentences: Sequence[str], deletion: float, seed: int) -> list[str]:
    """Delete words, split at spaces, with the probability `deletion`; at least one is left (Wang et al. 2021, 3)."""
    rng = np.random.default_rng(seed)
    texts = []
    for sentence in sentences:
        words = sentence.split()
        stays = rng.random(len(words)) >= deletion
        if len(words) and not stays.any():
            stays[rng.integers(len(words))] = True
        texts.append(" ".join(word for word, is_left in zip(words, stays, strict=True) if is_left))
    return texts


def _texts(pairs: PairSet) -> Columns:
    return {f"sentence_{number}": list(column) for number, column in enumerate(pairs.texts, start=1)}


def _triples(pairs: PairSet, *, contrasts: bool) -> tuple[Columns, Examples]:
    sentences, triples, relevance = triples_of(pairs)
    if not len(triples):
        message = f"{pairs.name} holds no premise with both an entailed and a contradicted sentence"
        raise TrainingError("no_triples", message)
    columns = {
        name: [sentences[row] for row in column.tolist()]
        for name, column in zip(("sentence", "positive", "negative"), triples.T, strict=True)
    }
    shown = triples[:, 1:].astype(np.int32)
    lengths, order = _lengths(columns), np.arange(len(shown))
    return columns, Examples(triples[:, 0], shown, relevance, lengths, contrasts, order)


def _apart(columns: Columns, *, contrasts: bool = False) -> tuple[Columns, Examples]:
    lengths = _lengths(columns)
    return columns, Examples.apart(lengths, contrasts=contrasts, article=np.arange(len(lengths)))


def _lengths(columns: Columns) -> np.ndarray:
    return np.asarray(np.sum([[len(text) for text in column] for column in columns.values()], axis=0, dtype=float))


class TeachersVectors:
    """A teacher's normalized vectors, `(dimensions,)` float32 each, one of every pair's first sentence.

    They are stored in the workspace. Raises `OptionError` if the student has other `dimensions`.
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
