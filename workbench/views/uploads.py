"""Files on their way to the pages, and the field for them in the person's language.

Streamlit holds files in memory; of whom, how much and how long is told here. A file belongs to a page that is open
somewhere, a session. It is let go when its field is emptied, when another page is opened in its place, and soon after
the session's connection is gone."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mrc_workbench.data.workspace import MEGABYTE, LimitError, limits
from mrc_workbench.workbench.views.ui.words import word

_SECONDS_WITHOUT_CONNECTION = 30.0  # a network may stumble, and the page comes back to its files
_BESIDE = 1000  # bytes that a file takes beside its content: a million empty ones are not free
_AT_ONCE = 64  # more than a browser sends of what is dropped on a page together
_LOOK = Path(__file__).parent / "uploading.css"


@dataclass(eq=False)
class Upload:
    """A file that is arriving: what came of it counts, until it ends or Streamlit holds it."""

    whose: str
    bytes: int = _BESIDE


@dataclass
class Uploads:
    """Who may hand in files, and what they hold."""

    _whose: dict[str, str] = field(default_factory=dict)  # by session: a user, or the session where nobody signs in
    _arriving: set[Upload] = field(default_factory=set)
    _refused: dict[str, LimitError] = field(default_factory=dict)  # by session: what its page has yet to say
    _gone_since: dict[str, float] = field(default_factory=dict)  # by session

    def let_in(self, user: str) -> None:
        if context := get_script_run_ctx():
            self._whose[context.session_id] = user or context.session_id

    def keep_out(self) -> None:
        if context := get_script_run_ctx():
            self._whose.pop(context.session_id, None)

    def whose(self, session: str) -> str | None:
        return self._whose.get(session)

    @contextmanager
    def arriving(self, session: str) -> Iterator[Upload]:
        """Count a file as arriving until the block ends. Raises `LimitError` (`uploads_at_once`)."""
        upload = Upload(self._whose[session])
        if sum(other.whose == upload.whose for other in self._arriving) >= _AT_ONCE:
            message = f"{_AT_ONCE} files are arriving: wait for one"
            raise LimitError("uploads_at_once", message, limit=_AT_ONCE)
        self._arriving.add(upload)
        try:
            yield upload
        finally:
            self.end(upload)

    def add(self, upload: Upload, arrived: int) -> None:
        """Count so many bytes more of a file. Raises `LimitError` (`uploads`, `all_uploads`)."""
        if arrived:
            self.require_room(upload, arrived)
            upload.bytes += arrived

    def require_room(self, upload: Upload, more: int) -> None:
        """Raise `LimitError` (`uploads`, `all_uploads`) where so many bytes more of a file are too many."""
        allowed = limits()
        held = {session: _held(files) for session, files in list(_storage().items())}
        own = sum(size for session, size in held.items() if self._whose.get(session, session) == upload.whose)
        own += sum(other.bytes for other in self._arriving if other.whose == upload.whose)
        everybody = sum(held.values()) + sum(other.bytes for other in self._arriving)
        for code, size, limit in (("uploads", own, allowed.uploads), ("all_uploads", everybody, allowed.all_uploads)):
            if size + more > limit * MEGABYTE:
                message = f"files that are open would take more than {limit:,} MB of memory"
                raise LimitError(code, message, limit=f"{limit:,}")

    def end(self, upload: Upload) -> None:
        self._arriving.discard(upload)

    def refuse(self, session: str, error: LimitError) -> None:
        """Have the session's page say why a file was not taken: its field knows no reasons."""
        self._refused[session] = error
        # there is no public way to have another session drawn
        if info := runtime.get_instance()._session_mgr.get_session_info(session):
            info.session.request_rerun(info.session._client_state)  # else it would be the first page

    @contextmanager
    def refusal_told(self) -> Iterator[None]:
        """Say why a file was not taken, above what the block draws; once, unless that begins anew before its end."""
        context = get_script_run_ctx()
        error = self._refused.get(context.session_id) if context else None
        if error:
            st.error(word(f"limit.{error.code}", **error.details), icon=":material/upload_file:")
        yield
        if context and self._refused.get(context.session_id) is error:
            self._refused.pop(context.session_id, None)

    def leave_page(self) -> None:
        """Let go what was handed in on the page that the session leaves: its fields are gone, and nobody reads it."""
        if context := get_script_run_ctx():
            context.uploaded_file_mgr.remove_session_files(context.session_id)

    def let_go(self) -> None:
        """Let go what was handed in by sessions without a connection; asked again and again while the server runs."""
        server, now = runtime.get_instance(), time.monotonic()
        gone = [session for session in {*self._whose, *_storage()} if not server.is_active_session(session)]
        self._gone_since = {session: self._gone_since.get(session, now) for session in gone}
        for session, since in self._gone_since.items():
            if now - since >= _SECONDS_WITHOUT_CONNECTION:
                server.uploaded_file_mgr.remove_session_files(session)
                self._whose.pop(session, None)
                self._refused.pop(session, None)


def _storage() -> dict[str, dict[str, Any]]:
    storage: dict[str, dict[str, Any]] = runtime.get_instance().uploaded_file_mgr.file_storage  # type: ignore[attr-defined]
    return storage


def _held(files: dict[str, Any]) -> int:
    return sum(len(file.data) + len(file.name) + _BESIDE for file in list(files.values()))


UPLOADS = Uploads()


def translate_field(key: str, *, megabytes: int = 0, is_large: bool = False, is_folder: bool = False) -> None:
    """Give the field of this `key`, which begins with "upload", its words; a large one is a place to drop files on.

    `megabytes` is its `max_upload_size`; 0: that of the server.
    """
    limit = f"{megabytes or st.get_option('server.maxUploadSize'):,}"
    words = {"press": word("upload.press_folder" if is_folder else "upload.press"), "drop": word("upload.drop")}
    words["limit"] = word("upload.limit", megabytes=limit)
    said = "".join(f"--{name}: {json.dumps(text, ensure_ascii=False)}; " for name, text in words.items())
    room = "--room: 10rem; --flow: column; --place: center" if is_large else ""
    st.html(_LOOK)
    st.html(f"<style>.st-key-{key} {{ {said}{room} }}</style>")
