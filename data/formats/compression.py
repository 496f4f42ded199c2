"""Compressed files: what the standard library unpacks, within limits."""

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

from mrc_workbench.data.formats.tables import broken_told, shown
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.formats.workbooks import unpacked_limit
from mrc_workbench.data.problems import DataError, ProblemCode

_READERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_PART = 1 << 20


@dataclass(frozen=True)
class ZipMember:
    """One file of a zip archive, unpacked when it is read: the archive may hold more than fits into memory."""

    archive: ZipFile
    entry: ZipInfo

    @property
    def size(self) -> int:
        return self.entry.file_size

    def read(self, most: int = -1) -> bytes:
        """Return the bytes, or the first of them; no more than the archive claims. The checksum of all is verified."""
        with broken_archive(self.entry.filename):
            if 0 <= most < self.size:
                with self.archive.open(self.entry) as file:
                    return file.read(most)
            return _unzipped(self.archive, self.entry)


@lru_cache(maxsize=1)  # one file is read after the other, each several times
def _unzipped(archive: ZipFile, entry: ZipInfo) -> bytes:
    return archive.read(entry)


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be unpacked: whoever reads it gets the error."""

    error: DataError
    size: int = 0

    def read(self, most: int = -1) -> bytes:  # noqa: ARG002 - as `Packed` has it
        raise self.error


def is_compressed(start: bytes) -> bool:
    """Whether a file begins as gzip, bzip2 or xz do."""
    return start.startswith(tuple(_READERS))


def decompressed(content: Content, name: str, left: int) -> Content:
    """Return the content of a compressed file, `left` bytes at most. Raises `DataError`."""
    most = unpacked_limit(content.size, left)
    reader = next(reader for mark, reader in _READERS.items() if content.start.startswith(mark))
    with broken_archive(name), content.open() as packed, reader(packed) as archive:
        return Content(_read(archive, most))


def is_tar(content: Content) -> bool:
    """Whether a file is an archive of files that is not compressed."""
    return content.mark[257:262] == b"ustar"


def tar_files(content: Content, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the regular files of a tar archive. Raises `DataError`."""
    with broken_archive(name), content.open() as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.isfile() else None
            if file is not None:
                yield entry.name, _read(file, content.size)


def _read(file: IO[bytes], most: int) -> bytes:
    out = BytesIO()
    while part := file.read(_PART):
        out.write(part)
        check_size(out.tell(), "unpacked bytes", most)
    return out.getvalue()


def broken_archive(name: str) -> AbstractContextManager[None]:
    """Let whatever a broken archive causes be a `DataError` that names it."""
    return broken_told(ProblemCode.BROKEN_ARCHIVE, name=shown(name, 80))
