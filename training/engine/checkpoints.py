"""Checkpoints that survive a kill, and models stored during a training."""

import json
import random
import re
import shutil
from collections.abc import Sequence
from copy import deepcopy
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.cache import SEAL, is_intact, sealing
from mrc_workbench.data.cache import seal as seal_folder
from mrc_workbench.data.workspace import to_disk, write_text

_OLDER_SEAL = "complete.json"  # of earlier versions: only names and sizes
_PREFIX = "checkpoint-"


def newest_checkpoint(run: Path) -> Path | None:
    """Return the complete checkpoint of a run folder with the most steps, or None."""
    return next((folder for folder in _list_newest_first(run / "checkpoints") if is_complete(folder)), None)


def get_step(checkpoint: Path) -> int:
    """Return the number of steps of a checkpoint."""
    return int(checkpoint.name.removeprefix(_PREFIX))


def is_complete(checkpoint: Path) -> bool:
    """Whether all files of the seal are complete."""
    if not (checkpoint / _OLDER_SEAL).is_file():
        return is_intact(checkpoint)
    try:
        sizes = json.loads((checkpoint / _OLDER_SEAL).read_text(encoding="utf-8"))
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def seal(checkpoint: Path) -> None:
    """Flush the checkpoint's files to disk, then write its seal: a sealed checkpoint survives a power cut."""
    seal_folder(checkpoint)
    to_disk(checkpoint.parent)


def discard_old(checkpoints: Path, limit: int, best: Path | None) -> None:
    """Delete all but the best and the newest `limit` complete checkpoints, and incomplete ones."""
    complete = [folder for folder in _list_newest_first(checkpoints) if is_complete(folder)]
    retained = {folder.name for folder in complete[:limit]} | ({best.name} if best else set())
    for folder in _list_newest_first(checkpoints):
        if folder.name not in retained:
            for name in (SEAL, _OLDER_SEAL):  # first: a partly deleted checkpoint must not look complete
                (folder / name).unlink(missing_ok=True)
            shutil.rmtree(folder)


def load_weights(model: Any, checkpoint: Path) -> None:
    """Load the weights of a checkpoint into the model. Raises `ValueError` if they belong to another model."""
    from safetensors.torch import load_file

    weights = load_file(checkpoint / "weights.safetensors")
    if unknown := model.load_state_dict(weights, strict=False).unexpected_keys:
        raise ValueError(f"the checkpoint holds weights that the model does not have: {unknown[:3]}")


def _list_newest_first(checkpoints: Path) -> list[Path]:
    folders = [folder for folder in checkpoints.glob(f"{_PREFIX}*") if folder.name.removeprefix(_PREFIX).isdigit()]
    return sorted(folders, key=get_step, reverse=True)


