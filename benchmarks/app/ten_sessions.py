"""Measure waiting time, CPU time and memory for ten simultaneous users: `python -m benchmarks ten_sessions`.

The comparison is that of `benchmarks.app.comparison_page`, with everything cached. `SESSIONS` (10) pages of one
Chromium, each in a separate context, click the same element at the same time. Unlike those of real users, the browsers
share the cores of the server. The table therefore has the CPU seconds of both, and the waiting times of ten visits
without a browser.
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
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import save_question_set
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import add_retriever
from mrc_workbench.retrieval.comparison.store import ComparisonJob, save_comparison
from mrc_workbench.workbench.views.choices import choices_for

_ROUNDS = (2, 1)  # counted, for one session and for all; browsers are slow, and the first round does not count
_TIMEOUT = 60_000  # milliseconds
# of the slowest of all sessions, and of a single session
_TARGET_SECONDS = 1.0
_TARGET_SECONDS_ALONE = 0.5
_SEARCHED = {"q": "세종대왕이 만든 글자는?", "columns": "BM25|Dense"}
# A click ends with the last change of the page, if the server has answered and the page does not change for a while.
# The app displays whether its script runs, but a slow browser displays it late, or not at all if start and end arrive
# together. Changes of a table's canvas are observed in its grid for screen readers.
_RECORD_MESSAGES = """
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    window.sent = performance.now();
    this.addEventListener('message', () => { window.received = performance.now(); }, {once: true});
    return send.call(this, data);
  };
"""
_RECORD_CHANGES = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  const idle = () => app.dataset.testScriptState === 'notRunning';
  window.settled = () => window.began < window.sent && window.sent < window.received && idle()
    && performance.now() - Math.max(window.received, window.changed) > 300;
  const isContent = (change) => change.target.nodeName !== 'CANVAS';
  new MutationObserver((changes) => { if (changes.some(isContent)) window.changed = performance.now(); }).observe(
    app, {attributes: true, childList: true, characterData: true, subtree: true});
}"""
# The element is searched at the time of the click, since the page may replace it until then.
_CLICK_AT = """([selector, text, at]) => {
  const matches = (element) => !text || element.textContent.trim() === text;
  const target = () => [...document.querySelectorAll(selector)].find(matches);
  const click = () => { window.began = performance.now(); target().click(); };
  window.began = Infinity;
  setTimeout(click, at - Date.now());
}"""


class ClickTarget(NamedTuple):
    """A click target: the first element with this selector and, if given, this text."""

    selector: str
    text: str = ""


class Click(NamedTuple):
    """A click on a page, with the page and the query that open its target."""

    name: str
    target: ClickTarget
    page: str
    query: dict[str, str]


class ClickCost(NamedTuple):
    """The seconds of each simultaneous click, and the CPU seconds of server and browser per click."""

    seconds: list[float]
    server: float
    browser: float


