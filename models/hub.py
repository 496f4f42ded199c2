"""The model hub: what it has, asked within seconds.

Signed-in users get what everybody may have: no token of the server's is sent for them, and what was downloaded with one
lies in another cache than theirs.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_workbench.data.problems import Failure, require
from mrc_workbench.data.workspace import shared_workspace, user

TIMEOUT_SECONDS = 5.0


class ModelError(Failure):
    """A model that cannot be had; the detail `model` is what was asked for."""


@dataclass(frozen=True)
class HubRevision:
    """A commit of a hub model. `online` says whether the hub answered; if not, the files are those downloaded before.

    `size` is what the model's repository holds in safetensors weights, in bytes, 0 where the hub does not say.
    """

    commit: str
    online: bool
    downloaded: bool
    size: int = 0


def forget_tokens() -> None:
    """Let this process, and those it starts, ask the hub in nobody's name, and keep models in the shared workspace.

    Before the hub's library is imported, which reads these variables once.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        os.environ.pop(name, None)
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"  # noqa: S105 - a switch
    os.environ["HF_HUB_CACHE"] = str(shared_workspace() / "cache" / "hub")


def hub_token() -> bool | None:
    """Return what the hub's library takes as the token: for users none, else the one that it finds."""
    return False if user() else None


def hub_revision(hub_id: str) -> HubRevision:
    """Return the newest commit when the hub answers within seconds, else the one downloaded before.

    Raises `ModelError`: `hub_unknown` where the hub has no such model, `hub_unreachable` where it does not answer and
    nothing was downloaded before. Raises `MissingExtraError` if the hub's library is not installed.
    """
    require("huggingface_hub", f"the hub model {hub_id!r}")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        HTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    unreachable = (HfHubHTTPError, OfflineModeIsEnabled, OSError, HTTPError)
    try:
        info = HfApi(token=hub_token()).model_info(hub_id, timeout=TIMEOUT_SECONDS, files_metadata=True)
    except (RepositoryNotFoundError, HFValidationError) as error:
        message = f"the hub has no model {hub_id!r}; check the name"
        raise ModelError("hub_unknown", message, model=hub_id) from error
    except unreachable as error:
        if kept := downloaded_commits(hub_id):
            return HubRevision(kept[-1], online=False, downloaded=True)
        message = (
            f"the model hub cannot be reached and {hub_id!r} was not downloaded before; "
            "use the starter model, or a folder that holds the model"
        )
        raise ModelError("hub_unreachable", message, model=hub_id) from error
    weights = [file.size or 0 for file in info.siblings or [] if file.rfilename.endswith(".safetensors")]
    downloaded = info.sha in downloaded_commits(hub_id)
    return HubRevision(str(info.sha), online=True, downloaded=downloaded, size=sum(weights))


def downloaded_commits(hub_id: str) -> list[str]:
    """Commits whose weights are in the local cache, the newest download last.

    The library itself finds a model there by branch, and a download by commit (as ours are) notes no branch.
    """
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    snapshots = Path(HF_HUB_CACHE, repo_folder_name(repo_id=hub_id, repo_type="model"), "snapshots")
    held = [folder for folder in snapshots.glob("*") if any(folder.rglob("*.safetensors"))]
    return [folder.name for folder in sorted(held, key=lambda folder: folder.stat().st_mtime)]


def hub_file(where: dict[str, Any], name: str) -> Path | None:
    """Return a file of a hub model, None where it has none; without the hub, where none was downloaded.

    `where` says where the model is, as the library's loaders are told it.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    offline = where["local_files_only"]
    asked = {"revision": where["revision"], "local_files_only": offline, "token": where["token"]}
    try:
        found = hf_hub_download(where["model_name_or_path"], name, **asked)
    except EntryNotFoundError as error:
        if isinstance(error, LocalEntryNotFoundError) and not offline:
            raise  # the hub went away: nothing is known of the file
        return None
    return Path(found)
