"""Dictionaries kept in the workspace, one folder each, and how an experiment or a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them. An edit makes another dictionary: what
was found with the old one stays what it was.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from data.cache import is_sound, seal
from data.collection import NOTE, Collection, KeptSet
from data.formats.tables import shown
from text.dictionary import Dictionary, DictionaryError, open_dictionary, written

REFERENCE = "dictionary:"  # what a reference to a kept dictionary begins with
_LINES = "dictionary.txt"
_FINGERPRINT = re.compile("[0-9a-f]{8,64}")  # the beginning of one


@dataclass(frozen=True, kw_only=True)
class StoredDictionary(KeptSet):
    """One kept dictionary: how many words and groups of synonyms it has."""

    words: int
    synonyms: int

    @property
    def reference(self) -> str:
        """What `find` finds it by, whatever it is called."""
        return f"{REFERENCE}{self.key}"


_DICTIONARIES = Collection("dictionaries", StoredDictionary)


def keep(dictionary: Dictionary, name: str, *, source: str = "") -> StoredDictionary:
    """Keep a dictionary in the workspace, without the comments of its file; the same content once, by its newest name.

    Raises `LimitError` where it is more than the user may keep; nothing of it is kept then.
    """
    kept = StoredDictionary(
        key=dictionary.fingerprint[:16],
        name=name,
        source=source,
        fingerprint=dictionary.fingerprint,
        created=datetime.now(UTC).isoformat(),
        words=len(dictionary.words),
        synonyms=len(dictionary.synonyms),
    )
    with _DICTIONARIES.keeping(kept) as new:
        (new / _LINES).write_text(written(dictionary), encoding="utf-8")
        seal(new)
    return kept


def stored() -> list[StoredDictionary]:
    """Return the kept dictionaries, the newest first, and then those of the shelf that are not among them.

    A folder that cannot be read is passed over.
    """
    return _DICTIONARIES.stored()


def damaged() -> list[str]:
    """Return the keys of the dictionaries whose `set.json` cannot be read."""
    return _DICTIONARIES.damaged()


def load(key: str) -> Dictionary:
    """Load a kept dictionary. Raises `DictionaryError`: `unknown`, or `broken` where its content has changed."""
    if not (kept := _DICTIONARIES.known(key)):
        raise _unknown(f"{REFERENCE}{key}")
    folder = _DICTIONARIES.folder(key)
    try:
        dictionary = open_dictionary(folder / _LINES) if is_sound(folder, beside=[NOTE]) else None
    except DictionaryError:
        dictionary = None
    if dictionary is None or dictionary.fingerprint != kept.fingerprint:
        raise DictionaryError.of("broken", name=shown(kept.name, 80))
    return dictionary


def find(reference: str, base: Path | None = None) -> Dictionary:
    """Return the dictionary a person names: `dictionary:KEY`, a file (its path from `base`), a name or a fingerprint.

    Of a fingerprint 8 digits do. Raises `DictionaryError`: `unknown`, which lists what there is, `broken`, or what is
    wrong in the file.
    """
    if reference.startswith(REFERENCE):
        return load(reference.removeprefix(REFERENCE))
    path = (base or Path.cwd()) / reference
    if reference and os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        return open_dictionary(path)
    for kept in stored():
        if reference == kept.name or (_FINGERPRINT.fullmatch(reference) and kept.fingerprint.startswith(reference)):
            return load(kept.key)
    raise _unknown(reference)


def remove(key: str) -> None:
    """Remove a kept dictionary, readable or not; one of the shelf is none. Raises `DictionaryError`: `unknown`."""
    if not _DICTIONARIES.remove(key):
        raise _unknown(f"{REFERENCE}{key}")


def _unknown(reference: str) -> DictionaryError:
    known = ", ".join(f"{kept.name} ({kept.reference})" for kept in stored()) or "none"
    return DictionaryError.of("unknown", name=shown(reference, 80), known=known)
