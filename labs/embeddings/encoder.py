"""Sentences, each once, and their vectors by a model's reference; and the models that a person added."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from mrc_workbench.data.files import read_user_file, set_aside
from mrc_workbench.data.pairs import PairSet, numbers_of, row_groups
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import find_model


class EmbeddingError(Failure):
    """A measure that cannot be taken: `no_pairs` of a part, `few_sentences`."""


@dataclass(frozen=True)
class Distinct:
    """Sentences, each once, and where they stand: `places` `(n_rows, width)` int64 are rows of `sentences`."""

    sentences: list[str]
    places: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, pairs: PairSet) -> "Distinct":
        """Find the sentences of a set, in order of first appearance, column by column."""
        (places,) = numbers_of(pairs)
        first = np.unique(places.T, return_index=True)[1]
        column_of = first // max(1, len(pairs))
        rows = first % max(1, len(pairs))
        texts = (column.at(rows[column_of == number]) for number, column in enumerate(pairs.texts))
        return cls([*chain.from_iterable(texts)], places)

    @cached_property
    def groups(self) -> np.ndarray:
        """The numbers of the groups of rows that share a sentence, directly or through others, `(n_rows,)` int64."""
        return row_groups(self.places)

    @cached_property
    def sentence_groups(self) -> np.ndarray:
        """The group of the rows that each sentence stands in, `(n_sentences,)` int64."""
        groups = np.zeros(len(self.sentences), dtype=np.int64)
        groups[self.places] = self.groups[:, None]
        return groups


@dataclass(frozen=True)
class SentenceVectors:
    """Vectors `(n_sentences, dimensions)` float32 of length 1 in the order of the sentences, mapped from the disk.

    `fingerprint` is that of the model's content; `seconds` are those that encoding took when it was done.
    """

    vectors: np.ndarray
    fingerprint: str
    seconds: float


def encode(
    reference: str,
    sentences: Sequence[str],
    corpus: Sequence[str],
    *,
    base: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> SentenceVectors:
    """Encode different sentences, each with the model's question prompt; what is kept of them is not made again.

    `corpus` is what a starter is made of: all sentences of the set, whichever of them are encoded. Ended halfway, the
    next call goes on after the last whole block; 100,000 sentences take the memory of one block. Raises `ModelError`.
    """
    encoder = BiEncoder(find_model(reference, base), corpus, on_progress=on_progress)
    vectors = encoder.encode_sentences(sentences)
    return SentenceVectors(vectors, encoder.fingerprint, encoder.meter.lap()[1])


_FILE = "models.json"


def added() -> list[str]:
    """Return their references, the first added first."""
    try:
        return _added()[0]
    except OSError:
        return []


def _added() -> tuple[list[str], bool]:
    """Return the references that can be read, and whether the file holds anything else."""
    content, is_damaged = read_user_file(workspace() / "embeddings" / _FILE)
    models = content.get("models", [])
    found = [model for model in models if isinstance(model, str)] if isinstance(models, list) else []
    return found, is_damaged or found != models


def add(reference: str) -> None:
    """Add a model, once. Raises `ModelError` where there is none of this name here, and none on the hub can have it."""
    find_model(reference)
    _write([*(one for one in added() if one != reference), reference])


def remove(reference: str) -> None:
    """Remove a model from those added; its files, and what was measured of it, stay."""
    _write([one for one in added() if one != reference])


def _write(models: list[str]) -> None:
    path = workspace() / "embeddings" / _FILE
    if _added()[1]:
        set_aside(path)
    write_json(path, {"models": models})
