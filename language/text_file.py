"""A text file in UTF-8, as documents that are read from the beginning as often as asked for, or why it cannot be.

It may be of any size: no more of it than one document lies in memory."""

import codecs
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from data.formats.tables import shown
from data.problems import Failure


class LanguageError(Failure):
    """A text, tokenizer or language model that cannot be used; `code` is a key of `language.` in the locale files."""


LONGEST = 100_000  # characters of a document: a longer one is cut, and its parts are documents
_BLOCK = 1 << 18  # bytes read at a time


@dataclass(frozen=True)
class TextCorpus:
    """A text file in UTF-8: its paragraphs where empty lines part them, else its lines."""

    name: str
    path: Path
    fingerprint: str
    characters: int
    in_paragraphs: bool = field(kw_only=True)

    def documents(self) -> Iterator[str]:
        """Yield paragraphs or lines. Raises `LanguageError` where the file was changed and is no text any more."""
        lines = _lines(_blocks(self.path, _told(self.path)))
        for document in _paragraphs(lines) if self.in_paragraphs else lines:
            yield from parts(document)


def text_corpus(path: Path, name: str = "", on_progress: Callable[[float], object] | None = None) -> TextCorpus:
    """Look a text file through once: its fingerprint, whether it is UTF-8, and what parts its documents.

    It is called by `name`, or else as the file. `on_progress` is told the share of it gone through. Raises
    `LanguageError`: `unreadable_text`, `bad_text` with the line, `no_text` where nothing but space is in it.
    """
    told = shown(name, 80) if name else _told(path)
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


def parts(document: str) -> Iterator[str]:
    """Yield a document without the space around it, one that is too long cut between words where it has any."""
    rest = document.strip()
    while len(rest) > LONGEST:
        end = rest.rfind(" ", LONGEST // 2, LONGEST) + 1 or LONGEST
        yield rest[:end].rstrip()
        rest = rest[end:].lstrip()
    if rest:
        yield rest


def _blocks(path: Path, told: str) -> Iterator[str]:
    """Yield the text without its byte order mark, some of it at a time. Raises `LanguageError`."""
    if not path.is_file():
        message = f"{told} is no file that can be read: check the path"
        raise LanguageError("unreadable_text", message, file=told)
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


def _told(path: Path) -> str:
    return shown(path.name, 80)
