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

from mrc_workbench.data.commands import AsJson, carry_out, columns_of, commands_of, one_of, several_of, takes
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.terminal import QUIET, VERBOSE, harmless, quiet, tell


class Size(StrEnum):
    VERY_SMALL = "s"
    LARGE = "l"


@dataclass
class Options:
    size: Size = field(default=Size.LARGE, metadata={"help": "how large"})
    steps: int = field(default=3, metadata={"help": "how many steps"})
    titled: bool = field(default=True, metadata={"help": "with titles"})


def run(room: App, words: Sequence[str], error_lines: Callable[[Exception], Sequence[str]] = lambda _: ()) -> int:
    """Run words as the commands of a room that is the only one; returns the exit status."""
    mrc = commands_of("mrc", "")
    mrc.command(room)
    return carry_out(mrc, [*room.name, *words], error_lines)


@pytest.fixture
def given() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def room(given: list[dict[str, Any]]) -> App:
    commands = commands_of("toys", "Toys.")

    @commands.command
    @takes(Options, suited=Options(steps=5))
    def make(name: str, /, *, sizes: Annotated[tuple[Size, ...], several_of(Size)] = (), **chosen: Any) -> int:
        """Make a toy."""
        given.append({"name": name, "sizes": sizes, **chosen})
        return 3 if name == "three" else 0

    @commands.command
    def look(
        *,
        size: Annotated[Size | None, one_of(Size)] = None,
        columns: Annotated[dict[str, str] | None, columns_of(Options)] = None,
        scale: Annotated[tuple[float, float] | None, Parameter(help="its ends")] = None,
        as_json: AsJson = False,
    ) -> int:
        """Look at it."""
        given.append({"size": size, "columns": columns, "scale": scale, "json": as_json})
        if size is Size.LARGE:
            raise ValueError("too large")
        return 0

    return commands


def test_only_what_was_given_is_passed_on(room: App, given: list[dict[str, Any]]) -> None:
    assert run(room, ["make", "three", "--size", "s", "--no-titled", "--sizes", "s", "l", "--sizes", "s"]) == 3
    assert run(room, ["make", "one"]) == 0
    sizes = (Size.VERY_SMALL, Size.LARGE, Size.VERY_SMALL)
    assert given == [
        {"name": "three", "sizes": sizes, "size": Size.VERY_SMALL, "titled": False},
        {"name": "one", "sizes": ()},
    ]


def test_values_of_choices_columns_and_numbers_below_zero(room: App, given: list[dict[str, Any]]) -> None:
    words = ["--size", "s", "--columns", "size=크기", "steps=a=b", "--scale", "-5", "5", "--json"]
    assert run(room, ["look", *words]) == 0
    told = {"size": Size.VERY_SMALL, "columns": {"size": "크기", "steps": "a=b"}, "scale": (-5.0, 5.0), "json": True}
    assert given == [told]


@pytest.mark.parametrize(
    ("words", "told"),
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
def test_what_makes_no_sense_is_told_in_a_line(
    words: list[str], told: str, room: App, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(room, words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert told in said
    assert "Traceback" not in said


def test_an_error_can_have_more_lines(room: App, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(room, ["look", "--size", "l"], lambda error: [f"  {type(error).__name__}"]) == 2
    assert capsys.readouterr().err == "error: too large\n  ValueError\n"


def test_help_tells_every_flag_with_what_suits(room: App, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(room, ["make", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Usage: mrc toys make" in told
    assert "--size CHOICE how large [choices: s, l] [default: l]" in told
    assert "--steps INT how many steps [default: 5]" in told
    assert "--titled, --no-titled with titles [default: True]" in told
    assert "--sizes CHOICE... [choices: s, l]" in told


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (VERBOSE, *QUIET):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize("words", [["-v", "make", "a"], ["make", "a", "--verbose"], ["make", "a"]])
def test_libraries_speak_wherever_they_are_asked_to(
    words: list[str], room: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet()
    if len(words) == 2:
        monkeypatch.setenv(VERBOSE, "1")
    assert run(room, words) == 0
    assert os.environ[VERBOSE] == "1"
    assert not set(QUIET) & set(os.environ)


def test_no_text_commands_a_terminal_and_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = "종류\x1b[2J\x07\x9b31m\x7f\r\u202e끝\t\n"
    assert harmless(text) == "종류\\u001b[2J\\u0007\\u009b31m\\u007f\\u000d\\u202e끝\t\n"
    tell(text)
    tell(text, error=True)
    out, errors = capsys.readouterr()
    assert out == errors == harmless(text) + "\n"
    content = {"kind": "\x9b31m\u202e\x7f가"}
    assert json.loads(harmless(json.dumps(content, ensure_ascii=False))) == content


@pytest.mark.usefixtures("unset")
def test_libraries_keep_to_themselves_what_is_no_error() -> None:
    quiet()
    assert {name: os.environ[name] for name in QUIET} == QUIET
    assert not logging.getLogger("sentence_transformers").isEnabledFor(logging.WARNING)
    assert logging.getLogger("data").isEnabledFor(logging.WARNING)
    with warnings.catch_warnings(record=True) as told:
        warnings.warn_explicit("a hint", UserWarning, "model.py", 1, module="transformers.models.bert")
        warnings.warn_explicit("ours", UserWarning, "store.py", 1, module="mrc_workbench.data.store")
    assert [str(one.message) for one in told] == ["ours"]


def cells(table: pd.DataFrame) -> list[list[str]]:
    content = csv_bytes(table)
    assert content.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


@pytest.mark.parametrize("text", ["=1+1", "+82", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "＠SUM(A1)"])
def test_a_text_that_would_be_a_formula_is_harmless(text: str) -> None:
    assert cells(pd.DataFrame({"a": [text]}))[1] == [f"'{text}"]
    assert cells(pd.DataFrame({text: ["a"]}))[0] == [f"'{text}"]


def test_everything_else_stays_and_columns_of_the_same_name() -> None:
    table = pd.DataFrame({"row": [-3, 4], "text": ["서울, =수도", 'a"b\nc'], "mixed": [None, -1.5]})
    assert cells(table) == [["row", "text", "mixed"], ["-3", "서울, =수도", ""], ["4", 'a"b\nc', "-1.5"]]
    assert cells(pd.DataFrame([["=a", "b"]], columns=["x", "x"])) == [["x", "x"], ["'=a", "b"]]
