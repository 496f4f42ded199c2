"""Ten people at once: seconds from a click to what it draws, whose processor time that is, and the server's memory.

KorQuAD dev, the five retrievers of `benchmarks.app.interactions`, everything cached: `SESSIONS` (10) pages of one
Chromium,
a context each, click the same at the same moment. Browser and server share the machine's cores here, which ten people's
browsers do not; so both their processor seconds are told, and what ten visitors without a browser wait for.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psutil
from playwright.sync_api import Browser, Page

from benchmarks.app.app import RunningApp, opened_browser, running_app, visits
from benchmarks.app.comparison_page import RETRIEVERS
from benchmarks.material import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import add
from mrc_workbench.retrieval.comparison.store import ComparisonJob, keep
from mrc_workbench.workbench.views.choices import choices_for

_ROUNDS = (2, 1)  # that count, of one and of all: browsers are slow; what is clicked first of all does not count
_PATIENCE = 60_000  # milliseconds
_WANTED, _WANTED_ALONE = 1.0, 0.5  # seconds: of the slowest of all, and of one alone
_SEARCHED = {"q": "세종대왕이 만든 글자는?", "columns": "BM25|Dense"}
# A click has ended with the last change of the page, once what it asked of the server is answered and nothing more
# happens for a while. The app says of itself whether its script runs, but a busy browser may never show that it did,
# when start and end arrive together, or only some time after the click. What a table's canvas holds is not drawn: it is
# what a screen reader finds there.
_NOTE_MESSAGES = """
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    window.sent = performance.now();
    this.addEventListener('message', () => { window.received = performance.now(); }, {once: true});
    return send.call(this, data);
  };
"""
_NOTE_CHANGES = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  const idle = () => app.dataset.testScriptState === 'notRunning';
  window.settled = () => window.began < window.sent && window.sent < window.received && idle()
    && performance.now() - Math.max(window.received, window.changed) > 300;
  const drawn = (change) => change.target.nodeName !== 'CANVAS';
  new MutationObserver((changes) => { if (changes.some(drawn)) window.changed = performance.now(); }).observe(
    app, {attributes: true, childList: true, characterData: true, subtree: true});
}"""
# Looked for when its time comes: what the page draws anew in the meantime is another element.
_CLICK_AT = """([selector, text, at]) => {
  const shown = () => [...document.querySelectorAll(selector)].find(one => !text || one.textContent.trim() === text);
  const click = () => { window.began = performance.now(); shown().click(); };
  window.began = Infinity;
  setTimeout(click, at - Date.now());
}"""


class Target(NamedTuple):
    """What is clicked: the first element with this selector and, where there is one, this text."""

    selector: str
    text: str = ""


class Click(NamedTuple):
    """What is clicked on a page, and the page and the query that open what it leads to."""

    name: str
    on: Target
    page: str
    query: dict[str, str]


class Cost(NamedTuple):
    """Of clicks made at once: the seconds of each, and the processor seconds of server and browser for one of them."""

    seconds: list[float]
    server: float
    browser: float


