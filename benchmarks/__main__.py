"""Run the named benchmarks, or all, and write their tables into `docs/`: `python -m benchmarks [NAME ...]`."""

import logging
import platform
import sys

from benchmarks import peers
from benchmarks.app.attackers import attackers
from benchmarks.app.comparison_page import deeper_comparison, interactions
from benchmarks.app.ten_sessions import ten_sessions
from benchmarks.app.waiting import first_page, first_visit, own_set
from benchmarks.growth import growth
from benchmarks.install import core_packages, install
from benchmarks.large import large_sets, many_sentences, tokenizer_training
from benchmarks.libraries.measure import libraries
from benchmarks.quality.bm25_values import bm25_values
from benchmarks.quality.few_questions import mixes_of_few
from benchmarks.quality.japanese import japanese
from benchmarks.quality.language_models import masked_pretraining, pretraining_ablation, sentence_training
from benchmarks.quality.languages import languages
from benchmarks.quality.late_layers import late_layers
from benchmarks.quality.lexical_options import lexical_options
from benchmarks.quality.mixes import mixes, trained_mixes
from benchmarks.quality.published import published
from benchmarks.quality.trained import pretrained_reranking, pretrained_training, reader_training, starter_training
from benchmarks.quality.training_recipes import training_recipes
from benchmarks.quality.untrained import best_without_download, long_passages
from benchmarks.serve import at_scale, serve
from benchmarks.speed.bm25 import bm25
from benchmarks.speed.dense_search import dense_search
from benchmarks.speed.file_reading import file_reading
from benchmarks.speed.late_interaction import late_interaction, late_large
from benchmarks.speed.libraries import analyzers, encoding, reranking
from benchmarks.speed.reading import reading
from benchmarks.speed.stems import stem_speed
from benchmarks.speed.training import laptop_training, training_estimate
from benchmarks.speed.whole_job import cold_and_warm, whole_job
from mrc_workbench.data.jobs.processes import hardware

_BENCHMARKS = {
    benchmark.__name__: benchmark
    for benchmark in (
        analyzers,
        at_scale,
        attackers,
        best_without_download,
        bm25,
        bm25_values,
        cold_and_warm,
        core_packages,
        deeper_comparison,
        dense_search,
        encoding,
        file_reading,
        first_page,
        first_visit,
        growth,
        install,
        interactions,
        japanese,
        languages,
        laptop_training,
        large_sets,
        late_interaction,
        late_large,
        late_layers,
        libraries,
        lexical_options,
        long_passages,
        many_sentences,
        masked_pretraining,
        mixes,
        mixes_of_few,
        trained_mixes,
        own_set,
        pretrained_reranking,
        pretrained_training,
        pretraining_ablation,
        published,
        reader_training,
        reading,
        reranking,
        sentence_training,
        serve,
        starter_training,
        stem_speed,
        ten_sessions,
        tokenizer_training,
        training_estimate,
        training_recipes,
        whole_job,
    )
}


def main(names: list[str]) -> int:
    """Run benchmarks, print their tables and write them into `docs/`; returns the exit status."""
    logging.basicConfig(level=logging.WARNING)
    if unknown := set(names) - set(_BENCHMARKS):
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(_BENCHMARKS)}", file=sys.stderr)
        return 2
    machine = _machine()
    print(machine)
    if not names:
        peers.replace_section("machine", [machine])
    for name in names or _BENCHMARKS:
        print(f"\n## {name}", flush=True)
        lines = _BENCHMARKS[name]() + (["", f"Measured with no other load on: {machine}."] if names else [])
        print("\n".join(lines), flush=True)
        peers.replace_section(name, lines)
    if peers.RESULTS.is_file():
        lines = peers.table()
        print("\n" + "\n".join(lines))
        peers.replace_section("all_peers", lines)
    return 0


def _machine() -> str:
    machine = hardware()
    cores = f"{machine['physical_cores']} cores"
    memory = f"{machine['memory'] / 2**30:.0f} GiB"
    return f"{machine['processor']}, {cores}, {memory}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
