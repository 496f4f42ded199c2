"""The share of a reranker's score that its training found best on validation questions, kept beside its weights."""

import json
from pathlib import Path

from data.workspace import write_json
from models.sources import ModelSource

_FILE = "reranking.json"


_UNTRAINED_STARTER = 0.5  # it has learned nothing yet, so it decides half


def recommended_weight(source: ModelSource) -> float:
    """Return the weight saved in a cross-encoder's folder, 1.0 (the reranker alone) where there is none."""
    if source.folder is None and source.hub_id is None:
        return _UNTRAINED_STARTER
    path = source.folder / _FILE if source.folder else None
    if path is None or not path.is_file():
        return 1.0
    return float(json.loads(path.read_text(encoding="utf-8"))["weight"])


def recommend_weight(model_folder: Path, weight: float, *, chosen_on: str) -> None:
    """Save the weight and the words that say what it was chosen on."""
    write_json(model_folder / _FILE, {"weight": weight, "chosen_on": chosen_on})
