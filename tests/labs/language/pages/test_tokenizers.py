"""The Tokenizers tab over a comparison of two small tokenizers."""

import re
import shlex
import zipfile
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.passages import Passage
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.text.corpora import LanguageError, save_text
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.language import study
from mrc_workbench.labs.language.comparison import HeldOutDocuments, TokenizerGrid, TokenizerResult, measure_fertility
from mrc_workbench.labs.language.pages import pieces
from mrc_workbench.labs.language.pages.page import default_sizes
from mrc_workbench.labs.language.pages.resources import CutPiece
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, PreTokenization, TokenizerKind, TrainedTokenizer
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.cli import all_commands
from mrc_workbench.workbench.views.ui.words import catalog
from tests.models.language.test_tokenizer_training import SENTENCES, prepared, trained
from tests.models.worlds import write_config
from tests.workbench.views.driving import opened, page_html, run, texts

pytestmark = pytest.mark.usefixtures("started")
EN = catalog("en")
TEXTS = [*dict.fromkeys(SENTENCES)][:60]
SET = QuestionSet("sentences", [Passage(str(row), text) for row, text in enumerate(TEXTS)], ())
KINDS = (TokenizerKind.WORDPIECE, TokenizerKind.BPE)
ADDRESS = {"kinds": "wordpiece|bpe", "vocabularies": "1000", "splits": "words"}
HOSTILE = "<img src=x onerror=alert(1)> **학교** 뷁"


def page() -> None:
    from mrc_workbench.labs.language.pages.page import draw_tokenizers

    draw_tokenizers()


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(SET)


@cache
def small_tokenizer(kind: TokenizerKind) -> tuple[TrainedTokenizer, TokenizerResult]:
    metrics = measure_fertility(prepared(kind), HeldOutDocuments.from_texts(TEXTS[:10]))
    return trained(kind), TokenizerResult(f"{kind}", prepared(kind).trained, metrics)


def store_comparison(data: StoredSet, *, unknown_words: float = 0.0, failed: str = "") -> StudyJob[Any, Any]:
    """Store the comparison at `ADDRESS`; `unknown_words` is the fraction for WordPiece."""
    against = (failed,) if failed else ()
    request = study.TokenizerRequest(data.key, TokenizerGrid(KINDS, (PreTokenization.WORDS,), (1_000,), against))
    return store_result(study.STUDY.job(request, data.fingerprint), data.name, unknown_words, *against)


def store_result(job: StudyJob[Any, Any], corpus: str, unknown_words: float = 0.0, *failed: str) -> StudyJob[Any, Any]:
    """Store a comparison of `KINDS` as the job's result."""
    tokenizers, (first, second) = zip(*map(small_tokenizer, KINDS), strict=True)
    first_metrics = replace(first.metrics, unknown_words=unknown_words, tokens_per_word=1.5)
    second_metrics = replace(second.metrics, unknown_words=0.0, tokens_per_word=2.25)
    stored_results = [replace(first, metrics=first_metrics), replace(second, metrics=second_metrics)]
    for name in failed:
        stored_results.append(TokenizerResult(name, {}, None, LanguageError("no_tokenizer", "it has none", name=name)))
    for item in tokenizers:
        item.save(job.folder / study.TOKENIZERS / item.options.name)
    counts = dict.fromkeys(range(len(KINDS)), np.arange(2_000))
    study.STUDY.results.write(job.folder, study.TokenizerComparison(corpus, len(TEXTS), stored_results, counts))
    return job


def test_starts_with_default_request(data: StoredSet, started: list[study.TokenizerRequest]) -> None:
    def language() -> None:
        from mrc_workbench.labs.language.pages import page

        page.draw()

    app = opened(language, data=data.key)
    assert app.tabs[0].label == EN["language_page.tab_tokenizers"]
    assert "4 tokenizers on 60 documents" in texts(app)
    (start,) = app.button
    start.click()
    run(app)
    grid = TokenizerGrid(tuple(TokenizerKind), (PreTokenization.WORDS,), (1_000,), ())
    assert started == [study.TokenizerRequest(data.key, grid)]


def test_default_sizes_grow_with_text() -> None:
    assert [default_sizes(n) for n in (0, 39_999, 40_000)] == [[1_000], [1_000], [1_000, 2_000]]
    assert [default_sizes(n) for n in (160_000, 640_000)] == [[2_000, 8_000], [2_000, 8_000, 32_000]]


