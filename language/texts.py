"""Texts kept in the workspace, one folder each, to be learned from, and how a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from data.cache import is_sound, seal
from data.collection import NOTE, Collection, KeptSet
from data.formats.tables import shown
from data.workspace import workspace
from language.problems import LanguageError
from language.text_file import TextCorpus, text_corpus

REFERENCE = "text:"  # what a reference to a kept text begins with
_TEXT = "text.txt"  # its file, as it was given
_FINGERPRINT = re.compile("[0-9a-f]{8,64}")  # the beginning of one
_CHECKED = 0.6  # share of the work before documents are counted


@dataclass(frozen=True, kw_only=True)
class StoredText(KeptSet):
    """One kept text; `in_paragraphs` says that empty lines part its documents, else each line is one."""

    characters: int
    documents: int
    in_paragraphs: bool

    @property
    def reference(self) -> str:
        """What `language.corpus.find_corpus` finds it by."""
        return f"{REFERENCE}{self.key}"


_TEXTS = Collection("texts", StoredText)


def keep(
    content: BinaryIO, name: str, *, source: str = "", on_progress: Callable[[float], object] | None = None
) -> StoredText:
    """Keep a text in the workspace; the same content is kept once, under its newest name.

    `on_progress` is told the share of the work done. Raises `LanguageError` as `text_corpus`, and `LimitError` where it
    is more than the user may keep; nothing of it is kept then.
    """
    workspace().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".text.", dir=workspace()) as folder:
        path = Path(folder, _TEXT)
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)

        def checked(share: float) -> None:
            if on_progress:
                on_progress(_CHECKED * share)

        corpus = text_corpus(path, name, checked)
        kept = StoredText(
            key=corpus.fingerprint[:16],
            name=name,
            source=source,
            fingerprint=corpus.fingerprint,
            created=datetime.now(UTC).isoformat(),
            characters=corpus.characters,
            documents=_count(corpus, on_progress),
            in_paragraphs=corpus.in_paragraphs,
        )
        with _TEXTS.keeping(kept) as new:
            path.rename(new / _TEXT)
            seal(new)
    return kept


def stored() -> list[StoredText]:
    """Return the kept texts, the newest first, and then those of the shelf that are not among them.

    A folder that cannot be read is passed over.
    """
    return _TEXTS.stored()


def damaged() -> list[str]:
    """Return the keys of the texts whose `set.json` cannot be read."""
    return _TEXTS.damaged()


def opened(kept: StoredText) -> TextCorpus:
    """Return a kept text as its note has it: nothing of it is read."""
    path = _TEXTS.folder(kept.key) / _TEXT
    return TextCorpus(kept.name, path, kept.fingerprint, kept.characters, in_paragraphs=kept.in_paragraphs)


def find(wanted: str) -> TextCorpus:
    """Return the kept text with this name, or whose fingerprint begins so (8 digits and more).

    Raises `LanguageError`: `unknown_text`, which lists what there is, and `broken_text` where its content has changed.
    """
    for kept in stored():
        if wanted == kept.name or (_FINGERPRINT.fullmatch(wanted) and kept.fingerprint.startswith(wanted)):
            if not is_sound(_TEXTS.folder(kept.key), beside=[NOTE]):
                name = shown(kept.name, 80)
                message = f"the kept text {name} is not what it was: remove it, and keep its file again"
                raise LanguageError("broken_text", message, name=name)
            return opened(kept)
    raise _unknown(wanted)


def remove(key: str) -> None:
    """Remove a kept text, readable or not; one of the shelf is none. Raises `LanguageError` where there is none."""
    if not _TEXTS.remove(key):
        raise _unknown(key)


def _count(corpus: TextCorpus, on_progress: Callable[[float], object] | None) -> int:
    """Count the documents; `on_progress` is told how far it is a hundred times."""
    count, seen, told = 0, 0, 0.0
    for document in corpus.documents():
        count, seen = count + 1, seen + len(document)
        if on_progress and seen >= told * corpus.characters:
            on_progress(_CHECKED + (1 - _CHECKED) * told)
            told += 0.01
    return count


def _unknown(wanted: str) -> LanguageError:
    known = ", ".join(f"{kept.name} ({kept.key})" for kept in stored()) or "none"
    name = shown(wanted, 80)
    return LanguageError("unknown_text", f"no text {name} is kept; these are: {known}", name=name)
