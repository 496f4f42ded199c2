"""The files of a dataset: unpacked, named, without files that only describe others, and in one collection.

A name in an archive is never used as a path. The sizes that an archive declares are checked before unpacking, and no
more bytes than declared are unpacked, one file after the other.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, islice, takewhile
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from mrc_workbench.data.formats import text
from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS, codec_of_names
from mrc_workbench.data.formats.opening import C, Proposal, derive_name, document_kind, file_content
from mrc_workbench.data.formats.tables import display_text, mend_text
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.formats.text_tables import parse_json
from mrc_workbench.data.formats.workbooks import is_workbook
from mrc_workbench.data.layouts import WORDS, references
from mrc_workbench.data.layouts.cells import objects_in_list
from mrc_workbench.data.layouts.references import GENERIC_WORDS, Role, part_from_path, tokenize_name
from mrc_workbench.data.layouts.sources import DataSource
from mrc_workbench.data.passages import id_problems
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.subprocess_reader import File

MAX_FILES = 10_000
_MAX_PATHS = 100_000  # searched in a folder
_ZIP = b"PK\x03\x04"
_MAX_NAME_LENGTH = 200
_UTF8_NAME = 0x800  # the flag of a zip entry whose name is UTF-8
_SYSTEM_FILES = ("__MACOSX", "Thumbs.db", "desktop.ini")
_SPLIT_ROLES = (Role.QUESTIONS, Role.JUDGEMENTS, Role.ROWS)  # roles whose files are published in parts
_WORDS = re.compile(r"[^\W\d_]+")
_STATE = "state.json"
_METADATA_FILES = (_STATE, "dataset_info.json", "dataset_dict.json")
_MAX_STATE_BYTES = 2**24  # bytes
_MAX_SHARDS = 1_000
_SHARD = re.compile(r"(.*-)(\d{5})-of-(\d{5})(\.\w+)")


def unpack_files(files: Sequence[File]) -> list[File]:
    """Return the files, with each archive replaced by its files. Raises `DataError` for a broken archive or a bomb.

    Files of zip archives are unpacked when they are read, and a broken archive among several raises its error then.
    Workbooks stay one file; hidden files are skipped; files that only describe others are returned empty.
    """
    unpacked_files: list[File] = []
    size = 0
    for file in files:
        try:
            new = _unpack_file(file, text.MAX_UNPACKED_BYTES - size)
        except DataError as error:
            if len(files) == 1:
                raise
            new = [_unreadable_file(file.name, error)]
        size += sum(inner.content.size for inner in new if inner.content is not file.content)
        encoding = file.content.named_encoding
        unpacked_files += [inner.with_encoding(encoding) for inner in new] if encoding else new
    check_size(len(unpacked_files), "files", MAX_FILES)
    return unpacked_files


def data_files(files: Sequence[File]) -> list[File]:
    """Return the unpacked files with distinct names. Raises `DataError` if there is no file."""
    inner = with_distinct_names(unpack_files(files))
    if not inner:
        raise DataError.from_code(ProblemCode.NOT_A_WORKBOOK)
    return inner


def propose_or_encodings(
    propose: Callable[[Sequence[File]], Proposal[C]], columns: C, files: Sequence[File]
) -> Proposal[C]:
    """Return the proposal for files, or the possible encodings if the encoding of a file is uncertain."""
    try:
        return propose(files)
    except DataError as error:
        if error.problem.code not in ENCODING_PROBLEMS:
            raise
        return Proposal(columns, encodings=text.encodings_to_choose(file.content for file in unpack_files(files)))


def _unpack_file(file: File, bytes_left: int) -> list[File]:
    if document_kind(file.content, file.name) is not None:
        return [file]
    if file.content.signature.startswith(_ZIP) and not is_workbook(file.content.whole, file.name):
        return list(_unzip(file, bytes_left))
    if text.is_compressed(file.content.signature):
        file = File(text.decompressed(file.content, file.name, bytes_left), file.name)
    if not text.is_tar(file.content):
        return [file]
    inner = ((_display_name(name), content) for name, content in text.tar_files(file.content, file.name))
    visible = islice(((name, content) for name, content in inner if not _is_hidden(name)), MAX_FILES + 1)
    return [File(Content(b"" if describes_data(name) else content), name) for name, content in visible]


def _unreadable_file(name: str, error: DataError) -> File:
    """Return a broken archive as a file that raises the error when it is read. Raises the error of a large archive."""
    if error.problem.code is not ProblemCode.BROKEN_ARCHIVE:
        raise error
    return File(Content(text.Unreadable(error)), name)


def list_files(path: Path) -> list[File]:
    """Return the file of a path, or the files of a folder, named with the folder. Raises `DataError`."""
    if not path.is_dir():
        return [File(file_content(path), path.name)]
    inner_paths = [inner for inner in sorted(islice(path.rglob("*"), _MAX_PATHS)) if inner.is_file()]
    named = [(inner, inner.relative_to(path).as_posix()) for inner in inner_paths]
    visible = [(inner, name, inner.stat().st_size) for inner, name in named if not _is_hidden(name)]
    check_size(len(visible), "files", MAX_FILES)
    if not any(size for _, name, size in visible if not describes_data(name)):
        raise DataError.from_code(ProblemCode.EMPTY_FOLDER, path=display_text(str(path), _MAX_NAME_LENGTH))
    # an empty file is reported when all files are read together
    contents = ((file_content(inner) if size else Content(b""), name) for inner, name, size in visible)
    return [File(content, _display_name(f"{path.resolve().name}/{name}")) for content, name in contents]


def list_files_of_paths(paths: Sequence[Path]) -> list[File]:
    """Return the files of paths and folders; equal names are extended by their folders. Raises `DataError`."""
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        parent = Path(os.path.commonpath([path.resolve().parent for path in paths]))
        names = [path.resolve().relative_to(parent).as_posix() for path in paths]
    all_files: list[File] = []
    for path, name in zip(paths, names, strict=True):
        files = list_files(path)
        all_files += files if path.is_dir() else [file._replace(name=_display_name(name)) for file in files]
    return all_files


def with_distinct_names(files: Sequence[File]) -> list[File]:
    """Number the names that several files have: `test.jsonl`, `test (2).jsonl`."""
    files_by_name: dict[str, File] = {}
    for file in files:
        stem, _, suffix = file.name.rpartition(".")
        ending = f".{suffix}" if stem and "/" not in suffix else ""
        copies = (f"{file.name.removesuffix(ending)} ({number}){ending}" for number in count(2))
        name = next(name for name in chain([file.name], copies) if name not in files_by_name)
        files_by_name[name] = file._replace(name=name)
    return list(files_by_name.values())


def _display_name(name: str) -> str:
    """Return the displayed name of a file in a folder or archive, without the parts that only a path needs."""
    plain = "".join(filter(str.isprintable, mend_text(name.replace("\\", "/"))))
    return display_text("/".join(part for part in plain.split("/") if part not in ("", ".", "..")), _MAX_NAME_LENGTH)


def _unzip(file: File, bytes_left: int) -> Iterator[File]:
    limit = text.unpacked_limit(file.content.size, bytes_left)
    with text.wrap_archive_errors(file.name):
        archive = _open_zip(file.content)  # stays open: its files are unpacked when they are read
        files = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_hidden(entry.filename)]
        check_size(len(files), "files", MAX_FILES)
        entries = [entry for entry in files if not describes_data(entry.filename)]
        if not entries:
            return
        read = {entry.filename for entry in entries}
        yield from (File(Content(b""), _display_name(entry.filename)) for entry in files if entry.filename not in read)
        for entry in entries:
            if not entry.file_size and entry.CRC:  # no bytes have the checksum 0
                raise BadZipFile(f"the directory says that {display_text(entry.filename, 80)} is empty, and it is not")
        check_size(sum(entry.file_size for entry in entries), "unpacked bytes", limit)
        for entry in sorted(entries, key=lambda entry: entry.filename):
            inner = File(Content(text.ZipMember(archive, entry)), _display_name(entry.filename))
            try:
                if text.is_compressed(inner.content.signature):
                    limit -= inner.content.size
                    inner = File(text.decompressed(inner.content, inner.name, limit), inner.name)
                    limit -= inner.content.size
            except DataError as error:
                inner = _unreadable_file(inner.name, error)
            yield inner


def _open_zip(content: Content) -> ZipFile:
    """Open an archive. Names without the UTF-8 flag share an encoding, which is detected from all of them."""
    packed = content.source if isinstance(content.source, Path) else content.open()
    archive = ZipFile(packed)
    names = [entry.filename for entry in archive.infolist() if not entry.flag_bits & _UTF8_NAME]
    try:
        given = "\n".join(name for name in names if not name.isascii()).encode("cp437")
    except UnicodeEncodeError:  # an extra field of an entry has its name in Unicode
        return archive
    codec = codec_of_names(given) if given else None
    return archive if codec is None else ZipFile(packed, metadata_encoding=codec)


def describes_data(name: str) -> bool:
    """Return whether a file describes other files or holds no text: README, licence, program, picture."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.suffix.lower() in WORDS["non_text_suffixes"] or path.stem.lower() in WORDS["description_stems"]


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return any(part in _SYSTEM_FILES or part.startswith((".", "_SUCCESS", "~$")) for part in parts if part != "..")


