"""From a text to a language model in a real browser: tokenizers split it, a model is trained on it and inspected.

The test uses the Korean page; the English address shows the same in English.
"""

import json
import re
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.driving import MINUTES, choose, expect_no_error, read_cells, wait_for_training, wait_until_idle

pytestmark = pytest.mark.browser
KO = catalog("ko")
EN = catalog("en")
KINDS = ("wordpiece", "bpe", "unigram")
WHEN = ("어제", "오늘", "지난주에", "봄에", "저녁에")
WHO = ("어머니는", "동생은", "할아버지는", "선생님은", "친구는", "아이들은", "손님은", "의사는")
DID = (
    *("항구에서 배를 탔다", "시장에서 배를 샀다", "아침을 굶어 배가 고프다", "바다에서 배를 보았다"),
    *("집에서 배를 깎아 먹었다", "도서관에서 책을 읽었다", "학교에서 노래를 불렀다", "운동장에서 공을 찼다"),
)
HOW = ("혼자", "함께", "즐겁게", "조용히")
TEXT = "\n".join(" ".join(words) + "." for words in product(WHEN, WHO, HOW, DID))
SENTENCE = "어제 아이들은 도서관에서 배를 탔다."
WORD = "도서관에서"
GAP = "동생은 항구에서 [MASK] 탔다."
CONTEXTS = "항구에서 배를 탔다\n아침을 굶어 배가 고프다"
NAME = "우리 글"
PIECE_TEXTS = """list => [...list.querySelectorAll("li")].map(
    piece => [...piece.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data).join("")
)"""  # of each piece, without the marks before it


def sentence_pattern(words: dict[str, str], *keys: str) -> re.Pattern[str]:
    """The text of one of these keys, with any placeholders filled in."""
    texts = [re.split(r"\{\w+\}", words[key].replace("**", "")) for key in keys]
    return re.compile("|".join(".*?".join(map(re.escape, text)) for text in texts))


def press(page: Page, label: str) -> None:
    wait_until_idle(page)  # a click during rendering is lost
    page.get_by_role("button", name=label, exact=True).click()


def open_tab(page: Page, label: str) -> None:
    wait_until_idle(page)
    tab = page.get_by_role("tab", name=label, exact=True)
    tab.click()
    expect(tab).to_have_attribute("aria-selected", "true")


def fill(page: Page, label: str, text: str) -> None:
    field = page.get_by_role("textbox", name=label, exact=True)
    expect(field).to_be_visible()
    wait_until_idle(page)
    field.fill(text)
    field.press("Control+Enter")
    expect(field).to_have_value(text)


def open_table(page: Page, words: dict[str, str]) -> list[str]:
    """Unfold the first table under a picture; returns its cells."""
    expander = page.get_by_test_id("stExpander").filter(has_text=words["inside.as_table"]).first
    expander.locator("summary").click()
    return read_cells(expander.get_by_test_id("stDataFrame"))


def read_pieces(page: Page) -> list[list[str]]:
    """The letters of the pieces, of each tokenizer that is shown."""
    return [[*tokenizer_list.evaluate(PIECE_TEXTS)] for tokenizer_list in page.locator(".pieces").all()]


def expect_same_numbers(korean: Page, english: Page, *keys: str) -> None:
    """Both pages show the sentence of one of these keys, with the same numbers in whichever order a language has."""
    sentences = [page.get_by_text(sentence_pattern(words, *keys)) for page, words in ((korean, KO), (english, EN))]
    for sentence in sentences:
        expect(sentence).to_be_visible()
    numbers = [sorted(re.findall(r"\d[\d.,]*\d|\d", sentence.inner_text())) for sentence in sentences]
    assert numbers[0] == numbers[1]


