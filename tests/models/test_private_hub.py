"""A private model of the hub: who holds the server's token loads it, a signed-in user never does."""

import sys
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from data.workspace import PROJECT, USER
from tests.hub import BI_ENCODER, TOKEN, build_bi_encoder, hub_environment, running_server

pytestmark = pytest.mark.slow

LOAD = """
import sys
from models.hub import ModelError
from models.loading import load_bi_encoder
from models.sources import find_model
try:
    load_bi_encoder(find_model(sys.argv[1]), [])
except ModelError as error:
    print(error.code)
else:
    print("loaded")
"""
ALICE = "a" * 32


def loaded(environment: dict[str, str]) -> CompletedProcess[str]:
    command = [sys.executable, "-c", LOAD, BI_ENCODER]
    return run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True, timeout=300)


def test_the_token_of_the_server_opens_a_private_model_for_the_operator_alone(tmp_path: Path) -> None:
    build_bi_encoder(tmp_path / "hub" / BI_ENCODER)
    with running_server(tmp_path / "hub") as server:
        server.private.add(BI_ENCODER)
        of_server = hub_environment(server.url, tmp_path / "home") | {"HF_TOKEN": TOKEN}
        of_server["MRC_WORKSPACE"] = str(tmp_path / "workspace")
        # for a user first: what the operator downloaded later could not have helped
        assert loaded(of_server | {USER: ALICE}).stdout.split() == ["hub_unknown"]
        assert server.tokens == {""}
        assert not any("/resolve/" in line for line in server.requests)
        assert loaded(of_server).stdout.split() == ["loaded"]
        assert TOKEN in server.tokens
        server.tokens.clear()
        assert loaded(of_server | {USER: ALICE}).stdout.split() == ["hub_unknown"]
        assert server.tokens == {""}
