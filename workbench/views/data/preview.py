"""Previews of files with questions: the dataset read from them, and the user's choices. The session stores them."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Generic, TypeVar

import streamlit as st

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.tables import display_text as shortened
from mrc_workbench.data.formats.text import Content, encodings_to_choose
from mrc_workbench.data.layouts.members import with_distinct_names
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions import Audit, audit
from mrc_workbench.data.questions.read import QuestionSetReading, read_files_in_subprocess
from mrc_workbench.data.split import Split, split
from mrc_workbench.data.store import CATALOG, display_name, save_question_set
from mrc_workbench.data.subprocess_reader import File, OnFilesRead, UnusableFileError
from mrc_workbench.workbench.views.resources.sets import use_set

P = TypeVar("P")
GivenFile = tuple[bytes, str]  # content and name
_LONGEST_NAME = 200  # of all files together
# errors that further files of a collection may resolve
_LACKS_PASSAGES = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
_INCOMPLETE = (
    *(*_LACKS_PASSAGES, ProblemCode.MISSING_COLUMN, ProblemCode.ANSWERS_ALONE),
    *(ProblemCode.EVALUATION_OUTPUT, ProblemCode.DOCUMENTS_BY_NAME),
)


@dataclass(frozen=True)
class AuditedDataset:
    """The dataset of some files, with its audit and split."""

    reading: QuestionSetReading
    audit: Audit
    split: Split

    @classmethod
    def of(cls, reading: QuestionSetReading) -> "AuditedDataset":
        return cls(reading, audit(reading.question_set), split(reading.question_set))


@dataclass(frozen=True)
class DatasetPreview:
    """A preview of one file or of a collection. If `read` is None, `error` has the reason.

    `beside` are files uploaded earlier that these do not complete: a later file may complete all of them.
    """

    name: str
    source: str
    title: str = ""  # the name of the set; empty: that of the file
    files: tuple[GivenFile, ...] = field(default=(), repr=False)
    key: str = ""  # a hash of their content
    columns: QuestionColumns = field(default_factory=QuestionColumns)
    available: tuple[str, ...] = ()  # columns to choose from
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    candidates: tuple[QuestionColumns, ...] = ()  # readings to choose from
    encodings: tuple[EncodingCandidate, ...] = ()
    encoding: str = ""  # the selected encoding
    read: AuditedDataset | None = None
    error: DataError | None = None
    number: int = 0  # of readings selected; each resets the column fields
    beside: tuple[GivenFile, ...] = field(default=(), repr=False)


def preview_with(
    new: Sequence[GivenFile], preview: DatasetPreview | None, progress: OnFilesRead | None = None
) -> DatasetPreview:
    """Read new files together with the previewed ones if they form one dataset, else instead of them.

    Users may upload a collection file by file. A new file replaces an unreadable one, and a complete dataset replaces
    another complete one.
    """
    old = [file for file in _reusable(preview) if file not in new]
    new_preview = preview_of(new, progress=progress)
    if preview is None or not old:
        return new_preview
    if _is_complete(new_preview) and (preview.read is None or _is_complete(preview)):
        return new_preview
    combined = preview_of([*old, *new], progress=progress)
    if combined.read is None:
        # questions and judgements; the file of the passages may follow
        is_same_dataset = _lacks_passages(preview) and _lacks_passages(combined, new)
    elif preview.error is not None and combined.read.reading.layout is Layout.ROWS:
        is_same_dataset = False  # the new file is complete
    else:
        is_collection = preview.read is not None and preview.read.reading.layout is not None
        is_same_dataset = is_collection or not _leaves_files_aside(combined.read.reading)
    if is_same_dataset:
        return combined
    if new_preview.error is None or combined.error is None:
        return new_preview
    if "file" in combined.error.problem.details:
        return combined  # the error names the wrong file, and the others stay
    return replace(new_preview, beside=tuple(old))


def _is_complete(preview: DatasetPreview) -> bool:
    """Whether the files have passages, and questions with known relevant passages."""
    questions = preview.read.reading.question_set.questions if preview.read else ()
    return any(question.relevant for question in questions)


def _reusable(preview: DatasetPreview | None) -> list[GivenFile]:
    """Return the files that a new file may complete: readable ones that are not from the catalog."""
    if preview is None or preview.source in CATALOG:
        return []
    files = [*preview.beside, *preview.files]
    problems = [preview.error.problem, *preview.error.file_problems] if preview.error is not None else []
    problems += preview.read.reading.gaps if preview.read is not None else []
    unresolved = (*_INCOMPLETE, ProblemCode.ONLY_IDS, ProblemCode.NO_KNOWN_COLUMN)  # other files may resolve them
    failed = {problem.details.get("file", "") for problem in problems if problem.code not in unresolved} - {""}
    if preview.error is not None and preview.error.problem.code not in _INCOMPLETE and not failed:
        return list(preview.beside)
    names = with_distinct_names([File(Content(b""), name) for _, name in files])
    return [file for file, named in zip(files, names, strict=True) if shortened(named.name, 80) not in failed]


def _lacks_passages(preview: DatasetPreview, files: Sequence[GivenFile] = ()) -> bool:
    """Whether only the passages of a collection are missing; `files` must be parts of it."""
    if preview.error is None or preview.error.problem.code not in _LACKS_PASSAGES:
        return False
    parts = str(preview.error.problem.details["available"]).split(", ")
    return all(name in parts for _, name in files)


def _leaves_files_aside(reading: QuestionSetReading) -> bool:
    """Whether a file was not read, or has questions that the passages of the other files do not answer."""
    codes = {gap.code for gap in reading.gaps}
    has_lone_questions = reading.layout is Layout.ROWS and ProblemCode.UNJUDGED_QUESTIONS in codes
    has_unread_file = any("file" in gap.details for gap in reading.gaps)
    return ProblemCode.LEFT_ASIDE in codes or has_lone_questions or has_unread_file


def preview_of(
    files: Sequence[GivenFile], *, source: str = "", title: str = "", progress: OnFilesRead | None = None
) -> DatasetPreview:
    name = shortened(", ".join(name for _, name in files), _LONGEST_NAME)
    digests = [hashlib.sha256(content).hexdigest() for content, _ in files]
    key = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    return read_again(DatasetPreview(name, source or name, title, tuple(files), key), None, progress)


def read_again(
    preview: DatasetPreview, columns: QuestionColumns | None, progress: OnFilesRead | None = None
) -> DatasetPreview:
    """Read the files with the selected columns; None: detect them."""
    try:
        files = [File(Content(content, preview.encoding), name) for content, name in preview.files]
        reading = read_files_in_subprocess(files, asdict(columns) if columns else None, progress)
    except UnusableFileError as error:
        proposal = error.proposal._asdict() | ({"columns": columns} if columns else {})
        return replace(preview, **proposal, read=None, error=error)
    if preview.title:
        reading = replace(reading, question_set=replace(reading.question_set, name=preview.title))
    return replace(
        preview,
        title=reading.question_set.name,
        columns=reading.columns or QuestionColumns(),
        available=reading.available_columns,
        first_rows=reading.first_rows,
        candidates=(),
        encodings=preview.encodings if preview.encoding else encodings_if_guessed(preview.files, reading.problems),
        read=AuditedDataset.of(reading),
        error=None,
    )


def encodings_if_guessed(files: Sequence[GivenFile], problems: Sequence[Problem]) -> tuple[EncodingCandidate, ...]:
    if any(problem.code is ProblemCode.GUESSED_ENCODING for problem in problems):
        return encodings_to_choose(Content(content) for content, _ in files)
    return ()


def without_answers(preview: DatasetPreview) -> DatasetPreview:
    """Return the preview without answers, for a file without columns to choose from."""
    if preview.read is None:
        return preview
    reading = preview.read.reading
    questions = tuple(replace(question, answers=()) for question in reading.question_set.questions)
    question_set = replace(reading.question_set, questions=questions)
    return replace(preview, read=AuditedDataset.of(replace(reading, question_set=question_set)))


@dataclass(frozen=True)
class PreviewState(Generic[P]):
    """The preview of one kind in the session, its upload field, and the set that was stored last."""

    kind: type[P]
    prefix: str = ""  # of the session keys

    def current(self) -> P | None:
        preview = st.session_state.get(f"{self.prefix}preview")
        return preview if isinstance(preview, self.kind) else None

    def show(self, preview: P) -> None:
        st.session_state[f"{self.prefix}preview"] = preview
        st.session_state.pop(f"{self.prefix}kept_now", None)

    def forget(self) -> None:
        """Forget the preview, but not a file that is being uploaded."""
        st.session_state.pop(f"{self.prefix}preview", None)

    def empty_field(self) -> None:
        st.session_state[f"{self.prefix}upload_round"] = self.upload_round() + 1

    def upload_round(self) -> int:
        return int(st.session_state.get(f"{self.prefix}upload_round", 0))

    def note_stored(self, key: str) -> None:
        self.forget()
        st.session_state[f"{self.prefix}kept_now"] = key

    def stored_last(self) -> str:
        """Return the key of the set that was stored last, empty after the next preview."""
        return str(st.session_state.get(f"{self.prefix}kept_now", ""))


STATE = PreviewState(DatasetPreview)


def drop() -> None:
    STATE.forget()
    STATE.empty_field()


def use(preview: DatasetPreview, read: AuditedDataset, name: str = "") -> None:
    """Store the set of a preview, under a name if given, and use it everywhere. Raises `LimitError` and `OSError`."""
    question_set = read.reading.question_set
    stored = save_question_set(
        replace(question_set, name=display_name(name) or question_set.name), source=preview.source
    )
    use_set(stored.key)
    drop()
    STATE.note_stored(stored.key)
