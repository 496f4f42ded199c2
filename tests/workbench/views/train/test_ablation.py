"""Starting an ablation: around the form, from a file, or from a finished language model."""

import json
import tomllib
from dataclasses import asdict, replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs.store import PAIR_CATALOG, read_pair_entry
from mrc_workbench.data.pairs.store import save_pairs as keep_pairs
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.corpora import PassageCorpus
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.jobs import REFERENCE, UNTRAINED, Ablation, all_jobs
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageObjective, LanguageOptions
from mrc_workbench.workbench.views.names import experiment_of
from mrc_workbench.workbench.views.train.ablation import offered
from tests.doubles import small_set
from tests.workbench.views.driving import run
from tests.workbench.views.train.test_scores import guesses
from tests.workbench.views.train.worlds import EN, click, enter, page, texts, unopened

FILE = """
text = "{key}"
questions = "{key}"
[language_model]
size = "tiny"
[vary]
mask_fraction = [0.3, 0.4]
"""


@pytest.fixture
def app(data: StoredSet, no_worker: None) -> AppTest:
    return unopened(page, train=LANGUAGE_MODEL, base=STARTER, data=data.key)


def the_ablation() -> tuple[Ablation, AblationExperiment]:
    (job,) = (job for job in all_jobs() if isinstance(job, Ablation))
    experiment = experiment_of(job.plan())
    assert experiment is not None
    return job, experiment


def vary(app: AppTest, name: str, *values: Any) -> None:
    app.multiselect(key=f"train_ablation_vary_{name}").set_value(list(values))
    run(app)


def test_varies_options_selected_around_the_form(app: AppTest, data: StoredSet) -> None:
    run(app)
    enter(app, LANGUAGE_MODEL, size="tiny")
    vary(app, "objective", "mlm-nsp")
    vary(app, "mask_fraction", 0.3, 0.4)
    assert EN["ablation.makes"].format(models=4, tuned=5) in texts(app)
    app.number_input(key="train_ablation_epochs").set_value(1.0)
    click(run(app), "train_ablation_start")
    ablation, experiment = the_ablation()
    assert ablation.status().state is State.QUEUED
    assert experiment.changes == {
        UNTRAINED: {}, REFERENCE: {}, 2: {"objective": "mlm-nsp"}, 3: {"mask_fraction": 0.3}, 4: {"mask_fraction": 0.4}
    }  # fmt: skip
    assert (experiment.text, experiment.questions, experiment.sentences) == (data.key, data.key, "")
    assert experiment.fine_tuning_options("any").epochs == 1.0
    assert experiment.language_model_options(REFERENCE) == ablation.plan().options
    assert experiment.language_model_options(REFERENCE).size == "tiny"
    assert "Ablation of Language model 1" in texts(app)
    # its file has the same experiment
    written = tomllib.loads(write_experiment(experiment))
    assert AblationExperiment.model_validate(written) == experiment
    assert written["language_model"] == {**asdict(ablation.plan().options)}


def test_follows_form_and_starts_only_if_something_varies(app: AppTest) -> None:
    vary(run(app), "mask_fraction", 0.3, 0.4)
    enter(app, LANGUAGE_MODEL, mask_fraction=0.3)
    assert app.multiselect(key="train_ablation_vary_mask_fraction").value == [0.4]
    vary(app, "mask_fraction")
    app.checkbox(key="train_ablation_untrained").set_value(False)
    assert EN["ablation.nothing_varied"] in texts(run(app))
    assert next(element for element in app.button if str(element.key).startswith("train_ablation_start")).disabled
    assert EN["ablation.no_plan"] in texts(enter(app, LANGUAGE_MODEL, random_token_fraction=0.9))
    assert not [element for element in app.button if str(element.key).startswith("train_ablation_start")]


def test_offers_only_options_that_can_differ() -> None:
    new = LanguageOptions()
    going_on = LanguageOptions.defaults_for("a/base")
    assert {"size", "vocabulary", "tokenizer_kind"} <= offered(new).keys()
    assert not {"size", "vocabulary", "tokenizer_kind"} & offered(going_on).keys()
    assert "pairs_weight" not in offered(new)
    assert offered(replace(new, objective=LanguageObjective.MLM_NSP))["pairs_weight"] == [0.5, 3.0, 10.0]
    assert {"size"} == {"size", "vocabulary", "tokenizer_kind"} & offered(replace(new, tokenizer="folder")).keys()
    for options in (new, going_on):
        for name, values in offered(options).items():
            for value in values:
                assert getattr(replace(options, **{name: value}), name) != getattr(options, name)


