"""`python -m benchmarks [NAME ...]` measures everything, or what is named, and puts it where the documents show it."""

import logging
import platform
import sys

from benchmarks import peers
from benchmarks.app import attackers, comparison_page, ten_sessions, waiting
from benchmarks.quality import analyzers, language_models, lexical_options, trained, untrained
from benchmarks.scale import growth, large_sets, many_sentences, tokenizer_training
from benchmarks.speed import (
    cold_and_warm,
    dense_search,
    encoding,
    laptop_training,
    reading,
    reranking,
    training_estimate,
    whole_job,
)
from benchmarks.speed.bm25 import measure as bm25
from jobs.machine import hardware

_ALL = {
    "analyzers": analyzers.measure,
    "attackers": attackers.measure,
    "best_without_download": untrained.best_without_download,
    "bm25": bm25.measure,
    "cold_and_warm": cold_and_warm.measure,
    "deeper_comparison": comparison_page.deeper_comparison,
    "dense_search": dense_search.measure,
    "encoding": encoding.measure,
    "first_page": waiting.first_page,
    "first_visit": waiting.first_visit,
    "growth": growth.measure,
    "interactions": comparison_page.interactions,
    "laptop_training": laptop_training.measure,
    "large_sets": large_sets.measure,
    "lexical_options": lexical_options.lexical_options,
    "long_passages": untrained.long_passages,
    "many_sentences": many_sentences.measure,
    "masked_pretraining": language_models.masked_pretraining,
    "own_set": waiting.own_set,
    "pretrained_reranking": trained.pretrained_reranking,
    "pretrained_training": trained.pretrained_training,
    "pretraining_ablation": language_models.pretraining_ablation,
    "reader_training": trained.reader_training,
    "reading": reading.measure,
    "reranking": reranking.measure,
    "sentence_training": language_models.sentence_training,
    "starter_training": trained.starter_training,
    "ten_sessions": ten_sessions.measure,
    "tokenizer_training": tokenizer_training.measure,
    "training_estimate": training_estimate.measure,
    "whole_job": whole_job.measure,
}


def main(names: list[str]) -> int:
    """Measure and print; returns the exit status."""
    logging.basicConfig(level=logging.WARNING)
    if unknown := set(names) - set(_ALL):
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(_ALL)}", file=sys.stderr)
        return 2
    machine = _machine()
    print(machine)
    if not names:
        peers.put("machine", [machine])
    for name in names or _ALL:
        print(f"\n## {name}", flush=True)
        lines = _ALL[name]() + (["", f"Measured on its own on: {machine}."] if names else [])
        print("\n".join(lines), flush=True)
        peers.put(name, lines)
    if peers.RESULTS.is_file():
        lines = peers.table()
        print("\n" + "\n".join(lines))
        peers.put("all_peers", lines)
    return 0


def _machine() -> str:
    of = hardware()
    cores, memory = f"{of['physical_cores']} cores", f"{of['memory'] / 2**30:.0f} GiB"
    return f"{of['processor']}, {cores}, {memory}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
