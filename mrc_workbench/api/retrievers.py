"""The arguments of `compare` and `search`, converted to an experiment and named specs."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from mrc_workbench.api.data import Dataset, Source, load
from mrc_workbench.api.training import TrainedModel
from mrc_workbench.api.values import ApiError, is_run, is_whole_number, unknown_name
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.retrieval.comparison import experiment as experiments
from mrc_workbench.retrieval.comparison.experiment import Experiment, RunSpec
from mrc_workbench.retrieval.comparison.first_stage import PluginSpec
from mrc_workbench.retrieval.comparison.multistage import (
    BM25_NAME,
    SHORT_NAMES,
    DefaultRetrievers,
    UnknownRetrieverError,
)
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import DEFAULT_KS
from mrc_workbench.retrieval.outside.adapt import plugins
from mrc_workbench.retrieval.rankings import MAX_PASSAGES
from mrc_workbench.training.recipes import get_recipe

# a name, a path, a dictionary, a `Spec`, an `Experiment`, a `TrainedModel`, a run, or a retriever from outside
Item: TypeAlias = object
Items: TypeAlias = Item | Sequence[Item]
_LONGEST_NAME = 80  # characters
_LONGEST_VALUE = 40
_METHODS = ("search", "invoke", "retrieve")
_FILE_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,6}$")


@dataclass
class RetrieverRequest:
    """The retrievers of a comparison: specs in the given order.

    `runs` are imported rankings and `objects` retrievers from outside, by name; each has a placeholder in `specs` until
    it is stored. `experiment`, if given, determines split and cutoffs.
    """

    specs: dict[str, Spec] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    models: list[TrainedModel] = field(default_factory=list)
    experiment: Experiment | None = None


def build_request(items: Items, question_set: QuestionSet) -> RetrieverRequest:
    """Return the retrievers to compare. Raises `ApiError` and the errors of experiment files and default retrievers."""
    builder = _Builder(question_set, _with_names(_named_items(items)))
    for number in range(len(builder.items)):
        builder.add(number)
    return builder.request


def _named_items(items: Items) -> Iterable[tuple[str, Item]]:
    if isinstance(items, Mapping):
        # a mapping of mappings has either named runs, named specs, or the scores of a single run
        is_nested = is_run(items)
        if is_nested:
            names_items = all(map(is_run, items.values())) or all("kind" in item for item in items.values())
        else:
            names_items = "kind" not in items
        if names_items:
            if not all(str(name).strip() for name in items):
                raise ApiError("no_name", "a retriever in a mapping needs a name: a key of the mapping is empty")
            return [(str(name), item) for name, item in items.items()]
    elif isinstance(items, Sequence) and not isinstance(items, str):
        return [("", item) for item in items]
    return [("", items)]


def _with_names(items: Iterable[tuple[str, Item]]) -> list[tuple[str, Item]]:
    """Return the items once each, every dictionary, `Spec`, run and object with a name.

    Unnamed runs and objects get numbered names. Names of other items may stay empty.
    """
    listed = [(name or _name_of_spec(item), item) for name, item in items]
    taken = {name or (SHORT_NAMES.get(item.casefold(), item) if isinstance(item, str) else "") for name, item in listed}
    named: list[tuple[str, Item]] = []
    returned: set[int] = set()
    for name, item in listed:
        if name or not (is_run(item) or _is_searchable(item)):
            named.append((name, item))
        elif id(item) not in returned:
            returned.add(id(item))
            new_name = _free_name(item, taken)
            taken.add(new_name)
            named.append((new_name, item))
    return named


def _is_searchable(item: object) -> bool:
    return callable(item) or any(callable(getattr(item, method, None)) for method in _METHODS)


def _name_of_spec(item: Item) -> str:
    """Return the name of a `Spec` or a dictionary, by default from its settings; empty for other items."""
    if isinstance(item, Spec):
        return item.name
    if not isinstance(item, Mapping) or is_run(item) or not item.get("kind"):
        return ""
    if "name" in item:
        return str(item["name"])
    if dict(item) == {"kind": "bm25"}:  # the default retriever
        return BM25_NAME
    settings = {field: _short_text(value) for field, value in item.items() if field != "kind"}
    settings_text = ", ".join(f"{field}={text}" for field, text in settings.items() if text)
    name = f"{item['kind']} ({settings_text})" if settings_text else str(item["kind"])
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _short_text(value: object) -> str:
    """Return a setting as text; empty for long values, tables, and addresses, which may contain a password."""
    if isinstance(value, list | tuple):
        value = " + ".join(map(str, value))
    text = str(value) if isinstance(value, str | int | float) else ""
    return text if len(text) <= _LONGEST_VALUE and "://" not in text else ""


def _free_name(item: Item, taken: set[str]) -> str:
    """Return a name for a run ("Run 1") or an object (its own name or class) that is not taken."""
    if is_run(item):
        return next(name for number in count(1) if (name := f"Run {number}") not in taken)
    names = [getattr(item, attribute, "") for attribute in ("name", "__name__")]
    own = [name for name in names if isinstance(name, str) and name.strip() and name != "<lambda>"]
    name = own[0] if own else type(item).__name__
    choices = chain([name], (f"{name} {number}" for number in count(2)))
    return next(choice for choice in choices if choice not in taken)


class _Builder:
    """Adds items to a request, each after its components."""

    def __init__(self, question_set: QuestionSet, items: Sequence[tuple[str, Item]]) -> None:
        self.request = RetrieverRequest()
        self.items = items
        self._added: set[int] = set()
        generated = sum(question_set.generated_counts.values())
        self._defaults = DefaultRetrievers.of(len(question_set.passages), len(question_set.questions) - generated)

    def add(self, number: int) -> None:
        if number in self._added:  # a component of an earlier item
            return
        self._added.add(number)
        name, item = self.items[number]
        match item:
            case str() | os.PathLike():
                self._add_reference(item, name)
            case Experiment():
                self._add_experiment(item)
            case Spec():
                self._add_spec(item, name)
            case TrainedModel():
                self._add_model(item, name)
            case _ if is_run(item):
                self._reserve(name)
                self.request.runs[name] = item
            case Mapping():
                self._add_spec(_spec_of(item, name), name)
            case _ if _is_searchable(item):
                self._reserve(name)
                self.request.objects[name] = item
            case _:
                kind = type(item).__name__
                message = f"{kind} is not a retriever: give a name, a dictionary, a run, or an object with `search`"
                raise ApiError("not_a_retriever", message)

    def _reserve(self, name: str) -> None:
        """Add a placeholder for a run or an object until it is stored."""
        if name in self.request.specs:
            raise _duplicate_name_error(name)
        self.request.specs[name] = RunSpec(name=name, path=experiments.NO_PATH)

    def _add_reference(self, item: str | os.PathLike[str], name: str) -> None:
        """Add a default or registered retriever by name, those of an experiment file, or a TREC run by path."""
        reference = os.fspath(item)
        path = Path(reference).expanduser()
        is_file = os.path.isfile(path)  # noqa: PTH113 - a long name
        if reference.casefold() in SHORT_NAMES or (isinstance(item, str) and not is_file):
            self._add_spec(self._named(reference), name)
        elif not is_file:
            raise _missing_file_error(reference)
        elif path.suffix == ".toml":
            base = path.absolute().parent
            experiment = experiments.read_experiment(path)
            specs = tuple(experiments.with_absolute_paths(spec, base) for spec in experiment.retriever)
            self._add_experiment(experiment.model_copy(update={"retriever": specs}))
        else:
            self._add_spec(RunSpec(name=name or path.stem, path=str(path.absolute())), "")

    def _named(self, name: str) -> Spec:
        registered = plugins()
        if name.casefold() not in SHORT_NAMES and name in registered:
            return PluginSpec(name=name, entry=name)
        try:
            return self._defaults.by_name(name)
        except UnknownRetrieverError as error:
            if error.code != "unknown_retriever":
                raise
            if "/" in name or os.sep in name or _FILE_ENDING.search(name):
                raise _missing_file_error(name) from None
            listed = [given for given, _ in self.items if given]
            message = str(unknown_name("retriever", name, dict.fromkeys([*SHORT_NAMES, *registered, *listed])))
            raise UnknownRetrieverError("unknown_retriever", message, name=name) from None

    def _add_experiment(self, experiment: Experiment) -> None:
        self.request.experiment = experiment
        for spec in experiment.retriever:
            self._add_spec(spec, "")

    def _add_model(self, model: TrainedModel, name: str) -> None:
        plan = model.plan
        title = getattr(plan.options, "title", True)

        def named(kind: str) -> str:
            return f"{kind} · {plan.name}"

        specs = get_recipe(plan.kind).retrievers(model.reference, self._defaults.bm25.name, title=title, name_for=named)
        if not specs:
            raise ApiError("not_a_retriever", f"a {plan.kind} does not rank passages, so it cannot be compared")
        self.request.models.append(model)
        self._add_spec(specs[0], name)

    def _add_spec(self, spec: Spec, name: str) -> None:
        """Add a spec after its components; unlisted components are default retrievers."""
        known = self.request.specs
        components = {part: self._component(part) for part in spec.components}
        values = dict(spec)
        changes: dict[str, Any] = {"name": name} if name else {}
        if components and "retrievers" in values:
            changes["retrievers"] = tuple(components[part] for part in values["retrievers"])
        elif components and "first_stage" in values:
            changes["first_stage"] = components[values["first_stage"]]
        spec = spec.model_copy(update=changes)
        if spec.name in known and known[spec.name] != spec:
            raise _duplicate_name_error(spec.name)
        known[spec.name] = spec

    def _component(self, part: str) -> str:
        """Return the full name of a component, and add the component if it is missing."""
        if part in self.request.specs:
            return part
        for number, (name, _) in enumerate(self.items):
            if name == part and number not in self._added:
                self.add(number)
                return part
        spec = self._named(part)
        if spec.name not in self.request.specs:
            self._add_spec(spec, "")
        return spec.name


def _spec_of(values: Mapping[str, Any], name: str) -> Spec:
    kinds = [str(spec_class.model_fields["kind"].default) for spec_class in experiments.KINDS]
    kind = values.get("kind")
    if not kind:
        given = ", ".join(map(repr, values))[:200]
        known = ", ".join(kinds)
        message = f"a retriever given as a dictionary needs its kind, one of {known}; given: {given or 'nothing'}"
        raise ApiError("no_kind", message)
    if kind not in kinds:
        raise unknown_name("kind of retriever", str(kind), kinds)
    try:
        return experiments.parse_spec({"name": name, **values})
    except ValidationError as error:
        raise ApiError(
            "wrong_retriever", "; ".join(experiments.error_messages(error, Experiment, experiments.KINDS))
        ) from error


def _missing_file_error(reference: str) -> ApiError:
    is_folder = os.path.isdir(reference)  # noqa: PTH112 - a long name
    problem = f"{reference} is a folder" if is_folder else f"there is no file {reference!r}"
    return ApiError("no_file", f"{problem}; give the path of a TREC run or of an experiment file")


def _duplicate_name_error(name: str) -> ApiError:
    return ApiError("two_of_a_name", f"two retrievers are named {name!r}: give them different names")


def dataset_and_items(data: Source | Experiment | None, retrievers: Items | None) -> tuple[Dataset, Items]:
    """Return the dataset and the retrievers; an experiment names its data."""
    experiment = retrievers
    if retrievers is None and _is_experiment(data):
        data, experiment = None, data
    if data is None:
        if isinstance(experiment, Experiment):
            return load(experiment.data), experiment
        if not isinstance(experiment, str | os.PathLike) or not _is_experiment(experiment):
            raise ApiError("no_data", "compare needs data, or an experiment that names its data")
        path = Path(experiment).expanduser()
        source = experiments.read_experiment(path).data
        return Dataset(find(source, path.parent), source=source), str(path)
    if isinstance(data, Experiment):
        raise ApiError("two_experiments", "give either an experiment or data with retrievers")
    dataset = load(data)
    if retrievers is not None:
        return dataset, retrievers
    # the default retrievers that the Compare page selects first
    defaults = DefaultRetrievers.of(len(dataset.question_set.passages), len(dataset.question_set.questions))
    selected = [*defaults.first_stage, *([defaults.mix] if defaults.offers_mix else defaults.combined)]
    return dataset, [spec.name for spec in selected]


def _is_experiment(item: object) -> bool:
    if isinstance(item, str | os.PathLike):
        return os.fspath(item).endswith(".toml")
    return isinstance(item, Experiment)


def base_experiment(
    request: RetrieverRequest, *, part: str | None, split: object, ks: object, relevance_level: object
) -> Experiment:
    """Return the experiment without its retrievers: split, part, cutoffs and relevance level."""
    experiment = request.experiment
    if not request.specs:
        raise ApiError("no_retriever", "compare needs at least one retriever")
    if part is not None and part not in [*Part]:
        raise ApiError("unknown_part", f"part must be one of {', '.join(Part)}, not {part!r}")
    if split is not None and not isinstance(split, SplitOptions):
        raise ApiError("wrong_split", f"split must be a SplitOptions, not {split!r}")
    if not is_whole_number(relevance_level) or relevance_level < RELEVANT_GRADE:
        message = f"relevance_level must be a whole number of {RELEVANT_GRADE} or more, not {relevance_level!r}"
        raise ApiError("wrong_grade", message)
    depths = experiment.ks if experiment else DEFAULT_KS
    if ks is not None:
        depths = tuple(ks) if isinstance(ks, Iterable) and not isinstance(ks, str) else ()
        if not depths or not all(is_whole_number(k) and 1 <= k <= MAX_PASSAGES for k in depths):
            raise ApiError("wrong_ks", f"ks must be a list of whole numbers from 1 to {MAX_PASSAGES:,}, not {ks!r}")
    plans = [model.plan for model in request.models]
    split_options = split or (plans[-1].split if plans else experiment.split_options if experiment else SplitOptions())
    first_part = Part.TEST if plans else experiment.split if experiment else Part.ALL
    return Experiment.model_construct(
        data="",
        split=Part(part) if part else first_part,
        validation_fraction=split_options.validation,
        test_fraction=split_options.test,
        seed=split_options.seed,
        strict_split=split_options.strict,
        relevance_level=experiment.relevance_level if experiment else int(relevance_level),
        ks=tuple(map(int, depths)),
        lab=None,
        retriever=(),
    )
