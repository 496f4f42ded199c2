"""Texts kept in the workspace, one folder each, to be learned from, and how a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from data.cache import is_sound, seal
from data.collection import NOTE, Collection, KeptSet
from data.formats.tables import shown
from data.workspace import workspace
from language.text_file import LanguageError, TextCorpus, text_corpus

REFERENCE = "text:"  # what a reference to a kept text begins with
_TEXT = "text.txt"  # its file, as it was given
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


def _unknown(reference: str, known: str) -> LanguageError:
    return LanguageError("unknown_text", f"no text {reference} is kept; these are: {known}", name=reference)


_TEXTS = Collection("texts", StoredText, _unknown)
stored, damaged, remove = _TEXTS.stored, _TEXTS.damaged, _TEXTS.remove


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

        def fill(new: Path) -> None:
            path.rename(new / _TEXT)
            seal(new)

        figures = {"characters": corpus.characters, "in_paragraphs": corpus.in_paragraphs}
        documents = _count(corpus, on_progress)
        return _TEXTS.keep(fill, name, corpus.fingerprint, source, documents=documents, **figures)


def opened(kept: StoredText) -> TextCorpus:
    """Return a kept text as its note has it: nothing of it is read."""
    path = _TEXTS.folder(kept.key) / _TEXT
    return TextCorpus(kept.name, path, kept.fingerprint, kept.characters, in_paragraphs=kept.in_paragraphs)


def find(wanted: str) -> TextCorpus:
    """Return the kept text with this name, or whose fingerprint begins so (8 digits and more).

    Raises `LanguageError`: `unknown_text`, which lists what there is, and `broken_text` where its content has changed.
    """
    kept = _TEXTS.named(wanted)
    if not is_sound(_TEXTS.folder(kept.key), beside=[NOTE]):
        name = shown(kept.name, 80)
        message = f"the kept text {name} is not what it was: remove it, and keep its file again"
        raise LanguageError("broken_text", message, name=name)
    return opened(kept)


def _count(corpus: TextCorpus, on_progress: Callable[[float], object] | None) -> int:
    """Count the documents; `on_progress` is told how far it is a hundred times."""
    count, seen, told = 0, 0, 0.0
    for document in corpus.documents():
        count, seen = count + 1, seen + len(document)
        if on_progress and seen >= told * corpus.characters:
            on_progress(_CHECKED + (1 - _CHECKED) * told)
            told += 0.01
    return count
