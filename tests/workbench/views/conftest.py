"""Clear all caches before and after each test; the small dataset of most pages."""

from collections.abc import Iterator
from functools import cache

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner

from mrc_workbench.data.store import StoredSet, save_question_set
from tests.doubles import small_set


@pytest.fixture(scope="session", autouse=True)
def _skip_component_search() -> Iterator[None]:
    """Skip the search for components in installed packages, which takes longer than most pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(autouse=True)
def _clear_caches() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.fixture
def data() -> StoredSet:
    """The small dataset, as stored by a user."""
    return save_question_set(small_set())


@pytest.fixture(autouse=True)
def skip_dry_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not start dry runs unless a test does."""
    monkeypatch.setattr("mrc_workbench.workbench.views.train.start.may_start_without_request", lambda *_: False)
