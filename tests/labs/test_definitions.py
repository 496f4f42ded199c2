"""The content of `lab.toml`; a damaged file leaves the program usable."""

import logging
from pathlib import Path

import pytest

from mrc_workbench import labs as package
from mrc_workbench.data.studies import Study
from mrc_workbench.labs import TAKEN_NAMES, LabDefinition, labs
from mrc_workbench.workbench.cli import _INTERNAL, COMMANDS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(package, "_FOLDER", tmp_path)
    monkeypatch.setattr(package, "labs", labs.__wrapped__)
    return tmp_path


def write_lab(folder: Path, name: str, content: str) -> None:
    (folder / name).mkdir()
    (folder / name / "lab.toml").write_text(content, encoding="utf-8")


def test_no_lab_has_the_name_of_a_command() -> None:
    known = {lab.name for lab in labs()}
    commands = {name for name in {*COMMANDS, *_INTERNAL} - known if name.isidentifier()}
    assert commands <= {*TAKEN_NAMES.split()}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("compare", 'summary = "x"', "is the name of a command, a page or a folder"),
        ("pages", 'summary = "x"\npage_name = "search"', "'search' is the name of a command, a page or a folder"),
        ("x", 'summary = "x"\npage_name = "breadths"', "'breadths' is the page of another lab"),
        ("my lab", 'summary = "x"', "letters, digits and _"),
        ("길이", 'summary = "x"', "letters, digits and _"),
        ("lengths", "summary = ", "Invalid value"),
        ("lengths", 'sumary = "x"', "sumary"),
        ("lengths", 'summary = "x"\norder = "first"', "a wrong type: order"),
        ("lengths", "", "summary"),
    ],
)
def test_leaves_out_a_damaged_definition(
    folder: Path, caplog: pytest.LogCaptureFixture, name: str, content: str, reason: str
) -> None:
    write_lab(folder, "widths", 'summary = "Measure widths."\norder = 3\npage_name = "breadths"\n')
    write_lab(folder, name, content)
    with caplog.at_level(logging.WARNING):
        assert [lab.name for lab in package.labs()] == ["widths"]
    (message,) = caplog.messages
    assert str(folder / name / "lab.toml") in message
    assert reason in message


def test_study_has_the_name_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(name="others", summary="", versions=(1,), spec=dict[str, str])
    monkeypatch.setattr(package, "import_module", lambda _: type("module", (), {"STUDY": study}))
    with pytest.raises(ValueError, match="is named 'others': name it 'lengths'"):
        LabDefinition(name="lengths", summary="x").load_study()
