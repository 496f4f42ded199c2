"""The experiment file, which the page and the command line both run, and retrievers that a user added to a set."""

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
from mrc_workbench.data.files import read_user_file, set_aside
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.workspace import read_json, replacing, require_room, workspace, write_json
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison import first_stage, multistage
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Count, Materials, Spec, omitted
from mrc_workbench.retrieval.measures import DEFAULT_KS, depth_of
from mrc_workbench.retrieval.outside.adapt import Measured
from mrc_workbench.retrieval.trec import ImportedRun, find_run, fingerprint, read_run, write_run

logger = logging.getLogger(__name__)
E = TypeVar("E", bound=BaseModel)
NO_PATH = "-"
OWN_ERROR = "Value error, "  # what pydantic puts before the message of a check of ours


class Recorded(BaseModel):
    """What was measured when a run was made: seconds per query, and what was noticed in its results.

    `depth` is the number of passages that was searched for: a question with fewer has no others. 0 means unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    seconds_per_query: NonNegativeFloat
    depth: NonNegativeInt = omitted(0)
    unknown_passages: NonNegativeInt = omitted(0)
    unknown_example: str = omitted("")
    repeated: NonNegativeInt = omitted(0)
    rising_scores: NonNegativeInt = omitted(0)


class RunSpec(Spec):
    """Rankings made elsewhere: a TREC run, its path relative to the experiment file.

    `recorded` is what was measured when it was made; without it, no latency is reported. `failure` says why a
    retriever of a Python program, which was searched there, has no rankings; the path is then `NO_PATH`.
    """

    searchable: ClassVar[bool] = False
    kind: Literal["run"] = "run"
    path: str = Field(min_length=1)
    recorded: Recorded | None = omitted(None)
    failure: str = omitted("")

    def resolved(self, materials: Materials) -> dict[str, Any]:
        values = super().resolved(materials)
        if not self.failure:
            with suppress(OSError):  # the retriever failed then, and reports it itself
                content = ((materials.base or Path()) / self.path).read_bytes()
                values["fingerprint"] = hashlib.sha256(content).hexdigest()
        return values

    def make(self, materials: Materials) -> CachedRetriever:
        if self.failure:
            raise Failure("", self.failure)
        path, questions = find_run(self.path, materials.base), materials.question_set
        measured, notes = {}, {}
        if self.recorded:
            measured = self.recorded.model_dump(include={"seconds_per_query", "depth"})
            notes = self.recorded.model_dump(exclude={"seconds_per_query", "depth"})

        def build() -> ImportedRun:
            run = ImportedRun(self.name, path, questions, self.path, **measured)
            run.notes |= notes
            return run

        known_by = (fingerprint(path), questions.fingerprint, *first_stage.known_aliases(questions))
        return materials.kept(self, build, *known_by, timed=self.recorded is not None)


# every kind of retriever there is: a new one is a `Spec`, and its name here
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


class ExperimentError(ValueError):
    """An experiment file that cannot be used; the message names the field and what was expected."""


class Lab(StrEnum):
    """The lab of the page that made an experiment, whose retrievers differ in the values it tries."""

    BM25 = "bm25"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    RERANK = "rerank"
    INDEX = "index"
    LAYERS = "layers"


def of_kind(values: object) -> Spec:
    """Read a retriever of any of the `KINDS`. Raises pydantic's `ValidationError`."""
    return _reader(KINDS).validate_python(values)


@cache
def _reader(kinds: tuple[type[Spec], ...]) -> TypeAdapter[Spec]:
    return TypeAdapter(Annotated[Union[kinds], Field(discriminator="kind")])  # type: ignore[arg-type]  # noqa: UP007


