"""The whole way with real data: upload, audit, train both models, compare four retrievers, search.

All of KorQuAD is uploaded and audited; the models learn, and are compared, on every eighth of its articles.
"""

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser import driving
from tests.browser.driving import MINUTES, download, open_training_form, wait_for_training, wait_until_idle
from tests.programs import run_module

KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not KORQUAD.is_file(), reason="MRC_DATA names no folder with KorQuAD_v1.0_dev.json"),
]
MODELS = {"finder": ("bi-encoder", "1"), "reader": ("cross-encoder", "0.1")}  # their kinds and epochs
RETRIEVERS = ["BM25", "Dense · finder", "Hybrid · finder", "Reranked · reader"]


@pytest.fixture(scope="module")
def articles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("articles") / "articles.json"
    selected = json.loads(KORQUAD.read_text(encoding="utf-8"))["data"][::8]
    path.write_text(json.dumps({"data": selected}, ensure_ascii=False), encoding="utf-8")
    return path


def counts(path: Path) -> tuple[int, int]:
    """The passages and the questions of a file."""
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    return len({paragraph["context"] for paragraph in paragraphs}), sum(len(entry["qas"]) for entry in paragraphs)


def test_upload_is_understood_audited_and_put_to_use(app: str, page: Page, articles: Path) -> None:
    sidebar = page.get_by_test_id("stSidebarUserContent")
    for file in (KORQUAD, articles):
        page.goto(f"{app}/data")
        page.locator("input[type=file]").set_input_files(file)
        if file == KORQUAD:
            expect(page.get_by_text("964 paragraphs → 961 passages")).to_be_visible(timeout=2 * MINUTES)
            expect(page.get_by_text("5,774 questions").first).to_be_visible()
            expect(page.get_by_text("140 articles").first).to_be_visible()
            expect(page.get_by_text("will be strong here")).to_be_visible()
        page.get_by_role("button", name="Use this dataset").click()
        passages, questions = counts(file)
        sidebar_text = f"{passages:,} passages · {questions:,} questions"
        expect(sidebar.get_by_text(sidebar_text)).to_be_visible(timeout=2 * MINUTES)


def test_both_models_are_trained(app: str, page: Page, workspace: Path) -> None:
    stop = page.get_by_role("button", name="Stop", exact=True)
    for name, (kind, epochs) in MODELS.items():
        open_training_form(page, f"{app}/train?train={kind}&base=starter", "Training name", name, ("Epochs", epochs))
        page.get_by_role("button", name="Start training").click()
        # an estimate that is still running has a Stop button, too
        wait_for_training(workspace, name, ("queued", "running"))
        page.reload()  # a page opened anew shows what another one started
        expect(stop).to_be_visible(timeout=2 * MINUTES)
        page.goto("about:blank")  # the job continues without a page, and has the cores to itself
        wait_for_training(workspace, name, "done", seconds=8 * 60)
    page.goto(f"{app}/train")
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()
    for name in MODELS:
        expect(page.get_by_role("main").get_by_text(name).first).to_be_visible()


def test_the_table_equals_the_commands(
    app: str, page: Page, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto(f"{app}/?k=10&retrievers={quote('|'.join(RETRIEVERS))}")
    start, again = (page.get_by_role("button", name=name, exact=True) for name in ("Compare", "Run again"))
    expect(start.or_(again).first).to_be_visible()
    wait_until_idle(page)
    if start.count() and start.is_enabled():  # a retriever that may take longer than a minute waits for a click
        start.click()
    driving.wait_for_comparison(page, "Run again")
    expect(page.get_by_role("combobox", name="Questions")).to_have_value("Test")
    experiment = tmp_path / "experiment.toml"
    experiment.write_bytes(download(page, "Experiment file").read_bytes())
    monkeypatch.setenv("MRC_WORKSPACE", str(workspace))
    run_module("mrc_workbench", "compare", experiment, "--out", tmp_path / "out").check_returncode()
    commanded = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))["retrievers"]
    # a canvas renders the table; beside it a grid for screen readers has its content
    canvas = page.locator("canvas").first
    headers = [header.strip() for header in canvas.locator("[role=columnheader]").all_text_contents()]
    cells = canvas.locator("[role=gridcell]").all_text_contents()
    for name in RETRIEVERS:
        row = dict(zip(headers, cells[cells.index(name) :], strict=False))
        displayed = [float(row[header]) / 100 for header in ("nDCG@10", "R@1", "MRR@10")]
        measures = ("ndcg@10", "recall@1", "mrr@10")
        assert displayed == pytest.approx([commanded[name][measure] for measure in measures], abs=1e-9), name
    assert commanded["Reranked · reader"]["recall@1"] >= commanded["BM25"]["recall@1"]


def test_a_question_is_searched_side_by_side(app: str, page: Page, articles: Path) -> None:
    question = json.loads(articles.read_text(encoding="utf-8"))["data"][0]["paragraphs"][0]["qas"][0]["question"]
    page.goto(f"{app}/search?q={quote(question)}&columns=BM25%7CLSA")
    expect(page.get_by_text("Answer passage at rank").first).to_be_visible(timeout=3 * MINUTES)
    expect(page.get_by_text("This question is in the dataset.")).to_be_visible()
