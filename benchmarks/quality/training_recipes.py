"""Compare quality and time of training recipes on CPUs: `python -m benchmarks training_recipes`.

The packaged base is trained as a bi-encoder and for late interaction, on KorQuAD's article split and on the Korean
sample. Each training runs in a new process with an empty workspace. `RECIPES` selects recipes, `RECIPE_SETS` datasets
(`korquad,sample`).
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.quality.article_split import MORE_VALIDATION
from benchmarks.synthetic_data import korquad, peak_memory
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.ranker_options import BI_ENCODER, LATE_INTERACTION
from mrc_workbench.training.recipes import get_recipe

_SETS = {"korquad": ("KorQuAD", MORE_VALIDATION), "sample": ("Korean sample", SplitOptions())}


@dataclass(frozen=True)
class _TrainingRecipe:
    """The kind of model to train, and the changes of the app's options for the packaged base."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    kind: str = BI_ENCODER

    @property
    def options(self) -> TrainingOptions:
        return replace(get_recipe(self.kind).options.defaults_for(DEFAULT.reference), **self.changes)


_ALL_LAYERS = {"shared_passages": False, "frozen_layers": 0, "learning_rate": 3e-5, "epochs": 1.0}
RECIPES = {
    "default": _TrainingRecipe("Default"),
    "mix": _TrainingRecipe("Labels and the mix's scores (weight 0.6)", {"mix_loss_weight": 0.6}),
    "frozen-6": _TrainingRecipe("The same, six frozen layers", {"mix_loss_weight": 0.6, "frozen_layers": 6}),
    "frozen-10": _TrainingRecipe("Ten frozen layers", {"frozen_layers": 10}),
    "one-epoch": _TrainingRecipe("One epoch", {"epochs": 1.0}),
    "pairs": _TrainingRecipe(
        "Passages encoded for each question, half an epoch", {"shared_passages": False, "epochs": 0.5}
    ),
    "all-layers": _TrainingRecipe("The same, all layers, one epoch at a third of the rate", _ALL_LAYERS),
    "late": _TrainingRecipe("Late interaction, default", kind=LATE_INTERACTION),
    "late-all-layers": _TrainingRecipe(
        "Late interaction, passages encoded for each question, all layers, one epoch at a third of the rate",
        _ALL_LAYERS | {"temperature": 0.02},
        LATE_INTERACTION,
    ),
}
_DEFAULT_RECIPES = ("default", "mix", "one-epoch", "frozen-10", "late")  # the others take longer
_HEADER = (
    *("dataset", "recipe", "steps", "seconds", "CPU seconds", "peak memory, GiB"),
    *("nDCG@10 before", "after", "gain", "95% interval"),
)


def training_recipes() -> list[str]:
    """Train each recipe on each dataset; returns a Markdown table of test metrics."""
    recipes = _selected_names("RECIPES", RECIPES, _DEFAULT_RECIPES)
    lines = [f"| {' | '.join(_HEADER)} |", "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name in _selected_names("RECIPE_SETS", _SETS, tuple(_SETS)):
        lines.extend(_row(name, recipe, _train_in_subprocess(name, recipe)) for recipe in recipes)
    return [*lines, *_notes()]


def _selected_names(variable: str, known: dict[str, Any], default: tuple[str, ...]) -> list[str]:
    names = [name.strip() for name in os.environ.get(variable, ",".join(default)).split(",") if name.strip()]
    if unknown := set(names) - known.keys():
        sys.exit(f"{variable}: unknown {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return names


def _row(name: str, recipe: str, result: dict[str, Any]) -> str:
    test = result["test"]
    low, high = test["gain"]["interval"]
    before, after = (test[which]["ndcg@10"] for which in ("before", "after"))
    cells = (
        f"{_SETS[name][0]}, {test['questions']:,} test questions",
        RECIPES[recipe].name,
        f"{result['steps']:,}",
        f"{result['seconds']:.0f}",
        f"{result['cpu_seconds']:.0f}",
        f"{result['memory'] / 2**30:.1f}",
        f"{before * 100:.2f}",
        f"{after * 100:.2f}",
        f"{test['gain']['difference'] * 100:+.2f}",
        f"{low * 100:+.2f} to {high * 100:+.2f}",
    )
    return f"| {' | '.join(cells)} |"


def _notes() -> Iterator[str]:
    yield ""
    for recipe in ("default", "late"):
        options: Any = RECIPES[recipe].options
        yield (
            f"{RECIPES[recipe].name}: the layers above the lowest {options.frozen_layers} are trained, with "
            f"{options.batch_size} passages and their questions per step, at a learning rate of "
            f"{options.learning_rate:g} and a temperature of {options.temperature:g}, for {options.epochs:g} epochs."
        )
    yield (
        f"Seconds are those of the whole process on {os.cpu_count()} CPU cores: loading, evaluation before and after, "
        "and training."
    )


def _train_in_subprocess(name: str, recipe: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"MRC_WORKSPACE": folder}
        began = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.quality.training_recipes", name, recipe]
        done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - began
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result | {"seconds": seconds}


def _train(name: str, recipe: str) -> dict[str, Any]:
    """Train in this process; returns the metrics and costs of the run."""
    from mrc_workbench.data.jobs.folder import State
    from mrc_workbench.data.jobs.processes import hold_freed_memory
    from mrc_workbench.data.store import find
    from mrc_workbench.training.runs import create_run, new_plan
    from mrc_workbench.training.train import train

    hold_freed_memory()
    reference = str(korquad()) if name == "korquad" else name
    question_set = find(reference)
    data = (reference, question_set.name, question_set.fingerprint)
    selected_recipe = RECIPES[recipe]
    run = create_run(new_plan(selected_recipe.kind, recipe, data, _SETS[name][1], selected_recipe.options))
    ended = train(run)
    if ended.state is not State.DONE:
        raise RuntimeError(f"{recipe}: {ended.message}")
    used = resource.getrusage(resource.RUSAGE_SELF)
    scores = json.loads(Path(run.folder, "scores.json").read_text(encoding="utf-8"))
    return {
        "test": scores["test"],
        "steps": run.status().total_steps,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "memory": peak_memory(),
    }


if __name__ == "__main__":
    print(json.dumps(_train(*sys.argv[1:3])))
