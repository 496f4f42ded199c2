"""Models that a person added to those that are measured, beside the ones that are there by themselves."""

from data.workspace import read_json, workspace, write_json
from models.sources import find_model

_FILE = "models.json"


def added() -> list[str]:
    """Return their references, the first added first."""
    models = read_json(workspace() / "embeddings" / _FILE).get("models")
    return [one for one in models if isinstance(one, str)] if isinstance(models, list) else []


def add(reference: str) -> None:
    """Add a model, once. Raises `ModelError` where there is none of this name here, and none on the hub can have it."""
    find_model(reference)
    _write([*(one for one in added() if one != reference), reference])


def remove(reference: str) -> None:
    """Remove a model from those added; its files, and what was measured of it, stay."""
    _write([one for one in added() if one != reference])


def _write(models: list[str]) -> None:
    write_json(workspace() / "embeddings" / _FILE, {"models": models})
