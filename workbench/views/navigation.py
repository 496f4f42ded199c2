"""The pages of the app, the way from one to another, the document around them, and the files uploaded on them.

Streamlit holds uploaded files in memory: `Uploads` limits who may upload, how much and for how long. A file belongs to
a session, a page that is open in a browser. It is released when its field is emptied, when another page is opened, and
soon after the session has lost its connection.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from streamlit import runtime
from streamlit.file_util import get_static_dir
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mrc_workbench.data.jobs.processes import without_garbage_collection
from mrc_workbench.data.workspace import MEGABYTE, LimitError, limits
from mrc_workbench.labs import LabDefinition, labs
from mrc_workbench.workbench.views.ui.state import VISIT
from mrc_workbench.workbench.views.ui.words import language, plain, word, word_or

_SECONDS_WITHOUT_CONNECTION = 30.0  # a network may stumble, and the page comes back to its files
_OVERHEAD_BYTES = 1000  # bytes that a file takes beside its content: a million empty ones are not free
_MAX_CONCURRENT = 64  # more than a browser sends of what is dropped on a page together
_LOOK = Path(__file__).parent / "uploading.css"


@dataclass(eq=False)
class Upload:
    """A file that is arriving: what came of it counts, until it ends or Streamlit holds it."""

    owner: str
    bytes: int = _OVERHEAD_BYTES


@dataclass
class Uploads:
    """Who may hand in files, and what they hold."""

    _owners: dict[str, str] = field(default_factory=dict)  # by session: a user, or the session where nobody signs in
    _arriving: set[Upload] = field(default_factory=set)
    _refusals: dict[str, LimitError] = field(default_factory=dict)  # by session: what its page has yet to say
    _disconnected_since: dict[str, float] = field(default_factory=dict)  # by session

    def register_session(self, user: str) -> None:
        if context := get_script_run_ctx():
            self._owners[context.session_id] = user or context.session_id

    def unregister_session(self) -> None:
        if context := get_script_run_ctx():
            self._owners.pop(context.session_id, None)

    def owner(self, session: str) -> str | None:
        return self._owners.get(session)

    @contextmanager
    def track_upload(self, session: str) -> Iterator[Upload]:
        """Count a file as arriving until the block ends. Raises `LimitError` (`uploads_at_once`)."""
        upload = Upload(self._owners[session])
        if sum(other.owner == upload.owner for other in self._arriving) >= _MAX_CONCURRENT:
            message = f"{_MAX_CONCURRENT} files are arriving: wait for one"
            raise LimitError("uploads_at_once", message, limit=_MAX_CONCURRENT)
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
        bytes_by_session = {session: _total_bytes(files) for session, files in list(_storage().items())}
        own = sum(
            size for session, size in bytes_by_session.items() if self._owners.get(session, session) == upload.owner
        )
        own += sum(other.bytes for other in self._arriving if other.owner == upload.owner)
        total = sum(bytes_by_session.values()) + sum(other.bytes for other in self._arriving)
        for code, size, limit in (("uploads", own, allowed.uploads), ("all_uploads", total, allowed.all_uploads)):
            if size + more > limit * MEGABYTE:
                message = f"files that are open would take more than {limit:,} MB of memory"
                raise LimitError(code, message, limit=f"{limit:,}")

    def end(self, upload: Upload) -> None:
        self._arriving.discard(upload)

    def refuse(self, session: str, error: LimitError) -> None:
        """Have the session's page say why a file was not taken: its field knows no reasons."""
        self._refusals[session] = error
        # there is no public way to have another session drawn
        if info := runtime.get_instance()._session_mgr.get_session_info(session):
            info.session.request_rerun(info.session._client_state)  # else it would be the first page

    @contextmanager
    def show_refusal(self) -> Iterator[None]:
        """Say why a file was not taken, above what the block draws; once, unless that begins anew before its end."""
        context = get_script_run_ctx()
        error = self._refusals.get(context.session_id) if context else None
        if error:
            st.error(word(f"limit.{error.code}", **error.details), icon=":material/upload_file:")
        yield
        if context and self._refusals.get(context.session_id) is error:
            self._refusals.pop(context.session_id, None)

    def leave_page(self) -> None:
        """Let go what was handed in on the page that the session leaves: its fields are gone, and nobody reads it."""
        if context := get_script_run_ctx():
            context.uploaded_file_mgr.remove_session_files(context.session_id)

    def release_disconnected(self) -> None:
        """Let go what was handed in by sessions without a connection; asked again and again while the server runs."""
        server = runtime.get_instance()
        now = time.monotonic()
        disconnected = [session for session in {*self._owners, *_storage()} if not server.is_active_session(session)]
        self._disconnected_since = {session: self._disconnected_since.get(session, now) for session in disconnected}
        for session, since in self._disconnected_since.items():
            if now - since >= _SECONDS_WITHOUT_CONNECTION:
                server.uploaded_file_mgr.remove_session_files(session)
                self._owners.pop(session, None)
                self._refusals.pop(session, None)


