"""Requests of the page: their arrays, and jobs that continue without the page."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from mrc_workbench.data.cache import load_arrays
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs.store import save_pairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.workspace import read_json
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import encode
from mrc_workbench.labs.embeddings.geometry import Projection, find_neighbours, project, similarity_matrix
from mrc_workbench.labs.embeddings.study import STUDY, evaluate, load_task, run, save, sentences_of
from mrc_workbench.workbench.cli import main
from tests.labs.embeddings.worlds import scored_pairs

PAIRS = scored_pairs()
QUERIES = ("고양이가 강가에서 달린다", "새가 노래를 부른다")
REQUESTS: tuple[results.EmbeddingRequest, ...] = (
    results.EvaluationRequest(data="counted", models=("starter",), part=Part.TEST),
    results.SimilarityRequest(data="counted", models=("starter",), sentences=QUERIES),
    results.NeighboursRequest(data="counted", model="starter", sentences=QUERIES, k=3),
    results.MapRequest(data="counted", model="starter", part=Part.TEST, projection=Projection.PCA),
    results.CostRequest(data="counted", bi_encoder="starter", cross_encoder="starter", seconds=5),
)


def run_task(request: results.EmbeddingRequest, folder: Path) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    save(run(request, PAIRS, lambda *_: None), folder)
    return load_arrays(folder / "arrays.npz") or {}, read_json(folder / "scores.json")


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda task_request: task_request.task)
def test_request_round_trip(request_: results.EmbeddingRequest) -> None:
    assert STUDY.spec_type.validate_json(request_.model_dump_json()) == request_


def test_rejects_invalid_requests() -> None:
    for wrong in (
        {"task": "evaluate", "data": "counted", "models": []},
        {"task": "similarity", "data": "counted", "models": ["starter"], "sentences": ["가"] * 201},
        {"task": "neighbours", "data": "counted", "model": "starter", "sentences": [""]},
        {"task": "dance", "data": "counted"},
    ):
        with pytest.raises(ValidationError):
            STUDY.spec_type.validate_json(json.dumps(wrong))


def test_job_depends_on_request_pairs_and_model(tmp_path: Path) -> None:
    first = REQUESTS[0]
    other = results.EvaluationRequest(data="counted", models=("starter",), part=Part.ALL)
    assert STUDY.job(first, "a") == STUDY.job(first, "a")
    assert len({STUDY.job(first, "a"), STUDY.job(first, "b"), STUDY.job(other, "a")}) == 3
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    request = results.MapRequest(data="counted", model=str(tmp_path))
    before = STUDY.job(request, "a")
    (tmp_path / "config.json").write_text('{"changed": true}', encoding="utf-8")
    assert STUDY.job(request, "a") != before


@pytest.mark.slow
def test_similarity_has_matrix_or_error_of_each_model(tmp_path: Path) -> None:
    request = results.SimilarityRequest(data="counted", models=("no/such/model", "starter"), sentences=QUERIES)
    arrays, content = run_task(request, tmp_path)
    assert [*arrays] == ["matrix_1"]
    assert arrays["matrix_1"] == pytest.approx(similarity_matrix(encode("starter", QUERIES, PAIRS.sentences).vectors))
    assert content["models"]["no/such/model"]["code"] == "model_not_found"  # type: ignore[index]


@pytest.mark.slow
def test_neighbours_and_map_keep_sentence_order(tmp_path: Path) -> None:
    sentences = sentences_of(PAIRS, Part.ALL)
    vectors = encode("starter", sentences, PAIRS.sentences).vectors
    query_vectors = encode("starter", QUERIES, PAIRS.sentences).vectors
    cosines, rows = find_neighbours(vectors, query_vectors, 3)
    arrays, _ = run_task(REQUESTS[2], tmp_path)
    assert arrays["rows"].tolist() == rows.tolist()
    assert arrays["cosines"] == pytest.approx(cosines)
    map_arrays, _ = run_task(results.MapRequest(data="counted", model="starter", projection=Projection.PCA), tmp_path)
    assert map_arrays["points"] == pytest.approx(project(vectors).points)
    assert map_arrays["points"].shape == (len(sentences), 2)


@pytest.mark.slow
def test_job_stores_same_result_as_function() -> None:
    save_pairs(PAIRS)
    request = REQUESTS[0]
    job = STUDY.job(request, PAIRS.fingerprint)
    job.start(request)
    deadline = time.monotonic() + 120
    while job.running and time.monotonic() < deadline:
        time.sleep(0.1)
    assert job.done, job.log()
    stored = results.load(job.folder)
    expected = evaluate(PAIRS, ["starter"], Part.TEST)
    assert stored.results[0].metrics == expected.results[0].metrics
    assert (stored.results[0].cosines == expected.results[0].cosines).all()
    while job.status().is_running and time.monotonic() < deadline:
        time.sleep(0.1)
    assert job.status().state is State.DONE


@pytest.mark.slow
def test_failed_job_has_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = StudyJob(tmp_path, STUDY)
    (tmp_path / "request.json").write_text(REQUESTS[3].model_dump_json(), encoding="utf-8")
    assert main(["internal", "embeddings", str(tmp_path)]) == 2
    assert (job.status().state, job.status().code) == (State.FAILED, "unknown_pairs")
    with pytest.raises(ValueError, match="holds no finished result"):
        load_task(job.folder)
