"""The contract of all kinds of training, with a toy kind that a class and an entry in `RECIPES` add."""

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import StoredSet, find, save_question_set
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, ModelError, ModelSource, find_model
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.rankings import rank_candidates
from mrc_workbench.training.base import Examples, Family, Recipe, Task
from mrc_workbench.training.options import QuestionOptions, option
from mrc_workbench.training.recipes import RECIPES, compatible_base_kinds, default_base, equivalent_kinds, get_recipe
from mrc_workbench.training.recipes.training_data import RANKER_FAMILY, QuestionMeasurement, TrainingData
from mrc_workbench.training.runs import Run, all_runs, create_run, new_plan
from mrc_workbench.workbench.cli import main
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.training.worlds import misleading_set
from tests.workbench.views.driving import run as run_app
from tests.workbench.views.driving import unfolded

EN = catalog("en")


class ToyObjective(StrEnum):
    SOFTMAX = "softmax"


@dataclass(frozen=True, kw_only=True)
class ToyOptions(QuestionOptions):
    objective: ToyObjective = option(ToyObjective.SOFTMAX, "loss function")
    sharpness: float = option(20.0, "factor of cosines", 1, 100)


class ToyRecipe(Recipe[ToyOptions, TrainingData]):
    """A starter's vectors, trained with a simple loss."""

    kind = "toy"
    family = RANKER_FAMILY
    options = ToyOptions
    base = DEFAULT_BI_ENCODER
    measure = "recall@10"
    colour = "#666666"
    summary = "A toy for tests."
    hub_task = "sentence-similarity"
    usage = "print(model)"
    loading = ("from sentence_transformers import SentenceTransformer", 'SentenceTransformer("{folder}")')

    def evaluate(self, source: ModelSource) -> QuestionMeasurement:
        return self._evaluate_model(load_bi_encoder(source, self._data.texts))

    def build_task(self, source: ModelSource) -> Task:
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        data = self._data
        model = load_bi_encoder(source, self._data.texts)
        rows, positives = data.positive_pairs()
        texts = [data.train.questions[row].text for row in rows]
        columns = {"question": texts, "passage": [data.texts[row] for row in positives]}
        examples = Examples(rows, positives[:, None], data.relevance, np.ones(len(rows)), in_batch_negatives=True)
        loss = MultipleNegativesRankingLoss(model, scale=self._options.sharpness)
        return Task(model, loss, columns, examples, self._evaluate_model)

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, QuestionMeasurement], dict[str, Any]]:
        return {"after": self.evaluate(ModelSource("toy", folder=model_folder))}, {"sharpness": self._options.sharpness}

    def estimate_evaluation_seconds(self, model: Any) -> float:
        del model
        return 1.0

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, name_for: Callable[[str], str]) -> list[Spec]:
        del first
        return [DenseSpec(name=name_for("Toy"), model=model, title=title)]

    def _evaluate_model(self, model: Any) -> QuestionMeasurement:
        questions = model.encode([question.text for question in self._data.evaluation_questions.questions])
        cosines = model.similarity(questions, model.encode(self._data.texts)).numpy()
        rows = np.broadcast_to(np.arange(cosines.shape[1], dtype=np.int32), cosines.shape)
        return self._data.evaluate_rankings(rank_candidates(rows, cosines, 10))


Kind = type[Recipe[Any, Any]]
KINDS = pytest.mark.parametrize("recipe", [*RECIPES.values(), ToyRecipe], ids=lambda recipe: str(recipe.kind))


@pytest.fixture(autouse=True)
def _with_the_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, ToyRecipe.kind, ToyRecipe)


@KINDS
def test_recipe_describes_its_kind(recipe: Kind) -> None:
    assert get_recipe(recipe.kind) is recipe
    assert isinstance(recipe.family, Family)
    assert recipe.measure in recipe.family.measures
    assert set(recipe.family.curves) & set(recipe.family.measures)
    assert recipe.summary.endswith(".")
    assert recipe.hub_task
    assert recipe.colour.startswith("#")
    assert default_base(recipe.kind)
    assert recipe.kind in equivalent_kinds(recipe.kind)
    assert set(compatible_base_kinds(recipe.kind)) <= set(RECIPES)


@KINDS
def test_plan_round_trips(recipe: Kind) -> None:
    options = replace(recipe.options.defaults_for(default_base(recipe.kind)), seed=7)
    plan = new_plan(recipe.kind, "test", ("sample", "sample", "0"), SplitOptions(0.25, 0.5, 3), options)
    assert create_run(plan).plan() == plan