def test_a_text_is_uploaded_and_cut_by_tokenizers(app: str, korean_module_page: Page, tmp_path: Path) -> None:
    page = korean_module_page
    kinds = [KO[f"tokenizers.kind_{kind}"] for kind in KINDS]
    good = tmp_path / f"{NAME}.txt"
    bad = tmp_path / "cp949.txt"
    good.write_text(TEXT, encoding="utf-8")
    bad.write_bytes(TEXT.encode("cp949"))
    page.goto(f"{app}/language?kinds={'|'.join(KINDS)}&vocabularies=1000")
    expect(page.get_by_role("heading", level=1)).to_have_text(KO["language_page.purpose"])

    press(page, KO["texts.add"])
    page.locator("input[type=file]").set_input_files(bad)
    expect(page.get_by_text(sentence_pattern(KO, "language.bad_text"))).to_be_visible()
    assert "corpus=" not in page.url
    page.locator("input[type=file]").set_input_files(good)
    documents = KO["texts.about_text"].format(documents=f"{len(TEXT.splitlines()):,}", characters=f"{len(TEXT):,}")
    expect(page.get_by_text(documents)).to_be_visible()
    expect(page).to_have_url(re.compile("corpus=text"))

    press(page, KO["tokenizers.start"])
    fewest = page.get_by_text(sentence_pattern(KO, "tokenizers.answer", "tokenizers.answer_alike"))
    expect(fewest).to_be_visible(timeout=3 * MINUTES)
    table_cells = read_cells(page.get_by_test_id("stDataFrame").first)
    assert {*kinds} <= {*table_cells}
    # after the name and the number of pieces
    best = min(float(table_cells[table_cells.index(kind) + 2]) for kind in kinds)
    assert f"{best:.2f}" in fewest.inner_text()
    expect_no_error(page)


def test_pieces_join_to_the_sentence_and_the_word(korean_module_page: Page) -> None:
    page = korean_module_page
    open_tab(page, KO["tokenizers.view_pieces"])
    fill(page, KO["tokenizers.sentence"], SENTENCE)
    expect(page.locator(".pieces").first).to_contain_text("탔다")
    wait_until_idle(page)
    tokenizations = read_pieces(page)
    assert len(tokenizations) >= len(KINDS)
    assert {"".join(tokens) for tokens in tokenizations} == {SENTENCE.replace(" ", "")}
    colours = page.locator(".pieces li").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert len({*colours}) == 2

    open_tab(page, KO["tokenizers.view_merging"])
    fill(page, KO["tokenizers.word"], WORD)
    built = page.get_by_text(sentence_pattern(KO, "tokenizers.built")).filter(has_text=f"{WORD}’")
    expect(built).to_be_visible()
    expect(page.locator(".pieces")).to_have_count(1)  # those of the other view are taken away
    counts = []
    for key in ("Home", "ArrowRight", "End"):
        wait_until_idle(page)
        before = page.url
        count = page.locator(".pieces li").count()
        page.get_by_role("slider").press(key)
        expect(page).not_to_have_url(before)
        expect(page.locator(".pieces li")).not_to_have_count(count)  # the address changes before the page does
        (tokens,) = read_pieces(page)
        assert "".join(tokens) == WORD
        counts.append(len(tokens))
    assert counts[0] - 1 == counts[1] > counts[2]
    wait_until_idle(page)
    expect_no_error(page)


def test_tokenizer_views_match_in_english(korean_module_page: Page, page: Page) -> None:
    korean = korean_module_page
    page.goto(korean.url)
    expect_same_numbers(korean, page, "tokenizers.built")
    expect(page.get_by_role("heading", level=1)).to_have_text(EN["language_page.purpose"])
    for localized_page, words in ((korean, KO), (page, EN)):
        open_tab(localized_page, words["tokenizers.view_pieces"])
    expect(korean.locator(".pieces")).not_to_have_count(1)  # those of the other view
    wait_until_idle(korean)
    expect(page.locator(".pieces")).to_have_count(korean.locator(".pieces").count())
    wait_until_idle(page)
    assert sorted(read_pieces(page)) == sorted(read_pieces(korean))
    for localized_page, words in ((korean, KO), (page, EN)):
        open_tab(localized_page, words["tokenizers.view_metrics"])
    expect_same_numbers(korean, page, "tokenizers.answer", "tokenizers.answer_alike")
    expect_no_error(page)


