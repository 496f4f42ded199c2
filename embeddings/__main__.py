"""`python -m embeddings evaluate --data FILE --model MODEL`: sentence encoders on a set of pairs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from data.commands import AsJson, commands_of, one_of, run
from data.pairs.store import find
from data.split import Part
from data.terminal import tell, tell_progress
from embeddings import results
from embeddings.evaluate import evaluate
from embeddings.job import EmbeddingJob
from embeddings.results import Evaluation
from embeddings.tasks import carry
from jobs.folder import request_carried_out

commands = commands_of("embeddings", "Measure sentence encoders.")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where a model failed, 2 where nothing could be done."""
    return run(commands, words)


@commands.command(name="evaluate")
def evaluate_command(
    *,
    data: Annotated[str, Parameter(help="a file of pairs, or a name of the catalog or the workspace")],
    model: Annotated[list[str], Parameter(help="a folder, a run, a hub id, or starter; once for each model")],
    split: Annotated[Part | None, one_of(Part)] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, Parameter(help="folder for the figures and for what they are made of")] = None,
) -> int:
    """Measure sentence encoders on a set of pairs: correlations and shares from -1 to 1.

    Parameters
    ----------
    split
        the test part where there is one, else validation, or else all
    """
    evaluation = evaluate(find(data), model, split, on_progress=tell_progress)
    tell(json.dumps(evaluation.as_dict(), ensure_ascii=False, indent=2) if as_json else table(evaluation))
    failed = [one for one in evaluation.results if one.error]
    for one in failed:
        tell(f"{one.model} failed: {one.error}", error=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        results.keep(evaluation, out)
    return int(bool(failed))


@commands.command(name="run", show=False)
def run_command(folder: Path, /) -> int:
    """Carry out what a page asked for."""
    job = EmbeddingJob(folder)
    return request_carried_out(job, lambda request, say: carry(request, find(request.data), folder, say))


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