def select_data_files(files: Sequence[File]) -> tuple[list[File], tuple[Problem, ...]]:
    """Return the files to read (all if every file describes others), and notices of skipped and missing files."""
    arrow = [PurePosixPath(file.name).parent for file in files if file.name.lower().endswith(".arrow")]
    folders = {*arrow, *(folder.parent for folder in arrow)}  # of `save_to_disk`, with its JSON beside Arrow files
    paths = [(file, PurePosixPath(file.name)) for file in files]
    stored = [file for file, path in paths if path.name not in _METADATA_FILES or path.parent not in folders]
    data = [file for file in stored if not describes_data(file.name)] or stored
    names = {file.name for file in data}
    describing = [file.name for file in stored if file.name not in names]
    notices = id_problems(ProblemCode.DESCRIBING_FILES, describing)
    return data, notices + id_problems(ProblemCode.MISSING_SHARDS, missing_shards(files))


def missing_shards(files: Sequence[File]) -> list[str]:
    """Return the names of missing files: those that `state.json` lists, and the other shards of "00001-of-00003"."""
    names = {file.name for file in files}
    expected = dict.fromkeys(name for file in files for name in _files_listed_in(file))
    for known in filter(None, map(_SHARD.fullmatch, names)):
        begin, _, count_, end = known.groups()
        numbers = range(min(int(count_), _MAX_SHARDS))
        expected |= dict.fromkeys(f"{begin}{number:05}-of-{count_}{end}" for number in numbers)
    return sorted(name for name in expected if name not in names)


