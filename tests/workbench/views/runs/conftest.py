"""Trainings are looked at on the Train page."""

import pytest
from streamlit.testing.v1 import AppTest

from tests.workbench.views.train.conftest import no_worker, opened
from tests.workbench.views.train.worlds import page, unopened

__all__ = ["no_worker", "opened"]


@pytest.fixture
def app() -> AppTest:
    return unopened(page, whole=False)
