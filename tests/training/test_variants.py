"""The experiment file of an ablation: its content, its variants, and its errors."""

from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_experiment_as
from mrc_workbench.training.ablation import MAX_VARIANTS, AblationExperiment
from mrc_workbench.training.ranker_options import BiEncoderObjective
from mrc_workbench.training.text_options import LanguageObjective, LanguageOptions

FILE = """
text = "mine.txt"
questions = "mine.json"
untrained = true
seed = 3

[language_model]
size = "tiny"
epochs = 4

[fine_tuning]
epochs = 2.0

[vary]
objective = ["mlm-nsp"]
mask_fraction = [0.3, 0.5]
"""


def experiment(**settings: Any) -> AblationExperiment:
    return AblationExperiment.model_validate({"text": "mine.txt", "vary": {"mask_fraction": [0.3]}, **settings})


def test_file_lists_variants(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE, encoding="utf-8")
    read = read_experiment_as(AblationExperiment, path)
    read.check()
    varied = [{"objective": "mlm-nsp"}, {"mask_fraction": 0.3}, {"mask_fraction": 0.5}]
    assert read.changes == dict(enumerate([{}, {}, *varied]))
    reference = LanguageOptions(size="tiny", epochs=4.0, max_snapshots=0)  # type: ignore[arg-type]  # read as a word
    assert read.language_model_options(1) == reference
    assert read.language_model_options(2).objective is LanguageObjective.MLM_NSP
    assert (read.language_model_options(4).mask_fraction, read.language_model_options(4).epochs) == (0.5, 4.0)
    assert (read.split_options.validation, read.split_options.test, read.split_options.seed) == (0.1, 0.2, 3)


def test_fine_tunes_all_variants_alike() -> None:
    new = experiment(fine_tuning={"epochs": 2})
    assert {new.fine_tuning_options(base).epochs for base in ("one", "other")} == {2.0}
    assert new.fine_tuning_options("one").learning_rate == 2e-5, "a table of words moves by larger steps"
    packaged = experiment(language_model={"base": "packaged:multilingual-e5-small"})
    assert packaged.fine_tuning_options("a-run").objective is BiEncoderObjective.MULTIPLE_NEGATIVES
    assert packaged.fine_tuning_options("a-run").base == "a-run"
    assert packaged.language_model_options(1).learning_rate == LanguageOptions.defaults_for("packaged:x").learning_rate


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"vary": {}}, "2 to"),
        ({"vary": {"epochs": [float(n) for n in range(1, MAX_VARIANTS + 1)]}}, "2 to"),
        ({"vary": {"mask": [0.3]}}, "there is no option 'mask'"),
        ({"vary": {"mask_fraction": [2.0]}}, "vary: mask_fraction must be between"),
        ({"vary": {"mask_fraction": ["much"]}}, "'much' is no float"),
        ({"vary": {"mask_fraction": [True]}}, "True is no float"),
        ({"vary": {"mask_fraction": [0.15]}}, "two variants are the same"),
        ({"vary": {"size": ["huge"]}}, "size must be one of"),
        ({"language_model": {"frozen_layers": 2}}, "language_model: frozen_layers must be 0"),
        ({"fine_tuning": {"epoch": 1}}, "fine_tuning: there is no option 'epoch'"),
        ({"validation_fraction": 0.9, "test_fraction": 0.2}, "fraction of 0 or more"),
    ],
)
def test_reports_invalid_experiment_with_section(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        experiment(**settings).check()


def test_compares_finished_training_with_base() -> None:
    helps = experiment(vary={}, untrained=True)
    helps.check()
    assert helps.changes == {0: {}, 1: {}}
