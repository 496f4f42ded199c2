"""Ids that are written in two ways: numbers that programs turned into 1.0 or 1E+03, numbers with leading zeros."""

import re
from collections.abc import Callable, Collection
from decimal import Decimal

_NUMBER = re.compile(r"0*(\d{1,18})(?:\.0{1,9})?", re.ASCII)
_SCIENTIFIC = re.compile(r"\d(?:\.\d{1,17})?[eE]\+?0?[1-9]\d?", re.ASCII)


class NumberIds:
    """Finds an id by its number: "1.0" and "01" name the id "1". No two of the ids may have the same number."""

    def __init__(self, ids: Callable[[], Collection[str]]) -> None:
        self._ids = ids
        self._count = -1
        self._id_by_number: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        """Return the id with the number of `name`; None if `name` is not a number, or two ids have the same number."""
        number = _number(name)
        if number is None:
            return None
        ids = self._ids()
        if len(ids) != self._count:
            self._index(ids)
        return self._id_by_number.get(number)

    def _index(self, ids: Collection[str]) -> None:
        self._count = len(ids)
        self._id_by_number = {}
        for id_ in ids:
            number = _number(id_)
            if number is not None and self._id_by_number.setdefault(number, id_) != id_:
                self._id_by_number = {}
                return


def _number(id_: str) -> str | None:
    if match := _NUMBER.fullmatch(id_):
        return match[1]
    number = Decimal(id_) if _SCIENTIFIC.fullmatch(id_) else None
    return str(int(number)) if number is not None and number == int(number) else None


def canonical_id(id_: str) -> str:
    """Return an id as ids are compared before it is known which numbers are equal: "1" for "1.0" and "01"."""
    return _number(id_) or id_
