"""The experiment file, which the page and the command line both run, and retrievers that a person added to a set."""

import hashlib
import logging
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from functools import cache, partial
from operator import eq, not_
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.files import read_user_file, set_aside
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split
from mrc_workbench.data.workspace import read_json, replacing, require_room, workspace, write_json
from mrc_workbench.retrieval.comparison.first_stage import (
    BM25Spec,
    DenseSpec,
    HttpSpec,
    LateSpec,
    MilvusSpec,
    PluginSpec,
    Recorded,
    RunSpec,
    SparseSpec,
    WindowedBM25Spec,
)
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Count, Spec
from mrc_workbench.retrieval.evaluation.measures import DEFAULT_KS, depth_of
from mrc_workbench.retrieval.outside.adapt import Measured
from mrc_workbench.retrieval.trec import read_run, write_run

logger = logging.getLogger(__name__)
E = TypeVar("E", bound=BaseModel)
# every kind of retriever there is: one more is a file with its `Spec`, and its name here
KINDS: tuple[type[Spec], ...] = (
    BM25Spec,
    WindowedBM25Spec,
    DenseSpec,
    SparseSpec,
    LateSpec,
    HybridSpec,
    LearnedSpec,
    RerankSpec,
    RunSpec,
    MilvusSpec,
    HttpSpec,
    PluginSpec,
)


class ExperimentError(ValueError):
    """An experiment file that cannot be used; the message names the place and what was expected."""


