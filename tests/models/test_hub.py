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
from tests.doubles import raises_failure
from tests.hub import BI_ENCODER, CROSS_ENCODER_BASE, TOKEN, HubServer, hub_environment, running_server
from tests.models.worlds import Ask, computed, model_process, write_config
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
RUN = "20261122-014317-bi-0b1c"
PRIVATE = "maker/private"


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Models everywhere: the server's, the shelf's, and one of either user's."""
    paths = {
        "server": tmp_path / "models" / "secret",
        "shelf": shared_workspace() / "runs" / f"{RUN}-shared",
        "alice": shared_workspace() / "users" / ALICE / "runs" / f"{RUN}-alice",
        "bob": shared_workspace() / "users" / BOB / "runs" / f"{RUN}-bob",
    }
    return {name: write_config(path / "model").parent for name, path in paths.items()}


def test_user_finds_own_and_shared_runs_by_id(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_model(str(folders["server"])).folder == folders["server"] / "model"  # without sign-in
    assert find_model(f"{RUN}-shared").folder == folders["shelf"] / "model"
    with acting_as(ALICE):
        for name, owner in (("alice", "alice"), ("shared", "shelf")):
            assert find_model(f"{RUN}-{name}").folder == folders[owner] / "model"
        assert find_model(STARTER).folder is None
        assert find_model("klue/roberta-base").hub_id == "klue/roberta-base"
        monkeypatch.setenv("MRC_USER_PATHS", "true")
        assert find_model(str(folders["server"])).folder == folders["server"] / "model"


def test_user_cannot_use_paths(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [
        *map(str, [*folders.values(), folders["bob"] / "model"]),
        *("models/secret/model", "./models/secret", f"../{BOB}/runs/{RUN}-bob", f"../../{BOB}/runs/{RUN}-bob"),
        *(f"../../../runs/{RUN}-shared", f"{RUN}-alice/../{RUN}-alice", f"{RUN}-bob", "..", ".", "~", ""),
    ]
    with acting_as(ALICE):
        for path in paths:
            # refused, or taken for a name that the hub may have
            assert {outcome(path, None), outcome(path, tmp_path)} <= {"server_path", f"hub {path}"}, path


def outcome(reference: str, base: Path | None) -> str:
    try:
        source = find_model(reference, base)
    except ModelError as error:
        return error.code
    return str(source.folder or f"hub {source.hub_id}")


@pytest.mark.slow
def test_queries_hub_without_token_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    tokens: list[Any] = []

    class Api:
        def __init__(self, token: Any = None) -> None:
            tokens.append(token)

        def model_info(self, *_: Any, **__: Any) -> Any:
            raise OSError("nobody answers")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    for name in (ALICE, ""):
        with acting_as(name), pytest.raises(ModelError):
            hub_revision("somebody/private")
    assert tokens == [False, None]


def test_server_with_sign_in_forgets_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ, HF_TOKEN="the operator's"))  # noqa: S106
    forget_tokens()
    assert "HF_TOKEN" not in files.os.environ
    assert files.os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"  # noqa: S105 - a switch
    assert files.os.environ["HF_HUB_CACHE"] == str(shared_workspace() / "cache" / "hub")


def test_user_cannot_make_server_call_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with acting_as(ALICE):
        assert Endpoint.from_input().address == "http://127.0.0.1:9/v1"
        with raises_failure("address_refused", EndpointError):
            Endpoint.from_input("http://169.254.169.254/")
        monkeypatch.setenv("MRC_USER_ADDRESSES", "1")
        assert Endpoint.from_input("http://127.0.0.1:8/v1").address == "http://127.0.0.1:8/v1"
    assert workspace() == shared_workspace()


class Hub(NamedTuple):
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
        with model_process(environment) as ask:
            yield Hub(root, server, environment, ask)


@pytest.mark.slow
def test_server_token_opens_private_model_only_for_operator(of_the_hub: Hub, tmp_path: Path) -> None:
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
def test_loads_hub_models_online_and_offline(of_the_hub: Hub, tmp_path: Path) -> None:
    names = {"vectors": BI_ENCODER, "scores": CROSS_ENCODER_BASE}
    online = {kind: of_the_hub.ask(kind, name, workspace=tmp_path / "first") for kind, name in names.items()}
    assert of_the_hub.server.unknown == []
    assert any("/resolve/" in line for line in of_the_hub.server.requests)
    with model_process(of_the_hub.environment | {"HF_ENDPOINT": "http://127.0.0.1:9"}) as ask:
        offline = {kind: ask(kind, name, workspace=tmp_path / "second") for kind, name in names.items()}
    expected = {kind: computed(kind, str(of_the_hub.root / name)) for kind, name in names.items()}
    assert expected["vectors"].shape == (len(SENTENCES), 32)
    assert len(set(expected["scores"].tolist())) == len(SENTENCES)
    for results in (online, offline):
        for kind, (result, _) in results.items():
            np.testing.assert_allclose(result, expected[kind], atol=1e-6)
        # the libraries would retry a missing hub for minutes
        assert sum(seconds for _, seconds in results.values()) < 30


@pytest.mark.slow
def test_loads_sparse_hub_models_and_rejects_others(of_the_hub: Hub, tmp_path: Path) -> None:
    for name in ("maker/splade", "maker/masked"):
        result, _ = of_the_hub.ask("terms", name, workspace=tmp_path)
        np.testing.assert_allclose(result, computed("terms", str(of_the_hub.root / name)), atol=1e-6)
    assert of_the_hub.ask("terms", "maker/bi", workspace=tmp_path)[0] == "not_sparse"
    assert not of_the_hub.server.unknown
    requests = [line for line in of_the_hub.server.requests if line.startswith("GET /maker/bi/")]
    assert not [line for line in requests if "safetensors" in line]
