"""Temporary folders, JSON files that users edit, and renamed fields of stored files.

A process holds a lock in each of its temporary folders. A folder with a free lock is a leftover of a killed process.
"""

import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import model_validator

logger = logging.getLogger(__name__)
_LOCK = ".in-use"
_TEMPORARY_NAME = re.compile(r"\..+\.[a-z0-9_]{8}")  # `TemporaryDirectory` with a prefix such as ".reading."
# folders without a lock are of an earlier version, or of a system without locks
_SECONDS_WITHOUT_LOCK = 7 * 24 * 3600.0


@contextmanager
def temporary_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield a new folder in `parent`, which is removed when the block ends; `prefix` begins and ends with a dot."""
    with TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        descriptor: int | None = None
        with suppress(OSError):
            descriptor = _lock(Path(name, f"{_LOCK}.new"), os.O_CREAT)
            Path(name, f"{_LOCK}.new").rename(Path(name, _LOCK))  # renamed when it is locked
        try:
            yield Path(name)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def remove_leftovers(root: Path) -> int:
    """Remove the leftovers of killed processes in a folder and its subfolders; return their number."""
    removed = 0
    for parent, names, _ in os.walk(root):
        leftovers = [Path(parent, name) for name in names if _TEMPORARY_NAME.fullmatch(name)]
        names[:] = [name for name in names if not _TEMPORARY_NAME.fullmatch(name)]
        removed += sum(map(_remove_if_abandoned, leftovers))
    return removed


def remove_leftovers_of(prefix: str, parent: Path) -> None:
    """Remove the leftovers of killed processes with a prefix, directly in `parent`."""
    for folder in parent.glob(f"{prefix}*"):
        if folder.is_dir() and _TEMPORARY_NAME.fullmatch(folder.name):
            _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> bool:
    if folder.is_symlink() or not _is_abandoned(folder):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _lock(path: Path, flags: int = 0) -> int:
    """Open and lock a file; return the descriptor that holds the lock. Raises `OSError` if it cannot be locked."""
    if sys.platform == "win32":
        raise OSError("Windows has no such locks")
    import fcntl

    descriptor = os.open(path, os.O_RDWR | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_abandoned(folder: Path) -> bool:
    try:
        if sys.platform != "win32" and not (folder / _LOCK).exists():
            return time.time() - folder.stat().st_mtime > _SECONDS_WITHOUT_LOCK
        os.close(_lock(folder / _LOCK))
    except OSError:
        return False
    return True


_DAMAGED_SUFFIX = ".damaged"


def read_user_file(path: Path) -> tuple[dict[str, Any], bool]:
    """Return a file's JSON object, empty if the file is missing, and whether it is damaged. Raises `OSError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, False
    except (ValueError, RecursionError):  # RecursionError: nested thousands deep
        return {}, True
    return (content, False) if isinstance(content, dict) else ({}, True)


def back_up_damaged_file(path: Path) -> Path:
    """Copy a damaged file to `NAME.damaged`, `NAME.damaged-2`...; if it raises `OSError`, do not overwrite the file."""
    names = (path.with_name(f"{path.name}{_DAMAGED_SUFFIX}{f'-{number}' if number > 1 else ''}") for number in count(1))
    copy = next(name for name in names if not name.exists())
    shutil.copy2(path, copy)
    logger.warning("%s is damaged; it was copied to %s", path, copy.name)
    return copy


def damaged_copies(path: Path) -> list[Path]:
    """Return the copies made by `back_up_damaged_file`."""
    return sorted(path.parent.glob(f"{path.name}{_DAMAGED_SUFFIX}*"))


def accept_earlier_names(renamed: Mapping[str, str]) -> Any:
    """Return a pydantic validator that maps earlier names of fields to current ones, so that older files still open.

    A model, or a dataclass that is read through a `TypeAdapter`, declares it as a class attribute:
    `_earlier = accept_earlier_names({"figures": "metrics"})`. Each earlier name logs a deprecation line.
    """

    def read(cls: type, values: Any) -> Any:
        return current_names(values, renamed, cls.__name__) if isinstance(values, Mapping) else values

    return model_validator(mode="before")(classmethod(read))  # type: ignore[arg-type]  # pydantic documents this form


def current_names(values: Mapping[str, Any], renamed: Mapping[str, str], owner: str) -> dict[str, Any]:
    """Return the values under current names. If both names occur, the current one applies.

    `owner` names the file or class in the deprecation line, which is logged once per process and name.
    """
    current = dict(values)
    for earlier, name in renamed.items():
        if earlier in current:
            value = current.pop(earlier)
            current.setdefault(name, value)
            warn_once(owner, earlier, name)
    return current


@cache
def warn_once(owner: str, earlier: str, name: str) -> None:
    """Log the deprecation line of an earlier name, once per process."""
    logger.warning("%s: %r is now %r; the earlier name is accepted until version 2.0", owner, earlier, name)
