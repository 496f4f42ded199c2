"""The base of every retriever specification, what retrievers are made from, and the cache of their rankings."""

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property, partial
from operator import eq
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt, model_validator

from mrc_workbench.data import cache as disk_cache
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.analyzers import resolve_analyzer
from mrc_workbench.data.text.dictionary import find as find_dictionary
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import Meter, find_model, model_identity
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import reading_costs
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.dense import ENCODING_FRACTION
from mrc_workbench.retrieval.rankings import MAX_PASSAGES, Rankings, Retriever

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SearchCosts:
    """What a search took when its rankings were made, and notes of the retriever. Seconds of unknown duration are 0."""

    build_seconds: FiniteFloat = 0.0
    query_seconds: FiniteFloat = 0.0  # for all questions
    model_seconds: FiniteFloat = 0.0  # of the query seconds, those in which a model encodes or scores
    elsewhere_seconds: FiniteFloat = 0.0  # of the query seconds, those measured on another machine
    memory_bytes: int = 0  # of the index, 0 if unknown
    # those of `trec.Notes`, `mix.explained` or `outside.adapt`; `cut_off`: passages that a model does not read whole
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class CachedRetriever:
    """Wraps a retriever: the same questions at the same depth are searched once, on this machine, ever.

    `key` names everything the rankings depend on. `parts` are cached retrievers that this one searches: their time, and
    that of the model that `meter` measures, counts in full even if it was saved, so that a hybrid's seconds are what it
    would cost. Its `own` parts are released with it. At least `depth` passages per question are searched. Without
    `timed` its seconds are 0: its rankings were made elsewhere. `costs` are those of the last search.
    """

    name: str
    key: str
    build: Callable[[], Retriever]
    components: Sequence["CachedRetriever"] = ()
    _: KW_ONLY
    own_components: Sequence["CachedRetriever"] = ()
    depth: int = 0
    meter: Meter = field(default_factory=Meter)
    is_timed: bool = True
    costs: SearchCosts = field(default=SearchCosts(), init=False)
    _retriever: Retriever | None = field(default=None, init=False)
    _build_lock: RLock = field(default_factory=RLock, init=False)  # sessions share it, and one builds it for all
    _build_seconds: float = field(default=0.0, init=False)
    _elapsed: float = field(default=0.0, init=False)  # of the last search, also if its rankings came from disk

    def __post_init__(self) -> None:
        self._all_components = [*self.components, *self.own_components]

    @property
    def is_built(self) -> bool:
        """Whether it is built, so that a new question is answered at once."""
        return self._retriever is not None

    @property
    def retriever(self) -> Retriever:
        """The retriever itself, built if necessary; its rankings are not cached."""
        return self._built_retriever([""])

    def is_cached(self, questions: Sequence[str], k: int) -> bool:
        return disk_cache.has_intact_arrays("rankings", self._key_of(questions, k))

    def prepare(self) -> None:
        """Build what searching needs, parts included, so that a new question is answered at once."""
        for component in self._all_components:
            component.prepare()
        self._built_retriever([""])

    def release(self) -> None:
        """Let go of the index; a search that is not on disk builds it again."""
        self._retriever = None
        for component in self.own_components:
            component.release()

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        depth = max(k, self.depth)
        if not disk_cache.is_caching():  # the costs stay those of the last search
            return self._built_retriever(questions).search(questions, depth).first(k)
        start = time.perf_counter()
        key = self._key_of(questions, k)
        should_store = len(questions) > 1
        is_shipped = should_store and disk_cache.is_from_sample("rankings", key)
        stored = disk_cache.cached_arrays("rankings", key, lambda: self._search(questions, depth), store=should_store)
        build, query, model = stored["seconds"].tolist()
        self.costs = SearchCosts(
            build_seconds=build,
            query_seconds=query,
            model_seconds=model,
            elsewhere_seconds=query if is_shipped else float(stored.get("elsewhere_seconds", 0.0)),
            memory_bytes=int(stored["memory_bytes"]),
            notes=json.loads(str(stored["notes"])),
        )
        self._elapsed = time.perf_counter() - start
        return Rankings(stored["indices"], stored["scores"]).first(k)

    def store_as_sample(self, exact: "CachedRetriever", questions: Sequence[str]) -> None:
        """Store another retriever's rankings as those that the sample brings for this one. Raises `OSError`."""
        stored = disk_cache.read_arrays("rankings", exact._key_of(questions, exact.depth))
        if stored is None:
            raise OSError(f"what {exact.name!r} found was not kept")
        disk_cache.save_arrays(disk_cache.sample_path("rankings", self._key_of(questions, self.depth)), stored)

    def _key_of(self, questions: Sequence[str], k: int) -> str:
        return disk_cache.key_of(self.key, list(questions), max(k, self.depth))

    def _search(self, questions: Sequence[str], k: int) -> dict[str, np.ndarray]:
        retriever = self._built_retriever(questions)
        meter = self.meter
        for component in self._all_components:
            component._elapsed = 0.0
        meter.take_elsewhere()  # discards that of building
        start = time.perf_counter()
        rankings = retriever.search(questions, k)
        elapsed = time.perf_counter() - start - sum(component._elapsed for component in self._all_components)
        elapsed = getattr(retriever, "measured_seconds", elapsed)  # of queries that ran at a time, or elsewhere
        lap_seconds, model_seconds = meter.lap()
        costs = [component.costs for component in self._all_components]
        sizes = [cost.memory_bytes for cost in costs] or [int(getattr(retriever, "memory_bytes", 0))]
        build = self._build_seconds + meter.load + sum(cost.build_seconds for cost in costs)
        query = elapsed - lap_seconds + model_seconds + sum(cost.query_seconds for cost in costs)
        model = model_seconds + sum(cost.model_seconds for cost in costs)
        return {
            "indices": rankings.indices,
            "scores": rankings.scores,
            "seconds": np.array([build, query, model]) if self.is_timed else np.zeros(3),
            "elsewhere_seconds": np.array(meter.take_elsewhere() + sum(cost.elsewhere_seconds for cost in costs)),
            "memory_bytes": np.array(sum(sizes) if all(sizes) else 0),
            "notes": np.array(
                json.dumps({**getattr(retriever, "notes", {}), **self._truncation_notes(retriever, questions)})
            ),
        }

    def _truncation_notes(self, retriever: Retriever, questions: Sequence[str]) -> dict[str, int]:
        """Return of how many passages the model reads only the beginning, if any; nothing of a single question."""
        count_truncated = getattr(retriever, "count_truncated", None)
        if count_truncated is None or len(questions) == 1:
            return {}
        try:
            count = int(count_truncated())
        except (ModelError, OSError) as error:  # rankings are not thrown away for a line about passages
            logger.warning("what %r does not read is not known: %s", self.name, error)
            count = 0
        return {"cut_off": count} if count else {}

    def _built_retriever(self, questions: Sequence[str]) -> Retriever:
        with self._build_lock:
            if (retriever := self._retriever) is None:
                self.meter.lap()
                start = time.perf_counter()
                self._retriever = retriever = self.build()
                elapsed = time.perf_counter() - start
                passed, work = self.meter.lap()
                self._build_seconds = elapsed - passed + work
        if make_ready := getattr(retriever, "make_ready", None):
            make_ready(questions)
        return retriever


