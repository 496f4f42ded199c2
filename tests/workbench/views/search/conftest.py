import pytest

from mrc_workbench.data.store import StoredSet, save_question_set
from tests.doubles import small_set


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(small_set())
