"""A page that a test draws does not stay the program: what `multiprocessing` starts later would run it."""

import sys

import pytest
from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.slow


def page() -> None:
    import streamlit as st

    st.text("drawn")


@pytest.fixture(scope="module")
def program() -> object:
    """The program before a page is drawn, for longer than a test."""
    before = sys.modules["__main__"]
    assert AppTest.from_function(page, default_timeout=60).run().text[0].value == "drawn"
    assert sys.modules["__main__"] is not before  # else nothing would have to be put back
    return before


def test_the_program_is_back_after_a_page(program: object) -> None:
    assert sys.modules["__main__"] is program