@pytest.mark.slow
def test_shows_fewest_tokens_and_metric_table(data: StoredSet) -> None:
    store_comparison(data)
    app = opened(page, data=data.key, **ADDRESS)
    page_text = texts(app)
    assert "**WordPiece · 1,000** splits words into the fewest tokens (1.50 on average)" in page_text
    assert "**BPE · 1,000** into the most (2.25)" in page_text
    words = sum(len(text.split()) for text in TEXTS[:10])
    assert f"Measured on 10 held-out documents of “sentences” ({words} words)" in page_text
    assert EN["tokenizers.few_documents"] in page_text
    assert not app.button
    table = app.dataframe[0].value
    assert table["kind"].tolist() == ["WordPiece", "BPE"]
    assert table["tokens_per_word"].tolist() == [1.5, 2.25]
    first = small_tokenizer(KINDS[0])[1].metrics
    assert first is not None
    assert (table["vocabulary_size"][0], table["f1"][0]) == (first.vocabulary_size, pytest.approx(first.f1))


def test_does_not_rank_tokenizer_with_unknown_words(data: StoredSet) -> None:
    store_comparison(data, unknown_words=0.06)
    page_text = texts(opened(page, data=data.key, **ADDRESS))
    assert "**BPE · 1,000** splits a word into 2.25 tokens" in page_text
    assert "Not ranked because more than 5% of the words contain an unknown token: WordPiece · 1,000." in page_text


def test_reports_equal_tokenizers(data: StoredSet) -> None:
    job = store_comparison(data)
    result = study.STUDY.results.load(job.folder)
    stored = study.stored_tokenizers(result, job.folder)
    same = [replace(item.result, metrics=replace(item.metrics, tokens_per_word=1.5, f1=0.5)) for item in stored]
    study.STUDY.results.write(job.folder, replace(result, tokenizers=same))
    page_text = texts(opened(page, data=data.key, **ADDRESS))
    assert "All 2 tokenizers split a word into 1.50 tokens on average" in page_text
    assert "morphemes" not in page_text
    page_text = texts(opened(page, data=data.key, tokenizer_view="pieces", cut="학교에서", **ADDRESS))
    assert "All 2 tokenizers split this sentence into the same number of tokens: 1." in page_text


def test_best_rows_ignore_incomparable_tokenizers() -> None:
    columns = {"tokens_per_word": [1.0, 2.0, 3.0], "f1": [0.9, 0.5, 0.5], "whole_words": [0.9, 0.1, 0.2]}
    table = pd.DataFrame({**columns, "seconds": [1.0] * 3, "is_comparable": [False, True, True]})
    best_by_column = {name: pieces.best_rows(table, name).tolist() for name in (*columns, "seconds")}
    assert best_by_column["tokens_per_word"] == [False, True, False]
    assert best_by_column["f1"] == [False, True, True]
    assert best_by_column["whole_words"] == [True, False, False]
    assert best_by_column["seconds"] == [False] * 3


def test_tokenizes_and_escapes_sentence_and_ranks_by_known_tokens(data: StoredSet) -> None:
    store_comparison(data)
    app = opened(page, data=data.key, tokenizer_view="pieces", cut=HOSTILE, **ADDRESS)
    assert app.text_input(key="typed_cut").value == HOSTILE
    content = page_html(app)
    assert "<img" not in content
    assert content.count('class="pieces"') == 2
    assert re.search(r'<li class="unknown" title="[^"]*\[UNK\][^"]*"><small>\[UNK\] </small>뷁</li>', content)
    table = app.dataframe[0].value
    for kind, name in zip(KINDS, ("WordPiece · 1,000", "BPE · 1,000"), strict=True):
        rows = table[table["tokenizer"] == name]
        tokenizer = prepared(kind)
        assert rows["characters"].tolist() == [piece.text for piece in tokenizer.pieces(HOSTILE)]
        assert rows["number"].tolist() == tokenizer.tokenizer.encode(HOSTILE, add_special_tokens=False).ids
        assert rows["occurrences"].tolist() == rows["number"].tolist()  # counts of the stored comparison
    assert "Those with an unknown piece" not in texts(app)  # neither knows all of it
    app.text_input(key="typed_cut").set_value("학교에서 학교갔다를 먹었")
    run(app)
    table = app.dataframe[0].value
    cuts = {str(name): [*own["piece"]] for name, own in table.groupby("tokenizer")}
    assert cuts["WordPiece · 1,000"] == ["학교에서", "[UNK]", "먹", "##었"]
    assert cuts["BPE · 1,000"] == ["▁학교에서", "▁학교", "갔다", "를", "▁", "먹", "었"]
    answer = "**BPE · 1,000** splits this sentence into 7 tokens. Not ranked because of an unknown token: 1."
    assert answer in texts(app)


