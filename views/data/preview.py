"""A file that was read but is not in use: it lives in the session until it is used or put aside."""

import hashlib
from dataclasses import asdict, dataclass, field, replace

import streamlit as st

from data.apart.exchange import UnusableFileError
from data.apart.reading import read_apart
from data.formats.columns import Columns
from data.problems import DataError
from data.questions.audit import Audit, audit
from data.questions.read import Reading
from data.split import Split, split
from data.store import StoredSet, keep
from views.resources.sets import use_set

_KEY, _KEPT = "preview", "kept_now"


@dataclass(frozen=True)
class Read:
    """What became of a file that could be read."""

    reading: Reading
    audit: Audit
    split: Split


@dataclass(frozen=True)
class Preview:
    """One file looked at. `read` is None where `error` says why it cannot be used."""

    name: str
    source: str
    title: str = ""  # what the set is called; empty: as the file
    content: bytes = field(default=b"", repr=False)
    sha256: str = ""
    columns: Columns = field(default_factory=Columns)
    available: tuple[str, ...] = ()  # the columns that can be chosen
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: Read | None = None
    error: DataError | None = None


def preview_of(content: bytes, name: str, *, source: str, title: str = "") -> Preview:
    """Read a file for the first time, its columns guessed."""
    sha256 = hashlib.sha256(content).hexdigest()
    return _read(Preview(name, source, title, content, sha256), None)


def with_columns(preview: Preview, columns: Columns) -> Preview:
    """Read the file once more with columns a person has chosen."""
    return _read(preview, columns)


def without_answers(preview: Preview) -> Preview:
    """Leave out the answers of a file that has no columns to choose from."""
    if preview.read is None:
        return preview
    reading = preview.read.reading
    questions = tuple(replace(question, answers=()) for question in reading.question_set.questions)
    question_set = replace(reading.question_set, questions=questions)
    return replace(preview, read=_looked_at(replace(reading, question_set=question_set)))


def current() -> Preview | None:
    """Return the preview of this session, if there is one."""
    found = st.session_state.get(_KEY)
    return found if isinstance(found, Preview) else None


def show(preview: Preview) -> None:
    """Make a preview the one this session shows."""
    st.session_state[_KEY] = preview
    st.session_state.pop(_KEPT, None)


def put_aside() -> None:
    """Forget the preview; the field it was uploaded in stays, with the file that may be on its way into it."""
    st.session_state.pop(_KEY, None)


def drop() -> None:
    """Forget the preview, and empty the field it was uploaded in."""
    put_aside()
    st.session_state["upload_round"] = upload_round() + 1


def upload_round() -> int:
    """Return a number that changes when the upload field is to be emptied."""
    return int(st.session_state.get("upload_round", 0))


def use(preview: Preview) -> StoredSet | None:
    """Keep the set of a preview and make it the one of every page."""
    if preview.read is None:
        return None
    kept = keep(preview.read.reading.question_set, source=preview.source)
    use_set(kept.key)
    drop()
    st.session_state[_KEPT] = kept.key
    return kept


def kept_now() -> str:
    """Return the key of the set that was kept last, empty once another file is looked at."""
    return str(st.session_state.get(_KEPT, ""))


def _read(preview: Preview, columns: Columns | None) -> Preview:
    try:
        reading = read_apart(preview.content, preview.name, asdict(columns) if columns else None)
    except UnusableFileError as error:
        guess, available, first_rows = error.proposal
        known = replace(preview, available=available, first_rows=first_rows)
        return replace(known, columns=columns or guess, read=None, error=error)
    if preview.title:
        reading = replace(reading, question_set=replace(reading.question_set, name=preview.title))
    questions = reading.question_set
    return replace(
        preview,
        title=questions.name,
        columns=reading.columns or Columns(),
        available=reading.available_columns,
        first_rows=reading.first_rows,
        read=_looked_at(reading),
        error=None,
    )


def _looked_at(reading: Reading) -> Read:
    return Read(reading, audit(reading.question_set), split(reading.question_set))
