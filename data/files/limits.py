"""What reading files may take: told in advance from their sizes, and held to by the system."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import psutil

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode

TIMES_AS_LONG = 10  # by the clock: others may be at work, too
_MEMORY, _MEMORY_TIMES = 2**29, 8  # bytes, and how often the size of the text
_SECONDS, _BYTES_A_SECOND = 10.0, 5_000_000  # a tenth of the pace at which rows are read
_SECONDS_A_FILE = 0.02  # after the first
# texts are a tenth of their size in a workbook, another archive, Parquet or a document
_PACKED, _PACKED_TIMES = (b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"%PDF-", bytes.fromhex("D0CF11E0")), 10
_SHARE_OF_FREE_MEMORY = 0.8

_promised: list[int] = []  # bytes, of the readings at work
_changed = threading.Condition()


@dataclass(frozen=True)
class Limits:
    """What reading a file may take: bytes of memory, and seconds of a processor."""

    memory: int
    seconds: int

    @classmethod
    def of(cls, *contents: Content) -> "Limits":
        """Return those for some files: they grow with them, and never beyond the memory that is free."""
        size = sum(one.size * (_PACKED_TIMES if one.mark.startswith(_PACKED) else 1) for one in contents)
        memory = min(_MEMORY + _MEMORY_TIMES * size, max(_MEMORY, _memory_to_use()))
        return cls(memory, ceil(_SECONDS + size / _BYTES_A_SECOND + _SECONDS_A_FILE * (len(contents) - 1)))

    @contextmanager
    def held_free(self) -> Iterator[None]:
        """Wait until other readings of this process leave as much memory free, and keep it so within the block.

        Many large files at once would each be promised the same free memory; small ones go on beside them.
        """
        with _changed:
            _changed.wait_for(lambda: not _promised or sum(_promised) + self.memory <= _memory_to_use())
            _promised.append(self.memory)
        try:
            yield
        finally:
            with _changed:
                _promised.remove(self.memory)
                _changed.notify_all()

    def exceeded(self, code: ProblemCode) -> DataError:
        """Return the error for a file that needs more time or memory, or whose process ended without a word."""
        if code is ProblemCode.NEEDS_TIME:
            return DataError.of(code, seconds=self.seconds)
        return DataError.of(code, memory=f"{self.memory / 2**30:.1f} GiB")

    def hold(self) -> None:
        """Let the system end this process where it takes too much, also when nobody is left to watch it."""
        if sys.platform == "win32":
            return
        import resource

        signal.alarm(self.seconds * TIMES_AS_LONG + 1)
        spent = ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent + self.seconds + 1, spent + self.seconds + 2))
        if sys.platform == "linux":  # elsewhere the system does not hold to it, and whoever watches does
            told = Path("/proc/self/status").read_text(encoding="utf-8")
            own = int(told.partition("VmData:")[2].split()[0]) * 1024  # bytes, as the limit counts them
            most = own + self.memory
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _memory_to_use() -> int:
    return int(_SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available)
