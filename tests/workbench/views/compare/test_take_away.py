"""Take away on the Compare page: what is chosen lies in the address, what differs is told, and the folder is given."""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import keep
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.retrieval.comparison.experiment import add
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.store import origin_of
from mrc_workbench.retrieval.takeaway.folder import EXPORTS, Taken, Wanted, archive_of
from mrc_workbench.retrieval.takeaway.fusion import Engine
from mrc_workbench.retrieval.takeaway.models import ModelFigure
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.compare.kept import drift_words
from mrc_workbench.workbench.views.ui.words import catalog, plain
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of
from tests.workbench.views.compare.worlds import FOUND, KS, kept, page, press, said
from tests.workbench.views.driving import opened, run

EN = catalog("en")


@pytest.fixture
def folder() -> Path:
    data = keep(small_set())
    found = dict.fromkeys(("BM25", "Dense", "Hybrid", "Reranked"), FOUND)
    return kept(data, choices_for(data).specs, small_set(), comparison_of(found, small_set(), KS, depth=100).results)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """What is asked for, in place of the processes that make it."""
    wanted: list[Wanted] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, request: wanted.append(request))
    return wanted


def job_of(folder: Path, wanted: Wanted) -> StudyJob[Wanted, Taken]:
    return EXPORTS.job(wanted, str(origin_of(folder)["made"]))


def asked_for(folder: Path, retriever: str, engine: Engine) -> StudyJob[Wanted, Taken]:
    """Write what a person asked for where its process finds it."""
    wanted = Wanted(folder.name, retriever, engine)
    job = job_of(folder, wanted)
    job.folder.mkdir(parents=True)
    job.write_spec(wanted)
    return job


def test_the_export_leads_there_and_what_is_chosen_is_asked_for_and_lies_in_the_address(
    folder: Path, asked: list[Wanted]
) -> None:
    app = press(opened(page), EN["export.take_away"])
    assert app.query_params["view"] == "takeaway"
    assert EN["takeaway.about"] in said(app)
    app = opened(page, view="takeaway", take="Reranked", **{"for": "vespa"})
    assert EN["takeaway.of_vespa"] in said(app)
    assert EN["takeaway.foreseen_left_out"] in said(app)
    press(app, EN["takeaway.make"])
    assert asked == [Wanted(folder.name, "Reranked", Engine.VESPA)]
    next(box for box in app.selectbox if box.label == EN["takeaway.engine"]).select("langchain")
    run(app)
    assert app.query_params["for"] == "langchain"
    assert EN["takeaway.foreseen_left_out"] not in said(app)


def test_late_interaction_over_candidates_is_refused_with_what_to_export_instead(asked: list[Wanted]) -> None:
    data, name = keep(small_set()), "Late over BM25"
    add(data.fingerprint, LateSpec(name=name, model="starter", first="BM25"))
    found = {"BM25": FOUND, name: FOUND}
    folder = kept(data, found, small_set(), comparison_of(found, small_set(), KS, depth=100).results)
    app = opened(page, part="all", retrievers="|".join(found), view="takeaway", take=name)
    assert EN["takeaway.over_candidates"].format(name=name, first="BM25") in said(app)
    assert EN["takeaway.make"] not in [button.label for button in app.button]
    next(box for box in app.selectbox if box.label == EN["takeaway.engine"]).select("langchain")
    press(run(app), EN["takeaway.make"])
    assert asked == [Wanted(folder.name, name, Engine.LANGCHAIN)]


def test_what_was_made_is_told_with_its_figures_and_given(folder: Path) -> None:
    job = asked_for(folder, "BM25", Engine.ELASTICSEARCH)
    assert job.run() == 0, job.status().message
    app = opened(page, view="takeaway", take="BM25")
    assert EN["takeaway.differs_lengths"] in said(app)
    (figures,) = [frame.value for frame in app.dataframe if "there" in frame.value]
    assert figures["engine"].tolist() == [EN[f"takeaway.engine_{one}"] for one in Engine if one is not Engine.ONNX]
    assert figures["there"].between(0, 100).all()
    (button,) = [one for one in app.get("download_button") if "folder (ZIP" in one.proto.label]
    assert f"{archive_of(job).stat().st_size / 1e6:,.1f} MB" in button.proto.label
    with zipfile.ZipFile(archive_of(job)) as archive:
        told = json.loads(archive.read("takeaway/engine.json"))
    assert told["figure"]["there"] * 100 == pytest.approx(figures["there"][0])
    job.result.write_text("{}")
    assert EN["takeaway.damaged"] in said(opened(page, view="takeaway", take="BM25"))


@pytest.mark.parametrize(
    ("language", "points", "said"),
    [
        ("en", 0.41, "**0.41 points higher** than here"),
        ("en", -1.2, "**1.20 points lower** than here"),
        ("ko", 0.41, "**0.41%p 높습니다**"),
        ("ko", -1.2, "**1.20%p 낮습니다**"),
    ],
)
def test_drift_says_its_direction(language: str, points: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.workbench.views.ui.words.language", lambda: language)
    assert said in drift_words(points)
    assert drift_words(0.004) == catalog(language)["takeaway.same"]


def test_why_nothing_was_made_is_said(folder: Path, asked: list[Wanted]) -> None:
    job = asked_for(folder, "BM25", Engine.ONNX)
    job.write_status(Status(State.FAILED, code="no_network", message="English"))
    reason = EN["takeaway.no_network"].format(name="BM25")
    app = opened(page, view="takeaway", take="BM25", **{"for": "onnx"})
    assert EN["takeaway.failed"].format(reason=plain(reason)) in said(app)


def test_models_are_told_with_what_they_were_held_against(folder: Path) -> None:
    job = asked_for(folder, "BM25", Engine.ONNX)
    figures = (0.99999, 0.98, 0.9, 0.9, 0.875, 4.0, 5.0, 2.0, 470_000_000, 236_000_000)
    model = asdict(ModelFigure("BM25", "m", "dense", "model_1", 100, *figures))  # type: ignore[arg-type]
    job.write(job.result.name, {"figures": [], "models": [model]})
    archive_of(job).write_bytes(b"")
    app = opened(page, view="takeaway", take="BM25", **{"for": "onnx"})
    (table,) = [frame.value for frame in app.dataframe if "agreement" in frame.value]
    assert table["agreement"].tolist() == ["–", "1.0000", "0.9800"]
    assert table["ndcg"].tolist() == [90.0, 90.0, 87.5]
    assert table["size"].tolist() == ["–", "470", "236"]
    assert EN["takeaway.models_about"].format(questions="100") in said(app)
