"""A model that the tests of many share."""

from pathlib import Path

import pytest

from tests.tiny_models import build_bi_encoder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bi-encoder; tests must not change it."""
    return build_bi_encoder(tmp_path_factory.mktemp("model") / "tiny")
