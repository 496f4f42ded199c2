"""Training texts as streams of documents, of which one is in memory at a time."""

import codecs
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, ClassVar

import xxhash

from mrc_workbench.data.cache import is_intact, seal
from mrc_workbench.data.files import temporary_folder
from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet, composed
from mrc_workbench.data.store import NOTE, StoredCollection, StoredItem
from mrc_workbench.data.store import find as find_set
from mrc_workbench.data.workspace import limits, user, workspace


@dataclass(frozen=True)
class PassageCorpus:
    """The passages of a question set without titles, which all passages of an article would repeat."""

    question_set: QuestionSet

    @property
    def name(self) -> str:
        return self.question_set.name

    @property
    def fingerprint(self) -> str:
        return self.question_set.passages.texts.fingerprint

    @property
    def characters(self) -> int:
        return int(self.question_set.passages.texts.lengths().sum())

    def documents(self) -> Iterator[str]:
        for text in self.question_set.passages.texts:
            yield from split_long_document(text)


def is_held_out(document: str, fraction: float, seed: int) -> bool:
    """Whether a document is in the held-out fraction, by the seeded XXH3 hash of its composed text."""
    if not 0 < fraction < 1:
        return fraction >= 1
    digest = xxhash.xxh3_64_intdigest(composed(document).encode("utf-8", "surrogatepass"), seed=seed % 2**64)
    return bool(digest < fraction * 2**64)


class LanguageError(Failure):
    """A text, tokenizer or language model that cannot be used; `code` is a key of `language.` in the locale files."""


ProgressCallback = Callable[[float], object]  # called with the completed fraction, 0 to 1; an error ends the work
MAX_DOCUMENT_CHARACTERS = 100_000  # a longer document is split into several
_BLOCK = 1 << 18  # bytes read at a time
_CHARACTERS_BETWEEN_REPORTS = 1 << 18


@dataclass(frozen=True)
class TextCorpus:
    """The paragraphs of a UTF-8 text file, or its lines; `fingerprint`: sha256 (hexadecimal), `characters`: length."""

    name: str
    path: Path
    fingerprint: str
    characters: int
    in_paragraphs: bool = field(kw_only=True)

    def documents(self) -> Iterator[str]:
        lines = _lines(_blocks(self.path, display_text(self.path.name, 80)))
        for document in _paragraphs(lines) if self.in_paragraphs else lines:
            yield from split_long_document(document)


# `documents` of both yields all documents in order at each call, without blank ones
Corpus = PassageCorpus | TextCorpus


def find_corpus(reference: str) -> Corpus:
    """Return a stored text (`text:` and a name or fingerprint), a text file (.txt) or the passages of a question set.

    Raises `DataError` and `LanguageError`, also (`server_path`) for a file that a user may not read.
    """
    if reference.startswith(REFERENCE):
        return find(reference.removeprefix(REFERENCE))
    is_text = reference.lower().endswith(".txt")
    if (is_text or os.path.isfile(reference)) and user() and not limits().paths:  # noqa: PTH113 - a name may be too long
        message = "files of the server are not open to users: upload the text, and select it"
        raise LanguageError("server_path", message)
    return text_corpus(Path(reference)) if is_text else PassageCorpus(find_set(reference))


def text_corpus(path: Path, name: str = "", on_progress: ProgressCallback | None = None) -> TextCorpus:
    """Read a text file once. Raises `LanguageError`: `unreadable_text`, `bad_text` with the line, or `no_text`."""
    file_name = display_text(name or path.name, 80)
    digest = hashlib.sha256()
    characters = 0
    has_text = False
    after_blank_line = False
    in_paragraphs = False

    def counted_blocks() -> Iterator[str]:
        nonlocal characters
        bytes_read = 0
        for block in _blocks(path, file_name):
            encoded = block.encode()
            digest.update(encoded)
            characters += len(block)
            bytes_read += len(encoded)
            if on_progress:
                on_progress(min(1.0, bytes_read / max(1, path.stat().st_size)))
            yield block

    for line in _lines(counted_blocks()):
        if line.strip():
            in_paragraphs |= after_blank_line
            has_text = True
            after_blank_line = False
        else:
            after_blank_line = has_text
    if not has_text:
        raise LanguageError("no_text", f"{file_name} contains no text: use a file with words", file=file_name)
    return TextCorpus(name or path.stem, path, digest.hexdigest(), characters, in_paragraphs=in_paragraphs)


def report_documents(documents: Iterable[str], characters: int, on_progress: ProgressCallback | None) -> Iterator[str]:
    """Yield documents, and report regularly the fraction of all `characters` that was read; 1 at the end."""
    characters_read = reported = 0
    for document in documents:
        yield document
        characters_read += len(document)
        if on_progress and characters_read - reported > _CHARACTERS_BETWEEN_REPORTS:
            reported = characters_read
            on_progress(min(1.0, characters_read / characters))
    if on_progress:
        on_progress(1.0)


def scale_progress(on_progress: ProgressCallback | None, low: float, high: float) -> ProgressCallback | None:
    """Return the callback for a part of the work, which is the range from `low` to `high` of all work."""
    if on_progress is None:
        return None
    return lambda fraction: on_progress(low + fraction * (high - low))


