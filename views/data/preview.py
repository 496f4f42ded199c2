"""The ways to a set: those that are kept, of questions and of pairs, those that are known, and files. What was read but
is not in use lives in the session until it is used or put aside."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Generic, TypeVar

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from data import store
from data.apart import File, UnusableFileError
from data.collection import KeptSet
from data.formats.columns import Columns
from data.formats.text import Content
from data.pairs import store as pair_store
from data.pairs.store import StoredPairs
from data.problems import DataError, ProblemCode
from data.questions.audit import Audit, audit
from data.questions.read import Reading, read_files_apart
from data.split import Split, split
from data.store import CATALOG, CatalogEntry, Progress, keep, obtain
from views.names import pairs_name, set_name
from views.resources.sets import SAMPLE, stored_sets, use_set
from views.ui.problems import draw_damaged, draw_remove
from views.ui.state import remember, remembered
from views.ui.words import duration, moment, plain, word
from views.uploads import translate_field

P = TypeVar("P")
MEGABYTE = 10**6  # bytes
_READ, _REPLACED = "upload_read", "upload_replaced"  # the files of the field that were read, and that count no more
_PAIRS = "pairs"  # in the address: those to look at


@dataclass(frozen=True)
class Read:
    """What became of a file that could be read."""

    reading: Reading
    audit: Audit
    split: Split


@dataclass(frozen=True)
class Preview:
    """A file looked at, or several of a collection. `read` is None where `error` says why they cannot be used."""

    name: str
    source: str
    title: str = ""  # what the set is called; empty: as the file
    files: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)  # contents and names
    sha256: str = ""
    columns: Columns = field(default_factory=Columns)
    available: tuple[str, ...] = ()  # the columns that can be chosen
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: Read | None = None
    error: DataError | None = None


def preview_of(files: Sequence[tuple[bytes, str]], *, source: str = "", title: str = "") -> Preview:
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
        guess, available, first_rows = error.proposal
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


def use(preview: Preview, read: Read) -> None:
    """Keep the set of a preview and make it the one of every page. Raises `LimitError` and `OSError`."""
    kept = keep(read.reading.question_set, source=preview.source)
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
    st.session_state[_READ] = []
    st.rerun()


def _upload(*, is_large: bool) -> None:
    key = f"upload_{_FILES.upload_round()}"
    translate_field(key, is_large=is_large)

    def forget_if_emptied() -> None:
        if not st.session_state.get(key):
            put_aside()  # other files may come into the same field: those that replace these

    limit = f"{st.get_option('server.maxUploadSize'):,}"
    files = st.file_uploader(
        word("data_page.upload"),
        accept_multiple_files=True,
        key=key,
        help=word("data_page.upload_help", megabytes=limit),
        on_change=forget_if_emptied,
    )
    # the field keeps its files on every rerun: only new ones are read, and what is left when one is taken away
    if files and st.session_state.get(_READ) != [file.file_id for file in files]:
        _open_uploaded(files)


def _open_uploaded(files: Sequence[UploadedFile]) -> None:
    """Look at the files of the field together; where new ones make nothing with the others, they replace them."""
    before = st.session_state.get(_READ, [])
    replaced: set[str] = st.session_state.setdefault(_REPLACED, set())
    shown = [file for file in files if file.file_id not in replaced] or list(files)
    new = [file for file in shown if file.file_id not in before]
    st.session_state[_READ] = [file.file_id for file in files]
    with st.spinner(word("data_page.reading"), show_time=True):
        found = preview_of([(file.getvalue(), file.name) for file in shown])
        if found.error is not None and 0 < len(new) < len(shown):
            alone = preview_of([(file.getvalue(), file.name) for file in new])
            if alone.error is None or found.error.problem.code is ProblemCode.NO_COLLECTION:
                replaced |= {file.file_id for file in shown if file not in new}
                found = alone
        show(found)
    st.rerun()


def following(draw_bar: Callable[..., object]) -> Progress:
    """Return what draws a download's bar, with the time left at the pace so far."""
    started = time.monotonic()

    def follow(done: int, total: int) -> None:
        left = duration((time.monotonic() - started) * (total - done) / done)
        megabytes = {"done": f"{done / MEGABYTE:.1f}", "total": f"{total / MEGABYTE:.1f}"}
        draw_bar(done / total, text=word("data_page.downloading", **megabytes, left=left))

    return follow


def draw_sets(in_use: str) -> None:
    """Draw the list of kept question sets; `in_use` is the key of the one that cannot be removed."""
    sets = stored_sets()
    with st.expander(word("data_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
        st.caption(word("data_page.sets_about"))
        for kept in sets:
            counts = word("sidebar.counts", passages=f"{kept.passages:,}", questions=f"{kept.questions:,}")
            is_used = kept.key == in_use
            with _row(kept, set_name(kept.name), counts, None if is_used else store.remove):
                if is_used:
                    st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
                elif st.button(word("data_page.use_stored"), key=f"use_{kept.key}"):
                    use_set(kept.key)
                    st.rerun()
    draw_damaged(store.damaged(), store.remove)


def draw_pairs(shown: str) -> None:
    """Draw the list of kept sets of pairs; `shown` is the key of the one that is looked at."""
    sets = pair_store.stored()
    if not sets:
        st.caption(word("pairs_page.no_sets"))
    else:
        with st.expander(word("pairs_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
            st.caption(word("pairs_page.sets_about"))
            for kept in sets:
                counts = word("pairs_page.counts", kind=word(f"pair_kind.{kept.kind}"), rows=f"{kept.rows:,}")
                with _row(kept, pairs_name(kept.name), counts, pair_store.remove):
                    if kept.key == shown:
                        st.badge(word("pairs_page.is_shown"), icon=":material/visibility:")
                    elif st.button(word("data_page.look"), key=f"see_{kept.key}"):
                        choose_pairs(kept.key)
                        st.rerun()
    draw_damaged(pair_store.damaged(), pair_store.remove)


@contextmanager
def _row(kept: KeptSet, called: str, told: str, remove: Callable[[str], None] | None) -> Iterator[None]:
    """Draw a set: its name, what is `told` of it, what the block draws to choose it, and what takes it away."""
    with st.container(border=True):
        name, counts, created, buttons = st.columns([4, 3, 2, 3], vertical_alignment="center")
        with name.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(called)}**", width="content")
            if kept.shared:
                st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
        counts.text(told)
        created.text(moment(kept.created))
        with buttons.container(horizontal=True, horizontal_alignment="right"):
            yield
            if remove is not None and not kept.shared:
                sure = word("data_page.remove_sure", name=plain(called))
                draw_remove(kept.key, remove, sure=sure, removed=word("data_page.removed", name=plain(called)))


def chosen_pairs() -> StoredPairs | None:
    """Return the kept pairs to look at, if there are some: those in use on other pages too, else the newest."""
    sets = {kept.key: kept for kept in pair_store.stored()}
    return sets.get(remembered(_PAIRS, next(iter(sets), ""), [*sets]))


def choose_pairs(key: str) -> None:
    remember(_PAIRS, key)
