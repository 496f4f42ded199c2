"""Comparisons of tokenizers on disk, for pages that were not there when they were made.

A folder holds the tokenizers themselves (`tokenizers/<name>/tokenizer.json`), how often each of their pieces occurs
(`occurrences.npz`) and, written last, the figures (`scores.json`): a folder with scores is whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from data.cache import load_arrays, save_arrays
from data.problems import Failure
from data.workspace import read_json, write_json
from language.tokenizers.comparison import Measured
from language.tokenizers.fertility import Fertility
from language.tokenizers.prepared import PreparedTokenizer, load_tokenizer

TOKENIZERS = "tokenizers"  # the folder of all of them
_SCORES, _OCCURRENCES = "scores.json", "occurrences.npz"
_MEASURED: TypeAdapter[list[Measured]] = TypeAdapter(list[Measured])


@dataclass(frozen=True)
class KeptTokenizer:
    """A tokenizer that was compared, and how often each piece `(n_pieces,)` occurs in what was counted."""

    measured: Measured
    figures: Fertility
    folder: Path
    occurrences: np.ndarray

    @property
    def is_trained(self) -> bool:
        """Whether it was trained for the comparison, and not brought by a model."""
        return bool(self.measured.trained)

    def load(self) -> PreparedTokenizer:
        """Load it. Raises `LanguageError` `no_tokenizer`."""
        return load_tokenizer(self.folder, self.measured.name)


@dataclass(frozen=True)
class KeptComparison:
    """What was measured on `corpus`; pieces were counted in the first `counted` of its documents.

    `failed` has the reasons of those that have no figures, by name.
    """

    corpus: str
    counted: int
    tokenizers: tuple[KeptTokenizer, ...]
    failed: dict[str, Failure]


def folder_of(measured: Measured, place: int) -> str:
    """Return what the folder of a tokenizer is called, the one at `place` (from 0) of a comparison.

    A trained one is called as `TokenizerOptions.name`; the name of a model may be a path, and is none.
    """
    trained = measured.trained
    return f"{trained['kind']}-{trained['split']}-{trained['vocabulary']}" if trained else f"model-{place}"


def keep(folder: Path, corpus: str, found: Sequence[Measured], occurrences: Sequence[np.ndarray], counted: int) -> None:
    """Write what `load` reads, beside tokenizers that stand there; `occurrences` are of those that have figures.

    Raises `OSError`.
    """
    (folder / _SCORES).unlink(missing_ok=True)  # those of another run do not belong to what follows
    places = [str(place) for place, one in enumerate(found) if one.figures]
    save_arrays(folder / _OCCURRENCES, dict(zip(places, occurrences, strict=True)))
    write_json(folder / _SCORES, {"corpus": corpus, "counted": counted, "tokenizers": [asdict(one) for one in found]})


def load(folder: Path) -> KeptComparison:
    """Read a comparison. Raises `ValueError` where the folder holds no whole one of this version."""
    told, arrays = read_json(folder / _SCORES), load_arrays(folder / _OCCURRENCES)
    if not told or arrays is None:
        raise ValueError(f"{folder} holds no finished comparison of tokenizers")
    try:
        found = _MEASURED.validate_python(told["tokenizers"])
        kept = [_kept(folder, one, place, arrays) for place, one in enumerate(found) if one.figures]
        failed = {one.name: one.refusal.failure for one in found if one.refusal}
        return KeptComparison(str(told["corpus"]), int(told["counted"]), tuple(kept), failed)
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"{folder} holds no comparison of tokenizers of this version: {error!r}") from error


def _kept(folder: Path, one: Measured, place: int, arrays: Mapping[str, Any]) -> KeptTokenizer:
    if one.figures is None:
        raise KeyError(one.name)
    return KeptTokenizer(one, one.figures, folder / TOKENIZERS / folder_of(one, place), arrays[str(place)])
