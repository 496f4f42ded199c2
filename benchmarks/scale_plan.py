"""What many passages take, of the rates of this machine and of assumptions that a reader replaces by their own."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.scale_rates import Rates

GIB = 2**30
# 2 for each of the 85 million parameters of BERT's 12 layers of 768 and each of 128 tokens
FLOPS_A_PASSAGE = 2 * 85e6 * 128
_HOUR, _MONTH = 3600, 730  # seconds, hours
_LINKS = 272  # bytes of a vector in a graph of 32 neighbours


@dataclass(frozen=True)
class Assumed:
    """Machines and prices (in dollars): none is measured here, each can be given as `name=value`."""

    cores: float = 16  # of a machine, each like one of the machine that was measured
    memory_gib: float = 128  # of a machine
    filled: float = 0.7  # of a machine's memory, the rest being its own
    machine_hour: float = 1.0
    gpu_hour: float = 2.5
    gpu_tflops: float = 150  # that a GPU really reaches in bfloat16, 10^12 operations a second
    object_gib_month: float = 0.023  # in object storage
    dimensions: float = 768  # of a vector
    pq_bytes: float = 96  # of a vector in product quantization: one for 8 dimensions


@dataclass(frozen=True)
class Plan:
    """Bytes, seconds and machines for `n` passages."""

    n: int
    rates: Rates
    assumed: Assumed

    def machines(self, size: float) -> float:
        """How many machines hold so many bytes in memory."""
        needed = size / (self.assumed.filled * self.assumed.memory_gib * GIB)
        return math.nan if math.isnan(needed) else math.ceil(needed)

    def times(self, machines: float) -> float:
        """How many times the machine that was measured so many machines are."""
        return machines * self.assumed.cores / self.rates.cores

    @property
    def shards(self) -> float:
        """Machines that share BM25's lists, by passage."""
        return self.machines(self.rates.index_peak * self.n)

    @property
    def core_hours(self) -> float:
        """To analyze the passages and build BM25's lists."""
        return self.n * (self.rates.cores / self.rates.analyzed + 1 / self.rates.indexed) / _HOUR

    @property
    def floats(self) -> float:
        """Bytes of the vectors in float32."""
        return 4 * self.assumed.dimensions * self.n

    @property
    def small(self) -> float:
        """Bytes of the vectors in 8 bits a dimension."""
        return self.assumed.dimensions * self.n

    @property
    def quantized(self) -> float:
        """Bytes of the vectors in product quantization."""
        return self.assumed.pq_bytes * self.n

    @property
    def machine_hours(self) -> float:
        """To encode by processors."""
        return self.n / self.rates.encoded / self.times(1) / _HOUR

    @property
    def gpu_hours(self) -> float:
        """To encode by GPUs."""
        return FLOPS_A_PASSAGE * self.n / (1e12 * self.assumed.gpu_tflops) / _HOUR

    def read(self, size: float, rate: float, machines: float) -> float:
        """Milliseconds to read so many bytes at a rate of the measured machine's, by so many machines at once."""
        return 1000 * size / (rate * self.times(machines))


@dataclass(frozen=True)
class Quantity:
    """A line of the table: a number in `unit`, and how it is computed."""

    name: str
    unit: str
    of: Callable[[Plan], float]
    how: str


def _bm25_milliseconds(plan: Plan) -> float:
    return 1000 * plan.rates.bm25_seconds * plan.n / (plan.shards * plan.assumed.cores)


def _bm25_limit(plan: Plan) -> float:
    return plan.read(8 * plan.rates.asked_postings * plan.n, plan.rates.bandwidth, plan.shards)


def _scan(plan: Plan) -> float:
    rate = plan.rates.scanned_small * plan.rates.cores
    return plan.read(plan.small, rate, plan.machines(plan.small))


def _scan_limit(plan: Plan) -> float:
    return plan.read(plan.small, plan.rates.bandwidth, plan.machines(plan.small))


def _encoding_limit(plan: Plan) -> float:
    return FLOPS_A_PASSAGE * plan.n / plan.rates.flops / plan.times(1) / _HOUR


def _kept(plan: Plan) -> float:
    return (plan.rates.text_bytes * plan.n + plan.floats) / GIB * plan.assumed.object_gib_month


def _served(plan: Plan) -> float:
    return (plan.shards + plan.machines(plan.small)) * plan.assumed.machine_hour * _MONTH


PLAN = (
    Quantity("BM25: lists", "GiB", lambda p: 8 * p.rates.postings * p.n / GIB, "8 bytes a term of a passage"),
    Quantity("while built and searched", "GiB", lambda p: p.rates.index_peak * p.n / GIB, "measured peak a passage"),
    Quantity("machines, a shard each", "", lambda p: p.shards, "that peak / memory"),
    Quantity("made in", "hours", lambda p: p.core_hours / (p.shards * p.assumed.cores), "measured, on all their cores"),
    Quantity("a question", "ms", _bm25_milliseconds, "measured; every core its part of a shard"),
    Quantity("its limit", "ms", _bm25_limit, "bytes of the question's lists / bandwidth"),
    Quantity("Vectors: float32", "GiB", lambda p: p.floats / GIB, "4 bytes a dimension"),
    Quantity("8 bits", "GiB", lambda p: p.small / GIB, "1 byte a dimension"),
    Quantity("product quantization", "GiB", lambda p: p.quantized / GIB, "`pq_bytes` a vector"),
    Quantity(
        "machines: graph (HNSW)", "", lambda p: p.machines(p.floats + _LINKS * p.n), "float32 and 272 bytes / memory"
    ),
    Quantity("machines: 8 bits", "", lambda p: p.machines(p.small), "1 byte a dimension / memory"),
    Quantity("machines: DiskANN", "", lambda p: p.machines(p.quantized), "`pq_bytes` / memory, float32 on their disks"),
    Quantity("a question to all, 8 bits", "ms", _scan, "measured; every core its part"),
    Quantity("its limit", "ms", _scan_limit, "bytes / bandwidth"),
    Quantity("Encoding: processors", "machine hours", lambda p: p.machine_hours, "measured"),
    Quantity("its limit", "machine hours", _encoding_limit, "2 operations a parameter and token / bfloat16 rate"),
    Quantity("GPUs", "GPU hours", lambda p: p.gpu_hours, "the same operations / `gpu_tflops`"),
    Quantity(
        "Cost: BM25, once",
        "$",
        lambda p: p.core_hours / p.assumed.cores * p.assumed.machine_hour,
        "core hours / `cores` × `machine_hour`",
    ),
    Quantity(
        "encoding by processors, once", "$", lambda p: p.machine_hours * p.assumed.machine_hour, "× `machine_hour`"
    ),
    Quantity("encoding by GPUs, once", "$", lambda p: p.gpu_hours * p.assumed.gpu_hour, "× `gpu_hour`"),
    Quantity("texts and float32 kept, a month", "$", _kept, "GiB × `object_gib_month`"),
    Quantity("BM25 and 8 bits served, a month", "$", _served, "their machines × 730 × `machine_hour`"),
)
