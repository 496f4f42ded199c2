"""What can be wrong with given data, in words that say what to do next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class ProblemCode(StrEnum):
    """One kind of problem. Pages find their own text for it by this code."""

    # the whole file is refused
    EMPTY_FILE = "empty_file"
    TOO_LARGE = "too_large"
    UNREADABLE_FILE = "unreadable_file"
    UNKNOWN_FORMAT = "unknown_format"
    UNKNOWN_ENCODING = "unknown_encoding"
    BROKEN_JSON = "broken_json"
    NESTED_TOO_DEEP = "nested_too_deep"
    WRONG_SHAPE = "wrong_shape"
    NOT_A_WORKBOOK = "not_a_workbook"
    OLD_WORKBOOK = "old_workbook"
    BROKEN_WORKBOOK = "broken_workbook"
    BROKEN_PARQUET = "broken_parquet"
    MISSING_COLUMN = "missing_column"
    UNKNOWN_COLUMN = "unknown_column"
    NO_GOOD_ROW = "no_good_row"
    NO_QUESTION = "no_question"
    # a row is left out
    BROKEN_LINE = "broken_line"
    NOT_AN_OBJECT = "not_an_object"
    FIELD_COUNT = "field_count"
    BROKEN_QUOTES = "broken_quotes"
    FORMULA_ERROR = "formula_error"
    NOT_TEXT = "not_text"
    EMPTY_CONTEXT = "empty_context"
    EMPTY_QUESTION = "empty_question"
    DUPLICATE_ID = "duplicate_id"
    REPEATED_ROW = "repeated_row"
    BROKEN_PART = "broken_part"
    # everything is used, something was mended
    MENDED_TEXT = "mended_text"
    MENDED_BYTES = "mended_bytes"
    # catalog and store
    DOWNLOAD_FAILED = "download_failed"
    ALTERED_DOWNLOAD = "altered_download"
    UNKNOWN_SET = "unknown_set"
    BROKEN_SET = "broken_set"


ROW_PREFIX = "Row {row}: "

MENDED = frozenset({ProblemCode.MENDED_TEXT, ProblemCode.MENDED_BYTES})

TEMPLATES: dict[ProblemCode, str] = {
    ProblemCode.EMPTY_FILE: "The file is empty. Choose one with questions and the passages they are about.",
    ProblemCode.TOO_LARGE: (
        "The file holds or claims {size} {unit}; at most {limit} are read. Split it into smaller files."
    ),
    ProblemCode.UNREADABLE_FILE: "{path} cannot be read ({reason}). Check the path and its permissions.",
    ProblemCode.UNKNOWN_FORMAT: (
        "This is no format known here ({found}). Give SQuAD JSON, JSON, JSONL, CSV, TSV, Excel (.xlsx) or "
        "Parquet; unpack an archive first."
    ),
    ProblemCode.UNKNOWN_ENCODING: (
        "The text is neither UTF-8, UTF-16 nor CP949 (EUC-KR): byte {byte} in line {line} fits none of them. "
        "Save the file as UTF-8 and try again."
    ),
    ProblemCode.BROKEN_JSON: (
        "The JSON breaks at line {line}, column {column} ({reason}). The file may be cut short: get it "
        "again, or mend it there."
    ),
    ProblemCode.NESTED_TOO_DEEP: (
        "The JSON is nested too deeply to be read. Give SQuAD JSON, or a list of objects with a question and "
        "a context each."
    ),
    ProblemCode.WRONG_SHAPE: (
        "The JSON is {found}. Expected SQuAD JSON (data, paragraphs, qas), or one list of objects with a "
        "question and a context each."
    ),
    ProblemCode.NOT_A_WORKBOOK: (
        "This zip archive is no Excel workbook. Unpack it and give the file inside, or save as .xlsx."
    ),
    ProblemCode.OLD_WORKBOOK: (
        "This is an old Excel workbook (.xls) or one with a password. Save it as .xlsx without a password."
    ),
    ProblemCode.BROKEN_WORKBOOK: (
        "The Excel workbook cannot be read ({reason}). Open it in Excel and save it again as .xlsx or CSV."
    ),
    ProblemCode.BROKEN_PARQUET: (
        "The Parquet file cannot be read ({reason}). It may be cut short: get it or write it again."
    ),
    ProblemCode.MISSING_COLUMN: (
        "No column for the {role} was found. The columns are: {found}. Looked for names such as {wanted}. "
        "Rename the column, or say which one it is."
    ),
    ProblemCode.UNKNOWN_COLUMN: (
        "There is no column {name} for the {role}. The columns are: {found}. Choose one of them."
    ),
    ProblemCode.NO_GOOD_ROW: (
        "None of the {rows:,} rows can be used. The first problem: {first} Mend it and try again."
    ),
    ProblemCode.NO_QUESTION: "The file holds no question. Add rows with a question and a context each.",
    ProblemCode.BROKEN_LINE: (
        "the line is no complete JSON: it breaks at column {column} ({reason}). Write one object a line."
    ),
    ProblemCode.NOT_AN_OBJECT: (
        "an object with a question and a context was expected here, not {found}. Mend or remove it."
    ),
    ProblemCode.FIELD_COUNT: (
        "fields in this row: {found}, fields in the header: {expected}. Put quotation marks around a field "
        "that holds the delimiter."
    ),
    ProblemCode.BROKEN_QUOTES: (
        "a quotation mark is not closed or stands inside a quoted field. Close it, or write it twice."
    ),
    ProblemCode.FORMULA_ERROR: (
        "the cell {column} holds the formula error {error} where text was expected. Mend the formula or type the text."
    ),
    ProblemCode.NOT_TEXT: "the column {column} holds {found} where one text was expected. Give one text.",
    ProblemCode.EMPTY_CONTEXT: "the context ({column}) is empty. Fill in the passage, or remove the row.",
    ProblemCode.EMPTY_QUESTION: "the question ({column}) is empty. Fill it in, or remove the row.",
    ProblemCode.DUPLICATE_ID: (
        "the id {id} already belongs to another question, in row {first}. Give each question its own id."
    ),
    ProblemCode.REPEATED_ROW: "it repeats row {first}, and was counted once. Nothing needs to be done.",
    ProblemCode.BROKEN_PART: (
        "{place} is {found} where {expected} was expected, and was left out. Mend it if it holds questions."
    ),
    ProblemCode.MENDED_TEXT: (
        "characters that no text may hold (NUL, half a surrogate pair, broken bytes) were replaced by �. "
        "Check the row in the original file."
    ),
    ProblemCode.MENDED_BYTES: (
        "Bytes that are not valid UTF-8 were replaced by � (places: {count}, the first in line {line}). "
        "The file may be damaged: get it again if you can."
    ),
    ProblemCode.DOWNLOAD_FAILED: (
        "{title} could not be downloaded from {address} ({reason}). Get the file by hand and upload it here."
    ),
    ProblemCode.ALTERED_DOWNLOAD: (
        "What {address} gave is not the known file of {title}: {size} bytes, checksum {found}, expected "
        "{expected}. Get the file by hand and upload it here."
    ),
    ProblemCode.UNKNOWN_SET: ("There is no question set {reference}. Give a path to a file, or one of: {known}."),
    ProblemCode.BROKEN_SET: (
        "The kept question set {key} cannot be read ({reason}). Remove it and read its source file again."
    ),
}


@dataclass(frozen=True)
class Problem:
    """One problem: its code, the row as a person counts it (None for the whole file), its values."""

    code: ProblemCode
    row: int | None = None
    details: dict[str, str | int] = field(default_factory=dict)

    @classmethod
    def of(cls, code: ProblemCode, row: int | None = None, /, **details: str | int) -> "Problem":
        """Make a problem from its template's values."""
        return cls(code, row, details)

    @property
    def message(self) -> str:
        """The problem in plain English: what was given, what was expected, what to do next."""
        template = TEMPLATES[self.code]
        if self.row is None:
            return (template[0].upper() + template[1:]).format(**self.details)
        return (ROW_PREFIX + template).format(row=self.row, **self.details)

    @property
    def leaves_out_row(self) -> bool:
        """Whether the row at fault is not part of the question set."""
        return self.row is not None and self.code not in MENDED


class DataError(Exception):
    """Data that cannot be used. `problem` says why; `others` are the problems of single rows behind it."""

    def __init__(self, problem: Problem, others: Sequence[Problem] = ()) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.others = tuple(others)

    @classmethod
    def of(cls, code: ProblemCode, row: int | None = None, /, **details: str | int) -> "DataError":
        """Make the error for a problem with its template's values."""
        return cls(Problem(code, row, details))