def ten_sessions() -> list[str]:
    """Click with one session and with all of them; returns lines of a report."""
    count = int(os.environ.get("SESSIONS", "10"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question = _keep()
        clicks = _clicks(question)
        with running_app(Path(folder)) as app:
            app.wait()
            with opened_browser() as browser:
                pages = [_opened(browser, app)]
                alone = _rounds(app, pages, clicks, _ROUNDS[0])
                memory = [_memory(app)]
                pages += [_opened(browser, app) for _ in range(count - 1)]
                at_once = _rounds(app, pages, clicks, _ROUNDS[1])
                memory.append(_memory(app))
            bare = {one.name: _without_browser(app, one, count) for one in clicks}
    growth = (memory[1] - memory[0]) / max(1, count - 1)
    said = f"{memory[0] / 10**6:,.0f} MB with one session and {memory[1] / 10**6:,.0f} MB with {count}"
    return [
        *table(alone, at_once, bare, count),
        "",
        f"The server holds {said}: {growth / 10**6:.1f} MB for each session more; models and indexes are there once.",
    ]


def table(alone: dict[str, Cost], at_once: dict[str, Cost], bare: dict[str, list[float]], count: int) -> list[str]:
    """Return a row a click, and which of them take longer than is wanted."""
    columns = (
        "seconds from click to drawn",
        "alone",
        f"{count} at once, median",
        "slowest",
        "server's processor, a click",
        "browser's processor",
        f"{count} without browsers, median",
        "slowest",
    )
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    for name, one in at_once.items():
        cells = (
            *(median(alone[name].seconds), median(one.seconds), max(one.seconds), one.server, one.browser),
            *(median(bare[name]), max(bare[name])),
        )
        lines.append(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    late = (
        _late(
            f"Alone above {_WANTED_ALONE} s", {name: median(one.seconds) for name, one in alone.items()}, _WANTED_ALONE
        ),
        _late(f"slowest of {count} above {_WANTED} s", {n: max(one.seconds) for n, one in at_once.items()}, _WANTED),
        _late("and without browsers", {name: max(seconds) for name, seconds in bare.items()}, _WANTED),
    )
    return [*lines, "", "; ".join(late) + "."]


def _late(what: str, seconds: dict[str, float], wanted: float) -> str:
    return f"{what}: {', '.join(name for name, took in seconds.items() if took > wanted) or 'none'}"


def _keep() -> str:
    """Keep the comparison that the page shows by itself; returns the id of a question."""
    question_set = read_file(korquad()).question_set
    stored = keep_set(question_set)
    for spec in RETRIEVERS:
        if spec.name not in choices_for(stored).specs:
            add(stored.fingerprint, spec)
    choices = choices_for(stored)
    experiment = choices.experiment(stored, list(choices.first_picked), Part.ALL)
    keep(compare(experiment, question_set), ComparisonJob.of(experiment, question_set.fingerprint).folder)
    return question_set.questions[0].id


def _clicks(question: str) -> list[Click]:
    """A round: it ends where it begins, on the overview."""
    why = {"view": "why"}
    return [
        Click("Overview to Where", _radio("Where"), "", {"view": "where"}),
        Click("Where to Why", _radio("Why"), "", why),
        Click("Why to a question", _button("why_first"), "", why | {"question": question}),
        Click("back to Overview", _radio("Overview"), "", {}),
        Click("page Data", _link("data"), "data", {}),
        Click("page Train", _link("train"), "train", {}),
        Click("page Search, dense and BM25", _link("search"), "search", _SEARCHED),
        Click("page Compare", _link(""), "", {}),
    ]


def _radio(name: str) -> Target:
    return Target("[role=radio]", name)


def _button(key: str) -> Target:
    return Target(f".st-key-{key} button")


def _link(path: str) -> Target:
    return Target(f"[data-testid=stTopNavLink][href$='/{path}']")


def _opened(browser: Browser, app: RunningApp) -> Page:
    """A new session that has searched once and looks at the comparison."""
    page = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 1000}).new_page()
    page.add_init_script(_NOTE_MESSAGES)
    page.goto(f"{app.address}/search?{urlencode(_SEARCHED)}")
    page.wait_for_selector("h1", timeout=_PATIENCE)
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=_PATIENCE)
    page.evaluate(_NOTE_CHANGES)
    _at_once([page], _link(""))
    return page


def _rounds(app: RunningApp, pages: Sequence[Page], clicks: Sequence[Click], count: int) -> dict[str, Cost]:
    found: dict[str, list[Cost]] = {one.name: [] for one in clicks}
    for _ in range(count + 1):
        for one in clicks:
            found[one.name].append(_cost(app, pages, one.on))
    return {name: _together(costs[1:]) for name, costs in found.items()}


def _together(costs: Sequence[Cost]) -> Cost:
    seconds = [took for cost in costs for took in cost.seconds]
    return Cost(seconds, median(cost.server for cost in costs), median(cost.browser for cost in costs))


def _cost(app: RunningApp, pages: Sequence[Page], on: Target) -> Cost:
    before = _processor(app)
    seconds = _at_once(pages, on)
    server, browser = ((b - a) / len(pages) for a, b in zip(before, _processor(app), strict=True))
    return Cost(seconds, server, browser)


def _at_once(pages: Sequence[Page], on: Target) -> list[float]:
    """Click the same in all pages at the same moment; returns the seconds of each."""
    at = 1000 * (time.time() + 0.3 + 0.05 * len(pages))  # the last page must know of it by then
    for page in pages:
        page.wait_for_selector(on.selector, timeout=_PATIENCE)
        page.evaluate(_CLICK_AT, [*on, at])
    for page in pages:
        page.wait_for_function("() => window.settled()", timeout=_PATIENCE, polling=100)
    return [page.evaluate("() => window.changed - window.began") / 1000 for page in pages]


def _processor(app: RunningApp) -> tuple[float, float]:
    """Processor seconds of the server and of the browser so far."""
    browser = [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name().lower()]
    return tuple(sum(_seconds(one) for one in of) for of in ([psutil.Process(app.pid)], browser))  # type: ignore[return-value]


def _seconds(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _memory(app: RunningApp) -> int:
    """Bytes of the server that no other process has: what its end would give back."""
    return int(psutil.Process(app.pid).memory_full_info().uss)


def _without_browser(app: RunningApp, one: Click, count: int) -> list[float]:
    query = urlencode(one.query)
    visits(app.address, one.page, query, count)
    return [took for _ in range(max(_ROUNDS)) for took in visits(app.address, one.page, query, count)]
