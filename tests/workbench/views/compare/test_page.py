"""The Compare page: scores and notes of a comparison, its downloads, and earlier comparisons."""

import io
import json
import math
import time
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import LearnedSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.report.words import LANGUAGES
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.compare.overview import signal_label
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import retriever_name, retriever_names
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.retrieval.compared import LATE, RIGHT, many_questions
from tests.workbench.views.compare import worlds
from tests.workbench.views.compare.worlds import page_text, press, results_of, store_results, store_rows
from tests.workbench.views.compare.worlds import whole_page as page
from tests.workbench.views.driving import opened, run
from tests.workbench.views.test_choices import finished as trained

EN = catalog("en")


def finished(data: StoredSet, results: Sequence[Result] = ()) -> Path:
    """Store the comparison that the page opens first, with rankings written by hand."""
    default_rows = {"BM25": RIGHT, "Dense": LATE, "Hybrid": RIGHT, "Reranked": RIGHT}
    return store_results(data, choices_for(data).specs, small_set(), results or results_of(default_rows))


def running_job(data: StoredSet, *names: str) -> ComparisonJob:
    """A running comparison of all questions."""
    job = ComparisonJob.of(choices_for(data).experiment(data, list(names), Part.ALL), data.fingerprint)
    job.folder.mkdir(parents=True)
    pid, pid_started = this_process()
    job.write_status(Status(State.RUNNING, names[-1], started=time.time(), pid=pid, pid_started=pid_started))
    return job


def store_three(data: StoredSet) -> Path:
    """Store a comparison without the reranker, which the page selects by default."""
    return finished(data, results_of({"BM25": RIGHT, "Dense": LATE, "Hybrid": RIGHT}))


def test_displays_intervals_and_tests_every_pair(data: StoredSet) -> None:
    finished(data)
    app = opened(page, measure="recall", k="1")
    against, others = (frame.value for frame in app.dataframe if "verdict" in frame.value and "a" in frame.value)
    assert against[["a", "b"]].to_numpy().tolist() == [[name, "BM25"] for name in ("Dense", "Hybrid", "Reranked")]
    dense = against.iloc[0]
    assert dense["difference"] == pytest.approx(-100 * 5 / 6)
    assert (dense["wins"], dense["ties"], dense["losses"]) == (0, 1, 5)
    assert set(against["verdict"]) == {EN["compare.unsure"]}  # five groups of questions are too few
    assert len(others) == 3
    table = app.dataframe[0].value.set_index("retriever")
    assert table.loc["BM25", "verdict"] == EN["compare.is_baseline"]
    assert table.loc["Dense", "verdict"] == EN["compare.unsure"]
    assert table.loc["BM25", "interval"].split(" – ")[1] == "100.0"
    displayed_text = page_text(app)
    assert "Too early to recommend a retriever (questions: 6)." in displayed_text
    assert "**BM25** scores highest so far (Recall@1 91.7)" in displayed_text
    for absent in (EN["compare.elsewhere"], "reads only the beginning", "generated from passages"):
        assert absent not in displayed_text


def test_marks_published_results() -> None:
    data = save_question_set(replace(small_set(), name="KorQuAD 1.0 dev"))
    store_rows(data, {"BM25": RIGHT, "Dense": LATE})
    app = opened(page)
    table = next(frame.value for frame in app.dataframe if "kind" in frame.value).set_index("name")
    assert table.loc["BM25", "kind"] == EN["published.here"]
    assert table.loc["nlpai-lab/KURE-v2"].tolist() == [EN["published.late"], pytest.approx(98.46)]
    assert table["value"].is_monotonic_decreasing
    assert "https://huggingface.co/nlpai-lab/KURE-v2), 2026-08-29" in page_text(app)
    assert EN["published.others"].format(theirs="5,774", here="6") in page_text(app)


def test_opens_disputed_question(data: StoredSet) -> None:
    finished(data)
    app = opened(page, k="1")
    press(app, "disputed")
    assert app.query_params["view"] == "why"
    assert app.query_params["question"] in {question.id for question in small_set().questions}
    assert any(button.key == "why_back" for button in app.button)