def split_long_document(document: str) -> Iterator[str]:
    """Yield a document without surrounding space; a long one is split, between words if possible."""
    rest = document.strip()
    while len(rest) > MAX_DOCUMENT_CHARACTERS:
        end = rest.rfind(" ", MAX_DOCUMENT_CHARACTERS // 2, MAX_DOCUMENT_CHARACTERS) + 1 or MAX_DOCUMENT_CHARACTERS
        yield rest[:end].rstrip()
        rest = rest[end:].lstrip()
    if rest:
        yield rest


def require_file(path: Path, file_name: str) -> None:
    """Raise `LanguageError` (`unreadable_text`) if there is no file."""
    if not path.is_file():
        message = f"{file_name} is not a readable file: check the path"
        raise LanguageError("unreadable_text", message, file=file_name)


def _blocks(path: Path, file_name: str) -> Iterator[str]:
    """Yield blocks of the text without a byte order mark. Raises `LanguageError`."""
    require_file(path, file_name)
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for read in chain(iter(lambda: file.read(_BLOCK), b""), [b""]):  # the last call rejects an incomplete character
            try:
                block = decoder.decode(read, final=not read)
            except UnicodeDecodeError as error:
                raise _bad_text_error(file_name, line, error.object, error.start) from error
            if "\x00" in block:  # ASCII in UTF-16 is valid UTF-8 with NUL characters
                raise _bad_text_error(file_name, line, block.encode(), len(block))
            line += block.count("\n")
            yield block


def _bad_text_error(file_name: str, first_line: int, content: bytes, position: int) -> LanguageError:
    """Return the error for the invalid byte at a position, or an earlier NUL; content begins in `first_line`."""
    zero = content.find(b"\x00", 0, position)
    position = zero if zero >= 0 else position
    line = first_line + content.count(b"\n", 0, position)
    byte = f"0x{content[position]:02X}"
    message = f"{file_name} is not UTF-8: invalid byte {byte} in line {line}; save the file as UTF-8"
    return LanguageError("bad_text", message, file=file_name, line=line, byte=byte)


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the lines with their line breaks; a very long one is split, between words if possible."""
    rest = ""
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            yield line + "\n"
        if len(rest) > MAX_DOCUMENT_CHARACTERS:
            end = rest.rfind(" ") + 1 or len(rest)
            yield rest[:end]
            rest = rest[end:]
    yield rest


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    paragraph = ""
    for line in lines:
        if not line.strip() or len(paragraph) >= MAX_DOCUMENT_CHARACTERS:
            yield paragraph
            paragraph = ""
        if line.strip():
            paragraph += line
    yield paragraph


REFERENCE = "text:"  # prefix of references to stored texts
_TEXT = "text.txt"
_CHECK_FRACTION = 0.6  # of the work before documents are counted


@dataclass(frozen=True, kw_only=True)
class StoredText(StoredItem):
    """The note of a stored text; `in_paragraphs`: empty lines separate its documents, else each line is one."""

    characters: int
    documents: int
    in_paragraphs: bool
    prefix: ClassVar[str] = REFERENCE


_UNKNOWN = "no stored text {reference}; use one of: {known}"
_TEXTS = StoredCollection(
    "texts",
    StoredText,
    lambda **names: LanguageError("unknown_text", _UNKNOWN.format(**names), name=names["reference"]),
)
stored = _TEXTS.stored
damaged = _TEXTS.damaged
remove = _TEXTS.remove


def save_text(
    content: BinaryIO, name: str, *, source: str = "", on_progress: ProgressCallback | None = None
) -> StoredText:
    """Store a text, once per content, under the newest name. Raises `LimitError`, and errors of `text_corpus`."""
    workspace().mkdir(parents=True, exist_ok=True)
    with temporary_folder(".text.", workspace()) as folder:
        path = folder / _TEXT
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        corpus = text_corpus(path, name, scale_progress(on_progress, 0, _CHECK_FRACTION))
        on_count = scale_progress(on_progress, _CHECK_FRACTION, 1)
        count = sum(1 for _ in report_documents(corpus.documents(), corpus.characters, on_count))

        def fill(new: Path) -> None:
            path.rename(new / _TEXT)
            seal(new)

        details = {"characters": corpus.characters, "in_paragraphs": corpus.in_paragraphs}
        return _TEXTS.save(fill, name, corpus.fingerprint, source, documents=count, **details)


def open_stored_text(stored_text: StoredText) -> TextCorpus:
    """Return a stored text without reading it."""
    note = stored_text
    path = _TEXTS.folder(note.key) / _TEXT
    return TextCorpus(note.name, path, note.fingerprint, note.characters, in_paragraphs=note.in_paragraphs)


def find(reference: str) -> TextCorpus:
    """Return a text by name or fingerprint (8 digits). Raises `LanguageError` (`unknown_text`, `broken_text`)."""
    stored_text = _TEXTS.find_note(reference)
    if not is_intact(_TEXTS.folder(stored_text.key), unsealed_names=[NOTE]):
        name = display_text(stored_text.name, 80)
        message = f"the stored text {name} is damaged: remove it and import it again"
        raise LanguageError("broken_text", message, name=name)
    return open_stored_text(stored_text)
