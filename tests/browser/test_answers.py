"""From a trained reader to its answers in a real browser: trained, asked, judged, held against a model, evaluated."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser import driving
from tests.browser.driving import MINUTES, expect_no_error, open_training_form, use_language_model, wait_until_idle
from tests.chat_server import EVENTS, KEY, Reply, chat_server, chunk
from tests.tiny_models import build_bi_encoder

pytestmark = pytest.mark.browser
KO = catalog("ko")
EN = catalog("en")
QUESTION, UNANSWERED = read_entry(CATALOG["sample"]).question_set.questions[:2]  # the second endpoint does not answer


def test_a_reader_is_trained_in_the_browser(app: str, korean_page: Page, workspace: Path) -> None:
    base = build_bi_encoder(workspace.parent / "tiny")
    open_training_form(korean_page, f"{app}/train?train=reader&base={base}", "학습 이름", "독해", ("에폭", "0.1"))
    korean_page.get_by_role("button", name="학습 시작").click()
    expect(korean_page.get_by_role("button", name="중지", exact=True)).to_be_visible(timeout=2 * MINUTES)
    driving.wait_for_training(workspace, "독해", "done", seconds=300)
    expect(korean_page.get_by_role("main").get_by_text("완료").first).to_be_visible()
    expect_no_error(korean_page)


def test_a_question_is_read_side_by_side_and_its_answer_judged(app: str, korean_page: Page, workspace: Path) -> None:
    korean_page.goto(f"{app}/answers?retrievers=BM25+words%7CBM25")
    expect(korean_page.get_by_role("heading", level=1)).to_have_text(KO["answers.purpose"])
    box = korean_page.get_by_role("textbox", name=KO["search.question"])
    box.fill(QUESTION.text)
    korean_page.get_by_role("button", name=KO["answers.ask"], exact=True).click()
    expect(korean_page.locator(".results-head")).to_have_count(2)
    expect(korean_page.get_by_text(re.compile("독해 모델 · 확률"))).to_have_count(2)
    expect(korean_page.locator(".results mark").first).to_be_visible()
    expect(korean_page).to_have_url(re.compile("q="))
    korean_page.get_by_role("button", name=KO["answers.judge_wrong"]).first.click()
    pressed = korean_page.locator("[class*=st-key-judge_answer_wrong] [data-testid=stBaseButton-primary]")
    expect(pressed.first).to_be_visible()
    (judgement_file,) = (workspace / "judgements").glob("*.json")
    assert QUESTION.text in json.dumps(json.loads(judgement_file.read_text(encoding="utf-8")), ensure_ascii=False)
    expect_no_error(korean_page)


def test_a_language_model_answers_with_citations_that_lead_to_passages(app: str, page: Page, workspace: Path) -> None:
    with chat_server(lambda _: f"{QUESTION.answers[0]} [1]. <b>또</b> [7]") as server:
        page.goto(f"{app}/answers?retrievers=BM25&q={QUESTION.text}")
        use_language_model(page, server)
        expect(page.get_by_text("Citations checked:")).to_be_visible()
        cited = page.get_by_role("link", name="[1]").first
        target = str(cited.get_attribute("href"))
        expect(page.locator(f"[id='{target.removeprefix('#')}']")).to_have_count(1)
        expect(page.get_by_text("was not sent")).to_be_visible()
        expect(page.get_by_text("<b>또</b>")).to_be_visible()
        assert len(server.requests) == 1
        assert KEY not in page.url
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def endless_stream(event: str, pause: float) -> Iterator[str]:
    yield chunk("먼저 ")
    while True:
        time.sleep(pause)
        yield event


ENDLESS = {
    "silence": lambda: endless_stream("", 0.05),
    "pings": lambda: endless_stream(": ping\n\n", 0.05),
    "pieces": lambda: endless_stream(chunk("서울 "), 0.05),
    "flood": lambda: endless_stream(chunk("홍수 " * 20) * 50, 0),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_stopping_or_closing_the_browser_ends_all_answers(app: str, page: Page, kind: str) -> None:
    coming = page.get_by_text("먼저").or_(page.get_by_text("홍수").first).first
    with chat_server(lambda _: Reply(200, ENDLESS[kind](), EVENTS)) as server:
        page.goto(f"{app}/answers?retrievers=BM25+words%7CBM25&q={UNANSWERED.text}")
        wait_until_idle(page)
        use_language_model(page, server)
        expect(coming).to_be_visible()
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.get_by_text(EN["answers.was_stopped"], exact=True)).to_have_count(2)
        assert server.disconnected.wait(10), "the connection is open"
        assert len(server.requests) == 1
        expect_no_error(page)
        wait_until_idle(page)
        expect(coming).to_have_count(0)
        server.disconnected.clear()
        page.get_by_role("button", name=EN["answers.ask_again"], exact=True).first.click()
        expect(coming).to_be_visible()
        page.close()
        assert server.disconnected.wait(20), "the connection is open"
        assert len(server.requests) == 2


def test_retrievers_are_compared_by_the_answers_they_lead_to(app: str, page: Page) -> None:
    # by what answers have in common with the right ones: so small a reader has next to none in the very words
    address = "answers=evaluate&answered_part=validation&right_by=overlap&retrievers=BM25+words%7CBM25"
    page.goto(f"{app}/answers?{address}")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.get_by_text("F1 by number of passages read")).to_be_visible(timeout=3 * MINUTES)
    expect(page.get_by_text(re.compile(r"reaches F1 \d+\.\d"))).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart").first).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("button", name="scores.json").click()
    scores = json.loads(Path(started.value.path()).read_text(encoding="utf-8"))
    (by_retriever,) = scores["readers"].values()
    table_cells = driving.read_cells(page.get_by_test_id("stDataFrame").first)
    for name in ("BM25 words", "BM25"):
        row = table_cells[table_cells.index(name) + 1 :]
        f1_values = {f"{100 * by_k['f1']:.1f}" for by_k in by_retriever[name].values()}
        assert (f1_values - {"0.0"}) & {f"{float(cell):.1f}" for cell in row[:4] if re.fullmatch(r"[\d.]+", cell)}, name
    page.get_by_role("radio", name="Exact match", exact=True).click()
    expect(page.get_by_text(re.compile(r"answers .* of 100 questions exactly"))).to_be_visible()
    expect(page.get_by_text("Exact match by number of passages read")).to_be_visible()
    wait_until_idle(page)
    page.get_by_role("tab", name="By group", exact=True).click()
    expect(page.get_by_text("Question word").first).to_be_visible()
    page.get_by_role("tab", name="Questions", exact=True).click()
    expect(page.get_by_text(re.compile(r"of 48 questions"))).to_be_visible()
    expect_no_error(page)
    page.reload()  # the address opens the same view in a new session
    expect(page.get_by_text(re.compile(r"of 48 questions"))).to_be_visible()
