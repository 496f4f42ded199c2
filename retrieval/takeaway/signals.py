"""The signals by which a retriever searches, in the form that engines take, and their weights.

A signal is terms weighted by BM25 or by a sparse encoder, vectors of texts, or vectors of tokens: it says what an
engine holds of passages, what a query contains, and how it scores: `score_blocks` yields scores `(some questions,
n_passages)` float64, -inf of a passage or question without a term or vector in common, with `rounded` in the precision
that Lucene stores. A retriever that is a signal, or fuses some, is exported as these; of all others, what they wrap is
exported, and the plan lists what is left out.
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
from mrc_workbench.retrieval.comparison.experiment import needed
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, MilvusSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Materials, Spec
from mrc_workbench.retrieval.dense import IndexKind, max_sim
from mrc_workbench.retrieval.lexical import Engine as BM25Engine
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.milvus import Ranker, Search, term_weights
from mrc_workbench.retrieval.mix import LearnedMix

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_SPACE = "␣"  # stands in a token for a space, at which engines cut
_QUESTIONS = 64  # scored at a time with all passages


class TakeAwayError(Failure):
    """A retriever or model that cannot be exported, or a folder that cannot be written or searched."""


class Terms:
    """BM25 over the tokens of a field: `texts` are tokens separated by spaces, of passages and of questions alike."""

    kind = "terms"

    def __init__(self, field: str, spec: BM25Spec, materials: Materials) -> None:
        self.field, self.name, self.k1, self.b = field, spec.name, spec.k1, spec.b
        texts = materials.texts(spec.title)
        self.n_passages = len(texts)
        self.analysis = spec.analysis(spec.dictionary_of(materials)).chosen(texts)
        self.tokens = tokens_of(self.analysis, texts)
        self.lengths = np.diff(self.tokens.offsets)
        self.mean_length = float(self.lengths.mean()) if len(self.lengths) else 0.0
        self._number = {term: number for number, term in enumerate(self.tokens.vocabulary)}

    @cached_property
    def weights(self) -> csr_array:
        return term_weights(self.tokens, self.k1, self.b)

    def of_passages(self, start: int, stop: int) -> list[str]:
        offsets = self.tokens.offsets[start : stop + 1]
        ids = self.tokens.ids[offsets[0] : offsets[-1]]
        return written(Tokens(self.tokens.vocabulary, ids, offsets - offsets[0]).texts())

    def of_questions(self, questions: Sequence[str]) -> list[str]:
        return written(tokens_of(self.analysis, questions).texts())

    def counts_of(self, questions: Sequence[str]) -> csr_array:
        """Return term counts, `(n_questions, n_terms)`; a term that no passage holds is left out."""
        ids, offsets = tokens_of(self.analysis, questions).flat_ids_in(self._number)
        return counts_by_term(ids, offsets, len(self._number))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        # Lucene keeps a passage's length in a byte
        weights = term_weights(self.tokens, self.k1, self.b, in_a_byte(self.lengths)) if rounded else self.weights
        return _dot_products(self.counts_of(questions), weights)


class _Encoded:
    encoder: Any

    def __init__(self, field: str, spec: DenseSpec | LateSpec | SparseSpec, materials: Materials) -> None:
        self.field, self.name = field, spec.name
        self.model, self.precision = spec.model, spec.precision
        self.source: ModelSource = materials.source(spec.model)
        self._texts = materials.texts(spec.title)
        self.n_passages = len(self._texts)


class Vectors(_Encoded):
    """A bi-encoder's vectors: the score of a passage is the cosine; see `Dense`."""

    kind = "vectors"

    def __init__(self, field: str, spec: DenseSpec, materials: Materials) -> None:
        super().__init__(field, spec, materials)
        self.index = spec.index
        self.encoder: BiEncoder = materials.encoder(spec.model, spec.title, spec.precision)

    @cached_property
    def vectors(self) -> np.ndarray:
        return self.encoder.encode_passages(self._texts)

    def of_passages(self, start: int, stop: int) -> list[list[float]]:
        return numbers(self.vectors[start:stop])

    def of_questions(self, questions: Sequence[str]) -> list[list[float]]:
        return numbers(self.encoder.encode_questions(questions))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        del rounded
        encoded = self.encoder.encode_questions(questions)
        for start in range(0, len(questions), _QUESTIONS):
            block = encoded[start : start + _QUESTIONS]
            known = np.any(block != 0, axis=1, keepdims=True)
            yield np.where(known, (block @ self.vectors.T).astype(np.float64), -np.inf)


