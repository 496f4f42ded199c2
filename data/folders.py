"""Folders of several files that are replaced as a whole, whatever else a user keeps in them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from mrc_workbench.data.files.temporary import remove_leftovers_of, temporary_folder
from mrc_workbench.data.workspace import disk_errors_naming, folder_to_disk, read_json, replacing, write_json

MANIFEST = "manifest.json"
_PREFIX = ".new."


@contextmanager
def replacing_folder(folder: Path, *, last: str) -> Iterator[Path]:
    """Yield a new, empty folder that takes the place of `folder` when the block ends well; else nothing changes.

    Only files listed in the manifest of `folder` are replaced. If it holds other files, these stay, and the new files
    are moved in one by one; the file `last` is removed first and moved last, so a folder that has it is complete.
    """
    folder = folder.resolve()
    remove_leftovers_of(_PREFIX, folder)
    if folder.is_dir() and (_other_files(folder) or _must_keep_its_place(folder)):
        yield from _merged(folder, last)
        return
    with replacing(folder) as new:
        new.mkdir()
        yield new
        _write_manifest(new)


def _merged(folder: Path, last: str) -> Iterator[Path]:
    with disk_errors_naming(folder), temporary_folder(_PREFIX, folder) as holder:
        new = holder / "new"
        new.mkdir()
        yield new
        _write_manifest(new)
        folder_to_disk(new)
        names = _files(new)
        (folder / last).unlink(missing_ok=True)
        for name in sorted(_listed(folder) - set(names)):
            _remove(folder, name)
        for name in sorted(names, key=lambda name: name == last):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).replace(folder / name)


def _write_manifest(folder: Path) -> None:
    write_json(folder / MANIFEST, {"files": sorted([*_files(folder), MANIFEST])})


def _other_files(folder: Path) -> list[str]:
    """Return the files that the manifest does not list; leftovers of a killed process do not count."""
    listed = _listed(folder)
    return [name for name in _files(folder) if name not in listed and not name.startswith(_PREFIX)]


def _listed(folder: Path) -> set[str]:
    """Return the files that the manifest lists, by paths relative to the folder; none of them leaves it."""
    names = read_json(folder / MANIFEST).get("files", [])
    paths = [PurePosixPath(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return {str(path) for path in paths if not path.is_absolute() and ".." not in path.parts}


def _files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folders that are empty without it."""
    path = folder / name
    if any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(folder) and parent != folder):
        return
    path.unlink(missing_ok=True)
    with suppress(OSError):
        for parent in path.parents:
            if parent == folder:
                return
            parent.rmdir()


def _must_keep_its_place(folder: Path) -> bool:
    """Whether the folder cannot be renamed: a shell may stand in it, or its parent is another disk or read-only."""
    stands_in_it = folder == Path.cwd() or folder in Path.cwd().parents
    return stands_in_it or folder.is_mount() or not os.access(folder.parent, os.W_OK)
