"""Finished trainings of readers, and stored evaluations of a reader without a network."""

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
from tests.models.worlds import write_config

# for the third question, another passage is ranked first with the same reading score
QUESTIONS = (*SET.questions[:2], replace(SET.questions[2], answers=("한라산",), relevant=("p3",)), SET.questions[3])
DISPUTED = replace(SET, name="다툼", questions=QUESTIONS)


def page() -> None:
    from mrc_workbench.labs.reading.pages import page as reading_page

    reading_page.draw()


def create_finished_run(data: StoredSet, name: str = "Mine") -> Run:
    """Create a finished run without a loadable model."""
    named = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(READER, name, named, SplitOptions(), ReaderOptions(base="some/base")))
    write_config(run.model_folder)
    (run.folder / "status.json").write_text(json.dumps({"state": "done"}), encoding="utf-8")
    return run


def replace_readers(monkeypatch: pytest.MonkeyPatch) -> list[NextWord]:
    """Replace every reader by one without a network; returns the created readers."""
    readers: list[NextWord] = []

    def reader(_: object) -> NextWord:
        readers.append(NextWord())
        return readers[-1]

    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", reader)
    monkeypatch.setattr("mrc_workbench.labs.reading.pages.passages.SpanReader", reader)
    return readers


def store_evaluation(experiment: ReadingExperiment, data: StoredSet) -> None:
    folder = STUDY.job(experiment, data.fingerprint).folder
    study.save_result(evaluate(experiment, DISPUTED), folder)
