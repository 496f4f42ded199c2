"""Comparisons of tokenizers on disk, for pages that were not there when they were made.

A folder holds the tokenizers themselves (`tokenizers/<name>/tokenizer.json`), how often each of their pieces occurs
(`occurrences.npz`) and, written last, the figures (`scores.json`): a folder with scores is whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from data.artifact import Artifact
from data.cache import Arrays
from data.problems import Failure
from language.prepared import PreparedTokenizer, load_tokenizer
from language.tokenizers.comparison import Measured
from language.tokenizers.fertility import Fertility

TOKENIZERS = "tokenizers"  # the folder of all of them


@dataclass(frozen=True)
class _Content:
    corpus: str
    counted: int
    tokenizers: list[Measured]


_ARTIFACT = Artifact("comparison of tokenizers", TypeAdapter(_Content), "occurrences.npz")


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
    places = [str(place) for place, one in enumerate(found) if one.figures]
    content = _Content(corpus=corpus, counted=counted, tokenizers=list(found))
    _ARTIFACT.write(folder, content, dict(zip(places, occurrences, strict=True)))


def load(folder: Path) -> KeptComparison:
    """Read a comparison. Raises `ValueError` where the folder holds no whole one of this version."""

    def made(told: _Content, arrays: Arrays) -> KeptComparison:
        kept = [_kept(folder, one, place, arrays) for place, one in enumerate(told.tokenizers) if one.figures]
        failed = {one.name: one.refusal.failure for one in told.tokenizers if one.refusal}
        return KeptComparison(told.corpus, told.counted, tuple(kept), failed)

    return _ARTIFACT.read(folder, made)


def _kept(folder: Path, one: Measured, place: int, arrays: Mapping[str, Any]) -> KeptTokenizer:
    if one.figures is None:
        raise KeyError(one.name)
    return KeptTokenizer(one, one.figures, folder / TOKENIZERS / folder_of(one, place), arrays[str(place)])