class Lab(StrEnum):
    """Which laboratory of the page made an experiment, whose retrievers differ in the values it tries."""

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
    """What is compared, on what. Retrievers wrap only retrievers listed before them.

    Passages of the grade `relevant_from` and more are relevant, for all measures but nDCG, which counts every grade.
    With `strict_split` the parts never share a passage, however few questions that leaves in one (see `data.split`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    split: Part = Part.ALL
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0
    strict_split: bool = Field(default=False, exclude_if=not_)
    relevant_from: int = Field(default=RELEVANT_GRADE, ge=RELEVANT_GRADE, exclude_if=partial(eq, RELEVANT_GRADE))
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
        """Return the set with the questions that are asked of it: those of the part, split as the whole set is, that
        have a passage of the grade `relevant_from` or more. There may be none. `parts` is the split, if it is known.
        """
        parts = parts or split(question_set, self.split_options)
        return parts.questions(question_set, self.split).relevant_from(self.relevant_from)

    @property
    def specs(self) -> dict[str, Spec]:
        return {spec.name: spec for spec in self.retriever}

    @property
    def depths(self) -> dict[str, int]:
        """How many passages a question each retriever is searched for: as many as the measures and all that wrap it
        ask for, so that it is searched once.
        """
        depths = dict.fromkeys(self.specs, depth_of(self.ks))
        for spec in reversed(self.retriever):
            for part in spec.parts:
                depths[part] = max(depths[part], spec.candidates(depths[spec.name]))
        return depths

    def needed(self, names: Iterable[str]) -> list[Spec]:
        """Return the retrievers named and all that they wrap, in the order of the experiment."""
        wanted = {spec.name for spec in needed(self.specs, names)}
        return [spec for spec in self.retriever if spec.name in wanted]


def needed(specs: Mapping[str, Spec], names: Iterable[str]) -> list[Spec]:
    """Return the specs named and those they wrap, each after what it wraps."""
    ordered: dict[str, Spec] = {}
    for name in names:
        wrapped = {spec.name: spec for spec in needed(specs, specs[name].parts)}
        ordered |= wrapped | {name: specs[name]}  # what stands there already keeps its place
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


def write_experiment(experiment: BaseModel, remarks: Sequence[str] = ()) -> str:
    """Return an experiment of any kind as TOML that `read_as` takes, after remarks for who reads it."""
    lines = (" ".join("".join(c if c.isprintable() else " " for c in remark).split()) for remark in remarks)
    head = "".join(f"# {line}\n" for line in lines)
    return head + tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def added(fingerprint: str) -> list[Spec]:
    """Return what was added to the set of this fingerprint, the first added first; what cannot be read is left out.

    The path of a run is absolute, and a retriever stands after those it wraps, where they were added too.
    """
    found, specs = [(read_json(path), path) for path in _folder(fingerprint).glob("*.json")], list[Spec]()
    for content, path in sorted(found, key=lambda entry: (str(entry[0].get("added")), entry[1].name)):
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
    """Add a retriever to the set; one of the same name takes the place of the one there was."""
    path = _path(fingerprint, spec.name)
    known, is_damaged = read_user_file(path)
    if is_damaged:
        set_aside(path)
    since = known.get("added") or datetime.now(UTC).isoformat()
    write_json(path, {"added": since, "retriever": spec.model_dump(mode="json")})


def add_run(
    question_set: QuestionSet, name: str, content: bytes, reference: str, recorded: Recorded | None = None
) -> RunSpec:
    """Add the rankings of a TREC run, `content`, as a retriever; `reference` is what a person calls the file.

    Returns its spec with an absolute path.
    Raises `RunError` where it cannot be used, `LimitError` where there is no room for it, and adds nothing.
    """
    path = _folder(question_set.fingerprint) / f"{hashlib.sha256(content).hexdigest()}.trec"
    if path.is_file():  # left as it is, so that what was found with it stays kept
        read_run(path, question_set, reference)
    else:
        with replacing(path) as new:
            new.write_bytes(content)
            read_run(new, question_set, reference)
            require_room()
    spec = RunSpec(name=name, path=path.name, recorded=recorded)
    add(question_set.fingerprint, spec)
    return spec.model_copy(update={"path": str(path)})


def remove(fingerprint: str, name: str) -> None:
    """Remove a retriever, all that wrap it, and the run it brought where no other uses it."""
    gone = {name}
    for spec in added(fingerprint):
        if gone.intersection(spec.parts):
            gone.add(spec.name)
    for one in gone:
        _path(fingerprint, one).unlink(missing_ok=True)
    used = {Path(spec.path).name for spec in added(fingerprint) if isinstance(spec, RunSpec)}
    for run in _folder(fingerprint).glob("*.trec"):
        if run.name not in used:
            run.unlink(missing_ok=True)


def _folder(fingerprint: str) -> Path:
    return workspace() / "added" / key_of(fingerprint)[:16]


def _path(fingerprint: str, name: str) -> Path:
    return _folder(fingerprint) / f"{key_of(name)[:16]}.json"


OWN_ERROR = "Value error, "  # what pydantic puts before the message of a check of ours


def messages_of(error: ValidationError, model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> list[str]:
    """Return a message for each error of a file of the type `model`; `kinds` are tagged by their field `kind`."""
    errors = error.errors()
    places = [one["loc"] for one in errors]
    return [_message(one, model, kinds) for one in errors if not _is_consequence(one, places)]


def _is_consequence(error: ErrorDetails, places: Sequence[tuple[int | str, ...]]) -> bool:
    """Whether a list is too short because its entries were refused."""
    place = error["loc"]
    return error["type"] == "too_short" and any(other[: len(place)] == place and other != place for other in places)


def _message(error: ErrorDetails, model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> str:
    place = error["loc"]
    where = ".".join(map(str, place)) or "file"
    if error["type"] == "union_tag_invalid":
        return f"{where}: {_unknown_kind(str(error['ctx']['tag']), kinds)}"
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg'].removeprefix(OWN_ERROR)}"
    known = sorted(_fields_beside(place, model, kinds))
    nearest = get_close_matches(str(place[-1]), known, n=1)
    if nearest:
        return f"{where}: unknown field; did you mean {nearest[0]!r}?"
    return f"{where}: unknown field; known fields: {', '.join(known)}"


def _unknown_kind(kind: str, kinds: Sequence[type[BaseModel]]) -> str:
    known = [str(one.model_fields["kind"].default) for one in kinds if "kind" in one.model_fields]
    nearest = get_close_matches(kind, known, n=1)
    guess = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"no kind of retriever is called {kind!r}{guess} Known: {', '.join(known)}"


def _fields_beside(place: tuple[int | str, ...], model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> set[str]:
    """Return the fields of the table that an unknown field stands in."""
    models: list[type[BaseModel]] = [model]
    for part in place[:-1]:
        if isinstance(part, int):
            continue
        tagged = [kind for kind in kinds if "kind" in kind.model_fields and kind.model_fields["kind"].default == part]
        within = [one for parent in models if part in parent.model_fields for one in _models_in(parent, part)]
        models = tagged or within or models
    return {name for one in models for name in one.model_fields}


def _models_in(parent: type[BaseModel], field: str) -> Iterator[type[BaseModel]]:
    yield from _models_of(parent.model_fields[field].annotation)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_of(argument)


_NOTICED = ("unknown_passages", "unknown_example", "repeated", "rising_scores")


def store_measured(measured: Measured, whole: QuestionSet) -> RunSpec:
    """Add what was measured to the retrievers of a question set, under its name; returns the spec, its path absolute.

    `whole` is the set with all its questions, some of which were searched. Raises `LimitError` if there is no room.
    """
    noticed = {key: measured.notes[key] for key in _NOTICED if key in measured.notes}
    depth = measured.rankings.indices.shape[1]
    recorded = Recorded(seconds_per_query=measured.seconds_per_query, depth=depth, **noticed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trec"
        write_run(path, measured.rankings, measured.question_set, measured.name)
        content = path.read_bytes()
    return add_run(whole, measured.name, content, measured.name, recorded)