def test_reads_describes_and_starts_experiment_file(app: AppTest, data: StoredSet) -> None:
    upload(run(app), FILE.format(key=data.key))
    assert "1. Masking ratio \\(0–1\\)\\: 0\\.3\n1. Masking ratio" in texts(app)
    assert EN["ablation.makes"].format(models=3, tuned=3) in texts(app)
    click(app, "train_ablation_of_file_start")
    ablation, experiment = the_ablation()
    assert ablation.plan().name == "masks"
    assert experiment.vary == {"mask_fraction": (0.3, 0.4)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("text = 1", "text: Input should be a valid string"),
        ("text = ", "cannot be read as an experiment file"),
        ('text = "a"', "give 2 to 40 variants"),
        ('text = "a"\n[vary]\nmask_share = [2.0]', "mask_fraction must be between 0.01 and 0.9"),
    ],
)
def test_reports_location_of_invalid_experiment(app: AppTest, written: str, expected: str) -> None:
    upload(run(app), written)
    (error,) = (str(element.value) for element in app.error)
    assert error.startswith(EN["ablation.wrong"].split("{")[0])
    assert expected in error.replace("\\", "")
    assert all_jobs() == []


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("nowhere", "", "nowhere"),
        (None, 'base = "no folder"', EN["model.model_not_found"].split("{")[0]),
        (None, 'tokenizer = "no folder"', EN["option_problem.no_tokenizer"]),
    ],
)
def test_reports_missing_data(app: AppTest, data: StoredSet, text: str | None, more: str, expected: str) -> None:
    upload(run(app), FILE.format(key=text or data.key).replace('size = "tiny"', more))
    click(app, "train_ablation_of_file_start")
    assert expected in "".join(str(element.value) for element in app.error).replace("\\", "")
    assert all_jobs() == []


def test_rejects_server_paths(app: AppTest, data: StoredSet, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    there = tmp_path / "secret.json"
    there.write_text("{}", encoding="utf-8")
    monkeypatch.setattr("mrc_workbench.training.cli.user", lambda: "alice")
    upload(run(app), FILE.format(key=data.key).replace(f'questions = "{data.key}"', f'questions = "{there}"'))
    click(app, "train_ablation_of_file_start")
    assert "files of the server are not open to users" in "".join(str(element.value) for element in app.error)
    assert all_jobs() == []


def upload(app: AppTest, written: str) -> None:
    app.file_uploader(key="upload_ablation").set_value(("masks.toml", written.encode(), "application/toml"))
    run(app)


def learned_from(fingerprint: str) -> Run:
    learned = guesses()
    plan = json.loads((learned.folder / "run.json").read_text(encoding="utf-8"))
    (learned.folder / "run.json").write_text(json.dumps(plan | {"fingerprint": fingerprint}), encoding="utf-8")
    return learned


def test_evaluates_exactly_this_training(app: AppTest, data: StoredSet) -> None:
    learned = learned_from(PassageCorpus(small_set()).fingerprint)
    scored = keep_pairs(read_pair_entry(PAIR_CATALOG["sample-sts"]).pairs)
    click(run(app), f"helps_{learned.id}")
    assert "**guesses**" in texts(app)
    app.selectbox(key=f"helps_{learned.id}_pairs").set_value(scored.key)
    app.number_input(key=f"helps_{learned.id}_epochs").set_value(2.0)
    click(run(app), "helps_start_")
    ablation, experiment = the_ablation()
    assert experiment.changes == {UNTRAINED: {}, REFERENCE: {}}
    assert experiment.language_model_options(REFERENCE) == learned.plan().options
    assert ablation.plan().fingerprint == learned.plan().fingerprint
    assert (experiment.questions, experiment.sentences) == (data.key, scored.key)
    assert experiment.split_options == learned.plan().split
    assert experiment.fine_tuning_options("any").epochs == 2.0
    assert "run_dialog" not in app.session_state
    assert "Does it help? guesses" in texts(app)


def test_reports_changed_text(app: AppTest) -> None:
    learned = learned_from("another")
    click(run(app), f"helps_{learned.id}")
    click(app, "helps_start_")
    assert EN["ablation.text_changed"] in texts(app)
    assert all_jobs() == [learned]
