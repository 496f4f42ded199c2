"""What signed-in users may take of a server that others use as well, as its operator has set it in the environment.

Who works alone has no limits but those of uploads, by which whoever reaches a server could fill its memory; nor has a
job: it was let in when somebody asked for it.
"""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from data.problems import Failure
from data.workspace import USER, user, workspace

MEGABYTE = 10**6
_PREFIX = "MRC_USER_"


class LimitError(Failure):
    """A limit that would be passed, so that nothing was done: `megabytes`, `jobs`, `passages`, `pairs`, `uploads`."""


class Limits(BaseModel):
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

    def lets_in(self, email: str) -> bool:
        """Whether somebody with this address, which the provider has verified, may sign in."""
        allowed = [one.strip().casefold() for one in self.emails.split(",") if one.strip()]
        address, domain = email.casefold(), "".join(email.casefold().rpartition("@")[1:])
        return not allowed or address in allowed or ("@" in domain and domain in allowed)


def limits() -> Limits:
    """Return what the environment sets. Raises pydantic's `ValidationError`, a `ValueError`, where it sets nonsense."""
    names = {name: os.environ.get(_PREFIX + name.upper(), "").strip() for name in Limits.model_fields}
    return Limits.model_validate({name: text for name, text in names.items() if text})


def are_limited() -> bool:
    """Whether limits hold here: for whoever is signed in, and not for a job of theirs."""
    return bool(user()) and not os.environ.get(USER)


def used_bytes() -> int:
    """Return what the files of the user's workspace hold, in bytes."""
    return _bytes_in(workspace())


def require_room() -> None:
    """Raise `LimitError` (`megabytes`) where the workspace holds more than it may, what is being written included."""
    if not are_limited():
        return
    used, limit = used_bytes(), limits().megabytes
    if used > limit * MEGABYTE:
        told = {"used": f"{used / MEGABYTE:,.0f}", "limit": f"{limit:,}"}
        message = f"your workspace would hold {told['used']} MB, and may hold {told['limit']}: remove something first"
        raise LimitError("megabytes", message, **told)


def require_place(others: int, more: int = 1) -> None:
    """Raise `LimitError` (`jobs`) where a user with `others` jobs may not have so many `more`."""
    if are_limited() and others + more > (limit := limits().jobs):
        message = f"you have {others} jobs and may have {limit}: wait for one to end, or stop one"
        raise LimitError("jobs", message, jobs=others, limit=limit)


def require_few_passages(count: int) -> None:
    """Raise `LimitError` (`passages`) where a set of so many is larger than a user may keep."""
    _require_few("passages", count)


def require_few_pairs(count: int) -> None:
    """Raise `LimitError` (`pairs`) where a set of so many is larger than a user may keep."""
    _require_few("pairs", count)


def _require_few(what: str, count: int) -> None:
    if are_limited() and count > (limit := getattr(limits(), what)):
        told = {what: f"{count:,}", "limit": f"{limit:,}"}
        raise LimitError(what, f"the set has {told[what]} {what}, and may have {told['limit']}", **told)


def _bytes_in(folder: Path) -> int:
    """What a folder holds; a file that goes away meanwhile counts no more."""
    held, folders = 0, [folder]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                held += _size(entry)
    return held


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
