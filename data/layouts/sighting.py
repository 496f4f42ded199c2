"""Opens a file of a collection and returns its sources: a table of rows, several parts, or a document."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from mrc_workbench.data.formats import opening
from mrc_workbench.data.formats.columns import QuestionColumns, plain_name, require_columns
from mrc_workbench.data.formats.documents import DOCUMENT_COLUMNS, document_table
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import RawTable, display_text
from mrc_workbench.data.formats.text import Content, EncodedText, line_table
from mrc_workbench.data.formats.workbooks import Workbook
from mrc_workbench.data.layouts import exports, lines, objects
from mrc_workbench.data.layouts.cells import Opener, Sample
from mrc_workbench.data.layouts.references import Role, role_from_names
from mrc_workbench.data.layouts.roles import Selection, assign_columns, find_question_column, is_ambiguous_label
from mrc_workbench.data.layouts.sources import (
    DataSource,
    SourceKind,
    SourceShape,
    is_known_column,
    kind_from_names,
    kind_from_selected_columns,
)
from mrc_workbench.data.layouts.tables import flatten_cells, with_passage_columns
from mrc_workbench.data.layouts.trees import NESTED_COLUMNS, NestedTable, flat_opener, tree_in, tree_in_rows
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.subprocess_reader import File

_FORMAT_BY_PROBLEM = {
    ProblemCode.PDF_DOCUMENT: Format.PDF,
    ProblemCode.WORD_DOCUMENT: Format.WORD,
    ProblemCode.PRESENTATION: Format.SLIDES,
    ProblemCode.HANGUL_DOCUMENT: Format.HANGUL,
}
_FORMAT_BY_SUFFIX = {
    **dict.fromkeys((".md", ".markdown", ".mdown"), Format.MARKDOWN),
    **dict.fromkeys((".html", ".htm", ".xhtml"), Format.HTML),
}
_TEXT_SUFFIXES = (".txt", ".text", ".rst")
# a web page with the name of a data file is an error page of a server
_DATA_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods", ".parquet", ".arrow", ".zip")
_WEB_PAGE = (b"<!doctype html", b"<html")
_LLAMA_INDEX = ("queries", "corpus", "relevant_docs")
_PASSAGE_ROLES = ("context", "positives", "candidates")
_ROLE_OF_LIST = {
    **dict.fromkeys(("questions", "queries", "topics"), Role.QUESTIONS),
    **dict.fromkeys(("corpus", "documents", "docs", "passages", "collection", "contexts"), Role.PASSAGES),
}
_DOCUMENT_FIELDS = QuestionColumns(id="DOCNO", title="TITLE", context="TEXT")
_SOURCE_BY_MARKUP = {
    lines.Markup.DOCUMENTS: SourceKind(Role.PASSAGES, SourceShape.MARKUP, _DOCUMENT_FIELDS),
    lines.Markup.TOPICS: SourceKind(Role.QUESTIONS, SourceShape.MARKUP, QuestionColumns("title", id="num")),
    lines.Markup.SMART: SourceKind(Role.TEXTS, SourceShape.SMART, QuestionColumns(id=".I", title=".T", context=".W")),
}
_JUDGED = QuestionColumns(id="query-id", passage_id="corpus-id", label="score")
_JUDGEMENT_COLUMNS = {  # by `is_graded`
    True: (objects.JUDGEMENT_NAMES, _JUDGED),
    False: (objects.JUDGEMENT_NAMES[:2], replace(_JUDGED, label=None)),
}
_TRIPLE_FIELDS = QuestionColumns("query", positives="positive", negatives="negative")
_SOURCE_BY_LINE_KIND = {
    lines.LineKind.TEXTS: SourceKind(Role.TEXTS, SourceShape.LINES, QuestionColumns(id="id", context="text")),
    lines.LineKind.TRIPLES: SourceKind(Role.QUESTIONS, SourceShape.TRIPLES, _TRIPLE_FIELDS),
    lines.LineKind.JUDGEMENTS: SourceKind(Role.JUDGEMENTS, SourceShape.LINES, _JUDGED),
    lines.LineKind.SHORT_JUDGEMENTS: SourceKind(Role.JUDGEMENTS, SourceShape.LINES, _JUDGED),
    lines.LineKind.SMART_JUDGEMENTS: SourceKind(Role.JUDGEMENTS, SourceShape.LINES, replace(_JUDGED, label=None)),
}


@dataclass(frozen=True)
class DetectedFile:
    """A file with its sources, if it belongs to a collection, and its table, open at the first row."""

    file: File
    sources: Sequence[DataSource] = ()
    recognised: RecognisedFile | None = None
    table: RawTable | None = None
    sample: Sample = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names if self.table else tuple(name for source in self.sources for name in source.names)

    @property
    def is_document(self) -> bool:
        return any(source.shape is SourceShape.DOCUMENT for source in self.sources)


def detect_sources(file: File, selection: Selection, *, is_single: bool) -> DetectedFile:
    """Detect the content of a file; `selection` names columns by role. Raises `DataError` if the file is broken.

    Plain text is a document if there are several files; a single file is a list of passages or sentences.
    """
    format_ = _document_format(file)
    if format_ is not None:
        if selection and is_single:
            opening.refuse_document(file.content, file.name)  # a document has no columns
        return _document_source(file, format_)
    may_be_document = PurePosixPath(file.name).suffix.lower() in _TEXT_SUFFIXES and not is_single
    try:
        detected = _detect_file(file, selection)
    except DataError as error:
        if may_be_document and error.problem.code is ProblemCode.UNKNOWN_FORMAT:
            return _document_source(file, Format.TEXT)
        raise
    is_text = detected.recognised is not None and detected.recognised.format is Format.TEXT
    if not (may_be_document and is_text and not detected.sources):
        return detected
    return _detect_question_lines(detected) or _document_source(file, Format.TEXT)


def _detect_question_lines(detected: DetectedFile) -> DetectedFile | None:
    """Return plain text as a source of questions if its name and the question marks of its lines suggest this."""
    name = detected.file.name
    recognised = detected.recognised
    names_questions = role_from_names([PurePosixPath(name).name]) is Role.QUESTIONS
    if recognised is None or recognised.text is None or not names_questions:
        return None
    source = SourceKind(Role.QUESTIONS).open_source(name, partial(line_table, recognised.text), recognised)
    question_column = find_question_column(source.names, source.sample)
    if question_column is None:
        return None
    return DetectedFile(detected.file, [replace(source, columns=QuestionColumns(question=question_column))])


def _document_format(file: File) -> Format | None:
    """Return the format of a document other than plain text, None for other files."""
    kind = opening.document_kind(file.content, file.name)
    if kind is not None:
        return _FORMAT_BY_PROBLEM.get(kind)
    suffix = PurePosixPath(file.name).suffix.lower()
    mark = file.content.signature
    is_binary = b"\x00" in mark and not mark.startswith((b"\xff\xfe", b"\xfe\xff"))
    if is_binary or not mark or b"<docno" in mark.lower():
        return None
    if suffix in _FORMAT_BY_SUFFIX:
        return _FORMAT_BY_SUFFIX[suffix]
    is_web_page = mark.removeprefix(b"\xef\xbb\xbf").lstrip()[:20].lower().startswith(_WEB_PAGE)
    return Format.HTML if is_web_page and suffix not in _DATA_SUFFIXES else None


def _document_source(file: File, format_: Format) -> DetectedFile:
    id_, title, text = DOCUMENT_COLUMNS
    recognised = RecognisedFile(format_)
    columns = QuestionColumns(id=id_, title=title, context=text)
    opener = partial(document_table, file.content, format_, file.name)
    source = DataSource(file.name, Role.PASSAGES, SourceShape.DOCUMENT, columns, (), opener, recognised)
    return DetectedFile(file, [source], recognised)


def assign_document_ids(files: Sequence[DetectedFile]) -> list[DetectedFile]:
    """Return the files; ids of passages of documents become relative to the common folder of all documents."""
    folders = [f"/{detected.file.name}".rpartition("/")[0] or "/" for detected in files if detected.is_document]
    folder = os.path.commonpath(folders).strip("/") if folders else ""
    return [_with_relative_id(folder, detected) if folder and detected.is_document else detected for detected in files]


def _with_relative_id(folder: str, detected: DetectedFile) -> DetectedFile:
    (source,) = detected.sources
    id_ = detected.file.name.removeprefix(f"{folder}/")
    opener = partial(document_table, detected.file.content, source.recognised.format, id_)
    return replace(detected, sources=[replace(source, table=opener)])


def _detect_file(file: File, selection: Selection) -> DetectedFile:
    is_text = not file.content.start.startswith((b"PAR1", b"PK", bytes.fromhex("D0CF11E0")))
    try:
        text = EncodedText(file.content, file.content.encoding) if is_text else None
    except DataError:
        text = None  # `recognise` reports the encoding
    if text is not None and (sources := _text_sources(file.name, text)):
        return DetectedFile(file, sources)
    recognised = opening.recognise(file.content, is_known_column, file.name)
    if (ratings := exports.parse_ratings(recognised.value)) is not None:
        return DetectedFile(file, _rating_sources(file.name, ratings, recognised))
    opener = _flat_opener(recognised)
    if opener is None:
        if (detected := _detect_other_tables(file, recognised)) is not None:
            return detected
        value = recognised.value
        openers = objects.object_openers(recognised)
        if not openers and isinstance(value, dict):
            names = tuple(value)
            is_asking = assign_columns(names, [value]).question is not None
            kind = kind_from_names(names, [value])
            if is_asking or (kind is not None and kind.role is not Role.ROWS):
                recognised = replace(recognised, format=Format.JSONL, value=None)  # a single line, which is a row
        opener = openers.get("") or opening.table_opener(file.content, recognised)
    return _detect_table(file, recognised, opener, selection)


def has_sheets(recognised: RecognisedFile) -> bool:
    """Return whether a file is a workbook with several sheets of data."""
    return isinstance(recognised.value, Workbook) and bool(recognised.value.sheets)


def split_sheets(detected: DetectedFile, selection: Selection) -> list[DetectedFile]:
    """Return a file; a workbook with several sheets of data is returned as a file per sheet."""
    recognised = detected.recognised
    if recognised is None or not has_sheets(recognised):
        return [detected]
    sheets = []
    for name, sheet in recognised.value.sheets.items():
        file = detected.file._replace(name=f"{detected.file.name}/{name.replace('/', ' ')}")
        recognised_sheet = replace(recognised, value=sheet, problems=sheet.problems)
        sheets.append(_detect_table(file, recognised_sheet, sheet.table, selection))
    return sheets


def _detect_table(file: File, recognised: RecognisedFile, opener: Opener, selection: Selection) -> DetectedFile:
    table, sample = opening.preview_table(opener())
    if (tree := tree_in_rows(opener, sample)) is not None:
        flat = flat_opener(tree.items)
        if flat is None:
            return DetectedFile(file, [_nested_source(file.name, recognised, tree.table)], recognised)
        opener = flat
        table, sample = opening.preview_table(opener())
    else:
        opener, table, sample = flatten_cells(opener, table, sample)
    exports.reject_predictions(table.names, file.name, recognised.value)
    given = {role: column for role, column in selection.items() if column in table.names}
    by_user = kind_from_selected_columns(given, table.names, sample)
    kind = by_user or kind_from_names(table.names, sample)
    if kind is None:
        return DetectedFile(file, [], recognised, table, sample)
    if table.roles and by_user is None:
        kind = kind._replace(role=Role.ROWS)
    source = kind.source(file.name, opener, recognised, table, sample)
    return DetectedFile(file, [source], recognised, table, sample)


def _detect_other_tables(file: File, recognised: RecognisedFile) -> DetectedFile | None:
    if recognised.format is Format.TEXT:
        return DetectedFile(file, [], recognised)
    if (tree := tree_in(recognised)) is not None:
        return DetectedFile(file, [_nested_source(file.name, recognised, tree.table)], recognised)
    if (dictionaries := objects.dictionaries_in(recognised)) is not None:
        return DetectedFile(file, _dictionary_sources(file.name, recognised, dictionaries))
    openers = objects.object_openers(recognised)
    if not openers and (by_id := _source_by_id(file.name, recognised)) is not None:
        return DetectedFile(file, [by_id], recognised)
    return _detect_parts(file, recognised, openers) if len(openers) > 1 else None


def _source_by_id(name: str, recognised: RecognisedFile) -> DataSource | None:
    """Return an object by id as texts or judgements; the ids of other files may correct this."""
    if (judgements := objects.judgements_opener(recognised.value)) is not None:
        opener, is_graded = judgements
        names, judged = _JUDGEMENT_COLUMNS[is_graded]
        kind = SourceKind(Role.JUDGEMENTS, SourceShape.BY_ID, judged)
        return kind.open_source(name, opener, recognised, names)
    if (texts := objects.texts_opener(recognised.value)) is not None:
        kind = SourceKind(Role.TEXTS, SourceShape.BY_ID, QuestionColumns(id="id", context="text"))
        return kind.open_source(name, texts, recognised)
    return None


def row_source(detected: DetectedFile, selection: Selection) -> DataSource:
    """Return the rows of questions and passages in a file; `selection` names columns by role. Raises `DataError`."""
    file = detected.file
    recognised = detected.recognised or opening.recognise(file.content, name=file.name)
    if nested := [source for source in detected.sources if source.shape is SourceShape.NESTED]:
        return nested[0]
    table = detected.table
    sample = detected.sample
    if table is None:
        flat = _flat_opener(recognised)
        if flat is None and (tree := tree_in(recognised)) is not None:
            return _nested_source(file.name, recognised, tree.table)
        opener = flat or rows_opener(file.content, recognised)
        table, sample = opening.preview_table(opener())
        if flat is None:
            _, table, sample = flatten_cells(opener, table, sample)
    joined, sample = with_passage_columns(table, sample)
    require_columns(selection, joined.names)
    free = {role: name for role, name in joined.roles.items() if name is None or name not in selection.values()}
    if any(selection.get(role) for role in _PASSAGE_ROLES):
        free = {role: name for role, name in free.items() if role not in _PASSAGE_ROLES}
    is_whole = selection.keys() == QuestionColumns.__dataclass_fields__.keys()
    columns = QuestionColumns(**selection) if is_whole else assign_columns(joined.names, sample, {**free, **selection})
    source = SourceKind(Role.ROWS, columns=columns).source(file.name, lambda: joined, recognised, joined, sample)
    is_ambiguous = selection.get("label") is None and is_ambiguous_label(columns, sample)
    return replace(source, ambiguous_label=columns.label or "") if is_ambiguous else source


def _flat_opener(recognised: RecognisedFile) -> Opener | None:
    """Return an opener of an export, or of the rows at any level of a tree; None for other files."""
    opener = exports.export_opener(recognised)
    tree = tree_in(recognised) if opener is None else None
    return opener if tree is None else flat_opener(tree.items)


def rows_opener(content: Content, recognised: RecognisedFile) -> Opener:
    """Return an opener of the rows of a file with a single table, which may be an export or any shape of JSON."""
    opener = exports.export_opener(recognised) or objects.object_openers(recognised).get("")
    return opener or opening.table_opener(content, recognised)


def _nested_source(name: str, recognised: RecognisedFile, opener: Callable[[], NestedTable]) -> DataSource:
    return DataSource(name, Role.ROWS, SourceShape.NESTED, NESTED_COLUMNS, (), opener, recognised)


def _detect_parts(file: File, recognised: RecognisedFile, openers: Mapping[str, Opener]) -> DetectedFile:
    """Return the parts of a collection, or the only table with questions and passages. Raises `DataError`."""
    sources: list[DataSource] = []
    tables: dict[str, tuple[RawTable, Sample]] = {}
    for part, opener in openers.items():
        table, sample = opening.preview_table(opener())
        tables[part] = table, sample
        kind = kind_from_names(table.names, sample)
        if kind is None:
            continue
        if kind.role is Role.TEXTS:
            kind = kind._replace(role=_ROLE_OF_LIST.get(plain_name(part), kind.role))
        if kind.shape is SourceShape.TABLE:
            kind = kind._replace(shape=SourceShape.PARTS)
        sources.append(kind.source(f"{file.name}: {part}", opener, recognised, table, sample))
    roles = [source.role for source in sources]
    if Role.PASSAGES in roles and len(set(roles)) == len(roles) > 1 and Role.ROWS not in roles:
        return DetectedFile(file, sources, recognised)
    complete_parts = [part for part, (table, sample) in tables.items() if holds_dataset(table, sample)]
    if len(complete_parts) != 1:
        description = f"an object with several lists of objects ({display_text(', '.join(openers), 100)})"
        raise DataError.from_code(ProblemCode.WRONG_SHAPE, found=description)
    table, complete_sample = tables[complete_parts[0]]
    table = replace(table, skipped=(*table.skipped, *(part for part in openers if part != complete_parts[0])))
    return DetectedFile(file, [], recognised, table, complete_sample)


def holds_dataset(table: RawTable, sample: Sample) -> bool:
    """Whether the rows of a table hold questions with their passages."""
    columns = assign_columns(table.names, sample)
    return columns.question is not None and columns.has_passages


def _text_sources(name: str, text: EncodedText) -> list[DataSource]:
    recognised = RecognisedFile(Format.SGML, text.encoding.name, text, problems=text.encoding.problems)
    if (marked := lines.detect_markup(text)) is not None:
        markup, opener = marked
        return [_SOURCE_BY_MARKUP[markup].open_source(name, opener, recognised)]
    if (ratings := exports.parse_rating_lines(text)) is not None:
        return _rating_sources(name, ratings, replace(recognised, format=Format.TEXT))
    kind = lines.detect_line_kind(text, is_known_column)
    if kind is None:
        return []
    recognised = replace(recognised, format=Format.TSV, delimiter="\t")
    return [_SOURCE_BY_LINE_KIND[kind].open_source(name, partial(lines.line_rows, text, kind), recognised)]


def _rating_sources(name: str, ratings: exports.Ratings, recognised: RecognisedFile) -> list[DataSource]:
    question_id, question, passage_id, grade = exports.RATING_COLUMNS
    judged = QuestionColumns(passage_id=passage_id, label=grade)
    judged = replace(judged, id=question_id) if ratings.has_ids else replace(judged, question=question)
    kind = SourceKind(Role.JUDGEMENTS, SourceShape.ENGINE, judged)
    judgements = kind.open_source(name, ratings.judgements, recognised)
    if ratings.questions is None:
        return [judgements]
    id_, text = exports.QUESTION_COLUMNS
    kind = SourceKind(Role.QUESTIONS, SourceShape.ENGINE, QuestionColumns(text, id=id_))
    return [kind.open_source(f"{name}: queries", ratings.questions, recognised), judgements]


def _dictionary_sources(name: str, recognised: RecognisedFile, dictionaries: objects.Dictionaries) -> list[DataSource]:
    is_llama_index = all(isinstance(recognised.value.get(part), dict) for part in _LLAMA_INDEX)
    shape = SourceShape.LLAMA_INDEX if is_llama_index else SourceShape.PARTS
    names, judged = _JUDGEMENT_COLUMNS[dictionaries.is_graded]
    parts = (
        (dictionaries.questions, Role.QUESTIONS, (), QuestionColumns("text", id="id", answers="response")),
        (dictionaries.passages, Role.PASSAGES, (), QuestionColumns(id="id", context="text", title="title")),
        (dictionaries.judgements, Role.JUDGEMENTS, names, judged),
    )
    return [
        SourceKind(role, shape, columns).open_source(f"{name}: {key}", opener, recognised, names)
        for (key, opener), role, names, columns in parts
    ]