class LateTokens(_Encoded):
    """The token vectors of late interaction: the score of a passage is that of `Late`, of every passage."""

    kind = "tokens"

    def __init__(self, field: str, spec: LateSpec, materials: Materials) -> None:
        super().__init__(field, spec, materials)
        self.layers = spec.layers
        self.encoder: TokenEncoder = spec.encoder(materials)
        self._heads = materials.passages.heads(title=spec.title)

    @property
    def network(self) -> "MultiVectorEncoder":
        """The model without the layers of other retrievers, which the encoder may read in the same pass."""
        return load_token_encoder(self.source, self.layers)

    @cached_property
    def vectors(self) -> TokenVectors:
        return self.encoder.encode_passages(self._texts, self._heads)

    def of_passages(self, start: int, stop: int) -> list[list[list[float]]]:
        return self._by_text(self.vectors.between(start, stop))

    def of_questions(self, questions: Sequence[str]) -> list[list[list[float]]]:
        _ = self.vectors  # the projection is fitted on passages
        return self._by_text(self.encoder.encode_questions(questions))

    def _by_text(self, vectors: TokenVectors) -> list[list[list[float]]]:
        return [numbers(vectors.between(row, row + 1).vectors, 4) for row in range(len(vectors))]  # half precision

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        del rounded
        passages, encoded = self.vectors, self.encoder.encode_questions(questions)
        for start in range(0, len(questions), _QUESTIONS):
            yield max_sim(encoded.between(start, start + _QUESTIONS), passages).astype(np.float64)


class SparseTerms(_Encoded):
    """The term weights of a sparse encoder, named by number: the score is the dot product; see `LearnedSparse`."""

    kind = "sparse"

    def __init__(self, field: str, spec: SparseSpec, materials: Materials) -> None:
        super().__init__(field, spec, materials)
        self.encoder: SparseTextEncoder = materials.term_encoder(spec.model, spec.title, spec.precision)

    @cached_property
    def weights(self) -> csr_array:
        return self.encoder.encode_passages(self._texts)

    def of_passages(self, start: int, stop: int) -> list[dict[str, float]]:
        return weights_by_term(self.weights[start:stop])

    def of_questions(self, questions: Sequence[str]) -> list[dict[str, float]]:
        return weights_by_term(self.encoder.encode_questions(questions))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        weights, encoded = self.weights.astype(np.float32), self.encoder.encode_questions(questions)
        if rounded:
            weights.data = in_nine_bits(weights.data)
        encoded.resize(encoded.shape[0], weights.shape[1])
        return _dot_products(encoded, weights)


def _dot_products(questions: csr_array, passages: csr_array) -> Iterator[np.ndarray]:
    columns = passages.T.tocsr()
    for start in range(0, questions.shape[0], _QUESTIONS):
        scores = (questions[start : start + _QUESTIONS] @ columns).toarray().astype(np.float64)
        yield np.where(scores > 0, scores, -np.inf)


def weights_by_term(weights: csr_array) -> list[dict[str, float]]:
    """Return each row of term weights as in JSON: weights by the number of the term, none 0."""
    rows = []
    for first, last in pairwise(weights.indptr):
        terms = zip(weights.indices[first:last].tolist(), weights.data[first:last].tolist(), strict=True)
        rows.append({str(term): float(f"{value:.7g}") for term, value in terms if value})
    return rows


def in_nine_bits(weights: np.ndarray) -> np.ndarray:
    """Return float32 weights as Lucene's feature fields store them: nine significant bits, the others cut off."""
    bits = weights.astype(np.float32).view(np.int32)
    return ((bits >> 15) << 15).view(np.float32)