def ten_sessions() -> list[str]:
    """Click with one session and with all of them; returns lines of a report."""
    count = int(os.environ.get("SESSIONS", "10"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question = _store_comparison()
        clicks = _clicks(question)
        with running_app(Path(folder)) as app:
            app.wait()
            with opened_browser() as browser:
                pages = [_open_session(browser, app)]
                single = _click_rounds(app, pages, clicks, _ROUNDS[0])
                memory = [_memory(app)]
                pages += [_open_session(browser, app) for _ in range(count - 1)]
                at_once = _click_rounds(app, pages, clicks, _ROUNDS[1])
                memory.append(_memory(app))
            without_browser = {click.name: _visit_without_browser(app, click, count) for click in clicks}
    growth = (memory[1] - memory[0]) / max(1, count - 1)
    memory_text = f"{memory[0] / 10**6:,.0f} MB with one session and {memory[1] / 10**6:,.0f} MB with {count}"
    return [
        *table(single, at_once, without_browser, count),
        "",
        f"The server uses {memory_text}: {growth / 10**6:.1f} MB per additional session; sessions share models and "
        "indexes.",
    ]


def table(
    single: dict[str, ClickCost], at_once: dict[str, ClickCost], without_browser: dict[str, list[float]], count: int
) -> list[str]:
    """Return a Markdown table with a row per click, and the clicks that miss their target."""
    columns = (
        "seconds from click to rendered",
        "one session",
        f"{count} at once, median",
        "slowest",
        "server CPU per click",
        "browser CPU per click",
        f"{count} without browsers, median",
        "slowest",
    )
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    for name, cost in at_once.items():
        cells = (
            *(median(single[name].seconds), median(cost.seconds), max(cost.seconds), cost.server, cost.browser),
            *(median(without_browser[name]), max(without_browser[name])),
        )
        lines.append(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    slow = (
        _describe_slow(
            f"Above {_TARGET_SECONDS_ALONE} s with one session",
            {name: median(cost.seconds) for name, cost in single.items()},
            _TARGET_SECONDS_ALONE,
        ),
        _describe_slow(
            f"slowest of {count} above {_TARGET_SECONDS} s",
            {n: max(cost.seconds) for n, cost in at_once.items()},
            _TARGET_SECONDS,
        ),
        _describe_slow(
            "the same without browsers",
            {name: max(seconds) for name, seconds in without_browser.items()},
            _TARGET_SECONDS,
        ),
    )
    return [*lines, "", "; ".join(slow) + "."]


def _describe_slow(condition: str, seconds: dict[str, float], target: float) -> str:
    return f"{condition}: {', '.join(name for name, value in seconds.items() if value > target) or 'none'}"


def _store_comparison() -> str:
    """Store the comparison that the page opens by default; returns the id of a question."""
    question_set = read_file(korquad()).question_set
    stored = save_question_set(question_set)
    for spec in RETRIEVERS:
        if spec.name not in choices_for(stored).specs:
            add_retriever(stored.fingerprint, spec)
    choices = choices_for(stored)
    experiment = choices.experiment(stored, list(choices.default_names), Part.ALL)
    save_comparison(compare(experiment, question_set), ComparisonJob.of(experiment, question_set.fingerprint).folder)
    return question_set.questions[0].id


def _clicks(question: str) -> list[Click]:
    """Return the clicks of a round, which starts and ends on the overview."""
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


def _radio(name: str) -> ClickTarget:
    return ClickTarget("[role=radio]", name)


def _button(key: str) -> ClickTarget:
    return ClickTarget(f".st-key-{key} button")


def _link(path: str) -> ClickTarget:
    return ClickTarget(f"[data-testid=stTopNavLink][href$='/{path}']")


def _open_session(browser: Browser, app: RunningApp) -> Page:
    """Open a new session that has searched once and displays the comparison."""
    page = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 1000}).new_page()
    page.add_init_script(_RECORD_MESSAGES)
    page.goto(f"{app.address}/search?{urlencode(_SEARCHED)}")
    page.wait_for_selector("h1", timeout=_TIMEOUT)
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=_TIMEOUT)
    page.evaluate(_RECORD_CHANGES)
    _click_at_once([page], _link(""))
    return page


def _click_rounds(app: RunningApp, pages: Sequence[Page], clicks: Sequence[Click], count: int) -> dict[str, ClickCost]:
    costs_by_click: dict[str, list[ClickCost]] = {click.name: [] for click in clicks}
    for _ in range(count + 1):
        for click in clicks:
            costs_by_click[click.name].append(_measure_cost(app, pages, click.target))
    return {name: _median_cost(costs[1:]) for name, costs in costs_by_click.items()}


def _median_cost(costs: Sequence[ClickCost]) -> ClickCost:
    seconds = [value for cost in costs for value in cost.seconds]
    return ClickCost(seconds, median(cost.server for cost in costs), median(cost.browser for cost in costs))


def _measure_cost(app: RunningApp, pages: Sequence[Page], target: ClickTarget) -> ClickCost:
    before = _cpu_seconds(app)
    seconds = _click_at_once(pages, target)
    server, browser = ((b - a) / len(pages) for a, b in zip(before, _cpu_seconds(app), strict=True))
    return ClickCost(seconds, server, browser)


def _click_at_once(pages: Sequence[Page], target: ClickTarget) -> list[float]:
    """Click the target in all pages at the same time; returns the seconds of each."""
    at = 1000 * (time.time() + 0.3 + 0.05 * len(pages))  # after the last page has received the command
    for page in pages:
        page.wait_for_selector(target.selector, timeout=_TIMEOUT)
        page.evaluate(_CLICK_AT, [*target, at])
    for page in pages:
        page.wait_for_function("() => window.settled()", timeout=_TIMEOUT, polling=100)
    return [page.evaluate("() => window.changed - window.began") / 1000 for page in pages]


def _cpu_seconds(app: RunningApp) -> tuple[float, float]:
    """Return the CPU seconds of the server and of the browser so far."""
    browser = [process for process in psutil.Process().children(recursive=True) if "chrom" in process.name().lower()]
    return tuple(sum(_seconds(process) for process in processes) for processes in ([psutil.Process(app.pid)], browser))  # type: ignore[return-value]


def _seconds(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _memory(app: RunningApp) -> int:
    """Return the private memory of the server in bytes."""
    return int(psutil.Process(app.pid).memory_full_info().uss)


def _visit_without_browser(app: RunningApp, click: Click, count: int) -> list[float]:
    query = urlencode(click.query)
    visits(app.address, click.page, query, count)
    return [seconds for _ in range(max(_ROUNDS)) for seconds in visits(app.address, click.page, query, count)]
