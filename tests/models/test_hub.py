"""Models of signed-in users: none by a path of the server, none by the server's token."""

import os
from pathlib import Path
from typing import Any

import pytest

from chat.endpoint import Endpoint
from chat.problems import EndpointError
from data.workspace import acting_as, shared_workspace, user_of, workspace
from models import hub
from models.hub import ModelError, forget_tokens, hub_revision
from models.sources import STARTER, find_model

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
RUN = "20261122-014317-bi-0b1c"


def a_model(folder: Path) -> Path:
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Models everywhere: the server's, the shelf's, and one of either user's."""
    places = {
        "server": tmp_path / "models" / "secret",
        "shelf": shared_workspace() / "runs" / f"{RUN}-shared",
        "alice": shared_workspace() / "users" / ALICE / "runs" / f"{RUN}-alice",
        "bob": shared_workspace() / "users" / BOB / "runs" / f"{RUN}-bob",
    }
    return {name: a_model(place) for name, place in places.items()}


def test_a_user_finds_their_own_runs_and_those_of_the_shelf_by_id(folders: dict[str, Path]) -> None:
    with acting_as(ALICE):
        for name, place in (("alice", "alice"), ("shared", "shelf")):
            assert find_model(f"{RUN}-{name}").folder == folders[place] / "model"
        assert find_model(STARTER).folder is None
        assert find_model("klue/roberta-base").hub_id == "klue/roberta-base"


def test_a_user_finds_no_folder_by_a_path(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [
        *(str(folder) for folder in folders.values()),
        str(folders["bob"] / "model"),
        "models/secret/model",
        "./models/secret",
        f"../{BOB}/runs/{RUN}-bob",
        f"../../{BOB}/runs/{RUN}-bob",
        f"../../../runs/{RUN}-shared",
        f"{RUN}-alice/../{RUN}-alice",
        f"{RUN}-bob",
        "..",
        ".",
        "~",
        "",
    ]
    with acting_as(ALICE):
        for path in paths:
            # refused, or taken for a name that the hub may have
            assert {outcome(path, None), outcome(path, tmp_path)} <= {"server_path", f"hub {path}"}, path


def outcome(reference: str, base: Path | None) -> str:
    try:
        found = find_model(reference, base)
    except ModelError as error:
        return error.code
    return str(found.folder or f"hub {found.hub_id}")


def test_the_operator_may_let_users_name_paths(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PATHS", "true")
    with acting_as(ALICE):
        assert find_model(str(folders["server"])).folder == folders["server"] / "model"


def test_where_nobody_signs_in_paths_are_models(folders: dict[str, Path]) -> None:
    assert find_model(str(folders["server"])).folder == folders["server"] / "model"
    assert find_model(f"{RUN}-shared").folder == folders["shelf"] / "model"


@pytest.mark.slow
def test_the_hub_is_asked_in_nobodys_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: list[Any] = []

    class Api:
        def __init__(self, token: Any = None) -> None:
            asked.append(token)

        def model_info(self, *_: Any, **__: Any) -> Any:
            raise OSError("nobody answers")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    for name in (ALICE, ""):
        with acting_as(name), pytest.raises(ModelError):
            hub_revision("somebody/private")
    assert asked == [False, None]


def test_a_server_of_users_forgets_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ, HF_TOKEN="the operator's"))  # noqa: S106
    forget_tokens()
    assert "HF_TOKEN" not in hub.os.environ
    assert hub.os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"  # noqa: S105 - a switch
    assert hub.os.environ["HF_HUB_CACHE"] == str(shared_workspace() / "cache" / "hub")


def test_a_user_has_the_server_call_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with acting_as(ALICE):
        assert Endpoint.of().address == "http://127.0.0.1:9/v1"
        with pytest.raises(EndpointError) as refused:
            Endpoint.of("http://169.254.169.254/")
        assert refused.value.code == "address_refused"
        monkeypatch.setenv("MRC_USER_ADDRESSES", "1")
        assert Endpoint.of("http://127.0.0.1:8/v1").address == "http://127.0.0.1:8/v1"
    assert workspace() == shared_workspace()
