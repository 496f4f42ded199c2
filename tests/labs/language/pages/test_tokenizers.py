"""The Tokenizers tab as a person uses it, over a comparison of two small tokenizers and a model's."""

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
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.text.corpora import keep as keep_text
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.language import study
from mrc_workbench.labs.language.comparison import HeldOut, Measured, Request, fertility
from mrc_workbench.labs.language.pages import pieces
from mrc_workbench.labs.language.pages.page import usual_sizes
from mrc_workbench.labs.language.pages.resources import CutPiece
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, Split, TokenizerKind, TrainedTokenizer
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.cli import all_commands
from mrc_workbench.workbench.views.ui.words import catalog
from tests.models.language.test_tokenizer_training import SENTENCES, prepared, trained
from tests.workbench.views.driving import opened, run, texts

EN = catalog("en")
TEXTS = [*dict.fromkeys(SENTENCES)][:60]
SET = QuestionSet("sentences", [Passage(str(row), text) for row, text in enumerate(TEXTS)], ())
KINDS = (TokenizerKind.WORDPIECE, TokenizerKind.BPE)
ADDRESS = {"kinds": "wordpiece|bpe", "vocabularies": "1000", "splits": "words"}
HOSTILE = "<img src=x onerror=alert(1)> **학교** 뷁"


def page() -> None:
    from mrc_workbench.labs.language.pages.page import draw_tokenizers

    draw_tokenizers()


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[study.TokenizerRequest]:
    """What the page would train is not the subject here, and would outlive the test."""
    found: list[study.TokenizerRequest] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, request: found.append(request))
    return found


@pytest.fixture
def data() -> StoredSet:
    return keep_set(SET)


@cache
def small(kind: TokenizerKind) -> tuple[TrainedTokenizer, Measured]:
    figures = fertility(prepared(kind), HeldOut.of(TEXTS[:10]))
    return trained(kind), Measured(f"{kind}", prepared(kind).trained, figures)


def kept(data: StoredSet, *, unknown_words: float = 0.0, failed: str = "") -> StudyJob[Any, Any]:
    """Keep what the page asks for at `ADDRESS`; of so many words the WordPiece knows a piece not."""
    against = (failed,) if failed else ()
    request = study.TokenizerRequest(data.key, Request(KINDS, (Split.WORDS,), (1_000,), against))
    return fill(study.STUDY.job(request, data.fingerprint), data.name, unknown_words, *against)


def fill(job: StudyJob[Any, Any], corpus: str, unknown_words: float = 0.0, *failed: str) -> StudyJob[Any, Any]:
    """Keep a comparison of `KINDS` as the job's result."""
    made, found = zip(*map(small, KINDS), strict=True)
    figures = [replace(one.figures, unknown_words=0.0) for one in found if one.figures]
    figures[0] = replace(figures[0], unknown_words=unknown_words, tokens_per_word=1.5)
    figures[1] = replace(figures[1], tokens_per_word=2.25)
    told = [replace(one, figures=own) for one, own in zip(found, figures, strict=True)]
    for name in failed:
        told.append(Measured(name, {}, None, LanguageError("no_tokenizer", "it has none", name=name)))
    for one in made:
        one.save(job.folder / study.TOKENIZERS / one.options.name)
    counts = dict.fromkeys(range(len(KINDS)), np.arange(2_000))
    study.STUDY.results.write(job.folder, study.TokenizerComparison(corpus, len(TEXTS), told, counts))
    return job


def html_of(app: AppTest) -> str:
    return "\n".join(one.proto.body for one in app.get("html"))


def test_the_page_begins_with_one_button_and_what_is_usual(
    data: StoredSet, asked: list[study.TokenizerRequest]
) -> None:
    def language() -> None:
        from mrc_workbench.labs.language.pages import page

        page.draw()

    app = opened(language, data=data.key)
    assert app.tabs[0].label == EN["language_page.tab_tokenizers"]
    assert "4 tokenizers on 60 documents" in texts(app)
    (start,) = app.button
    start.click()
    run(app)
    assert asked == [study.TokenizerRequest(data.key, Request(tuple(TokenizerKind), (Split.WORDS,), (1_000,), ()))]


def test_much_text_allows_large_vocabularies() -> None:
    assert [usual_sizes(n) for n in (0, 39_999, 40_000)] == [[1_000], [1_000], [1_000, 2_000]]
    assert [usual_sizes(n) for n in (160_000, 640_000)] == [[2_000, 8_000], [2_000, 8_000, 32_000]]


