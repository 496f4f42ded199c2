"""A comparison that a user stops: it stays stopped everywhere, and its finished results stay on the page.

The dataset is large enough for a transformer that the dense retriever is still running at the stop.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import CATALOG, StoredSet, read_entry, remove, save_question_set
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME, DENSE_NAME, WORDS_NAME
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.driving import MINUTES, wait_for_comparison, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.packaged]
EN = catalog("en")
PASSAGES = 400
QUESTIONS = 120
BOTH = (BM25_NAME, DENSE_NAME)
THREE = (BM25_NAME, WORDS_NAME, DENSE_NAME)


def large_set(name: str) -> QuestionSet:
    """Long passages of several topics each, whose dense vectors take minutes."""
    sample = read_entry(CATALOG["sample"]).question_set
    texts = [passage.text for passage in sample.passages]
    passages = [
        Passage(f"p{row}", f"{name} {row}. " + " ".join(texts[(row + step) % len(texts)] for step in (0, 7, 19)))
        for row in range(PASSAGES)
    ]
    source_questions = sample.questions[:QUESTIONS]
    return QuestionSet(
        name,
        passages,
        [Question(f"q{row}", question.text, (), (f"p{row}",)) for row, question in enumerate(source_questions)],
    )


@pytest.fixture
def large(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> StoredSet:
    if DEFAULT.path is None:
        pytest.skip("the package of the base is not installed: nothing here takes long")
    monkeypatch.setenv("MRC_WORKSPACE", str(workspace))
    return save_question_set(large_set("large"))


def address(app: str, data: StoredSet, *names: str) -> str:
    parameters = {"retrievers": "|".join(names), "part": "all"} if names else {}
    return f"{app}/?{urlencode({'data': data.key, 'lang': 'en', **parameters})}"


def job_of(data: StoredSet, *names: str) -> ComparisonJob:
    return ComparisonJob.of(choices_for(data).experiment(data, [*names], Part.ALL), data.fingerprint)


def press_button(page: Page, label: str) -> None:
    """Press a button once."""
    wait_until_idle(page)
    page.get_by_role("button", name=EN[label], exact=True).click()


def expect_text(page: Page, label: str, **values: str) -> None:
    text = EN[label].format(**values).replace("**", "")
    expect(page.get_by_text(text).first).to_be_visible()


def expect_button(page: Page, label: str) -> None:
    expect(page.get_by_role("button", name=EN[label], exact=True)).to_be_visible()


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def stays_stopped(job: ComparisonJob, seconds: float = 2.0) -> None:
    """A page that is open looks at the job twice a second, and would have started it by then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert job.is_stopped
        time.sleep(0.1)


def test_comparison_stopped_in_a_tab_stays_stopped_in_all(app: str, page: Page, large: StoredSet) -> None:
    page.goto(address(app, large))
    again = page.get_by_role("button", name=EN["compare.run_again"])
    expect(again).to_be_enabled(timeout=6 * MINUTES)  # only BM25 has started by itself, on a machine that may be busy
    chips = page.get_by_test_id("stMain").get_by_role("button", name=DENSE_NAME)
    expect(chips.first).to_contain_text("min")
    assert job_of(large, BM25_NAME).done
    assert not job_of(large, *BOTH).has_status

    page.goto(address(app, large, *BOTH))
    page.get_by_role("button", name=EN["compare.with_new"].format(names=DENSE_NAME)).click()
    job = job_of(large, *BOTH)
    wait_for(lambda: job.running and job.status().phase == DENSE_NAME)
    second = page.context.new_page()
    second.goto(address(app, large, *BOTH))  # it finds the comparison running
    press_button(second, "job.stop")  # the first press
    for tab in (second, page):
        expect_text(tab, "compare.missing_stopped", names=DENSE_NAME)
        expect_button(tab, "compare.resume")
        expect(tab.get_by_text("Earlier comparison · 120 questions")).to_be_visible()
    stays_stopped(job)
    second.goto(f"{address(app, large, *BOTH)}&run=now")
    page.reload()
    for tab in (second, page):
        expect_text(tab, "compare.missing_stopped", names=DENSE_NAME)
    stays_stopped(job)


def test_finished_retrievers_stay_and_are_compared_alone(app: str, page: Page, large: StoredSet) -> None:
    page.goto(address(app, large, *THREE))
    job = job_of(large, *THREE)
    start = page.locator(".st-key-run button")
    expect(start).to_be_visible()
    wait_until_idle(page)
    assert not job.has_status  # the dense retriever was stopped before: nothing starts by itself
    start.click()
    wait_for(lambda: set(job.finished_retrievers()) == {BM25_NAME, WORDS_NAME} and job.status().phase == DENSE_NAME)
    finished = f"{BM25_NAME}, {WORDS_NAME}"
    expect_text(page, "compare.partial_running", names=finished)

    page.reload()
    press_button(page, "job.stop")
    expect_text(page, "compare.partial_stopped", names=finished)
    table = page.get_by_test_id("stMain").get_by_test_id("stDataFrame")
    expect(table).to_have_count(1)
    page.reload()
    expect_text(page, "compare.partial_stopped", names=finished)
    stays_stopped(job)

    press_button(page, "compare.resume")
    wait_for(lambda: job.running and set(job.finished_retrievers()) == {BM25_NAME, WORDS_NAME})
    expect_text(page, "compare.partial_running", names=finished)
    began = time.monotonic()
    press_button(page, "compare.stop_and_compare")
    wait_for_comparison(page, EN["compare.run_again"])
    assert time.monotonic() - began < 30  # no search runs again
    assert job.is_stopped
    assert job_of(large, BM25_NAME, WORDS_NAME).done
    expect(page.get_by_role("tab", name=EN["compare.view_overview"])).to_be_visible()
    expect(page.get_by_text("Partial result")).to_have_count(0)


def test_a_set_deleted_in_another_tab_is_reported(app: str, page: Page, large: StoredSet) -> None:
    other = save_question_set(
        QuestionSet("other", [Passage("p", "한강은 서울을 지난다")], [Question("q", "한강은?", (), ("p",))])
    )
    page.goto(address(app, other, BM25_NAME))
    wait_for_comparison(page, EN["compare.run_again"])
    remover = page.context.new_page()
    remover.goto(f"{app}/data?data={large.key}&lang=en")
    remover.get_by_text(EN["data_page.sets"].partition("{count}")[0]).click()
    remover.locator(f".st-key-remove_{other.key} button").click()
    remover.locator(f".st-key-remove_yes_{other.key} button").click()
    expect(remover.locator(f".st-key-remove_{other.key}")).to_have_count(0)

    page.get_by_role("tab", name=EN["compare.view_where"]).click()
    expect_text(page, "missing_set.deleted", name="other")
    expect(page.get_by_role("tab")).to_have_count(0)
    page.get_by_test_id("stMain").get_by_role("button", name="large").click()
    expect(page.get_by_role("heading", name=EN["compare.purpose"])).to_be_visible(timeout=3 * MINUTES)
    expect(page).to_have_url(re.compile(large.key))
    remove(large.key)
    page.goto(f"{app}/?data=doesnotexist&lang=en")
    expect_text(page, "missing_set.unknown", key="doesnotexist")