def test_a_new_model_learns_from_the_text(app: str, korean_module_page: Page, workspace: Path) -> None:
    page = korean_module_page
    words = KO
    (text,) = (workspace / "texts").iterdir()
    page.goto(f"{app}/train?train=language-model&base=starter&corpus=text:{text.name}")
    fill(page, words["train.name"], NAME)
    wait_until_idle(page)
    page.get_by_text(words["train.more"], exact=True).click()
    size = page.locator(".st-key-train_language-model_size").get_by_role("combobox")
    choose(page, size, words["choice.size_tiny"])
    for option, value in (("vocabulary", "1000"), ("batch_size", "8"), ("epochs", "1")):
        wait_until_idle(page)
        number = page.locator(f".st-key-train_language-model_{option}").get_by_role("spinbutton")
        number.fill(value)
        number.press("Tab")
    press(page, words["train.start"])
    wait_for_training(workspace, NAME, "done", seconds=300)
    (run,) = (workspace / "runs").glob("*/scores.json")
    scores = json.loads(run.read_text(encoding="utf-8"))
    assert scores["after"]["perplexity"] < scores["before"]["perplexity"]
    perplexities = {name: f"{scores[name]['perplexity']:,.0f}" for name in ("unigram", "before", "after")}
    card = words["train.perplexities"].replace("**", "").format(**perplexities)
    expect(page.get_by_role("main").get_by_text(card)).to_be_visible()
    expect_no_error(page)


def test_inspects_the_trained_model(app: str, korean_module_page: Page) -> None:
    page = korean_module_page
    press(page, KO["train.use_language"])
    expect(page.get_by_role("heading", level=1)).to_have_text(KO["language_page.purpose"])

    open_tab(page, KO["inside.view_gaps"])
    fill(page, KO["inside.masked"], GAP)
    guessed = page.get_by_text(sentence_pattern(KO, "inside.masked_answer"))
    expect(guessed).to_be_visible()
    expect(page).to_have_url(re.compile("masked="))
    wait_until_idle(page)
    likely = [float(cell) for cell in open_table(page, KO) if re.fullmatch(r"0\.\d+", cell)]
    assert len(likely) == 10
    assert likely == sorted(likely, reverse=True)
    assert 0 < sum(likely) <= 1.001

    page.get_by_role("radio", name=KO["inside.view_over_steps"]).click()
    press(page, KO["inside.draw_checkpoints"])
    expect(page.get_by_text(sentence_pattern(KO, "inside.steps_answer"))).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart")).to_be_visible()
    wait_until_idle(page)
    assert "0" in open_table(page, KO)  # before the first step

    open_tab(page, KO["inside.view_in_context"])
    fill(page, KO["inside.sentences"], CONTEXTS)
    expect(page).to_have_url(re.compile("contexts="))
    answers = sentence_pattern(KO, "inside.contexts_answer", "inside.contexts_answer_pieces")
    expect(page.get_by_text(answers)).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(3)
    wait_until_idle(page)
    matrix = [float(cell) for cell in open_table(page, KO)]  # two rows, each with its number before
    similarity = matrix[2]
    assert matrix == pytest.approx([1, 1, similarity, 2, similarity, 1])
    assert similarity < 0.999

    page.get_by_role("radio", name=KO["inside.view_attention"]).click()
    most = page.get_by_text(sentence_pattern(KO, "inside.attention_answer"))
    expect(most).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)
    wait_until_idle(page)
    expect_no_error(page)


def test_model_views_match_in_english(korean_module_page: Page, page: Page) -> None:
    korean = korean_module_page
    assert "lang=ko" in korean.url  # the way from the trainings
    page.goto(korean.url.replace("lang=ko", "lang=en"))
    expect_same_numbers(korean, page, "inside.attention_answer")
    for localized_page, words in ((korean, KO), (page, EN)):
        localized_page.get_by_role("radio", name=words["inside.view_contexts"]).click()
    expect_same_numbers(korean, page, "inside.contexts_answer", "inside.contexts_answer_pieces")
    for localized_page, words in ((korean, KO), (page, EN)):
        open_tab(localized_page, words["inside.view_gaps"])
    press(page, EN["inside.draw_checkpoints"])
    expect_same_numbers(korean, page, "inside.steps_answer")
    for localized_page, words in ((korean, KO), (page, EN)):
        localized_page.get_by_role("radio", name=words["inside.view_fill_mask"]).click()
    expect_same_numbers(korean, page, "inside.masked_answer")
    expect_no_error(page)
