"""Arrays kept on disk by the content they were computed from, so that work is done once."""

import hashlib
import json
import logging
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from filelock import FileLock

from data.seal import is_sound, sealing
from data.workspace import workspace

logger = logging.getLogger(__name__)

_SHIPPED = Path(__file__).parent / "sample"  # what comes with the sample, see `retrieval.preparation.ship`
Arrays = dict[str, np.ndarray]


def key_of(*parts: object) -> str:
    """sha256 (hexadecimal) of JSON-able parts."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True, sort_keys=True).encode()).hexdigest()


def cached_arrays(
    kind: str, key: str, compute: Callable[[], Arrays], *, keep: bool = True, alone: bool = False
) -> Arrays:
    """Return the arrays kept as `workspace/cache/<kind>/<key>.npz`, computed and kept where there are none.

    `keep=False` only computes: one question typed by a person is not worth a file. With `alone` a second process that
    asks meanwhile waits and reads what the first one made.
    A file that is damaged is computed anew; a disk that cannot be written costs the saving, not the result.
    """
    kept = read_arrays(kind, key) if keep else None
    if kept is None and keep and alone:
        with _made_by_one(_path(kind, key)):
            return cached_arrays(kind, key, compute)
    if kept is None:
        kept = compute()
        if keep:
            write_arrays(kind, key, kept)
    return kept


@contextmanager
def _made_by_one(path: Path) -> Iterator[None]:
    """Hold other processes off; on a disk that cannot be written none is."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.release()


def read_arrays(kind: str, key: str) -> Arrays | None:
    """Return the arrays kept as `workspace/cache/<kind>/<key>.npz`; None where there are none that can be read.

    Those that come with the sample are kept from the beginning.
    """
    kept = load_arrays(_path(kind, key))
    return load_arrays(shipped(kind, key)) if kept is None else kept


def write_arrays(kind: str, key: str, arrays: Arrays) -> None:
    """Keep the arrays; a disk that cannot be written is told in the log."""
    path = _path(kind, key)
    try:
        save_arrays(path, arrays)
    except OSError as error:
        logger.warning("cache file %s cannot be written: %s", path, error)


def are_kept(kind: str, key: str) -> bool:
    """Whether there is a sound file of these arrays, so that they need not be computed."""
    return is_sound(_path(kind, key)) or is_sound(shipped(kind, key))


def shipped(kind: str, key: str) -> Path:
    """Return the place of arrays that come with the sample."""
    return _SHIPPED / kind / f"{key}.npz"


def forget_shipped(kind: str) -> None:
    """Remove what came with the sample, before it is made again."""
    for path in (_SHIPPED / kind).glob("*.npz"):
        path.unlink()


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays as a sealed `.npz`. Raises `OSError`."""
    with sealing(path) as new, new.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_arrays(path: Path) -> Arrays | None:
    """Return the arrays of a sealed `.npz`; None where there is none, or none that is sound."""
    if not is_sound(path):
        if path.exists():
            logger.warning("%s is damaged, or was written by an earlier version: its content is computed anew", path)
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            return dict(kept)
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        logger.warning("%s cannot be read (%s): its content is computed anew", path, error)
        return None


def _path(kind: str, key: str) -> Path:
    return workspace() / "cache" / kind / f"{key}.npz"
