"""Dictionaries kept in the workspace, one folder each, and how an experiment or a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them. An edit makes another dictionary: what
was found with the old one stays what it was.
"""

from dataclasses import dataclass
from pathlib import Path

from data.cache import is_sound, seal
from data.collection import NOTE, Collection, KeptSet, file_named
from data.formats.tables import shown
from text.dictionary import Dictionary, DictionaryError, open_dictionary, written

REFERENCE = "dictionary:"  # what a reference to a kept dictionary begins with
_LINES = "dictionary.txt"


@dataclass(frozen=True, kw_only=True)
class StoredDictionary(KeptSet):
    """One kept dictionary: how many words and groups of synonyms it has."""

    words: int
    synonyms: int

    @property
    def reference(self) -> str:
        """What `find` finds it by, whatever it is called."""
        return f"{REFERENCE}{self.key}"


def _unknown(reference: str, known: str) -> DictionaryError:
    return DictionaryError.of("unknown", name=reference, known=known)


_DICTIONARIES = Collection("dictionaries", StoredDictionary, _unknown)
stored, damaged, remove = _DICTIONARIES.stored, _DICTIONARIES.damaged, _DICTIONARIES.remove


def keep(dictionary: Dictionary, name: str, *, source: str = "") -> StoredDictionary:
    """Keep a dictionary in the workspace, without the comments of its file; see `Collection.keep`."""

    def fill(folder: Path) -> None:
        (folder / _LINES).write_text(written(dictionary), encoding="utf-8")
        seal(folder)

    figures = {"words": len(dictionary.words), "synonyms": len(dictionary.synonyms)}
    return _DICTIONARIES.keep(fill, name, dictionary.fingerprint, source, **figures)


def load(key: str) -> Dictionary:
    """Load a kept dictionary. Raises `DictionaryError`: `unknown`, or `broken` where its content has changed."""
    kept, folder = _DICTIONARIES.known(key), _DICTIONARIES.folder(key)
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
        if all(kept.reference != reference for kept in stored()):
            raise _DICTIONARIES.error(reference)
        return load(reference.removeprefix(REFERENCE))
    if path := file_named(reference, base):
        return open_dictionary(path)
    return load(_DICTIONARIES.named(reference).key)
