"""Retrievers that are built only when asked something new, and whose findings are kept on disk."""

import json
import time
from collections.abc import Callable, Sequence
from threading import RLock

import numpy as np

from data.cache import are_kept, cached_arrays, key_of
from models.encoders.vector_blocks import Meter
from retrieval.rankings import Rankings, Retriever


class CachedRetriever:
    """Wraps a retriever: the same questions at the same depth are searched once, on this machine, ever.

    `key` names everything the rankings depend on. `parts` are the kept retrievers this one searches itself: their time
    is counted in full even where their rankings came from disk, so that the seconds of a hybrid are what it would cost.
    So is that of the model whose work `meter` tells. `depth` is how many passages a question are searched at least, for
    all that ask for fewer. What is not `timed` has no seconds: its rankings were made elsewhere.
    """

    def __init__(
        self,
        name: str,
        key: str,
        build: Callable[[], Retriever],
        parts: Sequence["CachedRetriever"] = (),
        *,
        depth: int = 0,
        meter: Meter | None = None,
        timed: bool = True,
    ) -> None:
        self.name, self.key, self.depth = name, key, depth
        self._build, self._parts, self._meter, self._timed = build, parts, meter or Meter(), timed
        self._retriever: Retriever | None = None
        self._building = RLock()  # sessions of the app share it, and one builds it for all
        self._own_build_seconds = 0.0
        self._elapsed = 0.0  # of the last search, whatever came from disk
        self.build_seconds = 0.0  # as measured when the rankings were made
        self.query_seconds = 0.0
        self.model_seconds = 0.0  # of the query seconds, those in which a model encodes or scores
        self.memory_bytes = 0  # of the index, 0 where not known
        self.notes: dict[str, int] = {}  # what an imported run holds

    @property
    def ready(self) -> bool:
        """Whether it is built, so that a new question is answered at once."""
        return self._retriever is not None

    def remembers(self, questions: Sequence[str], k: int) -> bool:
        """Whether this search was done before and is on disk."""
        return are_kept("rankings", self._key_of(questions, k))

    def prepare(self) -> None:
        """Build what searching needs, parts included, so that a new question is answered at once."""
        for part in self._parts:
            part.prepare()
        self._make_ready([""])

    def release(self) -> None:
        """Let go of the index; it is built again where something new is asked."""
        self._retriever = None

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question."""
        start = time.perf_counter()
        depth, keep = max(k, self.depth), len(questions) > 1
        kept = cached_arrays("rankings", self._key_of(questions, k), lambda: self._search(questions, depth), keep=keep)
        self.build_seconds, self.query_seconds, self.model_seconds = kept["seconds"].tolist()
        self.memory_bytes, self.notes = int(kept["memory_bytes"]), json.loads(str(kept["notes"]))
        self._elapsed = time.perf_counter() - start
        return Rankings(kept["indices"], kept["scores"]).first(k)

    def _key_of(self, questions: Sequence[str], k: int) -> str:
        return key_of(self.key, list(questions), max(k, self.depth))

    def _search(self, questions: Sequence[str], k: int) -> dict[str, np.ndarray]:
        retriever = self._make_ready(questions)
        for part in self._parts:
            part._elapsed = 0.0
        start = time.perf_counter()
        rankings = retriever.search(questions, k)
        elapsed = time.perf_counter() - start - sum(part._elapsed for part in self._parts)
        passed, work = self._meter.lap()
        seconds = (
            self._own_build_seconds + self._meter.load + sum(part.build_seconds for part in self._parts),
            elapsed - passed + work + sum(part.query_seconds for part in self._parts),
            work + sum(part.model_seconds for part in self._parts),
        )
        return {
            "indices": rankings.indices,
            "scores": rankings.scores,
            "seconds": np.array(seconds) if self._timed else np.zeros(3),
            "memory_bytes": np.array(self._memory_of(retriever)),
            "notes": np.array(json.dumps(getattr(retriever, "notes", {}))),
        }

    def _make_ready(self, questions: Sequence[str]) -> Retriever:
        """Return the retriever, built and with all loaded that these questions take."""
        retriever = self._built()
        if make_ready := getattr(retriever, "make_ready", None):
            make_ready(questions)
        return retriever

    def _built(self) -> Retriever:
        with self._building:
            if self._retriever is None:
                self._meter.lap()
                start = time.perf_counter()
                self._retriever = self._build()
                elapsed = time.perf_counter() - start
                passed, work = self._meter.lap()
                self._own_build_seconds = elapsed - passed + work
            return self._retriever

    def _memory_of(self, retriever: Retriever) -> int:
        parts = [part.memory_bytes for part in self._parts]
        if not parts:
            return int(getattr(retriever, "memory_bytes", 0))
        return sum(parts) if all(parts) else 0
