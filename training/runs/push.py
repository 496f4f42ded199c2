"""Takes a finished model elsewhere: as one file, or to a model hub. A token is nowhere kept, logged or told."""

import os
import re
import tempfile
import zipfile
from io import BufferedReader
from typing import Any

from data.problems import Failure
from data.workspace import workspace
from jobs.folder import State
from models.hub import TIMEOUT_SECONDS
from training.runs.runs import Run


def zipped_model(run: Run) -> BufferedReader:
    """Return the run's model as an open zip, read from its start; the file is gone once closed.

    Stored and not deflated: weights do not get smaller. Raises `OSError` where the disk is full.
    """
    with tempfile.TemporaryFile(dir=workspace(), suffix=".zip") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(run.model_folder.rglob("*")):
                archive.write(path, f"{run.id}/{path.relative_to(run.model_folder).as_posix()}")
        file.seek(0)
        return os.fdopen(os.dup(file.fileno()), "rb")  # a reader of its own: it outlives the writer


# what a model is made of; anything else that lies in its folder stays here
_SENT = ["*.safetensors", "*.json", "*.txt", "*.md", "*.model", "*.jinja"]


class PushError(Failure):
    """A model that could not be sent.

    `bad_name`, `bad_token`, `no_permission`, `not_finished`, `public` (the repository is there, for everybody to see,
    and was to be private), `refused` (the hub said no for another reason, told in the message) and `unreachable`.
    """


def push(run: Run, repository: str, token: str, *, private: bool = True) -> str:
    """Send a finished run's model folder to `repository` (`name` or `owner/name`) and return its address.

    The repository is made where there is none. Raises `PushError`, within seconds where the hub does not answer.
    """
    repository, token = repository.strip(), token.strip()
    _check(run, repository, token)
    try:
        return _sent(run, repository, token, private=private)
    except PushError:
        raise
    except Exception as error:
        # without its cause: what a library says, or keeps in its errors, may hold the request and so the token
        raise _problem(error, repository, token) from None


def _check(run: Run, repository: str, token: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    if run.status().state is not State.DONE or not run.model_folder.is_dir():
        raise PushError("not_finished", f"{run.id} has no finished model to send")
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise PushError("bad_name", str(error)) from None
    if not re.fullmatch(r"[!-~]+", token):  # sent as it is, anything else would end up in an error's message
        raise PushError("bad_token", "a token is one word of letters, digits and signs")


def _sent(run: Run, repository: str, token: str, *, private: bool) -> str:
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    _reach(api, repository)
    address = api.create_repo(repository, private=private, exist_ok=True)
    if private and not api.model_info(address.repo_id, timeout=TIMEOUT_SECONDS).private:
        raise PushError("public", f"{address.repo_id} is there already, for everybody to see; nothing was sent")
    api.upload_folder(
        repo_id=address.repo_id,
        folder_path=run.model_folder,
        allow_patterns=_SENT,
        commit_message=f"Trained with the MRC Retrieval Workbench: {run.id}",
    )
    return str(address)


def _reach(api: Any, repository: str) -> None:
    """Ask anything: the calls that follow would wait for minutes for a hub that does not answer."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        api.model_info(repository, timeout=TIMEOUT_SECONDS)
    except HfHubHTTPError:
        return  # it answered; what it thinks of the token, the next call tells


def _problem(error: Exception, repository: str, token: str) -> PushError:
    from huggingface_hub.errors import HfHubHTTPError, HTTPError

    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status == 401:
            return PushError("bad_token", "the hub does not know this token")
        if status == 403:
            return PushError("no_permission", f"this token may not write to {repository}")
        said = error.server_message or type(error).__name__
        return PushError("refused", f"the hub answered {status}: {said}".replace(token, "***"))
    if isinstance(error, HTTPError | ConnectionError):
        return PushError("unreachable", "the hub cannot be reached; nothing may have arrived, so push again later")
    return PushError("refused", f"{type(error).__name__}: {error}".replace(token, "***"))