def test_reports_failure_without_metrics_or_baseline(data: StoredSet) -> None:
    results = results_of({"Dense": LATE, "Hybrid": RIGHT, "Reranked": RIGHT})
    finished(data, (Result("BM25", error=RuntimeError("no *model* here")), *results))
    app = opened(page)
    assert r"**BM25** could not be measured and has no score: no \*model\* here" in page_text(app)
    assert len(app.dataframe[-1].value) == 1  # the pair of the other scored retrievers
    row = app.dataframe[0].value.set_index("retriever").loc["BM25"]
    assert row.drop(["verdict", "interval"]).isna().all()
    assert row[["verdict", "interval"]].tolist() == ["", ""]
    (baseline,) = [box for box in app.selectbox if box.label == EN["compare.baseline"]]
    assert (baseline.value, baseline.options) == ("Dense", ["Dense", "Hybrid", "Reranked"])


def test_reports_shallow_retriever_and_omits_it_from_tests(data: StoredSet) -> None:
    results = results_of({"BM25": RIGHT, "Dense": LATE, "Hybrid": RIGHT})
    shallow = results[1]
    assert shallow.scores is not None
    per_question = {name: of for name, of in shallow.scores.per_question.items() if name != "recall@100"}
    scores = replace(shallow.scores, per_question=per_question)
    finished(data, (results[0], replace(shallow, scores=scores), *results[2:]))
    app = opened(page, measure="recall", k="100")
    assert "**Dense** returned too few results to compute Recall@100" in page_text(app)
    assert len(app.dataframe[-1].value) == 1
    assert "too few results" not in page_text(opened(page, measure="recall", k="50"))


def test_reports_empty_results_and_truncated_passages(data: StoredSet) -> None:
    results = results_of({"BM25": RIGHT, "Dense": [[], [], *LATE[2:]], "Hybrid": RIGHT})
    finished(data, (results[0], replace(results[1], notes={"cut_off": 2}), results[2]))
    displayed_text = page_text(opened(page))
    assert "**Dense** returned no results for 2 questions (counted as misses)" in displayed_text
    assert f"**Dense** reads only the beginning of 2 of {data.passages} passages" in displayed_text
    assert "This also affects **Hybrid**." in displayed_text
    assert f"Add it with “{EN['compare.windows']}”" in displayed_text
    assert "지문 5개 가운데 2개를 앞부분만 읽었습니다" in page_text(opened(page, lang="ko"))


def test_displays_last_comparison_and_offers_to_run_selected(data: StoredSet, started: list[Experiment]) -> None:
    store_three(data)
    app = opened(page, part="all", retrievers="BM25|Dense|Reranked")
    assert set(app.dataframe[0].value["retriever"]) == {"BM25", "Dense"}
    assert started == []
    offered = app.button(key="run")
    assert offered.label == EN["compare.with_new"].format(names="Reranked")
    offered.click()
    run(app)
    assert [[*experiment.specs] for experiment in started] == [["BM25", "Dense", "Reranked"]]


def test_selection_within_last_comparison_needs_no_run(data: StoredSet, started: list[Experiment]) -> None:
    finished(data)
    app = opened(page, retrievers="BM25|Hybrid")
    assert started == []
    assert set(app.dataframe[0].value["retriever"]) == {"BM25", "Hybrid"}
    assert EN["compare.run_selected"] not in [button.label for button in app.button]


@pytest.mark.parametrize("retrievers", ["BM25|Dense", "BM25|Dense|Reranked", ""])
def test_reports_other_questions_or_settings_of_last_comparison(data: StoredSet, retrievers: str) -> None:
    if retrievers:
        store_three(data)
        app = opened(page, part="test", retrievers=retrievers)
    else:  # stored by an earlier version: equal names, other settings, and so another folder
        folder = finished(data)
        folder.rename(folder.with_name("0123456789abcdef"))
        app = opened(page)
    assert "Earlier comparison · 6 questions · " in page_text(app)
    assert app.button(key="run").label == EN["compare.run_selected"]  # the text names no single retriever


def test_displays_earlier_comparison_with_most_selected_retrievers(data: StoredSet) -> None:
    store_three(data)
    specs = choices_for(data).specs
    store_rows(data, dict.fromkeys(("BM25", "BM25 words"), RIGHT))
    assert {"BM25", "Dense", "Reranked"} < set(specs)
    app = opened(page, part="all", retrievers="BM25|Dense|Reranked")
    assert set(app.dataframe[0].value["retriever"]) == {"BM25", "Dense"}