def test_shows_token_prefixes() -> None:
    def piece(name: str) -> CutPiece:
        return CutPiece(name, "가", 7, True, 1_234)

    content = pieces.cut_html("<b>", "3", [piece(name) for name in ("##가", "▁", f"{BOUNDARY}에서", "<가>")])
    assert "<b>&lt;b&gt;</b>" in content
    leads = re.findall(r"<li title=\"[^\"]*id 7 · occurrences: 1,234\">(.*?)</li>", content)
    assert leads == ["<small>##</small>가", "<small>▁</small>", "<small>+</small>에서", "&lt;가&gt;"]
    assert '<li class="new">나</li>' in pieces.names_html("", "", ["가", "나"], "나")


def test_shows_merges_of_word(data: StoredSet) -> None:
    store_comparison(data)
    app = opened(page, data=data.key, tokenizer_view="merging", built="강아지에서", **ADDRESS)
    table = app.dataframe[0].value
    slider = app.select_slider(key="merges_en")
    assert [*slider.options] == ["0", *(f"{number:,}" for number in table["number"])]
    assert slider.value == str(len(table))
    final = prepared(TokenizerKind.BPE).tokenizer.encode("강아지에서", add_special_tokens=False).tokens
    assert table["pieces"].iloc[-1] == " · ".join(final)
    assert f"{len(final)} after {len(table)} merges" in texts(app)
    app.query_params["merges"] = "0"
    run(app)
    assert page_html(app).count("<li") == len("▁강아지에서")


def test_asks_for_bpe_tokenizer(data: StoredSet) -> None:
    grid = TokenizerGrid(KINDS[:1], (PreTokenization.WORDS,), (1_000,))
    only = study.STUDY.job(study.TokenizerRequest(data.key, grid), data.fingerprint)
    store_comparison(data).folder.rename(only.folder)
    result = study.STUDY.results.load(only.folder)
    first = replace(result, tokenizers=result.tokenizers[:1], occurrences={0: result.occurrences[0]})
    study.STUDY.results.write(only.folder, first)
    app = opened(page, data=data.key, tokenizer_view="merging", **{**ADDRESS, "kinds": "wordpiece"})
    assert EN["tokenizers.no_bpe"] in texts(app)


@pytest.mark.slow
def test_reports_failed_and_missing_models(data: StoredSet, started: list[study.TokenizerRequest]) -> None:
    write_config(workspace() / "runs" / "mine" / "model")
    store_comparison(data, failed="mine")
    app = opened(page, data=data.key, beside="mine", **ADDRESS)
    assert f"Cannot use the tokenizer of **mine**. {EN['language.no_tokenizer'].format(name='mine')}" in texts(app)
    korean = texts(opened(page, data=data.key, beside="mine", **ADDRESS, lang="ko"))
    assert catalog("ko")["language.no_tokenizer"].format(name="mine") in korean
    (again,) = app.button
    again.click()
    run(app)
    assert [request.compared.against for request in started] == [("mine",)]
    app = opened(page, data=data.key, beside="no/such/model", **ADDRESS)
    assert "Cannot use the tokenizer of **no/such/model**" in texts(app)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (Status(State.FAILED, code="nothing_held_out", message="told"), "“sentences” has too few documents"),
        (Status(State.FAILED, code="unexpected", message="told *so*"), "told *so*"),
        (Status(State.STOPPED), EN["tokenizers.stopped"]),
        (Status(State.INTERRUPTED), EN["tokenizers.interrupted"]),
    ],
)
def test_reports_end_of_job(data: StoredSet, status: Status, message: str) -> None:
    job = store_comparison(data)
    job.result.unlink()
    job.write_status(status)
    app = opened(page, data=data.key, **ADDRESS)
    assert message in texts(app)
    assert len(app.button) == 1


def test_compares_tokenizers_on_stored_text(started: list[study.TokenizerRequest]) -> None:
    text = save_text(BytesIO("\n".join(TEXTS).encode()), "문장들")
    app = opened(page, corpus=text.reference, **ADDRESS)
    assert "2 tokenizers on 60 documents" in texts(app)
    next(button for button in app.button if str(button.key).startswith("start_")).click()
    run(app)
    request = study.TokenizerRequest(text.reference, TokenizerGrid(KINDS, (PreTokenization.WORDS,), (1_000,)))
    assert started == [request]
    job = study.STUDY.job(request, text.fingerprint)
    job.folder.mkdir(parents=True)
    job.write_status(Status(State.FAILED, code="broken_text", message="told"))
    broken = texts(opened(page, corpus=text.reference, **ADDRESS))
    assert EN["language.broken_text"].format(name="문장들") in broken
    store_result(job, text.name)
    app = opened(page, corpus=text.reference, **ADDRESS)
    page_text = texts(app)
    assert "Measured on 10 held-out documents of “문장들”" in page_text
    assert f"--data {text.reference}" in app.code[0].value
    for view in ("pieces", "merging"):
        assert not opened(page, corpus=text.reference, tokenizer_view=view, **ADDRESS).error


