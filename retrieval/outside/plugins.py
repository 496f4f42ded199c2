"""Retrievers that the operator of this installation has registered: by an installed package, or in `MRC_RETRIEVERS`.

A package registers a factory under the entry point group `mrc_workbench.retrievers`:

    [project.entry-points."mrc_workbench.retrievers"]
    mine = "my_package.search:MySearch"

The variable `MRC_RETRIEVERS` does the same for code that is not packaged: `mine=my_module:MySearch,my_module:other`.
Experiment files name a registered retriever (`mine`), never a module: a file of another person runs no code.

A class or a function is a factory, `factory(passages, **options)`: `passages` is a sequence of passages with `id`,
`text` and `title`, and it returns anything that `adapt.as_retriever` takes. Any other object is the retriever itself.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.outside.adapt import OutsideRetriever, as_retriever
from mrc_workbench.retrieval.outside.problems import OutsideError, shortened

GROUP, VARIABLE = "mrc_workbench.retrievers", "MRC_RETRIEVERS"
_REFERENCE = re.compile(r"(?:(?P<name>[\w.-]+)\s*=\s*)?(?P<module>\w+(?:\.\w+)*)\s*:\s*(?P<attribute>\w+(?:\.\w+)*)")


@dataclass(frozen=True)
class Plugin:
    """A registered retriever; `distribution` and `version` are those of its package, empty for `MRC_RETRIEVERS`."""

    name: str
    module: str
    attribute: str
    distribution: str = ""
    version: str = ""

    def fingerprint(self) -> list[str]:
        """Return what tells one version of the code from another: the package's version, the sha256 of the module."""
        digest = ""
        with suppress(Exception):  # it fails again, with a reason, when the retriever is made
            spec = importlib.util.find_spec(self.module)
            if spec is not None and spec.origin:
                digest = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
        return [self.module, self.attribute, self.distribution, self.version, digest]

    def retriever(self, name: str, question_set: QuestionSet, options: Mapping[str, Any]) -> OutsideRetriever:
        """Make the retriever. Raises `OutsideError`: `outside_plugin_failed` if its code raises an error."""
        try:
            target: Any = importlib.import_module(self.module)
            for part in self.attribute.split("."):
                target = getattr(target, part)
            is_factory = isinstance(target, type) or inspect.isroutine(target)
            made = target(question_set.passages, **options) if is_factory else target
        except Exception as error:
            reason = shortened(f"{type(error).__name__}: {error}")
            message = f"the retriever {self.name!r} cannot be made: {reason}"
            raise OutsideError("outside_plugin_failed", message, name=self.name, reason=reason) from error
        if options and not is_factory:
            message = f"the retriever {self.name!r} is an object, which takes no options"
            raise OutsideError("outside_plugin_options", message, name=self.name)
        return as_retriever(made, question_set, name=name)


def plugins() -> dict[str, Plugin]:
    """Return the registered retrievers by name; those of `MRC_RETRIEVERS` come first and win over packages.

    An entry of the variable that is no `name=module:object` is left out; `find_plugin` says so.
    """
    known: dict[str, Plugin] = {}
    for reference in _references():
        if found := _REFERENCE.fullmatch(reference):
            attribute = found["attribute"]
            name = found["name"] or attribute.rpartition(".")[2]
            known.setdefault(name, Plugin(name, found["module"], attribute))
    for plugin in _installed():
        known.setdefault(plugin.name, plugin)
    return known


def find_plugin(name: str) -> Plugin:
    """Return a registered retriever. Raises `OutsideError`: `outside_plugin_unknown`."""
    known = plugins()
    if name in known:
        return known[name]
    broken = [reference for reference in _references() if not _REFERENCE.fullmatch(reference)]
    listed = ", ".join(sorted(known)) or "none"
    message = f"no retriever is registered as {name!r} (registered: {listed}); see {VARIABLE}"
    if broken:
        message += f", which has an entry that is not name=module:object: {shortened(broken[0])!r}"
    raise OutsideError("outside_plugin_unknown", message, name=shortened(name), known=listed)


def _references() -> list[str]:
    return [reference.strip() for reference in os.environ.get(VARIABLE, "").split(",") if reference.strip()]


@lru_cache(maxsize=1)
def _installed() -> tuple[Plugin, ...]:
    """Return the retrievers of installed packages; packages do not change while a process runs."""
    return tuple(plugin for entry in entry_points(group=GROUP) if (plugin := _of_entry(entry)))


def _of_entry(entry: EntryPoint) -> Plugin | None:
    found = _REFERENCE.fullmatch(entry.value.strip())
    if not found:
        return None
    distribution = entry.dist
    name, version = (distribution.name, distribution.version) if distribution else ("", "")
    return Plugin(entry.name, found["module"], found["attribute"], name, version)
