"""The base of retriever specifications, the context that creates retrievers, and the cache of their rankings."""

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
from mrc_workbench.data.files import current_names
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.analyzers import resolve_analyzer
from mrc_workbench.data.text.dictionary import find as find_dictionary
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import Meter, find_model, model_identity
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import reading_costs
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.dense import ENCODING_FRACTION
from mrc_workbench.retrieval.rankings import MAX_PASSAGES, Rankings, Retriever

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SearchCosts:
    """The costs of the search that computed the rankings, and notes of the retriever. Unknown seconds are 0."""

    build_seconds: FiniteFloat = 0.0
    query_seconds: FiniteFloat = 0.0  # for all questions
    model_seconds: FiniteFloat = 0.0  # the part of the query seconds in which a model encodes or scores
    elsewhere_seconds: FiniteFloat = 0.0  # the part of the query seconds measured on another machine
    memory_bytes: int = 0  # of the index, 0 if unknown
    # from `retrieval.trec`, `retrieval.mix` or `outside.adapt`; `cut_off`: number of passages that a model truncates
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class CachedRetriever:
    """Wraps a retriever and caches its rankings on disk, by questions and depth.

    `key` identifies everything the rankings depend on. `components` are cached retrievers that this one searches: their
    time, and that of the model that `meter` measures, counts in full even if it was saved, so that a hybrid's seconds
    are its costs without a cache. `own_components` are released with it. A search returns at least `depth` passages per
    question. Without `is_timed`, for imported rankings, seconds are 0. `costs` are those of the last search.
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
    _build_lock: RLock = field(default_factory=RLock, init=False)  # sessions share it
    _build_seconds: float = field(default=0.0, init=False)
    _elapsed: float = field(default=0.0, init=False)  # of the last search, even from disk

    def __post_init__(self) -> None:
        self._all_components = [*self.components, *self.own_components]

    @property
    def is_built(self) -> bool:
        return self._retriever is not None

    @property
    def retriever(self) -> Retriever:
        """The wrapped retriever, built if necessary."""
        return self._built_retriever([""])

    def is_cached(self, questions: Sequence[str], k: int) -> bool:
        return disk_cache.has_intact_arrays("rankings", self._key_of(questions, k))

    def prepare(self) -> None:
        for component in self._all_components:
            component.prepare()
        self._built_retriever([""])

    def release(self) -> None:
        """Release the index; a search without cached rankings builds it again."""
        self._retriever = None
        for component in self.own_components:
            component.release()

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        depth = max(k, self.depth)
        if not disk_cache.is_caching():
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
        """Ship another retriever's rankings with the sample as those of this one. Raises `OSError`."""
        stored = disk_cache.read_arrays("rankings", exact._key_of(questions, exact.depth))
        if stored is None:
            raise OSError(f"the rankings of {exact.name!r} are not stored")
        disk_cache.save_arrays(disk_cache.sample_path("rankings", self._key_of(questions, self.depth)), stored)

    def _key_of(self, questions: Sequence[str], k: int) -> str:
        return disk_cache.key_of(self.key, list(questions), max(k, self.depth))

    def _search(self, questions: Sequence[str], k: int) -> dict[str, np.ndarray]:
        retriever = self._built_retriever(questions)
        meter = self.meter
        for component in self._all_components:
            component._elapsed = 0.0
        meter.take_elsewhere()  # discards the seconds of building
        start = time.perf_counter()
        rankings = retriever.search(questions, k)
        elapsed = time.perf_counter() - start - sum(component._elapsed for component in self._all_components)
        elapsed = getattr(retriever, "measured_seconds", elapsed)  # for concurrent requests
        lap_seconds, model_seconds = meter.lap()
        costs = [component.costs for component in self._all_components]
        sizes = [cost.memory_bytes for cost in costs] or [int(getattr(retriever, "memory_bytes", 0))]
        build = self._build_seconds + meter.load + sum(cost.build_seconds for cost in costs)
        query = elapsed - lap_seconds + model_seconds + sum(cost.query_seconds for cost in costs)
        model = model_seconds + sum(cost.model_seconds for cost in costs)
        notes = {**getattr(retriever, "notes", {}), **self._truncation_notes(retriever, questions)}
        elsewhere = meter.take_elsewhere() + sum(cost.elsewhere_seconds for cost in costs)
        return {
            "indices": rankings.indices,
            "scores": rankings.scores,
            "seconds": np.array([build, query, model]) if self.is_timed else np.zeros(3),
            "elsewhere_seconds": np.array(elsewhere),
            "memory_bytes": np.array(sum(sizes) if all(sizes) else 0),
            "notes": np.array(json.dumps(notes)),
        }

    def _truncation_notes(self, retriever: Retriever, questions: Sequence[str]) -> dict[str, int]:
        """Return the number of passages that the model truncates, if any; a single question is not worth the count."""
        count_truncated = getattr(retriever, "count_truncated", None)
        if count_truncated is None or len(questions) == 1:
            return {}
        try:
            return {"cut_off": count} if (count := int(count_truncated())) else {}
        except (ModelError, OSError) as error:  # the rankings are valid
            logger.warning("the passages that %r truncates are unknown: %s", self.name, error)
            return {}

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
# fields that are not in that key: it contains keys of components, and the content of files, dictionaries and models
_FIELDS_NOT_IN_KEYS = {"name", "selected_on", "retrievers", "first_stage", "path", "dictionary", "precision"}


