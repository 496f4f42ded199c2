"""`python -m language keep-text` and `texts`."""

import json
from pathlib import Path

import pytest

from language import texts
from language.__main__ import main


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, content in (("one.txt", "배가 고프다\n"), ("two.txt", "배를 탔다\n배를 샀다\n")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    return [str(tmp_path / name) for name in ("one.txt", "two.txt")]


def test_files_are_kept_and_listed(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keep-text", *files]) == 0
    kept = capsys.readouterr().out
    assert main(["texts"]) == 0
    listed = capsys.readouterr().out
    assert sorted(kept.splitlines()) == sorted(listed.splitlines())
    two, one = texts.stored()
    assert [one.name, two.name] == ["one", "two"]
    assert f"{two.reference}               12 characters             2 documents  two" in listed
    assert main(["texts", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["key"], each["documents"], each["source"]) for each in told] == [
        (two.key, 2, files[1]),
        (one.key, 1, files[0]),
    ]


def test_a_file_that_is_no_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.txt").write_bytes("배".encode("cp949"))
    for name, said in (("bad.txt", "is no UTF-8"), ("none.txt", "none.txt is no file")):
        assert main(["keep-text", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
    assert texts.stored() == []
