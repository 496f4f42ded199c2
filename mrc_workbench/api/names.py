"""The names of retrievers that are given without one."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, TypeAlias

import pandas as pd

from mrc_workbench.retrieval.comparison.multistage import BM25_NAME, SHORT_NAMES
from mrc_workbench.retrieval.comparison.spec import Spec

# a name, a path, a dictionary, a `Spec`, an `Experiment`, a `TrainedModel`, a run, or a retriever from outside
Item: TypeAlias = object
Items: TypeAlias = Item | Sequence[Item]
_LONGEST_NAME, _LONGEST_VALUE = 80, 40  # characters
_METHODS = ("search", "invoke", "retrieve")


def with_names(items: Iterable[tuple[str, Item]]) -> list[tuple[str, Item]]:
    """Return the items, each dictionary, `Spec`, run and object with a name; others keep theirs, which may be empty.

    Names of runs and objects that have none of their own are numbered until they differ from all others. An object that
    is listed twice is returned once.
    """
    listed = [(name or _name_of_spec(item), item) for name, item in items]
    taken = {name or _full_name(item) for name, item in listed}
    named: list[tuple[str, Item]] = []
    returned: set[int] = set()
    for name, item in listed:
        if name or not (is_run(item) or is_searchable(item)):
            named.append((name, item))
        elif id(item) not in returned:
            returned.add(id(item))
            new_name = _run_name(taken) if is_run(item) else _object_name(item, taken)
            taken.add(new_name)
            named.append((new_name, item))
    return named


def is_run(item: object) -> bool:
    """Whether an item is a run: passage scores by question id, or a table of them."""
    if isinstance(item, pd.DataFrame):
        return True
    return isinstance(item, Mapping) and bool(item) and all(isinstance(of, Mapping) for of in item.values())


def is_searchable(item: object) -> bool:
    """Whether an item is a retriever from outside: a function, a class, or an object with a method that searches."""
    return callable(item) or any(callable(getattr(item, method, None)) for method in _METHODS)


def _name_of_spec(item: Item) -> str:
    """Return the name of a `Spec` or a dictionary: its own, or one made of its settings; empty for other items."""
    if isinstance(item, Spec):
        return item.name
    if not isinstance(item, Mapping) or is_run(item) or not item.get("kind"):
        return ""
    return str(item["name"]) if "name" in item else _name_of_settings(item)


def _name_of_settings(values: Mapping[str, Any]) -> str:
    kind = str(values["kind"])
    if kind == "bm25" and len(values) == 1:  # the default retriever
        return BM25_NAME
    shown = [f"{field}={text}" for field, value in values.items() if field != "kind" and (text := _short_text(value))]
    name = f"{kind} ({', '.join(shown)})" if shown else kind
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _short_text(value: object) -> str:
    """Return a setting as text; empty if it is long, a table, or an address, which may hold a password."""
    if isinstance(value, list | tuple):
        value = " + ".join(map(str, value))
    text = str(value) if isinstance(value, str | int | float) else ""
    return text if len(text) <= _LONGEST_VALUE and "://" not in text else ""


def _full_name(item: Item) -> str:
    return SHORT_NAMES.get(item.casefold(), item) if isinstance(item, str) else ""


def _run_name(taken: set[str]) -> str:
    return next(name for number in count(1) if (name := f"Run {number}") not in taken)


def _object_name(item: object, taken: set[str]) -> str:
    named = [getattr(item, attribute, "") for attribute in ("name", "__name__")]
    own = next((name for name in named if isinstance(name, str) and name.strip() and name != "<lambda>"), "")
    name = own or type(item).__name__
    choices = chain([name], (f"{name} {number}" for number in count(2)))
    return next(choice for choice in choices if choice not in taken)
