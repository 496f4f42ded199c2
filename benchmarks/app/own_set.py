"""A set of one's own after the first visit: seconds from its use to BM25's figures and to everything, and the time left
that is told meanwhile, held against what it took.

Its 1,400 passages are halves of KorQuAD's paragraphs, each with a question whose answer stands in it.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Page

from benchmarks.app.app import opened_page, running_app
from benchmarks.app.first_visit import BM25_FIGURES, EVERYTHING, seen
from benchmarks.material import korquad
from data.workspace import read_json

_PASSAGES = 1400
_FIRST_SECONDS, _LAST_SECONDS = 5.0, 3.0  # in which the time left is not judged: nothing is known, nothing is left


class _Told(NamedTuple):
    """What a page that looks at this second tells: the time left in seconds, None where it tells none."""

    second: float
    left: float | None


def measure() -> list[str]:
    """Visit a new workspace, upload a set, use it and compare; returns a report."""
    with tempfile.TemporaryDirectory() as folder, opened_page() as page, running_app(Path(folder) / "workspace") as app:
        path = Path(folder, "own.json")
        path.write_text(json.dumps(list(_rows()), ensure_ascii=False), encoding="utf-8")
        app.wait()
        page.goto(app.address)
        seen(page, EVERYTHING)
        used = _use(page, f"{app.address}/data", path)
        page.get_by_role("link", name="Compare").first.click()
        told = list(_told(page, Path(folder) / "workspace", used, BM25_FIGURES))
        first = time.perf_counter() - used
        told += _told(page, Path(folder) / "workspace", used, EVERYTHING)
        whole = time.perf_counter() - used
    return _report(first, whole, told)


def _rows() -> Iterator[dict[str, str]]:
    """Passages with a question each, the first so many."""
    count = 0
    for article in json.loads(korquad().read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for half in _halves(paragraph):
                if count < _PASSAGES:
                    yield half | {"title": article["title"]}
                    count += 1


def _halves(paragraph: dict[str, Any]) -> Iterator[dict[str, str]]:
    text = paragraph["context"]
    middle = text.find(". ", len(text) // 2) + 1 or len(text)
    for start, end in ((0, middle), (middle, len(text))):
        for asked in paragraph["qas"]:
            answer = asked["answers"][0]
            if start <= answer["answer_start"] and answer["answer_start"] + len(answer["text"]) <= end:
                yield {"question": asked["question"], "context": text[start:end].strip(), "answer": answer["text"]}
                break


def _use(page: Page, address: str, path: Path) -> float:
    """Upload a file and use it; returns when the button was pressed."""
    page.goto(address)
    page.locator("input[type=file]").set_input_files(path)
    use = "[data-test-script-state=notRunning] button:has-text('Use this set'):enabled"
    seen(page, use)
    used = time.perf_counter()
    page.locator(use).first.click()
    seen(page, ":text('Every page now uses')")
    return used


def _told(page: Page, workspace: Path, began: float, selector: str) -> Iterator[_Told]:
    """Yield what is told until something is seen."""
    while not page.query_selector(selector):
        for path in workspace.glob("comparisons/*/status.json"):
            status = read_json(path)
            if status.get("state") == "running":
                yield _Told(time.perf_counter() - began, status.get("seconds_left"))
        time.sleep(0.25)


def _report(first: float, whole: float, told: list[_Told]) -> list[str]:
    judged = [one for one in told if one.second > _FIRST_SECONDS and whole - one.second > _LAST_SECONDS]
    known = [(one.second, one.left, whole - one.second) for one in judged if one.left is not None]
    errors = [abs(left - real) / real for _, left, real in known]
    rises = [after - before for (_, before, _), (_, after, _) in pairwise(known)]
    shown = [min(known, key=lambda one: abs(one[0] - second)) for second in range(5, int(whole), 5)] if known else []
    return [
        f"BM25's figures {first:.1f} s after the set is used (wanted: 6), everything after {whole:.1f} s.",
        "",
        "| second | time left, told | what it took from there |",
        "|---:|---:|---:|",
        *(f"| {second:.0f} | {left:.0f} | {real:.0f} |" for second, left, real in dict.fromkeys(shown)),
        "",
        f"From second {_FIRST_SECONDS:.0f} on a time was told {len(known)} times of {len(judged)}; it was off by "
        f"{max(errors, default=0):.0%} at most (wanted: 33%), and rose by {max(0.0, *rises, 0.0):.1f} s at most.",
    ]
