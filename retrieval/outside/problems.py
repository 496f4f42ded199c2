"""Why a retriever from outside cannot be used or has failed."""

from mrc_workbench.data.problems import Failure

_LONGEST = 200  # characters of foreign text in a message


class OutsideError(Failure, ValueError):
    """A retriever from outside failed; `code` is a key of the section `outside` in the locale files."""


def shortened(text: object) -> str:
    """Return text of another program on one line, at most 200 characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