@pytest.mark.parametrize(("retrievers", "is_requested"), [("Dense|Reranked", False), ("Dense", True)])
def test_requests_second_retriever(data: StoredSet, retrievers: str, is_requested: bool) -> None:
    by = {"BM25": RIGHT * 8, "Dense": LATE * 8}
    many = many_questions(8)[0]
    dataset = save_question_set(many)
    store_rows(dataset, by, many)
    app = opened(page, data=dataset.key, part="all", retrievers=retrievers)
    assert (EN["compare.pick_another"] in page_text(app)) == is_requested


def test_link_starts_comparison(data: StoredSet, started: list[Experiment]) -> None:
    store_three(data)
    app = opened(page, retrievers="BM25|Reranked", run="now")
    assert [[*experiment.specs] for experiment in started] == [["BM25", "Reranked"]]
    assert "run" not in app.query_params
    run(app)
    assert len(started) == 1


@pytest.mark.packaged
def test_reports_storage_and_time_of_late_interaction_first() -> None:
    dataset_questions = worlds.whole_sample()
    late = choices_for(data := worlds.sample()).specs["Late"]
    assert isinstance(late, LateSpec)
    characters = sum(len(dataset_questions.passages[row].text) for row in range(len(dataset_questions.passages)))
    assert late.expected_bytes(dataset_questions.passages) == pytest.approx(0.6 * characters * 384 * 2, abs=1)
    own = save_question_set(replace(dataset_questions, name="own"))
    cost = EN["compare.cost"].format(name="Late", megabytes=math.ceil(0.6 * characters * 384 * 2 / 1e6), passages=200)
    assert cost in page_text(opened(page, data=own.key, retrievers="Late"))
    assert cost not in page_text(opened(page, data=own.key, retrievers="BM25"))
    assert cost not in page_text(opened(page, data=data.key, retrievers="Late"))  # the worlds.sample has stored vectors
    worlds.store_seconds(late, 120.0)
    expected = choices_for(own).expected
    assert expected is not None
    assert expected.label("Late") == EN["compare.time_about"].format(time="2 min")  # on its chip


