import csv
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pandas as pd
import pytest
from cyclopts import App, Parameter

from mrc_workbench.data import commands
from mrc_workbench.data.commands import command_group, run_command_line
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.terminal import QUIET, VERBOSE, escape_control_characters, print_line, quiet


class Size(StrEnum):
    VERY_SMALL = "s"
    LARGE = "l"


@dataclass
class Options:
    size: Size = field(default=Size.LARGE, metadata={"help": "how large"})
    steps: int = field(default=3, metadata={"help": "how many steps"})
    titled: bool = field(default=True, metadata={"help": "with titles"})


def run(room: App, words: Sequence[str], error_lines: Callable[[Exception], Sequence[str]] = lambda _: ()) -> int:
    """Run a command line with a single group of commands."""
    mrc = command_group("mrc", "")
    mrc.command(room)
    return run_command_line(mrc, [*room.name, *words], error_lines)


@pytest.fixture
def given() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def room(given: list[dict[str, Any]]) -> App:
    toys = command_group("toys", "Toys.")

    @toys.command
    @commands.add_options(Options, default_instance=Options(steps=5))
    def make(
        name: str, /, *, sizes: Annotated[tuple[Size, ...], commands.choices_option(Size)] = (), **selected: Any
    ) -> int:
        """Make a toy."""
        given.append({"name": name, "sizes": sizes, **selected})
        return 3 if name == "three" else 0

    @toys.command
    def look(
        *,
        size: Annotated[Size | None, commands.choice_option(Size)] = None,
        columns: Annotated[dict[str, str] | None, commands.columns_option(Options)] = None,
        scale: Annotated[tuple[float, float] | None, Parameter(help="its ends")] = None,
        as_json: commands.AsJson = False,
    ) -> int:
        """Look at it."""
        given.append({"size": size, "columns": columns, "scale": scale, "json": as_json})
        if size is Size.LARGE:
            raise ValueError("too large")
        return 0

    return toys


def test_passes_only_given_options(room: App, given: list[dict[str, Any]]) -> None:
    assert run(room, ["make", "three", "--size", "s", "--no-titled", "--sizes", "s", "l", "--sizes", "s"]) == 3
    assert run(room, ["make", "one"]) == 0
    sizes = (Size.VERY_SMALL, Size.LARGE, Size.VERY_SMALL)
    three = {"name": "three", "sizes": sizes, "size": Size.VERY_SMALL, "titled": False}
    assert given == [three, {"name": "one", "sizes": ()}]


def test_parses_choices_columns_and_negative_numbers(room: App, given: list[dict[str, Any]]) -> None:
    words = ["--size", "s", "--columns", "size=크기", "steps=a=b", "--scale", "-5", "5", "--json"]
    assert run(room, ["look", *words]) == 0
    columns = {"size": "크기", "steps": "a=b"}
    expected = {"size": Size.VERY_SMALL, "columns": columns, "scale": (-5.0, 5.0), "json": True}
    assert given == [expected]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["look", "--size", "very-small"], 'Invalid value "very-small" for --size. Choose from: "s", "l".'),
        (["look", "--columns", "크기"], "is not ROLE=NAME with a role of size, steps, titled"),
        (["look", "--size", "l"], "too large"),
        (["make"], "requires an argument"),
        (["make", "one", "--steps", "many"], "--steps"),
        (["make", "one", "--stepps", "3"], "Did you mean --steps"),
        (["mend"], "unknown command 'mrc toys mend': `mrc toys --help` lists the commands"),
        (["maek"], "unknown command 'mrc toys maek': did you mean 'make'?"),
    ],
)
def test_reports_invalid_arguments_in_a_single_line(
    words: list[str], expected: str, room: App, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(room, words) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert expected in message
    assert "Traceback" not in message


def test_an_error_can_have_more_lines(room: App, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(room, ["look", "--size", "l"], lambda error: [f"  {type(error).__name__}"]) == 2
    assert capsys.readouterr().err == "error: too large\n  ValueError\n"


def test_help_lists_flags_choices_and_defaults(room: App, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(room, ["make", "--help"]) == 0
    help_text = " ".join(capsys.readouterr().out.split())
    assert "Usage: mrc toys make" in help_text
    assert "--size CHOICE how large [choices: s, l] [default: l]" in help_text
    assert "--steps INT how many steps [default: 5]" in help_text
    assert "--titled, --no-titled with titles [default: True]" in help_text
    assert "--sizes CHOICE... [choices: s, l]" in help_text


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (VERBOSE, *QUIET):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize("words", [["-v", "make", "a"], ["make", "a", "--verbose"], ["make", "a"]])
def test_verbose_shows_library_messages(words: list[str], room: App, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet()
    if len(words) == 2:
        monkeypatch.setenv(VERBOSE, "1")
    assert run(room, words) == 0
    assert os.environ[VERBOSE] == "1"
    assert not set(QUIET) & set(os.environ)


def test_escapes_control_characters_and_json_stays_valid(capsys: pytest.CaptureFixture[str]) -> None:
    text = "종류\x1b[2J\x07\x9b31m\x7f\r\u202e끝\t\n"
    assert escape_control_characters(text) == "종류\\u001b[2J\\u0007\\u009b31m\\u007f\\u000d\\u202e끝\t\n"
    print_line(text)
    print_line(text, error=True)
    out, errors = capsys.readouterr()
    assert out == errors == escape_control_characters(text) + "\n"
    content = {"kind": "\x9b31m\u202e\x7f가"}
    assert json.loads(escape_control_characters(json.dumps(content, ensure_ascii=False))) == content


@pytest.mark.usefixtures("unset")
def test_hides_library_messages_below_error() -> None:
    quiet()
    assert {name: os.environ[name] for name in QUIET} == QUIET
    assert not logging.getLogger("sentence_transformers").isEnabledFor(logging.WARNING)
    assert logging.getLogger("data").isEnabledFor(logging.WARNING)
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn_explicit("a hint", UserWarning, "model.py", 1, module="transformers.models.bert")
        warnings.warn_explicit("ours", UserWarning, "store.py", 1, module="mrc_workbench.data.store")
    assert [str(warning.message) for warning in caught] == ["ours"]


def cells(table: pd.DataFrame) -> list[list[str]]:
    content = csv_bytes(table)
    assert content.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


@pytest.mark.parametrize("text", ["=1+1", "+82", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "＠SUM(A1)"])
def test_csv_escapes_formulas(text: str) -> None:
    assert cells(pd.DataFrame({"a": [text]}))[1] == [f"'{text}"]
    assert cells(pd.DataFrame({text: ["a"]}))[0] == [f"'{text}"]


def test_csv_keeps_other_values_and_duplicate_columns() -> None:
    table = pd.DataFrame({"row": [-3, 4], "text": ["서울, =수도", 'a"b\nc'], "mixed": [None, -1.5]})
    assert cells(table) == [["row", "text", "mixed"], ["-3", "서울, =수도", ""], ["4", 'a"b\nc', "-1.5"]]
    assert cells(pd.DataFrame([["=a", "b"]], columns=["x", "x"])) == [["x", "x"], ["'=a", "b"]]
