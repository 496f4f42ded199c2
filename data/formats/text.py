"""The bytes of a file, also packed ones, their text, and text without columns as passages."""

import bz2
import codecs
import gzip
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BytesIO, StringIO, TextIOWrapper
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import ZipFile, ZipInfo

from mrc_workbench.data.formats.encodings import (
    ENCODING_PROBLEMS,
    Encoding,
    EncodingCandidate,
    detect_encoding,
    encoding_candidates,
)
from mrc_workbench.data.formats.tables import RawRow, RawTable, display_text, wrap_errors
from mrc_workbench.data.problems import DataError, ProblemCode

_PART_BYTES = 1 << 20  # bytes
_START_BYTES = 4 << 20
_SIGNATURE_BYTES = 4096
_HEAD_CHARACTERS = 1_000_000  # characters
_NAME = "text"  # of the only column; one of those that are guessed to hold passages


@dataclass(frozen=True)
class Content:
    """The bytes themselves, or the file or archive they are in. Reading raises `OSError` if the file has gone."""

    source: "bytes | Path | ZipMember | Unreadable" = field(repr=False)
    named_encoding: str = ""  # by the user; if empty, the encoding is detected

    @classmethod
    def from_bytes(cls, source: "bytes | Content") -> "Content":
        """Return content for bytes; content is returned as it is."""
        return source if isinstance(source, Content) else cls(source)

    def open(self) -> BinaryIO:
        return self.source.open("rb") if isinstance(self.source, Path) else BytesIO(self.whole)

    @cached_property
    def size(self) -> int:
        if isinstance(self.source, bytes):
            return len(self.source)
        return self.source.stat().st_size if isinstance(self.source, Path) else self.source.size

    @cached_property
    def signature(self) -> bytes:
        """The first 4 KiB, which tell most formats."""
        return self._read_first(_SIGNATURE_BYTES)

    @property
    def start(self) -> bytes:
        """The first 4 MiB."""
        return self._file_start if isinstance(self.source, Path) else self._read_first(_START_BYTES)

    @cached_property
    def _file_start(self) -> bytes:
        return self._read_first(_START_BYTES)

    def _read_first(self, max_bytes: int) -> bytes:
        if isinstance(self.source, bytes):
            return self.source[:max_bytes]
        if not isinstance(self.source, Path):
            return self.source.read(max_bytes)
        with self.source.open("rb") as file:
            return file.read(max_bytes)

    @property
    def whole(self) -> bytes:
        """All bytes; those of a file or archive are read anew at each call."""
        if isinstance(self.source, bytes):
            return self.source
        return self.source.read_bytes() if isinstance(self.source, Path) else self.source.read()

    @property
    def in_memory_or_path(self) -> bytes | Path:
        """The path of the file, or the bytes."""
        return self.source if isinstance(self.source, Path) else self.whole

    @cached_property
    def encoding(self) -> "Encoding":
        """How the bytes become text. Raises `DataError` if that cannot be told, or is not what the user names."""
        return detect_encoding(self, self.named_encoding)

    def parts(self) -> Iterator[bytes]:
        """Yield all bytes, a MiB at a time."""
        with self.open() as file:
            yield from iter(lambda: file.read(_PART_BYTES), b"")


def check_size(size: int, unit: str, limit: int) -> None:
    """Raise `DataError` where a file holds or claims more than is read."""
    if size > limit:
        raise DataError.from_code(ProblemCode.TOO_LARGE, size=f"{size:,}", unit=unit, limit=f"{limit:,}")


def encodings_to_choose(contents: Iterable[Content]) -> tuple[EncodingCandidate, ...]:
    """Return the possible encodings of the first content whose encoding is unknown, wrongly named or a guess."""
    for content in contents:
        try:
            is_doubtful = any(problem.code is ProblemCode.GUESSED_ENCODING for problem in content.encoding.problems)
        except DataError as error:
            is_doubtful = error.problem.code in ENCODING_PROBLEMS
        if is_doubtful:
            return encoding_candidates(content)
    return ()


@dataclass(frozen=True)
class EncodedText:
    """The text of a file, decoded a little at a time."""

    content: Content
    encoding: Encoding

    @cached_property
    def head(self) -> str:
        """The first million characters."""
        decoder = codecs.getincrementaldecoder(self.encoding.codec)(self.encoding.errors)
        return decoder.decode(self.content.start)[:_HEAD_CHARACTERS]

    @property
    def whole(self) -> str:
        """All of it, decoded anew at each call."""
        return self.content.whole.decode(self.encoding.codec, self.encoding.errors)

    def lines(self, newline: str) -> Iterator[str]:
        """Yield the lines with their ends, as `lines_of`."""
        return TextIOWrapper(self.content.open(), self.encoding.codec, self.encoding.errors, newline)


