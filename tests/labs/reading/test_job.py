"""Jobs of the Evaluate tab: folders by content, stored evaluations, and runs."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.reading import study
from mrc_workbench.labs.reading.evaluate import ReaderResult, ReadingExperiment, ReadingResult, evaluate
from mrc_workbench.labs.reading.study import STUDY, StoredReading
from mrc_workbench.models.files import ModelError
from mrc_workbench.workbench.cli import main
from tests.labs.reading.doubles import SET, NextWord
from tests.models.worlds import write_config

BM25 = {"name": "BM25", "kind": "bm25", "analyzer": "word"}
BIGRAMS = {"name": "error", "kind": "bm25", "analyzer": "bigram"}  # a valid name of a retriever


def experiment_of(stored: StoredSet, *models: str, **options: object) -> ReadingExperiment:
    readers = [{"name": model, "model": model} for model in models]
    content = {"data": stored.key, "retriever": [BM25, BIGRAMS], "reader": readers, "depths_read": (1, 3), "ks": (1, 3)}
    return ReadingExperiment.model_validate(content | options)


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(SET)


@pytest.fixture
def _next_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", lambda _: NextWord())


def create_model_folder(name: str, content: str = "{}") -> str:
    write_config(workspace() / "runs" / name / "model", content)
    return name


def store_evaluation(data: StoredSet, *models: str, **options: object) -> tuple[ReadingResult, Path]:
    experiment = experiment_of(data, *models, **options)
    result = evaluate(experiment, SET)
    folder = STUDY.job(experiment, data.fingerprint).folder
    study.save_result(result, folder)
    return result, folder


def run_job_in_process(monkeypatch: pytest.MonkeyPatch, job: StudyJob[Any, Any], experiment: ReadingExperiment) -> None:
    monkeypatch.setattr(StudyJob, "launch", lambda _, *words: main([*map(str, words)]))
    job.start(experiment)


def assert_same(actual: ReaderResult, expected: ReaderResult) -> None:
    assert actual.name == expected.name
    np.testing.assert_array_equal(actual.oracle, expected.oracle)
    assert [*actual.by_retriever] == [*expected.by_retriever] == ["BM25", "error"]
    for name, ours in actual.by_retriever.items():
        theirs = expected.by_retriever[name]
        for value in ("weight", "is_weight_tuned", "unit"):
            assert getattr(ours, value) == getattr(theirs, value)
        assert ours.candidates.answers == theirs.candidates.answers
        for component in ("candidates", "by_depth"):
            for part, values in vars(getattr(theirs, component)).items():
                np.testing.assert_array_equal(getattr(getattr(ours, component), part), values)


@pytest.mark.usefixtures("_next_word")
def test_loads_stored_evaluation_without_cache(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    create_model_folder("reads")
    result, folder = store_evaluation(data, "reads")
    shutil.rmtree(workspace() / "cache")
    loaded: StoredReading = study.load(folder, SET)
    assert loaded.result.experiment == result.experiment
    assert loaded.result.question_set == result.question_set
    (ours,) = loaded.result.readers
    (theirs,) = result.readers
    assert_same(ours, theirs)
    assert ours.by_retriever["BM25"].answers(1) == theirs.by_retriever["BM25"].answers(1)
    exact = theirs.by_retriever["BM25"].by_depth.exact
    assert loaded.scores["readers"]["reads"]["BM25"]["3"]["em"] == exact[:, 1].mean()
    (folder / "comparison").rename(folder / "found")  # its earlier name
    assert study.load(folder, SET).scores == loaded.scores
    monkeypatch.setattr(study.comparison_store, "save_comparison", lambda *_: pytest.fail("interrupted"))
    with pytest.raises(pytest.fail.Exception):
        study.save_result(result, folder)
    assert not (folder / "scores.json").exists()


def test_stores_error_of_failed_reader(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> NextWord:
        raise ModelError("not_finite", "no numbers", model="bad")

    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", refuse)
    _, folder = store_evaluation(data, create_model_folder("bad"))
    (reader,) = study.load(folder, SET).result.readers
    assert reader.by_retriever == {}
    assert (str(reader.error), getattr(reader.error, "code", "")) == ("no numbers", "not_finite")


@pytest.mark.usefixtures("_next_word")
def test_rejects_damaged_folder_and_other_questions(data: StoredSet) -> None:
    _, folder = store_evaluation(data, create_model_folder("reads"))
    with pytest.raises(ValueError, match="other passages or questions"):
        study.load(folder, SET.with_questions([0, 1]))
    for name in ("scores.json", "answers.json", "judged.npz"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(b'{"readers": 3')
        with pytest.raises(ValueError, match=folder.name):
            study.load(folder, SET)
        (folder / name).unlink()
        with pytest.raises(ValueError, match=folder.name):
            study.load(folder, SET)
        (folder / name).write_bytes(whole)


def test_folder_depends_on_question_set_and_reader_content(data: StoredSet) -> None:
    create_model_folder("reads")
    experiment = experiment_of(data, "reads")
    folder = STUDY.job(experiment, data.fingerprint).folder
    assert folder.parent == workspace() / "reading"
    assert STUDY.job(experiment, data.fingerprint).folder == folder
    assert STUDY.job(experiment, "0" * 64).folder != folder
    assert STUDY.job(experiment_of(data, "reads", rules="squad"), data.fingerprint).folder != folder
    assert STUDY.job(experiment_of(data, "reads", depths_read=(1, 2)), data.fingerprint).folder != folder
    create_model_folder("reads", '{"another": "one"}')
    assert STUDY.job(experiment, data.fingerprint).folder != folder
    with pytest.raises(ModelError):
        STUDY.job(experiment_of(data, "no such model!"), data.fingerprint)


@pytest.mark.usefixtures("_next_word")
def test_command_runs_stored_request(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of(data, create_model_folder("reads"))
    job = STUDY.job(experiment, data.fingerprint)
    run_job_in_process(monkeypatch, job, experiment)
    assert job.read_spec() == experiment
    assert job.done
    assert job.status().state is State.DONE
    assert study.load(job.folder, SET).scores["questions"] == len(SET.questions)


def test_status_has_failure_message(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of(data, create_model_folder("reads"), data="gone")
    job = STUDY.job(experiment, data.fingerprint)
    run_job_in_process(monkeypatch, job, experiment)
    assert not job.done
    assert job.failed
    assert "gone" in job.status().message
