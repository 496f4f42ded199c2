"""The pages of the app, the way from one to another, and the document around them: language, history, address."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from streamlit.file_util import get_static_dir
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mrc_workbench.data.jobs.processes import without_collections
from mrc_workbench.labs import Lab, labs
from mrc_workbench.workbench.views.ui.state import VISIT
from mrc_workbench.workbench.views.ui.words import language, plain, word, word_or
from mrc_workbench.workbench.views.uploads import UPLOADS

_KEPT = ("data", "lang")  # of an address, on the way to another page
FIRST = "first"  # path of the first page, which Streamlit serves without one
MISSING = "page-not-found"  # where an address of several levels leads, which `address` tells; see `access.Gate`
_MISSING = "missing_page"  # of the session: what the address named when it was opened, if no page is called so


@dataclass(frozen=True)
class Page:
    """A page: its name in addresses and its words (`page.<name>`), its icon, and the module whose `draw` draws it."""

    name: str
    icon: str
    module: str
    inside: bool = False  # one menu holds these pages
    lab: str = ""  # name of the lab that it belongs to

    @property
    def title(self) -> str:
        """What it is called; by its name where there are no words for it."""
        return word_or(f"page.{self.name}", self.name.capitalize())

    @property
    def sign(self) -> str:
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


def _lab_page(lab: Lab) -> Page:
    module = lab.module(lab.page) if lab.page else ""  # without one the page is made from the lab's study
    return Page(lab.page_name or lab.name, lab.icon, module, inside=lab.in_menu, lab=lab.name)


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

    def go_on() -> None:
        """Go to the first page with what the address asks for."""
        st.switch_page(_served(first), query_params={key: st.query_params.get_all(key) for key in st.query_params})

    named = st.Page(go_on, title=first.title, icon=first.sign, url_path=first.name, visibility="hidden")
    usual = [_served(page) for page in PAGES if not page.inside]
    hidden = [named, *_missing_page()]
    return {"": [*usual, *hidden], word("page.more"): [_served(page) for page in PAGES if page.inside]}


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
        way_to(PAGES[0].name, word("page.missing_way", page=PAGES[0].title))

    return [st.Page(draw, title=word("page.missing_title"), url_path=name, visibility="hidden")]


def read_first_page() -> None:
    with without_collections():
        for name in (
            "mrc_workbench.workbench.views.sidebar",
            "mrc_workbench.workbench.views.compare.page",
            "mrc_workbench.workbench.views.compare.overview",
        ):
            import_module(name)


def page_called(name: str) -> Page:
    return next(page for page in PAGES if page.name == name)


def open_page(name: str, **parameters: str) -> None:
    st.switch_page(_served(page_called(name)), query_params=parameters)


def draw_ways(opened: str) -> None:
    """Draw the pages in one row, for screens so narrow that Streamlit folds its own row away (`look.css`).

    The menu shows that the page `opened`, told by its place in the address, is one of its own.
    """
    kept = {name: st.query_params[name] for name in _KEPT if name in st.query_params}
    with st.container(horizontal=True, key="ways"):
        for page in PAGES:
            if not page.inside:
                way_to(page.name, page.title, **kept)
        shown = next((page for page in PAGES if page.inside and page.name == opened), None)
        with (
            st.container(key="in_more" if shown else "not_in_more", width="content"),
            st.popover(shown.title if shown else word("page.more"), type="tertiary"),
        ):
            for page in PAGES:
                if page.inside:
                    way_to(page.name, page.title, **kept)


def way_to(name: str, label: str, **parameters: str) -> None:
    page = page_called(name)
    st.page_link(_served(page), label=label, icon=page.sign, query_params=parameters)


def _served(page: Page) -> Any:
    path = FIRST if page is PAGES[0] else page.name  # Streamlit serves the first page without a path
    return st.Page(page.draw, title=page.title, icon=page.sign, url_path=path, default=page is PAGES[0])


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
