"""What `compare` and `search` take as retrievers, turned into the specs of an experiment."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from pydantic import ValidationError

from mrc_workbench.api.errors import ApiError
from mrc_workbench.api.training import TrainedModel
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.defaults import SHORT_NAMES, DefaultRetrievers
from mrc_workbench.retrieval.comparison.experiment import KINDS, Experiment, of_kind, read_experiment
from mrc_workbench.retrieval.comparison.experiment_errors import messages_of
from mrc_workbench.retrieval.comparison.first_stage import RunSpec
from mrc_workbench.retrieval.comparison.outside_specs import PluginSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.outside.plugins import plugins
from mrc_workbench.training.recipe import recipe_of

# a name, a path, a dictionary, a `Spec`, an `Experiment`, a `TrainedModel`, a run, or a retriever from outside
Item: TypeAlias = object
Items: TypeAlias = Item | Sequence[Item]


@dataclass
class Request:
    """The retrievers of a comparison: specs in order, and objects that are searched before it.

    `runs` are rankings that a user brings, and `objects` retrievers from outside, by the name to display; an empty name
    is the object's own. `experiment` is the experiment whose split and depths count, if one was given.
    """

    specs: dict[str, Spec] = field(default_factory=dict)
    runs: list[tuple[str, Any]] = field(default_factory=list)
    objects: list[tuple[str, Any]] = field(default_factory=list)
    models: list[TrainedModel] = field(default_factory=list)
    experiment: Experiment | None = None


def requested(items: Items, question_set: QuestionSet) -> Request:
    """Return what is compared. Raises `ApiError` and the errors of experiment files and default retrievers."""
    request = Request()
    builder = _Builder(request, question_set)
    for name, item in _named_items(items):
        builder.add(item, name)
    return request


def is_run(item: object) -> bool:
    """Whether an item is a run: passage scores by question id, or a table of them."""
    if isinstance(item, pd.DataFrame):
        return True
    return isinstance(item, Mapping) and bool(item) and all(isinstance(of, Mapping) for of in item.values())


def _named_items(items: Items) -> Iterable[tuple[str, Item]]:
    """Return the items with the names that a mapping gives them; others have none."""
    if isinstance(items, Mapping) and "kind" not in items and not is_run(items):
        return [(str(name), item) for name, item in items.items()]
    if isinstance(items, Sequence) and not isinstance(items, str):
        return [("", item) for item in items]
    if isinstance(items, Mapping) and is_run(items):  # runs by name; a single run has scores where these have runs
        if all(is_run(item) for item in items.values()):
            return [(str(name), item) for name, item in items.items()]
        if all("kind" in item for item in items.values()):
            return [(str(name), item) for name, item in items.items()]
    return [("", items)]


class _Builder:
    def __init__(self, request: Request, question_set: QuestionSet) -> None:
        self._request = request
        generated = sum(question_set.made.values())
        self._defaults = DefaultRetrievers.of(len(question_set.passages), len(question_set.questions) - generated)

    def add(self, item: Item, name: str) -> None:
        request = self._request
        match item:
            case str() | os.PathLike():
                self._add_reference(os.fspath(item), name)
            case Experiment():
                self._add_experiment(item)
            case Spec():
                self._add_spec(item, name)
            case TrainedModel():
                self._add_model(item, name)
            case _ if is_run(item):
                request.runs.append((name or f"Run {len(request.runs) + 1}", item))
            case Mapping():
                self._add_spec(_spec_of(item, name), name)
            case _:
                request.objects.append((name, item))

    def _add_reference(self, reference: str, name: str) -> None:
        """Add a default or registered retriever by its name, those of an experiment file, or a TREC run by its path."""
        path = Path(reference).expanduser()
        is_name = reference.casefold() in SHORT_NAMES or not os.path.isfile(path)  # noqa: PTH113 - a long name
        if is_name and reference.casefold() not in SHORT_NAMES and reference in plugins():
            self._add_spec(PluginSpec(name=name or reference, entry=reference), "")
        elif is_name:
            self._add_spec(self._defaults.named(reference), name)
        elif path.suffix == ".toml":
            base = path.absolute().parent
            experiment = read_experiment(path)
            self._add_experiment(experiment.model_copy(update={"retriever": _with_base(experiment.retriever, base)}))
        else:
            self._add_spec(RunSpec(name=name or path.stem, path=str(path.absolute())), "")

    def _add_experiment(self, experiment: Experiment) -> None:
        self._request.experiment = experiment
        for spec in experiment.retriever:
            self._add_spec(spec, "")

    def _add_model(self, model: TrainedModel, name: str) -> None:
        """Add the retriever that the Compare page selects for a training."""
        plan = model.plan
        title = getattr(plan.options, "title", True)

        def named(kind: str) -> str:
            return f"{kind} · {plan.name}"

        specs = recipe_of(plan.kind).retrievers(model.reference, self._defaults.bm25.name, title=title, named=named)
        if not specs:
            raise ApiError("not_a_retriever", f"a {plan.kind} does not rank passages, so it cannot be compared")
        self._request.models.append(model)
        self._add_spec(specs[0], name)

    def _add_spec(self, spec: Spec, name: str) -> None:
        """Add a spec after the retrievers that it combines; those that are not listed are default retrievers."""
        known = self._request.specs
        components = {part: self._component(part) for part in spec.parts}
        if spec.parts:
            spec = _with_parts(spec, components)
        if name:
            spec = spec.model_copy(update={"name": name})
        if spec.name in known and known[spec.name] != spec:
            raise ApiError("two_of_a_name", f"two retrievers are named {spec.name!r}: give them different names")
        known[spec.name] = spec

    def _component(self, part: str) -> str:
        if part in self._request.specs:
            return part
        spec = self._defaults.named(part)
        if spec.name not in self._request.specs:
            self._add_spec(spec, "")
        return spec.name


def _spec_of(values: Mapping[str, Any], name: str) -> Spec:
    kind = values.get("kind")
    if not kind:
        kinds = ", ".join(str(one.model_fields["kind"].default) for one in KINDS)
        given = ", ".join(map(repr, values))[:200]
        message = f"a retriever given as a dictionary needs its kind, one of {kinds}; given: {given or 'nothing'}"
        raise ApiError("no_kind", message)
    try:
        return of_kind({"name": name or kind, **values})
    except ValidationError as error:
        raise ApiError("wrong_retriever", "; ".join(messages_of(error, Experiment, KINDS))) from error


def _with_parts(spec: Spec, names: Mapping[str, str]) -> Spec:
    """Return the spec with the full names of the retrievers that it combines."""
    values = dict(spec)
    if "of" in values:
        return spec.model_copy(update={"of": tuple(names[part] for part in values["of"])})
    return spec.model_copy(update={"first": names[values["first"]]}) if "first" in values else spec


def _with_base(specs: Iterable[Spec], base: Path) -> tuple[Spec, ...]:
    from mrc_workbench.retrieval.comparison.references import with_absolute_paths

    return tuple(with_absolute_paths(spec, base) for spec in specs)
