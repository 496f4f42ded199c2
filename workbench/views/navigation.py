"""The pages of the app, links between them, the HTML document around them, and uploaded files.

Streamlit holds uploaded files in memory, and `Uploads` limits them. A file belongs to a session, a page in a browser.
It is released when the user clears its field or opens another page, and soon after the session loses its connection.
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

_SECONDS_WITHOUT_CONNECTION = 30.0  # a page may reconnect to its files
_OVERHEAD_BYTES = 1000  # memory of a file beside its content
_MAX_CONCURRENT = 64  # more than a browser sends at once
_LOOK = Path(__file__).parent / "uploading.css"
_SCRIPT = (Path(__file__).parent / "ui" / "document.js").read_text(encoding="utf-8")
_SHARED_PARAMETERS = ("data", "lang")  # address parameters that links to other pages keep
FIRST = "first"  # path of the first page, which Streamlit serves without a path
MISSING = "page-not-found"  # target of addresses with several levels; see `access.AccessMiddleware`
_MISSING = "missing_page"  # session key: the opened address, if it names no page


@dataclass(eq=False)
class Upload:
    """A file that is arriving; its bytes count until the upload ends or Streamlit has the file."""

    owner: str
    bytes: int = _OVERHEAD_BYTES


@dataclass
class Uploads:
    """The owners of sessions and the memory of their uploaded files."""

    _owners: dict[str, str] = field(default_factory=dict)  # by session: a user, or the session without sign-in
    _arriving: set[Upload] = field(default_factory=set)
    _refusals: dict[str, LimitError] = field(default_factory=dict)  # by session: not displayed yet
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
        """Count more bytes of a file. Raises `LimitError` (`uploads`, `all_uploads`)."""
        if arrived:
            self.require_room(upload, arrived)
            upload.bytes += arrived

    def require_room(self, upload: Upload, more: int) -> None:
        """Raise `LimitError` (`uploads`, `all_uploads`) if `more` bytes of a file exceed a limit."""
        allowed = limits()
        own = total = 0
        sizes = [(other.owner, other.bytes) for other in self._arriving]
        for session, files in list(_storage().items()):
            size = sum(len(file.data) + len(file.name) + _OVERHEAD_BYTES for file in list(files.values()))
            sizes.append((self._owners.get(session, session), size))
        for owner, size in sizes:
            total += size
            own += size if owner == upload.owner else 0
        for code, size, limit in (("uploads", own, allowed.uploads), ("all_uploads", total, allowed.all_uploads)):
            if size + more > limit * MEGABYTE:
                message = f"files that are open would take more than {limit:,} MB of memory"
                raise LimitError(code, message, limit=f"{limit:,}")

    def end(self, upload: Upload) -> None:
        self._arriving.discard(upload)

    def refuse(self, session: str, error: LimitError) -> None:
        """Let the page of the session display why a file was refused: an upload field cannot."""
        self._refusals[session] = error
        # Streamlit has no public function that runs another session
        if info := runtime.get_instance()._session_mgr.get_session_info(session):
            info.session.request_rerun(info.session._client_state)  # without the state it would open the first page

    @contextmanager
    def show_refusal(self) -> Iterator[None]:
        """Display once why a file was refused, above the content of the block; again if the block does not end."""
        context = get_script_run_ctx()
        error = self._refusals.get(context.session_id) if context else None
        if error:
            st.error(word(f"limit.{error.code}", **error.details), icon=":material/upload_file:")
        yield
        if context and self._refusals.get(context.session_id) is error:
            self._refusals.pop(context.session_id, None)

    def leave_page(self) -> None:
        """Release the files of the page that the session leaves."""
        if context := get_script_run_ctx():
            context.uploaded_file_mgr.remove_session_files(context.session_id)

    def release_disconnected(self) -> None:
        """Release the files of sessions without a connection. The server calls this regularly."""
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


UPLOADS = Uploads()


def translate_field(key: str, *, megabytes: int = 0, is_large: bool = False, is_folder: bool = False) -> None:
    """Translate the upload field with this key, which starts with "upload"; `megabytes` 0: the server's limit."""
    limit = f"{megabytes or st.get_option('server.maxUploadSize'):,}"
    words = {"press": word("upload.press_folder" if is_folder else "upload.press"), "drop": word("upload.drop")}
    words["limit"] = word("upload.limit", megabytes=limit)
    css_variables = "".join(f"--{name}: {json.dumps(text, ensure_ascii=False)}; " for name, text in words.items())
    layout = "--room: 10rem; --flow: column; --place: center" if is_large else ""
    st.html(_LOOK)
    st.html(f"<style>.st-key-{key} {{ {css_variables}{layout} }}</style>")


