"""Documents among the files of a collection: they are its corpus if no other file has passages."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.documents import DOCUMENT_COLUMNS, document_table
from mrc_workbench.data.formats.opening import Format, RecognisedFile, looked_at
from mrc_workbench.data.formats.refusals import document_kind, refuse_document
from mrc_workbench.data.formats.tables import as_text
from mrc_workbench.data.formats.text import line_table
from mrc_workbench.data.layouts.columns.references import PassageNames, reference_columns
from mrc_workbench.data.layouts.files import holds_passages, role_by_name, with_roles
from mrc_workbench.data.layouts.sighting import Sighted, sighted
from mrc_workbench.data.layouts.sources import Role, Shape, Source, as_questions
from mrc_workbench.data.layouts.tallies import id_problems
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

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


def sighted_file(file: File, chosen: Mapping[str, str | None], *, is_alone: bool) -> Sighted:
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
    if (
        recognised is None
        or recognised.text is None
        or role_by_name([PurePosixPath(file.name).name]) is not Role.QUESTIONS
    ):
        return None
    opener = partial(line_table, recognised.text)
    table, sample = looked_at(opener())
    (name,) = table.names
    if 2 * sum(as_text(row[name]).endswith(("?", "？")) for row in sample) <= len(sample):
        return None
    source = Source(
        name=file.name,
        role=Role.QUESTIONS,
        shape=Shape.TABLE,
        columns=Columns(question=name),
        names=table.names,
        table=opener,
        recognised=recognised,
        first_rows=table.first,
        sample=sample,
    )
    return Sighted([source])


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
    source = Source(
        name=file.name,
        role=Role.PASSAGES,
        shape=Shape.DOCUMENT,
        columns=Columns(id=id_, title=title, context=text),
        names=(),  # a document has no columns
        table=partial(document_table, file.content, format_, file.name),
        recognised=recognised,
    )
    return Sighted([source], recognised)


def with_document_ids(seen: Sequence[tuple[File, Sighted]]) -> list[tuple[File, Sighted]]:
    """Return the files with documents as sources whose passages are named within their common folder."""
    documents = [file for file, found in seen if _is_document(found)]
    if not documents:
        return list(seen)
    folder = os.path.commonpath([f"/{file.name}".rpartition("/")[0] or "/" for file in documents]).strip("/")
    named = []
    for file, found in seen:
        if _is_document(found):
            file_id = file.name.removeprefix(f"{folder}/") if folder else file.name
            (source,) = found.sources
            opener = partial(document_table, file.content, source.recognised.format, file_id)
            named.append((file, Sighted([replace(source, table=opener)], found.recognised)))
        else:
            named.append((file, found))
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
