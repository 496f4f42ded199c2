"""A small transformer, loaded once."""

import pytest

from mrc_workbench.labs.language.network import Network, load_encoder
from tests.labs.language.tiny_bert import written


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return load_encoder(written(tmp_path_factory.mktemp("tiny")))
