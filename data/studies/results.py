"""Results as folders: `scores.json` of a typed result, and the arrays of its fields in `arrays.npz`.

Declare a result as a dataclass or pydantic model. Annotate arrays as `Array`, floats that may be infinite or NaN as
`Number`, and errors as `StoredError`; pydantic does the rest.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, SerializationInfo, TypeAdapter, ValidationError
from pydantic_core.core_schema import ValidationInfo

from mrc_workbench.data.cache import SCORES, Arrays, load_arrays, save_arrays
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.workspace import read_json, write_json

Result = TypeVar("Result")
ARRAYS = "arrays.npz"


def _store_array(array: np.ndarray, info: SerializationInfo) -> Any:
    """Put the array beside the JSON if arrays are collected there; else write its values into the JSON."""
    if info.context is None:
        return array.tolist()
    name = f"array_{len(info.context)}"
    info.context[name] = array
    return {"array": name}


def _load_array(value: Any, info: ValidationInfo) -> np.ndarray:
    if isinstance(value, dict) and info.context is not None:
        array: np.ndarray = info.context[value["array"]]
        return array
    return np.asarray(value)


def _store_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _store_error(error: Exception) -> dict[str, object]:
    kind = f"{type(error).__module__}:{type(error).__qualname__}" if isinstance(error, Failure) else ""
    return failure_dict(error) | ({"kind": kind} if kind else {})


def _load_error(value: Any) -> Exception:
    """Return the error as a `Failure`; its class is found again if its module has been imported, as a page's has."""
    if isinstance(value, Exception):
        return value
    content = dict(value)
    name = str(content.pop("kind", "")).rpartition(":")[2]
    kinds = {kind.__qualname__: kind for kind in _failure_kinds(Failure)}
    return kinds.get(name, Failure).from_dict(content)


def _failure_kinds(kind: type[Failure]) -> list[type[Failure]]:
    return [kind, *(below for direct in kind.__subclasses__() for below in _failure_kinds(direct))]


Array = Annotated[np.ndarray, PlainValidator(_load_array), PlainSerializer(_store_array)]
Number = Annotated[float, BeforeValidator(float), PlainSerializer(_store_number)]
StoredError = Annotated[Exception, PlainValidator(_load_error), PlainSerializer(_store_error)]


@dataclass(frozen=True)
class ResultFolder(Generic[Result]):
    """Saves and loads results of one type. `what` names them in error messages."""

    what: str
    kind: TypeAdapter[Result]

    def save(self, folder: Path, result: Result) -> None:
        """Write the arrays and, last, the JSON: a folder with `scores.json` is complete. Raises `OSError`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES).unlink(missing_ok=True)  # an earlier result does not belong to the arrays that follow
        arrays: Arrays = {}
        content = self.kind.dump_python(result, mode="json", context=arrays)
        if arrays:
            save_arrays(folder / ARRAYS, arrays)
        write_json(folder / SCORES, content)

    def load(self, folder: Path) -> Result:
        """Read a result. Raises `ValueError` if the folder holds no complete result of this version."""
        content = read_json(folder / SCORES)
        arrays = load_arrays(folder / ARRAYS) if (folder / ARRAYS).exists() else {}
        if not content or arrays is None:
            raise ValueError(f"{folder} holds no finished {self.what}")
        try:
            return self.kind.validate_python(content, context=arrays)
        except (KeyError, TypeError, ValidationError) as error:
            raise ValueError(f"{folder} holds no {self.what} of this version: {error!r}") from error
