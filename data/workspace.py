"""The folder of everything a user makes, replacing files and folders in one step, and the limits of a user.

Where users sign in, each has a workspace in `users/` of the shared one; the content of the shared one itself is the
operator's, and everybody reads it.
"""

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import Any, Literal, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from mrc_workbench.data.files import remove_leftovers_of, temporary_folder
from mrc_workbench.data.problems import Failure

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)  # `OSError` is raised for much else
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)
PROJECT = Path(__file__).parent.parent  # the folder of `app.py`
IMPORT_ROOT = PROJECT if (PROJECT / "mrc_workbench").is_dir() else PROJECT.parent  # the folder to import from
USER = "MRC_USER"  # the variable by which a process of a user's knows whose it is
_USER = re.compile("[0-9a-f]{32}")
_acting_user: ContextVar[str | None] = ContextVar("_acting", default=None)
_user_providers: list[Callable[[], str | None]] = []
P = ParamSpec("P")
R = TypeVar("R")


class NotSignedInError(Exception):
    """People sign in here, and this is done for none of them: it must touch no workspace at all."""


def project_version() -> str:
    """Return the version of the project: that of `pyproject.toml` in a checkout, else of the installed package."""
    import tomllib
    from importlib.metadata import version

    try:
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except FileNotFoundError:  # no checkout
        return version("mrc-workbench")
    return str(project["version"])


def workspace() -> Path:
    """Return the user's workspace folder, or the shared one where nobody signs in. Raises `NobodySignedInError`."""
    name = user()
    return shared_workspace() / "users" / name if name else shared_workspace()


def shared_workspace() -> Path:
    """Return the folder that holds all workspaces: `MRC_WORKSPACE`, or one beside `app.py` or in the current folder."""
    base = PROJECT if IMPORT_ROOT == PROJECT else Path.cwd()
    return Path(os.environ.get("MRC_WORKSPACE") or base / "workspace").resolve()


def read_only_workspace() -> Path | None:
    """Return the folder whose sets a user reads beside their own and cannot change; None where nobody signs in."""
    return shared_workspace() if user() else None


def user() -> str:
    """Return the folder name of the current user; empty if nobody signs in.

    Raises `NobodySignedInError`, and `ValueError` if `MRC_USER` is no such name: a path never is one.
    """
    name = _acting_user.get()
    for provider in _user_providers:
        name = provider() if name is None else name
    name = os.environ.get(USER, "") if name is None else name
    if name and not _USER.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no user: 32 hexadecimal digits are")
    return name


def user_of(issuer: str, subject: str) -> str:
    """Return the folder's name of whom an OpenID provider knows by these two: together they are never given twice."""
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()[:32]


def set_user_provider(provider: Callable[[], str | None]) -> None:
    """Have `user` ask who is at work in this thread: a name, or None where nobody signs in."""
    _user_providers[:] = [provider]


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Do what follows, in this thread, for the user of this name; for an empty one as where nobody signs in."""
    token = _acting_user.set(name)
    try:
        yield
    finally:
        _acting_user.reset(token)


def run_as_current_user(work: Callable[P, R]) -> Callable[P, R]:
    """Return `work` for another thread, which knows no user: it is done for the one at work now."""
    name = user()

    @wraps(work)
    def done(*args: P.args, **kwargs: P.kwargs) -> R:
        with acting_as(name):
            return work(*args, **kwargs)

    return done


def is_disk_error(error: BaseException) -> bool:
    """Whether something failed because the disk is full, or cannot be written to."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


@contextmanager
def name_path_in_disk_errors(path: Path) -> Iterator[None]:
    """Name `path` in errors of the disk: a failed write names no file, or a temporary one."""
    try:
        yield
    except OSError as error:
        if not is_disk_error(error):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def error_message(error: BaseException) -> str:
    """Return what went wrong as a user reads it: a full disk and too little memory in words, all else as it is."""
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    if error.errno in _DISK_FULL:
        return f"the disk is full: cannot write {error.filename}" if error.filename else "the disk is full"
    if error.errno in _DENIED and error.filename:
        return f"no permission to use {error.filename} ({error.strerror})"
    return str(error)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; when the block ends well it becomes `path`, else it is removed.

    Works for files, and for folders, whose destination may exist. The content of a folder is on the disk before the
    folder has its name: a power cut leaves all of it, or what was there.
    """
    with name_path_in_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(f".{path.name}.", path.parent) as holder:
            new = holder / path.name
            yield new
            if new.is_dir():
                folder_to_disk(new)
                if path.exists():
                    path.rename(holder / "old")
            new.replace(path)


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
    with temporary_folder(".removed.", folder.parent) as holder:
        folder.rename(holder / folder.name)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty where there is none to be read, as in a file that somebody damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the last where it is nested thousands deep
        return {}
    return content if isinstance(content, dict) else {}


def read_number(content: dict[str, Any], name: str) -> float:
    """Return a number of a JSON object; 0 where it has none of this name that is finite."""
    value = content.get(name, 0.0)
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    return float(value) if known else 0.0


MEGABYTE = 10**6
_PREFIX = "MRC_USER_"


class LimitError(Failure):
    """A limit that would be passed, so that nothing was done: `megabytes`, `jobs`, `passages`, `pairs`, `uploads`."""


class UserLimits(BaseModel):
    """What every user may do; `MRC_USER_MEGABYTES` sets `megabytes`, and so on."""

    model_config = ConfigDict(frozen=True)

    megabytes: PositiveInt = Field(2000, description="that a user's workspace may hold")
    jobs: PositiveInt = Field(3, description="that a user may have in line and at work: of trainings, and of others")
    passages: PositiveInt = Field(200_000, description="of a question set that a user keeps")
    pairs: PositiveInt = Field(1_000_000, description="of a set of sentence pairs that a user keeps")
    uploads: PositiveInt = Field(1000, description="megabytes of files that a user's open pages may hold in memory")
    all_uploads: PositiveInt = Field(3000, description="megabytes of files that all open pages may hold in memory")
    paths: bool = Field(False, description="whether users may name folders of the server as models")
    addresses: bool = Field(False, description="whether users may have the server call a language model's address")
    emails: str = Field("", description="who may sign in: addresses and @domains between commas; empty: everybody")

    def allows_email(self, email: str) -> bool:
        """Whether somebody with this address, which the provider has verified, may sign in."""
        allowed = [entry.strip().casefold() for entry in self.emails.split(",") if entry.strip()]
        address = email.casefold()
        domain = "".join(email.casefold().rpartition("@")[1:])
        return not allowed or address in allowed or ("@" in domain and domain in allowed)


def limits() -> UserLimits:
    """Return what the environment sets. Raises pydantic's `ValidationError`, a `ValueError`, where it sets nonsense."""
    names = {name: os.environ.get(_PREFIX + name.upper(), "").strip() for name in UserLimits.model_fields}
    return UserLimits.model_validate({name: text for name, text in names.items() if text})


