"""Options and stored files of the version before open under their earlier names, with a deprecation line."""

import json
import logging
from dataclasses import asdict, replace
from typing import Any

import pytest

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.workspace import write_json
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.engine.checkpoints import model_snapshots
from mrc_workbench.training.jobs import Ablation, SettingsSearch
from mrc_workbench.training.options import EARLIER_NAMES, current_options
from mrc_workbench.training.ranker_options import BI_ENCODER, SPARSE_ENCODER
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.recipes.sentence_data import PairPredictions
from mrc_workbench.training.runs import Run, Trial, create_run, new_plan
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER, SENTENCES
from mrc_workbench.workbench.cli import main

OTHER_MASKS = {"mask_token_fraction": 0.7, "random_token_fraction": 0.2}
CHANGED = {
    BI_ENCODER: {"group_batches_by": "articles", "gradient_checkpointing": True, "mix_loss_weight": 0.5},
    SPARSE_ENCODER: {"group_batches_by": "articles", "lora_rank": 4, "lora_full_weights": "norms"},
    SENTENCES: {"evaluation_set": "a set"},
    READER: {"negative_question_fraction": 0.5, "normalization": "squad"},
    LANGUAGE_MODEL: {"mask_fraction": 0.3, **OTHER_MASKS, "max_snapshots": 3},
}
NEEDED = {BI_ENCODER: {"objective": "multiple-negatives", "shared_passages": True}}
EARLIER = {name: earlier for earlier, name in EARLIER_NAMES.items()}


def renamed(options: dict[str, Any]) -> dict[str, Any]:
    return {EARLIER.get(name, name): value for name, value in options.items()}


def stored_run(kind: str = BI_ENCODER, **files: Any) -> Run:
    options = RECIPES[kind].options(base="org/base", **NEEDED.get(kind, {}), **CHANGED[kind])
    run = create_run(new_plan(kind, "before", ("sample", "sample", "0" * 64), SplitOptions(), options))
    content = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    content["options"] = renamed(content["options"])
    content["trial"] = {"search": "a", "number": 1, "count": 2, "whole": True}
    write_json(run.folder / "run.json", content)
    for name, stored in files.items():
        write_json(run.folder / f"{name}.json", stored)
    return run


def test_every_renamed_option_is_tried() -> None:
    assert {name for changed in CHANGED.values() for name in changed} >= set(EARLIER)


@pytest.mark.parametrize("kind", CHANGED)
def test_opens_plans_with_earlier_option_names(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    plan = stored_run(kind).plan()
    options = asdict(plan.options)
    assert {name: options[name] for name in CHANGED[kind]} == CHANGED[kind]
    assert plan.trial == Trial("a", 1, 2, is_complete=True)
    for name in EARLIER.keys() & CHANGED[kind].keys():
        assert f"{EARLIER[name]!r} is now {name!r}" in caplog.text


def test_opens_results_with_earlier_keys() -> None:
    scores = {"kept_step": 3, "judged_by": "loss", "judged_on": "a set", "made_questions": {"model": 1}}
    scores["rules"] = "squad"
    provenance = {"made": "2026", "settled": {"best_by": "f1"}, "answers": {"mended": 1, "lost": 2}}
    provenance |= {"data": {"made_questions": {"model": 1}, "rules": "squad"}, "options": {"recompute": True}}
    run = stored_run(scores=scores, provenance=provenance, before={"judge": "key", "validation": {}})
    rules = {"normalization": "squad"}
    synthetic = {"synthetic_questions": {"model": 1}}
    assert run.scores() == {"best_step": 3, "best_by": "loss", "evaluation_set": "a set", **synthetic, **rules}
    expected = {"created": "2026", "resolved_options": {"best_by": "f1"}, "answers": {"corrected": 1, "missing": 2}}
    expected |= {"data": synthetic | rules, "options": {"gradient_checkpointing": True}}
    assert run.provenance() == expected
    assert run.base_measurement()["evaluation_key"] == "key"
    predictions = {"measure": "spearman", "said": [0.5], "right": [1.0], "geometry": {}}
    current = {"measure": "spearman", "predicted": [0.5], "gold": [1.0], "geometry": {}}
    assert PairPredictions.from_dict(predictions).to_dict() == current
    (run.folder / "on_the_way" / "step-2").mkdir(parents=True)
    assert model_snapshots(run.folder) == {2: run.folder / "on_the_way" / "step-2"}


def test_opens_searches_and_ablations_with_earlier_keys() -> None:
    trial = dict.fromkeys(("value", "low", "high", "difference", "difference_low", "difference_high", "p_family"), 0.0)
    trial |= {"number": 1, "changed": {"batches_of": "articles"}, "share": 1.0, "epochs": 1.0, "steps": 4, "loss": None}
    settings = {"measure": "ndcg@10", "questions": 3, "untrained": 0.0, "best": 1, "chosen": 1, "tried": [trial]}
    outcome = SettingsSearch(stored_run(so_far=settings | {"untried": [2]}).folder).outcome
    assert outcome
    assert (outcome.selected, outcome.skipped, outcome.trials[0].fraction) == (1, (2,), 1.0)
    assert outcome.changes == {"group_batches_by": "articles"}
    variant = {"number": 2, "changed": {"mask_share": 0.3}, "tuned": "run", "alike": False, "figures": {}}
    table = Ablation(stored_run(table={"variants": [variant]}).folder).table
    assert table
    (read,) = table.variants
    assert (read.fine_tuned_run, read.is_comparable, read.metrics) == ("run", False, {})
    assert table.variants[0].changed_options == {"mask_fraction": 0.3}


def test_opens_experiments_with_earlier_option_names() -> None:
    earlier = {"language_model": {"kept_models": 2}, "vary": {"mask_share": [0.3]}}
    earlier["fine_tuning"] = {"batches_of": "lengths"}
    current = {section: current_options(options) for section, options in earlier.items()}
    experiment = AblationExperiment.model_validate({"text": "a"} | earlier)
    assert experiment == AblationExperiment.model_validate({"text": "a"} | current)
    assert experiment.language_model_options(2) == replace(experiment.language_model_options(1), mask_fraction=0.3)


@pytest.mark.parametrize(
    ("kind", "flag", "value"),
    [(BI_ENCODER, "batches-of", "articles"), (LANGUAGE_MODEL, "kept-models", "3"), (READER, "rules", "squad")],
)
def test_accepts_earlier_flags(
    kind: str, flag: str, value: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert main(["train", kind, "--data", "no such data", f"--{flag}", value]) != 0
    assert "no such data" in capsys.readouterr().err
    assert "accepted until" in caplog.text
    main(["train", kind, "--help"])
    assert f"--{flag}" not in capsys.readouterr().out
