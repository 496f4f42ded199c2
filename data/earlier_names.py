"""Fields that were renamed: files of the version before still open, with a deprecation line for each earlier name.

A pydantic model or a dataclass that is read through a `TypeAdapter` declares them as a class attribute:

    _earlier = accept_earlier_names({"figures": "metrics"})
"""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import model_validator

logger = logging.getLogger(__name__)


def accept_earlier_names(renamed: Mapping[str, str]) -> Any:
    """Return a pydantic validator that maps earlier names of fields to current ones."""

    def read(cls: type, values: Any) -> Any:
        return current_names(values, renamed, cls.__name__) if isinstance(values, Mapping) else values

    return model_validator(mode="before")(classmethod(read))  # type: ignore[arg-type]  # pydantic documents this form


def current_names(values: Mapping[str, Any], renamed: Mapping[str, str], owner: str) -> dict[str, Any]:
    """Return the values under current names. If both names occur, the current one applies.

    `owner` names the file or class in the deprecation line, which is logged once per process and name.
    """
    current = dict(values)
    for earlier, name in renamed.items():
        if earlier in current:
            value = current.pop(earlier)
            current.setdefault(name, value)
            warn_once(owner, earlier, name)
    return current


@cache
def warn_once(owner: str, earlier: str, name: str) -> None:
    """Log the deprecation line of an earlier name, once per process."""
    logger.warning("%s: %r is now %r; the earlier name is accepted until version 2.0", owner, earlier, name)
