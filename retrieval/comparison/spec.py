"""What a retriever of any kind says of itself, what it is made from, and how what it finds is kept on disk."""

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from operator import not_
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from mrc_workbench.data.cache import (
    are_kept,
    cached_arrays,
    is_from_sample,
    is_keeping,
    key_of,
    read_arrays,
    save_arrays,
    shipped,
)
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.analyzers import choose
from mrc_workbench.data.text.dictionary import find as find_dictionary
from mrc_workbench.models.encoders.bi_encoder import BiEncoder
from mrc_workbench.models.encoders.cross_encoder import CrossEncoderScorer
from mrc_workbench.models.encoders.sparse_encoder import SparseTextEncoder
from mrc_workbench.models.encoders.token_encoder import TokenEncoder
from mrc_workbench.models.encoders.vector_blocks import Meter, reading_costs
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.sources import find_model, identity
from mrc_workbench.models.token_layers import TokenLayers
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.late import ENCODING
from mrc_workbench.retrieval.rankings import MOST, Rankings, Retriever

logger = logging.getLogger(__name__)


class CachedRetriever:
    """Wraps a retriever: the same questions at the same depth are searched once, on this machine, ever.

    `key` names everything the rankings depend on. `parts` are the kept retrievers this one searches itself: their time
    is counted in full even where their rankings came from disk, so that the seconds of a hybrid are what it would cost.
    So is that of the model whose work `meter` tells. Its `own` parts nobody else searches: they are let go with it.
    `depth` is how many passages a question are searched at least, for all that ask for fewer. What is not `timed` has
    no seconds: its rankings were made elsewhere.
    """

    def __init__(
        self,
        name: str,
        key: str,
        build: Callable[[], Retriever],
        parts: Sequence["CachedRetriever"] = (),
        *,
        own: Sequence["CachedRetriever"] = (),
        depth: int = 0,
        meter: Meter | None = None,
        timed: bool = True,
    ) -> None:
        self.name, self.key, self.depth = name, key, depth
        self._own, parts = own, [*parts, *own]
        self._build, self._parts, self._meter, self._timed = build, parts, meter or Meter(), timed
        self._retriever: Retriever | None = None
        self._building = RLock()  # sessions of the app share it, and one builds it for all
        self._own_build_seconds = 0.0
        self._elapsed = 0.0  # of the last search, whatever came from disk
        self.build_seconds = 0.0  # as measured when the rankings were made
        self.query_seconds = 0.0
        self.model_seconds = 0.0  # of the query seconds, those in which a model encodes or scores
        self.elsewhere_seconds = 0.0  # of the query seconds, those of another machine: they ship with the sample
        self.memory_bytes = 0  # of the index, 0 where not known
        self.notes: dict[str, Any] = {}  # what an imported run holds, a mix has learned, or a model does not read

    @property
    def ready(self) -> bool:
        """Whether it is built, so that a new question is answered at once."""
        return self._retriever is not None

    @property
    def retriever(self) -> Retriever:
        """The retriever itself, built where it was not, whose rankings are not kept."""
        return self._make_ready([""])

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
        for part in self._own:
            part.release()

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        if not is_keeping():  # nor is anything told of it: its seconds and its notes stay those of before
            return self._make_ready(questions).search(questions, max(k, self.depth)).first(k)
        start = time.perf_counter()
        depth, keep = max(k, self.depth), len(questions) > 1
        key = self._key_of(questions, k)
        from_sample = keep and is_from_sample("rankings", key)
        kept = cached_arrays("rankings", key, lambda: self._search(questions, depth), keep=keep)
        self.build_seconds, self.query_seconds, self.model_seconds = kept["seconds"].tolist()
        self.elsewhere_seconds = self.query_seconds if from_sample else float(kept.get("elsewhere_seconds", 0.0))
        self.memory_bytes, self.notes = int(kept["memory_bytes"]), json.loads(str(kept["notes"]))
        self._elapsed = time.perf_counter() - start
        return Rankings(kept["indices"], kept["scores"]).first(k)

    def ship(self, exact: "CachedRetriever", questions: Sequence[str]) -> None:
        """Have the sample bring, as what this one finds, what another found that is kept. Raises `OSError`."""
        key = exact._key_of(questions, exact.depth)
        if (found := read_arrays("rankings", key)) is None:
            raise OSError(f"what {exact.name!r} found was not kept")
        save_arrays(shipped("rankings", self._key_of(questions, self.depth)), found)

    def _key_of(self, questions: Sequence[str], k: int) -> str:
        return key_of(self.key, list(questions), max(k, self.depth))

    def _search(self, questions: Sequence[str], k: int) -> dict[str, np.ndarray]:
        retriever = self._make_ready(questions)
        for part in self._parts:
            part._elapsed = 0.0
        self._meter.take_elsewhere()  # that of building is no time of a query
        start = time.perf_counter()
        rankings = retriever.search(questions, k)
        elapsed = time.perf_counter() - start - sum(part._elapsed for part in self._parts)
        elapsed = getattr(retriever, "measured_seconds", elapsed)  # of queries that ran at a time, or elsewhere
        passed, work = self._meter.lap()
        sizes = [part.memory_bytes for part in self._parts] or [int(getattr(retriever, "memory_bytes", 0))]
        seconds = (
            self._own_build_seconds + self._meter.load + sum(part.build_seconds for part in self._parts),
            elapsed - passed + work + sum(part.query_seconds for part in self._parts),
            work + sum(part.model_seconds for part in self._parts),
        )
        return {
            "indices": rankings.indices,
            "scores": rankings.scores,
            "seconds": np.array(seconds) if self._timed else np.zeros(3),
            "elsewhere_seconds": np.array(self._meter.take_elsewhere() + sum(p.elsewhere_seconds for p in self._parts)),
            "memory_bytes": np.array(sum(sizes) if all(sizes) else 0),
            "notes": np.array(json.dumps({**getattr(retriever, "notes", {}), **self._limits(retriever, questions)})),
        }

    def _limits(self, retriever: Retriever, questions: Sequence[str]) -> dict[str, int]:
        """Return of how many passages only the beginning is read, where that is so; nothing of one question typed."""
        cut_off = getattr(retriever, "cut_off", None)
        if cut_off is None or len(questions) == 1:
            return {}
        try:
            count = int(cut_off())
        except (ModelError, OSError) as error:  # rankings are not thrown away for a line about passages
            logger.warning("what %r does not read is not known: %s", self.name, error)
            return {}
        return {"cut_off": count} if count else {}

    def _make_ready(self, questions: Sequence[str]) -> Retriever:
        """Return the retriever, built and with all loaded that these questions take."""
        with self._building:
            if (retriever := self._retriever) is None:
                self._meter.lap()
                start = time.perf_counter()
                self._retriever = retriever = self._build()
                elapsed = time.perf_counter() - start
                passed, work = self._meter.lap()
                self._own_build_seconds = elapsed - passed + work
        if make_ready := getattr(retriever, "make_ready", None):
            make_ready(questions)
        return retriever


