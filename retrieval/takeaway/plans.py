"""What a retriever comes to for an engine: the signals that it searches by, and what each of them counts.

A retriever that is a signal, or fuses some, is taken away as these; of all others, what they wrap is taken away, and
what is lost is told.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from data.split import FOLDS
from models.precision import Precision
from retrieval.comparison.experiment import needed
from retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, MilvusSpec
from retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from retrieval.comparison.spec import Materials, Spec
from retrieval.dense import IndexKind
from retrieval.hybrid import Fusion
from retrieval.lexical.engines import Engine as BM25Engine
from retrieval.milvus.retriever import Ranker, Search
from retrieval.mix import LearnedMix
from retrieval.takeaway.signals import LateTokens, Signal, TakeAwayError, Terms, Vectors


@dataclass(frozen=True)
class Part:
    """A signal of a mix, whose slope tells by how much the mix rises with its score.

    It is `of_deviation` / (the standard deviation of the question's list) + `of_range` / (its range) + `constant`.
    """

    signal: Signal
    of_deviation: float = 0.0
    of_range: float = 0.0
    constant: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What of a retriever is taken away: its parts, the `depth` of their lists, and whether ranks are fused.

    `left_out` names the retrievers that no engine is given, `differs` the codes of what is otherwise in any engine.
    """

    name: str
    parts: tuple[Part, ...]
    depth: int = 100
    by_rank: bool = False
    left_out: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()


def plan_of(name: str, materials: Materials) -> Plan:
    """Return what of a retriever made of the materials is taken away; see the module.

    Raises `TakeAwayError` where nothing of it is known to an engine, and what a model or a dictionary raises.
    """
    plan = _Planning(materials).of(materials.specs[name])
    if not plan.parts:
        message = f"{name!r} searches by nothing that an engine is given: take a retriever of BM25 or a bi-encoder"
        raise TakeAwayError("nothing_to_take", message, name=name)
    differs = (*plan.differs, *(("left_out",) if plan.left_out else ()))
    return replace(plan, name=name, left_out=tuple(dict.fromkeys(plan.left_out)), differs=tuple(dict.fromkeys(differs)))


def foreseen(specs: Mapping[str, Spec], name: str, *, tokens: bool) -> list[str]:
    """Return the codes of what is surely otherwise in an engine, as `Plan.differs`, before anything is read.

    `tokens` tells whether the engine knows late interaction.
    """
    codes = list[str]()
    for spec in (one.local for one in needed(specs, [name])):
        if isinstance(spec, BM25Spec):
            codes += _of_bm25(spec)
        elif isinstance(spec, DenseSpec):
            codes += _of_dense(spec)
        elif isinstance(spec, LearnedSpec):
            codes.append("learned")
        elif not isinstance(spec, HybridSpec | MilvusSpec) and not (isinstance(spec, LateSpec) and tokens):
            codes.append("left_out")
    return [*dict.fromkeys(codes)]


class _Planning:
    """Goes down from a retriever to the signals, and numbers their fields."""

    def __init__(self, materials: Materials) -> None:
        self._materials, self._fields = materials, {"terms": 0, "vector": 0, "tokens": 0}

    def of(self, spec: Spec) -> Plan:
        match spec.local:
            case BM25Spec() as local:
                signal = Terms(self._field("terms"), local, self._materials)
                plan = Plan(spec.name, (Part(signal, constant=1.0),), differs=tuple(_of_bm25(local)))
            case DenseSpec() as local:
                of_model = Vectors(self._field("vector"), local, self._materials)
                plan = Plan(spec.name, (Part(of_model, constant=1.0),), differs=tuple(_of_dense(local)))
            case HybridSpec() as local:
                plan = self._fused(local)
            case LearnedSpec() as local:
                plan = self._learned(local)
            case MilvusSpec(fusion=Ranker.RRF) as local:
                plan = self._milvus(local)
            case LateSpec(first="") as local:
                of_tokens = LateTokens(self._field("tokens"), local, self._materials)
                plan = Plan(spec.name, (Part(of_tokens, constant=1.0),))
            case RerankSpec() | LateSpec() as local:
                first = self.of(self._materials.specs[local.first])
                plan = replace(first, left_out=(*first.left_out, spec.name))
            case _:
                plan = Plan(spec.name, (), left_out=(spec.name,))
        return plan

    def _fused(self, spec: HybridSpec) -> Plan:
        weighed = zip(spec.of, spec.weights or (1.0,) * len(spec.of), strict=True)
        parts = [(self._materials.specs[one], weight) for one, weight in weighed if weight]
        by_range = spec.fusion is not Fusion.Z_SCORE  # by rank, the weights stay as they are
        told = [(self.of(one), {"of_range" if by_range else "of_deviation": weight}) for one, weight in parts]
        return _joined(spec, told, by_rank=spec.fusion is Fusion.RRF)

    def _learned(self, spec: LearnedSpec) -> Plan:
        """Take the two values that each signal has in the mix as the slope that they come to."""
        mix = self._materials.part(spec.name).retriever
        if not isinstance(mix, LearnedMix):
            raise TypeError(f"{spec.name!r} is no learned mix")
        of, own = [self._materials.specs[one] for one in spec.of], list(spec.signals(self._materials))
        pairs = mix.learned.weights[FOLDS].reshape(-1, 2)
        told = [
            (self.of(one), {"of_deviation": float(z), "constant": float(gap / deviation)})
            for one, (z, gap), deviation in zip([*of, *own], pairs, mix.learned.deviations, strict=True)
        ]
        plan = _joined(spec, told)
        return replace(plan, differs=(*plan.differs, "learned"))

    def _milvus(self, spec: MilvusSpec) -> Plan:
        lexical = MilvusSpec.model_validate(spec.model_dump() | {"search": Search.BM25, "name": f"{spec.name} BM25"})
        dense = MilvusSpec.model_validate(spec.model_dump() | {"search": Search.DENSE, "name": f"{spec.name} vectors"})
        told = [(self.of(one), {"of_range": 1.0}) for one in (lexical, dense)]
        return _joined(spec, told, by_rank=True)

    def _field(self, kind: str) -> str:
        self._fields[kind] += 1
        return kind if self._fields[kind] == 1 else f"{kind}_{self._fields[kind]}"


def _joined(
    spec: HybridSpec | LearnedSpec | MilvusSpec, told: Sequence[tuple[Plan, dict[str, float]]], *, by_rank: bool = False
) -> Plan:
    """Join plans of single signals; a part that is a mix itself is left out, and BM25F, which is BM25 once more."""
    parts, left_out, differs = list[Part](), list[str](), list[str]()
    for plan, slope in told:
        if len(plan.parts) != 1 or "title_weight" in plan.differs:
            left_out.append(plan.name)
            continue
        parts.append(Part(plan.parts[0].signal, **slope))
        left_out += plan.left_out
        differs += plan.differs
    return Plan(spec.name, tuple(parts), spec.depth, by_rank, tuple(left_out), tuple(differs))


def _of_bm25(spec: BM25Spec) -> Iterator[str]:
    if spec.feedback_passages:
        yield "feedback"
    if spec.title_weight:
        yield "title_weight"
    if spec.engine is not BM25Engine.POSTINGS:
        yield "formula"


def _of_dense(spec: DenseSpec) -> Iterator[str]:
    if spec.windows:
        yield "windows"
    if spec.index is not IndexKind.EXACT:
        yield "approximate"
    if spec.precision is not Precision.AUTO:
        yield "precision"
