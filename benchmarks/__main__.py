"""`python -m benchmarks [NAME ...]` measures everything, or what is named."""

import logging
import platform
import sys

from benchmarks import bm25_engines, cold_and_warm, first_page, starter_training

_ALL = {
    "bm25_engines": bm25_engines.measure,
    "cold_and_warm": cold_and_warm.measure,
    "first_page": first_page.measure,
    "starter_training": starter_training.measure,
}


def main(names: list[str]) -> int:
    """Measure and print; returns the exit status."""
    logging.basicConfig(level=logging.WARNING)
    if unknown := set(names) - set(_ALL):
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(_ALL)}", file=sys.stderr)
        return 2
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    for name in names or _ALL:
        print(f"\n## {name}", flush=True)
        print("\n".join(_ALL[name]()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
