"""What is checked of a model's files before any of them is opened: regular files, safetensors only, and the seal.

A training of this project seals its model folder with a digest of each file. A folder from elsewhere has no seal.
"""

import json
import stat
from collections.abc import Callable
from pathlib import Path

from mrc_workbench.data.cache import SEAL, is_sound
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.hub import ModelError

CARD = "README.md"  # written after the folder is sealed; no library reads it
_SAFE = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_LARGEST_SIZE = 10**7  # of a layer, a vocabulary or a length in a module's configuration
Find = Callable[[str], Path | None]  # returns a file of a model by its name, None if the model has no such file


def require_regular_files(reference: str, folder: Path) -> None:
    """Raise `ModelError` (`irregular_file`) if a model folder holds anything but folders and regular files.

    Opening a pipe or a device may wait forever, and a link may lead to a file that was never part of the model. Links
    inside the folder are allowed, and so are those of a snapshot in the hub's cache, whose files lie in `blobs`.
    """
    allowed = [folder.resolve()]
    if folder.parent.name == "snapshots":
        allowed.append(folder.parent.parent.resolve() / "blobs")
    for path in folder.rglob("*"):
        if problem := _problem_of(path, allowed):
            name = path.relative_to(folder).as_posix()
            message = f"{name!r} in the folder of {reference!r} {problem}: a model is made of regular files only"
            raise ModelError("irregular_file", message, model=reference, name=name)


def _problem_of(path: Path, allowed: list[Path]) -> str:
    try:
        kind = path.stat().st_mode
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nothing, or to itself
        return "is a broken link"
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return "is a pipe, a socket or a device"
    if path.is_symlink() and not any(target.is_relative_to(folder) for folder in allowed):
        return "is a link that leads out of the folder"
    return ""


def require_possible_modules(reference: str, find: Find) -> None:
    """Raise `ModelError` (`impossible`) if a module behind the transformer asks for a size that no module has.

    The library allocates what a configuration asks for before it compares that with the weights.
    """
    for module in _module_folders(find)[1:]:
        path = find(f"{module}/config.json")
        for name, value in (read_json(path) if path else {}).items():
            if isinstance(value, int | float) and value > _LARGEST_SIZE:
                message = f"{reference!r} cannot be a model: {module}/config.json says that {name} is {value}"
                raise ModelError("impossible", message, model=reference, name=name, value=str(value)[:80])


def require_safetensors(reference: str, find: Find, *, is_folder: bool) -> None:
    """Raise `ModelError` (`pickled`) if a module would be read from a pickle, which may run code when it is opened.

    The transformer and every module listed in `modules.json`, such as `Dense`, `LSTM` or `WeightedLayerPooling`, have
    their weights in `model.safetensors`. Of a hub's model the transformer's own files are left to the library, which
    is told to use safetensors: looking for them here would download them.
    """
    for module in _module_folders(find):
        if module.startswith("/") or ".." in module.split("/"):
            message = (
                f"{module!r} in the folder of {reference!r} leads out of it: a model is made of regular files only"
            )
            raise ModelError("irregular_file", message, model=reference, name=module)
        if not (module or is_folder):
            continue
        prefix = f"{module}/" if module else ""
        if any(find(prefix + name) for name in _SAFE):
            continue
        if pickled := next((prefix + name for name in _PICKLED if find(prefix + name)), None):
            message = f"{pickled!r} of {reference!r} is a pickle, which may run code: save the model as safetensors"
            raise ModelError("pickled", message, model=reference, name=pickled)


def _module_folders(find: Find) -> list[str]:
    """Return the folders of a model's modules, the root first: "" and those that `modules.json` and routers name."""
    listed = find("modules.json")
    try:
        modules = json.loads(listed.read_text(encoding="utf-8")) if listed else []
        paths = [str(module.get("path", "")).rstrip("/") for module in modules]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return [""]  # the library reports a damaged list
    for path in list(paths):
        prefix = f"{path}/" if path else ""
        router = find(f"{prefix}router_config.json")
        types = read_json(router).get("types") if router else None
        paths += [f"{prefix}{name}" for name in types or ()]
    return list(dict.fromkeys(["", *paths]))


def require_sealed_content(reference: str, folder: Path) -> None:
    """Raise `ModelError` (`model_changed`) if a sealed folder no longer holds what was written into it.

    A folder without a seal passes. Each file is read once per process, and again when its size or times change.
    """
    if (folder / SEAL).is_file() and not is_sound(folder, beside=(CARD,)):
        message = (
            f"the files of {reference!r} are not those that its training wrote: they are damaged or were changed. "
            f"Copy the model again, train it again, or delete {SEAL} in its folder to use them as they are"
        )
        raise ModelError("model_changed", message, model=reference, name=SEAL)
