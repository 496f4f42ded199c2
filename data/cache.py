"""What is computed once and kept by content, the seals that tell whether it is still what was written, and results as
folders: arrays and, written last, what is told of them as JSON of a type; with that a folder is whole."""

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
_unwritable = set[Path]()  # folders that were told of

SCORES = "scores.json"
SEAL = "sealed.json"  # of a folder: sizes and digests by name
_SEAL_FORMAT = struct.Struct("<8sQ16s")
_SEAL_SIGNATURE = b"mrc-seal"
_BLOCK = 1 << 20  # bytes read at a time
_SHIPPED = Path(__file__).parent / "sample"  # what comes with the sample, see `retrieval.comparison.compare.ship`
_caching_enabled: ContextVar[bool] = ContextVar("_keeping", default=True)

Arrays = dict[str, np.ndarray]
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def sealing(path: Path) -> Iterator[Path]:
    """As `replacing`, and what was written is sealed and on the disk before it has its name."""
    with replacing(path) as new:
        yield new
        seal(new)
    to_disk(path.parent)


def seal(path: Path) -> None:
    """Seal a file or a folder, and force it to the disk."""
    if path.is_dir():
        listed = {name: _size_and_digest(path / name) for name in _names_in(path)}
        folder_to_disk(path)  # before the seal is: no cut of the power leaves the seal alone
        write_text(path / SEAL, json.dumps(listed, ensure_ascii=False, indent=1))
        to_disk(path / SEAL)
        to_disk(path)
        return
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(_SEAL_FORMAT.pack(_SEAL_SIGNATURE, size, _digest(path, size)))
    to_disk(path)


def is_intact(path: Path, unsealed_names: Collection[str] = ()) -> bool:
    """Whether a file or folder is as it was sealed; `beside` names files of a folder that need not be in its seal.

    It is read once per process, and again if its inode, size or times change.
    """
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
    """Whether a file ends in a seal, broken or not: those of earlier versions have none."""
    return _read_seal(path) is not None


def _names_in(folder: Path) -> list[str]:
    """Names of a folder's files, its seal and hidden ones aside: a system may leave some of those."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return [path.relative_to(folder).as_posix() for path in paths if path != folder / SEAL]


def _size_and_digest(path: Path) -> tuple[int, str]:
    size = path.stat().st_size
    return size, _known_digest(path, _identity(path), size).hex()


@contextmanager
def _open_regular_file(path: Path) -> Iterator[FileIO]:
    """Open a file to be read, without waiting. Raises `OSError` where it is a pipe, a device or whatever else."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:  # noqa: PTH123 - of a number
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no regular file")
        yield file


def _read_seal(path: Path) -> tuple[int, bytes] | None:
    """Size and digest that a file's last bytes tell; None where they are no seal of a file of its size."""
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
    del identity  # the same path of another identity is another file
    return _digest(path, size)


def _digest(path: Path, size: int) -> bytes:
    """Digest of the first `size` bytes."""
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
    """Have this thread compute all that it asks for meanwhile: what a server is asked would fill the disk."""
    token = _caching_enabled.set(False)
    try:
        yield
    finally:
        _caching_enabled.reset(token)


def is_caching() -> bool:
    """Whether what is computed now is looked for on disk, and kept there."""
    return _caching_enabled.get()


def cached_arrays(
    kind: str, key: str, compute: Callable[[], Arrays], *, store: bool = True, exclusive: bool = False
) -> Arrays:
    """Return the arrays of `workspace/cache/<kind>/<key>.npz`, computed and stored if missing or damaged.

    `keep=False` only computes: one question typed by a user is not worth a file. With `alone` a second process waits
    and reads what the first one stored. If the disk cannot be written, the arrays are returned and not stored.
    """
    if not store or not is_caching():
        return compute()
    arrays = read_arrays(kind, key)
    if arrays is None and exclusive:
        path = _path(kind, key)
        with ExitStack() as lock:
            with suppress(OSError):  # on a disk that cannot be written no process waits
                path.parent.mkdir(parents=True, exist_ok=True)
                lock.enter_context(FileLock(path.with_suffix(".lock")))
            return cached_arrays(kind, key, compute)
    if arrays is None:
        arrays = compute()
        write_arrays(kind, key, arrays)
    return arrays


