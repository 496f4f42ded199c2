"""Opens a file of a collection, and returns its sources: one of rows, several of one file, or a document."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import Columns, plain_name, require_columns
from mrc_workbench.data.formats.documents import DOCUMENT_COLUMNS, document_table
from mrc_workbench.data.formats.opening import (
    Format,
    RecognisedFile,
    document_kind,
    looked_at,
    recognise,
    refuse_document,
    table_opener,
)
from mrc_workbench.data.formats.tables import Table, shown
from mrc_workbench.data.formats.text import Content, EncodedText, line_table
from mrc_workbench.data.formats.workbooks import Workbook
from mrc_workbench.data.layouts import exports, lines, objects
from mrc_workbench.data.layouts.cells import Opener
from mrc_workbench.data.layouts.references import Role, role_by_name
from mrc_workbench.data.layouts.roles import Chosen, Sample, asking_column, assign_columns, is_unsure_label
from mrc_workbench.data.layouts.sources import Shape, Source, kind_by_columns, kind_by_names, knows
from mrc_workbench.data.layouts.tables import with_flat_cells, with_passage_columns
from mrc_workbench.data.layouts.trees import NESTED_COLUMNS, NestedTable, flat_opener, tree_in, tree_in_rows
from mrc_workbench.data.problems import DataError, ProblemCode

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
_WEB_PAGE = (b"<!doctype html", b"<html")
_LLAMA_INDEX = ("queries", "corpus", "relevant_docs")
_PASSAGE_ROLES = ("context", "positives", "candidates")
_ROLE_OF_LIST = {
    **dict.fromkeys(("questions", "queries", "topics"), Role.QUESTIONS),
    **dict.fromkeys(("corpus", "documents", "docs", "passages", "collection", "contexts"), Role.PASSAGES),
}
_MARKUP = {
    lines.Markup.DOCUMENTS: (Role.PASSAGES, Shape.MARKUP, Columns(id="DOCNO", title="TITLE", context="TEXT")),
    lines.Markup.TOPICS: (Role.QUESTIONS, Shape.MARKUP, Columns("title", id="num")),
    lines.Markup.SMART: (Role.TEXTS, Shape.SMART, Columns(id=".I", title=".T", context=".W")),
}
_JUDGED = Columns(id="query-id", passage_id="corpus-id", label="score")
_JUDGEMENT_COLUMNS = {  # by whether there are grades
    True: (objects.JUDGEMENT_NAMES, _JUDGED),
    False: (objects.JUDGEMENT_NAMES[:2], replace(_JUDGED, label=None)),
}
_LINES = {
    lines.Lines.TEXTS: (Role.TEXTS, Shape.LINES, Columns(id="id", context="text")),
    lines.Lines.TRIPLES: (Role.QUESTIONS, Shape.TRIPLES, Columns("query", positives="positive", negatives="negative")),
    lines.Lines.JUDGEMENTS: (Role.JUDGEMENTS, Shape.LINES, _JUDGED),
    lines.Lines.SHORT_JUDGEMENTS: (Role.JUDGEMENTS, Shape.LINES, _JUDGED),
    lines.Lines.SMART_JUDGEMENTS: (Role.JUDGEMENTS, Shape.LINES, replace(_JUDGED, label=None)),
}


@dataclass(frozen=True)
class Sighted:
    """A file and its sources, none if it is of no collection; and its table, open at the first row."""

    file: File
    sources: Sequence[Source] = ()
    recognised: RecognisedFile | None = None
    table: Table | None = None
    sample: Sample = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names if self.table else tuple(name for source in self.sources for name in source.names)

    @property
    def is_document(self) -> bool:
        return any(source.shape is Shape.DOCUMENT for source in self.sources)


def sight(file: File, chosen: Chosen, *, is_alone: bool) -> Sighted:
    """Return what a file holds, also a document; `chosen` names columns by role. Raises `DataError` if it is broken.

    Plain text is a document if it is one of several files; alone, it is a list of passages or sentences.
    """
    format_ = document_format(file)
    if format_ is not None:
        if chosen and is_alone:
            refuse_document(file.content, file.name)  # it has no columns
        return document_source(file, format_)
    may_be_document = PurePosixPath(file.name).suffix.lower() in _TEXT_SUFFIXES and not is_alone
    try:
        seen = _sighted(file, chosen)
    except DataError as error:
        if may_be_document and error.problem.code is ProblemCode.UNKNOWN_FORMAT:
            return document_source(file, Format.TEXT)
        raise
    is_text = seen.recognised is not None and seen.recognised.format is Format.TEXT
    if not (may_be_document and is_text and not seen.sources):
        return seen
    return _question_lines(seen) or document_source(file, Format.TEXT)


def _question_lines(seen: Sighted) -> Sighted | None:
    """Return plain text as a source of questions, if its name says so and most of its lines end in a question mark."""
    name, recognised = seen.file.name, seen.recognised
    names_questions = role_by_name([PurePosixPath(name).name]) is Role.QUESTIONS
    if recognised is None or recognised.text is None or not names_questions:
        return None
    opener = partial(line_table, recognised.text)
    source = Source(name, Role.QUESTIONS, Shape.TABLE, Columns(), (), opener, recognised).opened()
    asking = asking_column(source.names, source.sample)
    return None if asking is None else Sighted(seen.file, [replace(source, columns=Columns(question=asking))])


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
    source = Source(file.name, Role.PASSAGES, Shape.DOCUMENT, columns, (), opener, recognised)
    return Sighted(file, [source], recognised)


def with_file_ids(files: Sequence[Sighted]) -> list[Sighted]:
    """Return the files with documents as sources whose passages are named within their common folder."""
    folders = [f"/{seen.file.name}".rpartition("/")[0] or "/" for seen in files if seen.is_document]
    folder = os.path.commonpath(folders).strip("/") if folders else ""
    return [_named_within(folder, seen) if folder and seen.is_document else seen for seen in files]


def _named_within(folder: str, seen: Sighted) -> Sighted:
    (source,) = seen.sources
    id_ = seen.file.name.removeprefix(f"{folder}/")
    opener = partial(document_table, seen.file.content, source.recognised.format, id_)
    return replace(seen, sources=[replace(source, table=opener)])


def _sighted(file: File, chosen: Chosen) -> Sighted:
    is_text = not file.content.start.startswith((b"PAR1", b"PK", bytes.fromhex("D0CF11E0")))
    try:
        text = EncodedText(file.content, file.content.encoding) if is_text else None
    except DataError:
        text = None  # its reader reports the encoding
    if text is not None and (sources := _text_sources(file.name, text)):
        return Sighted(file, sources)
    recognised = recognise(file.content, knows, file.name)
    if (ratings := exports.ratings_in(recognised.value)) is not None:
        return Sighted(file, _rated(file.name, ratings, recognised))
    opener = _flat_opener(recognised)
    if opener is None:
        if (seen := _tables_of(file, recognised)) is not None:
            return seen
        value, openers = recognised.value, objects.object_openers(recognised)
        if not openers and isinstance(value, dict):
            names = tuple(value)
            is_asking = assign_columns(names, [value]).question is not None
            if is_asking or kind_by_names(names, [value]).role not in (None, Role.ROWS):
                recognised = replace(recognised, format=Format.JSONL, value=None)  # one line, which is a row
        opener = openers.get("") or table_opener(file.content, recognised)
    return _table_seen(file, recognised, opener, chosen)


def has_sheets(recognised: RecognisedFile) -> bool:
    """Return whether a file is a workbook with several sheets of data."""
    return isinstance(recognised.value, Workbook) and bool(recognised.value.sheets)


def with_sheets(seen: Sighted, chosen: Chosen) -> list[Sighted]:
    """Return a file, and for a workbook with several sheets of data each sheet as a file in its folder."""
    recognised = seen.recognised
    if recognised is None or not has_sheets(recognised):
        return [seen]
    sheets = []
    for name, sheet in recognised.value.sheets.items():
        file = seen.file._replace(name=f"{seen.file.name}/{name.replace('/', ' ')}")
        of_sheet = replace(recognised, value=sheet, problems=sheet.problems)
        sheets.append(_table_seen(file, of_sheet, sheet.table, chosen))
    return sheets


def _table_seen(file: File, recognised: RecognisedFile, opener: Opener, chosen: Chosen) -> Sighted:
    table, sample = looked_at(opener())
    if (tree := tree_in_rows(opener, sample)) is not None:
        flat = flat_opener(tree.items)
        if flat is None:
            return Sighted(file, [_nested(file.name, recognised, tree.table)], recognised)
        opener = flat
        table, sample = looked_at(opener())
    else:
        opener, table, sample = with_flat_cells(opener, table, sample)
    exports.refuse_predictions(table.names, file.name, recognised.value)
    given = {role: column for role, column in chosen.items() if column in table.names}
    by_user = kind_by_columns(given, table.names, sample)
    role, shape, columns, metadata = by_user or kind_by_names(table.names, sample)
    if role is None:
        return Sighted(file, [], recognised, table, sample)
    if table.roles and by_user is None:
        role = Role.ROWS
    rows = table.names, opener, recognised, table.first, sample
    source = Source(file.name, role, shape, columns, *rows, metadata=metadata)
    return Sighted(file, [source], recognised, table, sample)


def _tables_of(file: File, recognised: RecognisedFile) -> Sighted | None:
    """Return a file that holds other tables than one of rows; None for one table."""
    if recognised.format is Format.TEXT:
        return Sighted(file, [], recognised)
    if (tree := tree_in(recognised)) is not None:
        return Sighted(file, [_nested(file.name, recognised, tree.table)], recognised)
    if (dictionaries := objects.dictionaries_in(recognised)) is not None:
        return Sighted(file, _dictionaries(file.name, recognised, dictionaries))
    openers = objects.object_openers(recognised)
    if not openers and (by_id := _by_id(file.name, recognised)) is not None:
        return Sighted(file, [by_id], recognised)
    return _parts(file, recognised, openers) if len(openers) > 1 else None


def _by_id(name: str, recognised: RecognisedFile) -> Source | None:
    """Return the texts or judgements of an object by id, which only the ids of other files make sure of."""
    if (judgements := objects.judgements_opener(recognised.value)) is not None:
        opener, is_graded = judgements
        names, judged = _JUDGEMENT_COLUMNS[is_graded]
        return Source(name, Role.JUDGEMENTS, Shape.BY_ID, judged, names, opener, recognised).opened()
    if (texts := objects.texts_opener(recognised.value)) is not None:
        columns = Columns(id="id", context="text")
        return Source(name, Role.TEXTS, Shape.BY_ID, columns, (), texts, recognised).opened()
    return None


def row_source(seen: Sighted, chosen: Chosen) -> Source:
    """Return the source of a file of questions and passages; `chosen` names columns by role. Raises `DataError`."""
    file = seen.file
    recognised = seen.recognised or recognise(file.content, name=file.name)
    if nested := [source for source in seen.sources if source.shape is Shape.NESTED]:
        return nested[0]
    table, sample = seen.table, seen.sample
    if table is None:
        flat = _flat_opener(recognised)
        if flat is None and (tree := tree_in(recognised)) is not None:
            return _nested(file.name, recognised, tree.table)
        opener = flat or rows_opener(file.content, recognised)
        table, sample = looked_at(opener())
        if flat is None:
            _, table, sample = with_flat_cells(opener, table, sample)
    table, sample = with_passage_columns(table, sample)
    require_columns(chosen, table.names)
    free = {role: name for role, name in table.roles.items() if name is None or name not in chosen.values()}
    if any(chosen.get(role) for role in _PASSAGE_ROLES):
        free = {role: name for role, name in free.items() if role not in _PASSAGE_ROLES}
    is_whole = chosen.keys() == Columns.__dataclass_fields__.keys()
    columns = Columns(**chosen) if is_whole else assign_columns(table.names, sample, {**free, **chosen})
    rows = table.names, lambda: table, recognised, table.first, sample
    is_unsure = chosen.get("label") is None and is_unsure_label(columns, sample)
    unsure_label = columns.label or "" if is_unsure else ""
    return Source(file.name, Role.ROWS, Shape.TABLE, columns, *rows, unsure_label=unsure_label)


def _flat_opener(recognised: RecognisedFile) -> Opener | None:
    """Return what opens an export of another program, or the rows at any level of a tree; None for other files."""
    opener = exports.export_opener(recognised)
    tree = tree_in(recognised) if opener is None else None
    return opener if tree is None else flat_opener(tree.items)


def rows_opener(content: Content, recognised: RecognisedFile) -> Opener:
    """Return what opens the rows of a file that is one table: also of an export, or of JSON that is no list of rows."""
    opener = exports.export_opener(recognised) or objects.object_openers(recognised).get("")
    return opener or table_opener(content, recognised)


def _nested(name: str, recognised: RecognisedFile, opener: Callable[[], NestedTable]) -> Source:
    return Source(name, Role.ROWS, Shape.NESTED, NESTED_COLUMNS, (), opener, recognised)


def _parts(file: File, recognised: RecognisedFile, openers: Mapping[str, Opener]) -> Sighted:
    """Return the parts of a collection, or the only table with questions and passages. Raises `DataError`."""
    sources: list[Source] = []
    tables: dict[str, tuple[Table, Sample]] = {}
    for part, opener in openers.items():
        table, sample = looked_at(opener())
        tables[part] = table, sample
        role, shape, columns, metadata = kind_by_names(table.names, sample)
        if role is Role.TEXTS:
            role = _ROLE_OF_LIST.get(plain_name(part), role)
        if role is not None:
            shape = Shape.PARTS if shape is Shape.TABLE else shape
            rows = table.names, opener, recognised, table.first, sample
            sources.append(Source(f"{file.name}: {part}", role, shape, columns, *rows, metadata=metadata))
    roles = [source.role for source in sources]
    if Role.PASSAGES in roles and len(set(roles)) == len(roles) > 1 and Role.ROWS not in roles:
        return Sighted(file, sources, recognised)
    whole = [part for part, (table, sample) in tables.items() if holds_dataset(table, sample)]
    if len(whole) != 1:
        found = f"an object with several lists of objects ({shown(', '.join(openers), 100)})"
        raise DataError.of(ProblemCode.WRONG_SHAPE, found=found)
    table, whole_sample = tables[whole[0]]
    table = replace(table, skipped=(*table.skipped, *(part for part in openers if part != whole[0])))
    return Sighted(file, [], recognised, table, whole_sample)


def holds_dataset(table: Table, sample: Sample) -> bool:
    """Whether the rows of a table hold questions with their passages."""
    columns = assign_columns(table.names, sample)
    return columns.question is not None and columns.has_passages


def _text_sources(name: str, text: EncodedText) -> list[Source]:
    """Return the sources of a text without a header: markup, lines of a kind, a list of judgements."""
    recognised = RecognisedFile(Format.SGML, text.encoding.name, text, problems=text.encoding.problems)
    if (marked := lines.marked_table(text)) is not None:
        markup, opener = marked
        return [Source(name, *_MARKUP[markup], (), opener, recognised).opened()]
    if (ratings := exports.ratings_in_text(text)) is not None:
        return _rated(name, ratings, replace(recognised, format=Format.TEXT))
    kind = lines.lines_of_a_kind(text, knows)
    if kind is None:
        return []
    recognised = replace(recognised, format=Format.TSV, delimiter="\t")
    return [Source(name, *_LINES[kind], (), partial(lines.line_rows, text, kind), recognised).opened()]


def _rated(name: str, ratings: exports.Ratings, recognised: RecognisedFile) -> list[Source]:
    """The judgements of a search tool and, if the file has ids of its questions, their texts."""
    question_id, question, passage_id, grade = exports.RATING_NAMES
    judged = Columns(passage_id=passage_id, label=grade)
    judged = replace(judged, id=question_id) if ratings.has_ids else replace(judged, question=question)
    judgements = Source(name, Role.JUDGEMENTS, Shape.ENGINE, judged, (), ratings.judgements, recognised).opened()
    if ratings.questions is None:
        return [judgements]
    id_, text = exports.ASKED_NAMES
    rows = Columns(text, id=id_), (), ratings.questions, recognised
    return [Source(f"{name}: queries", Role.QUESTIONS, Shape.ENGINE, *rows).opened(), judgements]


def _dictionaries(name: str, recognised: RecognisedFile, found: objects.Dictionaries) -> list[Source]:
    is_llama_index = all(isinstance(recognised.value.get(part), dict) for part in _LLAMA_INDEX)
    shape = Shape.LLAMA_INDEX if is_llama_index else Shape.PARTS
    names, judged = _JUDGEMENT_COLUMNS[found.is_graded]
    parts = (
        (found.questions, Role.QUESTIONS, (), Columns("text", id="id", answers="response")),
        (found.passages, Role.PASSAGES, (), Columns(id="id", context="text", title="title")),
        (found.judgements, Role.JUDGEMENTS, names, judged),
    )
    return [
        Source(f"{name}: {key}", role, shape, columns, names, opener, recognised).opened()
        for (key, opener), role, names, columns in parts
    ]
