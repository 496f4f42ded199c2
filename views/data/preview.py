"""The ways to a set: those that are kept, of questions and of pairs, those that are known, and files. What was read but
is not in use lives in the session until it is used or put aside."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import streamlit as st

from data.apart import File, UnusableFileError
from data.collection import display_name
from data.formats.columns import Columns
from data.formats.tables import shown as shortened
from data.formats.text import Content
from data.layouts.members import with_distinct_names
from data.problems import DataError, ProblemCode
from data.questions.audit import Audit, audit
from data.questions.read import Reading, read_files_apart
from data.split import Split, split
from data.store import CATALOG, CatalogEntry, Progress, keep, obtain
from views.resources.sets import SAMPLE, use_set
from views.ui.words import duration, language, word
from views.uploads import translate_field

P = TypeVar("P")
GivenFile = tuple[bytes, str]  # content and name
MEGABYTE = 10**6  # bytes
_SAMPLE_CSV = Path(__file__).parents[1] / "locales"  # with a `sample.csv` for each language
# errors that another file may resolve: of a collection that is dropped file by file
_LACKS_PASSAGES = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
_INCOMPLETE = (*_LACKS_PASSAGES, ProblemCode.MISSING_COLUMN)


@dataclass(frozen=True)
class Read:
    """What became of a file that could be read."""

    reading: Reading
    audit: Audit
    split: Split


@dataclass(frozen=True)
class Preview:
    """A file looked at, or several of a collection. `read` is None where `error` says why they cannot be used.

    `beside` are files dropped before, which neither these nor they complete: a later file may complete all of them.
    """

    name: str
    source: str
    title: str = ""  # what the set is called; empty: as the file
    files: tuple[GivenFile, ...] = field(default=(), repr=False)
    sha256: str = ""
    columns: Columns = field(default_factory=Columns)
    available: tuple[str, ...] = ()  # the columns that can be chosen
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: Read | None = None
    error: DataError | None = None
    beside: tuple[GivenFile, ...] = field(default=(), repr=False)


def preview_with(new: Sequence[GivenFile], shown: Preview | None) -> Preview:
    """Read new files together with those under preview if they form one dataset, else in place of them.

    A file that cannot be read is replaced by the next one; a collection may be dropped file by file.
    """
    old = [file for file in _reusable(shown) if file not in new]
    if shown is None or not old:
        return preview_of(new)
    together = preview_of([*old, *new])
    if _belong_together(together, shown, new):
        return together
    alone = preview_of(new)
    if alone.error is None or together.error is None:
        return alone
    if "file" in together.error.problem.details:
        return together  # it says which file is wrong, and the others stay
    return replace(alone, beside=tuple(old))


def _belong_together(together: Preview, shown: Preview, new: Sequence[GivenFile]) -> bool:
    """Whether files are one dataset, or questions and judgements of one whose passages are still to come."""
    if together.read is not None:
        is_collection = shown.read is not None and shown.read.reading.layout is not None
        return is_collection or not _leaves_files_aside(together.read)
    return _lacks_passages(shown) and _lacks_passages(together, new)


def _reusable(shown: Preview | None) -> list[GivenFile]:
    """The files of a preview that a new file may complete: not those of the catalog, nor those that cannot be read."""
    if shown is None or shown.source in CATALOG:
        return []
    files = [*shown.beside, *shown.files]
    if shown.error is None or shown.error.problem.code in _INCOMPLETE:
        return files
    failed = shown.error.problem.details.get("file")
    if failed is None:
        return list(shown.beside)
    names = with_distinct_names([File(Content(b""), name) for _, name in files])
    return [file for file, named in zip(files, names, strict=True) if shortened(named.name, 80) != failed]


def _lacks_passages(shown: Preview, files: Sequence[GivenFile] = ()) -> bool:
    """Whether files are parts of a collection, these `files` among them, and only its passages are missing."""
    if shown.error is None or shown.error.problem.code not in _LACKS_PASSAGES:
        return False
    parts = str(shown.error.problem.details["found"]).split(", ")
    return all(name in parts for _, name in files)


def _leaves_files_aside(found: Read) -> bool:
    return any(gap.code is ProblemCode.LEFT_ASIDE for gap in found.reading.gaps)


def preview_of(files: Sequence[GivenFile], *, source: str = "", title: str = "") -> Preview:
    """Read files for the first time, columns guessed."""
    name = ", ".join(name for _, name in files)
    digests = [hashlib.sha256(content).hexdigest() for content, _ in files]
    sha256 = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return read_again(Preview(name, source or name, title, tuple(files), sha256), None)


def read_again(preview: Preview, columns: Columns | None) -> Preview:
    """Read the files with the columns a person has chosen; None: they are guessed."""
    try:
        files = [File(Content(content), name) for content, name in preview.files]
        reading = read_files_apart(files, asdict(columns) if columns else None)
    except UnusableFileError as error:
        guess, available, first_rows = error.proposal[:3]
        known = replace(preview, available=available, first_rows=first_rows)
        return replace(known, columns=columns or guess, read=None, error=error)
    if preview.title:
        reading = replace(reading, question_set=replace(reading.question_set, name=preview.title))
    return replace(
        preview,
        title=reading.question_set.name,
        columns=reading.columns or Columns(),
        available=reading.available_columns,
        first_rows=reading.first_rows,
        read=_looked_at(reading),
        error=None,
    )


def without_answers(preview: Preview) -> Preview:
    """Leave out the answers of a file that has no columns to choose from."""
    if preview.read is None:
        return preview
    reading = preview.read.reading
    questions = tuple(replace(question, answers=()) for question in reading.question_set.questions)
    question_set = replace(reading.question_set, questions=questions)
    return replace(preview, read=_looked_at(replace(reading, question_set=question_set)))


def _looked_at(reading: Reading) -> Read:
    return Read(reading, audit(reading.question_set), split(reading.question_set))


class LookedAt(Generic[P]):
    """What a session looks at and has not kept: previews of one kind, under the names of this session's state."""

    def __init__(self, kind: type[P], shown: str, kept: str, emptied: str) -> None:
        self._kind, self._shown, self._kept, self._emptied = kind, shown, kept, emptied

    def current(self) -> P | None:
        found = st.session_state.get(self._shown)
        return found if isinstance(found, self._kind) else None

    def show(self, preview: P) -> None:
        st.session_state[self._shown] = preview
        st.session_state.pop(self._kept, None)

    def put_aside(self) -> None:
        """Forget the preview; the field it was uploaded in stays, with the file that may be on its way into it."""
        st.session_state.pop(self._shown, None)

    def empty_field(self) -> None:
        """Let the field of files be empty when it is drawn next, so that what comes then is another set."""
        st.session_state[self._emptied] = self.upload_round() + 1

    def upload_round(self) -> int:
        """Return a number that changes when the field of files is to be emptied."""
        return int(st.session_state.get(self._emptied, 0))

    def note_kept(self, key: str) -> None:
        """Forget the preview, whose set was kept under this key."""
        self.put_aside()
        st.session_state[self._kept] = key

    def kept_now(self) -> str:
        """Return the key of the set that was kept last, empty once something else is looked at."""
        return str(st.session_state.get(self._kept, ""))


