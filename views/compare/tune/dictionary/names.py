"""What kept dictionaries are called."""

from collections import Counter
from collections.abc import Iterable

from text.kept_dictionaries import StoredDictionary, stored
from views.ui.words import word

_PARTING = str.maketrans("|·", "//")  # they part the names of retrievers in the address, and values in a name


def names_by_reference() -> dict[str, str]:
    """Return the names of the kept dictionaries by their reference, the newest first; no two are the same."""
    kept = stored()
    counts = Counter(map(_name_of, kept))
    return {one.reference: _told_apart(one, counts) for one in kept}


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, or with the first number that makes it another than those taken: a version of its own."""
    known = set(taken)
    names = (name, *(f"{name} {number}" for number in range(2, len(known) + 3)))
    return next(candidate for candidate in names if candidate not in known)


def _told_apart(kept: StoredDictionary, counts: Counter[str]) -> str:
    name = _name_of(kept)
    return name if counts[name] == 1 else f"{name} ({kept.key[:6]})"


def _name_of(kept: StoredDictionary) -> str:
    name = kept.name.translate(_PARTING)
    return word("sidebar.shared", name=name) if kept.shared else name
