"""The files of a collection: given one by one, in a folder, or in a zip archive; a name in there is never a path.

What an archive claims to hold is looked at before anything is unpacked, and no more than that is unpacked, one file
after the other.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS, codec_of_names
from mrc_workbench.data.formats.opening import C, Proposal, file_content
from mrc_workbench.data.formats.refusals import document_kind
from mrc_workbench.data.formats.tables import mend, shown
from mrc_workbench.data.formats.text import (
    MAX_UNPACKED_BYTES,
    Content,
    Unreadable,
    ZipMember,
    broken_archive,
    check_size,
    decompressed,
    encodings_to_choose,
    is_compressed,
    is_tar,
    tar_files,
    unpacked_limit,
)
from mrc_workbench.data.formats.workbooks import is_workbook
from mrc_workbench.data.problems import DataError, ProblemCode

MOST_FILES = 10_000
_MOST_PLACES = 100_000  # that are looked at in a folder
_ZIP = b"PK\x03\x04"
_LONGEST_NAME = 200
_UTF8_NAME = 0x800  # the flag of a zip entry whose name is UTF-8
_NO_TEXT = {
    *(".py", ".ipynb", ".sh", ".js", ".css", ".yaml", ".yml", ".toml", ".bib", ".cff", ".lock", ".crc"),
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".ico", ".mp3", ".mp4", ".wav"),
}
_OF_SYSTEMS = ("__MACOSX", "Thumbs.db", "desktop.ini")
_ABOUT = ("readme", "license", "licence", "notice", "copying", "citation", "changelog")


def unpacked(files: Sequence[File]) -> list[File]:
    """Return the files, those of archives instead of these. Raises `DataError` for a broken archive or a bomb.

    Files of zip archives are unpacked when they are read. Of several files a broken one is returned, and reading it
    raises the error. A workbook, which is an archive too, stays one file; hidden files are left out. Of files that only
    describe others (`describes_data`) an archive's content is not unpacked.
    """
    found: list[File] = []
    size = 0
    for file in files:
        try:
            new = _unpacked(file, MAX_UNPACKED_BYTES - size)
        except DataError as error:
            if len(files) == 1:
                raise
            new = [_unreadable(file.name, error)]
        size += sum(inner.content.size for inner in new if inner.content is not file.content)
        encoding = file.content.named_encoding
        found += [inner.with_encoding(encoding) for inner in new] if encoding else new
    check_size(len(found), "files", MOST_FILES)
    return found


def propose_or_encodings(
    propose: Callable[[Sequence[File]], Proposal[C]], columns: C, files: Sequence[File]
) -> Proposal[C]:
    """Return what `propose` offers to choose of files, or the possible encodings if that of a file is doubtful."""
    try:
        return propose(files)
    except DataError as error:
        if error.problem.code not in ENCODING_PROBLEMS:
            raise
        return Proposal(columns, encodings=encodings_to_choose(file.content for file in unpacked(files)))


def _unpacked(file: File, left: int) -> list[File]:
    if document_kind(file.content, file.name) is not None:
        return [file]  # its reader says what to do with it
    if file.content.mark.startswith(_ZIP) and not is_workbook(file.content.whole, file.name):
        return list(_unzipped(file, left))
    if is_compressed(file.content.mark):
        file = File(decompressed(file.content, file.name, left), file.name)
    return _untarred(file) if is_tar(file.content) else [file]


def _unreadable(name: str, error: DataError) -> File:
    """Return a broken archive as a file whose reading raises the error. An archive that is too large is refused."""
    if error.problem.code is not ProblemCode.BROKEN_ARCHIVE:
        raise error
    return File(Content(Unreadable(error)), name)


def files_of(path: Path) -> list[File]:
    """Return the file of a path, or those of a folder, named with it. Raises `DataError`."""
    if not path.is_dir():
        return [File(file_content(path), path.name)]
    places = [place for place in sorted(islice(path.rglob("*"), _MOST_PLACES)) if place.is_file()]
    named = [(place, place.relative_to(path).as_posix()) for place in places]
    told = [(place, name) for place, name in named if not _is_hidden(name)]
    check_size(len(told), "files", MOST_FILES)
    if not any(place.stat().st_size for place, name in told if not describes_data(name)):
        raise DataError.of(ProblemCode.EMPTY_FOLDER, path=shown(str(path), _LONGEST_NAME))
    return [File(_content_in_folder(place), _shown_name(f"{path.resolve().name}/{name}")) for place, name in told]


def _content_in_folder(path: Path) -> Content:
    """Return the content of a file of a folder; an empty one is reported by whoever reads the files together."""
    return file_content(path) if path.stat().st_size else Content(b"")


def files_of_paths(paths: Sequence[Path]) -> list[File]:
    """Return the files of some paths and folders. Files of one name are named with their folders.

    Raises `DataError`.
    """
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        parent = Path(os.path.commonpath([path.resolve().parent for path in paths]))
        names = [path.resolve().relative_to(parent).as_posix() for path in paths]
    found: list[File] = []
    for path, name in zip(paths, names, strict=True):
        files = files_of(path)
        found += files if path.is_dir() else [file._replace(name=_shown_name(name)) for file in files]
    return found


def with_distinct_names(files: Sequence[File]) -> list[File]:
    """Number the names that several files have: `test.jsonl`, `test (2).jsonl`."""
    taken = set[str]()
    found: list[File] = []
    for file in files:
        stem, dot, suffix = file.name.rpartition(".")
        if not stem or "/" in suffix:
            stem, dot, suffix = file.name, "", ""
        name = file.name
        number = 1
        while name in taken:
            number += 1
            name = f"{stem} ({number}){dot}{suffix}"
        taken.add(name)
        found.append(file._replace(name=name))
    return found


def _shown_name(name: str) -> str:
    """The name of a file in a folder or archive as it is told, without what only a path needs."""
    plain = "".join(letter for letter in mend(name.replace("\\", "/")) if letter.isprintable())
    return shown("/".join(part for part in plain.split("/") if part not in ("", ".", "..")), _LONGEST_NAME)


def _untarred(file: File) -> list[File]:
    files = ((_shown_name(name), content) for name, content in tar_files(file.content, file.name))
    visible = ((name, content) for name, content in files if not _is_hidden(name))
    return [
        File(Content(b"" if describes_data(name) else content), name)
        for name, content in islice(visible, MOST_FILES + 1)
    ]


def _unzipped(file: File, left: int) -> Iterator[File]:
    most = unpacked_limit(file.content.size, left)
    with broken_archive(file.name):
        archive = _opened_zip(file.content)  # stays open: its files are unpacked when they are read
        files = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_hidden(entry.filename)]
        check_size(len(files), "files", MOST_FILES)
        entries = [entry for entry in files if not describes_data(entry.filename)]
        if not entries:
            return
        read = {entry.filename for entry in entries}
        yield from (File(Content(b""), _shown_name(entry.filename)) for entry in files if entry.filename not in read)
        for entry in entries:
            if not entry.file_size and entry.CRC:  # no bytes have the checksum 0
                raise BadZipFile(f"the directory says that {shown(entry.filename, 80)} is empty, and it is not")
        check_size(sum(entry.file_size for entry in entries), "unpacked bytes", most)
        for entry in sorted(entries, key=lambda entry: entry.filename):
            inner = File(Content(ZipMember(archive, entry)), _shown_name(entry.filename))
            try:
                if is_compressed(inner.content.mark):
                    most -= inner.content.size
                    inner = File(decompressed(inner.content, inner.name, most), inner.name)
                    most -= inner.content.size
            except DataError as error:
                inner = _unreadable(inner.name, error)
            yield inner


def _opened_zip(content: Content) -> ZipFile:
    """Open an archive. Without the flag of UTF-8, programs write names as UTF-8 or in the code page of their system.

    Python reads such names as CP437; all names together tell which encoding they are in.
    """
    packed = content.source if isinstance(content.source, Path) else content.open()
    archive = ZipFile(packed)
    names = [entry.filename for entry in archive.infolist() if not entry.flag_bits & _UTF8_NAME]
    try:
        given = "\n".join(name for name in names if not name.isascii()).encode("cp437")
    except UnicodeEncodeError:  # an extra field of an entry told its name in Unicode
        return archive
    codec = codec_of_names(given) if given else None
    return archive if codec is None else ZipFile(packed, metadata_encoding=codec)


def describes_data(name: str) -> bool:
    """Return whether a file is about the files beside it, or holds no text: README, licence, program, picture."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.suffix.lower() in _NO_TEXT or path.stem.lower() in _ABOUT


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return any(part in _OF_SYSTEMS or part.startswith((".", "_SUCCESS", "~$")) for part in parts if part != "..")
