"""Models kept on the way of a training, in `on_the_way/` of its folder: one can see afterwards what it knew when.

The steps fall into parts of equal length; of each the last model measured is kept, besides the one it began with. So
they lie evenly, however often is measured, and their number is bounded; of large models, what they take together.
"""

import re
import shutil
from copy import deepcopy
from math import ceil
from pathlib import Path
from typing import Any

from data.workspace import replacing

MOST_BYTES = 1 << 30  # of the models of a run together
_FOLDER = "on_the_way"
_STEP = re.compile(r"step-(\d+)")


def kept_models(run: Path) -> dict[int, Path]:
    """Return the folders of the models kept in a run's folder, by the step after which each was measured."""
    found = ((_STEP.fullmatch(folder.name), folder) for folder in (run / _FOLDER).glob("step-*"))
    return dict(sorted((int(name[1]), folder) for name, folder in found if name and folder.is_dir()))


def keep_model(run: Path, model: Any, step: int, total: int, most: int) -> None:
    """Save a model as it is after `step` of `total` steps, in place of an earlier one of the same part.

    `model` is a `TrainedNetwork`. There are `most` parts, fewer where models would take more than `MOST_BYTES`
    together. A kill leaves what was there, the new model, or both.
    """
    parts = min(most, MOST_BYTES // _bytes_of(model) - 1)
    if parts < 1:
        return
    with replacing(run / _FOLDER / f"step-{step}") as new:
        _save(model, new)
    for other, folder in kept_models(run).items():
        if other < step and _part(other, total, parts) == _part(step, total, parts):
            shutil.rmtree(folder)


def _part(step: int, total: int, parts: int) -> int:
    """Counted from 1; 0 is the beginning."""
    return ceil(min(step, total) * parts / max(1, total))


def _bytes_of(model: Any) -> int:
    return max(1, sum(int(weight.numel()) * int(weight.element_size()) for weight in model.parameters()))


def _save(model: Any, folder: Path) -> None:
    network = model[0].auto_model
    if hasattr(network, "merge_and_unload"):  # in a copy: the adapters go on learning
        network = deepcopy(network).merge_and_unload()
    network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