def lines_of(text: str | EncodedText, newline: str) -> Iterator[str]:
    """Yield the lines of a text with their ends, as `open` has `newline`: `str.splitlines` breaks inside texts."""
    return StringIO(text, newline) if isinstance(text, str) else text.lines(newline)


def has_inner_blank_line(lines: Iterable[str]) -> bool:
    """Return whether a blank line stands between two filled lines. Reads each line once."""
    blocks = (is_filled for is_filled, _ in groupby(lines, lambda line: bool(line.strip())) if is_filled)
    return sum(islice(blocks, 2)) > 1


def plain_text_table(text: str | EncodedText) -> RawTable:
    """Read the passages of a text, numbered by the line they begin in."""
    head = text if isinstance(text, str) else text.head
    passages = _blocks(text) if has_inner_blank_line(lines_of(head, "")) else _filled_lines(text)
    return RawTable((_NAME,), (RawRow(number, {_NAME: passage}) for number, passage in passages))


def line_table(text: str | EncodedText) -> RawTable:
    """Read the lines of a text that are not blank, numbered as they stand in it."""
    return RawTable((_NAME,), (RawRow(number, {_NAME: line}) for number, line in _filled_lines(text)))


def _filled_lines(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    lines = enumerate(lines_of(text, ""), start=1)
    return ((number, line.strip()) for number, line in lines if line.strip())


def _blocks(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    """Yield the lines between blank ones, with the number of the first of them."""
    lines = enumerate(lines_of(text, ""), start=1)
    for is_filled, block in groupby(lines, lambda line: bool(line[1].strip())):
        if is_filled:
            number, first = next(block)
            yield number, "\n".join([first.rstrip(), *(line.rstrip() for _, line in block)])


MAX_UNPACKED_BYTES = 2**30  # of an archive, such as a workbook
_UNPACKED_TIMES = 200  # texts are a tenth of their size in a workbook; a few bytes that say one thing for ever are less
_ALWAYS_UNPACKED = 2**25
_READERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}


def unpacked_limit(size: int, max_bytes: int = MAX_UNPACKED_BYTES) -> int:
    """Return to how many bytes an archive of this size may unpack, where so many are `left`."""
    return min(max_bytes, max(_ALWAYS_UNPACKED, _UNPACKED_TIMES * size))


@dataclass(frozen=True)
class ZipMember:
    """One file of a zip archive, unpacked when it is read: the archive may hold more than fits into memory."""

    archive: ZipFile
    entry: ZipInfo

    @property
    def size(self) -> int:
        return self.entry.file_size

    def read(self, max_bytes: int = -1) -> bytes:
        """Return the bytes, or the first of them; no more than the archive claims. The checksum of all is verified."""
        with wrap_archive_errors(self.entry.filename):
            if 0 <= max_bytes < self.size:
                with self.archive.open(self.entry) as file:
                    return file.read(max_bytes)
            return _unzipped(self.archive, self.entry)


@lru_cache(maxsize=1)  # one file is read after the other, each several times
def _unzipped(archive: ZipFile, entry: ZipInfo) -> bytes:
    return archive.read(entry)


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be unpacked: whoever reads it gets the error."""

    error: DataError
    size: int = 0

    def read(self, max_bytes: int = -1) -> bytes:  # noqa: ARG002 - as `ZipMember` has it
        raise self.error


def is_compressed(start: bytes) -> bool:
    """Whether a file begins as gzip, bzip2 or xz do."""
    return start.startswith(tuple(_READERS))


def decompressed(content: Content, name: str, left: int) -> Content:
    """Return the content of a compressed file, `left` bytes at most. Raises `DataError`."""
    max_bytes = unpacked_limit(content.size, left)
    reader = next(reader for mark, reader in _READERS.items() if content.start.startswith(mark))
    with wrap_archive_errors(name), content.open() as packed, reader(packed) as archive:
        return Content(_read(archive, max_bytes))


def is_tar(content: Content) -> bool:
    """Whether a file is an archive of files that is not compressed."""
    return content.signature[257:262] == b"ustar"


def tar_files(content: Content, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the regular files of a tar archive. Raises `DataError`."""
    with wrap_archive_errors(name), content.open() as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.isfile() else None
            if file is not None:
                yield entry.name, _read(file, content.size)


def _read(file: IO[bytes], max_bytes: int) -> bytes:
    out = BytesIO()
    while part := file.read(_PART_BYTES):
        out.write(part)
        check_size(out.tell(), "unpacked bytes", max_bytes)
    return out.getvalue()


def wrap_archive_errors(name: str) -> AbstractContextManager[None]:
    """Let whatever a broken archive causes be a `DataError` that names it."""
    return wrap_errors(ProblemCode.BROKEN_ARCHIVE, name=display_text(name, 80))
