"""The bytes and the text of a file, also of an archive or compressed; passages of plain text."""

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

from mrc_workbench.data.formats import encodings
from mrc_workbench.data.formats.tables import RawRow, RawTable, display_text, wrap_errors
from mrc_workbench.data.problems import DataError, ProblemCode

_PART_BYTES = 1 << 20
_START_BYTES = 4 << 20
_SIGNATURE_BYTES = 4096
_HEAD_CHARACTERS = 1_000_000
_NAME = "text"  # of the only column; a known name for passages


@dataclass(frozen=True)
class Content:
    """Bytes, or the file or archive that contains them. Reading raises `OSError` if the file was removed."""

    source: "bytes | Path | ZipMember | Unreadable" = field(repr=False)
    named_encoding: str = ""  # by the user; if empty, the encoding is detected

    @classmethod
    def from_bytes(cls, source: "bytes | Content") -> "Content":
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
        return self._read_first(_SIGNATURE_BYTES)

    @property
    def start(self) -> bytes:
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
        if isinstance(self.source, bytes):
            return self.source
        return self.source.read_bytes() if isinstance(self.source, Path) else self.source.read()

    @property
    def in_memory_or_path(self) -> bytes | Path:
        return self.source if isinstance(self.source, Path) else self.whole

    @cached_property
    def encoding(self) -> "encodings.Encoding":
        """The named or detected encoding. Raises `DataError` if it is invalid or unknown."""
        return encodings.detect_encoding(self, self.named_encoding)

    def parts(self) -> Iterator[bytes]:
        with self.open() as file:
            yield from iter(lambda: file.read(_PART_BYTES), b"")


def check_size(size: int, unit: str, limit: int) -> None:
    """Raise `DataError` if a size in a file exceeds the limit."""
    if size > limit:
        raise DataError.from_code(ProblemCode.TOO_LARGE, size=f"{size:,}", unit=unit, limit=f"{limit:,}")


def encodings_to_choose(contents: Iterable[Content]) -> tuple[encodings.EncodingCandidate, ...]:
    """Return the possible encodings of the first content with an unknown, invalid or guessed encoding."""
    for content in contents:
        try:
            is_doubtful = any(problem.code is ProblemCode.GUESSED_ENCODING for problem in content.encoding.problems)
        except DataError as error:
            is_doubtful = error.problem.code in encodings.ENCODING_PROBLEMS
        if is_doubtful:
            return encodings.encoding_candidates(content)
    return ()


@dataclass(frozen=True)
class EncodedText:
    """The text of a file, decoded in parts."""

    content: Content
    encoding: encodings.Encoding

    @cached_property
    def head(self) -> str:
        decoder = codecs.getincrementaldecoder(self.encoding.codec)(self.encoding.errors)
        return decoder.decode(self.content.start)[:_HEAD_CHARACTERS]

    @property
    def whole(self) -> str:
        return self.content.whole.decode(self.encoding.codec, self.encoding.errors)

    def lines(self, newline: str) -> Iterator[str]:
        return TextIOWrapper(self.content.open(), self.encoding.codec, self.encoding.errors, newline)


def lines_of(text: str | EncodedText, newline: str) -> Iterator[str]:
    """Yield the lines with their line breaks; `newline` as in `open` (`str.splitlines` has more line breaks)."""
    return StringIO(text, newline) if isinstance(text, str) else text.lines(newline)


def has_inner_blank_line(lines: Iterable[str]) -> bool:
    """Whether a blank line is between other lines. Reads each line once."""
    blocks = (is_filled for is_filled, _ in groupby(lines, lambda line: bool(line.strip())) if is_filled)
    return sum(islice(blocks, 2)) > 1


def plain_text_table(text: str | EncodedText) -> RawTable:
    """Read the passages of a text, numbered by their first lines."""
    head = text if isinstance(text, str) else text.head
    passages = _blocks(text) if has_inner_blank_line(lines_of(head, "")) else _filled_lines(text)
    return RawTable((_NAME,), (RawRow(number, {_NAME: passage}) for number, passage in passages))


def line_table(text: str | EncodedText) -> RawTable:
    """Read the non-blank lines of a text, numbered by position."""
    return RawTable((_NAME,), (RawRow(number, {_NAME: line}) for number, line in _filled_lines(text)))


def _filled_lines(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    lines = enumerate(lines_of(text, ""), start=1)
    return ((number, line.strip()) for number, line in lines if line.strip())


def _blocks(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    lines = enumerate(lines_of(text, ""), start=1)
    for is_filled, block in groupby(lines, lambda line: bool(line[1].strip())):
        if is_filled:
            number, first = next(block)
            yield number, "\n".join([first.rstrip(), *(line.rstrip() for _, line in block)])


MAX_UNPACKED_BYTES = 2**30  # of an archive, such as a workbook
_UNPACKED_TIMES = 200  # compression ratio limit; texts in workbooks have a ratio of 10
_ALWAYS_UNPACKED = 2**25
_READERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}


def unpacked_limit(size: int, max_bytes: int = MAX_UNPACKED_BYTES) -> int:
    """Return the limit of unpacked bytes for an archive of this size."""
    return min(max_bytes, max(_ALWAYS_UNPACKED, _UNPACKED_TIMES * size))


@dataclass(frozen=True)
class ZipMember:
    """One file of a zip archive, unpacked at each read: the archive may exceed the memory."""

    archive: ZipFile
    entry: ZipInfo

    @property
    def size(self) -> int:
        return self.entry.file_size

    def read(self, max_bytes: int = -1) -> bytes:
        """Return the bytes, or the first ones. The checksum is verified if all are read."""
        with wrap_archive_errors(self.entry.filename):
            if 0 <= max_bytes < self.size:
                with self.archive.open(self.entry) as file:
                    return file.read(max_bytes)
            return _unzipped(self.archive, self.entry)


@lru_cache(maxsize=1)  # files are read one after the other, each several times
def _unzipped(archive: ZipFile, entry: ZipInfo) -> bytes:
    return archive.read(entry)


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be unpacked. Reading it raises the error."""

    error: DataError
    size: int = 0

    def read(self, max_bytes: int = -1) -> bytes:  # noqa: ARG002 - same signature as `ZipMember`
        raise self.error


def is_compressed(start: bytes) -> bool:
    """Whether a file begins with the signature of gzip, bzip2 or xz."""
    return start.startswith(tuple(_READERS))


def decompressed(content: Content, name: str, max_bytes: int) -> Content:
    """Return the content of a compressed file, at most `max_bytes`. Raises `DataError`."""
    limit = unpacked_limit(content.size, max_bytes)
    reader = next(reader for mark, reader in _READERS.items() if content.start.startswith(mark))
    with wrap_archive_errors(name), content.open() as packed, reader(packed) as archive:
        return Content(_read(archive, limit))


def is_tar(content: Content) -> bool:
    """Whether a file is an uncompressed tar archive."""
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
    """Raise errors of a broken archive as `DataError` with its name."""
    return wrap_errors(ProblemCode.BROKEN_ARCHIVE, name=display_text(name, 80))