VERSION = 3  # part of every kept ranking's key: raise it when a retriever's results change
_MOST_WEIGHT = 1e6  # that a score is multiplied by, and yet a number in float32
Count = Annotated[PositiveInt, Field(le=MOST)]  # of passages, or of anything in them
CountOrNone = Annotated[NonNegativeInt, Field(le=MOST)]
Weight = Annotated[float, Field(ge=0, le=_MOST_WEIGHT)]
# values that are no part of that key: parts are in it by their own keys, files, dictionaries and models by their
# content, a precision by the model's fingerprint, where it makes a difference
_NOT_IN_KEYS = {"name", "chosen_on", "of", "first", "path", "dictionary", "precision"}


class Spec(BaseModel, ABC):
    """One retriever of an experiment: its values, how it is made, what is to be known of it.

    `chosen_on` is the part of the questions its values were tuned on: figures on that part flatter it. A value called
    `analyzer`, `model` or `title` means the same for every kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    digits: ClassVar[int] = 4  # of its scores, where they are shown
    searchable: ClassVar[bool] = True  # False where it knows only the questions it was made for

    name: str = Field(min_length=1)
    chosen_on: Part | None = None
    kind: str

    @abstractmethod
    def make(self, materials: "Materials") -> CachedRetriever:
        """Return the retriever, not built yet. Raises where a model, a file or a part cannot be had."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the retrievers it wraps: one that it reorders, or several that it fuses."""
        return ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the retrievers whose passages it orders: itself where it wraps no other."""
        return self.parts or (self.name,)

    def candidates(self, k: int) -> int:
        """How many passages of each part it orders to find its first k; 0 where it wraps no other."""
        return k if self.parts else 0

    def scored(self, k: int) -> int:
        """Of how many of its first k passages its scores tell: what it leaves as another ordered it has only a rank."""
        return k

    @property
    def score_kind(self) -> str:
        """What its scores are: the words that tell of them are called so."""
        return self.kind

    @property
    def local(self) -> "Spec":
        """The retriever of the same name and scores whose parts explain them: itself, but for one in an engine."""
        return self

    @property
    def needs_model(self) -> bool:
        """Whether it reads with a model, and so with torch."""
        return "model" in type(self).model_fields

    @property
    def reader(self) -> str:
        """What it reads texts with, which decides how long that takes."""
        used = dict(self.local)
        return " ".join([self.kind, *(str(used[name]) for name in ("analyzer", "model", "precision") if name in used)])

    def letters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        """Return how many characters it reads to answer these questions: its time grows with them.

        `passages` and `questions` are the characters of all of them.
        """
        reads = {"analyzer", "model"} & type(self).model_fields.keys() and not self.parts
        return passages + questions if reads and n_passages and n_questions else 0

    def tuned_on(self, part: Part) -> bool:
        """Whether its values were chosen on some of the questions of `part`."""
        return self.chosen_on is not None and (self.chosen_on is part or Part.ALL in (self.chosen_on, part))

    def resolved(self, materials: "Materials") -> dict[str, Any]:
        """Return its values, with what open ones came to: the analyzer chosen, what tells a model's content."""
        values, used = self.model_dump(mode="json", exclude={"name"}, exclude_none=True), dict(self.local)
        if "analyzer" in used:
            values["analyzer"] = choose(used["analyzer"], materials.texts(used["title"])).value
        if "model" in used:
            values["model"] = {"reference": used["model"]}
            try:
                values["model"] |= identity(materials.source(used["model"]), materials.texts(used["title"]))
            except (ModelError, ImportError, OSError) as error:  # the metrics are stored anyway
                values["model"] |= {"error": getattr(error, "code", "unreadable")}
        return values


