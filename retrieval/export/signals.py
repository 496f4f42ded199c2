"""The signals of a retriever, in the form that engines support, and their weights.

A signal is terms weighted by BM25 or a sparse encoder, vectors of texts, or vectors of tokens. It has values for
passages and questions, and `score_blocks` yields scores `(some questions, n_passages)` float64, -inf without a shared
term or vector, with `rounded` in the precision of Lucene. A retriever that is a signal, or fuses signals, is exported
completely; of other retrievers, only the components are exported, and the plan lists the omitted retriever.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.split.partition import FOLDS
from mrc_workbench.data.text.analysis import Tokens, tokens_of
from mrc_workbench.models.encoders import BiEncoder, SparseTextEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.experiment import with_dependencies
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, MilvusSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext, Spec
from mrc_workbench.retrieval.dense import IndexKind, max_sim
from mrc_workbench.retrieval.lexical import BM25Engine, counts_by_term
from mrc_workbench.retrieval.milvus import MilvusSearchMode, Ranker, term_weights
from mrc_workbench.retrieval.mix import LearnedMix

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_SPACE = "␣"  # replaces a space in a token, because engines split at spaces
_BLOCK_QUESTIONS = 64  # scored together with all passages


class ExportError(Failure):
    """A retriever or model that cannot be exported, or an invalid folder."""


class Terms:
    """BM25 over the tokens of a field; values are tokens separated by spaces."""

    kind = "terms"

    def __init__(self, field: str, spec: BM25Spec, context: RetrieverContext) -> None:
        self.field = field
        self.name = spec.name
        self.k1 = spec.k1
        self.b = spec.b
        texts = context.texts(spec.title)
        self.n_passages = len(texts)
        self.analysis = spec.analysis(spec.load_dictionary(context)).resolved(texts)
        self.tokens = tokens_of(self.analysis, texts)
        self.lengths = np.diff(self.tokens.offsets)
        self.mean_length = float(self.lengths.mean()) if len(self.lengths) else 0.0
        self._term_ids = {term: number for number, term in enumerate(self.tokens.vocabulary)}

    @cached_property
    def weights(self) -> csr_array:
        return term_weights(self.tokens, self.k1, self.b)

    def passage_values(self, start: int, stop: int) -> list[str]:
        offsets = self.tokens.offsets[start : stop + 1]
        ids = self.tokens.ids[offsets[0] : offsets[-1]]
        return join_tokens(Tokens(self.tokens.vocabulary, ids, offsets - offsets[0]).texts())

    def question_values(self, questions: Sequence[str]) -> list[str]:
        return join_tokens(tokens_of(self.analysis, questions).texts())

    def term_counts(self, questions: Sequence[str]) -> csr_array:
        ids, offsets = tokens_of(self.analysis, questions).flat_ids_in(self._term_ids)
        return counts_by_term(ids, offsets, len(self._term_ids))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        weights = term_weights(self.tokens, self.k1, self.b, round_to_byte(self.lengths)) if rounded else self.weights
        return _dot_products(self.term_counts(questions), weights)


class _EncoderSignal:
    encoder: Any

    def __init__(self, field: str, spec: DenseSpec | LateSpec | SparseSpec, context: RetrieverContext) -> None:
        self.field = field
        self.name = spec.name
        self.model = spec.model
        self.precision = spec.precision
        self.source: ModelSource = context.source(spec.model)
        self._texts = context.texts(spec.title)
        self.n_passages = len(self._texts)


class Vectors(_EncoderSignal):
    """The vectors of a bi-encoder; the score is the cosine, see `Dense`."""

    kind = "vectors"

    def __init__(self, field: str, spec: DenseSpec, context: RetrieverContext) -> None:
        super().__init__(field, spec, context)
        self.index = spec.index
        self.encoder: BiEncoder = context.encoder(spec.model, spec.title, spec.precision)

    @cached_property
    def vectors(self) -> np.ndarray:
        return self.encoder.encode_passages(self._texts)

    def passage_values(self, start: int, stop: int) -> list[list[float]]:
        return to_rounded_lists(self.vectors[start:stop])

    def question_values(self, questions: Sequence[str]) -> list[list[float]]:
        return to_rounded_lists(self.encoder.encode_questions(questions))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        del rounded
        encoded = self.encoder.encode_questions(questions)
        for start in range(0, len(questions), _BLOCK_QUESTIONS):
            block = encoded[start : start + _BLOCK_QUESTIONS]
            known = np.any(block != 0, axis=1, keepdims=True)
            yield np.where(known, (block @ self.vectors.T).astype(np.float64), -np.inf)


class LateTokens(_EncoderSignal):
    """The token vectors of late interaction, which scores all passages; see `LateInteraction`."""

    kind = "tokens"

    def __init__(self, field: str, spec: LateSpec, context: RetrieverContext) -> None:
        super().__init__(field, spec, context)
        self.layers = spec.layers
        self.encoder: TokenEncoder = spec.encoder(context)
        self._title_lengths = context.passages.title_lengths(title=spec.title)

    @property
    def network(self) -> "MultiVectorEncoder":
        """The model with the layers of this retriever only; the encoder may share a pass with others."""
        return load_token_encoder(self.source, self.layers)

    @cached_property
    def vectors(self) -> TokenVectors:
        return self.encoder.encode_passages(self._texts, self._title_lengths)

    def passage_values(self, start: int, stop: int) -> list[list[list[float]]]:
        return self._by_text(self.vectors.between(start, stop))

    def question_values(self, questions: Sequence[str]) -> list[list[list[float]]]:
        self.encoder.fit(self._texts, self._title_lengths)
        return self._by_text(self.encoder.encode_questions(questions))

    def _by_text(self, vectors: TokenVectors) -> list[list[list[float]]]:
        texts = (vectors.between(row, row + 1) for row in range(len(vectors)))
        return [to_rounded_lists(text.vectors, 4) for text in texts]  # half precision

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        del rounded
        passages = self.vectors
        encoded = self.encoder.encode_questions(questions)
        for start in range(0, len(questions), _BLOCK_QUESTIONS):
            yield max_sim(encoded.between(start, start + _BLOCK_QUESTIONS), passages).astype(np.float64)


class SparseTerms(_EncoderSignal):
    """The term weights of a sparse encoder by term number; the score is the dot product, see `SparseRetriever`."""

    kind = "sparse"

    def __init__(self, field: str, spec: SparseSpec, context: RetrieverContext) -> None:
        super().__init__(field, spec, context)
        self.encoder: SparseTextEncoder = context.term_encoder(spec.model, spec.title, spec.precision)

    @cached_property
    def weights(self) -> csr_array:
        return self.encoder.encode_passages(self._texts)

    def passage_values(self, start: int, stop: int) -> list[dict[str, float]]:
        return weights_by_term(self.weights[start:stop])

    def question_values(self, questions: Sequence[str]) -> list[dict[str, float]]:
        return weights_by_term(self.encoder.encode_questions(questions))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        weights = self.weights.astype(np.float32)
        encoded = self.encoder.encode_questions(questions)
        if rounded:
            weights.data = round_to_nine_bits(weights.data)
        encoded.resize(encoded.shape[0], weights.shape[1])
        return _dot_products(encoded, weights)


def _dot_products(questions: csr_array, passages: csr_array) -> Iterator[np.ndarray]:
    columns = passages.T.tocsr()
    for start in range(0, questions.shape[0], _BLOCK_QUESTIONS):
        scores = (questions[start : start + _BLOCK_QUESTIONS] @ columns).toarray().astype(np.float64)
        yield np.where(scores > 0, scores, -np.inf)


def weights_by_term(weights: csr_array) -> list[dict[str, float]]:
    """Return each row's weights above 0 by term number, for JSON."""
    rows = []
    for first, last in pairwise(weights.indptr):
        terms = zip(weights.indices[first:last].tolist(), weights.data[first:last].tolist(), strict=True)
        rows.append({str(term): float(f"{value:.7g}") for term, value in terms if value})
    return rows


