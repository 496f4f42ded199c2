"""The fields for files: each has its words in the person's language."""

import re
from pathlib import Path

import pytest

from data.workspace import PROJECT

WITH_A_FIELD = [path for path in (PROJECT / "views").rglob("*.py") if "st.file_uploader(" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", WITH_A_FIELD, ids=lambda path: path.stem)
def test_no_field_has_the_words_of_streamlit_alone(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("translate_field(") == source.count("st.file_uploader(")
    # the look is that of keys which begin so
    assert re.search(r'f?"upload_', source)


def test_there_are_fields() -> None:
    assert len(WITH_A_FIELD) > 4
