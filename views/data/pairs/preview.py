"""The files of sentence pairs that a person is looking at: read anew with every choice, and kept where wanted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import streamlit as st

from data.apart.exchange import UnusableFileError
from data.formats.columns import PairColumns
from data.pairs.apart import read_pairs_apart
from data.pairs.audit import PairAudit, audit_pairs, split_pairs
from data.pairs.reading import LEAST_ROWS, PairFileReading, PairOptions
from data.pairs.records import PairKind, PairSet, sentence_set
from data.pairs.store import StoredPairs, keep
from data.problems import DataError, ProblemCode
from data.split import Part

_KEY, _KEPT, _COUNT, _ROUND = "pairs_preview", "pairs_kept_now", "pairs_looked_at", "pairs_upload_round"


@dataclass(frozen=True)
class Read:
    """What became of files that could be read; of sentences that were taken from elsewhere there are none."""

    pairs: PairSet
    files: tuple[PairFileReading, ...]
    rows: dict[Part, np.ndarray]
    audit: PairAudit

    @classmethod
    def of(cls, pairs: PairSet, files: Sequence[PairFileReading] = ()) -> "Read":
        """Split and audit a set."""
        rows = split_pairs(pairs)
        return cls(pairs, tuple(files), rows, audit_pairs(pairs, rows))


@dataclass(frozen=True)
class Preview:
    """Files looked at. `read` is None where `error` says why they cannot be used; `before` is what was shown then.

    `columns` and what can be chosen are those of the first file; of several the others are read by the same names.
    """

    source: str
    title: str = ""  # what the set is called; empty: as its files
    files: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)
    options: PairOptions = field(default_factory=PairOptions)
    columns: PairColumns = field(default_factory=PairColumns)
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: Read | None = None
    error: DataError | None = None
    before: "Preview | None" = None
    number: int = 0  # of what was shown in this session: with each, widgets begin anew

    @property
    def name(self) -> str:
        """What the set is called."""
        return self.title or (self.read.pairs.name if self.read else ", ".join(name for _, name in self.files))

    @property
    def kind(self) -> PairKind | None:
        """What the rows are read as; None where that could not be told."""
        return self.read.pairs.kind if self.read else self.options.kind


def preview_of(preview: Preview, options: PairOptions) -> Preview:
    """Read the files of a preview with these options."""
    try:
        reading = read_pairs_apart(preview.files, options)
    except UnusableFileError as error:
        guess, available, first_rows = error.proposal
        columns = replace(guess, **options.columns) if available else guess
        found = replace(preview, columns=columns, available=available, first_rows=first_rows)
        return replace(found, options=options, read=None, error=error)
    pairs = replace(reading.pairs, name=preview.title) if preview.title else reading.pairs
    first = reading.files[0]
    return replace(
        preview,
        options=options,
        columns=first.columns,
        available=first.available_columns,
        first_rows=first.first_rows,
        read=Read.of(pairs, reading.files),
        error=None,
    )


def preview_of_sentences(sentences: Iterable[str], *, source: str, title: str) -> Preview:
    """Look at sentences alone, each different one once."""
    pairs = sentence_set(title, sentences)
    if len(pairs) < LEAST_ROWS:
        error = DataError.of(ProblemCode.TOO_FEW_ROWS, rows=len(pairs), least=LEAST_ROWS)
        return Preview(source, title, error=error)
    return Preview(source, title, read=Read.of(pairs))


def current() -> Preview | None:
    """Return the preview of this session, if there is one."""
    found = st.session_state.get(_KEY)
    return found if isinstance(found, Preview) else None


def show(preview: Preview) -> None:
    """Make a preview the one this session shows; what was shown before stays below one that cannot be used."""
    st.session_state[_COUNT] = number = int(st.session_state.get(_COUNT, 0)) + 1
    shown, before = current(), None
    if preview.error is not None and shown is not None:
        before = shown if shown.read else shown.before
    if before is not None and preview.files and before.files == preview.files:
        before = None  # the same files, read otherwise
    st.session_state[_KEY] = replace(preview, number=number, before=before)
    st.session_state.pop(_KEPT, None)


def drop() -> None:
    """Forget the preview, and show what was shown before one that cannot be used."""
    shown = st.session_state.pop(_KEY, None)
    if isinstance(shown, Preview) and shown.before is not None:
        show(shown.before)


def forget() -> None:
    """Forget the preview, and what was shown before it."""
    st.session_state.pop(_KEY, None)


def empty_field() -> None:
    """Let the field of files be empty when it is drawn next, so that files which come then are another set."""
    st.session_state[_ROUND] = upload_round() + 1


def upload_round() -> int:
    """Return a number that changes when the field of files is to be emptied."""
    return int(st.session_state.get(_ROUND, 0))


def keep_read(preview: Preview, read: Read) -> StoredPairs:
    """Keep the set of a preview, and forget the preview. Raises `LimitError` and `OSError`."""
    kept = keep(read.pairs, source=preview.source)
    forget()
    st.session_state[_KEPT] = kept.key
    return kept


def kept_now() -> str:
    """Return the key of the set that was kept last, empty once something else is looked at."""
    return str(st.session_state.get(_KEPT, ""))
