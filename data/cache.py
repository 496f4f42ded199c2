"""A cache of arrays by content key, seals that detect damaged files, and results stored as folders.

A result is an `.npz` file of arrays and a JSON file, which is written last: a folder with the JSON file is complete.
"""

import hashlib
import json
import logging
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import xxhash
from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.workspace import (
    error_message,
    folder_to_disk,
    read_json,
    remove_folder,
    replacing,
    to_disk,
    workspace,
    write_json,
    write_text,
)

logger = logging.getLogger(__name__)
_unwritable = set[Path]()  # reported folders

SCORES = "scores.json"
SEAL = "sealed.json"  # of a folder: sizes and digests by file name
_SEAL_FORMAT = struct.Struct("<8sQ16s")
_SEAL_SIGNATURE = b"mrc-seal"
_BLOCK = 1 << 20  # bytes read at a time
_SHIPPED = Path(__file__).parent / "sample"  # arrays that are shipped with the sample
_caching_enabled: ContextVar[bool] = ContextVar("_caching_enabled", default=True)

Arrays = dict[str, np.ndarray]
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def sealing(path: Path) -> Iterator[Path]:
    """Like `replacing`, but the content is sealed and synced before it is renamed."""
    with replacing(path) as new:
        yield new
        seal(new)
    to_disk(path.parent)


def seal(path: Path) -> None:
    """Seal a file or a folder, and sync it to the disk."""
    if path.is_dir():
        listed = {name: _size_and_digest(path / name) for name in _names_in(path)}
        folder_to_disk(path)  # before the seal: after a power cut, a seal is never without its content
        write_text(path / SEAL, json.dumps(listed, ensure_ascii=False, indent=1))
        to_disk(path / SEAL)
        to_disk(path)
        return
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(_SEAL_FORMAT.pack(_SEAL_SIGNATURE, size, _digest(path, size)))
    to_disk(path)


def is_intact(path: Path, unsealed_names: Collection[str] = ()) -> bool:
    """Whether a file or folder is as it was sealed, without `unsealed_names`. Each version is read once per process."""
    try:
        if not path.is_dir():
            sealed = _read_seal(path)
            return sealed is not None and _known_digest(path, _identity(path), sealed[0]) == sealed[1]
        listed = read_json(path / SEAL) if (path / SEAL).is_file() else {}
        unlisted = {*_names_in(path)} - listed.keys() - {*unsealed_names}
        is_same = all([*_size_and_digest(path / name)] == sealed for name, sealed in listed.items())
        return bool(listed) and not unlisted and is_same
    except (OSError, ValueError):
        return False


def is_sealed(path: Path) -> bool:
    """Whether a file ends in a seal, valid or not. Files of earlier versions have none."""
    return _read_seal(path) is not None


def _names_in(folder: Path) -> list[str]:
    """The relative paths of a folder's files without its seal and hidden files, which the system may add."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return [path.relative_to(folder).as_posix() for path in paths if path != folder / SEAL]


def _size_and_digest(path: Path) -> tuple[int, str]:
    size = path.stat().st_size
    return size, _known_digest(path, _identity(path), size).hex()


@contextmanager
def _open_regular_file(path: Path) -> Iterator[FileIO]:
    """Open a file without blocking. Raises `OSError` if it is not a regular file, such as a pipe or a device."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no regular file")
        yield file


def _read_seal(path: Path) -> tuple[int, bytes] | None:
    """The size and the digest in the seal at the end of a file; None if there is no seal for this size."""
    with _open_regular_file(path) as file:
        size = file.seek(0, os.SEEK_END) - _SEAL_FORMAT.size
        if size < 0:
            return None
        file.seek(size)
        mark, sealed_size, digest = _SEAL_FORMAT.unpack(file.read())
    return (size, digest) if (mark, sealed_size) == (_SEAL_SIGNATURE, size) else None


def _identity(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=1 << 14)
def _known_digest(path: Path, identity: tuple[int, ...], size: int) -> bytes:
    del identity  # only a part of the cache key
    return _digest(path, size)


def _digest(path: Path, size: int) -> bytes:
    digest = xxhash.xxh3_128()
    block = memoryview(bytearray(min(_BLOCK, max(1, size))))
    with _open_regular_file(path) as file:
        while size and (read := file.readinto(block[:size])):
            digest.update(block[:read])
            size -= read
    return digest.digest()