def read_arrays(kind: str, key: str) -> Arrays | None:
    """Return the stored arrays, or those that come with the sample; None if there are none that can be read."""
    arrays = load_arrays(_path(kind, key))
    return load_arrays(sample_path(kind, key)) if arrays is None else arrays


def write_arrays(kind: str, key: str, arrays: Arrays) -> None:
    """Keep the arrays; a folder of the cache that cannot be written is told in the log, once."""
    path = _path(kind, key)
    try:
        save_arrays(path, arrays)
    except OSError as error:
        if path.parent not in _unwritable:
            _unwritable.add(path.parent)
            logger.warning("results are not cached in %s: %s", path.parent, error_message(error))


def has_intact_arrays(kind: str, key: str) -> bool:
    """Whether there is a sound file of these arrays, so that they need not be computed."""
    return is_intact(_path(kind, key)) or is_intact(sample_path(kind, key))


def has_arrays(kind: str, key: str) -> bool:
    """Whether there is a file of these arrays; unlike `are_kept` it reads nothing of it."""
    return _path(kind, key).is_file() or sample_path(kind, key).is_file()


def sample_path(kind: str, key: str) -> Path:
    """Return the place of arrays that come with the sample."""
    return _SHIPPED / kind / f"{key}.npz"


def is_from_sample(kind: str, key: str) -> bool:
    """Whether these arrays are read from what ships with the sample, because this workspace has none of its own."""
    return not is_intact(_path(kind, key)) and is_intact(sample_path(kind, key))


def remove_sample_arrays(kind: str) -> None:
    """Remove what came with the sample, before it is made again."""
    for path in (_SHIPPED / kind).glob("*.npz"):
        path.unlink()


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays as a sealed `.npz`. Raises `OSError`."""
    with sealing(path) as new, new.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_arrays(path: Path) -> Arrays | None:
    """Return the arrays of a sealed `.npz`; None where there is none, or none that is sound."""
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

    A second process waits for the first. Only the `most` folders of a kind that were used last stay; a process that
    has files of a removed one open keeps them. Yields None if the disk cannot be written.
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
            logger.warning("%s cannot be kept: %s", folder, error)
            lock.close()
            yield None
            return
        yield folder


def _fill_folder(folder: Path, write: Callable[[Path], None], max_folders: int) -> None:
    if folder.exists():
        logger.warning("%s is damaged: it is made anew", folder)
    for leftover in folder.parent.glob(f".{folder.name}.*"):  # whoever was at work there has let go of the lock
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
    """How results of a kind (`what`) are stored: `scores.json`, of the type of `content`, and a file of arrays."""

    label: str  # in error messages
    content: TypeAdapter[T]
    arrays: str = "arrays.npz"
    allows_unsealed: bool = False  # whether earlier versions wrote such arrays without a seal

    def write(
        self, folder: Path, content: T, arrays: Arrays | None = None, extra_files: Mapping[str, object] | None = None
    ) -> None:
        """Write arrays (default: those of the content), JSON `beside` them by file name, and last the content."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES).unlink(missing_ok=True)  # an earlier result does not belong to the arrays that follow
        fields: Arrays = {}
        scores = self.content.dump_python(content, mode="json", context=fields)
        if arrays is not None or fields:
            save_arrays(folder / self.arrays, fields if arrays is None else arrays)
        for name, more in (extra_files or {}).items():
            write_json(folder / name, more)
        write_json(folder / SCORES, scores)

    def load(self, folder: Path) -> T:
        """Return the content. Raises `ValueError` as `read`."""
        return self.read(folder, lambda content, _: content)

    def read(self, folder: Path, build: Callable[[T, Arrays], R]) -> R:
        """Return what is `made` of the content and the arrays. Raises `ValueError` if either is not whole."""
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
        except (AttributeError, KeyError, TypeError, ValidationError) as error:  # JSON, but not what `write` writes
            raise ValueError(f"{folder} holds no {self.label} of this version: {error!r}") from error
