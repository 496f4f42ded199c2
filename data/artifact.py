"""A result as a folder: arrays and, written last, what is told of them as JSON of a type; with that it is whole."""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from data.cache import Arrays, is_sealed, load_arrays, save_arrays
from data.workspace import read_json, write_json

SCORES = "scores.json"
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Artifact(Generic[T]):
    """How results of a kind lie in their folder: `scores.json`, of the type of `content`, and a file of arrays."""

    what: str  # a person calls it
    content: TypeAdapter[T]
    arrays: str  # name of the file
    was_unsealed: bool = False  # whether earlier versions wrote such arrays without a seal

    def write(self, folder: Path, content: T, arrays: Arrays, beside: Mapping[str, object] | None = None) -> None:
        """Write arrays, JSON `beside` them by file name, then what is told of them. Raises `OSError`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES).unlink(missing_ok=True)  # those of another run do not belong to the arrays that follow
        save_arrays(folder / self.arrays, arrays)
        for name, more in (beside or {}).items():
            write_json(folder / name, more)
        write_json(folder / SCORES, self.content.dump_python(content, mode="json"))

    def read(self, folder: Path, made: Callable[[T, Arrays], R]) -> R:
        """Return what is `made` of both. Raises `ValueError` where the folder holds no whole one of this version."""
        told, arrays = read_json(folder / SCORES), self._arrays(folder / self.arrays)
        if not told or arrays is None:
            raise ValueError(f"{folder} holds no finished {self.what}")
        try:
            return made(self.content.validate_python(told), arrays)
        except (AttributeError, KeyError, TypeError, ValidationError) as error:  # JSON, but not what `write` writes
            raise ValueError(f"{folder} holds no {self.what} of this version: {error!r}") from error

    def _arrays(self, path: Path) -> Arrays | None:
        try:
            if not self.was_unsealed or is_sealed(path):
                return load_arrays(path)
            with np.load(path, allow_pickle=False) as kept:
                return dict(kept)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
