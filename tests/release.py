"""What a release needs: `python -m tests.release vX.Y.Z` exits with 1 unless the tag and the project's files agree.

The version in `pyproject.toml` is the only one; CITATION.cff and CHANGELOG.md repeat it with the release's date.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
HEADING = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


class Release(NamedTuple):
    """A version as X.Y.Z, and the day on which it was published as YYYY-MM-DD."""

    version: str
    date: str


def version() -> str:
    """Return the version in `pyproject.toml`."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def changelog() -> list[Release]:
    """Return the releases that CHANGELOG.md describes, in its order: the newest first."""
    text = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    return [Release(*match.groups()) for match in HEADING.finditer(text)]


def citation() -> Release:
    """Return the release that CITATION.cff names. Raises `ValueError` if a field is missing."""
    text = (PROJECT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(version|date-released): *(\S+)$", text, re.MULTILINE))
    if missing := {"version", "date-released"} - fields.keys():
        raise ValueError(f"CITATION.cff has no {', '.join(sorted(missing))}")
    return Release(fields["version"], fields["date-released"])


def problems(tag: str) -> list[str]:
    """Return a sentence for each file that does not agree with the tag; an empty list allows the release."""
    messages = []
    if tag != f"v{version()}":
        messages.append(f"The tag is {tag}, and pyproject.toml has version {version()}.")
    newest = changelog()[0]
    if newest.version != version():
        messages.append(f"The newest release in CHANGELOG.md is {newest.version}, not {version()}.")
    if citation() != newest:
        messages.append(f"CITATION.cff names {citation()}, CHANGELOG.md {newest}.")
    return messages


if __name__ == "__main__":
    for problem in (release_problems := problems(sys.argv[1])):
        print(problem, file=sys.stderr)  # noqa: T201
    sys.exit(bool(release_problems))
