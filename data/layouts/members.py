"""The files of a collection: given one by one, in a folder, or in a zip archive; and the documents among them.

A name in an archive is never a path. What an archive claims to hold is checked before anything is unpacked, and no more
than that is unpacked, one file after the other. Documents are the corpus if no other file has passages.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.documents import DOCUMENT_COLUMNS, document_table
from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS, codec_of_names
from mrc_workbench.data.formats.opening import (
    C,
    Format,
    Proposal,
    RecognisedFile,
    document_kind,
    file_content,
    refuse_document,
)
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
    line_table,
    tar_files,
    unpacked_limit,
)
from mrc_workbench.data.formats.workbooks import is_workbook
from mrc_workbench.data.layouts.files import holds_passages, role_by_name, with_roles
from mrc_workbench.data.layouts.references import PassageNames, reference_columns
from mrc_workbench.data.layouts.roles import Chosen, asking_column
from mrc_workbench.data.layouts.sighting import SeenFiles, Sighted, sighted
from mrc_workbench.data.layouts.sources import Role, Shape, Source, as_questions
from mrc_workbench.data.passages import id_problems
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

MOST_FILES = 10_000
_MOST_PATHS = 100_000  # that are looked at in a folder
_ZIP = b"PK\x03\x04"
_LONGEST_NAME = 200
_UTF8_NAME = 0x800  # the flag of a zip entry whose name is UTF-8
_NO_TEXT = {
    *(".py", ".ipynb", ".sh", ".js", ".css", ".yaml", ".yml", ".toml", ".bib", ".cff", ".lock", ".crc"),
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".ico", ".mp3", ".mp4", ".wav"),
}
_OF_SYSTEMS = ("__MACOSX", "Thumbs.db", "desktop.ini")
_ABOUT = ("readme", "license", "licence", "notice", "copying", "citation", "changelog")
_BY_KIND = {
    ProblemCode.PDF_DOCUMENT: Format.PDF,
    ProblemCode.WORD_DOCUMENT: Format.WORD,
    ProblemCode.PRESENTATION: Format.SLIDES,
    ProblemCode.HANGUL_DOCUMENT: Format.HANGUL,
}
_BY_SUFFIX = {
    **dict.fromkeys((".md", ".markdown", ".mdown"), Format.MARKDOWN),
    **dict.fromkeys((".html", ".htm", ".xhtml"), Format.HTML),
}
_TEXT_SUFFIXES = (".txt", ".text", ".rst")
# of data: a web page under such a name is what a server sent in place of the file
_DATA_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods", ".parquet", ".arrow", ".zip")
MAX_NAME = 300  # characters of the name of a file
_WEB_PAGE = (b"<!doctype html", b"<html")


def unpacked(files: Sequence[File]) -> list[File]:
    """Return the files, those of archives instead of these. Raises `DataError` for a broken archive or a bomb.

    Files of zip archives are unpacked when they are read. Of several files, reading a broken one raises its error.
    Workbooks stay one file; hidden files are left out; files that only describe others (`describes_data`) are empty.
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
    inner_paths = [inner for inner in sorted(islice(path.rglob("*"), _MOST_PATHS)) if inner.is_file()]
    named = [(inner, inner.relative_to(path).as_posix()) for inner in inner_paths]
    visible = [(inner, name, inner.stat().st_size) for inner, name in named if not _is_hidden(name)]
    check_size(len(visible), "files", MOST_FILES)
    if not any(size for _, name, size in visible if not describes_data(name)):
        raise DataError.of(ProblemCode.EMPTY_FOLDER, path=shown(str(path), _LONGEST_NAME))
    # an empty file is reported when all are read together
    contents = ((file_content(inner) if size else Content(b""), name) for inner, name, size in visible)
    return [File(content, _shown_name(f"{path.resolve().name}/{name}")) for content, name in contents]


def files_of_paths(paths: Sequence[Path]) -> list[File]:
    """Return the files of paths and folders, those of one name named with their folders. Raises `DataError`."""
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
    found: dict[str, File] = {}
    for file in files:
        stem, dot, suffix = file.name.rpartition(".")
        if not stem or "/" in suffix:
            stem, dot, suffix = file.name, "", ""
        copies = (f"{stem} ({number}){dot}{suffix}" for number in count(2))
        name = next(name for name in chain([file.name], copies) if name not in found)
        found[name] = file._replace(name=name)
    return list(found.values())


def _shown_name(name: str) -> str:
    """The displayed name of a file in a folder or archive, without what only a path needs."""
    plain = "".join(filter(str.isprintable, mend(name.replace("\\", "/"))))
    return shown("/".join(part for part in plain.split("/") if part not in ("", ".", "..")), _LONGEST_NAME)