@dataclass(frozen=True)
class Page:
    """A page: its name in addresses and locale keys (`page.<name>`), its icon, and the module with its `draw`."""

    name: str
    icon: str
    module: str
    is_in_menu: bool = False  # in the menu "More"
    lab: str = ""  # name of its lab

    @property
    def title(self) -> str:
        return word_or(f"page.{self.name}", self.name.capitalize())

    @property
    def material_icon(self) -> str:
        return f":material/{self.icon}:"

    def draw(self) -> None:
        """Import the module when the page is first opened, and draw the page."""
        if st.session_state.get("page") != self.name:
            UPLOADS.leave_page()
            st.session_state["page"] = self.name
            st.session_state[VISIT] = st.session_state.get(VISIT, 0) + 1
        if self.module:
            import_module(self.module).draw()
        else:
            import_module("mrc_workbench.workbench.views.study").draw(self.lab)


def _lab_page(lab: LabDefinition) -> Page:
    module = lab.module(lab.page) if lab.page else ""  # without a module the lab's study gives the page
    return Page(lab.address, lab.icon, module, is_in_menu=lab.in_menu, lab=lab.name)


PAGES = (  # the app opens the first; a new page needs a module, a line here, and texts; a lab adds its own page
    Page("compare", "leaderboard", "mrc_workbench.workbench.views.compare.page"),
    Page("data", "description", "mrc_workbench.workbench.views.data.page"),
    Page("train", "model_training", "mrc_workbench.workbench.views.train.page"),
    Page("search", "search", "mrc_workbench.workbench.views.search.page"),
    *map(_lab_page, labs()),
)


def pages() -> dict[str, list[Any]]:
    """Return the pages by menu, first those without a menu. The app opens the first page, also under its name."""
    first = PAGES[0]

    def redirect() -> None:
        parameters = {key: st.query_params.get_all(key) for key in st.query_params}
        st.switch_page(_streamlit_page(first), query_params=parameters)

    kwargs: dict[str, Any] = {"title": first.title, "icon": first.material_icon, "visibility": "hidden"}
    first_by_name = st.Page(redirect, url_path=first.name, **kwargs)
    top_pages = [_streamlit_page(page) for page in PAGES if not page.is_in_menu]
    hidden = [first_by_name, *_missing_page()]
    return {"": [*top_pages, *hidden], word("page.more"): [_streamlit_page(page) for page in PAGES if page.is_in_menu]}


def _missing_page() -> list[Any]:
    """Return a hidden page for an address that names no page: Streamlit would open the first page."""
    context = get_script_run_ctx()
    manager = context.pages_manager if context else None
    if manager and not manager.intended_page_script_hash:  # the user opened the address and followed no link
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
        for name in (".sidebar", ".compare.page", ".compare.overview"):
            import_module(name, __package__)


def has_page(name: str) -> bool:
    return any(page.name == name for page in PAGES)


def find_page(name: str) -> Page:
    return next(page for page in PAGES if page.name == name)


def open_page(name: str, **parameters: str) -> None:
    st.switch_page(_streamlit_page(find_page(name)), query_params=parameters)


def draw_page_links(opened: str) -> None:
    """Draw a row of links for narrow screens (`look.css`); the menu has the title of its page `opened`, if any."""
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


def document_routes(pages: Sequence[str]) -> list[Route]:
    """Return the routes of the pages' HTML document: Streamlit's, with the script for the history at its start.

    The copy within the page runs only after the app has changed the address and after a first click.
    """
    document = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    document = document.replace("<head>", f"<head><script>{_SCRIPT}</script>", 1)
    base = st.get_option("server.baseUrlPath").strip("/")

    async def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(document, headers={"Cache-Control": "no-cache"})

    return [Route("/" + "/".join(filter(None, (base, page))), answer) for page in ("", *pages)]


def draw_document() -> None:
    """Set the language of the document, and let each click add a single entry to the browser's history."""
    body = f"<script>document.documentElement.lang = '{language()}';\n{_SCRIPT}</script>"
    with st.container(key="document"):  # `look.css` gives it no height
        st.html(body, unsafe_allow_javascript=True)


def draw_copy_link() -> None:
    """Draw the button that copies the address (`document.js`)."""
    with st.container(width="content"):
        _draw_copy_button()


@st.fragment
def _draw_copy_button() -> None:
    if st.button(word("app.copy_link"), icon=":material/link:", help=word("app.copy_link_help"), key="copy_link"):
        st.toast(word("app.link_copied"), icon=":material/check:")
