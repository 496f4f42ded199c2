"""The Tune tab: start a lab, follow it, and use its best setting on the test questions."""

from pathlib import Path

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis import labs
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add_retriever, added_retrievers
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.tiny_models import build_bi_encoder
from tests.workbench.views.compare import worlds
from tests.workbench.views.compare.worlds import compared, finished, open_labs, press
from tests.workbench.views.driving import run, texts

WORDS = BM25Spec(name="Words", analyzer=Analyzer.WORD)


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(worlds.whole_sample())


def test_starts_lab_with_selected_values(data: StoredSet, started: list[Experiment]) -> None:
    experiment = compared(data, "BM25")
    app = open_labs("BM25")
    assert app.query_params["lab"] == "bm25"
    assert not app.warning
    assert any("48 validation questions are few" in caption.value for caption in app.caption)
    start = app.button(key="start_bm25")
    assert start.proto.type == "primary"
    assert any(caption.value.startswith("Tries Words, Character bigrams") for caption in app.caption)
    app.multiselect(key="lab_analyzers").set_value(["word", "bigram"])
    app.pills(key="lab_windows").set_value(["0", "1"])
    app.text_input(key="typed_k1").set_value("2, 0.3")
    app.text_input(key="typed_b").set_value("0.5")
    run(app)
    assert app.button(key="start_bm25").label == "Try 8 settings"
    press(app, "start_bm25")
    analyzers = [Analyzer.WORD, Analyzer.BIGRAM]
    assert started == [labs.bm25_lab(experiment, "BM25", analyzers, sentences=[0, 1], k1s=[0.3, 2], bs=[0.5])]
    # in displayed order: first the analyzers for Korean
    address = {"analyzers": "bigram|word", "windows": "0|1", "k1": "2, 0.3", "b": "0.5"}
    assert {name: app.query_params[name] for name in address} == address
    again = open_labs("BM25", lab="bm25", **address)
    assert again.button(key="start_bm25").label == "Try 8 settings"


def test_rejects_invalid_values(data: StoredSet) -> None:
    compared(data, "BM25")
    app = open_labs("BM25")
    message = "Enter up to 12 numbers for k1 and for b, separated by commas: k1 from 0 to 10, b from 0 to 1."
    for k1, b in (("", "0.5"), ("0.9", "1.5"), ("many", "0.5"), ("0.9", "nan")):
        app.text_input(key="typed_k1").set_value(k1)
        app.text_input(key="typed_b").set_value(b)
        run(app)
        assert [error.value for error in app.error] == [message], (k1, b)
        assert not [button for button in app.button if button.key == "start_bm25"], (k1, b)