class Experiment(BaseModel):
    """The retrievers to compare, and on which data. Retrievers wrap only retrievers listed before them.

    Passages of the grade `relevant_from` and more are relevant, for all metrics but nDCG, which counts every grade.
    With `strict_split` the parts never share a passage, however few questions that leaves in one (see `data.split`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    split: Part = Part.ALL
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0
    strict_split: bool = omitted(False)
    relevant_from: int = omitted(RELEVANT_GRADE, ge=RELEVANT_GRADE)
    ks: tuple[Count, ...] = Field(default=DEFAULT_KS, min_length=1)
    lab: Lab | None = None
    retriever: tuple[Annotated[SerializeAsAny[Spec], BeforeValidator(of_kind)], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _wraps_what_is_listed_before(self) -> "Experiment":
        _ = self.split_options  # checks the shares
        known: set[str] = set()
        for spec in self.retriever:
            if spec.name in known:
                raise ValueError(f"two retrievers are named {spec.name!r}")
            if missing := [part for part in spec.parts if part not in known]:
                raise ValueError(f"{spec.name!r} uses {missing}, which must be listed before it")
            known.add(spec.name)
        return self

    @property
    def split_options(self) -> SplitOptions:
        return SplitOptions(self.validation_share, self.test_share, self.seed, self.strict_split)

    def asked(self, question_set: QuestionSet, parts: Split | None = None) -> QuestionSet:
        """Return the set with the questions of the part that have a passage of the grade `relevant_from` or more.

        There may be none. `parts` is the split of the whole set, if it is known.
        """
        parts = parts or split(question_set, self.split_options)
        return parts.questions(question_set, self.split).relevant_from(self.relevant_from)

    @property
    def specs(self) -> dict[str, Spec]:
        return {spec.name: spec for spec in self.retriever}

    @property
    def depths(self) -> dict[str, int]:
        """How many passages per question each retriever is searched for, so that one search serves all that need it."""
        depths = dict.fromkeys(self.specs, depth_of(self.ks))
        for spec in reversed(self.retriever):
            for part in spec.parts:
                depths[part] = max(depths[part], spec.candidates(depths[spec.name]))
        return depths

    def needed(self, names: Iterable[str]) -> list[Spec]:
        selected = {spec.name for spec in needed(self.specs, names)}
        return [spec for spec in self.retriever if spec.name in selected]


def needed(specs: Mapping[str, Spec], names: Iterable[str]) -> list[Spec]:
    """Return the specs named and those they wrap, each after what it wraps."""
    ordered: dict[str, Spec] = {}
    for name in names:
        wrapped = {spec.name: spec for spec in needed(specs, specs[name].parts)}
        ordered |= wrapped | {name: specs[name]}  # what is there already keeps its position
    return list(ordered.values())


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    return read_as(Experiment, path)


def read_as(kind: type[E], path: Path) -> E:
    """Read an experiment file of a kind (TOML). Raises `ExperimentError`."""
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except ValidationError as error:
        raise ExperimentError(f"{path.name}: " + "; ".join(messages_of(error, kind, KINDS))) from error
    except OSError as error:
        raise ExperimentError(f"the experiment file {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ExperimentError(f"{path.name} cannot be read as an experiment file (TOML): {error}") from error
    except RecursionError as error:
        raise ExperimentError(f"{path.name}: lists or tables are nested too deeply in it") from error


def messages_of(error: ValidationError, model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> list[str]:
    """Return a message for each error of a file of the type `model`; `kinds` are tagged by their field `kind`.

    Left out are lists that are too short because their entries were refused.
    """
    errors = error.errors()
    inner = {one["loc"][:end] for one in errors for end in range(len(one["loc"]))}
    by_kind = {kind.model_fields["kind"].default: kind for kind in kinds if "kind" in kind.model_fields}
    return [_message(one, model, by_kind) for one in errors if one["type"] != "too_short" or one["loc"] not in inner]


def _message(error: ErrorDetails, model: type[BaseModel], kinds: Mapping[str, type[BaseModel]]) -> str:
    where = ".".join(map(str, error["loc"])) or "file"
    if error["type"] == "union_tag_invalid":
        kind = str(error["ctx"]["tag"])
        nearest = get_close_matches(kind, kinds, n=1)
        guess = f"; did you mean {nearest[0]!r}?" if nearest else "."
        return f"{where}: no kind of retriever is called {kind!r}{guess} Known: {', '.join(kinds)}"
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg'].removeprefix(OWN_ERROR)}"
    *tables, field = error["loc"]
    models = [model]
    for name in map(str, tables):
        annotations = [parent.model_fields[name].annotation for parent in models if name in parent.model_fields]
        inner = [child for annotation in annotations for child in _models_of(annotation)]
        models = [kinds[name]] if name in kinds else inner or models
    known = sorted({name for table in models for name in table.model_fields})
    nearest = get_close_matches(str(field), known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known fields: {', '.join(known)}"
    return f"{where}: unknown field; {hint}"


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a field of this type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_of(argument)


def write_experiment(experiment: BaseModel, remarks: Sequence[str] = ()) -> str:
    """Return an experiment of any kind as TOML that `read_as` takes, after remarks for its readers."""
    lines = (" ".join("".join(c if c.isprintable() else " " for c in remark).split()) for remark in remarks)
    head = "".join(f"# {line}\n" for line in lines)
    return head + tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def storable(experiment: Experiment, question_set: QuestionSet, base: Path) -> Experiment:
    """Return the experiment as the workspace stores it, so that it opens from any folder.

    Its data is the question set's key in the workspace, and its paths are absolute.
    """
    retrievers = tuple(with_absolute_paths(spec, base) for spec in experiment.retriever)
    return experiment.model_copy(update={"data": question_set.fingerprint[:16], "retriever": retrievers})


def with_absolute_paths(spec: Spec, base: Path) -> Spec:
    """Return a spec whose files and folders, given from `base`, are named by absolute paths."""
    paths: dict[str, Any] = {}
    for name in ("model", "dictionary", "path"):
        value = getattr(spec, name, "")
        if value and value != STARTER and os.path.exists(base / value):  # noqa: PTH110 - a name may be too long
            paths[name] = str((base / value).absolute())
    return spec.model_copy(update=paths) if paths else spec


def added(fingerprint: str) -> list[Spec]:
    """Return what was added to the set of this fingerprint, the first added first; what cannot be read is left out.

    The path of a run is absolute, and a retriever follows those it wraps, if they were added too.
    """
    entries, specs = [(read_json(path), path) for path in _folder(fingerprint).glob("*.json")], list[Spec]()
    for content, path in sorted(entries, key=lambda entry: (str(entry[0].get("added")), entry[1].name)):
        try:
            spec = of_kind(content.get("retriever"))
        except ValidationError as error:
            logger.warning("an added retriever cannot be read: %s: %s", path, error)
            continue
        if isinstance(spec, RunSpec):
            spec = spec.model_copy(update={"path": str(path.parent / spec.path)})
        specs.append(spec)
    return specs


def add(fingerprint: str, spec: Spec) -> None:
    """Add a retriever to the set, or replace the one of the same name."""
    path = _path(fingerprint, spec.name)
    known, is_damaged = read_user_file(path)
    if is_damaged:
        set_aside(path)
    since = known.get("added") or datetime.now(UTC).isoformat()
    write_json(path, {"added": since, "retriever": spec.model_dump(mode="json")})


def add_run(
    question_set: QuestionSet, name: str, content: bytes, reference: str, recorded: Recorded | None = None
) -> RunSpec:
    """Add the rankings of a TREC run, `content`, as a retriever; `reference` is what a user calls the file.

    Returns its spec with an absolute path. Raises `RunError` for an unusable run and `LimitError` if there is no room.
    """
    path = _folder(question_set.fingerprint) / f"{hashlib.sha256(content).hexdigest()}.trec"
    if path.is_file():  # left as it is, so that its results stay cached
        read_run(path, question_set, reference)
    else:
        with replacing(path) as new:
            new.write_bytes(content)
            read_run(new, question_set, reference)
            require_room()
    spec = RunSpec(name=name, path=path.name, recorded=recorded)
    add(question_set.fingerprint, spec)
    return spec.model_copy(update={"path": str(path)})


def store_measured(measured: Measured, whole: QuestionSet) -> RunSpec:
    """Store a retriever of a Python program as an imported run of the set, under its name; its path is absolute.

    `whole` is the set with all its questions, some of which were searched. Raises `LimitError` if there is no room.
    """
    fields = Recorded.model_fields.keys() - {"seconds_per_query", "depth"}
    noticed = {key: value for key, value in measured.notes.items() if key in fields}
    depth = measured.rankings.indices.shape[1]
    recorded = Recorded(seconds_per_query=measured.seconds_per_query, depth=depth, **noticed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trec"
        write_run(path, measured.rankings, measured.question_set, measured.name)
        content = path.read_bytes()
    return add_run(whole, measured.name, content, measured.name, recorded)


def remove(fingerprint: str, name: str) -> None:
    """Remove a retriever, all that wrap it, and its run unless another uses it."""
    removed = {name}
    for spec in added(fingerprint):
        if removed.intersection(spec.parts):
            removed.add(spec.name)
    for gone in removed:
        _path(fingerprint, gone).unlink(missing_ok=True)
    used = {Path(spec.path).name for spec in added(fingerprint) if isinstance(spec, RunSpec)}
    for run in _folder(fingerprint).glob("*.trec"):
        if run.name not in used:
            run.unlink(missing_ok=True)


def _folder(fingerprint: str) -> Path:
    return workspace() / "added" / key_of(fingerprint)[:16]


def _path(fingerprint: str, name: str) -> Path:
    return _folder(fingerprint) / f"{key_of(name)[:16]}.json"