def test_reads_trained_models_once_per_run(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(BI_ENCODER, "first", data)
    running_job(data, "Dense · first")
    read = list[Run]()
    plan = Run.plan

    def counted(run: Run) -> TrainingPlan:
        read.append(run)
        return plan(run)

    monkeypatch.setattr(Run, "plan", counted)
    app = opened(worlds.page, part="all", retrievers="Dense · first")  # the sidebar asks for running jobs
    assert r"trained here \(first\)" in page_text(app)
    assert len(read) == 1


def test_displays_metrics_recorded_by_the_job(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = "mrc_workbench.retrieval.comparison.compare.evaluate"
    monkeypatch.setattr(evaluate, lambda *_: pytest.fail("the page scores again"))
    job = running_job(data, "BM25", "Dense")
    (bm25, dense) = results_of({"BM25": RIGHT, "Dense": LATE})
    job.log_result(replace(bm25, build_seconds=2.0, query_seconds=3.0))
    for again in range(2):  # and after a reload
        (metrics_table,) = opened(worlds.page, part="all", retrievers="BM25|Dense").dataframe
        table = metrics_table.value.set_index("retriever")
        assert table.loc["BM25", "recall@1"] == pytest.approx(100 * 5.5 / 6), again
        assert tuple(table.loc["BM25", ["build_seconds", "per_question"]]) == (2.0, 500.0)
        assert table.loc["Dense"].drop(["verdict", "interval"]).isna().all()
    job.add_progress({"finished": "Dense"})  # as an earlier version wrote it
    app = opened(worlds.page, part="all", retrievers="BM25|Dense")
    assert app.dataframe[0].value["recall@1"].notna().sum() == 1
    assert page_text(app).count("check_circle") == 2
    job.log_result(dense)
    assert opened(worlds.page, part="all", retrievers="BM25|Dense").dataframe[0].value["recall@1"].notna().all()


def test_exports_every_file(data: StoredSet) -> None:
    compared = open_comparison(data.key, finished(data))
    assert compared is not None
    results = compared.comparison.results
    view = ComparisonView(data, compared, results, tuple(result.name for result in results), "recall", 10, "BM25")
    from mrc_workbench.workbench.views.compare import page as compare_page

    contents = {name: content() for name, (content, _, _) in compare_page._files(view, "en").items()}
    files = {name: content.encode() if isinstance(content, str) else content for name, content in contents.items()}
    assert {f"export.{name}" for name in files} <= EN.keys()
    table = pd.read_csv(io.BytesIO(files["table"]))
    assert table.set_index("retriever").loc["BM25", "recall@1"] == pytest.approx(5.5 / 6)
    assert len(pd.read_csv(io.BytesIO(files["questions"]))) == 6
    assert len(files["questions_json"].splitlines()) == 6
    assert json.loads(files["json"])["retrievers"]["Dense"]["recall@5"] == 1.0
    assert '<html lang="en"' in contents["report"]
    head = files["experiment"].decode().splitlines()[0]
    assert head.startswith("# data")
    assert data.fingerprint in head
    assert data.name in head
    with zipfile.ZipFile(io.BytesIO(files["everything"])) as archive:
        names = {name.removeprefix("comparison/") for name in archive.namelist()}
    assert {"scores.json", "significance.json", "provenance.json", "report.html", "qrels.trec", "BM25.trec"} <= names
    assert {"beir/corpus.jsonl", "beir/queries.jsonl", "beir/qrels/test.tsv", "experiment.toml"} <= names


def test_marks_and_explains_time_of_another_machine(data: StoredSet) -> None:
    bm25, dense = results_of({"BM25": RIGHT, "Dense": LATE})
    timed = (replace(bm25, query_seconds=0.6), replace(dense, query_seconds=6.0, elsewhere_seconds=6.0))
    finished(data, timed)
    app = opened(page)
    table = app.dataframe[0].value.set_index("retriever")
    assert table["per_question"].to_dict() == {"BM25": pytest.approx(100.0), "Dense": pytest.approx(1000.0)}
    assert EN["compare.elsewhere"] in [element.value for element in app.caption]


def test_displays_names_and_groups_exports_in_korean_but_not_in_address(data: StoredSet) -> None:
    finished(data)
    app = opened(page, lang="ko", retrievers="BM25|Hybrid|Reranked", baseline="Hybrid")
    assert app.pills[0].value == ["BM25", "Hybrid", "Reranked"]
    assert app.pills[0].options[-2:] == ["하이브리드", "재정렬"]
    assert app.query_params["retrievers"] == "BM25|Hybrid|Reranked"
    assert app.query_params["baseline"] == "Hybrid"
    assert app.selectbox(key="baseline_ko").options == ["BM25", "하이브리드", "재정렬"]
    words = catalog("ko")
    groups = [f"**{words[f'export.group_{name}']}**" for name in ("report", "tables", "data", "again")]
    assert [caption.value for caption in app.caption if caption.value in groups] == groups
    labels = [button.proto.label for button in app.get("download_button")]
    assert {words["export.latex"], words["export.everything"]} <= {*labels}


@pytest.mark.parametrize(
    ("name", "korean"),
    [
        ("Best mix · trained", "최적 혼합 · 학습됨"),
        ("Late", "후기 상호작용"),
        ("Dense · my model", "Dense · my model"),
        ("mine", "mine"),
        ("Late mine", "Late mine"),
    ],
)
def test_translates_only_default_names(name: str, korean: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert retriever_name(name) == name
    monkeypatch.setattr("mrc_workbench.workbench.views.names.language", lambda: "ko")
    assert retriever_name(name) == korean
    assert retriever_names(["Late", "후기 상호작용"]) == {"Late": "Late", "후기 상호작용": "후기 상호작용"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_describes_signals_of_a_mix(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mix = LearnedSpec(name="Mix", retrievers=("BM25",))
    specs = ({"BM25": BM25Spec(name="BM25", analyzer=analyzer)} for analyzer in (Analyzer.WORD, Analyzer.BIGRAM))
    names = {signal.name for some in specs for signal in mix.signals(RetrieverContext(small_set(), specs=some))}
    monkeypatch.setattr("mrc_workbench.workbench.views.ui.words.language", lambda: language)
    labels = {name: signal_label(name) for name in names}
    assert {"BM25 pairs", "BM25 presence", "BM25 words", "BM25 bigrams"} <= names
    assert len(set(labels.values())) == len(names)
    assert not set(labels.values()) & names
    assert signal_label("Mine") == "Mine"
