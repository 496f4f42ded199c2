"""`python -m embeddings evaluate --data FILE --model MODEL`: sentence encoders on a set of pairs."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data.failure import Failure
from data.pairs.store import find
from data.split import Part
from data.terminal import Parser, tell, tell_progress
from embeddings import store
from embeddings.evaluate import evaluate
from embeddings.job import EmbeddingJob
from embeddings.results import Evaluation
from embeddings.tasks import carry
from jobs.command import carried_out_alone
from jobs.progress import progress_writer
from jobs.status import Status


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where a model failed, 2 where nothing could be done."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (Failure, OSError, ValueError) as error:
        tell(f"error: {error}", error=True)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m embeddings", description="Measure sentence encoders.")
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    evaluating = command("evaluate", _evaluate, "measure sentence encoders on a set of pairs")
    evaluating.add_argument("--data", required=True, help="a file of pairs, or a name of the catalog or the workspace")
    evaluating.add_argument(
        "--model", required=True, action="append", help="a folder, a run, a hub id, or starter; once for each model"
    )
    evaluating.add_argument(
        "--split", type=Part, choices=[*Part], help="the test part where there is one, else validation, or else all"
    )
    evaluating.add_argument("--json", action="store_true", help="print JSON: correlations and shares from -1 to 1")
    evaluating.add_argument("--out", type=Path, help="folder for the figures and for what they are made of")
    command("run", _run, "carry out what a page asked for").add_argument("folder", type=Path)
    return parser


def _evaluate(options: argparse.Namespace) -> int:
    evaluation = evaluate(find(options.data), options.model, options.split, on_progress=tell_progress)
    if options.json:
        tell(json.dumps(evaluation.as_dict(), ensure_ascii=False, indent=2))
    else:
        tell(table(evaluation))
    for one in evaluation.results:
        if one.error:
            tell(f"{one.model} failed: {one.error}", error=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        store.keep(evaluation, options.out)
    return int(any(one.error for one in evaluation.results))


def _run(options: argparse.Namespace) -> int:
    job = EmbeddingJob(options.folder)

    def work(began: Status) -> None:
        say = progress_writer(job, began)
        say("", 0.0)
        request = job.request()
        carry(request, find(request.data), job.folder, say)

    return carried_out_alone(job, work)


def table(evaluation: Evaluation) -> str:
    """Return the figures with their intervals as lines of text."""
    measures = [*dict.fromkeys(name for one in evaluation.measured.values() for name in one.figures)]
    width = max(len(one.model) for one in evaluation.results)
    counts = f"{len(evaluation.rows):,} {evaluation.kind.value} rows, {evaluation.sentences:,} different sentences"
    lines = [f"{counts}, {evaluation.part.value}", " ".join([" " * width, *(f"{name:>25}" for name in measures)])]
    for one in evaluation.results:
        cells = [_cell(one.figures.get(name)) for name in measures] if one.error is None else [f"{'failed':>25}"]
        lines.append(" ".join([f"{one.model:<{width}}", *cells]))
    return "\n".join(lines)


def _cell(figure: Any) -> str:
    return f"{figure.value:8.4f} {f'{figure.low:.4f} to {figure.high:.4f}':>16}" if figure else f"{'-':>25}"


if __name__ == "__main__":
    sys.exit(main())