@pytest.mark.slow
def test_the_answer_names_the_fewest_pieces_and_figures_stand_in_a_table(data: StoredSet) -> None:
    kept(data)
    app = opened(page, data=data.key, **ADDRESS)
    told = texts(app)
    assert "**WordPiece · 1,000** splits words into the fewest tokens (1.50 on average)" in told
    assert "**BPE · 1,000** into the most (2.25)" in told
    words = sum(len(text.split()) for text in TEXTS[:10])
    assert f"Measured on 10 held-out documents of “sentences” ({words} words)" in told
    assert EN["tokenizers.few_documents"] in told
    assert not app.button
    table = app.dataframe[0].value
    assert table["kind"].tolist() == ["WordPiece", "BPE"]
    assert table["tokens_per_word"].tolist() == [1.5, 2.25]
    first = small(KINDS[0])[1].figures
    assert first is not None
    assert (table["pieces"][0], table["f1"][0]) == (first.pieces, pytest.approx(first.f1))


def test_who_does_not_know_the_words_is_not_said_to_cut_them_into_the_fewest_pieces(data: StoredSet) -> None:
    kept(data, unknown_words=0.06)
    told = texts(opened(page, data=data.key, **ADDRESS))
    assert "**BPE · 1,000** splits a word into 2.25 tokens" in told
    assert "Not ranked because more than 5% of the words contain an unknown token: WordPiece · 1,000." in told


def test_those_that_do_not_differ_are_not_told_apart(data: StoredSet) -> None:
    job = kept(data)
    result = study.STUDY.results.load(job.folder)
    stored = study.stored_tokenizers(result, job.folder)
    same = [replace(one.measured, figures=replace(one.figures, tokens_per_word=1.5, f1=0.5)) for one in stored]
    study.STUDY.results.write(job.folder, replace(result, tokenizers=same))
    told = texts(opened(page, data=data.key, **ADDRESS))
    assert "All 2 tokenizers split a word into 1.50 tokens on average" in told
    assert "morphemes" not in told
    told = texts(opened(page, data=data.key, tokenizer_view="pieces", cut="학교에서", **ADDRESS))
    assert "All 2 tokenizers split this sentence into the same number of tokens: 1." in told


def test_the_best_of_a_column_is_the_lowest_or_the_highest_of_those_that_may_be() -> None:
    columns = {"tokens_per_word": [1.0, 2.0, 3.0], "f1": [0.9, 0.5, 0.5], "whole_words": [0.9, 0.1, 0.2]}
    table = pd.DataFrame({**columns, "seconds": [1.0] * 3, "able": [False, True, True]})
    found = {name: pieces.best_rows(table, name).tolist() for name in (*columns, "seconds")}
    assert found["tokens_per_word"] == [False, True, False]
    assert found["f1"] == [False, True, True]
    assert found["whole_words"] == [True, False, False]
    assert found["seconds"] == [False] * 3


def test_a_sentence_is_cut_by_all_of_them_and_is_no_html(data: StoredSet) -> None:
    kept(data)
    app = opened(page, data=data.key, tokenizer_view="pieces", cut=HOSTILE, **ADDRESS)
    assert app.text_input(key="typed_cut").value == HOSTILE
    shown = html_of(app)
    assert "<img" not in shown
    assert shown.count('class="pieces"') == 2
    assert re.search(r'<li class="unknown" title="[^"]*\[UNK\][^"]*"><small>\[UNK\] </small>뷁</li>', shown)
    table = app.dataframe[0].value
    for kind, name in zip(KINDS, ("WordPiece · 1,000", "BPE · 1,000"), strict=True):
        own, made = table[table["tokenizer"] == name], prepared(kind)
        assert own["letters"].tolist() == [piece.letters for piece in made.pieces(HOSTILE)]
        assert own["number"].tolist() == made.tokenizer.encode(HOSTILE, add_special_tokens=False).ids
        assert own["occurrences"].tolist() == own["number"].tolist()  # as they were kept
    assert "Those with an unknown piece" not in texts(app)  # neither knows all of it


def test_who_does_not_know_a_sentence_is_not_said_to_cut_it_into_the_fewest_pieces(data: StoredSet) -> None:
    kept(data)
    app = opened(page, data=data.key, tokenizer_view="pieces", cut="학교에서 학교갔다를 먹었", **ADDRESS)
    table = app.dataframe[0].value
    cuts = {str(name): [*own["piece"]] for name, own in table.groupby("tokenizer")}
    assert cuts["WordPiece · 1,000"] == ["학교에서", "[UNK]", "먹", "##었"]
    assert cuts["BPE · 1,000"] == ["▁학교에서", "▁학교", "갔다", "를", "▁", "먹", "었"]
    assert "**BPE · 1,000** splits this sentence into 7 tokens. Not ranked because of an unknown token: 1." in texts(
        app
    )


