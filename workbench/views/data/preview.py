"""Files under preview: what was read of them, and the user's choices. They stay in the session until the set is used or
the preview is closed."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Generic, TypeVar

import streamlit as st

from mrc_workbench.data.apart import File, Report, UnusableFileError
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.tables import shown as shortened
from mrc_workbench.data.formats.text import Content, encodings_to_choose
from mrc_workbench.data.layouts.members import with_distinct_names
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions import Audit, audit
from mrc_workbench.data.questions.read import Reading, read_files_apart
from mrc_workbench.data.split import Split, split
from mrc_workbench.data.store import CATALOG, display_name, keep
from mrc_workbench.workbench.views.resources.sets import use_set

P = TypeVar("P")
GivenFile = tuple[bytes, str]  # content and name
_LONGEST_NAME = 200  # of all files together
# errors that another file may resolve: of a collection that is dropped file by file
_LACKS_PASSAGES = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
_INCOMPLETE = (
    *_LACKS_PASSAGES,
    ProblemCode.MISSING_COLUMN,
    ProblemCode.ANSWERS_ALONE,
    ProblemCode.EVALUATION_OUTPUT,
    ProblemCode.DOCUMENTS_BY_NAME,
)


@dataclass(frozen=True)
class Read:
    """What was read of files, with its audit and split."""

    reading: Reading
    audit: Audit
    split: Split

    @classmethod
    def of(cls, reading: Reading) -> "Read":
        return cls(reading, audit(reading.question_set), split(reading.question_set))


@dataclass(frozen=True)
class Preview:
    """A file under preview, or several of a collection. `read` is None if `error` says why they cannot be used.

    `beside` are files dropped before that these do not complete: a later file may complete all of them.
    """

    name: str
    source: str
    title: str = ""  # what the set is called; empty: as the file
    files: tuple[GivenFile, ...] = field(default=(), repr=False)
    key: str = ""  # of their content
    columns: Columns = field(default_factory=Columns)
    available: tuple[str, ...] = ()  # the columns that can be chosen
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    candidates: tuple[Columns, ...] = ()  # the readings to choose from
    encodings: tuple[EncodingCandidate, ...] = ()  # the encodings to choose from
    encoding: str = ""  # the one that the user chose
    read: Read | None = None
    error: DataError | None = None
    number: int = 0  # of readings chosen: with each, the fields of columns begin anew
    beside: tuple[GivenFile, ...] = field(default=(), repr=False)


def preview_with(new: Sequence[GivenFile], shown: Preview | None, progress: Report | None = None) -> Preview:
    """Read new files together with those under preview if they form one dataset, else in place of them.

    A file that cannot be read is replaced by the next one; a collection may be dropped file by file. A complete dataset
    replaces another one: files of one dataset that are complete alone are dropped together.
    """
    old = [file for file in _reusable(shown) if file not in new]
    alone = preview_of(new, progress=progress)
    if shown is None or not old:
        return alone
    if _is_complete(alone) and (shown.read is None or _is_complete(shown)):
        return alone
    together = preview_of([*old, *new], progress=progress)
    if together.read is None:
        # questions and judgements of a dataset whose passages are still to come
        is_one = _lacks_passages(shown) and _lacks_passages(together, new)
    elif shown.error is not None and together.read.reading.layout is Layout.ROWS:
        is_one = False  # the new file is complete without the one that lacks passages
    else:
        is_collection = shown.read is not None and shown.read.reading.layout is not None
        is_one = is_collection or not _leaves_files_aside(together.read.reading)
    if is_one:
        return together
    if alone.error is None or together.error is None:
        return alone
    if "file" in together.error.problem.details:
        return together  # it says which file is wrong, and the others stay
    return replace(alone, beside=tuple(old))


def _is_complete(preview: Preview) -> bool:
    """Whether files alone are passages and questions whose relevant passages are known."""
    questions = preview.read.reading.question_set.questions if preview.read else ()
    return any(question.relevant for question in questions)


def _reusable(shown: Preview | None) -> list[GivenFile]:
    """The files of a preview that a new file may complete: not those of the catalog, nor those that cannot be read."""
    if shown is None or shown.source in CATALOG:
        return []
    files = [*shown.beside, *shown.files]
    problems = [shown.error.problem, *shown.error.file_problems] if shown.error is not None else []
    problems += shown.read.reading.gaps if shown.read is not None else []
    unresolved = (*_INCOMPLETE, ProblemCode.ONLY_IDS, ProblemCode.NO_KNOWN_COLUMN)  # other files may resolve them
    failed = {one.details["file"] for one in problems if "file" in one.details and one.code not in unresolved}
    if shown.error is not None and shown.error.problem.code not in _INCOMPLETE and not failed:
        return list(shown.beside)
    names = with_distinct_names([File(Content(b""), name) for _, name in files])
    return [file for file, named in zip(files, names, strict=True) if shortened(named.name, 80) not in failed]


def _lacks_passages(shown: Preview, files: Sequence[GivenFile] = ()) -> bool:
    """Whether files are parts of a collection, these `files` among them, and only its passages are missing."""
    if shown.error is None or shown.error.problem.code not in _LACKS_PASSAGES:
        return False
    parts = str(shown.error.problem.details["found"]).split(", ")
    return all(name in parts for _, name in files)


def _leaves_files_aside(reading: Reading) -> bool:
    """Whether a file was not read, or holds questions that the passages of the other files do not answer."""
    codes = {gap.code for gap in reading.gaps}
    has_lone_questions = reading.layout is Layout.ROWS and ProblemCode.UNJUDGED_QUESTIONS in codes
    has_unread_file = any("file" in gap.details for gap in reading.gaps)
    return ProblemCode.LEFT_ASIDE in codes or has_lone_questions or has_unread_file


def preview_of(
    files: Sequence[GivenFile], *, source: str = "", title: str = "", progress: Report | None = None
) -> Preview:
    """Read files for the first time, columns guessed."""
    name = shortened(", ".join(name for _, name in files), _LONGEST_NAME)
    digests = [hashlib.sha256(content).hexdigest() for content, _ in files]
    key = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    return read_again(Preview(name, source or name, title, tuple(files), key), None, progress)


def read_again(preview: Preview, columns: Columns | None, progress: Report | None = None) -> Preview:
    """Read the files with the columns that the user chose; None: they are guessed."""
    try:
        files = [File(Content(content, preview.encoding), name) for content, name in preview.files]
        reading = read_files_apart(files, asdict(columns) if columns else None, progress)
    except UnusableFileError as error:
        proposal = error.proposal
        return replace(
            preview,
            columns=columns or proposal.columns,
            available=proposal.available,
            first_rows=proposal.first_rows,
            candidates=proposal.candidates,
            encodings=proposal.encodings,
            read=None,
            error=error,
        )
    if preview.title:
        reading = replace(reading, question_set=replace(reading.question_set, name=preview.title))
    return replace(
        preview,
        title=reading.question_set.name,
        columns=reading.columns or Columns(),
        available=reading.available_columns,
        first_rows=reading.first_rows,
        candidates=(),
        encodings=preview.encodings if preview.encoding else encodings_if_guessed(preview.files, reading.problems),
        read=Read.of(reading),
        error=None,
    )


def encodings_if_guessed(files: Sequence[GivenFile], problems: Sequence[Problem]) -> tuple[EncodingCandidate, ...]:
    """Return the encodings to choose from if the one that files were read in is a guess."""
    if any(problem.code is ProblemCode.GUESSED_ENCODING for problem in problems):
        return encodings_to_choose(Content(content) for content, _ in files)
    return ()


def without_answers(preview: Preview) -> Preview:
    """Leave out the answers of a file that has no columns to choose from."""
    if preview.read is None:
        return preview
    reading = preview.read.reading
    questions = tuple(replace(question, answers=()) for question in reading.question_set.questions)
    question_set = replace(reading.question_set, questions=questions)
    return replace(preview, read=Read.of(replace(reading, question_set=question_set)))


class PreviewState(Generic[P]):
    """The session's preview of one kind, its upload field, and the set that was stored last."""

    def __init__(self, kind: type[P], prefix: str = "") -> None:
        self._kind = kind
        self._shown, self._stored, self._round = f"{prefix}preview", f"{prefix}kept_now", f"{prefix}upload_round"

    def current(self) -> P | None:
        shown = st.session_state.get(self._shown)
        return shown if isinstance(shown, self._kind) else None

    def show(self, preview: P) -> None:
        st.session_state[self._shown] = preview
        st.session_state.pop(self._stored, None)

    def forget(self) -> None:
        """Forget the preview; the upload field stays, with a file that may be on its way."""
        st.session_state.pop(self._shown, None)

    def empty_field(self) -> None:
        """Empty the upload field when it is drawn next, so that the next file is another set."""
        st.session_state[self._round] = self.upload_round() + 1

    def upload_round(self) -> int:
        return int(st.session_state.get(self._round, 0))

    def note_stored(self, key: str) -> None:
        self.forget()
        st.session_state[self._stored] = key

    def stored_last(self) -> str:
        """Return the key of the set that was stored last, empty once another preview is shown."""
        return str(st.session_state.get(self._stored, ""))


_STATE = PreviewState(Preview)
current, show, stored_last = _STATE.current, _STATE.show, _STATE.stored_last
empty_field, upload_round = _STATE.empty_field, _STATE.upload_round


def drop() -> None:
    """Forget the preview, and empty the field it was uploaded in."""
    _STATE.forget()
    empty_field()


def use(preview: Preview, read: Read, name: str = "") -> None:
    """Store the set of a preview, under a name if given, and use it everywhere. Raises `LimitError` and `OSError`."""
    question_set = read.reading.question_set
    stored = keep(replace(question_set, name=display_name(name) or question_set.name), source=preview.source)
    use_set(stored.key)
    drop()
    _STATE.note_stored(stored.key)
