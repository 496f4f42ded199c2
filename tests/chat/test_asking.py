from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.asking import append_line, lines_of

entries = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3), min_size=1, max_size=6)


@given(entries, st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_loses_its_last_lines_alone_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, str]], length: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "deeper" / "answers.jsonl"
    for entry in written:
        append_line(path, entry)
    assert [*lines_of(path)] == written
    path.write_bytes(path.read_bytes()[:length])
    kept = [*lines_of(path)]
    assert kept == written[: len(kept)]
    append_line(path, {"and": "on"})
    assert [*lines_of(path)] == [*kept, {"and": "on"}]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]\nnull\n3\n{", b"[" * 100_000, b'\n\n"text"\n'])
def test_what_cannot_be_read_is_passed_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(content + b'\n{"a": 1}')
    assert [*lines_of(path)] == [{"a": 1}]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert [*lines_of(tmp_path / "answers.jsonl")] == []
