"""Where everything a user makes lives, and how a file is written so that no kill can tear it."""

import errno
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # `OSError` is raised for much else
PROJECT = Path(__file__).parent.parent  # the folder of `app.py`


def workspace() -> Path:
    """Return the workspace folder: `MRC_WORKSPACE` where set, else `workspace/` beside `app.py`."""
    return Path(os.environ.get("MRC_WORKSPACE") or PROJECT / "workspace").resolve()


def is_of_the_disk(error: BaseException) -> bool:
    """Whether something failed because the disk is full, or cannot be written to."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; when the block ends well it becomes `path`, else it is removed.

    Works for files, and for folders whose destination does not exist yet or may be replaced. What a folder holds is on
    the disk before the folder has its name: a power cut leaves all of it, or what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new = holder / path.name
        yield new
        if new.is_dir():
            folder_to_disk(new)
            if path.exists():
                path.rename(holder / "old")
        new.replace(path)
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def to_disk(path: Path) -> None:
    """Force a file's content, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def folder_to_disk(folder: Path) -> None:
    """Force all that a folder holds to the disk."""
    for path in (*folder.rglob("*"), folder):
        to_disk(path)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to `path` in one step: a reader sees the old content or the new, never half."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def write_json(path: Path, content: object) -> None:
    """Write indented JSON in one step."""
    write_text(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def remove_folder(folder: Path) -> None:
    """Remove a folder: it is gone in one step, however long deleting takes."""
    holder = Path(tempfile.mkdtemp(prefix=".removed.", dir=folder.parent))
    folder.rename(holder / folder.name)
    shutil.rmtree(holder, ignore_errors=True)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty where there is none to be read, as in a file that somebody damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the last where it is nested thousands deep
        return {}
    return content if isinstance(content, dict) else {}


def number_in(content: dict[str, Any], name: str) -> float:
    """Return a number of a JSON object; 0 where it has none of this name that is finite."""
    value = content.get(name, 0.0)
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    return float(value) if known else 0.0
