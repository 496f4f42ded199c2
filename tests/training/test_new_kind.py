"""A kind of training that the program does not come with: one class and one entry, and it is trained everywhere."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from data.store import StoredSet, keep
from jobs.folder import State
from tests.training.toy import ToyOptions, ToyRecipe
from tests.training.worlds import misleading_set
from tests.views.driving import run as drawn
from tests.views.driving import unfolded
from training.__main__ import main
from training.recipe import RECIPES, recipe_of
from training.runs.runs import Run, all_runs
from views.choices import choices_for
from views.ui.words import catalog

EN = catalog("en")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, ToyRecipe.kind, ToyRecipe)


@pytest.fixture
def data() -> StoredSet:
    return keep(misleading_set())


def assert_trained(run: Run, scale: float) -> None:
    assert run.status().state is State.DONE, run.status().message
    assert run.plan().options == ToyOptions(batch_size=8, epochs=2.0, sharpness=scale)
    assert run.scores()["sharpness"] == scale
    assert {"before", "after", "bm25", "gain"} <= run.scores().keys()
    assert ToyRecipe.does in (run.model_folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_added_kind_is_trained_by_the_command(data: StoredSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toy", "--data", data.key, "--epochs", "2", "--batch-size", "8", "--sharpness", "10"]) == 0
    (run,) = all_runs()
    assert_trained(run, 10.0)
    capsys.readouterr()
    assert main(["list", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["state"]) == ("toy", "done")
    assert main(["toy", "--help"]) == 0
    assert "--sharpness" in (text := capsys.readouterr().out)
    assert "--negatives-first" not in text  # what only those take that rank passages
    assert main(["toy", "--data", data.key, "--negatives-file", "nowhere.csv"]) == 2


def test_its_options_are_checked_like_all(data: StoredSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toy", "--data", data.key, "--sharpness", "1000"]) == 2
    assert "sharpness must be between 1 and 100, not 1000" in capsys.readouterr().err


def page() -> None:
    from views.train import page as train_page

    train_page.draw()


@pytest.fixture
def app(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    # a worker is another process, which knows the program's own kinds only: the test carries the run out itself
    monkeypatch.setattr("jobs.queue.Queue.start_worker", lambda _: None)
    test = AppTest.from_function(page, default_timeout=60)
    test.query_params.update({"lang": "en", "data": data.key})
    return test


@pytest.mark.slow
def test_an_added_kind_is_trained_from_the_page(app: AppTest, data: StoredSet) -> None:
    app.session_state["train_more_kinds_open"] = True
    drawn(unfolded(app, "toy")).button(key="train_kind_toy").click()
    assert ToyRecipe.does in [text.value for text in drawn(app).markdown]
    (scale,) = (field for field in app.number_input if field.key == "train_toy_sharpness")
    assert (scale.label, scale.value) == ("sharpness", 20.0)
    assert scale.help.startswith("what cosines are multiplied by")
    assert not [field for field in app.number_input if "negatives" in field.key]
    for name, value in {"sharpness": 5.0, "epochs": 2.0, "batch_size": 8}.items():
        app.number_input(key=f"train_toy_{name}").set_value(value)
    next(button for button in drawn(app).button if str(button.key).startswith("train_start_")).click()
    drawn(app)
    (run,) = all_runs()
    assert (run.status().state, run.plan().kind) == (State.QUEUED, "toy")
    assert main(["run", str(run.folder)]) == 0
    assert_trained(run, 5.0)
    drawn(app)
    assert EN["state.done"] in "".join(str(text.value) for text in app.markdown)
    assert any(text.value.startswith("toy · ") for text in app.caption)
    assert choices_for(data).specs[f"Toy · {run.plan().name}"].model == run.id


def test_a_kind_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no kind of training 'other'; there are bi-encoder, cross-encoder"):
        recipe_of("other")
