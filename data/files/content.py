"""The bytes of a file, in memory as they were uploaded or on the disk, read a part at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from data.problems import DataError, ProblemCode

_PART = 1 << 20  # bytes
_START = 4 << 20


@dataclass(frozen=True)
class Content:
    """The bytes themselves, or the file they are in. Reading them raises `OSError` where the file has gone."""

    source: bytes | Path = field(repr=False)

    @classmethod
    def of(cls, given: "bytes | Content") -> "Content":
        """Return content for bytes; content is returned as it is."""
        return given if isinstance(given, Content) else cls(given)

    def open(self) -> BinaryIO:
        """Open it for reading from the beginning."""
        return BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")

    @cached_property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    @cached_property
    def start(self) -> bytes:
        """The first 4 MiB."""
        with self.open() as file:
            return file.read(_START)

    @property
    def whole(self) -> bytes:
        """All bytes; those of a file are read anew at each call."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    def parts(self) -> Iterator[bytes]:
        """Yield all bytes, a MiB at a time."""
        with self.open() as file:
            yield from iter(lambda: file.read(_PART), b"")


def check_size(size: int, unit: str, limit: int) -> None:
    """Raise `DataError` where a file holds or claims more than is read."""
    if size > limit:
        raise DataError.of(ProblemCode.TOO_LARGE, size=f"{size:,}", unit=unit, limit=f"{limit:,}")
