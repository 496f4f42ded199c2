"""A small transformer, loaded once."""

import pytest

from mrc_workbench.labs.language.network import TransformerModel, load_encoder
from tests.labs.language.tiny_bert import write_model


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> TransformerModel:
    return load_encoder(write_model(tmp_path_factory.mktemp("tiny")))