def _storage() -> dict[str, dict[str, Any]]:
    storage: dict[str, dict[str, Any]] = runtime.get_instance().uploaded_file_mgr.file_storage  # type: ignore[attr-defined]
    return storage


def _total_bytes(files: dict[str, Any]) -> int:
    return sum(len(file.data) + len(file.name) + _OVERHEAD_BYTES for file in list(files.values()))


UPLOADS = Uploads()


def translate_field(key: str, *, megabytes: int = 0, is_large: bool = False, is_folder: bool = False) -> None:
    """Give the field of this `key`, which begins with "upload", its words; a large one is a place to drop files on.

    `megabytes` is its `max_upload_size`; 0: that of the server.
    """
    limit = f"{megabytes or st.get_option('server.maxUploadSize'):,}"
    words = {"press": word("upload.press_folder" if is_folder else "upload.press"), "drop": word("upload.drop")}
    words["limit"] = word("upload.limit", megabytes=limit)
    css_variables = "".join(f"--{name}: {json.dumps(text, ensure_ascii=False)}; " for name, text in words.items())
    layout = "--room: 10rem; --flow: column; --place: center" if is_large else ""
    st.html(_LOOK)
    st.html(f"<style>.st-key-{key} {{ {css_variables}{layout} }}</style>")


_SHARED_PARAMETERS = ("data", "lang")  # of an address, on the way to another page
FIRST = "first"  # path of the first page, which Streamlit serves without one
MISSING = "page-not-found"  # where an address of several levels leads, which `address` tells; see `access.Gate`
_MISSING = "missing_page"  # of the session: what the address named when it was opened, if no page is called so


@dataclass(frozen=True)
class Page:
    """A page: its name in addresses and its words (`page.<name>`), its icon, and the module whose `draw` draws it."""

    name: str
    icon: str
    module: str
    is_in_menu: bool = False  # one menu holds these pages
    lab: str = ""  # name of the lab that it belongs to

    @property
    def title(self) -> str:
        """What it is called; by its name where there are no words for it."""
        return word_or(f"page.{self.name}", self.name.capitalize())

    @property
    def material_icon(self) -> str:
        return f":material/{self.icon}:"

    def draw(self) -> None:
        """Draw it, read when it is first opened: who opens the app waits for one page, not for all."""
        if st.session_state.get("page") != self.name:
            UPLOADS.leave_page()
            st.session_state["page"], st.session_state[VISIT] = self.name, st.session_state.get(VISIT, 0) + 1
        if self.module:
            import_module(self.module).draw()
        else:
            import_module("mrc_workbench.workbench.views.study").draw(self.lab)


def _lab_page(lab: LabDefinition) -> Page:
    module = lab.module(lab.page) if lab.page else ""  # without one the page is made from the lab's study
    return Page(lab.page_name or lab.name, lab.icon, module, is_in_menu=lab.in_menu, lab=lab.name)


PAGES = (  # the first one opens; a page is added by its module, a line here, and its words; a lab brings its own
    Page("compare", "leaderboard", "mrc_workbench.workbench.views.compare.page"),
    Page("data", "description", "mrc_workbench.workbench.views.data.page"),
    Page("train", "model_training", "mrc_workbench.workbench.views.train.page"),
    Page("search", "search", "mrc_workbench.workbench.views.search.page"),
    *map(_lab_page, labs()),
)


def pages() -> dict[str, list[Any]]:
    """Return the pages in their order by menu, no menu first; the first page opens, and is found at its name, too."""
    first = PAGES[0]

    def redirect() -> None:
        """Go to the first page with what the address asks for."""
        st.switch_page(
            _streamlit_page(first), query_params={key: st.query_params.get_all(key) for key in st.query_params}
        )

    first_by_name = st.Page(
        redirect, title=first.title, icon=first.material_icon, url_path=first.name, visibility="hidden"
    )
    top_pages = [_streamlit_page(page) for page in PAGES if not page.is_in_menu]
    hidden = [first_by_name, *_missing_page()]
    return {"": [*top_pages, *hidden], word("page.more"): [_streamlit_page(page) for page in PAGES if page.is_in_menu]}


