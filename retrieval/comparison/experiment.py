"""Experiment files, which the page and the command line run, and retrievers that users add to a dataset."""

import hashlib
import logging
import os
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.files import back_up_damaged_file, read_user_file
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.workspace import read_json, replacing, require_storage, workspace, write_json
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison import first_stage, multistage
from mrc_workbench.retrieval.comparison.spec import (
    CachedRetriever,
    Count,
    RenamedFields,
    RetrieverContext,
    Spec,
    omit_if_default,
)
from mrc_workbench.retrieval.measures import DEFAULT_KS, required_depth
from mrc_workbench.retrieval.outside.adapt import MeasuredRun
from mrc_workbench.retrieval.trec import ImportedRun, find_run, fingerprint, read_run, write_run

logger = logging.getLogger(__name__)
ExperimentType = TypeVar("ExperimentType", bound=BaseModel)
NO_PATH = "-"
VALUE_ERROR_PREFIX = "Value error, "  # pydantic's prefix of the messages of validators


class RunMeasurements(BaseModel):
    """Measurements of a run: seconds per query, and problems in its results.

    `depth` is the requested number of passages, 0 if unknown: a question with fewer has no others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    seconds_per_query: NonNegativeFloat
    depth: NonNegativeInt = omit_if_default(0)
    unknown_passages: NonNegativeInt = omit_if_default(0)
    unknown_example: str = omit_if_default("")
    repeated: NonNegativeInt = omit_if_default(0)
    rising_scores: NonNegativeInt = omit_if_default(0)


_SEARCH_FIELDS = {"seconds_per_query", "depth"}  # the other fields are notes


class RunSpec(Spec):
    """A TREC run with rankings from outside, its path relative to the experiment file.

    Without `recorded` measurements, no latency is reported. `failure` is the error of a retriever of a Python program;
    the path is then `NO_PATH`.
    """

    searchable: ClassVar[bool] = False
    kind: Literal["run"] = "run"
    path: str = Field(min_length=1)
    recorded: RunMeasurements | None = omit_if_default(None)
    failure: str = omit_if_default("")

    def resolved_values(self, context: RetrieverContext) -> dict[str, Any]:
        values = super().resolved_values(context)
        if not self.failure:
            with suppress(OSError):
                content = ((context.base or Path()) / self.path).read_bytes()
                values["fingerprint"] = hashlib.sha256(content).hexdigest()
        return values

    def make(self, context: RetrieverContext) -> CachedRetriever:
        if self.failure:
            raise Failure("", self.failure)
        path = find_run(self.path, context.base)
        questions = context.question_set
        recorded = self.recorded
        measured = recorded.model_dump(include=_SEARCH_FIELDS) if recorded else {}
        notes = recorded.model_dump(exclude=_SEARCH_FIELDS) if recorded else {}

        def build() -> ImportedRun:
            run = ImportedRun(self.name, path, questions, self.path, **measured)
            run.notes |= notes
            return run

        identity = (fingerprint(path), questions.fingerprint, *first_stage.alias_fingerprints(questions))
        return context.cached_retriever(self, build, *identity, is_timed=self.recorded is not None)


# all kinds of retrievers: add a new `Spec` here
KINDS: tuple[type[Spec], ...] = (
    first_stage.BM25Spec,
    first_stage.WindowedBM25Spec,
    first_stage.DenseSpec,
    first_stage.SparseSpec,
    first_stage.LateSpec,
    multistage.HybridSpec,
    multistage.LearnedSpec,
    multistage.RerankSpec,
    RunSpec,
    first_stage.MilvusSpec,
    first_stage.HttpSpec,
    first_stage.PluginSpec,
)
KIND_BY_NAME: dict[str, type[Spec]] = {kind.model_fields["kind"].default: kind for kind in KINDS}


class ExperimentError(ValueError):
    """An experiment file that cannot be used; the message names the field and the expected value."""


class LabKind(StrEnum):
    """The lab that created an experiment; its retrievers differ in the tried values."""

    BM25 = "bm25"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    RERANK = "rerank"
    INDEX = "index"
    LAYERS = "layers"


def parse_spec(values: object) -> Spec:
    """Read a retriever of any of the `KINDS`. Raises pydantic's `ValidationError`."""
    return _spec_adapter(KINDS).validate_python(values)


@cache
def _spec_adapter(kinds: tuple[type[Spec], ...]) -> TypeAdapter[Spec]:
    return TypeAdapter(Annotated[Union[kinds], Field(discriminator="kind")])  # type: ignore[arg-type]  # noqa: UP007