def are_limited() -> bool:
    """Whether limits hold here: for whoever is signed in, and not for a job of theirs."""
    return bool(user()) and not os.environ.get(USER)


def used_bytes() -> int:
    """Return what the files of the user's workspace hold, in bytes; one that goes away meanwhile counts no more."""
    used = 0
    for folder, _, names in os.walk(workspace()):
        for name in names:
            with suppress(OSError):
                used += Path(folder, name).lstat().st_size
    return used


def require_storage() -> None:
    """Raise `LimitError` (`megabytes`) where the workspace holds more than it may, what is being written included."""
    if not are_limited():
        return
    bytes_used = used_bytes()
    megabytes = limits().megabytes
    if bytes_used > megabytes * MEGABYTE:
        used = f"{bytes_used / MEGABYTE:,.0f}"
        limit = f"{megabytes:,}"
        message = f"your workspace would hold {used} MB, and may hold {limit}: remove something first"
        raise LimitError("megabytes", message, used=used, limit=limit)


def require_job_slot(others: int, more: int = 1) -> None:
    """Raise `LimitError` (`jobs`) where a user with `others` jobs may not have so many `more`."""
    if are_limited() and others + more > (limit := limits().jobs):
        message = f"you have {others} jobs and may have {limit}: wait for one to end, or stop one"
        raise LimitError("jobs", message, jobs=others, limit=limit)


def require_set_size(kind: Literal["passages", "pairs"], count: int) -> None:
    """Raise `LimitError` (`what`) where a set of so many is larger than a user may keep."""
    if are_limited() and count > (limit := getattr(limits(), kind)):
        details = {kind: f"{count:,}", "limit": f"{limit:,}"}
        raise LimitError(kind, f"the set has {count:,} {kind}, and may have {limit:,}", **details)


MANIFEST = "manifest.json"
_NEW = ".new."


@contextmanager
def replacing_folder(folder: Path, *, last: str) -> Iterator[Path]:
    """Yield a new, empty folder that takes the place of `folder` when the block ends well; else nothing changes.

    Only files listed in the manifest of `folder` are replaced. If it holds other files, these stay, and the new files
    are moved in one by one; the file `last` is removed first and moved last, so a folder that has it is complete.
    """
    folder = folder.resolve()
    remove_leftovers_of(_NEW, folder)
    is_in_use = folder == Path.cwd() or folder in Path.cwd().parents  # a shell may stand in it
    is_fixed = is_in_use or folder.is_mount() or not os.access(folder.parent, os.W_OK)
    others = {name for name in _files(folder) if not name.startswith(_NEW)} - _manifest_files(folder)
    if folder.is_dir() and (is_fixed or others):
        yield from _merged(folder, last)
        return
    with replacing(folder) as new:
        new.mkdir()
        yield new
        _write_manifest(new)


def _merged(folder: Path, last: str) -> Iterator[Path]:
    with name_path_in_disk_errors(folder), temporary_folder(_NEW, folder) as holder:
        new = holder / "new"
        new.mkdir()
        yield new
        _write_manifest(new)
        folder_to_disk(new)
        names = _files(new)
        (folder / last).unlink(missing_ok=True)
        for name in sorted(_manifest_files(folder) - set(names)):
            _remove(folder, name)
        for name in sorted(names, key=lambda name: name == last):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).replace(folder / name)


def _write_manifest(folder: Path) -> None:
    write_json(folder / MANIFEST, {"files": sorted([*_files(folder), MANIFEST])})


def _manifest_files(folder: Path) -> set[str]:
    """Return the files that the manifest lists, by paths relative to the folder; none of them leaves it."""
    names = read_json(folder / MANIFEST).get("files", [])
    paths = [PurePosixPath(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return {str(path) for path in paths if not path.is_absolute() and ".." not in path.parts}


def _files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folders that are empty without it."""
    path = folder / name
    parents = [parent for parent in path.parents if parent.is_relative_to(folder) and parent != folder]
    if any(parent.is_symlink() for parent in parents):
        return
    path.unlink(missing_ok=True)
    with suppress(OSError):
        for parent in parents:
            parent.rmdir()
