"""The Export tab: the address has the selection, the page describes known differences and offers the folder."""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import save_question_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.retrieval.comparison.experiment import add_retriever
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.store import read_provenance
from mrc_workbench.retrieval.export.folder import EXPORTS, ExportRequest, ExportResult, archive_path
from mrc_workbench.retrieval.export.fusion import ExportTarget
from mrc_workbench.retrieval.export.models import OnnxMetrics
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.compare.saved import drift_words
from mrc_workbench.workbench.views.ui.words import catalog, plain
from tests.doubles import small_set
from tests.retrieval.compared import RIGHT
from tests.workbench.views.compare.worlds import page, page_text, press, store_rows
from tests.workbench.views.driving import opened, run

EN = catalog("en")


@pytest.fixture
def folder() -> Path:
    data = save_question_set(small_set())
    return store_rows(data, dict.fromkeys(choices_for(data).specs, RIGHT))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ExportRequest]:
    """Replace the export subprocess; returns the requests that it would get."""
    started_requests: list[ExportRequest] = []
    monkeypatch.setattr(StudyJob, "start", lambda _, request: started_requests.append(request))
    return started_requests


def export_job(folder: Path, retriever: str, engine: ExportTarget) -> StudyJob[ExportRequest, ExportResult]:
    """Write the export that a user requests to the folder of its subprocess."""
    request = ExportRequest(folder.name, retriever, engine)
    job = EXPORTS.job(request, str(read_provenance(folder)["created_at"]))
    job.folder.mkdir(parents=True)
    job.write_spec(request)
    return job


def test_export_button_opens_tab_and_address_has_selection(folder: Path, requests: list[ExportRequest]) -> None:
    app = press(opened(page), EN["export.take_away"])
    assert app.query_params["view"] == "takeaway"
    assert EN["takeaway.about"] in page_text(app)
    app = opened(page, view="takeaway", take="Reranked", **{"for": "vespa"})
    assert EN["takeaway.of_vespa"] in page_text(app)
    assert EN["takeaway.expected_left_out"] in page_text(app)
    press(app, EN["takeaway.make"])
    assert requests == [ExportRequest(folder.name, "Reranked", ExportTarget.VESPA)]
    next(box for box in app.selectbox if box.label == EN["takeaway.engine"]).select("langchain")
    run(app)
    assert app.query_params["for"] == "langchain"
    assert EN["takeaway.expected_left_out"] not in page_text(app)


def test_rejects_late_interaction_over_candidates_with_alternative(requests: list[ExportRequest]) -> None:
    data = save_question_set(small_set())
    name = "Late over BM25"
    add_retriever(data.fingerprint, LateSpec(name=name, model="starter", first_stage="BM25"))
    rows_by_name = {"BM25": RIGHT, name: RIGHT}
    folder = store_rows(data, rows_by_name)
    app = opened(page, part="all", retrievers="|".join(rows_by_name), view="takeaway", take=name)
    assert EN["takeaway.over_candidates"].format(name=name, first="BM25") in page_text(app)
    assert EN["takeaway.make"] not in [button.label for button in app.button]
    next(box for box in app.selectbox if box.label == EN["takeaway.engine"]).select("langchain")
    press(run(app), EN["takeaway.make"])
    assert requests == [ExportRequest(folder.name, name, ExportTarget.LANGCHAIN)]


def test_displays_export_with_metrics_and_download(folder: Path) -> None:
    job = export_job(folder, "BM25", ExportTarget.ELASTICSEARCH)
    assert job.run() == 0, job.status().message
    app = opened(page, view="takeaway", take="BM25")
    assert EN["takeaway.differs_lengths"] in page_text(app)
    (score_table,) = [frame.value for frame in app.dataframe if "there" in frame.value]
    engines = [item for item in ExportTarget if item is not ExportTarget.ONNX]
    assert score_table["engine"].tolist() == [EN[f"takeaway.engine_{item}"] for item in engines]
    assert score_table["there"].between(0, 100).all()
    (button,) = [item for item in app.get("download_button") if "folder (ZIP" in item.proto.label]
    assert f"{archive_path(job).stat().st_size / 1e6:,.1f} MB" in button.proto.label
    with zipfile.ZipFile(archive_path(job)) as archive:
        engine_details = json.loads(archive.read("takeaway/engine.json"))
    assert engine_details["metrics"]["engine_score"] * 100 == pytest.approx(score_table["there"][0])
    job.result.write_text("{}")
    assert EN["takeaway.damaged"] in page_text(opened(page, view="takeaway", take="BM25"))


@pytest.mark.parametrize(
    ("language", "points", "message"),
    [
        ("en", 0.41, "**0.41 points higher** than here"),
        ("en", -1.2, "**1.20 points lower** than here"),
        ("ko", 0.41, "**0.41%p 높습니다**"),
        ("ko", -1.2, "**1.20%p 낮습니다**"),
    ],
)
def test_describes_drift_direction(language: str, points: float, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.workbench.views.ui.words.language", lambda: language)
    assert message in drift_words(points)
    assert drift_words(0.004) == catalog(language)["takeaway.same"]


def test_reports_export_failure(folder: Path, requests: list[ExportRequest]) -> None:
    job = export_job(folder, "BM25", ExportTarget.ONNX)
    job.write_status(Status(State.FAILED, code="no_network", message="English"))
    reason = EN["takeaway.no_network"].format(name="BM25")
    app = opened(page, view="takeaway", take="BM25", **{"for": "onnx"})
    assert EN["takeaway.failed"].format(reason=plain(reason)) in page_text(app)


def test_displays_model_agreement(folder: Path) -> None:
    job = export_job(folder, "BM25", ExportTarget.ONNX)
    model_values = (0.99999, 0.98, 0.9, 0.9, 0.875, 4.0, 5.0, 2.0, 470_000_000, 236_000_000)
    model = asdict(OnnxMetrics("BM25", "m", "dense", "model_1", 100, *model_values))  # type: ignore[arg-type]
    job.write(job.result.name, {"metrics": [], "models": [model]})
    archive_path(job).write_bytes(b"")
    app = opened(page, view="takeaway", take="BM25", **{"for": "onnx"})
    (table,) = [frame.value for frame in app.dataframe if "agreement" in frame.value]
    assert table["agreement"].tolist() == ["–", "1.0000", "0.9800"]
    assert table["ndcg"].tolist() == [90.0, 90.0, 87.5]
    assert table["size"].tolist() == ["–", "470", "236"]
    assert EN["takeaway.models_about"].format(questions="100") in page_text(app)