_FILES = LookedAt(Preview, "preview", "kept_now", "upload_round")  # of the session
current, show, put_aside, kept_now = _FILES.current, _FILES.show, _FILES.put_aside, _FILES.kept_now


def drop() -> None:
    """Forget the preview, and empty the field it was uploaded in."""
    put_aside()
    _FILES.empty_field()


def use(preview: Preview, read: Read, name: str = "") -> None:
    """Store the set of a preview, under a name where one is given, and make it the one of every page.

    Raises `LimitError` and `OSError`.
    """
    question_set = read.reading.question_set
    kept = keep(replace(question_set, name=display_name(name) or question_set.name), source=preview.source)
    use_set(kept.key)
    drop()
    _FILES.note_kept(kept.key)


def draw_ways() -> None:
    """Draw the field for a file and, while none is looked at, the sets that are known; each ends in a preview."""
    _upload(is_large=current() is None)
    if current() is not None:
        return
    korquad = CATALOG["korquad-v1-dev"]
    size = f"{korquad.size / MEGABYTE:.1f}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.no_file"), width="content")
        is_sample = _button(CATALOG[SAMPLE], word("data_page.sample"), word("data_page.sample_about"), "visibility")
        title = word("data_page.korquad_download", size=size)
        is_korquad = _button(korquad, title, word("data_page.korquad_about"), "download")
    if is_sample:
        _look(CATALOG[SAMPLE], word("data_page.sample"))
    if is_korquad:
        _look(korquad, korquad.title)


def _button(entry: CatalogEntry, label: str, about: str, icon: str) -> bool:
    explained = f"{about}  \n{word('data_page.licence', licence=entry.licence)}"
    return st.button(label, key=f"look_{entry.id}", type="tertiary", icon=f":material/{icon}:", help=explained)


def _look(entry: CatalogEntry, title: str) -> None:
    drop()
    bar = st.empty()
    try:
        content = obtain(entry, following(bar.progress))
    except DataError as error:
        show(Preview(entry.path.name, entry.id, title, error=error))
        st.rerun()
    bar.empty()
    with st.spinner(word("data_page.reading"), show_time=True):
        show(preview_of([(content, entry.path.name)], source=entry.id, title=entry.title))
    st.rerun()


def _upload(*, is_large: bool) -> None:
    key = f"upload_{_FILES.upload_round()}"
    translate_field(key, is_large=is_large)
    limit = f"{st.get_option('server.maxUploadSize'):,}"
    files = st.file_uploader(
        word("data_page.upload"),
        accept_multiple_files=True,
        key=key,
        help=word("data_page.upload_help", megabytes=limit),
    )
    if is_large:
        _formats()
    if files:
        new = [(file.getvalue(), file.name) for file in files]
        _FILES.empty_field()  # the files are held by the preview
        with st.spinner(word("data_page.reading"), show_time=True):
            show(preview_with(new, current()))
        st.rerun()


def _formats() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.formats"), width="content")
        st.download_button(
            word("data_page.sample_csv"),
            sample_csv(language()),
            word("data_page.sample_csv_name"),
            "text/csv",
            key="sample_csv",
            type="tertiary",
            icon=":material/download:",
            help=word("data_page.sample_csv_help"),
            on_click="ignore",
        )


def sample_csv(language: str) -> bytes:
    """Return a small file to start from, as UTF-8 with a byte order mark: spreadsheets read it as such then."""
    return (_SAMPLE_CSV / language / "sample.csv").read_text(encoding="utf-8").encode("utf-8-sig")


def following(draw_bar: Callable[..., object]) -> Progress:
    """Return what draws a download's bar, with the time left at the pace so far."""
    started = time.monotonic()

    def follow(done: int, total: int) -> None:
        left = duration((time.monotonic() - started) * (total - done) / done)
        megabytes = {"done": f"{done / MEGABYTE:.1f}", "total": f"{total / MEGABYTE:.1f}"}
        draw_bar(done / total, text=word("data_page.downloading", **megabytes, left=left))

    return follow
