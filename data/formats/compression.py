"""Compressed files: what the standard library unpacks, within limits."""

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from io import BytesIO
from typing import IO, Any

from data.formats.tables import broken_told, shown
from data.formats.text import Content, check_size
from data.formats.workbooks import unpacked_limit
from data.problems import ProblemCode

_READERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_PART = 1 << 20


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
