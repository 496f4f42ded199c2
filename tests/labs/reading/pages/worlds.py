"""A finished training of a reader, and evaluations kept of one that reads without a network."""

import json
from dataclasses import replace

import pytest

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.labs.reading import study
from mrc_workbench.labs.reading.evaluate import ReadingExperiment, evaluate
from mrc_workbench.labs.reading.study import STUDY
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.training.text_options import READER, ReaderOptions
from tests.labs.reading.doubles import SET, NextWord

# of the third question another passage is found first, and as surely read
QUESTIONS = (*SET.questions[:2], replace(SET.questions[2], answers=("한라산",), relevant=("p3",)), SET.questions[3])
DISPUTED = replace(SET, name="다툼", questions=QUESTIONS)


def page() -> None:
    from mrc_workbench.labs.reading.pages import page as reading_page

    reading_page.draw()


def create_finished_run(data: StoredSet, name: str = "Mine") -> Run:
    """A run as a training leaves it; its model is nothing that could be loaded."""
    named = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(READER, name, named, SplitOptions(), ReaderOptions(base="some/base")))
    run.model_folder.mkdir()
    (run.model_folder / "config.json").write_text("{}", encoding="utf-8")
    (run.folder / "status.json").write_text(json.dumps({"state": "done"}), encoding="utf-8")
    return run


def replace_readers(monkeypatch: pytest.MonkeyPatch) -> list[NextWord]:
    """Have every reader be one that needs no network; returns those that were made."""
    readers: list[NextWord] = []

    def reader(_: object) -> NextWord:
        readers.append(NextWord())
        return readers[-1]

    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", reader)
    monkeypatch.setattr("mrc_workbench.labs.reading.pages.passages.SpanReader", reader)
    return readers


def store_evaluation(experiment: ReadingExperiment, data: StoredSet) -> None:
    """Leave what the job's process leaves."""
    folder = STUDY.job(experiment, data.fingerprint).folder
    study.save_result(evaluate(experiment, DISPUTED), folder)
