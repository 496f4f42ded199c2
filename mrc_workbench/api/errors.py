"""The errors that the API adds to those of the rooms, and what it takes for a number."""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TypeGuard

from mrc_workbench.data.problems import Failure


class ApiError(Failure, ValueError):
    """An argument that cannot be used. The message names what was given and what was expected."""


def unknown_name(what: str, name: object, known: Iterable[str]) -> ApiError:
    """Return the error for a name that is not among the known names, with the nearest of them."""
    names = list(known)
    folded = {one.casefold(): one for one in names}
    nearest = get_close_matches(str(name).casefold(), folded, n=1)
    guess = f"; did you mean {folded[nearest[0]]!r}?" if nearest else "."
    return ApiError("unknown_name", f"no {what} is called {name!r}{guess} Known: {', '.join(names)}", name=str(name))


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an integer or a float of Python or NumPy."""
    return isinstance(value, Real) and not isinstance(value, bool)
