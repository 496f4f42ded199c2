"""The evaluations of readers that lie in the workspace, whichever retrievers were picked together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from data.store import StoredSet
from data.workspace import read_json, workspace
from views.resources.cached import cached


class Weight(NamedTuple):
    """The weight of the retrieval score and the unit it is told in; see `reading.depth.by_depth`."""

    weight: float
    unit: float


def latest_reading(data: StoredSet) -> Path | None:
    """Return the folder of the newest evaluation on a set; None where there is none."""
    return next((path.parent for path, _ in _of(data)), None)


def kept_weights(data: StoredSet, reader: str) -> dict[str, Weight]:
    """Return the weights that validation questions have chosen for a reader, by retriever; the newest count."""
    found: dict[str, Weight] = {}
    for _, told in _of(data):
        try:
            found = _weights(told, reader) | found
        except (AttributeError, KeyError, TypeError, ValueError):  # of another version
            continue
    return found


def _of(data: StoredSet) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The `scores.json` of evaluations on a set, the newest first."""
    paths = sorted((workspace() / "reading").glob("*/scores.json"), key=lambda path: -path.stat().st_mtime)
    for path in paths:
        told = _read(path, path.stat().st_mtime_ns)
        experiment = told.get("experiment")
        if isinstance(experiment, dict) and experiment.get("data") == data.key:
            yield path, told


def _weights(told: dict[str, Any], reader: str) -> dict[str, Weight]:
    names = [one["name"] for one in told["experiment"]["reader"] if one["model"] == reader]
    return {
        retriever: Weight(float(chosen["weight"]), float(told["units"][name][retriever]))
        for name in names
        for retriever, chosen in told["weights"][name].items()
        if chosen["chosen_on"]
    }


@cached(max_entries=64)
def _read(path: Path, written: int) -> dict[str, Any]:
    """Read one file; `written` is when that was."""
    del written
    return read_json(path)
