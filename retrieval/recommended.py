"""The share of a reranker's score that its training found best on validation questions, kept beside its weights."""

import json
from pathlib import Path

from data.workspace import write_text

_FILE = "reranking.json"


def recommended_weight(model_folder: Path | None) -> float:
    """Return the weight saved in a cross-encoder's folder, 1.0 (the reranker alone) where there is none."""
    path = model_folder / _FILE if model_folder else None
    if path is None or not path.is_file():
        return 1.0
    return float(json.loads(path.read_text(encoding="utf-8"))["weight"])


def recommend_weight(model_folder: Path, weight: float, *, chosen_on: str) -> None:
    """Save the weight and the words that say what it was chosen on."""
    write_text(model_folder / _FILE, json.dumps({"weight": weight, "chosen_on": chosen_on}, indent=1) + "\n")
