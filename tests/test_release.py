"""Version, changelog and citation agree, and a tag that does not name the version publishes nothing."""

import re
import subprocess
import sys
from datetime import date

import pytest

from tests import release
from tests.release import PROJECT, Release

KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # of keepachangelog.com, 1.1.0


def headings() -> list[str]:
    return re.findall(r"^## (.*)$", (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_tag_of_the_version_can_be_released() -> None:
    assert release.problems(f"v{release.version()}") == []


def test_citation_and_changelog_name_the_version_of_pyproject() -> None:
    assert release.citation() == release.changelog()[0]
    assert release.citation().version == release.version()


def test_the_changelog_begins_with_unreleased_changes_and_lists_releases_newest_first() -> None:
    first, *released = headings()
    assert first == "[Unreleased]"
    releases = release.changelog()
    assert released == [f"[{entry.version}] - {entry.date}" for entry in releases]
    versions = [tuple(map(int, entry.version.split("."))) for entry in releases]
    assert versions == sorted(set(versions), reverse=True)
    dates = [date.fromisoformat(entry.date) for entry in releases]
    assert dates == sorted(dates, reverse=True)


def test_changes_are_grouped_by_kind_each_kind_once() -> None:
    text = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.*)$", section, re.MULTILINE)
        assert kinds
        assert set(kinds) <= KINDS
        assert len(kinds) == len(set(kinds)), section.splitlines()[0]
        assert "\n- " not in section.partition("\n### ")[0]


@pytest.mark.parametrize(
    ("citation", "changelog", "names"),
    [
        (Release("1.0.0", "2026-01-02"), Release("1.0.0", "2026-01-03"), "2026-01-03"),
        (Release("0.9.0", "2026-01-02"), Release("1.0.0", "2026-01-02"), "0.9.0"),
        (Release("1.1.0", "2026-01-02"), Release("1.1.0", "2026-01-02"), "1.1.0"),
    ],
)
def test_files_that_disagree_are_named(
    monkeypatch: pytest.MonkeyPatch, citation: Release, changelog: Release, names: str
) -> None:
    monkeypatch.setattr(release, "version", lambda: "1.0.0")
    monkeypatch.setattr(release, "citation", lambda: citation)
    monkeypatch.setattr(release, "changelog", lambda: [changelog])
    (problem,) = release.problems("v1.0.0")
    assert names in problem


@pytest.mark.slow
def test_another_tag_ends_the_release() -> None:
    command = [sys.executable, "-m", "tests.release"]
    wrong = subprocess.run([*command, "v0.0.1"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "The tag is v0.0.1" in wrong.stderr
    assert subprocess.run([*command, f"v{release.version()}"], cwd=PROJECT, check=False).returncode == 0