def test_pieces_show_what_they_begin_with() -> None:
    def piece(name: str) -> CutPiece:
        return CutPiece(name, "가", 7, True, 1_234)

    shown = pieces.cut_html("<b>", "3", [piece(name) for name in ("##가", "▁", f"{BOUNDARY}에서", "<가>")])
    assert "<b>&lt;b&gt;</b>" in shown
    leads = re.findall(r"<li title=\"[^\"]*id 7 · occurrences: 1,234\">(.*?)</li>", shown)
    assert leads == ["<small>##</small>가", "<small>▁</small>", "<small>+</small>에서", "&lt;가&gt;"]
    assert '<li class="new">나</li>' in pieces.names_html("", "", ["가", "나"], "나")


def test_a_word_is_built_by_merges(data: StoredSet) -> None:
    kept(data)
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
    assert html_of(app).count("<li") == len("▁강아지에서")


def test_without_a_bpe_it_is_said_what_to_choose(data: StoredSet) -> None:
    only = study.STUDY.job(
        study.TokenizerRequest(data.key, Request(KINDS[:1], (Split.WORDS,), (1_000,))), data.fingerprint
    )
    kept(data).folder.rename(only.folder)
    result = study.STUDY.results.load(only.folder)
    first = replace(result, tokenizers=result.tokenizers[:1], occurrences={0: result.occurrences[0]})
    study.STUDY.results.write(only.folder, first)
    app = opened(page, data=data.key, tokenizer_view="merging", **{**ADDRESS, "kinds": "wordpiece"})
    assert EN["tokenizers.no_bpe"] in texts(app)


@pytest.mark.slow
def test_a_model_that_failed_and_one_that_is_not_there_are_told(
    data: StoredSet, asked: list[study.TokenizerRequest]
) -> None:
    folder = workspace() / "runs" / "mine" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    kept(data, failed="mine")
    app = opened(page, data=data.key, beside="mine", **ADDRESS)
    assert f"Cannot use the tokenizer of **mine**. {EN['language.no_tokenizer'].format(name='mine')}" in texts(app)
    korean = texts(opened(page, data=data.key, beside="mine", **ADDRESS, lang="ko"))
    assert catalog("ko")["language.no_tokenizer"].format(name="mine") in korean
    (again,) = app.button
    again.click()
    run(app)
    assert [one.compared.against for one in asked] == [("mine",)]
    app = opened(page, data=data.key, beside="no/such/model", **ADDRESS)
    assert "Cannot use the tokenizer of **no/such/model**" in texts(app)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (Status(State.FAILED, code="nothing_held_out", message="told"), "“sentences” has too few documents"),
        (Status(State.FAILED, code="unexpected", message="told *so*"), "told *so*"),
        (Status(State.STOPPED), EN["tokenizers.stopped"]),
        (Status(State.INTERRUPTED), EN["tokenizers.interrupted"]),
    ],
)
def test_how_it_ended_is_told(data: StoredSet, status: Status, told: str) -> None:
    job = kept(data)
    job.result.unlink()
    job.write_status(status)
    app = opened(page, data=data.key, **ADDRESS)
    assert told in texts(app)
    assert len(app.button) == 1


def test_a_kept_text_is_compared_and_told_without_a_question_set(asked: list[study.TokenizerRequest]) -> None:
    text = keep_text(BytesIO("\n".join(TEXTS).encode()), "문장들")
    app = opened(page, corpus=text.reference, **ADDRESS)
    assert "2 tokenizers on 60 documents" in texts(app)
    next(one for one in app.button if str(one.key).startswith("start_")).click()
    run(app)
    request = study.TokenizerRequest(text.reference, Request(KINDS, (Split.WORDS,), (1_000,)))
    assert asked == [request]
    fill(study.STUDY.job(request, text.fingerprint), text.name)
    app = opened(page, corpus=text.reference, **ADDRESS)
    told = texts(app)
    assert "Measured on 10 held-out documents of “문장들”" in told
    assert f"--data {text.reference}" in app.code[0].value
    for view in ("pieces", "merging"):
        assert not opened(page, corpus=text.reference, tokenizer_view=view, **ADDRESS).error


