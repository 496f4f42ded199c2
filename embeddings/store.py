"""Evaluations on disk, for pages that were not there when they were made.

A folder holds `arrays.npz` and, written last, `scores.json`: a folder with scores is whole.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from data.cache import Arrays, load_arrays, save_arrays
from data.pairs.records import PairKind
from data.problems import Failure
from data.split import Part
from data.workspace import read_json, write_json
from embeddings.bootstrap import UNDEFINED, Difference, Figure
from embeddings.geometry import Map
from embeddings.judgement import Probe
from embeddings.results import Evaluation, ModelResult

_SCORES, _ARRAYS = "scores.json", "arrays.npz"


def keep(evaluation: Evaluation, folder: Path) -> None:
    """Write what `load` reads. Raises `OSError`."""
    (folder / _SCORES).unlink(missing_ok=True)  # those of another run do not belong to the arrays that follow
    arrays: Arrays = {"rows": evaluation.rows, "values": evaluation.values}
    for place, one in enumerate(evaluation.results):
        arrays |= {f"cosines_{place}": one.cosines, f"singular_values_{place}": one.singular_values}
        arrays |= {f"points_{place}": one.plane.points, f"explained_{place}": one.plane.explained}
        if one.probe:
            arrays[f"correct_{place}"] = one.probe.correct
    save_arrays(folder / _ARRAYS, arrays)
    write_json(folder / _SCORES, evaluation.as_dict())


def load(folder: Path) -> Evaluation:
    """Read an evaluation. Raises `ValueError` where the folder holds no whole one of this version."""
    scores, arrays = read_json(folder / _SCORES), load_arrays(folder / _ARRAYS)
    if not scores or arrays is None:
        raise ValueError(f"{folder} holds no finished evaluation")
    try:
        return _evaluation(scores, arrays)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} holds no evaluation of this version: {error!r}") from error


def _evaluation(scores: dict[str, Any], arrays: Arrays) -> Evaluation:
    models = scores["models"].items()
    return Evaluation(
        data=scores["data"],
        data_fingerprint=scores["fingerprint"],
        kind=PairKind(scores["kind"]),
        part=Part(scores["split"]),
        rows=arrays["rows"],
        values=arrays["values"],
        sentences=scores["sentences"],
        positives=scores["positives"],
        results=tuple(_result(name, told, arrays, place) for place, (name, told) in enumerate(models)),
        differences={name: [*map(_difference, told)] for name, told in scores["differences"].items()},
        probe_part=Part(scores["probe_split"]) if scores["probe_split"] else None,
    )


def _result(name: str, told: dict[str, Any], arrays: Arrays, place: int) -> ModelResult:
    if "error" in told:
        return ModelResult(name, error=Failure.from_dict(told))
    return ModelResult(
        name,
        {measure: _figure(told[measure], ends) for measure, ends in told["interval"].items()},
        arrays[f"cosines_{place}"],
        arrays[f"singular_values_{place}"],
        Map(arrays[f"points_{place}"], arrays[f"explained_{place}"]),
        _probe(told["probe"], arrays[f"correct_{place}"]) if "probe" in told else None,
        told["dimensions"],
        told["seconds"],
        told["fingerprint"],
    )


def _probe(told: dict[str, Any], correct: np.ndarray) -> Probe:
    confusion, trained_on = np.array(told["confusion"]), np.array([*told["trained_on"].values()])
    return Probe(correct, confusion, trained_on, told["chance"], told["strength"])


def _figure(value: float | None, ends: list[float | None]) -> Figure:
    return Figure(value, *_ends(*ends)) if value is not None else UNDEFINED


def _difference(told: dict[str, Any]) -> Difference:
    low, high = _ends(told["low"], told["high"])
    return Difference(**told | {"low": low, "high": high})


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    """The ends of an interval; those that were open are null in JSON."""
    return -math.inf if low is None else low, math.inf if high is None else high
