"""Every test of a page begins, and leaves the next, without anything cached."""

from collections.abc import Iterator

import pytest
import streamlit as st


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()