def test_a_text_that_is_gone_or_changed_is_told_by_its_name() -> None:
    text = keep_text(BytesIO("\n".join(TEXTS).encode()), "문장들")
    request = study.TokenizerRequest(text.reference, Request(KINDS, (Split.WORDS,), (1_000,)))
    job = study.STUDY.job(request, text.fingerprint)
    job.folder.mkdir(parents=True)
    job.write_status(Status(State.FAILED, code="broken_text", message="told"))
    told = texts(opened(page, corpus=text.reference, **ADDRESS))
    assert EN["language.broken_text"].format(name="문장들") in told


def test_a_result_that_cannot_be_read_is_made_anew(data: StoredSet) -> None:
    kept(data).result.write_text('{"tokenizers": 3}', encoding="utf-8")
    assert len(opened(page, data=data.key, **ADDRESS).button) == 1


def test_with_nothing_chosen_it_is_said_what_to_choose(data: StoredSet) -> None:
    app = opened(page, data=data.key)
    app.button_group(key="picked_kinds").set_value([])
    run(app)
    assert EN["tokenizers.pick_one"] in texts(app)


def test_a_tokenizer_is_taken_away_whole(tmp_path: Path) -> None:
    made = small(TokenizerKind.BPE)[0]
    made.save(tmp_path / "bpe")
    with zipfile.ZipFile(BytesIO(pieces.zipped(tmp_path / "bpe"))) as archive:
        assert archive.namelist() == ["bpe/tokenizer.json", "bpe/tokenizer_config.json"]
        assert archive.read("bpe/tokenizer.json").decode() == (tmp_path / "bpe" / "tokenizer.json").read_text("utf-8")


def test_the_command_asks_for_the_same(data: StoredSet) -> None:
    asked = Request(KINDS, tuple(Split), (1_000, 2_000), ("a/b", "c d"))
    view: Any = SimpleNamespace(request=study.TokenizerRequest(data.key, asked))
    line = pieces.command_of(view)
    assert "'c d'" in line
    _, told, _ = all_commands().parse_args(shlex.split(line)[3:])
    found = Request(*(told.arguments[name] for name in ("kind", "split", "vocabulary", "against")))
    assert (told.arguments["data"], found) == (data.key, asked)


def test_names_say_what_differs(data: StoredSet) -> None:
    job = kept(data)
    both = study.TokenizerRequest(data.key, Request(KINDS, tuple(Split), (1_000,)))
    result = study.STUDY.results.load(job.folder)
    view = pieces.TokenizersView(both, result, study.stored_tokenizers(result, job.folder), {})

    def named() -> None:
        import streamlit as st

        st.text(st.session_state["view"].name(st.session_state["view"].tokenizers[0]))

    app = AppTest.from_function(named)
    app.query_params["lang"] = "en"
    app.session_state["view"] = view
    assert run(app).text[0].value == "WordPiece · Words · 1,000"


def test_chart_of_sizes_keeps_colours_and_draws_close_sizes_close_together() -> None:
    row = {"name": "x", "kind": "BPE", "split": "Words", "pieces": 2_000, "value": 2.5, "able": True}
    table = pd.DataFrame([row, row | {"pieces": 8_000, "able": False}])
    models = pd.DataFrame([row | {"name": "e5", "kind": "e5", "split": ""}])
    kinds = ["WordPiece", "BPE", "Unigram"]
    spec = pieces.by_size(table, models, kinds, ["Words"], y="y", share=False).to_dict()
    rule, name, line, filled, hollow = spec["layer"]
    assert line["encoding"]["color"]["scale"] == {"domain": ["BPE"], "range": [colour_of("BPE", kinds)]}
    assert (rule["mark"]["type"], name["encoding"]["text"]["field"]) == ("rule", "name")
    assert (filled["transform"], filled["mark"]["filled"]) == ([{"filter": "datum.able"}], True)
    assert hollow["transform"] == [{"filter": "!datum.able"}]
    assert "filled" not in hollow["mark"]
    assert line["encoding"]["x"]["axis"]["values"] == [2_000, 8_000]
    row = {"name": "x", "kind": "BPE", "split": "Words", "value": 2.5, "able": True}
    table = pd.DataFrame([row | {"pieces": size} for size in (174, 176)])
    spec = pieces.by_size(table, table[:0], ["BPE"], ["Words"], y="y", share=False).to_dict()
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 174
    assert high == pytest.approx(4 * low)
    wide = pd.DataFrame([row | {"pieces": size} for size in (1_000, 64_000)])
    spec = pieces.by_size(wide, wide[:0], ["BPE"], ["Words"], y="y", share=False).to_dict()
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [1_000, 64_000]
