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

from mrc_workbench.data.cache import is_sound, seal
from mrc_workbench.data.files import temporary_folder
from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet, composed
from mrc_workbench.data.store import NOTE, Collection, KeptSet
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
            yield from parts(text)


def held_out(document: str, share: float, seed: int) -> bool:
    """Whether the hash (seeded XXH3) of the composed text puts a document into the `share` that is held out."""
    if not 0 < share < 1:
        return share >= 1
    digest = xxhash.xxh3_64_intdigest(composed(document).encode("utf-8", "surrogatepass"), seed=seed % 2**64)
    return bool(digest < share * 2**64)


class LanguageError(Failure):
    """A text, tokenizer or language model that cannot be used; `code` is a key of `language.` in the locale files."""


OnProgress = Callable[[float], object]  # told which share is done, 0 to 1; what it raises ends the work
LONGEST = 100_000  # characters of a document: a longer one is cut, and its parts are documents
_BLOCK = 1 << 18  # bytes read at a time
_CHARACTERS_BETWEEN = 1 << 18  # gone through before it is told again


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
        lines = _lines(_blocks(self.path, shown(self.path.name, 80)))
        for document in _paragraphs(lines) if self.in_paragraphs else lines:
            yield from parts(document)


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


def text_corpus(path: Path, name: str = "", on_progress: OnProgress | None = None) -> TextCorpus:
    """Read a text file once. Raises `LanguageError`: `unreadable_text`, `bad_text` with the line, or `no_text`."""
    told = shown(name or path.name, 80)
    digest, characters, filled, gap, in_paragraphs = hashlib.sha256(), 0, False, False, False

    def noted() -> Iterator[str]:
        nonlocal characters
        seen = 0
        for block in _blocks(path, told):
            encoded = block.encode()
            digest.update(encoded)
            characters, seen = characters + len(block), seen + len(encoded)
            if on_progress:
                on_progress(min(1.0, seen / max(1, path.stat().st_size)))
            yield block

    for line in _lines(noted()):
        if line.strip():
            in_paragraphs |= gap
            filled, gap = True, False
        else:
            gap = filled
    if not filled:
        raise LanguageError("no_text", f"{told} holds no text: give one with words in it", file=told)
    return TextCorpus(name or path.stem, path, digest.hexdigest(), characters, in_paragraphs=in_paragraphs)


def gone_through(documents: Iterable[str], characters: int, on_progress: OnProgress | None) -> Iterator[str]:
    """Yield documents, and tell from time to time which share of so many characters is gone through; at last, all."""
    seen = told = 0
    for document in documents:
        yield document
        seen += len(document)
        if on_progress and seen - told > _CHARACTERS_BETWEEN:
            told = seen
            on_progress(min(1.0, seen / characters))
    if on_progress:
        on_progress(1.0)


def within(on_progress: OnProgress | None, low: float, high: float) -> OnProgress | None:
    """Return what is told of a part of the work that begins at the share `low` of all of it, and ends at `high`."""
    return on_progress and (lambda share: on_progress(low + share * (high - low)))


def parts(document: str) -> Iterator[str]:
    """Yield a document without the space around it, one that is too long cut between words where it has any."""
    rest = document.strip()
    while len(rest) > LONGEST:
        end = rest.rfind(" ", LONGEST // 2, LONGEST) + 1 or LONGEST
        yield rest[:end].rstrip()
        rest = rest[end:].lstrip()
    if rest:
        yield rest


def require_file(path: Path, told: str) -> None:
    """Raise `LanguageError` `unreadable_text` where there is no file."""
    if not path.is_file():
        message = f"{told} is no file that can be read: check the path"
        raise LanguageError("unreadable_text", message, file=told)


def _blocks(path: Path, told: str) -> Iterator[str]:
    """Yield the text without its byte order mark, some of it at a time. Raises `LanguageError`."""
    require_file(path, told)
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for read in chain(iter(lambda: file.read(_BLOCK), b""), [b""]):  # at last it must not be amid a letter
            try:
                block = decoder.decode(read, final=not read)
            except UnicodeDecodeError as error:
                raise _bad_text(told, line, error.object, error.start) from error
            if "\x00" in block:  # UTF-16 of English is valid UTF-8, with a NUL after every letter
                raise _bad_text(told, line, block.encode(), len(block))
            line += block.count("\n")
            yield block


def _bad_text(told: str, line: int, content: bytes, at: int) -> LanguageError:
    """What begins with a line of this number is no text where a NUL stands, or else at a place."""
    at = zero if (zero := content.find(b"\x00", 0, at)) >= 0 else at
    line, found = line + content.count(b"\n", 0, at), f"0x{content[at]:02X}"
    message = f"{told} is no UTF-8: byte {found} in line {line} is none of a text; save the file as UTF-8"
    return LanguageError("bad_text", message, file=told, line=line, byte=found)


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the lines with their ends, a very long one in parts that end with words where it has any."""
    rest = ""
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            yield line + "\n"
        if len(rest) > LONGEST:
            end = rest.rfind(" ") + 1 or len(rest)
            yield rest[:end]
            rest = rest[end:]
    yield rest


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    gathered, length = list[str](), 0
    for line in lines:
        if line.strip() and length < LONGEST:
            gathered.append(line)
            length += len(line)
            continue
        yield "".join(gathered)
        gathered, length = ([line], len(line)) if line.strip() else ([], 0)
    yield "".join(gathered)


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
        return f"{REFERENCE}{self.key}"


_UNKNOWN = "no text {reference} is kept; these are: {known}"
_TEXTS = Collection(
    "texts",
    StoredText,
    lambda **given: LanguageError("unknown_text", _UNKNOWN.format(**given), name=given["reference"]),
)
stored, damaged, remove = _TEXTS.stored, _TEXTS.damaged, _TEXTS.remove


def keep(content: BinaryIO, name: str, *, source: str = "", on_progress: OnProgress | None = None) -> StoredText:
    """Store a text, once per content, under its newest name. Raises `LimitError`, and errors of `text_corpus`."""
    workspace().mkdir(parents=True, exist_ok=True)
    with temporary_folder(".text.", workspace()) as folder:
        path = folder / _TEXT
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        corpus = text_corpus(path, name, within(on_progress, 0, _CHECKED))
        count = sum(1 for _ in gone_through(corpus.documents(), corpus.characters, within(on_progress, _CHECKED, 1)))

        def fill(new: Path) -> None:
            path.rename(new / _TEXT)
            seal(new)

        figures = {"characters": corpus.characters, "in_paragraphs": corpus.in_paragraphs}
        return _TEXTS.keep(fill, name, corpus.fingerprint, source, documents=count, **figures)


def opened(kept: StoredText) -> TextCorpus:
    """Return a kept text as its note has it: nothing of it is read."""
    path = _TEXTS.folder(kept.key) / _TEXT
    return TextCorpus(kept.name, path, kept.fingerprint, kept.characters, in_paragraphs=kept.in_paragraphs)


def find(wanted: str) -> TextCorpus:
    """Return a text by name or fingerprint (8 digits). Raises `LanguageError` (`unknown_text`, `broken_text`)."""
    kept = _TEXTS.named(wanted)
    if not is_sound(_TEXTS.folder(kept.key), beside=[NOTE]):
        message = f"the kept text {shown(kept.name, 80)} is not what it was: remove it, and keep its file again"
        raise LanguageError("broken_text", message, name=shown(kept.name, 80))
    return opened(kept)