class SafeCheckpoints:
    """Mixin for a trainer of transformers: checkpoints hold only safetensors and JSON.

    A checkpoint holds only the trained weights, so it is no model folder: adapters are not merged, and frozen weights
    are missing. Weights of the loss are in `loss.safetensors`.
    """

    args: Any
    model: Any
    loss: Any = None
    optimizer: Any
    lr_scheduler: Any
    state: Any

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        from safetensors.torch import save_file

        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        known = self.model.state_dict()
        weights |= {name: buffer for name, buffer in self.model.named_buffers() if name in known}
        contents = {name: tensor.detach().contiguous() for name, tensor in weights.items()}
        save_file(contents, str(folder / "weights.safetensors"))
        if self.loss is None or self.optimizer is None:
            return
        # weights of the loss outside the model that the optimizer has updated
        model_ids = {id(weight) for weight in self.model.parameters()}
        own = {name: weight for name, weight in self.loss.named_parameters() if id(weight) not in model_ids}
        trained = {name: weight.detach().contiguous() for name, weight in own.items() if weight in self.optimizer.state}
        if trained:
            save_file(trained, str(folder / "loss.safetensors"))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        from safetensors.torch import load_file

        load_weights(self.model, Path(resume_from_checkpoint))
        loss_weights = Path(resume_from_checkpoint) / "loss.safetensors"
        if loss_weights.is_file():
            self.loss.load_state_dict(load_file(loss_weights), strict=False)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(self.state.best_model_checkpoint)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        from safetensors.torch import save_file

        if not self.args.should_save:
            return
        content = self.optimizer.state_dict()
        tensors: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for number, entries in content["state"].items():
            for name, value in entries.items():
                (tensors if hasattr(value, "dtype") else plain)[f"{number}.{name}"] = value
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, f"{output_dir}/optimizer.safetensors")
        optimizer = {"plain": plain, "param_groups": content["param_groups"]}
        write_text(Path(output_dir, "optimizer.json"), json.dumps(optimizer))
        write_text(Path(output_dir, "scheduler.json"), json.dumps(self.lr_scheduler.state_dict()))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        from safetensors.torch import load_file

        if checkpoint is None:
            return
        known = json.loads(Path(checkpoint, "optimizer.json").read_text(encoding="utf-8"))
        state: dict[int, dict[str, Any]] = {}
        for name, value in (known["plain"] | load_file(f"{checkpoint}/optimizer.safetensors")).items():
            number, key = name.split(".", 1)
            state.setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict({"state": state, "param_groups": known["param_groups"]})
        self.lr_scheduler.load_state_dict(json.loads(Path(checkpoint, "scheduler.json").read_text(encoding="utf-8")))

    def _save_rng_state(self, output_dir: str) -> None:
        import torch
        from safetensors.torch import save_file

        version, numbers, gauss = random.getstate()
        name, keys, *rest = np.random.get_state()
        tensors = {"torch": torch.get_rng_state(), "numpy": torch.from_numpy(np.asarray(keys, dtype=np.int64))}
        if torch.cuda.is_available():
            tensors |= {f"cuda.{n}": state for n, state in enumerate(torch.cuda.get_rng_state_all())}
        path = Path(output_dir, f"generators-{self.args.process_index}")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path.with_suffix(".safetensors"))
        plain = {"python": [version, numbers, gauss], "numpy": [name, *rest]}
        write_text(path.with_suffix(".json"), json.dumps(plain))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        import torch
        from safetensors.torch import load_file

        path = Path(checkpoint or "", f"generators-{self.args.process_index}")
        if checkpoint is None or not path.with_suffix(".json").is_file():
            return
        tensors = load_file(path.with_suffix(".safetensors"))
        plain = json.loads(path.with_suffix(".json").read_text())
        version, numbers, gauss = plain["python"]
        random.setstate((version, tuple(numbers), gauss))
        name, *rest = plain["numpy"]
        np.random.set_state((name, tensors["numpy"].numpy().astype(np.uint32), *rest))
        torch.set_rng_state(tensors["torch"])
        cuda: Sequence[Any] = [tensors[key] for key in sorted(tensors) if key.startswith("cuda.")]
        if cuda and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(cuda)


MAX_SNAPSHOT_BYTES = 1 << 30  # of all models of a run
_SNAPSHOT_FOLDER = "snapshots"
_EARLIER_SNAPSHOT_FOLDER = "on_the_way"
_SNAPSHOT_NAME = re.compile(r"step-(\d+)")


def model_snapshots(run: Path) -> dict[int, Path]:
    """Return the folders of the models stored during a run, by the step after which each was evaluated."""
    snapshots: dict[int, Path] = {}
    for parent in (_EARLIER_SNAPSHOT_FOLDER, _SNAPSHOT_FOLDER):
        for folder in (run / parent).glob("step-*"):
            if (name := _SNAPSHOT_NAME.fullmatch(folder.name)) and folder.is_dir():
                snapshots[int(name[1])] = folder
    return dict(sorted(snapshots.items()))


def save_snapshot(run: Path, model: Any, step: int, total: int, max_snapshots: int) -> None:
    """Save a model in place of an earlier one in the same of `max_snapshots` parts of the steps."""
    size = sum(int(weight.numel()) * int(weight.element_size()) for weight in model.parameters())
    part_count = min(max_snapshots, MAX_SNAPSHOT_BYTES // max(1, size) - 1)
    if part_count < 1:
        return
    with sealing(run / _SNAPSHOT_FOLDER / f"step-{step}") as new:
        network = model[0].auto_model
        if hasattr(network, "merge_and_unload"):  # in a copy: the training of the adapters continues
            network = deepcopy(network).merge_and_unload()
        network.save_pretrained(new)
        model.tokenizer.save_pretrained(new)
    for other, folder in model_snapshots(run).items():
        # parts are counted from 1; 0 is the untrained model
        part_of_other = ceil(min(other, total) * part_count / max(1, total))
        part_of_step = ceil(min(step, total) * part_count / max(1, total))
        if other < step and part_of_other == part_of_step:
            shutil.rmtree(folder)
