"""Files that are not read with the others: those that describe them, and the JSON of `Dataset.save_to_disk`."""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.text import EncodedText
from mrc_workbench.data.formats.text_tables import parse_json
from mrc_workbench.data.layouts.members import describes_data
from mrc_workbench.data.layouts.tallies import id_problems
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_STATE = "state.json"
_NOTES = (_STATE, "dataset_info.json", "dataset_dict.json")
_LARGEST_NOTE = 2**24  # bytes
_MOST_SHARDS = 1_000
_SHARD = re.compile(r"(.*-)(\d{5})-of-(\d{5})(\.\w+)")


def set_aside(files: Sequence[File]) -> tuple[list[File], tuple[Problem, ...]]:
    """Return the files to read, and what to report of the others and of files that are missing.

    If all files only describe others, as a README does, they are read.
    """
    stored = _without_notes(files)
    data = [file for file in stored if not describes_data(file.name)] or stored
    names = {file.name for file in data}
    describing = [file.name for file in stored if file.name not in names]
    notices = id_problems(ProblemCode.DESCRIBING_FILES, describing)
    return data, notices + id_problems(ProblemCode.MISSING_SHARDS, missing_shards(files))


def _without_notes(files: Sequence[File]) -> list[File]:
    """Return the files without the JSON that `save_to_disk` writes beside Arrow files."""
    arrow = [PurePosixPath(file.name).parent for file in files if file.name.lower().endswith(".arrow")]
    folders = {*arrow, *(folder.parent for folder in arrow)}
    return [file for file in files if not _is_note(file.name, folders)]


def missing_shards(files: Sequence[File]) -> list[str]:
    """Return the names of missing files: those that `state.json` lists, and the others of "00001-of-00003"."""
    names = {file.name for file in files}
    expected = dict.fromkeys(name for file in files for name in _listed(file))
    expected |= dict.fromkeys(name for known in names for name in _fellows(known))
    return sorted(name for name in expected if name not in names)


def _is_note(name: str, folders: set[PurePosixPath]) -> bool:
    path = PurePosixPath(name)
    return path.name in _NOTES and path.parent in folders


def _listed(file: File) -> Iterable[str]:
    """The files that a `state.json` lists; none if it is no such file."""
    path = PurePosixPath(file.name)
    if path.name != _STATE or not 0 < file.content.size <= _LARGEST_NOTE:
        return []
    try:
        state = parse_json(EncodedText(file.content, file.content.encoding).whole)
    except DataError:
        return []
    listed = state.get("_data_files") if isinstance(state, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [entry.get("filename") for entry in entries]
    return [str(path.parent / PurePosixPath(name).name) for name in names if isinstance(name, str) and name]


def _fellows(name: str) -> Iterable[str]:
    """The names of all files of a dataset that one file is a part of, by its own name."""
    found = _SHARD.fullmatch(name)
    if found is None:
        return []
    begin, _, count, end = found.groups()
    return [f"{begin}{number:05}-of-{count}{end}" for number in range(min(int(count), _MOST_SHARDS))]
