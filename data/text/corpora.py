"""Training text as a stream of documents, one in memory at a time, from the beginning at each iteration."""

import codecs
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO

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
    """The passages of a question set without their titles, which every passage of an article would repeat."""

    question_set: QuestionSet

    @property
    def name(self) -> str:
        return self.question_set.name

    @property
    def fingerprint(self) -> str:
        """Of the passages' texts: titles and questions are not learned from."""
        return self.question_set.passages.texts.fingerprint

    @property
    def characters(self) -> int:
        return int(self.question_set.passages.texts.lengths().sum())

    def documents(self) -> Iterator[str]:
        """A passage longer than `LONGEST` is several."""
        for text in self.question_set.passages.texts:
            yield from split_long_document(text)


def is_held_out(document: str, fraction: float, seed: int) -> bool:
    """Whether the hash (seeded XXH3) of the composed text puts a document into the `share` that is held out."""
    if not 0 < fraction < 1:
        return fraction >= 1
    digest = xxhash.xxh3_64_intdigest(composed(document).encode("utf-8", "surrogatepass"), seed=seed % 2**64)
    return bool(digest < fraction * 2**64)


class LanguageError(Failure):
    """A text, tokenizer or language model that cannot be used; `code` is a key of `language.` in the locale files."""


ProgressCallback = Callable[[float], object]  # told which share is done, 0 to 1; what it raises ends the work
MAX_DOCUMENT_CHARACTERS = 100_000  # characters of a document: a longer one is cut, and its parts are documents
_BLOCK = 1 << 18  # bytes read at a time
_CHARACTERS_BETWEEN_REPORTS = 1 << 18  # gone through before it is told again


@dataclass(frozen=True)
class TextCorpus:
    """A text file in UTF-8: its paragraphs if empty lines separate them, else its lines.

    `fingerprint` is its sha256 (hexadecimal). `characters` also counts those between the documents.
    """

    name: str
    path: Path
    fingerprint: str
    characters: int
    in_paragraphs: bool = field(kw_only=True)

    def documents(self) -> Iterator[str]:
        """Raises `LanguageError` where the file was changed and is no text any more."""
        lines = _lines(_blocks(self.path, display_text(self.path.name, 80)))
        for document in _paragraphs(lines) if self.in_paragraphs else lines:
            yield from split_long_document(document)


# both yield documents in order, from the beginning at each call, and none is blank
Corpus = PassageCorpus | TextCorpus


def find_corpus(reference: str) -> Corpus:
    """Return a stored text (`text:` and what `find` takes), a text file (.txt) or the passages of a question set.

    Raises `DataError` and `LanguageError`, also (`server_path`) for a file that a user may not read.
    """
    if reference.startswith(REFERENCE):
        return find(reference.removeprefix(REFERENCE))
    is_text = reference.lower().endswith(".txt")
    if (is_text or os.path.isfile(reference)) and user() and not limits().paths:  # noqa: PTH113 - a name may be too long
        message = "files of the server are not open to users: upload the text, and choose it"
        raise LanguageError("server_path", message)
    return text_corpus(Path(reference)) if is_text else PassageCorpus(find_set(reference))


def text_corpus(path: Path, name: str = "", on_progress: ProgressCallback | None = None) -> TextCorpus:
    """Read a text file once. Raises `LanguageError`: `unreadable_text`, `bad_text` with the line, or `no_text`."""
    file_name = display_text(name or path.name, 80)
    digest = hashlib.sha256()
    characters = 0
    filled = False
    after_blank_line = False
    in_paragraphs = False

    def counted_blocks() -> Iterator[str]:
        nonlocal characters
        bytes_read = 0
        for block in _blocks(path, file_name):
            encoded = block.encode()
            digest.update(encoded)
            characters = characters + len(block)
            bytes_read = bytes_read + len(encoded)
            if on_progress:
                on_progress(min(1.0, bytes_read / max(1, path.stat().st_size)))
            yield block

    for line in _lines(counted_blocks()):
        if line.strip():
            in_paragraphs |= after_blank_line
            filled = True
            after_blank_line = False
        else:
            after_blank_line = filled
    if not filled:
        raise LanguageError("no_text", f"{file_name} holds no text: give one with words in it", file=file_name)
    return TextCorpus(name or path.stem, path, digest.hexdigest(), characters, in_paragraphs=in_paragraphs)


def report_documents(documents: Iterable[str], characters: int, on_progress: ProgressCallback | None) -> Iterator[str]:
    """Yield documents, and tell from time to time which share of so many characters is gone through; at last, all."""
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
    """Return what is told of a part of the work that begins at the share `low` of all of it, and ends at `high`."""
    return on_progress and (lambda fraction: on_progress(low + fraction * (high - low)))


