"""Models of signed-in users: none by a path of the server, none by its token; and models of a hub that may be gone."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mrc_workbench.data.workspace import acting_as, shared_workspace, user_of, workspace
from mrc_workbench.models import files
from mrc_workbench.models.files import ModelError, forget_tokens, hub_revision
from mrc_workbench.models.llm import Endpoint, EndpointError
from mrc_workbench.models.sources import STARTER, find_model
from tests.hub import BI_ENCODER, CROSS_ENCODER_BASE, TOKEN, HubServer, hub_environment, running_server
from tests.models.worlds import Ask, asked, computed
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
RUN = "20261122-014317-bi-0b1c"
PRIVATE = "maker/private"


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
    assert "HF_TOKEN" not in files.os.environ
    assert files.os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"  # noqa: S105 - a switch
    assert files.os.environ["HF_HUB_CACHE"] == str(shared_workspace() / "cache" / "hub")


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


class Hub(NamedTuple):
    """A server of models, the environment that leads there, and a process that loads what it is asked for."""

    root: Path
    server: HubServer
    environment: dict[str, str]
    ask: Ask


@pytest.fixture(scope="module")
def of_the_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    root = tmp_path_factory.mktemp("hub")
    build_bi_encoder(root / BI_ENCODER)
    with_head(build_cross_encoder_base(root / CROSS_ENCODER_BASE, segment_types=1))  # as the real klue/roberta-base
    build_sparse_encoder(root / "maker" / "splade")
    build_cross_encoder_base(root / "maker" / "masked")
    for name in ("maker/bi", PRIVATE):
        shutil.copytree(root / BI_ENCODER, root / name)
    with running_server(root) as server:
        server.private.add(PRIVATE)
        environment = hub_environment(server.url, tmp_path_factory.mktemp("home")) | {"HF_TOKEN": TOKEN}
        with asked(environment) as ask:
            yield Hub(root, server, environment, ask)


@pytest.mark.slow
def test_the_token_of_the_server_opens_a_private_model_for_the_operator_alone(of_the_hub: Hub, tmp_path: Path) -> None:
    server = of_the_hub.server

    def loaded(user: str) -> Any:
        server.tokens.clear()
        return of_the_hub.ask("nothing", PRIVATE, user=user, workspace=tmp_path)[0]

    # for a user first: what the operator downloaded later could not have helped
    assert loaded(ALICE) == "hub_unknown"
    assert server.tokens == {""}
    assert not any(f"/{PRIVATE}/resolve/" in line for line in server.requests)
    assert loaded("") == []
    assert TOKEN in server.tokens
    assert loaded(ALICE) == "hub_unknown"
    assert server.tokens == {""}


@pytest.mark.slow
def test_models_from_the_hub_and_again_without_it(of_the_hub: Hub, tmp_path: Path) -> None:
    names = {"vectors": BI_ENCODER, "scores": CROSS_ENCODER_BASE}
    online = {kind: of_the_hub.ask(kind, name, workspace=tmp_path / "first") for kind, name in names.items()}
    assert of_the_hub.server.unknown == []
    assert any("/resolve/" in line for line in of_the_hub.server.requests)
    with asked(of_the_hub.environment | {"HF_ENDPOINT": "http://127.0.0.1:9"}) as ask:
        offline = {kind: ask(kind, name, workspace=tmp_path / "second") for kind, name in names.items()}
    expected = {kind: computed(kind, str(of_the_hub.root / name)) for kind, name in names.items()}
    assert expected["vectors"].shape == (len(SENTENCES), 32)
    assert len(set(expected["scores"].tolist())) == len(SENTENCES)
    for told in (online, offline):
        for kind, (found, _) in told.items():
            np.testing.assert_allclose(found, expected[kind], atol=1e-6)
        # the libraries alone would ask a hub that is gone for minutes
        assert sum(seconds for _, seconds in told.values()) < 30


@pytest.mark.slow
def test_sparse_encoders_of_the_hub_and_what_cannot_be_one(of_the_hub: Hub, tmp_path: Path) -> None:
    for name in ("maker/splade", "maker/masked"):
        found, _ = of_the_hub.ask("terms", name, workspace=tmp_path)
        np.testing.assert_allclose(found, computed("terms", str(of_the_hub.root / name)), atol=1e-6)
    assert of_the_hub.ask("terms", "maker/bi", workspace=tmp_path)[0] == "not_sparse"
    assert not of_the_hub.server.unknown
    asked_for = [line for line in of_the_hub.server.requests if line.startswith("GET /maker/bi/")]
    assert not [line for line in asked_for if "safetensors" in line]