VERSION = 3  # part of every cached ranking's key: raise it when a retriever's results change
Count = Annotated[PositiveInt, Field(le=MAX_PASSAGES)]  # of passages, or of anything in them
CountOrZero = Annotated[NonNegativeInt, Field(le=MAX_PASSAGES)]
Weight = Annotated[float, Field(ge=0, le=1e6)]  # a score times the largest is still a number in float32
# values that are no part of that key: parts are in it by their own keys, files, dictionaries and models by their
# content, a precision by the model's fingerprint, where it makes a difference
_FIELDS_NOT_IN_KEYS = {"name", "chosen_on", "of", "first", "path", "dictionary", "precision"}


def omit_if_default(default: Any, **constraints: Any) -> Any:
    """Return a field that is stored only if it is not `default`: what was stored before it existed is still found."""
    return Field(default=default, exclude_if=partial(eq, default), **constraints)


class Spec(BaseModel, ABC):
    """One retriever of an experiment: its values, and how it is made.

    `chosen_on` is the part of the questions its values were tuned on: metrics on that part are too high.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    digits: ClassVar[int] = 4  # of its scores, where they are displayed
    searchable: ClassVar[bool] = True  # False where it knows only the questions it was made for

    name: str = Field(min_length=1)
    chosen_on: Part | None = None
    kind: str

    @abstractmethod
    def make(self, context: "RetrieverContext") -> CachedRetriever:
        """Return the retriever, not built yet. Raises if a model, a file or a part is not available."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the retrievers it wraps: those of its fields `of` (it fuses them) or `first` (it reorders that)."""
        fused: tuple[str, ...] = getattr(self, "of", ())
        first: str = getattr(self, "first", "")
        return (first,) if first else fused

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the retrievers whose passages it orders: itself if it wraps no other."""
        return self.components or (self.name,)

    def candidate_depth(self, k: int) -> int:
        """How many passages of each part it orders to find its first k; 0 if it wraps no other.

        Passages below its `depth` keep their order, and may be among the first k.
        """
        return max(k, getattr(self, "depth", 0)) if self.components else 0

    def scored_depth(self, k: int) -> int:
        """How many of its first k passages have scores of its own; the others keep the rank of a part."""
        return k

    @property
    def score_kind(self) -> str:
        """The kind of its scores, for the texts that explain them."""
        return self.kind

    @property
    def local_spec(self) -> "Spec":
        """The retriever of the same name and scores whose parts explain them: itself, but for one in an engine."""
        return self

    @property
    def needs_model(self) -> bool:
        return "model" in type(self).model_fields

    def characters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        """Return how many characters it reads of these in all: its time grows with them."""
        reads = {"analyzer", "model"} & type(self).model_fields.keys() and not self.components
        return passages + questions if reads and n_passages and n_questions else 0

    def tuned_on(self, part: Part) -> bool:
        return self.chosen_on is not None and (self.chosen_on is part or Part.ALL in (self.chosen_on, part))

    def resolved_values(self, context: "RetrieverContext") -> dict[str, Any]:
        """Return its values, with the analyzer that `auto` chose and what identifies the content of a model."""
        values = self.model_dump(mode="json", exclude={"name"}, exclude_none=True)
        used = dict(self.local_spec)
        if "analyzer" in used:
            values["analyzer"] = resolve_analyzer(used["analyzer"], context.texts(used["title"])).value
        if "model" in used:
            values["model"] = {"reference": used["model"]}
            try:
                values["model"] |= model_identity(context.source(used["model"]), context.texts(used["title"]))
            except (ModelError, ImportError, OSError) as error:  # the metrics are stored anyway
                values["model"] |= {"error": getattr(error, "code", "unreadable")}
        return values


class ReadingSpec(Spec):
    """The values of a model that reads long passages in windows, see `WindowOptions`, or only their beginning."""

    windows: bool = omit_if_default(False)
    window_tokens: CountOrZero = omit_if_default(0)
    stride: CountOrZero = omit_if_default(0)

    @model_validator(mode="after")
    def _windows_without_gaps(self) -> "ReadingSpec":
        if not self.windows and (self.window_tokens or self.stride):
            raise ValueError("window_tokens and stride are for windows = true")
        WindowOptions(self.window_tokens, self.stride)
        return self

    @property
    def window_options(self) -> WindowOptions | None:
        return WindowOptions(self.window_tokens, self.stride) if self.windows else None


class RetrieverContext:
    """What the retrievers of an experiment are made from; those with the same model share it.

    Paths start at `base`. `on_progress` hears how much of its work, 0 to 1, the running retriever has done. `depths`
    and `specs` are those of each by name. A mix learns from the `whole` set and knows its split and the part `asked`.
    """

    def __init__(
        self,
        question_set: QuestionSet,
        base: Path | None = None,
        on_progress: Callable[[float], None] | None = None,
        depths: Mapping[str, int] | None = None,
        *,
        specs: Mapping[str, Spec] | None = None,
        full_set: QuestionSet | None = None,
        evaluated_split: tuple[SplitOptions, Part] = (SplitOptions(), Part.ALL),
    ) -> None:
        self.question_set = question_set
        self.passages = question_set.passages
        self.specs = specs or {}
        self.full_set = full_set or question_set
        self.split_options, self.evaluated_part = evaluated_split
        self.base = base
        self.on_progress = on_progress
        self._depths = depths or {}
        self.retrievers: dict[str, CachedRetriever | Exception] = {}
        values = [dict(spec) for spec in self.specs.values()]
        self.texts = cache(lambda title: self.passages.indexed_texts(title=title))
        self.source = cache(lambda model: find_model(model, base))
        self.dictionary = cache(lambda reference: find_dictionary(reference, base))
        self.encoder = cache(
            lambda model, title, precision: BiEncoder(
                self.source(model),
                self.texts(title),
                precision=precision,
                on_progress=on_progress,
                passages_fraction=_passage_cost_fraction(question_set),
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
                also=[entry["layers"] for entry in values if "layers" in entry and entry["model"] == model],
                on_progress=on_progress and (lambda fraction: on_progress(ENCODING_FRACTION * fraction)),
                passages_fraction=_passage_cost_fraction(question_set),
            )
        )
        self.scorer = cache(
            lambda model, title, precision: CrossEncoderScorer(
                self.source(model), self.texts(title), precision=precision
            )
        )

    @cached_property
    def split(self) -> Split:
        return split(self.full_set, self.split_options)

    def get_retriever(self, name: str) -> CachedRetriever:
        """Return a retriever made before. Raises the error of one that could not be made."""
        if isinstance(retriever := self.retrievers[name], Exception):
            raise retriever
        return retriever

    def cached_retriever(
        self,
        spec: Spec,
        build: Callable[[], Retriever],
        *content: object,
        own_components: Sequence[CachedRetriever] = (),
        meter: Meter | None = None,
        is_timed: bool = True,
    ) -> CachedRetriever:
        """Cache the rankings by everything they depend on: values of the spec, parts, own parts, and `content`."""
        values = spec.model_dump(mode="json", exclude=_FIELDS_NOT_IN_KEYS)
        components = [self.get_retriever(name) for name in spec.components]
        keys = [component.key for component in (*components, *own_components)]
        key = disk_cache.key_of(VERSION, ANALYZER_VERSION, self.question_set.corpus_fingerprint, values, keys, *content)
        depth = self._depths.get(spec.name, 0)
        return CachedRetriever(
            spec.name,
            key,
            build,
            components,
            own_components=own_components,
            depth=depth,
            meter=meter or Meter(),
            is_timed=is_timed,
        )


def _passage_cost_fraction(question_set: QuestionSet) -> float:
    """Return how much of the cost of reading passages and questions is that of the passages."""
    passages = reading_costs(question_set.passages.texts.lengths()).sum()
    questions = reading_costs(np.array([len(question.text) for question in question_set.questions])).sum()
    return float(passages / max(1.0, passages + questions))