def round_to_nine_bits(weights: np.ndarray) -> np.ndarray:
    """Return float32 weights as Lucene's feature fields store them: truncated to nine significant bits."""
    bits = weights.astype(np.float32).view(np.int32)
    return ((bits >> 15) << 15).view(np.float32)


def to_rounded_lists(vectors: np.ndarray, digits: int = 7) -> list[list[float]]:
    """Return vectors of length 1 for JSON; float32 has seven significant digits."""
    return cast(list[list[float]], np.round(vectors.astype(np.float64), digits).tolist())


def project(vectors: np.ndarray, projection: np.ndarray | None) -> np.ndarray:
    """Project token vectors `(n, dimensions)` to fewer dimensions, float32 of the same lengths."""
    wide = vectors.astype(np.float32)
    if projection is None:
        return wide
    narrow: np.ndarray = wide @ projection
    before, after = (np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in (wide, narrow))
    narrow *= before / np.maximum(after, 1e-12)
    return narrow


Signal = Terms | Vectors | LateTokens | SparseTerms


def join_tokens(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return the tokens of each document as a text that engines split at spaces."""
    return [" ".join(token.replace(" ", _SPACE) for token in tokens) for tokens in documents]


def round_to_byte(lengths: np.ndarray) -> np.ndarray:
    """Return lengths as Lucene stores them in a byte: exact up to 40, then rounded down to 4 significant bits."""
    exact_lengths = 24  # lengths with a byte each, which Lucene adds to all others
    over = np.maximum(lengths - exact_lengths, 0)
    shift = np.maximum(np.frexp(over.astype(np.float64))[1] - 4, 0)
    return np.where(lengths < exact_lengths, lengths, exact_lengths + ((over >> shift) << shift))


@dataclass(frozen=True)
class WeightedSignal:
    """A signal of a mix, and the slope of the mix's score over the signal's score.

    The slope is `per_deviation` / (standard deviation of the question's list) + `per_range` / (its range) + `constant`.
    """

    signal: Signal
    per_deviation: float = 0.0
    per_range: float = 0.0
    constant: float = 0.0


@dataclass(frozen=True)
class ExportPlan:
    """The exported signals of a retriever, the `depth` of their lists, and whether ranks are fused.

    `left_out` names the omitted retrievers, `differences` are codes of what differs in any engine.
    """

    name: str
    parts: tuple[WeightedSignal, ...]
    depth: int = 100
    by_rank: bool = False
    left_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


Weighted = tuple[ExportPlan, dict[str, float]]  # the plan of a signal, and its slopes


def plan_export(name: str, context: RetrieverContext) -> ExportPlan:
    """Return the signals of a retriever. Raises `ExportError` if no engine supports any, and errors of a model."""
    local = context.specs[name].local_spec
    if isinstance(local, LateSpec) and (first := local.first_stage):
        advice = (
            "late interaction without `first_stage` (elasticsearch, opensearch, vespa), or use langchain or llamaindex"
        )
        problem = f"{name!r} scores only the results of {first!r}, which `export` does not support"
        message = f"{problem}. Export {first!r}, or {advice}"
        raise ExportError("over_candidates", message, name=name, first=first)
    plan = _Planner(context).plan(context.specs[name])
    if not plan.parts:
        message = f"{name!r} cannot be exported: choose a retriever that uses BM25 or a model"
        raise ExportError("nothing_to_take", message, name=name)
    differences = dict.fromkeys([*plan.differences, *(["left_out"] if plan.left_out else [])])
    return replace(plan, name=name, left_out=tuple(dict.fromkeys(plan.left_out)), differences=tuple(differences))


def expected_differences(specs: Mapping[str, Spec], name: str, *, tokens: bool, sparse: bool) -> list[str]:
    """Return the codes of `ExportPlan.differences` that are known before models are loaded.

    `tokens` and `sparse` are True if the engine supports late interaction and sparse encoders.
    """
    codes = list[str]()
    exported = (HybridSpec, MilvusSpec, *([SparseSpec] if sparse else []))
    for spec in (component.local_spec for component in with_dependencies(specs, [name])):
        if isinstance(spec, BM25Spec | DenseSpec):
            codes += _difference_codes(spec)
        elif isinstance(spec, LearnedSpec):
            codes.append("learned")
        elif not isinstance(spec, exported) and not (isinstance(spec, LateSpec) and not spec.first_stage and tokens):
            codes.append("left_out")
    return [*dict.fromkeys(codes)]


class _Planner:
    """Resolves a retriever to its signals, with numbered fields."""

    def __init__(self, context: RetrieverContext) -> None:
        self._context = context
        self._specs = context.specs
        self._fields: Counter[str] = Counter()

    def plan(self, spec: Spec) -> ExportPlan:
        local = spec.local_spec
        match local:
            case HybridSpec(retrievers=names, fusion=fusion):
                weighted = zip(names, local.weights or (1.0,) * len(names), strict=True)
                slope = "per_deviation" if fusion is Fusion.Z_SCORE else "per_range"
                plans = [(self.plan(self._specs[name]), {slope: weight}) for name, weight in weighted if weight]
                return _join_plans(local, plans, by_rank=fusion is Fusion.RRF)
            case LearnedSpec():
                return self._learned(local)
            case MilvusSpec(fusion=Ranker.RRF):
                values = local.model_dump()
                searches = [
                    MilvusSpec.model_validate(values | {"search": search, "name": f"{spec.name} {name}"})
                    for search, name in ((MilvusSearchMode.BM25, "BM25"), (MilvusSearchMode.DENSE, "vectors"))
                ]
                return _join_plans(local, [(self.plan(part), {"per_range": 1.0}) for part in searches], by_rank=True)
            case BM25Spec():
                signal: Signal = Terms(self._field("terms"), local, self._context)
            case DenseSpec():
                signal = Vectors(self._field("vector"), local, self._context)
            case LateSpec(first_stage=""):
                signal = LateTokens(self._field("tokens"), local, self._context)
            case SparseSpec():
                signal = SparseTerms(self._field("sparse"), local, self._context)
            case RerankSpec() | LateSpec():
                first = self.plan(self._specs[local.first_stage])
                return replace(first, name=spec.name, left_out=(*first.left_out, spec.name))
            case _:
                return ExportPlan(spec.name, (), left_out=(spec.name,))
        part = WeightedSignal(signal, constant=1.0)
        return ExportPlan(spec.name, (part,), differences=tuple(_difference_codes(local)))

    def _learned(self, spec: LearnedSpec) -> ExportPlan:
        mix = cast(LearnedMix, self._context.get_retriever(spec.name).retriever)
        specs = [*(self._specs[name] for name in spec.retrievers), *spec.signals(self._context)]
        pairs = mix.learned.weights[FOLDS].reshape(-1, 2)  # each signal has two values in the mix
        plans = [
            (self.plan(part), {"per_deviation": float(z), "constant": float(gap / deviation)})
            for part, (z, gap), deviation in zip(specs, pairs, mix.learned.deviations, strict=True)
        ]
        plan = _join_plans(spec, plans)
        return replace(plan, differences=(*plan.differences, "learned"))

    def _field(self, kind: str) -> str:
        self._fields[kind] += 1
        return kind if self._fields[kind] == 1 else f"{kind}_{self._fields[kind]}"


def _join_plans(
    spec: HybridSpec | LearnedSpec | MilvusSpec, plans: Sequence[Weighted], *, by_rank: bool = False
) -> ExportPlan:
    """Join plans of single signals; nested mixes are left out, and BM25F, which repeats BM25."""
    parts = list[WeightedSignal]()
    left_out = list[str]()
    differences = list[str]()
    for plan, slope in plans:
        if len(plan.parts) != 1 or "title_weight" in plan.differences:
            left_out.append(plan.name)
        else:
            parts.append(WeightedSignal(plan.parts[0].signal, **slope))
            left_out += plan.left_out
            differences += plan.differences
    return ExportPlan(spec.name, tuple(parts), spec.top_k, by_rank, tuple(left_out), tuple(differences))


def _difference_codes(spec: Spec) -> list[str]:
    """Return the codes of what differs for a single signal in any engine."""
    differences: dict[str, object] = {}
    if isinstance(spec, BM25Spec):
        differences = {"feedback": spec.fb_docs, "title_weight": spec.title_weight}
        differences["formula"] = spec.engine is not BM25Engine.POSTINGS
    elif isinstance(spec, DenseSpec):
        differences = {"windows": spec.windows, "approximate": spec.index is not IndexKind.EXACT}
        differences["precision"] = spec.precision is not Precision.AUTO
    return [code for code, is_so in differences.items() if is_so]