def split_long_document(document: str) -> Iterator[str]:
    """Yield a document without the space around it, one that is too long cut between words where it has any."""
    rest = document.strip()
    while len(rest) > MAX_DOCUMENT_CHARACTERS:
        end = rest.rfind(" ", MAX_DOCUMENT_CHARACTERS // 2, MAX_DOCUMENT_CHARACTERS) + 1 or MAX_DOCUMENT_CHARACTERS
        yield rest[:end].rstrip()
        rest = rest[end:].lstrip()
    if rest:
        yield rest


def require_file(path: Path, file_name: str) -> None:
    """Raise `LanguageError` `unreadable_text` where there is no file."""
    if not path.is_file():
        message = f"{file_name} is no file that can be read: check the path"
        raise LanguageError("unreadable_text", message, file=file_name)


def _blocks(path: Path, file_name: str) -> Iterator[str]:
    """Yield the text without its byte order mark, some of it at a time. Raises `LanguageError`."""
    require_file(path, file_name)
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for read in chain(iter(lambda: file.read(_BLOCK), b""), [b""]):  # at last it must not be amid a letter
            try:
                block = decoder.decode(read, final=not read)
            except UnicodeDecodeError as error:
                raise _bad_text_error(file_name, line, error.object, error.start) from error
            if "\x00" in block:  # UTF-16 of English is valid UTF-8, with a NUL after every letter
                raise _bad_text_error(file_name, line, block.encode(), len(block))
            line += block.count("\n")
            yield block


def _bad_text_error(file_name: str, line: int, content: bytes, at: int) -> LanguageError:
    """What begins with a line of this number is no text where a NUL stands, or else at a place."""
    at = zero if (zero := content.find(b"\x00", 0, at)) >= 0 else at
    line = line + content.count(b"\n", 0, at)
    byte = f"0x{content[at]:02X}"
    message = f"{file_name} is no UTF-8: byte {byte} in line {line} is none of a text; save the file as UTF-8"
    return LanguageError("bad_text", message, file=file_name, line=line, byte=byte)


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the lines with their ends, a very long one in parts that end with words where it has any."""
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
    gathered = list[str]()
    length = 0
    for line in lines:
        if line.strip() and length < MAX_DOCUMENT_CHARACTERS:
            gathered.append(line)
            length += len(line)
            continue
        yield "".join(gathered)
        gathered, length = ([line], len(line)) if line.strip() else ([], 0)
    yield "".join(gathered)


REFERENCE = "text:"  # what a reference to a kept text begins with
_TEXT = "text.txt"  # its file, as it was given
_CHECK_FRACTION = 0.6  # share of the work before documents are counted


@dataclass(frozen=True, kw_only=True)
class StoredText(StoredItem):
    """One kept text; `in_paragraphs` says that empty lines part its documents, else each line is one."""

    characters: int
    documents: int
    in_paragraphs: bool

    @property
    def reference(self) -> str:
        return f"{REFERENCE}{self.key}"


_UNKNOWN = "no text {reference} is kept; these are: {known}"
_TEXTS = StoredCollection(
    "texts",
    StoredText,
    lambda **given: LanguageError("unknown_text", _UNKNOWN.format(**given), name=given["reference"]),
)
stored = _TEXTS.stored
damaged = _TEXTS.damaged
remove = _TEXTS.remove


def save_text(
    content: BinaryIO, name: str, *, source: str = "", on_progress: ProgressCallback | None = None
) -> StoredText:
    """Store a text, once per content, under its newest name. Raises `LimitError`, and errors of `text_corpus`."""
    workspace().mkdir(parents=True, exist_ok=True)
    with temporary_folder(".text.", workspace()) as folder:
        path = folder / _TEXT
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        corpus = text_corpus(path, name, scale_progress(on_progress, 0, _CHECK_FRACTION))
        count = sum(
            1
            for _ in report_documents(
                corpus.documents(), corpus.characters, scale_progress(on_progress, _CHECK_FRACTION, 1)
            )
        )

        def fill(new: Path) -> None:
            path.rename(new / _TEXT)
            seal(new)

        details = {"characters": corpus.characters, "in_paragraphs": corpus.in_paragraphs}
        return _TEXTS.save(fill, name, corpus.fingerprint, source, documents=count, **details)


def open_stored_text(stored_text: StoredText) -> TextCorpus:
    """Return a kept text as its note has it: nothing of it is read."""
    path = _TEXTS.folder(stored_text.key) / _TEXT
    return TextCorpus(
        stored_text.name, path, stored_text.fingerprint, stored_text.characters, in_paragraphs=stored_text.in_paragraphs
    )


def find(reference: str) -> TextCorpus:
    """Return a text by name or fingerprint (8 digits). Raises `LanguageError` (`unknown_text`, `broken_text`)."""
    stored_text = _TEXTS.find_note(reference)
    if not is_intact(_TEXTS.folder(stored_text.key), unsealed_names=[NOTE]):
        message = (
            f"the kept text {display_text(stored_text.name, 80)} is not what it was: remove it, and keep its file again"
        )
        raise LanguageError("broken_text", message, name=display_text(stored_text.name, 80))
    return open_stored_text(stored_text)
