"""`mrc embeddings evaluate --data FILE --model MODEL`: sentence encoders on sentence pairs."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, one_of, stop_message
from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.split import Part
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.evaluate import evaluate
from mrc_workbench.labs.embeddings.results import Evaluation

commands = commands_of("embeddings", "Evaluate sentence encoders.")


@commands.command(name="evaluate")
def evaluate_command(
    *,
    data: Annotated[str, Parameter(help="sentence pairs: a path, or a name or key of the catalog or the workspace")],
    model: Annotated[list[str], Parameter(help="a folder, a run, a hub id or starter; several after one flag")],
    split: Annotated[Part | None, one_of(Part)] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, Parameter(help="folder for scores.json and its arrays")] = None,
) -> int:
    """Evaluate sentence encoders on sentence pairs.

    Correlations and fractions are from -1 to 1.

    Parameters
    ----------
    split
        the test part if there is one, else validation, else all
    """
    with stop_message("Stopped. Vectors encoded so far are kept: run the same command again to continue."):
        evaluation = evaluate(find(data), model, split, on_progress=report_progress)
    end_progress_line()
    tell(json.dumps(evaluation.as_dict(), ensure_ascii=False, indent=2) if as_json else table(evaluation))
    failed = [one for one in evaluation.results if one.error]
    for one in failed:
        tell(f"{one.model} failed: {one.error}", error=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        results.keep(evaluation, out)
    return int(bool(failed))


def table(evaluation: Evaluation) -> str:
    """Return the figures with their intervals as lines of text."""
    measures = [*dict.fromkeys(name for one in evaluation.measured.values() for name in one.figures)]
    counts = f"{len(evaluation.rows):,} {evaluation.kind.value} rows, {evaluation.sentences:,} different sentences"
    rows = []
    for one in evaluation.results:
        cells = []
        for name in measures if one.error is None else ():
            figure = one.figures.get(name)
            interval = f"{figure.low:.4f} to {figure.high:.4f}" if figure else ""
            cells.append(f"{figure.value:8.4f} {interval:>16}" if figure else "-")
        rows.append((one.model, cells or ["failed"]))
    return "\n".join([f"{counts}, {evaluation.part.value}", *aligned(measures, rows, 25)])