def key_of(*parts: object) -> str:
    """sha256 (hexadecimal) of JSON-able parts."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True, sort_keys=True).encode()).hexdigest()


@contextmanager
def without_caching() -> Iterator[None]:
    """Neither read nor write the cache in this thread: the queries of a server would fill the disk."""
    token = _caching_enabled.set(False)
    try:
        yield
    finally:
        _caching_enabled.reset(token)


def is_caching() -> bool:
    """Whether this thread reads and writes the cache."""
    return _caching_enabled.get()


def cached_arrays(
    kind: str, key: str, compute: Callable[[], Arrays], *, store: bool = True, exclusive: bool = False
) -> Arrays:
    """Return the arrays of `workspace/cache/<kind>/<key>.npz`, computed and stored if missing or damaged.

    `store=False` only computes, as for a single query of a user. With `exclusive`, a second process waits and reads the
    arrays that the first one stored. If the disk is not writable, the arrays are returned and not stored.
    """
    if not store or not is_caching():
        return compute()
    arrays = read_arrays(kind, key)
    if arrays is None and exclusive:
        path = _path(kind, key)
        with ExitStack() as lock:
            with suppress(OSError):  # no lock on a read-only disk
                path.parent.mkdir(parents=True, exist_ok=True)
                lock.enter_context(FileLock(path.with_suffix(".lock")))
            return cached_arrays(kind, key, compute)
    if arrays is None:
        arrays = compute()
        write_arrays(kind, key, arrays)
    return arrays


def read_arrays(kind: str, key: str) -> Arrays | None:
    """Return the stored arrays, or those shipped with the sample; None if both are missing or damaged."""
    arrays = load_arrays(_path(kind, key))
    return load_arrays(sample_path(kind, key)) if arrays is None else arrays


def write_arrays(kind: str, key: str, arrays: Arrays) -> None:
    """Store the arrays; logs each folder of the cache that is not writable once."""
    path = _path(kind, key)
    try:
        save_arrays(path, arrays)
    except OSError as error:
        if path.parent not in _unwritable:
            _unwritable.add(path.parent)
            logger.warning("results are not cached in %s: %s", path.parent, error_message(error))


def has_intact_arrays(kind: str, key: str) -> bool:
    """Whether there is an undamaged file of these arrays."""
    return is_intact(_path(kind, key)) or is_intact(sample_path(kind, key))


def has_arrays(kind: str, key: str) -> bool:
    """Whether there is a file of these arrays; unlike `has_intact_arrays`, does not read it."""
    return _path(kind, key).is_file() or sample_path(kind, key).is_file()


def sample_path(kind: str, key: str) -> Path:
    """Return the path of arrays shipped with the sample."""
    return _SHIPPED / kind / f"{key}.npz"


def is_from_sample(kind: str, key: str) -> bool:
    """Whether these arrays are read from those shipped with the sample, because the workspace has none."""
    return not is_intact(_path(kind, key)) and is_intact(sample_path(kind, key))


def remove_sample_arrays(kind: str) -> None:
    """Remove the arrays shipped with the sample, before they are computed again."""
    for path in (_SHIPPED / kind).glob("*.npz"):
        path.unlink()


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays as a sealed `.npz`. Raises `OSError`."""
    with sealing(path) as new, new.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_arrays(path: Path) -> Arrays | None:
    """Return the arrays of a sealed `.npz` file; None if it is missing or damaged."""
    if not is_intact(path):
        if path.exists():
            logger.warning("%s is damaged, or was written by an earlier version: its content is computed anew", path)
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        logger.warning("%s cannot be read (%s): its content is computed anew", path, error)
        return None


@contextmanager
def cached_folder(kind: str, key: str, write: Callable[[Path], None], max_folders: int) -> Iterator[Path | None]:
    """Yield the folder `workspace/cache/<kind>/<key>`, which `write` fills if it is missing or damaged.

    A second process waits for the first. Only the `max_folders` folders of a kind that were used last are kept; open
    files of removed ones stay readable. Yields None if the disk is not writable.
    """
    folder = workspace() / "cache" / kind / key
    with ExitStack() as lock:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock.enter_context(FileLock(folder.with_suffix(".lock")))
            if not is_intact(folder):
                _fill_folder(folder, write, max_folders)
            os.utime(folder)
        except OSError as error:
            logger.warning("%s cannot be stored: %s", folder, error)
            lock.close()
            yield None
            return
        yield folder


def _fill_folder(folder: Path, write: Callable[[Path], None], max_folders: int) -> None:
    if folder.exists():
        logger.warning("%s is damaged: its content is computed anew", folder)
    for leftover in folder.parent.glob(f".{folder.name}.*"):  # its process no longer holds the lock
        shutil.rmtree(leftover, ignore_errors=True)
    with sealing(folder) as new:
        new.mkdir()
        write(new)
    folders = [path for path in folder.parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for other in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[max_folders:]:
        if other != folder:
            remove_folder(other)
            other.with_suffix(".lock").unlink(missing_ok=True)


def _path(kind: str, key: str) -> Path:
    return workspace() / "cache" / kind / f"{key}.npz"


@dataclass(frozen=True)
class Artifact(Generic[T]):
    """How results of a kind are stored: `scores.json` with the content, and a file of arrays."""

    label: str  # in error messages
    content: TypeAdapter[T]
    arrays: str = "arrays.npz"
    allows_unsealed: bool = False  # whether earlier versions wrote the arrays without a seal

    def write(
        self, folder: Path, content: T, arrays: Arrays | None = None, extra_files: Mapping[str, object] | None = None
    ) -> None:
        """Write the arrays (default: those of the content), `extra_files` as JSON by name, and last the content."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES).unlink(missing_ok=True)  # the folder is incomplete until the end
        fields: Arrays = {}
        scores = self.content.dump_python(content, mode="json", context=fields)
        if arrays is not None or fields:
            save_arrays(folder / self.arrays, fields if arrays is None else arrays)
        for name, more in (extra_files or {}).items():
            write_json(folder / name, more)
        write_json(folder / SCORES, scores)

    def load(self, folder: Path) -> T:
        return self.read(folder, lambda content, _: content)

    def read(self, folder: Path, build: Callable[[T, Arrays], R]) -> R:
        """Return what `build` returns for the content and the arrays. Raises `ValueError` if either is damaged."""
        scores = read_json(folder / SCORES)
        path = folder / self.arrays
        arrays: Arrays | None = {}
        try:
            if self.allows_unsealed and not is_sealed(path):
                with np.load(path, allow_pickle=False) as archive:
                    arrays = dict(archive)
            elif path.exists():
                arrays = load_arrays(path)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        if not scores or arrays is None:
            raise ValueError(f"{folder} holds no finished {self.label}")
        try:
            return build(self.content.validate_python(scores, context=arrays), arrays)
        except (AttributeError, KeyError, TypeError, ValidationError) as error:  # JSON with other content
            raise ValueError(f"{folder} holds no {self.label} of this version: {error!r}") from error
