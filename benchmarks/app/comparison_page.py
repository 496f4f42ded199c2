"""Time the analysis of the Compare page, and clicks on it: `python -m benchmarks deeper_comparison interactions`.

The comparison has all questions of KorQuAD dev and five retrievers with depth 100.
"""

import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.app.app import opened_page, running_app
from benchmarks.peers import measure_seconds
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.store import save_question_set
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.analysis.questions import (
    SliceProperty,
    ceilings,
    find_outcomes,
    rank_map,
    slice_table,
    slices,
)
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, load, save_comparison
from mrc_workbench.retrieval.report.report import report
from mrc_workbench.retrieval.significance import question_groups

RETRIEVERS: tuple[Spec, ...] = (
    BM25Spec(name="BM25"),
    WindowedBM25Spec(name="Sentences"),
    DenseSpec(name="Dense"),
    HybridSpec(name="Hybrid", retrievers=("BM25", "Dense")),
    RerankSpec(name="Reranked", first_stage="BM25"),
)


def deeper_comparison() -> list[str]:
    """Store a comparison, load it and time each analysis; returns a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        comparison_folder = Path(folder, "comparison")
        save_comparison(compare(Experiment(data=str(korquad()), retriever=RETRIEVERS), question_set), comparison_folder)
        start = time.perf_counter()
        comparison = load(comparison_folder, question_set)
        seconds = {"loading the stored comparison": time.perf_counter() - start}
        seconds |= {name: measure_seconds(partial(part, comparison)) for name, part in _PARTS.items()}
    analysis_seconds = sum(
        seconds[name] for name in ("intervals and tests", "slices", "waterfall and ceilings", "map of ranks")
    )
    n_questions = len(comparison.question_set.questions)
    lines = [
        f"| {n_questions:,} questions, {len(comparison.results)} retrievers, depth 100 | seconds |",
        "|---|---:|",
        *(f"| {name} | {value:.2f} |" for name, value in seconds.items()),
    ]
    return [
        *lines,
        "",
        f"From the rankings to significance, slices, waterfall and map: {analysis_seconds:.1f} s (target: within 3).",
    ]


def _slices(comparison: Comparison) -> None:
    scores = comparison.scores
    groups = question_groups(comparison.question_set)
    for by in SliceProperty:
        slice_table(slices(comparison.question_set, by), scores, "recall@10", groups)


def _waterfall(comparison: Comparison) -> None:
    find_outcomes(comparison, 10)
    ceilings(comparison)


_PARTS: dict[str, Callable[[Comparison], object]] = {
    "intervals and tests": evidence,
    "slices": _slices,
    "waterfall and ceilings": _waterfall,
    "map of ranks": lambda loaded: rank_map(list(loaded.rankings.values()), loaded.question_set),
    "report": lambda loaded: report(loaded, "en"),
}


_REPETITIONS = 6
_SLICES = ["Question length (characters)", "Passage length (characters)", "Word overlap with the passage"]
# the app displays whether its script runs; record when a run ends
_RECORD_RUNS = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  window.ends = [];
  new MutationObserver(() => {
    if (app.dataset.testScriptState === 'notRunning') window.ends.push(performance.now());
  }).observe(app, {attributes: true, attributeFilter: ['data-test-script-state']});
}"""


def interactions() -> list[str]:
    """Open a stored comparison in the app and click; returns a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        key, first = _store_comparison()
        with running_app(Path(folder)) as app, opened_page() as page:
            app.wait()
            at = f"{app.address}/?comparison={key}"
            question = f"{at}&view=why&question={first}"
            rows = [
                ("another K", _clicks(page, at, _select("K", ["1", "5", "20", "50"]))),
                ("another metric", _clicks(page, at, _select("Metric", ["Recall", "Hit", "MRR"]))),
                ("another view", _clicks(page, at, _radio(["Where", "Why", "Overview"]))),
                ("another slice", _clicks(page, f"{at}&view=where", _radio(_SLICES))),
                ("another question", _clicks(page, question, _there_and_back)),
            ]
    return [
        "| after the first round | median, seconds | slowest |",
        "|---|---:|---:|",
        *(f"| {name} | {statistics.median(times):.2f} | {max(times):.2f} |" for name, times in rows),
    ]


def _store_comparison() -> tuple[str, str]:
    """Compare and store; returns the comparison's key and the id of the first question."""
    question_set = read_file(korquad()).question_set
    stored = save_question_set(question_set)
    experiment = Experiment(data=stored.key, retriever=RETRIEVERS)
    folder = ComparisonJob.of(experiment, question_set.fingerprint).folder
    save_comparison(compare(experiment, question_set), folder)
    return folder.name, question_set.questions[0].id


Act = Callable[[Any, int], None]  # the n-th click, on a page


def _clicks(page: Any, address: str, act: Act, ready: str = "h1") -> list[float]:
    page.goto(address)
    page.wait_for_selector(ready, timeout=60_000)
    _settle(page)
    page.evaluate(_RECORD_RUNS)
    for n in range(_REPETITIONS):  # the first round fills the caches
        _timed(page, act, n)
    return [_timed(page, act, n) for n in range(_REPETITIONS)]


def _timed(page: Any, act: Act, n: int) -> float:
    page.evaluate("() => { window.ends = []; }")
    start = page.evaluate("() => performance.now()")
    act(page, n)
    page.wait_for_function("() => window.ends.length > 0", timeout=60_000)
    _settle(page)
    ends = page.evaluate("() => window.ends")
    return float(ends[-1] - start) / 1000


def _settle(page: Any) -> None:
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=60_000)
    page.wait_for_timeout(400)  # a second run may follow the first


def _select(label: str, options: list[str]) -> Act:
    def act(page: Any, n: int) -> None:
        page.get_by_test_id("stMain").get_by_role("combobox", name=re.compile(rf"(^|\. ){label}$")).first.click()
        page.get_by_role("option", name=options[n % len(options)], exact=True).click()

    return act


def _radio(names: list[str]) -> Act:
    def act(page: Any, n: int) -> None:
        page.get_by_role("radio", name=names[n % len(names)], exact=True).click()

    return act


def _there_and_back(page: Any, n: int) -> None:
    page.locator(f".st-key-why_{'before' if n % 2 else 'after'} button").click()