def _untarred(file: File) -> list[File]:
    files = ((_shown_name(name), content) for name, content in tar_files(file.content, file.name))
    visible = ((name, content) for name, content in files if not _is_hidden(name))
    first = islice(visible, MOST_FILES + 1)
    return [File(Content(b"" if describes_data(name) else content), name) for name, content in first]


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
    """Open an archive. Names without the flag of UTF-8 are in an encoding that all of them together tell."""
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
    """Return whether a file is about the files beside it, or holds no text: README, licence, program, picture."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.suffix.lower() in _NO_TEXT or path.stem.lower() in _ABOUT


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return any(part in _OF_SYSTEMS or part.startswith((".", "_SUCCESS", "~$")) for part in parts if part != "..")


def sighted_file(file: File, chosen: Chosen, *, is_alone: bool) -> Sighted:
    """Tell what a file holds, also a document; `chosen` names columns by role. Raises `DataError` if it is broken.

    Plain text is a document if it is one of several files; alone, it is a list of passages or sentences.
    """
    format_ = document_format(file)
    if format_ is not None:
        if chosen and is_alone:
            refuse_document(file.content, file.name)  # it has no columns
        return document_source(file, format_)
    may_be_document = PurePosixPath(file.name).suffix.lower() in _TEXT_SUFFIXES and not is_alone
    try:
        found = sighted(file, chosen)
    except DataError as error:
        if may_be_document and error.problem.code is ProblemCode.UNKNOWN_FORMAT:
            return document_source(file, Format.TEXT)
        raise
    is_text = found.recognised is not None and found.recognised.format is Format.TEXT
    if not (may_be_document and is_text and not found.sources):
        return found
    return _question_lines(file, found) or document_source(file, Format.TEXT)


def _question_lines(file: File, found: Sighted) -> Sighted | None:
    """Return plain text as a source of questions, if its name says so and most of its lines end in a question mark."""
    recognised = found.recognised
    names_questions = role_by_name([PurePosixPath(file.name).name]) is Role.QUESTIONS
    if recognised is None or recognised.text is None or not names_questions:
        return None
    opener = partial(line_table, recognised.text)
    source = Source(file.name, Role.QUESTIONS, Shape.TABLE, Columns(), (), opener, recognised).opened()
    asking = asking_column(source.names, source.sample)
    return None if asking is None else Sighted([replace(source, columns=Columns(question=asking))])


def document_format(file: File) -> Format | None:
    """Return the format of a document that is no plain text, None for other files."""
    kind = document_kind(file.content, file.name)
    if kind is not None:
        return _BY_KIND.get(kind)
    suffix = PurePosixPath(file.name).suffix.lower()
    mark = file.content.mark
    is_binary = b"\x00" in mark and not mark.startswith((b"\xff\xfe", b"\xfe\xff"))
    if is_binary or not mark or b"<docno" in mark.lower():
        return None
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    is_web_page = mark.removeprefix(b"\xef\xbb\xbf").lstrip()[:20].lower().startswith(_WEB_PAGE)
    return Format.HTML if is_web_page and suffix not in _DATA_SUFFIXES else None


def document_source(file: File, format_: Format) -> Sighted:
    """Return a document as a source of passages, which is read only when its rows are."""
    id_, title, text = DOCUMENT_COLUMNS
    recognised = RecognisedFile(format_)
    columns = Columns(id=id_, title=title, context=text)  # of the table, as a document has none
    opener = partial(document_table, file.content, format_, file.name)
    return Sighted([Source(file.name, Role.PASSAGES, Shape.DOCUMENT, columns, (), opener, recognised)], recognised)


def with_document_ids(seen: SeenFiles) -> list[tuple[File, Sighted]]:
    """Return the files with documents as sources whose passages are named within their common folder."""
    documents = [file for file, found in seen if _is_document(found)]
    if not documents:
        return list(seen)
    folder = os.path.commonpath([f"/{file.name}".rpartition("/")[0] or "/" for file in documents]).strip("/")
    named = []
    for file, found in seen:
        sources = found.sources
        if _is_document(found):
            file_id = file.name.removeprefix(f"{folder}/") if folder else file.name
            opener = partial(document_table, file.content, sources[0].recognised.format, file_id)
            sources = [replace(sources[0], table=opener)]
        named.append((file, replace(found, sources=sources)))
    return named


def without_describing_documents(sources: Sequence[Source]) -> tuple[list[Source], tuple[Problem, ...]]:
    """Return the sources without the documents beside passages of another file, which they describe; report them."""
    names = [source.name for source in sources if source.shape is Shape.DOCUMENT]
    sources = [_as_naming(source, names) for source in sources] if names else sources
    others = [source for source in sources if source.shape is not Shape.DOCUMENT]
    known = with_roles(others)  # texts with ids alone, such as questions about the documents, are not yet passages
    is_collection = any(source.role is Role.QUESTIONS for source in known) and any(map(holds_passages, known))
    if not is_collection and not any(map(holds_passages, others)):
        return list(sources), ()
    return others, id_problems(ProblemCode.DESCRIBING_DOCUMENTS, names)


def _as_naming(source: Source, names: Sequence[str]) -> Source:
    """Return rows as questions if what seemed to be their passages are names of documents."""
    columns = source.columns
    context = columns.context or columns.positives
    if source.role is not Role.ROWS or columns.question is None or context is None:
        return source
    documents = PassageNames({name: position for position, name in enumerate(names)}, lambda: ())
    return as_questions(source) if reference_columns([context], source.sample, documents) else source


def _is_document(found: Sighted) -> bool:
    return any(source.shape is Shape.DOCUMENT for source in found.sources)
