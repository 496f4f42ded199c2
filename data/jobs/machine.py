"""A process: which one is meant, since its number may be given to another one later, and the memory that it holds; and
what machine and which versions something was computed with."""

import ctypes
import gc
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from mrc_workbench.data.workspace import PROJECT


class Process(NamedTuple):
    """A process by its number and start time (seconds since 1970)."""

    pid: int
    started: float

    @property
    def lives(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return bool(process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended. Raises `psutil.TimeoutExpired`."""
        if self.lives:
            psutil.Process(self.pid).wait(seconds)


def this_process() -> Process:
    """Return the process that asks."""
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """Return the process that has this number now; one that has ended has no start time."""
    try:
        return Process(pid, float(psutil.Process(pid).create_time()))
    except psutil.NoSuchProcess:
        return Process(pid, 0.0)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # of mallopt(3)


def hold_freed_memory() -> None:
    """Keep what is freed until this process ends. Does nothing where the C library is not glibc."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch asks for large pages; read with its first tensor
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)  # no block of its own for a large tensor
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_TOP_PAD, 2**26)


@contextmanager
def without_collections() -> Iterator[None]:
    """Within the block nobody looks for garbage: libraries and models that are being read are none.

    A million objects come with them, and to look through all of them again and again takes a third of the time.
    """
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


def give_back_large_blocks() -> None:
    """Of what is freed from now on, give back each block of 32 MiB and more, whatever `hold_freed_memory` said.

    For blocks that have another size every time, as the logits of a large vocabulary: the gaps that they leave fit
    nothing, and what is held would grow to several times of what is in use.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 2**25)  # the most that glibc lets it be
        mallopt(_MMAP_MAX, 2**16)


def versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python and of those of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for library in libraries:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def hardware() -> dict[str, Any]:
    """Return what this machine computes with. GPUs are those torch sees, none where nothing needed torch."""
    torch = sys.modules.get("torch")
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        told = ""
    named = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return {
        "system": platform.platform(),
        "processor": named[1].strip() if named else platform.processor() or platform.machine(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,  # bytes
        "gpus": [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())] if torch else [],
    }


def commit() -> str:
    """Return this project's git commit, with `-dirty` where files differ from it; empty where it is no checkout."""
    if not (PROJECT / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()
