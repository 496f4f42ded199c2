"""The public question sets known here, and how their files are got."""

import hashlib
import os
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path

from data.files.cells import shown
from data.problems import DataError, ProblemCode
from data.read import Reading, file_content, read
from data.workspace import replacing, workspace

TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 16

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


@dataclass(frozen=True)
class CatalogEntry:
    """One public set. `address` is its publisher's; a set without one comes with the program, as `path`."""

    id: str
    title: str
    licence: str
    path: Path  # a file name where it is downloaded
    address: str = ""
    sha256: str = ""
    size: int = 0  # bytes


CATALOG: dict[str, CatalogEntry] = {
    entry.id: entry
    for entry in (
        CatalogEntry(
            id="sample",
            title="Korean sample",
            licence="CC0 1.0",
            path=Path(__file__).parent / "sample" / "korean.json",
        ),
        CatalogEntry(
            id="korquad-v1-dev",
            title="KorQuAD 1.0 dev",
            licence="CC BY-ND 2.0 KR",
            path=Path("KorQuAD_v1.0_dev.json"),
            address="https://korquad.github.io/dataset/KorQuAD_v1.0_dev.json",
            sha256="25ffeb51e6c51ec02c071b60a10188e10005c144110f0d876b26079d80a35bdf",
            size=3_881_058,
        ),
    )
}


def read_entry(entry: CatalogEntry, on_progress: Progress | None = None) -> Reading:
    """Obtain and read a set of the catalog; it is named by its title. Raises `DataError`."""
    reading = read(obtain(entry, on_progress), entry.path.name)
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def obtain(entry: CatalogEntry, on_progress: Progress | None = None) -> bytes:
    """Return the bytes of an entry's file, its checksum verified.

    Looked for in the folder `MRC_DATA` names, then among the workspace's downloads, else downloaded from its
    publisher and kept there. Raises `DataError` where the download fails or is not the known file.
    """
    if not entry.address:
        return file_content(entry.path).whole
    kept = workspace() / "downloads" / entry.path.name
    folder = os.environ.get("MRC_DATA")
    for path in ([Path(folder) / entry.path.name] if folder else []) + [kept]:
        with suppress(OSError):
            if _is_known(content := path.read_bytes(), entry):
                return content
    content = _download(entry, on_progress)
    with replacing(kept) as new:
        new.write_bytes(content)
    return content


def _is_known(content: bytes, entry: CatalogEntry) -> bool:
    return hashlib.sha256(content).hexdigest() == entry.sha256


def _download(entry: CatalogEntry, on_progress: Progress | None) -> bytes:
    content = bytearray()
    try:
        # The address is the catalog's own, never a user's.
        with urllib.request.urlopen(entry.address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            while len(content) <= entry.size and (chunk := response.read(_CHUNK_BYTES)):
                content += chunk
                if on_progress is not None:
                    on_progress(min(len(content), entry.size), entry.size)
    except (OSError, HTTPException, ValueError) as error:
        reason = shown(str(getattr(error, "reason", None) or error), 200)
        raise DataError.of(
            ProblemCode.DOWNLOAD_FAILED, title=entry.title, address=entry.address, reason=reason
        ) from error
    if not _is_known(bytes(content), entry):
        raise DataError.of(
            ProblemCode.ALTERED_DOWNLOAD,
            title=entry.title,
            address=entry.address,
            size=f"{len(content):,}",
            expected=entry.sha256[:12],
            found=hashlib.sha256(content).hexdigest()[:12],
        )
    return bytes(content)
