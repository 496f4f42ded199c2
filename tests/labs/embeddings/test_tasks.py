"""What a page asks for: the arrays that come out, and a job that goes on without it."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from mrc_workbench.data.cache import load_arrays
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs.store import keep
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.workspace import read_json
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import encode
from mrc_workbench.labs.embeddings.geometry import Projection, neighbours, project, similarity
from mrc_workbench.labs.embeddings.study import STUDY, evaluate, load_task, run, save, sentences_of
from mrc_workbench.workbench.cli import main
from tests.labs.embeddings.worlds import scored_pairs

PAIRS = scored_pairs()
ASKED = ("고양이가 강가에서 달린다", "새가 노래를 부른다")
REQUESTS: tuple[results.Request, ...] = (
    results.EvaluationRequest(data="counted", models=("starter",), part=Part.TEST),
    results.SimilarityRequest(data="counted", models=("starter",), sentences=ASKED),
    results.NeighboursRequest(data="counted", model="starter", sentences=ASKED, k=3),
    results.MapRequest(data="counted", model="starter", part=Part.TEST, projection=Projection.PCA),
    results.CostRequest(data="counted", bi_encoder="starter", cross_encoder="starter", seconds=5),
)


def done(request: results.Request, folder: Path) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    save(run(request, PAIRS, lambda *_: None), folder)
    return load_arrays(folder / "arrays.npz") or {}, read_json(folder / "scores.json")


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.task)
def test_a_request_is_read_as_it_was_written(request_: results.Request) -> None:
    assert STUDY.spec_type.validate_json(request_.model_dump_json()) == request_


def test_a_request_that_nobody_can_carry_out_is_refused() -> None:
    for wrong in (
        {"task": "evaluate", "data": "counted", "models": []},
        {"task": "similarity", "data": "counted", "models": ["starter"], "sentences": ["가"] * 201},
        {"task": "neighbours", "data": "counted", "model": "starter", "sentences": [""]},
        {"task": "dance", "data": "counted"},
    ):
        with pytest.raises(ValidationError):
            STUDY.spec_type.validate_json(json.dumps(wrong))


def test_a_job_is_that_of_its_request_its_pairs_and_its_model(tmp_path: Path) -> None:
    one, other = REQUESTS[0], results.EvaluationRequest(data="counted", models=("starter",), part=Part.ALL)
    assert STUDY.job(one, "a") == STUDY.job(one, "a")
    assert len({STUDY.job(one, "a"), STUDY.job(one, "b"), STUDY.job(other, "a")}) == 3
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    request = results.MapRequest(data="counted", model=str(tmp_path))
    before = STUDY.job(request, "a")
    (tmp_path / "config.json").write_text('{"changed": true}', encoding="utf-8")
    assert STUDY.job(request, "a") != before


@pytest.mark.slow
def test_a_matrix_is_of_each_model_and_one_that_fails_is_told(tmp_path: Path) -> None:
    request = results.SimilarityRequest(data="counted", models=("no/such/model", "starter"), sentences=ASKED)
    arrays, content = done(request, tmp_path)
    assert [*arrays] == ["matrix_1"]
    assert arrays["matrix_1"] == pytest.approx(similarity(encode("starter", ASKED, PAIRS.sentences).vectors))
    assert content["models"]["no/such/model"]["code"] == "model_not_found"  # type: ignore[index]


@pytest.mark.slow
def test_neighbours_and_a_map_are_in_the_order_of_the_sentences(tmp_path: Path) -> None:
    sentences = sentences_of(PAIRS, Part.ALL)
    vectors = encode("starter", sentences, PAIRS.sentences).vectors
    asked = encode("starter", ASKED, PAIRS.sentences).vectors
    cosines, rows = neighbours(vectors, asked, 3)
    arrays, _ = done(REQUESTS[2], tmp_path)
    assert arrays["rows"].tolist() == rows.tolist()
    assert arrays["cosines"] == pytest.approx(cosines)
    placed, _ = done(results.MapRequest(data="counted", model="starter", projection=Projection.PCA), tmp_path)
    assert placed["points"] == pytest.approx(project(vectors).points)
    assert placed["points"].shape == (len(sentences), 2)


@pytest.mark.slow
def test_a_job_gives_what_the_function_gives_and_goes_on_by_itself() -> None:
    keep(PAIRS)
    request = REQUESTS[0]
    job = STUDY.job(request, PAIRS.fingerprint)
    job.start(request)
    until = time.monotonic() + 120
    while job.running and time.monotonic() < until:
        time.sleep(0.1)
    assert job.done, job.log()
    found, wanted = results.load(job.folder), evaluate(PAIRS, ["starter"], Part.TEST)
    assert found.results[0].figures == wanted.results[0].figures
    assert (found.results[0].cosines == wanted.results[0].cosines).all()
    while job.status().at_work and time.monotonic() < until:
        time.sleep(0.1)
    assert job.status().state is State.DONE


@pytest.mark.slow
def test_a_job_that_fails_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = StudyJob(tmp_path, STUDY)
    (tmp_path / "request.json").write_text(REQUESTS[3].model_dump_json(), encoding="utf-8")
    assert main(["internal", "embeddings", str(tmp_path)]) == 2
    assert (job.status().state, job.status().code) == (State.FAILED, "unknown_pairs")
    with pytest.raises(ValueError, match="holds no finished result"):
        load_task(job.folder)
