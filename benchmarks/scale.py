"""The plan past one machine: this machine's rates, written out to 100 million and a billion passages.

`python -m benchmarks.scale machine_hour=0.6 gpu_hour=1.9` prints it for other prices and machines; see `Assumed`.
"""

import math
import sys
from dataclasses import fields

from benchmarks.scale_plan import FLOPS_A_PASSAGE, PLAN, Assumed, Plan, Quantity
from benchmarks.scale_rates import Rates, measured

_SIZES = (1_000_000, 100_000_000, 1_000_000_000)


def measure() -> list[str]:
    """Return the tables of `docs/scale.md`."""
    return tables(measured(), Assumed())


def tables(rates: Rates, assumed: Assumed) -> list[str]:
    """Return the assumptions, what was measured, and the plan."""
    lines = ["| assumed | |", "|---|---:|"]
    lines += [f"| `{field.name}` | {getattr(assumed, field.name):,g} |" for field in fields(assumed)]
    lines += ["", f"| measured, {rates.cores} cores | |", "|---|---:|"]
    lines += [f"| {name} | {value} |" for name, value in _measured(rates)]
    sizes = [f"{size:,}" for size in _SIZES]
    lines += ["", f"| passages | {' | '.join(sizes)} | computed as |", "|---|---:|---:|---:|---|"]
    return lines + [_planned(quantity, rates, assumed) for quantity in PLAN]


def _measured(rates: Rates) -> list[tuple[str, str]]:
    of_bandwidth, of_flops = (
        rates.scanned * rates.cores / rates.bandwidth,
        rates.encoded * FLOPS_A_PASSAGE / rates.flops,
    )
    return [
        ("a passage: terms", shown(rates.postings)),
        ("a passage: text", shown(rates.text_bytes, "bytes")),
        ("analyzing (Kiwi + bigrams)", shown(rates.analyzed, "passages a second")),
        ("building BM25's lists, one core", shown(rates.indexed, "passages a second")),
        ("memory while they are built and searched", shown(rates.index_peak, "bytes a passage")),
        ("BM25, a question, one core", shown(rates.bm25_seconds * 1e9, "ns a passage")),
        ("encoding, 128 tokens, base size", shown(rates.encoded, "passages a second")),
        ("of the machine's bfloat16 rate", shown(100 * of_flops, "%")),
        ("exact search, float32, one core", shown(rates.scanned / 1e9, "GB a second")),
        ("all cores so, of the machine's bandwidth", shown(100 * of_bandwidth, "%")),
        ("the same, 8 bits a dimension", shown(rates.scanned_small / 1e9, "GB a second")),
        (f"graph (HNSW) of {shown(rates.graph_vectors)} vectors", shown(1000 * rates.graph_seconds, "ms a question")),
        ("limit: bandwidth, read and written", shown(rates.bandwidth / 1e9, "GB a second")),
        ("limit: bfloat16 products", shown(rates.flops / 1e9, "GFLOP a second")),
        ("limit: float32 products", shown(rates.flops_float32 / 1e9, "GFLOP a second")),
        ("limit: bfloat16 against float32", shown(rates.flops / rates.flops_float32, "times")),
    ]


def _planned(quantity: Quantity, rates: Rates, assumed: Assumed) -> str:
    values = [shown(quantity.of(Plan(size, rates, assumed)), quantity.unit) for size in _SIZES]
    return f"| {quantity.name} | {' | '.join(values)} | {quantity.how} |"


def shown(value: float, unit: str = "") -> str:
    """Return a number to three digits, of that unit."""
    if math.isnan(value):
        return "not measured"
    number = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"${number}" if unit == "$" else f"{number} {unit}".strip()


def main(words: list[str]) -> int:
    """Print the plan for what is assumed instead; returns the exit status."""
    try:
        given = {name: float(value) for name, _, value in (word.partition("=") for word in words)}
        assumed = Assumed(**given)
    except (TypeError, ValueError) as error:
        names = ", ".join(field.name for field in fields(Assumed))
        print(f"give name=value with a number, of {names}: {error}", file=sys.stderr)
        return 2
    print("\n".join(tables(measured(), assumed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
