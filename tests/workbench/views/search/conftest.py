import pytest

from mrc_workbench.data.store import StoredSet, keep
from tests.doubles import small_set


@pytest.fixture
def data() -> StoredSet:
    return keep(small_set())
