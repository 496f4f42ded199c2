"""Messages of the reading of data, with the arguments of `load` in place of the command line's flags."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_FILE = re.compile(r"\b([Tt]he|this) file\b")  # in the templates of problems
_LONGEST = 200


@contextmanager
def naming_arguments(reference: str = "", *, is_table: bool = False) -> Iterator[None]:
    """Reword a `DataError`: flags are arguments, a table of Python is no file, and a path is a missing file.

    `reference` is what the user gave, if it may be a path.
    """
    try:
        yield
    except DataError as error:
        message = message_of(error.problem, is_table=is_table)
        is_missing = error.problem.code is ProblemCode.UNKNOWN_SET and _looks_like_path(reference)
        if is_missing:
            known = error.problem.details.get("known", "")
            path = shown(reference, _LONGEST)
            message = f"There is no dataset {path}: no such file, looked for from {Path.cwd()}. Datasets: {known}."
        error.args = (message,)
        raise


def message_of(problem: Problem, *, is_table: bool = False) -> str:
    """Return the message of a problem for a program that calls `load`."""
    if "flags" in problem.details:
        flags = str(problem.details["flags"])
        problem = replace(problem, details=problem.details | {"flags": _arguments(flags)})
    return _FILE.sub(r"\1 table", problem.message) if is_table else problem.message


def _arguments(flags: str) -> str:
    """Return flags as arguments: `--columns context=본문` as `columns={"context": "본문"}`."""
    try:
        words = shlex.split(flags)
    except ValueError:
        return flags
    arguments = []
    for flag, value in pairwise(words):
        role, _, name = value.partition("=")
        if flag == "--columns":
            arguments.append(f'columns={{"{role}": "{name}"}}')
        elif flag == "--encoding":
            arguments.append(f'encoding="{value}"')
    return " or ".join(arguments) or flags


def _looks_like_path(reference: str) -> bool:
    return bool(os.path.dirname(reference) or Path(reference).suffix)  # noqa: PTH120 - of any text
