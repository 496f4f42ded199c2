"""An inverted index: which passages hold each term and what it adds to their scores, searched exactly.

It is put together from segments, the lists of some passages.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Write = Callable[[str, Array], None]  # appends a part to the array of a name


class Segment(NamedTuple):
    """The lists of some passages: those of `terms`, one after another, each of so many `lengths`."""

    terms: Array  # (n_lists,) uint64, no term twice
    lengths: Array  # (n_lists,) int32, 1 or more
    rows: Array  # (n_postings,) uint16
    weights: Array  # (n_postings,) float32


def in_memory(dtypes: Mapping[str, Any], fill: Callable[[Write], None]) -> dict[str, Array]:
    """Return the arrays whose parts `fill` writes."""
    parts = {name: [np.zeros(0, dtype)] for name, dtype in dtypes.items()}
    fill(lambda name, part: parts[name].append(part.astype(dtypes[name], copy=False).ravel()))
    return {name: np.concatenate(of_array) for name, of_array in parts.items()}


def in_files(folder: Path, dtypes: Mapping[str, Any], fill: Callable[[Write], None]) -> None:
    """Write the arrays whose parts `fill` writes to files of their names."""
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in dtypes}
        fill(lambda name, part: np.ascontiguousarray(part, dtype=dtypes[name]).tofile(files[name]))


def in_one(parts: list[Array]) -> Array:
    """Return the parts, at least one, as one array, and leave none of them: both would take their memory twice."""
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def first_places(ordered: Array) -> Array:
    """Return where each value of an ordered array stands first."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
