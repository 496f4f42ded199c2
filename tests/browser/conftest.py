"""The real app in a real browser: one server and one Chromium a worker, an empty workspace a file."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, ViewportSize, expect, sync_playwright

from mrc_workbench.data.jobs.processes import start_fork_server
from mrc_workbench.data.workspace import PROJECT
from tests.programs import free_port, kill_processes_in, wait_for

expect.set_options(timeout=60_000)  # a busy machine renders slowly; these tests do not measure speed
SIZE: ViewportSize = {"width": 1280, "height": 900}
# Animations end within a millisecond, so that the events of their end still come
WITHOUT_ANIMATIONS = """
document.addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = `*, *::before, *::after {
    animation-duration: 1ms !important; animation-delay: 0s !important; animation-iteration-count: 1 !important;
    transition-duration: 1ms !important; transition-delay: 0s !important;
  }`;
  document.head.append(style);
});
"""
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the shell takes least


@pytest.fixture(scope="session")
def fork_server() -> None:
    """Whose libraries the jobs of all servers share."""
    if not os.environ.get("MRC_FORK_SERVER"):
        start_fork_server()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory, fork_server: None) -> Iterator[tuple[str, Path]]:
    """The address and the workspace of the server that the files of a worker visit one after the other."""
    workspace = tmp_path_factory.mktemp("workspace")
    with running_app(workspace, free_port()) as address:
        yield address, workspace


@pytest.fixture(scope="module")
def workspace(shared_server: tuple[str, Path]) -> Iterator[Path]:
    """The workspace of the app: empty except for new content of this file."""
    yield shared_server[1]
    kill_processes_in(shared_server[1])
    for path in shared_server[1].iterdir():
        if path.name != "cache":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def app(shared_server: tuple[str, Path], workspace: Path) -> str:
    return shared_server[0]


@pytest.fixture(scope="module")
def new_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def new_app(new_workspace: Path, fork_server: None) -> Iterator[str]:
    """The address of a new server: that of the other files has models in memory."""
    with running_app(new_workspace, free_port()) as address:
        yield address


@contextmanager
def running_app(workspace: Path, port: int, *options: object) -> Iterator[str]:
    """Run the app's server with these options of Streamlit's until the block ends; yields its address."""
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port), *map(str, options)]
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace), "STREAMLIT_SERVER_HEADLESS": "true"}
    server = subprocess.Popen(command, cwd=PROJECT, env=environment, start_new_session=True)
    try:
        wait_for(f"http://localhost:{port}/_stcore/health")
        yield f"http://localhost:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)
        kill_processes_in(workspace)  # they would go on beside the tests that follow


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next((executable for name in CHROMIUM if (executable := shutil.which(name))), None)
    with sync_playwright() as playwright:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            if os.environ.get("CI"):
                pytest.fail("no Chromium: browser tests count here")
            pytest.skip("no Chromium on this machine")
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def open_pages() -> dict[str, Page]:
    """The pages that tests use one after the other, by locale."""
    return {}


@pytest.fixture
def page(browser: Browser, open_pages: dict[str, Page]) -> Iterator[Page]:
    with reused_page(browser, "en-US", open_pages) as page:
        yield page


@pytest.fixture
def korean_page(browser: Browser, open_pages: dict[str, Page]) -> Iterator[Page]:
    with reused_page(browser, "ko-KR", open_pages) as page:
        yield page


@pytest.fixture(scope="module")
def module_page(browser: Browser) -> Iterator[Page]:
    """One page for all tests of a file, each of which continues where the previous one ended."""
    with new_page(browser, "en-US") as page:
        yield page


@pytest.fixture(scope="module")
def korean_module_page(browser: Browser) -> Iterator[Page]:
    with new_page(browser, "ko-KR") as page:
        yield page


@contextmanager
def reused_page(browser: Browser, locale: str, open_pages: dict[str, Page]) -> Iterator[Page]:
    """Use the page of the previous test without its storage: a new page takes a third longer to load the app.

    Its history contains all tests: tests that count steps of history need a new page.
    """
    if locale not in open_pages or open_pages[locale].is_closed():
        open_pages[locale] = open_context(browser, locale).new_page()
    page = open_pages[locale]
    page.set_viewport_size(SIZE)
    yield page
    for other in page.context.pages:
        if other is not page:
            other.close()
    page.context.clear_cookies()
    page.context.clear_permissions()
    try:
        page.evaluate("if (location.protocol === 'http:') { localStorage.clear(); sessionStorage.clear() }")
        page.goto("about:blank")
    except Error:  # the test closed the page, or left it in the middle of a navigation
        page.context.close()


@contextmanager
def new_page(browser: Browser, locale: str) -> Iterator[Page]:
    """Open a page in a new browser session."""
    with new_context(browser, locale) as context:
        yield context.new_page()


@contextmanager
def new_context(browser: Browser, locale: str) -> Iterator[BrowserContext]:
    context = open_context(browser, locale)
    yield context
    context.close()


def open_context(browser: Browser, locale: str) -> BrowserContext:
    """Open a browser session without animations: to draw their frames took a quarter of the browser's time."""
    context = browser.new_context(locale=locale, viewport=SIZE, reduced_motion="reduce")
    context.set_default_timeout(60_000)
    context.add_init_script(WITHOUT_ANIMATIONS)
    return context