def test_offers_new_run_for_unreadable_result(data: StoredSet) -> None:
    store_comparison(data).result.write_text('{"tokenizers": 3}', encoding="utf-8")
    assert len(opened(page, data=data.key, **ADDRESS).button) == 1


def test_asks_for_selection(data: StoredSet) -> None:
    app = opened(page, data=data.key)
    app.button_group(key="picked_kinds").set_value([])
    run(app)
    assert EN["tokenizers.pick_one"] in texts(app)


def test_zips_whole_tokenizer(tmp_path: Path) -> None:
    tokenizer = small_tokenizer(TokenizerKind.BPE)[0]
    tokenizer.save(tmp_path / "bpe")
    with zipfile.ZipFile(BytesIO(pieces.zip_folder(tmp_path / "bpe"))) as archive:
        assert archive.namelist() == ["bpe/tokenizer.json", "bpe/tokenizer_config.json"]
        assert archive.read("bpe/tokenizer.json").decode() == (tmp_path / "bpe" / "tokenizer.json").read_text("utf-8")


def test_command_matches_request(data: StoredSet) -> None:
    grid = TokenizerGrid(KINDS, tuple(PreTokenization), (1_000, 2_000), ("a/b", "c d"))
    view: Any = SimpleNamespace(request=study.TokenizerRequest(data.key, grid))
    line = pieces.command_of(view)
    assert "'c d'" in line
    _, bound, _ = all_commands().parse_args(shlex.split(line)[3:])
    parsed = TokenizerGrid(*(bound.arguments[name] for name in ("kind", "split", "vocabulary", "against")))
    assert (bound.arguments["data"], parsed) == (data.key, grid)


def test_names_show_varying_options(data: StoredSet) -> None:
    job = store_comparison(data)
    both = study.TokenizerRequest(data.key, TokenizerGrid(KINDS, tuple(PreTokenization), (1_000,)))
    result = study.STUDY.results.load(job.folder)
    view = pieces.TokenizersView(both, result, study.stored_tokenizers(result, job.folder), {})

    def named() -> None:
        import streamlit as st

        st.text(st.session_state["view"].name(st.session_state["view"].tokenizers[0]))

    app = AppTest.from_function(named)
    app.query_params["lang"] = "en"
    app.session_state["view"] = view
    assert run(app).text[0].value == "WordPiece · Words · 1,000"


def test_size_chart_keeps_colours_and_scale() -> None:
    row = {"name": "x", "kind": "BPE", "split": "Words", "vocabulary_size": 2_000, "value": 2.5, "is_comparable": True}
    table = pd.DataFrame([row, row | {"vocabulary_size": 8_000, "is_comparable": False}])
    models = pd.DataFrame([row | {"name": "e5", "kind": "e5", "split": ""}])
    kinds = ["WordPiece", "BPE", "Unigram"]
    spec = pieces.size_chart(table, models, kinds, ["Words"], y="y", is_fraction=False).to_dict()
    rule, name, line, filled, hollow = spec["layer"]
    assert line["encoding"]["color"]["scale"] == {"domain": ["BPE"], "range": [colour_of("BPE", kinds)]}
    assert (rule["mark"]["type"], name["encoding"]["text"]["field"]) == ("rule", "name")
    assert (filled["transform"], filled["mark"]["filled"]) == ([{"filter": "datum.is_comparable"}], True)
    assert hollow["transform"] == [{"filter": "!datum.is_comparable"}]
    assert "filled" not in hollow["mark"]
    assert line["encoding"]["x"]["axis"]["values"] == [2_000, 8_000]
    row = {"name": "x", "kind": "BPE", "split": "Words", "value": 2.5, "is_comparable": True}
    table = pd.DataFrame([row | {"vocabulary_size": size} for size in (174, 176)])
    spec = pieces.size_chart(table, table[:0], ["BPE"], ["Words"], y="y", is_fraction=False).to_dict()
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 174
    assert high == pytest.approx(4 * low)
    wide = pd.DataFrame([row | {"vocabulary_size": size} for size in (1_000, 64_000)])
    spec = pieces.size_chart(wide, wide[:0], ["BPE"], ["Words"], y="y", is_fraction=False).to_dict()
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [1_000, 64_000]
