"""`python -m retrieval compare EXPERIMENT.toml --out DIR`, what is done with comparisons that are kept, `encode`."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data.failure import Failure
from data.store import find
from data.terminal import Parser, tell, tell_progress
from jobs.command import carried_out_alone
from jobs.detached import handed_over
from jobs.folder import GoesOn
from jobs.progress import progress_writer
from jobs.status import Status
from retrieval.analysis.figures import shown_measures
from retrieval.comparison.compare import Comparison, compare, search_light
from retrieval.comparison.experiment import read_experiment
from retrieval.comparison.job import ComparisonJob
from retrieval.comparison.pace import Pace
from retrieval.comparison.provenance import provenance
from retrieval.comparison.store import damaged_comparisons, delete, keep, kept_comparisons, load, origin_of, rename
from retrieval.dense import encode as encode_corpus
from retrieval.preparation import ship, write_bases
from retrieval.report.words import LANGUAGES


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where a retriever failed, 2 where nothing could be done."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except KeyError as error:
        tell(f"error: no comparison is kept as {error}; `python -m retrieval list` shows those there are", error=True)
        return 2
    except (Failure, OSError, ValueError) as error:
        tell(f"error: {error}", error=True)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m retrieval", description="Compare retrievers on a question set.")
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    comparing = command("compare", _compare, "run an experiment file")
    comparing.add_argument("experiment", type=Path, help="experiment file (TOML)")
    comparing.add_argument("--tell", action="store_true", help="only what the page needs, with the progress noted")
    comparing.add_argument("--rest", action="store_true", help="what needs no model was searched by another process")
    listing = command("list", _list, "list the comparisons kept in the workspace, the newest first")
    listing.add_argument("--json", action="store_true", help="print JSON")
    encode_corpus.add_arguments(command("encode", _encode, encode_corpus.HELP))
    command("ship", _ship, "make again what comes with the sample: its tokens, after it or its analyzer has changed")
    exporting = command("export", _export, "write all files of a kept comparison")
    for writing in (comparing, exporting):
        writing.add_argument("--out", type=Path, required=True, help="folder for figures, report, TREC and BEIR files")
        writing.add_argument("--language", choices=LANGUAGES, default="en", help="language of the report")
    renaming = command("rename", _rename, "give a kept comparison a name")
    deleting = command("delete", _delete, "remove a kept comparison")
    for naming in (exporting, renaming, deleting):
        naming.add_argument("key", metavar="KEY", help="its key, as list shows it")
    renaming.add_argument("name", metavar="NAME", help="its new name")
    return parser


def _compare(options: argparse.Namespace) -> int:
    if options.tell:  # the page waits for no more than it needs, and makes the rest when it is asked for
        return _compare_for_the_page(options)
    comparison, origin = _compared(options.experiment, tell_progress)
    status = _report(comparison)  # first: a full disk takes no figures away
    from retrieval.report.files import save  # draws with a library that a page's job does not wait for

    save(comparison, options.out, origin, options.language)
    return status


def _compare_for_the_page(options: argparse.Namespace) -> int:
    """Compare as a job: what needs no model at once, the rest in a process that has read a model's libraries."""
    job, reported, is_left = ComparisonJob(options.out), 0, False
    least = job.status().seconds_left  # as told by the process that began

    def work(began: Status) -> None:
        nonlocal reported, is_left
        pace = Pace(least)
        tell = _finished_too(job, progress_writer(job, began, lambda: pace.seconds_left))
        tell("", 0.0)
        path = options.experiment
        if not options.rest:
            experiment = read_experiment(path)
            found = find(experiment.data, path.parent)
            is_left = search_light(experiment, found, base=path.parent, on_progress=tell, pace=pace)
            if is_left:
                raise GoesOn
        comparison, origin = _compared(path, tell, pace)
        reported = _report(comparison)
        keep(comparison, options.out, origin)

    status = carried_out_alone(job, work)
    if is_left and not job.asked_to_stop:
        words = ("compare", options.experiment, "--out", options.out, "--tell", "--rest")
        if process := handed_over("retrieval", *words, log=options.out / "log.txt"):
            write_bases(read_experiment(options.experiment))  # while that one reads its libraries
            process.wait()
            return 0 if job.done else 2
        options.rest = True  # where nobody has read the libraries they are read here
        return _compare_for_the_page(options)
    return status or reported


def _finished_too(job: ComparisonJob, tell: Callable[[str, float], None]) -> Callable[[str, float], None]:
    """Have the job's progress name each retriever once it is done: the page shows its figures."""
    at_work = ""

    def tell_more(name: str, share: float) -> None:
        nonlocal at_work
        if at_work and name != at_work:
            job.add_progress({"finished": at_work})
        at_work = name
        tell(name, share)

    return tell_more


def _compared(
    path: Path, on_progress: Callable[[str, float], None], pace: Pace | None = None
) -> tuple[Comparison, dict[str, Any]]:
    on_progress("", 0.0)
    experiment = read_experiment(path)
    question_set = find(experiment.data, path.parent)
    comparison = compare(experiment, question_set, base=path.parent, on_progress=on_progress, pace=pace)
    return comparison, provenance(comparison, question_set, path.parent)


def _report(comparison: Comparison) -> int:
    """Print the table and what failed; returns the exit status."""
    tell(table(comparison))
    for result in comparison.results:
        if result.error:
            tell(f"{result.name} failed: {result.error}", error=True)
    return int(any(result.error for result in comparison.results))


def _encode(options: argparse.Namespace) -> int:
    def follow(share: float) -> None:
        if sys.stderr.isatty():
            print(f"\r{share:4.0%}\033[K", end="" if share < 1 else "\n", file=sys.stderr)

    tell("\n".join(encode_corpus.encode(options, follow)))
    return 0


def _list(options: argparse.Namespace) -> int:
    kept = kept_comparisons()
    for key in damaged_comparisons():
        tell(f"{key} cannot be read: it is damaged, or of another version", error=True)
    if options.json:
        tell(json.dumps([asdict(one) | {"folder": str(one.folder)} for one in kept], ensure_ascii=False, indent=2))
    for one in () if options.json else kept:
        names = ", ".join(one.retrievers)
        tell(f"{one.key}  {one.made[:16]}  {one.name or one.data} ({one.part}, {one.questions:,} questions): {names}")
    return 0


def _ship(options: argparse.Namespace) -> int:
    del options
    ship()
    return 0


def _export(options: argparse.Namespace) -> int:
    from retrieval.report.files import save

    kept = {one.key: one for one in kept_comparisons()}[options.key]
    comparison = load(kept.folder, find(kept.reference, kept.folder))
    save(comparison, options.out, origin_of(kept.folder), options.language)
    return 0


def _rename(options: argparse.Namespace) -> int:
    rename(options.key, options.name)
    return 0


def _delete(options: argparse.Namespace) -> int:
    delete(options.key)
    return 0


def table(comparison: Comparison) -> str:
    """Return the means as lines of text."""
    width = max(len(result.name) for result in comparison.results)
    measures = shown_measures(comparison)
    lines = [
        f"{len(comparison.question_set.questions):,} questions, {len(comparison.question_set.passages):,} passages"
    ]
    lines.append(" ".join([" " * width, *(f"{measure:>10}" for measure in measures)]))
    for result in comparison.results:
        means = result.scores.means() if result.scores else {}
        missing = f"{'-' if means else 'failed':>10}"
        cells = (f"{means[measure]:10.4f}" if measure in means else missing for measure in measures)
        lines.append(" ".join([f"{result.name:<{width}}", *cells]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
