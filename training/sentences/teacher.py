"""The lesson of a distillation: a teacher's vectors of the first sentences, which the student is to give both."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from data.pairs.records import PairSet
from data.texts import Texts
from models.encoders.bi_encoder import BiEncoder
from models.precision import Precision
from models.sources import find_model
from training.engine.probe import seconds_for
from training.options.common import OptionError


class TeachersVectors:
    """A teacher's vectors of length 1, `(dimensions,)` float32 each, one of every pair's first sentence.

    They are kept in the workspace, so a training that is resumed asks for none again. Raises `OptionError` where they
    have other dimensions than the student's, `dimensions`.
    """

    def __init__(self, teacher: str, pairs: PairSet, dimensions: int, precision: Precision) -> None:
        self._teacher, self._precision, self._dimensions = teacher, precision, dimensions
        self._sentences: Texts = pairs.texts[0]
        found = self._encoder().encode("question", ["a"]).shape[1]
        if found != dimensions:
            message = f"teacher gives vectors of {found} dimensions, and the base has {dimensions}: both must be alike"
            raise OptionError("teacher", "dimensions", message)

    def labels(self, on_progress: Callable[[float], None]) -> list[Any]:
        """Encode the sentences."""
        different, places = self._different
        return list(self._encoder(on_progress).encode_sentences(different)[places])

    def stand_ins(self) -> list[Any]:
        """Vectors of zeros."""
        return [np.zeros(self._dimensions, dtype=np.float32)] * len(self._sentences)

    def seconds(self) -> float:
        """Seconds that encoding would take."""
        encoder = self._encoder()
        return seconds_for(lambda some: encoder.encode("question", some), sorted(self._different[0], key=len))

    def _encoder(self, on_progress: Callable[[float], None] | None = None) -> BiEncoder:
        return BiEncoder(find_model(self._teacher), [], precision=self._precision, on_progress=on_progress)

    @cached_property
    def _different(self) -> tuple[list[str], np.ndarray]:
        different, places = np.unique(np.array(list(self._sentences), dtype=object), return_inverse=True)
        return different.tolist(), places