class Experiment(RenamedFields):
    """The retrievers to compare, and the data. Retrievers wrap only retrievers listed before them.

    Passages of the grade `relevance_level` and more are relevant, for all metrics but nDCG, which counts every grade.
    With `strict_split`, parts never share a passage, even if a part gets few questions (see `data.split`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    split: Part = Part.ALL
    validation_fraction: float = Field(default=0.1, serialization_alias="validation_share")
    test_fraction: float = Field(default=0.2, serialization_alias="test_share")
    seed: int = 0
    strict_split: bool = omit_if_default(False)
    relevance_level: int = omit_if_default(RELEVANT_GRADE, ge=RELEVANT_GRADE, serialization_alias="relevant_from")
    ks: tuple[Count, ...] = Field(default=DEFAULT_KS, min_length=1)
    lab: LabKind | None = None
    retriever: tuple[Annotated[SerializeAsAny[Spec], BeforeValidator(parse_spec)], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_order(self) -> "Experiment":
        SplitOptions(self.validation_fraction, self.test_fraction, self.seed, self.strict_split)  # raises ValueError
        known: set[str] = set()
        for spec in self.retriever:
            if spec.name in known:
                raise ValueError(f"two retrievers are named {spec.name!r}")
            if missing := [component for component in spec.components if component not in known]:
                raise ValueError(f"{spec.name!r} uses {missing}, which must be listed before it")
            known.add(spec.name)
        return self

    @property
    def split_options(self) -> SplitOptions:
        return SplitOptions(self.validation_fraction, self.test_fraction, self.seed, self.strict_split)

    def evaluation_set(self, question_set: QuestionSet, split_parts: Split | None = None) -> QuestionSet:
        """Return the dataset with the questions of the part that have a relevant passage.

        `split_parts` is the split of the whole dataset, computed if missing.
        """
        split_parts = split_parts or split(question_set, self.split_options)
        return split_parts.questions(question_set, self.split).relevant_from(self.relevance_level)

    @property
    def specs(self) -> dict[str, Spec]:
        return {spec.name: spec for spec in self.retriever}

    @property
    def depths(self) -> dict[str, int]:
        """Passages per question of each retriever's search, enough for the metrics and for retrievers that wrap it."""
        depths = dict.fromkeys(self.specs, required_depth(self.ks))
        for spec in reversed(self.retriever):
            for component in spec.components:
                depths[component] = max(depths[component], spec.candidate_depth(depths[spec.name]))
        return depths

    def with_dependencies(self, names: Iterable[str]) -> list[Spec]:
        selected = {spec.name for spec in with_dependencies(self.specs, names)}
        return [spec for spec in self.retriever if spec.name in selected]


def with_dependencies(specs: Mapping[str, Spec], names: Iterable[str]) -> list[Spec]:
    """Return the named specs and those they wrap, each after its components."""
    ordered: dict[str, Spec] = {}
    for name in names:
        wrapped = {spec.name: spec for spec in with_dependencies(specs, specs[name].components)}
        ordered |= wrapped | {name: specs[name]}  # listed specs keep their position
    return list(ordered.values())


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    return read_experiment_as(Experiment, path)


