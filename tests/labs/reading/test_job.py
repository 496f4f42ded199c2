"""An evaluation asked by a page: its folder by content, kept so that it opens as it was, and carried out by itself."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.reading import study
from mrc_workbench.labs.reading.evaluate import ReaderResult, ReadingExperiment, ReadingResult, evaluate
from mrc_workbench.labs.reading.study import STUDY, StoredReading
from mrc_workbench.models.files import ModelError
from mrc_workbench.workbench.cli import main
from tests.labs.reading.doubles import SET, NextWord

BM25 = {"name": "BM25", "kind": "bm25", "analyzer": "word"}
BIGRAMS = {"name": "error", "kind": "bm25", "analyzer": "bigram"}  # a person may call a retriever so


def experiment_of(stored: StoredSet, *models: str, **more: object) -> ReadingExperiment:
    readers = [{"name": model, "model": model} for model in models]
    content = {"data": stored.key, "retriever": [BM25, BIGRAMS], "reader": readers, "depths_read": (1, 3), "ks": (1, 3)}
    return ReadingExperiment.model_validate(content | more)


@pytest.fixture
def data() -> StoredSet:
    return keep_set(SET)


@pytest.fixture
def _next_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads instead of a network, in this process."""
    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", lambda _: NextWord())


def folder_of_a_model(name: str, content: str = "{}") -> str:
    folder = workspace() / "runs" / name / "model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(content, encoding="utf-8")
    return name


def carried_out(data: StoredSet, *models: str, **more: object) -> tuple[ReadingResult, Path]:
    experiment = experiment_of(data, *models, **more)
    result = evaluate(experiment, SET)
    folder = STUDY.job(experiment, data.fingerprint).folder
    study.keep(result, folder)
    return result, folder


def start_here(monkeypatch: pytest.MonkeyPatch, job: StudyJob[Any, Any], experiment: ReadingExperiment) -> None:
    """Carry a job out in this process."""
    monkeypatch.setattr(StudyJob, "launch", lambda _, *words: main([*map(str, words)]))
    job.start(experiment)


def assert_same(found: ReaderResult, expected: ReaderResult) -> None:
    assert found.name == expected.name
    np.testing.assert_array_equal(found.oracle, expected.oracle)
    assert [*found.by_retriever] == [*expected.by_retriever] == ["BM25", "error"]
    for name, ours in found.by_retriever.items():
        theirs = expected.by_retriever[name]
        for value in ("weight", "weight_by_validation", "unit"):
            assert getattr(ours, value) == getattr(theirs, value)
        assert ours.read.answers == theirs.read.answers
        for of in ("read", "depth"):
            for part, values in vars(getattr(theirs, of)).items():
                np.testing.assert_array_equal(getattr(getattr(ours, of), part), values)


@pytest.mark.usefixtures("_next_word")
def test_it_opens_as_it_was_when_all_else_is_gone(data: StoredSet) -> None:
    folder_of_a_model("reads")
    result, folder = carried_out(data, "reads")
    shutil.rmtree(workspace() / "cache")
    kept: StoredReading = study.load(folder, SET)
    assert kept.result.experiment == result.experiment
    assert kept.result.question_set == result.question_set
    (ours,), (theirs,) = kept.result.readers, result.readers
    assert_same(ours, theirs)
    assert ours.by_retriever["BM25"].answers(1) == theirs.by_retriever["BM25"].answers(1)
    assert kept.told["readers"]["reads"]["BM25"]["3"]["em"] == theirs.by_retriever["BM25"].depth.exact[:, 1].mean()


def test_a_reader_that_failed_is_kept_with_its_reason(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> NextWord:
        raise ModelError("not_finite", "no numbers", model="bad")

    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", refuse)
    _, folder = carried_out(data, folder_of_a_model("bad"))
    (reader,) = study.load(folder, SET).result.readers
    assert reader.by_retriever == {}
    assert (str(reader.error), getattr(reader.error, "code", "")) == ("no numbers", "not_finite")


@pytest.mark.usefixtures("_next_word")
def test_a_damaged_or_half_written_folder_and_other_questions_are_refused(data: StoredSet) -> None:
    _, folder = carried_out(data, folder_of_a_model("reads"))
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


def test_the_folder_is_of_the_content_of_question_set_and_reader(data: StoredSet) -> None:
    folder_of_a_model("reads")
    experiment = experiment_of(data, "reads")
    folder = STUDY.job(experiment, data.fingerprint).folder
    assert folder.parent == workspace() / "reading"
    assert STUDY.job(experiment, data.fingerprint).folder == folder
    assert STUDY.job(experiment, "0" * 64).folder != folder
    assert STUDY.job(experiment_of(data, "reads", rules="squad"), data.fingerprint).folder != folder
    assert STUDY.job(experiment_of(data, "reads", depths_read=(1, 2)), data.fingerprint).folder != folder
    folder_of_a_model("reads", '{"another": "one"}')
    assert STUDY.job(experiment, data.fingerprint).folder != folder
    with pytest.raises(ModelError):
        STUDY.job(experiment_of(data, "no such model!"), data.fingerprint)


@pytest.mark.usefixtures("_next_word")
def test_the_command_carries_out_what_the_folder_asks_for(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of(data, folder_of_a_model("reads"))
    job = STUDY.job(experiment, data.fingerprint)
    start_here(monkeypatch, job, experiment)
    assert job.read_spec() == experiment
    assert job.done
    assert job.status().state is State.DONE
    assert study.load(job.folder, SET).told["questions"] == len(SET.questions)


def test_what_keeps_it_from_its_end_stands_in_its_status(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of(data, folder_of_a_model("reads"), data="gone")
    job = STUDY.job(experiment, data.fingerprint)
    start_here(monkeypatch, job, experiment)
    assert not job.done
    assert job.failed
    assert "gone" in job.status().message


@pytest.mark.usefixtures("_next_word")
def test_scores_are_json_that_anybody_can_read(data: StoredSet) -> None:
    _, folder = carried_out(data, folder_of_a_model("reads"))
    told = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert told["experiment"]["depths_read"] == [1, 3]
    assert set(told["units"]["reads"]) == {"BM25", "error"}