def _missing_page() -> list[Any]:
    """Return a hidden page for an address that names no page: Streamlit would open the first page."""
    context = get_script_run_ctx()
    manager = context.pages_manager if context else None
    if manager and not manager.intended_page_script_hash:  # the address is opened, no link was followed
        st.session_state[_MISSING] = manager.intended_page_name or ""
    name = str(st.session_state.get(_MISSING, ""))
    if not name or "/" in name or name in {FIRST, *(page.name for page in PAGES)}:
        return []

    def draw() -> None:
        address = st.query_params.get("address", "") if name == MISSING else f"/{name}"
        st.error(word("page.missing", address=plain(address)), icon=":material/link_off:")
        draw_page_link(PAGES[0].name, word("page.missing_way", page=PAGES[0].title))

    return [st.Page(draw, title=word("page.missing_title"), url_path=name, visibility="hidden")]


def preload_first_page() -> None:
    with without_garbage_collection():
        for name in (
            "mrc_workbench.workbench.views.sidebar",
            "mrc_workbench.workbench.views.compare.page",
            "mrc_workbench.workbench.views.compare.overview",
        ):
            import_module(name)


def find_page(name: str) -> Page:
    return next(page for page in PAGES if page.name == name)


def open_page(name: str, **parameters: str) -> None:
    st.switch_page(_streamlit_page(find_page(name)), query_params=parameters)


def draw_page_links(opened: str) -> None:
    """Draw the pages in one row, for screens so narrow that Streamlit folds its own row away (`look.css`).

    The menu shows that the page `opened`, told by its place in the address, is one of its own.
    """
    parameters = {name: st.query_params[name] for name in _SHARED_PARAMETERS if name in st.query_params}
    with st.container(horizontal=True, key="ways"):
        for page in PAGES:
            if not page.is_in_menu:
                draw_page_link(page.name, page.title, **parameters)
        menu_page = next((page for page in PAGES if page.is_in_menu and page.name == opened), None)
        with (
            st.container(key="in_more" if menu_page else "not_in_more", width="content"),
            st.popover(menu_page.title if menu_page else word("page.more"), type="tertiary"),
        ):
            for page in PAGES:
                if page.is_in_menu:
                    draw_page_link(page.name, page.title, **parameters)


def draw_page_link(name: str, label: str, **parameters: str) -> None:
    page = find_page(name)
    st.page_link(_streamlit_page(page), label=label, icon=page.material_icon, query_params=parameters)


def _streamlit_page(page: Page) -> Any:
    path = FIRST if page is PAGES[0] else page.name  # Streamlit serves the first page without a path
    return st.Page(page.draw, title=page.title, icon=page.material_icon, url_path=path, default=page is PAGES[0])


_SCRIPT = (Path(__file__).parent / "ui" / "document.js").read_text(encoding="utf-8")
_KEY = "document"  # of the container without a height, see `look.css`


def document_routes(pages: Sequence[str]) -> list[Route]:
    """Return the routes of these pages' document: Streamlit's own, but the script that keeps the history runs first.

    Drawn with the page alone, it would run after the app has written into the address, and after a first click.
    """
    document = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    document = document.replace("<head>", f"<head><script>{_SCRIPT}</script>", 1)
    base = st.get_option("server.baseUrlPath").strip("/")

    async def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(document, headers={"Cache-Control": "no-cache"})

    return [Route("/" + "/".join(filter(None, (base, page))), answer) for page in ("", *pages)]


def draw_document() -> None:
    """Set the document's language to that of the page, and have a click make one entry in the browser's history."""
    body = f"<script>document.documentElement.lang = '{language()}';\n{_SCRIPT}</script>"
    with st.container(key=_KEY):
        st.html(body, unsafe_allow_javascript=True)


def draw_copy_link() -> None:
    """Draw the button that copies the address of what is displayed; the browser copies it (`document.js`)."""
    with st.container(width="content"):
        _draw_copy_button()


@st.fragment
def _draw_copy_button() -> None:
    if st.button(word("app.copy_link"), icon=":material/link:", help=word("app.copy_link_help"), key="copy_link"):
        st.toast(word("app.link_copied"), icon=":material/check:")