def read_experiment_as(kind: type[ExperimentType], path: Path) -> ExperimentType:
    """Read an experiment file of a kind (TOML). Raises `ExperimentError`."""
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except ValidationError as error:
        raise ExperimentError(f"{path.name}: " + "; ".join(error_messages(error, kind, KINDS))) from error
    except OSError as error:
        raise ExperimentError(f"the experiment file {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ExperimentError(f"{path.name} cannot be read as an experiment file (TOML): {error}") from error
    except RecursionError as error:
        raise ExperimentError(f"{path.name}: lists or tables are nested too deeply in it") from error


def error_messages(error: ValidationError, model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> list[str]:
    """Return a message for each error of a file of the type `model`; the field `kind` tells `kinds` apart.

    Lists that are too short because their entries are invalid get no message.
    """
    errors = error.errors()
    parent_locations = {details["loc"][:end] for details in errors for end in range(len(details["loc"]))}
    by_kind = {kind.model_fields["kind"].default: kind for kind in kinds if "kind" in kind.model_fields}
    reported = (item for item in errors if item["type"] != "too_short" or item["loc"] not in parent_locations)
    return [_error_message(details, model, by_kind) for details in reported]


def _error_message(error: ErrorDetails, model: type[BaseModel], kinds: Mapping[str, type[BaseModel]]) -> str:
    location = ".".join(map(str, error["loc"])) or "file"
    if error["type"] == "union_tag_invalid":
        kind = str(error["ctx"]["tag"])
        nearest = get_close_matches(kind, kinds, n=1)
        suggestion = f"; did you mean {nearest[0]!r}?" if nearest else "."
        return f"{location}: no kind of retriever is called {kind!r}{suggestion} Known: {', '.join(kinds)}"
    if error["type"] != "extra_forbidden":
        return f"{location}: {error['msg'].removeprefix(VALUE_ERROR_PREFIX)}"
    *tables, field = error["loc"]
    models = [model]
    for name in map(str, tables):
        annotations = [parent.model_fields[name].annotation for parent in models if name in parent.model_fields]
        inner = [child for annotation in annotations for child in _nested_models(annotation)]
        models = [kinds[name]] if name in kinds else inner or models
    known = sorted({name for table in models for name in table.model_fields})
    nearest = get_close_matches(str(field), known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known fields: {', '.join(known)}"
    return f"{location}: unknown field; {hint}"


def _nested_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _nested_models(argument)


def write_experiment(experiment: BaseModel, comments: Sequence[str] = ()) -> str:
    """Return an experiment of any kind as TOML for `read_experiment_as`, after comments."""
    lines = (" ".join("".join(c if c.isprintable() else " " for c in comment).split()) for comment in comments)
    header = "".join(f"# {line}\n" for line in lines)
    return header + tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def make_storable(experiment: Experiment, question_set: QuestionSet, base: Path) -> Experiment:
    """Return the experiment with the dataset's key and absolute paths, so that it opens from any folder."""
    retrievers = tuple(with_absolute_paths(spec, base) for spec in experiment.retriever)
    return experiment.model_copy(update={"data": question_set.fingerprint[:16], "retriever": retrievers})


def with_absolute_paths(spec: Spec, base: Path) -> Spec:
    """Return the spec with absolute paths; relative paths start at `base`."""
    paths: dict[str, Any] = {}
    for name in ("model", "dictionary", "path"):
        value = getattr(spec, name, "")
        if value and value != STARTER and os.path.exists(base / value):  # noqa: PTH110 - a name may be too long
            paths[name] = str((base / value).absolute())
    return spec.model_copy(update=paths) if paths else spec


def added_retrievers(fingerprint: str) -> list[Spec]:
    """Return the readable retrievers that a user added to the dataset of this fingerprint, the oldest first.

    Paths of runs are absolute. Added components precede the retrievers that wrap them.
    """
    entries = [(read_json(path), path) for path in _added_folder(fingerprint).glob("*.json")]
    specs = list[Spec]()
    for content, path in sorted(entries, key=lambda entry: (str(entry[0].get("added")), entry[1].name)):
        try:
            spec = parse_spec(content.get("retriever"))
        except ValidationError as error:
            logger.warning("an added retriever cannot be read: %s: %s", path, error)
            continue
        if isinstance(spec, RunSpec):
            spec = spec.model_copy(update={"path": str(path.parent / spec.path)})
        specs.append(spec)
    return specs


def add_retriever(fingerprint: str, spec: Spec) -> None:
    """Add a retriever to the dataset, or replace the one of the same name."""
    path = _added_path(fingerprint, spec.name)
    stored, is_damaged = read_user_file(path)
    if is_damaged:
        back_up_damaged_file(path)
    added_at = stored.get("added") or datetime.now(UTC).isoformat()
    write_json(path, {"added": added_at, "retriever": spec.model_dump(mode="json")})


def add_run(
    question_set: QuestionSet, name: str, content: bytes, reference: str, recorded: RunMeasurements | None = None
) -> RunSpec:
    """Add the `content` of a TREC run as a retriever; `reference` is the file's name in messages.

    Returns its spec with an absolute path. Raises `RunError` for an invalid run, and `LimitError`.
    """
    path = _added_folder(question_set.fingerprint) / f"{hashlib.sha256(content).hexdigest()}.trec"
    if path.is_file():  # unchanged, so that its results stay cached
        read_run(path, question_set, reference)
    else:
        with replacing(path) as new:
            new.write_bytes(content)
            read_run(new, question_set, reference)
            require_storage()
    spec = RunSpec(name=name, path=path.name, recorded=recorded)
    add_retriever(question_set.fingerprint, spec)
    return spec.model_copy(update={"path": str(path)})


def store_measured(measured: MeasuredRun, full_set: QuestionSet) -> RunSpec:
    """Store the rankings of a Python program's retriever as a run of the whole dataset. Raises `LimitError`."""
    fields = RunMeasurements.model_fields.keys() - _SEARCH_FIELDS
    notes = {key: value for key, value in measured.notes.items() if key in fields}
    depth = measured.rankings.indices.shape[1]
    recorded = RunMeasurements(seconds_per_query=measured.seconds_per_query, depth=depth, **notes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trec"
        write_run(path, measured.rankings, measured.question_set, measured.name)
        content = path.read_bytes()
    return add_run(full_set, measured.name, content, measured.name, recorded)


def remove_retriever(fingerprint: str, name: str) -> None:
    """Remove a retriever, all retrievers that wrap it, and unused runs."""
    removed = {name}
    for spec in added_retrievers(fingerprint):
        if removed.intersection(spec.components):
            removed.add(spec.name)
    for removed_name in removed:
        _added_path(fingerprint, removed_name).unlink(missing_ok=True)
    used = {Path(spec.path).name for spec in added_retrievers(fingerprint) if isinstance(spec, RunSpec)}
    for run in _added_folder(fingerprint).glob("*.trec"):
        if run.name not in used:
            run.unlink(missing_ok=True)


def _added_folder(fingerprint: str) -> Path:
    return workspace() / "added" / key_of(fingerprint)[:16]


def _added_path(fingerprint: str, name: str) -> Path:
    return _added_folder(fingerprint) / f"{key_of(name)[:16]}.json"
