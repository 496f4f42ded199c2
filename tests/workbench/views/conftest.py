"""Every test of a page begins, and leaves the next, without anything cached."""

from collections.abc import Iterator
from functools import cache

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner


@pytest.fixture(scope="session", autouse=True)
def _installed_packages_are_searched_once() -> Iterator[None]:
    """Every app that is opened looks through all of them for components, which takes longer than most pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.fixture(autouse=True)
def no_estimate_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are drawn measure nothing unless a test asks for it."""
    monkeypatch.setattr("mrc_workbench.workbench.views.train.start.may_start_without_request", lambda *_: False)
