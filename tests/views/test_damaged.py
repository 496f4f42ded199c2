"""A damaged file shows as such where its thing stood, on pages that go on; and is removed there."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from data.split import SplitOptions
from data.store import keep, stored
from data.workspace import workspace
from jobs.status import State, Status
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.job import ComparisonJob
from retrieval.comparison.store import damaged_comparisons
from retrieval.comparison.store import keep as keep_comparison
from tests.doubles import small_set
from tests.hostile.damages import DEEP
from tests.views.driving import opened, run
from training.options.bi_encoder import BI_ENCODER, BiEncoderOptions
from training.runs.runs import Run, create_run, damaged_runs, new_plan
from views.ui.words import catalog, plain

EN = catalog("en")
WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}


def train_page() -> None:
    from views import sidebar
    from views.train import page

    sidebar.draw()
    page.draw()


def data_page() -> None:
    from views import sidebar
    from views.data import page

    sidebar.draw()
    page.draw()


def ended_run(name: str) -> Run:
    data = keep(small_set())
    told = (data.key, data.name, data.fingerprint)
    made = create_run(new_plan(BI_ENCODER, name, told, SplitOptions(), BiEncoderOptions()))
    made.write_status(Status(State.STOPPED, step=3, total_steps=9))
    return made


def told_as_damaged(app: AppTest, name: str) -> bool:
    about = EN["damaged.about"].split("{name}")[1]
    return any(plain(name) in one.value and about in one.value for one in app.markdown)


def remove(app: AppTest, name: str) -> None:
    app.button(f"damaged_yes_{name}").click()
    run(app)


def test_a_run_whose_plan_cannot_be_read_is_shown_and_removed() -> None:
    ended_run("whole")
    lost = ended_run("lost")
    (lost.folder / "run.json").write_bytes(DEEP)
    app = opened(train_page)
    assert any("whole" in one.value for one in app.markdown)
    assert told_as_damaged(app, lost.id)
    remove(app, lost.id)
    assert (lost.folder.exists(), damaged_runs()) == (False, [])
    assert not told_as_damaged(app, lost.id)


@pytest.mark.parametrize("name", ["status.json", "scores.json", "provenance.json", "progress.jsonl"])
def test_other_files_of_a_run_leave_it_in_the_list(name: str) -> None:
    made = ended_run("mine")
    (made.folder / name).write_bytes(DEEP)
    app = opened(train_page)
    assert any("mine" in one.value for one in app.markdown)
    assert (EN["failure.damaged"] in [one.value for one in app.error]) is (name == "status.json")


def test_a_set_that_cannot_be_read_is_shown_and_removed() -> None:
    kept, lost = keep(small_set()), keep(small_set("other").with_questions([0, 1]))
    (workspace() / "datasets" / lost.key / "set.json").write_bytes(DEEP)
    app = opened(data_page, data=kept.key)
    assert told_as_damaged(app, lost.key)
    remove(app, lost.key)
    assert [one.key for one in stored()] == [kept.key]
    assert not (workspace() / "datasets" / lost.key).exists()


@pytest.mark.parametrize("name", ["scores.json", "provenance.json"])
def test_a_comparison_that_cannot_be_read_is_shown_and_removed(name: str) -> None:
    data = keep(small_set())
    folders = [kept_comparison(data.key, data.fingerprint, ks) for ks in ((1, 3), (1, 2))]
    (folders[1] / name).write_bytes(DEEP)
    app = opened(compare_page, data=data.key, comparison=folders[0].name, view="kept")
    assert told_as_damaged(app, folders[1].name)
    remove(app, folders[1].name)
    assert damaged_comparisons() == []
    assert folders[0].is_dir()
    assert not folders[1].exists()


def compare_page() -> None:
    from views.compare import page

    page.draw()


def kept_comparison(data: str, fingerprint: str, ks: tuple[int, ...]) -> Path:
    experiment = Experiment.model_validate({"data": data, "ks": ks, "retriever": [WORDS]})
    folder = ComparisonJob.of(experiment, fingerprint).folder
    keep_comparison(compare(experiment, small_set()), folder)
    return folder
