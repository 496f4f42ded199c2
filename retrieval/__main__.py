"""`python -m retrieval compare EXPERIMENT.toml --out DIR`."""

import argparse
import sys
import time
from pathlib import Path

from data.problems import DataError
from data.store import find
from retrieval.compare import Comparison, compare
from retrieval.experiment import ExperimentError, read_experiment
from retrieval.job import Job
from retrieval.provenance import provenance
from retrieval.saved import keep, save

_SECONDS_BETWEEN_WORDS = 0.2


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where a retriever failed, 2 where nothing could be compared."""
    parser = argparse.ArgumentParser(prog="python -m retrieval", description="Compare retrievers on a question set.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("compare", help="run an experiment file")
    command.add_argument("experiment", type=Path, help="experiment file (TOML)")
    command.add_argument("--out", type=Path, required=True, help="folder for scores.json and TREC files")
    command.add_argument("--tell", action="store_true", help="note the progress in the folder (the page uses this)")
    options = parser.parse_args(arguments)
    try:
        comparison = _run(options.experiment, options.out, Job(options.out) if options.tell else None)
    except (ExperimentError, DataError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(comparison))
    for result in comparison.results:
        if result.error:
            print(f"{result.name} failed: {result.error}", file=sys.stderr)
    return int(any(result.error for result in comparison.results))


def _run(path: Path, out: Path, job: Job | None) -> Comparison:
    began, told = time.time(), 0.0

    def tell(name: str, share: float) -> None:
        nonlocal told
        if job and (share in (0, 1) or time.time() - told > _SECONDS_BETWEEN_WORDS):
            told = time.time()
            job.tell(name, share, began)
        if name and sys.stderr.isatty():
            print(f"\r{share:4.0%}  {name}\033[K", end="" if share < 1 else "\n", file=sys.stderr)

    tell("", 0.0)
    experiment = read_experiment(path)
    question_set = find(experiment.data, path.parent)
    comparison = compare(experiment, question_set, base=path.parent, on_progress=tell)
    write = keep if job else save  # what a page needs is there at once; the rest it makes when it is asked for
    write(comparison, out, provenance(comparison, question_set, path.parent))
    return comparison


def table(comparison: Comparison) -> str:
    """Return the means as lines of text."""
    width = max(len(result.name) for result in comparison.results)
    measures = [*(f"recall@{k}" for k in comparison.experiment.ks), "mrr@10", "ndcg@10"]
    lines = [f"{len(comparison.asked.questions):,} questions, {len(comparison.asked.passages):,} passages"]
    lines.append(" ".join([" " * width, *(f"{measure:>10}" for measure in measures)]))
    for result in comparison.results:
        means = result.scores.means() if result.scores else {}
        cells = (f"{means[measure]:10.4f}" if means else f"{'failed':>10}" for measure in measures)
        lines.append(" ".join([f"{result.name:<{width}}", *cells]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