@pytest.mark.slow
@KINDS
def test_loading_code_is_valid(recipe: Kind) -> None:
    for imports, model in filter(None, (recipe.loading, recipe.loading_starter)):
        known = set()
        for line in ast.parse(imports).body:
            assert isinstance(line, ast.ImportFrom)
            module = import_module(str(line.module))
            names = {name.name for name in line.names}
            assert all(hasattr(module, name) for name in names), imports
            known |= names
        called = ast.parse(model.format(folder="here"), mode="eval")
        assert {name.id for name in ast.walk(called) if isinstance(name, ast.Name)} <= known
        compile(recipe.usage, "usage", "exec")


@KINDS
@pytest.mark.parametrize("title", [True, False])
def test_retrievers_name_the_model(recipe: Kind, title: bool) -> None:
    specs = recipe.retrievers("a-run", "BM25", title=title, name_for=lambda name: f"{name} of it")
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(spec.name.endswith(" of it") for spec in specs)
    assert not specs or any(getattr(spec, "model", "") == "a-run" for spec in specs)


@KINDS
def test_offered_bases_are_valid(recipe: Kind) -> None:
    for base in recipe.options.available_bases():
        assert recipe.options.defaults_for(base).base == base
        try:
            source = find_model(base)
        except ModelError:  # not on this machine
            continue
        recipe.options.check_base(source)


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(misleading_set())


def assert_trained(run: Run, scale: float) -> None:
    assert run.status().state is State.DONE, run.status().message
    assert run.plan().options == ToyOptions(batch_size=8, epochs=2.0, sharpness=scale)
    assert run.scores()["sharpness"] == scale
    assert {"before", "after", "bm25", "gain"} <= run.scores().keys()
    assert ToyRecipe.summary in (run.model_folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_command_trains_registered_kind(
    data: StoredSet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    references: list[str] = []

    def counted(reference: str) -> QuestionSet:
        references.append(reference)
        return find(reference)

    monkeypatch.setattr("mrc_workbench.training.recipes.training_data.find", counted)
    assert main(["train", "toy", "--data", data.key, "--epochs", "2", "--batch-size", "8", "--sharpness", "10"]) == 0
    (run,) = all_runs()
    assert_trained(run, 10.0)
    assert references == [data.key] * 2  # by the command that plans it, and by the training
    capsys.readouterr()
    assert main(["runs", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["kind"], row["state"]) == ("toy", "done")
    assert main(["train", "toy", "--help"]) == 0
    assert "--sharpness" in (text := capsys.readouterr().out)
    assert "--negatives-first" not in text  # options of rankers only
    assert main(["train", "toy", "--data", data.key, "--negatives-file", "nowhere.csv"]) == 2


def test_validates_options_of_registered_kind(data: StoredSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "toy", "--data", data.key, "--sharpness", "1000"]) == 2
    assert "sharpness must be between 1 and 100, not 1000" in capsys.readouterr().err


def page() -> None:
    from mrc_workbench.workbench.views.train import page as train_page

    train_page.draw()


@pytest.fixture
def app(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    # a worker process does not know this kind: the test executes the run
    monkeypatch.setattr("mrc_workbench.data.jobs.queue.Queue.start_worker", lambda _: None)
    test = AppTest.from_function(page, default_timeout=60)
    test.query_params.update({"lang": "en", "data": data.key})
    return test


@pytest.mark.slow
def test_page_trains_registered_kind(app: AppTest, data: StoredSet) -> None:
    app.session_state["train_more_kinds_open"] = True
    run_app(unfolded(app, "toy")).button(key="train_kind_toy").click()
    assert ToyRecipe.summary in [text.value for text in run_app(app).markdown]
    (scale,) = (field for field in app.number_input if field.key == "train_toy_sharpness")
    assert (scale.label, scale.value) == ("sharpness", 20.0)
    assert scale.help.startswith("factor of cosines")
    assert not [field for field in app.number_input if "negatives" in field.key]
    for name, value in {"sharpness": 5.0, "epochs": 2.0, "batch_size": 8}.items():
        app.number_input(key=f"train_toy_{name}").set_value(value)
    next(button for button in run_app(app).button if str(button.key).startswith("train_start_")).click()
    run_app(app)
    (run,) = all_runs()
    assert (run.status().state, run.plan().kind) == (State.QUEUED, "toy")
    assert main(["internal", "runs", str(run.folder)]) == 0
    assert_trained(run, 5.0)
    run_app(app)
    assert EN["state.done"] in "".join(str(text.value) for text in app.markdown)
    assert any(text.value.startswith("toy · ") for text in app.caption)
    assert choices_for(data).specs[f"Toy · {run.plan().name}"].model == run.id


def test_rejects_unknown_kind() -> None:
    with pytest.raises(ValueError, match="there is no kind of training 'other'; there are bi-encoder, cross-encoder"):
        get_recipe("other")
