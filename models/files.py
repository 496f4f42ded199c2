"""Files of a model: the hub, checks before files are opened, and errors of loading as `ModelError`.

A model consists of regular files with weights in safetensors; a folder that a training sealed is unchanged. Signed-in
users get only public models: the server's token is not sent for them, and their downloads use a separate cache.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_workbench.data.cache import SEAL, is_intact
from mrc_workbench.data.problems import Failure, raise_missing_extra, require_library
from mrc_workbench.data.workspace import is_disk_error, read_json, shared_workspace, user

TIMEOUT_SECONDS = 5.0
CARD = "README.md"  # written after the folder is sealed; no library reads it
_SAFE = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_MAX_SIZE = 10**7  # of a layer, a vocabulary or a length in a module's configuration
Find = Callable[[str], Path | None]  # returns a model's file by name, None if missing
_OTHER_SHAPES = ("ignore_mismatched_sizes", "loading state_dict")
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


class ModelError(Failure):
    """A model that cannot be used; the detail `model` is its reference."""


@dataclass(frozen=True)
class HubRevision:
    """A commit of a hub model, its weights in bytes (0: unknown), and whether the hub answered (`online`)."""

    commit: str
    online: bool
    downloaded: bool
    size: int = 0


def forget_tokens() -> None:
    """Use the hub without a token and with the shared cache. Call it before importing its library."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        os.environ.pop(name, None)
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"  # noqa: S105 - a switch
    os.environ["HF_HUB_CACHE"] = str(shared_workspace() / "cache" / "hub")


def hub_token() -> bool | None:
    """Return the `token` argument of the hub's library: none for users, else the library's default."""
    return False if user() else None


def hub_revision(hub_id: str) -> HubRevision:
    """Return the newest commit, or the last downloaded one if the hub does not answer. Raises `ModelError`."""
    require_library("huggingface_hub", f"the hub model {hub_id!r}")
    from huggingface_hub import HfApi, errors

    unreachable = (errors.HfHubHTTPError, errors.OfflineModeIsEnabled, OSError, errors.HTTPError)
    try:
        info = HfApi(token=hub_token()).model_info(hub_id, timeout=TIMEOUT_SECONDS, files_metadata=True)
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        message = f"the hub has no model {hub_id!r}; check the name"
        raise ModelError("hub_unknown", message, model=hub_id) from error
    except unreachable as error:
        if commits := downloaded_commits(hub_id):
            return HubRevision(commits[-1], online=False, downloaded=True)
        message = f"the hub cannot be reached, and {hub_id!r} was not downloaded; use a starter or a local folder"
        raise ModelError("hub_unreachable", message, model=hub_id) from error
    weights = [file.size or 0 for file in info.siblings or [] if file.rfilename.endswith(".safetensors")]
    downloaded = info.sha in downloaded_commits(hub_id)
    return HubRevision(str(info.sha), online=True, downloaded=downloaded, size=sum(weights))


def downloaded_commits(hub_id: str) -> list[str]:
    """Return commits with weights in the local cache, the newest download last."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    snapshots = Path(HF_HUB_CACHE, repo_folder_name(repo_id=hub_id, repo_type="model"), "snapshots")
    with_weights = [folder for folder in snapshots.glob("*") if any(folder.rglob("*.safetensors"))]
    return [folder.name for folder in sorted(with_weights, key=lambda folder: folder.stat().st_mtime)]


def hub_file(where: dict[str, Any], name: str) -> Path | None:
    """Return a file of a hub model, None if missing; `where` is as of `loading.where_of`."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    offline = where["local_files_only"]
    options = {"revision": where["revision"], "local_files_only": offline, "token": where["token"]}
    try:
        return Path(hf_hub_download(where["model_name_or_path"], name, **options))
    except EntryNotFoundError as error:
        if isinstance(error, LocalEntryNotFoundError) and not offline:
            raise  # the hub did not answer
        return None


