"""Text to learn from, as a stream of documents that begins anew as often as it is asked for.

No more of it than one document lies in memory, but for the passages of a question set, which Arrow holds.
"""

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import xxhash

from data.files.cells import shown
from data.records import QuestionSet, composed
from data.store import find
from language.problems import LanguageError

LONGEST = 100_000  # characters of a document: a longer one is cut, and its parts are documents
_PART = 1 << 18  # bytes of a line read at a time


class Corpus(Protocol):
    """Documents in order. `fingerprint` (sha256, hexadecimal) is of the content, `characters` how many there are."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the documents would."""
        ...

    @property
    def characters(self) -> int:
        """Characters of all documents together; of a text, those between them as well."""
        ...

    def documents(self) -> Iterator[str]:
        """Yield the documents from the beginning; none is blank."""
        ...


@dataclass(frozen=True)
class PassageCorpus:
    """The passages of a question set without their titles, which every passage of an article would repeat."""

    question_set: QuestionSet

    @property
    def name(self) -> str:
        """The name of the set."""
        return self.question_set.name

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the passages' texts: titles and questions are not learned from."""
        return self.question_set.passages.texts.fingerprint

    @property
    def characters(self) -> int:
        """Characters of all passages."""
        return int(self.question_set.passages.texts.lengths().sum())

    def documents(self) -> Iterator[str]:
        """Yield the passages, a longer one than `LONGEST` in parts."""
        for text in self.question_set.passages.texts:
            yield from _parts(text)


@dataclass(frozen=True)
class TextCorpus:
    """A text file in UTF-8: its paragraphs where empty lines part them, else its lines."""

    path: Path
    fingerprint: str
    characters: int
    in_paragraphs: bool = field(kw_only=True)

    @property
    def name(self) -> str:
        """The name of the file without its ending."""
        return self.path.stem

    def documents(self) -> Iterator[str]:
        """Yield paragraphs or lines. Raises `LanguageError` where the file was changed and is no text any more."""
        for document in _paragraphs(self.path) if self.in_paragraphs else _lines(self.path):
            yield from _parts(document)


def find_corpus(reference: str) -> Corpus:
    """Return the corpus a person names: the path of a text (.txt), or a question set as `data.store.find` has them.

    Raises `LanguageError` as `text_corpus`, and `DataError`.
    """
    if reference.lower().endswith(".txt"):
        return text_corpus(Path(reference))
    return PassageCorpus(find(reference))


def text_corpus(path: Path) -> TextCorpus:
    """Look a text file through once: its fingerprint, whether it is UTF-8, and what parts its documents.

    Raises `LanguageError`: `unreadable_text`, `bad_text` with the line, `no_text` where nothing but space is in it.
    """
    digest, characters, filled, gap, in_paragraphs = hashlib.sha256(), 0, False, False, False
    for line in _lines(path):
        digest.update(line.encode())
        characters += len(line)
        if line.strip():
            in_paragraphs |= gap
            filled, gap = True, False
        else:
            gap = filled
    if not filled:
        raise LanguageError("no_text", f"{_told(path)} holds no text: give one with words in it", file=_told(path))
    return TextCorpus(path, digest.hexdigest(), characters, in_paragraphs=in_paragraphs)


def held_out(document: str, share: float, seed: int) -> bool:
    """Whether a document is kept from training, to measure on: about `share` of the distinct documents are.

    Its hash decides (XXH3 with the seed, over the composed text with single spaces), so that copies of a document
    stand on one side, in any corpus, and nothing need be remembered.
    """
    if not 0 < share < 1:
        return share >= 1
    digest = xxhash.xxh3_64_intdigest(composed(document).encode("utf-8", "surrogatepass"), seed=seed % 2**64)
    return bool(digest < share * 2**64)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines with their ends, a very long one in parts. Raises `LanguageError`."""
    if not path.is_file():
        message = f"{_told(path)} is no file that can be read: check the path"
        raise LanguageError("unreadable_text", message, file=_told(path))
    decoder, number = codecs.getincrementaldecoder("utf-8")(), 1
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for part in iter(lambda: file.readline(_PART), b""):
            yield _decoded(decoder, part, path, number)
            number += part.endswith(b"\n")
    yield _decoded(decoder, b"", path, number)  # empty, or an error where the last letter is cut off


def _decoded(decoder: codecs.IncrementalDecoder, part: bytes, path: Path, line: int) -> str:
    try:
        text = decoder.decode(part, final=not part)
    except UnicodeDecodeError as error:
        raise _bad_text(path, line, error.object[error.start]) from error
    if "\x00" in text:  # UTF-16 of English is valid UTF-8, with a NUL after every letter
        raise _bad_text(path, line, 0)
    return text


def _bad_text(path: Path, line: int, byte: int) -> LanguageError:
    told, found = _told(path), f"0x{byte:02X}"
    message = f"{told} is no UTF-8: byte {found} in line {line} is none of a text; save the file as UTF-8"
    return LanguageError("bad_text", message, file=told, line=line, byte=found)


def _paragraphs(path: Path) -> Iterator[str]:
    lines, length = list[str](), 0
    for line in _lines(path):
        if line.strip() and length < LONGEST:
            lines.append(line)
            length += len(line)
            continue
        yield "".join(lines)
        lines, length = ([line], len(line)) if line.strip() else ([], 0)
    yield "".join(lines)


def _parts(document: str) -> Iterator[str]:
    """Yield a document without the space around it, one that is too long cut between words where it has any."""
    rest = document.strip()
    while len(rest) > LONGEST:
        end = rest.rfind(" ", LONGEST // 2, LONGEST) + 1 or LONGEST
        yield rest[:end].rstrip()
        rest = rest[end:].lstrip()
    if rest:
        yield rest


def _told(path: Path) -> str:
    return shown(path.name, 80)
