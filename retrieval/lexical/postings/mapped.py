"""Indexes kept in the workspace's cache and mapped into memory: made once, and opened soon after.

What is mapped is read from the file where it is asked for, and belongs to the system's cache of files: an index may be
larger than what is free.

A process that reads a mapped place which its file has lost since is ended by the system; nothing can catch that, and
no look at the file beforehand is in time. So nobody maps the files that are kept: a process that opens an index copies
them into files without a name, which no other can reach, and which are gone with it. That takes the disk's space once
more, and the time to copy, a second or two for the 2 GB of a million passages; a file system that shares what is copied
(Btrfs, XFS) takes neither. Reading into memory instead would take as long and that much memory; a process of its own
for every search would keep the pages shared, and make each question wait for it.
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

import numpy as np
from filelock import FileLock

from data.cache import key_of
from data.seal import is_sound, sealing
from data.workspace import is_of_the_disk, read_json, remove_folder, workspace
from retrieval.lexical.postings.build import put_together
from retrieval.lexical.postings.index import Postings
from retrieval.lexical.postings.lists import DTYPES, SEGMENT, Array, Lists
from retrieval.lexical.postings.segment import Segment

logger = logging.getLogger(__name__)

_VERSION = 1  # raise when the arrays of the same passages would be others
_KEPT = 4  # indexes: those of a million passages take 2 GB each
_ABOUT = "about.json"
_BLOCK = 1 << 24  # bytes copied at a time
_OPENED: WeakValueDictionary[Path, Postings] = WeakValueDictionary()  # in this process, which copies each once


def mapped_postings(
    key: str, n_passages: int, segments: Callable[[], Iterable[Segment]], size: int = SEGMENT
) -> Postings:
    """Return the index kept under a key that tells all it is made from; where there is none that is sound, it is made.

    A second process that asks for it while it is made waits. One that was cut off in making it leaves nothing that
    another takes for an index. Of those that were not used for longest, all but a few are removed. On a disk that
    cannot be written or is full, it is made in memory.
    """
    folder = _place() / key_of(_VERSION, key, n_passages, size)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not is_sound(folder):
                if folder.exists():
                    logger.warning("%s is damaged: its index is made anew", folder)
                _write(folder, n_passages, segments(), size)
            opened = _opened(folder)
        os.utime(folder)
    except OSError as error:
        logger.warning("the index %s cannot be kept: %s", folder, error)
        return Postings.of(segments(), n_passages, size)
    return opened


def _place() -> Path:
    return workspace() / "cache" / "postings"


def _write(folder: Path, n_passages: int, segments: Iterable[Segment], size: int) -> None:
    for cut_off in folder.parent.glob(f".{folder.name}.*"):  # whoever was at work there has let go of the lock
        shutil.rmtree(cut_off, ignore_errors=True)
    with sealing(folder) as new:
        new.mkdir()
        with ExitStack() as stack:
            files = {name: stack.enter_context((new / name).open("wb")) for name in Lists._fields}

            def write(name: str, part: Array) -> None:
                np.ascontiguousarray(part, dtype=DTYPES[name]).tofile(files[name])

            put_together(segments, write, size)
        (new / _ABOUT).write_text(json.dumps({"passages": n_passages, "segment": size}), encoding="utf-8")
    _remove_the_oldest(folder)


def _opened(folder: Path) -> Postings:
    if (known := _OPENED.get(folder)) is not None:
        return known  # its name tells all it is made from
    about = read_json(folder / _ABOUT)
    arrays = {name: _mapped(folder / name, dtype) for name, dtype in DTYPES.items()}
    if not is_sound(folder):
        raise OSError(f"{folder} was changed while it was opened")
    _OPENED[folder] = opened = Postings(Lists(**arrays), about["passages"], about["segment"])
    return opened


def _mapped(path: Path, dtype: np.dtype) -> Array:
    """Map a copy of a file that has no name, and that the mapping alone keeps."""
    with tempfile.TemporaryFile(dir=path.parent.parent) as copy:
        with path.open("rb") as file:
            _copy(file, copy)
        if not (size := copy.seek(0, os.SEEK_END)) or size % dtype.itemsize:
            return np.zeros(0, dtype)  # nothing cannot be mapped
        return np.asarray(np.memmap(copy, dtype, mode="r"))


def _copy(file: IO[bytes], to: IO[bytes]) -> None:
    """Copy a file within the system, which may share its blocks; what no such call can copy is read and written."""
    try:
        while os.copy_file_range(file.fileno(), to.fileno(), _BLOCK):
            continue
    except (AttributeError, OSError) as error:
        if is_of_the_disk(error):
            raise
        file.seek(0)
        to.seek(0)
        shutil.copyfileobj(file, to, _BLOCK)
        to.flush()


def _remove_the_oldest(made: Path) -> None:
    """Remove the indexes not used for longest; a process that has one open keeps it until it ends."""
    folders = [path for path in made.parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
        if folder != made:
            remove_folder(folder)
            folder.with_suffix(".lock").unlink(missing_ok=True)
