"""A retriever's models as ONNX, in float and in 8 bits, and what that changes: measured while they are written.

Both are held against the model they are made of, on some of the questions compared, each with the first passages that
the retriever found and those that answer it; see `retrieval.takeaway.networks` for how they are written.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np

from data.records import QuestionSet
from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.encoders.protocols import TokenVectors
from models.encoders.token_encoder import TokenEncoder
from models.precision import Precision
from models.sources import is_starter
from retrieval.comparison.compare import Comparison
from retrieval.comparison.first_stage import DenseSpec, LateSpec
from retrieval.comparison.multistage import RerankSpec
from retrieval.comparison.spec import Materials, Spec
from retrieval.evaluation.measures import CUT, evaluate
from retrieval.late import max_sim
from retrieval.rankings import NOT_FOUND, Rankings, ranked
from retrieval.takeaway.fusion import MEASURE
from retrieval.takeaway.networks import FORMS, write_network
from retrieval.takeaway.signals import TakeAwayError, projected

_QUESTIONS, _CANDIDATES = 100, 10  # that the models are held against
Tell = Callable[[float], None]
ReadingSpecs = DenseSpec | LateSpec | RerankSpec
Said = tuple[np.ndarray, np.ndarray]  # scores of candidates, `(n_questions, n)`; and numbers to compare, `(n, m)`


@dataclass(frozen=True)
class ModelFigure:
    """What a model says as ONNX, against the model itself, on so many `questions`.

    `agreement` and `agreement_int8` are the lowest cosine of two vectors of one text or token; of a cross-encoder, the
    correlation of the scores. nDCG@10 is of the candidates alone; seconds are of the same texts on the same cores, and
    bytes those of the network's file.
    """

    retriever: str
    model: str
    kind: Literal["dense", "late", "rerank"]
    place: str
    questions: int
    agreement: float
    agreement_int8: float
    ndcg: float
    ndcg_float: float
    ndcg_int8: float
    seconds: float
    seconds_float: float
    seconds_int8: float
    bytes_float: int
    bytes_int8: int


_MEASURED = [field.name for field in fields(ModelFigure)][5:]


def write_models(
    folder: Path, comparison: Comparison, materials: Materials, name: str, on_progress: Tell
) -> list[ModelFigure]:
    """Write each model that a retriever reads with into a folder of its own, and return what was measured.

    Raises `TakeAwayError` where it reads with none that is a transformer (`no_network`), or where what writes them is
    not installed (`no_onnx`).
    """
    try:
        import onnxruntime.quantization  # noqa: F401
    except ImportError as error:
        raise TakeAwayError("no_onnx", "ONNX is not installed: pip install -r requirements/onnx.txt") from error
    specs = [spec for spec in comparison.experiment.needed([name]) if _has_network(spec, materials)]
    if not specs:
        raise TakeAwayError("no_network", f"{name!r} reads with no transformer: there is nothing to write", name=name)
    asked = _Asked.of(comparison, name)
    found = []
    for number, spec in enumerate(specs):

        def tell(share: float, number: int = number) -> None:
            on_progress((number + share) / len(specs))

        reader = _Reader.of(spec, materials, asked)
        found.append(_written(folder, f"model_{number + 1}", spec, reader, tell))
    return found


def _has_network(spec: Spec, materials: Materials) -> TypeGuard[ReadingSpecs]:
    return isinstance(spec, DenseSpec | LateSpec | RerankSpec) and not is_starter(materials.source(spec.model))


@dataclass(frozen=True)
class _Asked:
    """Questions drawn from those compared, `candidates` `(n_questions, n)` rows of passages for each, -1 for none."""

    question_set: QuestionSet
    candidates: np.ndarray

    @classmethod
    def of(cls, comparison: Comparison, name: str) -> "_Asked":
        whole = comparison.question_set
        drawn = np.sort(np.random.default_rng(0).permutation(len(whole.questions))[:_QUESTIONS])
        part, first = whole.with_questions(drawn), comparison.rankings[name].indices[drawn, :_CANDIDATES]
        rows = [np.unique(np.concatenate([found, part.relevance[[row]].indices])) for row, found in enumerate(first)]
        candidates = np.full((len(rows), max(map(len, rows))), NOT_FOUND)
        for row, found in enumerate(rows):
            candidates[row, : len(found)] = found
        return cls(part, candidates)

    @property
    def questions(self) -> list[str]:
        return [question.text for question in self.question_set.questions]

    @property
    def rows(self) -> np.ndarray:
        """Rows of all candidates, each once."""
        return np.unique(self.candidates[self.candidates != NOT_FOUND])

    def ndcg(self, scores: np.ndarray) -> float:
        """Return nDCG@10 of candidates in the order of their scores, `(n_questions, n)`."""
        found: Rankings = ranked(self.candidates, scores, CUT)
        return evaluate(found, self.question_set, (CUT,)).means()[MEASURE]


def _written(folder: Path, place: str, spec: ReadingSpecs, reader: "_Reader", tell: Tell) -> ModelFigure:
    asked = reader.asked
    write_network(folder / place, reader.kind, reader.model, reader.projection)
    tell(0.2)
    said, seconds = [], []
    for number, say in enumerate([reader.say, *(reader.as_onnx(folder / place, form) for form in FORMS)]):
        say(2)  # what is made ready with the first texts is no part of the time
        began = time.perf_counter()
        said.append(say(None))
        seconds.append(time.perf_counter() - began)
        tell(0.2 + 0.8 * (number + 1) / 3)
    agreements = [reader.agreement(said[0][1], other) for _, other in said[1:]]
    sizes = [(folder / place / form).stat().st_size for form in FORMS]
    ndcg = [asked.ndcg(scores) for scores, _ in said]
    measured = dict(zip(_MEASURED, (*agreements, *ndcg, *seconds, *sizes), strict=True))
    return ModelFigure(spec.name, spec.model, reader.kind, place, len(asked.questions), **measured)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Reader:
    """A model that says something of the questions asked and their candidates: as it is, or as ONNX."""

    kind: Literal["dense", "late", "rerank"]
    encoder: BiEncoder | TokenEncoder | CrossEncoderScorer
    asked: _Asked
    texts: Sequence[str]  # of the corpus
    projection: np.ndarray | None = None

    @classmethod
    def of(cls, spec: ReadingSpecs, materials: Materials, asked: _Asked) -> "_Reader":
        source, texts = materials.source(spec.model), materials.texts(spec.title)
        exact = Precision.FLOAT32
        match spec:
            case DenseSpec():
                return cls("dense", BiEncoder(source, texts, precision=exact), asked, texts)
            case RerankSpec():
                return cls("rerank", CrossEncoderScorer(source, texts, precision=exact), asked, texts)
        encoder = TokenEncoder(source, texts, precision=exact, dimensions=spec.dimensions)
        encoder.fit(texts)
        return cls("late", encoder, asked, texts, encoder.projection)

    @property
    def model(self) -> Any:
        return self.encoder.model

    def say(self, most: int | None) -> Said:
        """Say it by torch, of `most` texts or of all."""
        match self.encoder:
            case BiEncoder() as encoder:
                return self._of_vectors(encoder.encode, most)
            case TokenEncoder() as encoder:
                return self._of_tokens(lambda texts, side: self._projected(encoder.encode(side, texts)), most)
        return self._of_pairs(self.encoder.score, most)

    def as_onnx(self, place: Path, form: str) -> Callable[[int | None], Said]:
        """Return what says it by the network of this form in a folder."""
        import torch

        from retrieval.takeaway.scripts.encode import Model

        model = Model(place, form, torch.get_num_threads())
        match self.kind:
            case "dense":
                return lambda most: self._of_vectors(lambda side, texts: model.encode(texts, side), most)
            case "late":
                return lambda most: self._of_tokens(model.encode_tokens, most)
        return lambda most: self._of_pairs(model.score, most)

    def agreement(self, torch_says: np.ndarray, other: np.ndarray) -> float:
        if torch_says.shape != other.shape:
            return 0.0
        if self.kind == "rerank":
            return float(np.corrcoef(torch_says[:, 0], other[:, 0])[0, 1])
        lengths = np.linalg.norm(torch_says, axis=1) * np.linalg.norm(other, axis=1)
        return float(((torch_says * other).sum(axis=1) / np.maximum(lengths, 1e-12)).min())

    def _of_vectors(self, encode: Callable[[str, Sequence[str]], np.ndarray], most: int | None) -> Said:
        rows = self.asked.rows[:most]
        questions = encode("question", self.asked.questions[:most])
        passages = encode("passage", [self.texts[row] for row in rows.tolist()])
        return self._scored(questions @ passages.T, rows), np.concatenate([questions, passages])

    def _of_tokens(self, encode: Callable[[Sequence[str], str], list[np.ndarray]], most: int | None) -> Said:
        rows = self.asked.rows[:most]
        questions = encode(self.asked.questions[:most], "question")
        passages = encode([self.texts[row] for row in rows.tolist()], "passage")
        scores = max_sim(TokenVectors.of(questions), TokenVectors.of(passages))
        return self._scored(scores, rows), np.concatenate([*questions, *passages]).astype(np.float32)

    def _of_pairs(self, score: Callable[[Sequence[tuple[str, str]]], np.ndarray], most: int | None) -> Said:
        rows, places = (found[:most] for found in np.nonzero(self.asked.candidates != NOT_FOUND))
        questions, passages = self.asked.questions, self.asked.candidates[rows, places].tolist()
        said = score([(questions[row], self.texts[one]) for row, one in zip(rows.tolist(), passages, strict=True)])
        scores = np.full(self.asked.candidates.shape, -np.inf)
        scores[rows, places] = said
        return scores, said[:, None]

    def _scored(self, scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the scores `(n_questions, len(rows))` as those of the candidates."""
        if len(rows) < len(self.asked.rows):  # of some texts, to make ready
            return scores
        found = np.take_along_axis(scores, np.searchsorted(rows, np.maximum(self.asked.candidates, rows[0])), axis=1)
        return np.where(self.asked.candidates != NOT_FOUND, found, -np.inf)

    def _projected(self, tokens: list[np.ndarray]) -> list[np.ndarray]:
        return [projected(one, self.projection) for one in tokens]