def numbers(vectors: np.ndarray, digits: int = 7) -> list[list[float]]:
    """Return vectors of length 1 as in JSON: seven digits are all that float32 distinguishes."""
    return cast(list[list[float]], np.round(vectors.astype(np.float64), digits).tolist())


def projected(vectors: np.ndarray, projection: np.ndarray | None) -> np.ndarray:
    """Return token vectors, `(n, all dimensions)`, reduced to the dimensions of the projection, float32 as long."""
    wide = vectors.astype(np.float32)
    if projection is None:
        return wide
    narrow: np.ndarray = wide @ projection
    before, after = (np.linalg.norm(one, axis=1, keepdims=True) for one in (wide, narrow))
    narrow *= before / np.maximum(after, 1e-12)
    return narrow


Signal = Terms | Vectors | LateTokens | SparseTerms


def written(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return the tokens of each document as one text, at whose spaces an engine cuts."""
    return [" ".join(token.replace(" ", _SPACE) for token in tokens) for tokens in documents]


def in_a_byte(lengths: np.ndarray) -> np.ndarray:
    """Return lengths as Lucene keeps them, in a byte: exact up to 40, then with 4 significant bits, rounded down."""
    free = 24  # lengths that have a byte of their own, and are added to all others
    over = np.maximum(lengths - free, 0)
    shift = np.maximum(np.frexp(over.astype(np.float64))[1] - 4, 0)
    return np.where(lengths < free, lengths, free + ((over >> shift) << shift))


@dataclass(frozen=True)
class Part:
    """A signal of a mix, and by how much the mix rises with its score.

    That is `of_deviation` / (the standard deviation of the question's list) + `of_range` / (its range) + `constant`.
    """

    signal: Signal
    of_deviation: float = 0.0
    of_range: float = 0.0
    constant: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The exported parts of a retriever, the `depth` of their lists, and whether ranks are fused.

    `left_out` names the retrievers that no engine gets, `differs` the codes of what differs in any engine.
    """

    name: str
    parts: tuple[Part, ...]
    depth: int = 100
    by_rank: bool = False
    left_out: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()


Weighted = tuple[Plan, dict[str, float]]  # a plan and the slopes of its part


def plan_of(name: str, materials: Materials) -> Plan:
    """Return the signals of a retriever. Raises `TakeAwayError` if no engine knows any, and errors of a model."""
    local = materials.specs[name].local
    if isinstance(local, LateSpec) and (first := local.first):
        message = f"{name!r} compares only what {first!r} finds, which take-away does not export. Export {first!r}, or "
        message += "late interaction without `first` (elasticsearch, opensearch, vespa), or use langchain or llamaindex"
        raise TakeAwayError("over_candidates", message, name=name, first=first)
    plan = _Planning(materials).of(materials.specs[name])
    if not plan.parts:
        message = f"{name!r} cannot be exported: choose a retriever that uses BM25 or a model"
        raise TakeAwayError("nothing_to_take", message, name=name)
    differs = (*plan.differs, *(("left_out",) if plan.left_out else ()))
    return replace(plan, name=name, left_out=tuple(dict.fromkeys(plan.left_out)), differs=tuple(dict.fromkeys(differs)))


def foreseen(specs: Mapping[str, Spec], name: str, *, tokens: bool, sparse: bool) -> list[str]:
    """Return the codes of what surely differs in an engine, as `Plan.differs`, before anything is read.

    `tokens` and `sparse` say whether late interaction and sparse encoders are exported to the engine.
    """
    codes = list[str]()
    exported = (HybridSpec, MilvusSpec, *([SparseSpec] if sparse else []))
    for spec in (one.local for one in needed(specs, [name])):
        if isinstance(spec, BM25Spec | DenseSpec):
            codes += _differing(spec)
        elif isinstance(spec, LearnedSpec):
            codes.append("learned")
        elif not isinstance(spec, exported) and not (isinstance(spec, LateSpec) and not spec.first and tokens):
            codes.append("left_out")
    return [*dict.fromkeys(codes)]


class _Planning:
    """Resolves a retriever to its signals, and numbers their fields."""

    def __init__(self, materials: Materials) -> None:
        self._materials, self._specs = materials, materials.specs
        self._fields: Counter[str] = Counter()

    def of(self, spec: Spec) -> Plan:
        local = spec.local
        match local:
            case HybridSpec(of=names, fusion=fusion):
                weighted = zip(names, local.weights or (1.0,) * len(names), strict=True)
                slope = "of_deviation" if fusion is Fusion.Z_SCORE else "of_range"  # by rank, weights stay as they are
                plans = [(self.of(self._specs[name]), {slope: weight}) for name, weight in weighted if weight]
                return _joined(local, plans, by_rank=fusion is Fusion.RRF)
            case LearnedSpec():
                return self._learned(local)
            case MilvusSpec(fusion=Ranker.RRF):
                values = local.model_dump()
                parts = [
                    MilvusSpec.model_validate(values | {"search": search, "name": f"{spec.name} {name}"})
                    for search, name in ((Search.BM25, "BM25"), (Search.DENSE, "vectors"))
                ]
                return _joined(local, [(self.of(part), {"of_range": 1.0}) for part in parts], by_rank=True)
            case BM25Spec():
                signal: Signal = Terms(self._field("terms"), local, self._materials)
            case DenseSpec():
                signal = Vectors(self._field("vector"), local, self._materials)
            case LateSpec(first=""):
                signal = LateTokens(self._field("tokens"), local, self._materials)
            case SparseSpec():
                signal = SparseTerms(self._field("sparse"), local, self._materials)
            case RerankSpec() | LateSpec():
                first = self.of(self._specs[local.first])
                return replace(first, name=spec.name, left_out=(*first.left_out, spec.name))
            case _:
                return Plan(spec.name, (), left_out=(spec.name,))
        return Plan(spec.name, (Part(signal, constant=1.0),), differs=tuple(_differing(local)))

    def _learned(self, spec: LearnedSpec) -> Plan:
        mix = cast(LearnedMix, self._materials.part(spec.name).retriever)
        specs = [*(self._specs[name] for name in spec.of), *spec.signals(self._materials)]
        pairs = mix.learned.weights[FOLDS].reshape(-1, 2)  # each signal has two values in the mix
        plans = [
            (self.of(part), {"of_deviation": float(z), "constant": float(gap / deviation)})
            for part, (z, gap), deviation in zip(specs, pairs, mix.learned.deviations, strict=True)
        ]
        plan = _joined(spec, plans)
        return replace(plan, differs=(*plan.differs, "learned"))

    def _field(self, kind: str) -> str:
        self._fields[kind] += 1
        return kind if self._fields[kind] == 1 else f"{kind}_{self._fields[kind]}"


def _joined(spec: HybridSpec | LearnedSpec | MilvusSpec, plans: Sequence[Weighted], *, by_rank: bool = False) -> Plan:
    """Join plans of single signals; a part that is a mix itself is left out, and BM25F, which is BM25 once more."""
    parts, left_out, differs = list[Part](), list[str](), list[str]()
    for plan, slope in plans:
        if len(plan.parts) != 1 or "title_weight" in plan.differs:
            left_out.append(plan.name)
            continue
        parts.append(Part(plan.parts[0].signal, **slope))
        left_out += plan.left_out
        differs += plan.differs
    return Plan(spec.name, tuple(parts), spec.depth, by_rank, tuple(left_out), tuple(differs))


def _differing(spec: Spec) -> list[str]:
    """Return the codes of what a single signal does differently in any engine."""
    differs: dict[str, object] = {}
    if isinstance(spec, BM25Spec):
        formula = spec.engine is not BM25Engine.POSTINGS
        differs = {"feedback": spec.feedback_passages, "title_weight": spec.title_weight, "formula": formula}
    elif isinstance(spec, DenseSpec):
        approximate, precision = spec.index is not IndexKind.EXACT, spec.precision is not Precision.AUTO
        differs = {"windows": spec.windows, "approximate": approximate, "precision": precision}
    return [code for code, is_so in differs.items() if is_so]
