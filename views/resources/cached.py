"""What pages keep in memory, each workspace's apart: nobody is given what was read, or made, for somebody else."""

import inspect
from collections.abc import Callable
from functools import update_wrapper, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

import streamlit as st

from data.workspace import workspace
from models.sources import find_model

P = ParamSpec("P")
R = TypeVar("R")


class Cached(Generic[P, R]):
    """A function whose results are kept as `st.cache_resource` does, with the workspace as a part of every key."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        @wraps(function)  # by its name and source the library tells one function's cache from another's
        def of_workspace(_place: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return function(*args, **kwargs)

        signature = inspect.signature(function)
        place = inspect.Parameter("workspace", inspect.Parameter.POSITIONAL_ONLY)
        # from here the library takes what is a part of the key: not what begins with a line
        parameters = [place, *signature.parameters.values()]
        of_workspace.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        self._kept: Any = st.cache_resource(show_spinner=False, **options)(of_workspace)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what is kept, or make it. Raises what making it raises, and keeps nothing then."""
        found: R = self._kept(str(workspace()), *args, **kwargs)
        return found

    def clear(self, *args: Any) -> None:
        """Forget what was made of these arguments in this workspace; without any, everything of every workspace."""
        self._kept.clear(*((str(workspace()), *args) if args else ()))


def cached(**options: Any) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """Decorate a function as `st.cache_resource` with these options does, for each workspace apart."""

    def decorate(function: Callable[P, R]) -> Cached[P, R]:
        return Cached(function, options)

    return decorate


def content_of(reference: str) -> str:
    """Return the key of a model's content as far as it is known at once: empty of a hub model."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""


def opened(read: Callable[[Path], R], folder: Path) -> R | None:
    """Return what `read` makes of a finished job's folder, read once until it runs again; None where it cannot be."""
    found: R | None = _opened(read, str(folder), (folder / "scores.json").stat().st_mtime)
    return found


@cached(max_entries=24, hash_funcs={FunctionType: lambda read: f"{read.__module__}.{read.__qualname__}"})
def _opened(read: Callable[[Path], Any], folder: str, finished: float) -> Any:
    del finished  # only a part of the key: one that ran again is another one
    try:
        return read(Path(folder))
    except ValueError:
        return None


@cached(max_entries=48)
def place_of(of: tuple[Any, ...]) -> list[Any]:
    """Return the place for what is made of this, at first empty.

    What is drawn inside a cached function is drawn again whenever it is called: what tells of its progress is made
    outside.
    """
    del of  # only a key
    return []