def _files_listed_in(file: File) -> Iterable[str]:
    path = PurePosixPath(file.name)
    if path.name != _STATE or not 0 < file.content.size <= _MAX_STATE_BYTES:
        return []
    try:
        state = parse_json(text.EncodedText(file.content, file.content.encoding).whole)
    except DataError:
        return []
    entries = objects_in_list(state.get("_data_files")) if isinstance(state, dict) else []
    names = [entry.get("filename") for entry in entries]
    return [str(path.parent / PurePosixPath(name).name) for name in names if isinstance(name, str) and name]


def with_parts(sources: Sequence[DataSource]) -> list[DataSource]:
    """Return the sources with the parts that files and folders name; common folders name the collection."""
    divided = [source.name for source in sources if source.role in _SPLIT_ROLES]
    levels = zip(*(PurePosixPath(name).parts[:-1] for name in divided), strict=False)
    shared = sum(1 for _ in takewhile(lambda names: len({*names}) == 1, levels))
    inner_path = {name: "/".join(PurePosixPath(name).parts[shared:]) for name in divided}
    part_of = references.published_parts(inner_path.values())
    return [replace(source, part=part_of.get(inner_path.get(source.name, ""), "")) for source in sources]


def require_single_collection(sources: Sequence[DataSource]) -> None:
    """Raise `DataError` if several folders of an archive each hold a collection, for example one per language."""
    roles_by_path: defaultdict[str, set[Role]] = defaultdict(set)
    for source in sources:
        roles_by_path[_collection_path(source.name)].add(source.role)
    paths = sorted(path for path, roles in roles_by_path.items() if Role.PASSAGES in roles and len(roles) > 1)
    if len(paths) > 1:
        # a collection outside of any folder is named by its passages
        corpora = [source.name for source in sources if source.role is Role.PASSAGES]
        outside = next((name for name in corpora if not _collection_path(name)), "")
        listing = ", ".join(path or outside for path in paths)
        raise DataError.from_code(ProblemCode.SEVERAL_COLLECTIONS, available=display_text(listing, 300))


def _collection_path(name: str) -> str:
    """Return the folder of a file's collection, with the words of the file's name that are no role: ko of ko-corpus."""
    parts = PurePosixPath(name).parts
    for depth, part in enumerate(parts):
        words = tokenize_name(part.partition(".")[0])
        if references.ROLE_WORDS & set(words):
            distinctive_words = [word for word in words if word not in GENERIC_WORDS and not word.isdigit()]
            return "/".join((*_folders(parts[:depth]), *(["-".join(distinctive_words)] if distinctive_words else [])))
    return "/".join(_folders(parts[:-1]))


def _folders(names: Sequence[str]) -> list[str]:
    """Return the folders that distinguish collections: all except those of a published part, such as train."""
    return [name for name in names if not (part_from_path(name) and len(tokenize_name(name)) == 1)]


def dataset_name(files: Sequence[File], name: str, default: str) -> str:
    """Return the set's name: the given name, the folder, the distinctive name of a file, or the layout."""
    if name:
        return derive_name(name, default)
    folders = {PurePosixPath(file.name).parts[0] for file in files if "/" in file.name}
    if len(folders) == 1 and all("/" in file.name for file in files):
        return display_text(derive_name(folders.pop(), ""), 100)
    stems = [derive_name(file.name, "") for file in files]
    distinctive_stems = (stem for stem in stems if len(stems) == 1 or {*_WORDS.findall(stem.lower())} - GENERIC_WORDS)
    return next(distinctive_stems, "") or default
