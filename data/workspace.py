"""The workspace folder of a user, atomic replacement of files and folders, and the limits of a user.

If users sign in, each has a workspace in `users/` of the shared workspace. All users can read the shared workspace, and
only the operator changes it.
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

from mrc_workbench.data.files import read_user_file, remove_leftovers_of, temporary_folder
from mrc_workbench.data.problems import Failure

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)  # `OSError` is raised for much else
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)
PROJECT = Path(__file__).parent.parent  # the folder of `app.py`
IMPORT_ROOT = PROJECT if (PROJECT / "mrc_workbench").is_dir() else PROJECT.parent  # the folder to import from
USER = "MRC_USER"  # the environment variable that names the user of a subprocess
_USER = re.compile("[0-9a-f]{32}")
_acting_user: ContextVar[str | None] = ContextVar("_acting", default=None)
_user_providers: list[Callable[[], str | None]] = []
P = ParamSpec("P")
R = TypeVar("R")


class NotSignedInError(Exception):
    """Users sign in, but this code runs for no user: it must not use any workspace."""


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
    """Return the user's workspace folder, or the shared one if users do not sign in. Raises `NotSignedInError`."""
    name = user()
    return shared_workspace() / "users" / name if name else shared_workspace()


def shared_workspace() -> Path:
    """Return the folder that holds all workspaces: `MRC_WORKSPACE`, or one beside `app.py` or in the current folder."""
    base = PROJECT if IMPORT_ROOT == PROJECT else Path.cwd()
    return Path(os.environ.get("MRC_WORKSPACE") or base / "workspace").resolve()


def read_only_workspace() -> Path | None:
    """Return the shared workspace, which a signed-in user can only read; None if users do not sign in."""
    return shared_workspace() if user() else None


def user() -> str:
    """Return the folder name of the user, empty if users do not sign in. Raises `NotSignedInError`, `ValueError`."""
    name = _acting_user.get()
    for provider in _user_providers:
        name = provider() if name is None else name
    name = os.environ.get(USER, "") if name is None else name
    if name and not _USER.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no user: 32 hexadecimal digits are")
    return name


def user_of(issuer: str, subject: str) -> str:
    """Return the folder name for an issuer and a subject, which identify a user of an OpenID provider."""
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()[:32]


def set_user_provider(provider: Callable[[], str | None]) -> None:
    """Set the function that returns the user of the current thread: a name, or None if users do not sign in."""
    _user_providers[:] = [provider]


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Run the block, in this thread, as the user of this name; with an empty name as if users do not sign in."""
    token = _acting_user.set(name)
    try:
        yield
    finally:
        _acting_user.reset(token)


def run_as_current_user(work: Callable[P, R]) -> Callable[P, R]:
    """Return `work` for another thread: it runs as the user of the current thread."""
    name = user()

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with acting_as(name):
            return work(*args, **kwargs)

    return run


def is_disk_error(error: BaseException) -> bool:
    """Whether the disk is full or not writable."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


@contextmanager
def name_path_in_disk_errors(path: Path) -> Iterator[None]:
    """Name `path` in disk errors: a failed write names a temporary file or no file."""
    try:
        yield
    except OSError as error:
        if not is_disk_error(error):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def error_message(error: BaseException) -> str:
    """Return the message of an error for users; full disks and missing memory are described in words."""
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
    """Yield a temporary path that replaces `path` (a file or a synced folder) if the block succeeds."""
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
    """Sync the content of a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def folder_to_disk(folder: Path) -> None:
    """Sync a folder and everything in it to the disk."""
    for path in (*folder.rglob("*"), folder):
        to_disk(path)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically: a reader sees the old content or the new."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def write_json(path: Path, content: object) -> None:
    """Write indented JSON atomically."""
    write_text(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def remove_folder(folder: Path) -> None:
    """Remove a folder atomically: it is renamed before its content is deleted."""
    with temporary_folder(".removed.", folder.parent) as holder:
        folder.rename(holder / folder.name)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing, unreadable or damaged."""
    try:
        return read_user_file(path)[0]
    except OSError:
        return {}