def require_regular_files(reference: str, folder: Path) -> None:
    """Raise `ModelError` (`irregular_file`) unless a model folder holds only folders and regular files.

    Opening a pipe or a device may block forever, and a link may lead out of the model. Links within the folder are
    allowed, and links of a snapshot in the hub's cache to `blobs`.
    """
    allowed = [folder.resolve()]
    if folder.parent.name == "snapshots":
        allowed.append(folder.parent.parent.resolve() / "blobs")
    for path in folder.rglob("*"):
        if problem := _problem_of(path, allowed):
            raise _irregular(reference, path.relative_to(folder).as_posix(), problem)


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


def _irregular(reference: str, name: str, problem: str) -> ModelError:
    message = f"{name!r} in the folder of {reference!r} {problem}: a model has only regular files"
    return ModelError("irregular_file", message, model=reference, name=name)


def require_possible_modules(reference: str, find: Find) -> None:
    """Raise `ModelError` (`impossible`) if a module has an absurd size, which the library would allocate."""
    for module in _module_folders(find)[1:]:
        path = find(f"{module}/config.json")
        for name, value in (read_json(path) if path else {}).items():
            if isinstance(value, int | float) and value > _MAX_SIZE:
                message = f"{reference!r} cannot be a model: {module}/config.json says that {name} is {value}"
                raise ModelError("impossible", message, model=reference, name=name, value=str(value)[:80])


def require_safetensors(reference: str, find: Find, *, is_folder: bool) -> None:
    """Raise `ModelError` (`pickled`) if a module of a model would load a pickle, which may run code."""
    for module in _module_folders(find):
        if module.startswith("/") or ".." in module.split("/"):
            raise _irregular(reference, module, "leads out of it")
        if not (module or is_folder):
            continue
        prefix = f"{module}/" if module else ""
        if any(find(prefix + name) for name in _SAFE):
            continue
        if pickled := next((prefix + name for name in _PICKLED if find(prefix + name)), None):
            message = f"{pickled!r} of {reference!r} is a pickle, which may run code: save the model as safetensors"
            raise ModelError("pickled", message, model=reference, name=pickled)


def _module_folders(find: Find) -> list[str]:
    """Return the folders of a model's modules: the root "", and those of `modules.json` and routers."""
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
    """Raise `ModelError` (`model_changed`) if the content of a sealed folder changed."""
    if (folder / SEAL).is_file() and not is_intact(folder, unsealed_names=(CARD,)):
        problem = f"the files of {reference!r} changed since its training"
        message = f"{problem}. Copy the model again, train it again, or delete {SEAL} in its folder to use it as it is"
        raise ModelError("model_changed", message, model=reference, name=SEAL)


@contextmanager
def loading(reference: str) -> Iterator[None]:
    """Raise errors of libraries as `ModelError` (`weights_missing`, `unloadable`), except a full disk or memory."""
    try:
        with raise_missing_extra():
            yield
    except Failure:
        raise
    except Exception as error:
        raised = str(error) if isinstance(error, RuntimeError) else ""
        # torch raises `RuntimeError` if memory runs out
        is_of_memory = isinstance(error, MemoryError) or any(phrase in raised.lower() for phrase in _OUT_OF_MEMORY)
        if is_disk_error(error) or is_of_memory:
            raise
        if any(phrase in raised for phrase in _OTHER_SHAPES):
            raise other_weights(reference, "its files hold weights of other names or shapes") from error
        reason = next(iter(str(error).splitlines()), "")[:300] or type(error).__name__
        if isinstance(error, RecursionError):
            reason = "a configuration file is nested too deeply"
        message = f"the model {reference!r} cannot be loaded: {reason}"
        raise ModelError("unloadable", message, model=reference, reason=reason) from error


def other_weights(reference: str, why: str) -> ModelError:
    """Return the error of a model with other weights than its configuration describes."""
    message = f"{reference!r}: its configuration and its weights do not belong together: {why}"
    return ModelError("weights_missing", message, model=reference)