def omit_if_default(default: Any, **constraints: Any) -> Any:
    """Return a field that is stored only if it is not `default`, so that keys of earlier versions stay the same."""
    return Field(default=default, exclude_if=partial(eq, default), **constraints)


class RenamedFields(BaseModel):
    """A model of fields with earlier names (`serialization_alias`), which files may use and stored keys contain."""

    @classmethod
    def with_current_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a file or a stored result under the current names."""
        aliases = ((entry.serialization_alias, name) for name, entry in cls.model_fields.items())
        return current_names(values, {earlier: name for earlier, name in aliases if earlier}, cls.__name__)

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_names(cls, values: Any) -> Any:
        return cls.with_current_names(values) if isinstance(values, Mapping) else values


class Spec(RenamedFields, ABC):
    """The settings of a retriever in an experiment.

    `selected_on` is the part of the questions that its values were tuned on: metrics on that part are too high.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    digits: ClassVar[int] = 4  # of displayed scores
    searchable: ClassVar[bool] = True  # False if it has rankings of certain questions only

    name: str = Field(min_length=1)
    selected_on: Part | None = Field(default=None, serialization_alias="chosen_on")
    kind: str

    @abstractmethod
    def make(self, context: "RetrieverContext") -> CachedRetriever:
        """Return the retriever without building it. Raises if a model, a file or a component is not available."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the retrievers that it fuses, or of the `first_stage` that it reranks."""
        first_stage: str = getattr(self, "first_stage", "")
        return (first_stage,) if first_stage else tuple(getattr(self, "retrievers", ()))

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the retrievers that return the passages it orders: itself if it wraps no other."""
        return self.components or (self.name,)

    def candidate_depth(self, k: int) -> int:
        """How many passages of each component it needs for its top k, 0 if it wraps no other.

        Passages below `rerank_top_k` keep their order, and may be in the top k.
        """
        return max(k, getattr(self, "top_k", 0), getattr(self, "rerank_top_k", 0)) if self.components else 0

    def scored_depth(self, k: int) -> int:
        """How many of its top k passages it scores; the others keep the order of a component."""
        return k

    @property
    def score_kind(self) -> str:
        return self.kind

    @property
    def local_spec(self) -> "Spec":
        """The retriever with the same name and scores that explains them: itself, unless an engine searches."""
        return self

    @property
    def needs_model(self) -> bool:
        return "model" in type(self).model_fields

    def characters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        """Return how many of these characters it reads in total: its time is proportional to them."""
        reads = {"analyzer", "model"} & type(self).model_fields.keys() and not self.components
        return passages + questions if reads and n_passages and n_questions else 0

    def tuned_on(self, part: Part) -> bool:
        return self.selected_on is not None and (self.selected_on is part or Part.ALL in (self.selected_on, part))

    def resolved_values(self, context: "RetrieverContext") -> dict[str, Any]:
        """Return its values, with the analyzer that `auto` selects and the identity of a model."""
        values = self.model_dump(mode="json", exclude={"name"}, exclude_none=True)
        used = dict(self.local_spec)
        if "analyzer" in used:
            values["analyzer"] = resolve_analyzer(used["analyzer"], context.texts(used["title"])).value
        if "model" in used:
            values["model"] = {"reference": used["model"]}
            try:
                values["model"] |= model_identity(context.source(used["model"]), context.texts(used["title"]))
            except (ModelError, ImportError, OSError) as error:
                values["model"] |= {"error": getattr(error, "code", "unreadable")}
        return values


class ReadingSpec(Spec):
    """The settings of a model that reads long passages in windows, see `WindowOptions`, or truncates them."""

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
    """The data and models of an experiment's retrievers; retrievers with the same model share it.

    Paths start at `base`. `on_progress` gets the progress of the running retriever, 0 to 1. A learned mix trains on the
    `full_set` without the evaluated part.
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
        self.texts = cache(lambda title: self.passages.indexed_texts(title=title))
        self.source = cache(lambda model: find_model(model, base))
        self.dictionary = cache(lambda reference: find_dictionary(reference, base))
        self.encoder = cache(self._encoder)
        self.term_encoder = cache(self._term_encoder)
        self.token_encoder = cache(self._token_encoder)
        self.scorer = cache(self._scorer)

    def _encoder(self, model: str, title: bool, precision: Precision) -> BiEncoder:
        options: dict[str, Any] = {"precision": precision, "on_progress": self.on_progress}
        passages_fraction = _passage_cost_fraction(self.question_set)
        return BiEncoder(self.source(model), self.texts(title), passages_fraction=passages_fraction, **options)

    def _term_encoder(self, model: str, title: bool, precision: Precision) -> SparseTextEncoder:
        texts = self.texts(title)
        return SparseTextEncoder(self.source(model), texts, precision=precision, on_progress=self.on_progress)

    def _token_encoder(self, model: str, title: bool, **options: Any) -> TokenEncoder:
        values = [dict(spec) for spec in self.specs.values()]
        on_progress = self.on_progress
        return TokenEncoder(
            self.source(model),
            self.texts(title),
            also=[entry["layers"] for entry in values if "layers" in entry and entry["model"] == model],
            on_progress=on_progress and (lambda fraction: on_progress(ENCODING_FRACTION * fraction)),
            passages_fraction=_passage_cost_fraction(self.question_set),
            **options,
        )

    def _scorer(self, model: str, title: bool, precision: Precision) -> CrossEncoderScorer:
        return CrossEncoderScorer(self.source(model), self.texts(title), precision=precision)

    @cached_property
    def split(self) -> Split:
        return split(self.full_set, self.split_options)

    def get_retriever(self, name: str) -> CachedRetriever:
        """Return a created retriever. Raises the error of one that could not be created."""
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
        """Cache the rankings by everything they depend on: values of the spec, components, and `content`."""
        values = spec.model_dump(mode="json", exclude=_FIELDS_NOT_IN_KEYS, by_alias=True)
        components = [self.get_retriever(name) for name in spec.components]
        keys = [component.key for component in (*components, *own_components)]
        key = disk_cache.key_of(VERSION, ANALYZER_VERSION, self.question_set.corpus_fingerprint, values, keys, *content)
        options: dict[str, Any] = {"depth": self._depths.get(spec.name, 0), "meter": meter or Meter()}
        options |= {"own_components": own_components, "is_timed": is_timed}
        return CachedRetriever(spec.name, key, build, components, **options)


def _passage_cost_fraction(question_set: QuestionSet) -> float:
    """Return the fraction of the cost of reading passages and questions that passages cause."""
    lengths = np.array([len(question.text) for question in question_set.questions])
    passages = reading_costs(question_set.passages.texts.lengths()).sum()
    return float(passages / max(1.0, passages + reading_costs(lengths).sum()))