class ReadingSpec(Spec):
    """The values of a model that reads passages: of those that it cannot read whole, `windows` of tokens.

    Without them it reads their beginning. `window_tokens` and `stride` are those of `WindowOptions`. What is left out
    is no part of a kept experiment, so that what was kept before there were windows is found.
    """

    windows: bool = Field(default=False, exclude_if=not_)
    window_tokens: CountOrNone = Field(default=0, exclude_if=not_)
    stride: CountOrNone = Field(default=0, exclude_if=not_)

    @model_validator(mode="after")
    def _windows_without_gaps(self) -> "ReadingSpec":
        if not self.windows and (self.window_tokens or self.stride):
            raise ValueError("window_tokens and stride are for windows = true")
        WindowOptions(self.window_tokens, self.stride)
        return self

    @property
    def window_options(self) -> WindowOptions | None:
        return WindowOptions(self.window_tokens, self.stride) if self.windows else None


class Materials:
    """What the retrievers of an experiment are made from; those with the same model share it.

    Files named by a path are looked for from `base`. `on_progress` is told how much of its work, 0 to 1, the retriever
    has done that is at work. `depths` say how deep each is searched, by name, and `specs` what each is. What learns
    from questions finds those of the `whole` set, in its `split`, and the part of them that is asked.
    """

    def __init__(
        self,
        question_set: QuestionSet,
        base: Path | None = None,
        on_progress: Callable[[float], None] | None = None,
        depths: Mapping[str, int] | None = None,
        *,
        specs: Mapping[str, Spec] | None = None,
        whole: QuestionSet | None = None,
        asked: tuple[SplitOptions, Part] = (SplitOptions(), Part.ALL),
    ) -> None:
        self.question_set, self.passages = question_set, question_set.passages
        self.specs, self.whole = specs or {}, whole or question_set
        self.split_options, self.part_asked = asked
        self.base, self.on_progress, self._depths = base, on_progress, depths or {}
        self.made: dict[str, CachedRetriever | Exception] = {}
        self.texts = cache(lambda title: self.passages.indexed_texts(title=title))
        self.source = cache(lambda model: find_model(model, base))
        self.dictionary = cache(lambda reference: find_dictionary(reference, base))
        self.encoder = cache(
            lambda model, title, precision: BiEncoder(
                self.source(model),
                self.texts(title),
                precision=precision,
                on_progress=on_progress,
                passages_share=_passages_share(question_set),
            )
        )
        self.term_encoder = cache(
            lambda model, title, precision: SparseTextEncoder(
                self.source(model), self.texts(title), precision=precision, on_progress=on_progress
            )
        )
        self.token_encoder = cache(
            lambda model, title, precision, dimensions, windows, layers: TokenEncoder(
                self.source(model),
                self.texts(title),
                precision=precision,
                dimensions=dimensions,
                windows=windows,
                layers=layers,
                also=_layers_read(self.specs, model),
                on_progress=on_progress and (lambda share: on_progress(ENCODING * share)),
                passages_share=_passages_share(question_set),
            )
        )
        self.scorer = cache(
            lambda model, title, precision: CrossEncoderScorer(
                self.source(model), self.texts(title), precision=precision
            )
        )

    @cached_property
    def split(self) -> Split:
        return split(self.whole, self.split_options)

    def part(self, name: str) -> CachedRetriever:
        """Return a retriever made before. Raises what went wrong where it could not be made."""
        if isinstance(part := self.made[name], Exception):
            raise part
        return part

    def kept(
        self,
        spec: Spec,
        build: Callable[[], Retriever],
        *content: object,
        own: Sequence[CachedRetriever] = (),
        meter: Meter | None = None,
        timed: bool = True,
    ) -> CachedRetriever:
        """Keep what a retriever finds by all that this depends on: its values, its parts, its own, and `content`."""
        values, parts = spec.model_dump(mode="json", exclude=_NOT_IN_KEYS), [self.part(name) for name in spec.parts]
        corpus = self.question_set.corpus_fingerprint
        keys = [part.key for part in (*parts, *own)]
        key, depth = key_of(VERSION, ANALYZER_VERSION, corpus, values, keys, *content), self._depths.get(spec.name, 0)
        return CachedRetriever(spec.name, key, build, parts, own=own, depth=depth, meter=meter, timed=timed)


def _layers_read(specs: Mapping[str, Spec], model: str) -> list[TokenLayers]:
    """Return the layers that retrievers by late interaction read of a model."""
    same = (dict(spec) for spec in specs.values() if getattr(spec, "model", None) == model)
    return [values["layers"] for values in same if "layers" in values]


def _passages_share(question_set: QuestionSet) -> float:
    """Return how much of the cost of reading passages and questions is that of the passages."""
    passages = reading_costs(question_set.passages.texts.lengths()).sum()
    questions = reading_costs(np.array([len(question.text) for question in question_set.questions])).sum()
    return float(passages / max(1.0, passages + questions))
