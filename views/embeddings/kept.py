"""What was measured before of a part of a set, whichever models were picked together."""

from data.pairs.store import StoredPairs
from data.split import Part
from data.workspace import workspace
from embeddings.bootstrap import Figure
from views.resources.pairs import open_evaluation


def kept_figures(data: StoredPairs, part: Part, measure: str) -> dict[str, Figure]:
    """Return a figure of every model that was measured on this part of the set, by its reference, the newest."""
    paths = sorted((workspace() / "embeddings").glob("*/scores.json"), key=lambda path: -path.stat().st_mtime)
    found: dict[str, Figure] = {}
    for path in paths:
        evaluation = open_evaluation(path.parent)
        if evaluation and (evaluation.data_fingerprint, evaluation.part) == (data.fingerprint, part):
            for model, one in evaluation.measured.items():
                if measure in one.figures:
                    found.setdefault(model, one.figures[measure])
    return found