def read_number(content: dict[str, Any], name: str) -> float:
    """Return a finite number of a JSON object; 0 if it is missing or of another type."""
    value = content.get(name, 0.0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    return float(value) if is_number else 0.0


MEGABYTE = 10**6
_PREFIX = "MRC_USER_"


class LimitError(Failure):
    """A limit would be exceeded, so nothing changed: `megabytes`, `jobs`, `passages`, `pairs` or `uploads`."""


class UserLimits(BaseModel):
    """The limits of every user; `MRC_USER_MEGABYTES` sets `megabytes`, and so on."""

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
        allowed = [entry.strip().casefold() for entry in self.emails.split(",") if entry.strip()]
        address = email.casefold()
        domain = "".join(email.casefold().rpartition("@")[1:])
        return not allowed or address in allowed or ("@" in domain and domain in allowed)


def limits() -> UserLimits:
    """Return the limits that the environment sets. Raises `ValidationError`, a `ValueError`, for invalid values."""
    names = {name: os.environ.get(_PREFIX + name.upper(), "").strip() for name in UserLimits.model_fields}
    return UserLimits.model_validate({name: text for name, text in names.items() if text})


def are_limited() -> bool:
    """Whether limits apply: to signed-in users, not to their jobs."""
    return bool(user()) and not os.environ.get(USER)


def used_bytes() -> int:
    """Return the size in bytes of all files in the user's workspace."""
    used = 0
    for folder, _, names in os.walk(workspace()):
        for name in names:
            with suppress(OSError):  # the file was removed meanwhile
                used += Path(folder, name).lstat().st_size
    return used


def require_storage() -> None:
    """Raise `LimitError` (`megabytes`) if the workspace, with temporary files, is larger than allowed."""
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
    """Raise `LimitError` (`jobs`) if a user with `others` jobs may not start `more` jobs."""
    if are_limited() and others + more > (limit := limits().jobs):
        message = f"you have {others} jobs and may have {limit}: wait for one to end, or stop one"
        raise LimitError("jobs", message, jobs=others, limit=limit)


def require_set_size(kind: Literal["passages", "pairs"], count: int) -> None:
    """Raise `LimitError` (`kind`) if a set of this size is too large."""
    if are_limited() and count > (limit := getattr(limits(), kind)):
        details = {kind: f"{count:,}", "limit": f"{limit:,}"}
        raise LimitError(kind, f"the set has {count:,} {kind}, and may have {limit:,}", **details)


MANIFEST = "manifest.json"
_NEW = ".new."


@contextmanager
def replacing_folder(folder: Path, *, last: str) -> Iterator[Path]:
    """Yield a new, empty folder that replaces `folder` if the block succeeds; else nothing changes.

    Only files listed in the manifest of `folder` are replaced. If it holds other files, these stay, and the new files
    are moved in one by one: the file `last` is removed first and moved last, so a folder with this file is complete.
    """
    folder = folder.resolve()
    remove_leftovers_of(_NEW, folder)
    is_in_use = folder == Path.cwd() or folder in Path.cwd().parents  # a shell may have it as current folder
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
            _remove_with_empty_parents(folder, name)
        for name in sorted(names, key=lambda name: name == last):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).replace(folder / name)


def _write_manifest(folder: Path) -> None:
    write_json(folder / MANIFEST, {"files": sorted([*_files(folder), MANIFEST])})


def _manifest_files(folder: Path) -> set[str]:
    """Return the relative paths listed in the manifest, without paths that lead out of the folder."""
    names = read_json(folder / MANIFEST).get("files", [])
    paths = [PurePosixPath(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return {str(path) for path in paths if not path.is_absolute() and ".." not in path.parts}


def _files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]


def _remove_with_empty_parents(folder: Path, name: str) -> None:
    path = folder / name
    parents = [parent for parent in path.parents if parent.is_relative_to(folder) and parent != folder]
    if any(parent.is_symlink() for parent in parents):
        return
    path.unlink(missing_ok=True)
    with suppress(OSError):
        for parent in parents:
            parent.rmdir()