def test_displays_progress_of_running_lab_and_stops_it(
    data: StoredSet, started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_retriever(data.fingerprint, WORDS)
    experiment = labs.hybrid_lab(compared(data, "BM25", "Words"), "BM25", "Words")
    job = ComparisonJob.of(experiment, data.fingerprint)
    pid, began = this_process()
    job.write_status(Status(State.RUNNING, "rrf · 0.4", progress=0.25, pid=pid, pid_started=began))
    stopped: list[str] = []
    monkeypatch.setattr(ComparisonJob, "kill", lambda item: stopped.append(item.id))
    app = open_labs("BM25", "Words", lab="hybrid")
    (bar,) = app.get("progress")
    assert bar.proto.value == 25
    assert bar.proto.text.replace("\\", "").startswith("Searching with rrf · 0.4")
    assert not [button for button in app.button if button.key == "start_hybrid"]
    (button,) = [item for item in app.button if str(item.key).startswith("stop_")]
    button.click()
    app.run()  # a browser would draw only the fragment again
    assert stopped == [job.id]
    assert started == []


def test_restarts_stopped_lab(data: StoredSet, started: list[Experiment]) -> None:
    experiment = labs.bm25_lab(compared(data, "BM25"), "BM25", [Analyzer.WORD], k1s=[1], bs=[0.5])
    folder = ComparisonJob.of(experiment, data.fingerprint).folder
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text("what went <b>wrong</b>")
    app = open_labs("BM25", analyzers="word", k1="1", b="0.5")
    assert any(warning.value.startswith("It was stopped before it finished.") for warning in app.warning)
    assert [code.value for code in app.code] == ["what went <b>wrong</b>"]
    press(app, "start_bm25")
    assert started == [experiment]


def test_applies_best_setting_and_tests_it(data: StoredSet, started: list[Experiment]) -> None:
    add_retriever(data.fingerprint, WORDS)
    experiment = compared(data, "Words")
    lab = finished(data, labs.bm25_lab(experiment, "Words", [Analyzer.WORD, Analyzer.BIGRAM], k1s=[0.3, 2], bs=[0.5]))
    app = open_labs("Words", analyzers="bigram|word", k1="0.3, 2", b="0.5")  # the order does not change the lab
    comparison = compare(lab, question_set(data.key))
    metrics = labs.lab_results(comparison, "ndcg@10", question_groups(comparison.question_set))
    (table,) = worlds.tables(app, "k1")
    assert table["value"].tolist() == pytest.approx(sorted(metrics["value"] * 100, reverse=True))
    assert len(app.get("vega_lite_chart") or app.get("arrow_vega_lite_chart")) == 2
    leader = labs.best_setting_name(metrics)
    assert leader.startswith("bigram")
    named = f"BM25 · Character bigrams{leader.removeprefix('bigram')}"
    fit = labs.cross_fit(comparison, metrics, "Words", "ndcg@10", question_groups(comparison.question_set))
    assert fit is not None
    points = f"{fit.test.difference * 100:.1f} points higher than **Words** on nDCG@10 in cross-validation"
    assert f"**{named}** is the best of 4 settings. The best setting scores {points}" in texts(app)
    assert app.button(key="use_bm25").proto.type == "primary"
    captions = "".join(caption.value for caption in app.caption)
    assert f"{fit.selections[leader]} of {fit.folds} selections are this setting" in captions

    worlds.select_setting(app, lab, data, 1)
    assert f"{table['k1'][1]:g} · b 0.5" in texts(app)
    assert "Cross-validation" not in "".join(caption.value for caption in app.caption)
    assert "in cross-validation" not in texts(app)

    worlds.select_setting(app, lab, data, 0)
    press(app, "use_bm25")
    spec = next(spec for spec in labs.tried_specs(lab) if spec.name == leader)
    assert added_retrievers(data.fingerprint) == [WORDS, spec.model_copy(update={"name": named})]
    assert (app.query_params["part"], app.query_params["view"]) == ("test", "overview")
    assert app.query_params["retrievers"] == f"Words|{named}"
    assert app.query_params["measure"] == "ndcg"
    assert started[-1].split is Part.TEST
    assert [item.name for item in started[-1].retriever] == ["Words", named]

    finished(data, started[-1])
    run(app)
    assert named in texts(app)
    assert "nDCG@10" in texts(app)


@pytest.mark.parametrize(("language", "lead"), [("en", "Keep the current setting"), ("ko", "현재 설정(BM25)")])
def test_insignificant_setting_has_only_a_link(language: str, lead: str) -> None:
    data = worlds.sample()
    finished(data, labs.bm25_lab(compared(data, "BM25"), "BM25", [Analyzer.KIWI_BIGRAM], k1s=[0.9], bs=[0.4, 0.5]))
    app = open_labs("BM25", analyzers="kiwi+bigram", k1="0.9", b="0.4, 0.5", lang=language)
    (verdict,) = [element.value for element in app.markdown if element.value.startswith(f"**{lead}")]
    assert "p = " in verdict
    button = app.button(key="use_bm25")
    assert button.proto.type == "tertiary"
    assert button.label == catalog(language)["tune.use_anyway"]
    analyzers = catalog(language)["analyzer.kiwi_bigram"]
    assert analyzers in texts(app)
    assert worlds.tables(app, "k1")[0]["analyzer"].tolist() == [analyzers] * 2
    assert "kiwi+bigram" not in texts(app)


def test_hybrid_lab_ends_are_single_retrievers(data: StoredSet) -> None:
    add_retriever(data.fingerprint, WORDS)
    lab = finished(data, labs.hybrid_lab(compared(data, "BM25", "Words"), "Words", "BM25"))
    app = open_labs("BM25", "Words", lab="hybrid", mix_first="Words", mix_second="BM25", measure="recall", k="1")
    (table,) = worlds.tables(app, "fusion")
    assert len(table) == 3 * 21
    ends = table[table["weight"].isin([0, 1])]
    assert ends["value"].nunique() == 2
    assert table["value"].max() > ends["value"].max()
    assert "Hybrid · Words " in texts(app)
    assert "use_hybrid" in [button.key for button in app.button]
    worlds.select_setting(app, lab, data, int(ends.index[0]))
    assert any("alone. Keep it if no setting" in info.value for info in app.info)
    assert "use_hybrid" not in [button.key for button in app.button]


def test_reranking_lab_shows_gain_and_cost_of_depth() -> None:
    data = worlds.sample()
    finished(data, labs.rerank_lab(compared(data, "BM25", "Reranked"), "Reranked", [5, 20]))
    app = open_labs("BM25", "Reranked", lab="rerank", depths="5|20")
    (table,) = worlds.tables(app, "ceiling")
    assert len(table) == 2 * 11
    assert (table["value"] <= table["ceiling"] + 1e-9).all()
    assert table[table["weight"] == 0]["milliseconds"].eq(0).all()
    assert any("At most 240 question–passage pairs" in caption.value for caption in app.caption)
    assert app.query_params["depths"] == "5|20"
    app.pills(key="lab_depths").set_value([])
    run(app)
    assert any(info.value == "Select at least one of each." for info in app.info)


def test_index_lab_shows_loss_of_each_index(data: StoredSet) -> None:
    finished(data, labs.index_lab(compared(data, "Dense"), "Dense"))
    app = open_labs("Dense", lab="index")
    (table,) = worlds.tables(app, "overlap")
    assert sorted(table["title"]) == ["Exact", "HNSW", "IVF", "int8"]
    assert table["megabytes"].is_monotonic_increasing
    assert table.set_index("title").loc["Exact", "overlap"] == 100
    assert "of the exact index's top 10; nDCG@10 changes by" in texts(app)
    press(app, "use_index")
    (spec,) = added_retrievers(data.fingerprint)
    assert isinstance(spec, DenseSpec)
    assert spec.index == "int8"
    assert spec.selected_on is Part.VALIDATION


def test_layers_lab_shows_cross_validated_gain_and_applies_setting(data: StoredSet, tmp_path: Path) -> None:
    late = LateSpec(name="Late", model=str(build_bi_encoder(tmp_path / "base")))
    add_retriever(data.fingerprint, late)
    lab = finished(data, labs.layers_lab(compared(data, "Late"), "Late"))
    app = open_labs("Late", lab="layers")
    (table,) = worlds.tables(app, "title")
    assert sorted(table["title"]) == ["Balanced (IDF)", "Last", "Last (IDF)", "Upper", "Upper (IDF)"]
    comparison = compare(lab, question_set(data.key))
    metrics = labs.lab_results(comparison, "ndcg@10", question_groups(comparison.question_set))
    assert table["value"].max() == pytest.approx(100 * metrics["value"].max())
    assert table.set_index("title").loc["Balanced (IDF)", "difference"] == 0
    assert "validation questions" in texts(app)
    press(app, "use_layers")
    used = [spec for spec in added_retrievers(data.fingerprint) if spec != late]
    assert [spec.selected_on for spec in used] == [Part.VALIDATION]


def test_explains_missing_retriever_and_offers_no_labs_without_split(data: StoredSet) -> None:
    compared(data, "BM25")
    kinds = {"hybrid": "hybrid weights", "rerank": "reranking", "index": "the dense index"}
    for lab, tuned in (kinds | {"layers": "the layers of late interaction"}).items():
        assert worlds.has_info(open_labs("BM25", lab=lab), f"To tune {tuned}, select"), lab
    small = save_question_set(small_set())
    compared(small, "BM25")
    app = open_labs("BM25", data=small.key)
    assert any(warning.value.startswith("This dataset has no validation questions") for warning in app.warning)
    assert not [button for button in app.button if str(button.key).startswith("start_")]


def test_displays_tokens_of_any_text_and_unmatched_questions(data: StoredSet) -> None:
    lab = finished(data, labs.bm25_lab(compared(data, "BM25"), "BM25", [Analyzer.WORD], k1s=[1], bs=[0.5]))
    app = open_labs("BM25", analyzers="word", k1="1", b="0.5")
    app.text_area(key="lab_text").set_value("<b>한글을</b> 만든")
    run(app)
    (table,) = worlds.tables(app, "tokens")
    tokens = dict(zip(table["analyzer"], table["tokens"], strict=True))
    assert list(tokens["Words"]) == ["b", "한글을", "b", "만든"]
    assert list(tokens["Whitespace-separated words"]) == ["<b>한글을</b>", "만든"]
    (counts,) = worlds.tables(app, "not_in_own")
    request = compare(lab, question_set(data.key)).question_set
    assert counts["analyzer"].tolist() == ["Words"]
    (questions,) = worlds.tables(app, "question")
    assert len(questions) == counts["not_in_own"][0] > 0
    assert set(questions["question"]) <= {question.text for question in request.questions}
    assert (~questions["anywhere"]).sum() == counts["not_anywhere"][0]
