"""A file on the disk, read a part at a time, is what its bytes in memory are."""

from pathlib import Path

import pytest

from data.formats import text as content_module
from data.formats.text import Content
from data.problems import DataError
from data.read import propose_columns, read, read_file
from tests.data.sample_files import FILES, ROWS


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_its_bytes_are(name: str, tmp_path: Path) -> None:
    path = tmp_path / "set"
    path.write_bytes(FILES[name])
    assert read_file(path) == read(FILES[name], "set")
    assert propose_columns(Content(path)) == propose_columns(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_characters_that_lie_in_two_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FILES[name], "set")
    monkeypatch.setattr(content_module, "_PART", 7)
    assert read(FILES[name], "set") == whole


@pytest.mark.parametrize("source", [b"\xed\x95\x9c\n", b""])
def test_content(source: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(source)
    for content in (Content(source), Content(path)):
        assert (content.size, content.start, content.whole) == (len(source), source, source)
        assert b"".join(content.parts()) == source
    assert Content.of(content) is content


def test_json_in_one_piece_has_a_limit_and_json_lines_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.formats.opening.MAX_WHOLE_BYTES", 10)
    with pytest.raises(DataError, match=r"holds or claims \d+ bytes of JSON in one piece; at most 10 are read"):
        read(FILES["json"], "set")
    assert len(read(FILES["jsonl"], "set").question_set.questions) == len(ROWS)
