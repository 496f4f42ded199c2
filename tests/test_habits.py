"""Workflows, hooks and templates are valid and pinned and run existing commands; version and changelog agree."""

import re
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from mrc_workbench.data.workspace import PROJECT
from tests import release
from tests.release import Release

GITHUB = PROJECT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
# an action that others wrote runs at one commit; the comment names its version for readers and for dependabot
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # of keepachangelog.com, 1.1.0


def loaded(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict), path
    return content


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    return dict(loaded(path)["jobs"])


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job.get("steps", [])]


def test_every_yaml_file_is_a_mapping() -> None:
    files = [*GITHUB.rglob("*.yml"), PROJECT / ".pre-commit-config.yaml"]
    assert len(files) >= 7
    assert all(loaded(path) for path in files)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_of_others_is_pinned_to_a_commit(path: Path) -> None:
    lines = [line.strip().removeprefix("- ") for line in path.read_text(encoding="utf-8").splitlines()]
    uses = [line for line in lines if line.startswith("uses: ")]
    assert uses
    ours = {f"uses: ./{other.relative_to(PROJECT)}" for other in WORKFLOWS}
    assert [line for line in uses if line not in ours and not PINNED.match(line)] == []


def test_workflows_use_the_same_version_of_an_action() -> None:
    uses = {step["uses"] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    names = [name.partition("@")[0] for name in uses]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_least_rights_and_ends(path: Path) -> None:
    assert loaded(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        assert "uses" in job or job["timeout-minutes"] <= 90, name
        assert set(job.get("permissions", {})) <= {"id-token"}, name
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_workflows_run_the_commands_of_the_makefile() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", (PROJECT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [shlex.split(step["run"], comments=True) for path in WORKFLOWS for step in steps(path) if "run" in step]
    for program, *words in commands:
        if program == "make":
            assert re.search(rf"^{words[0]}:.*##", makefile, re.MULTILINE), words
        elif program == "docker":
            assert words[0] != "build" or words[words.index("--target") + 1] in stages
        else:
            assert [program, *words] == ["python", "-m", "tests.release", "$GITHUB_REF_NAME"]
    make_targets = {words[0] for program, *words in commands if program == "make"}
    assert make_targets == {"check", "test", "docs", "package"}
    required = (PROJECT / ".ci" / "run").read_text(encoding="utf-8")
    assert set(re.findall(r"^make (\w+)$", required, re.MULTILINE)) <= make_targets


def test_the_versions_of_python_are_those_of_the_classifiers() -> None:
    ci = jobs(GITHUB / "workflows/ci.yml").values()
    (matrix,) = [job["strategy"]["matrix"]["python"] for job in ci if "strategy" in job]
    project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert f'requires-python = ">={matrix[0]}"' in project


def test_only_a_tag_publishes_and_only_after_everything_else() -> None:
    workflow = loaded(GITHUB / "workflows/release.yml")
    (tags,) = workflow[True].values()  # YAML reads `on` as a boolean
    assert list(tags) == ["tags"]
    assert re.fullmatch(tags["tags"][0].replace(".", r"\."), f"v{release.version()}")
    publishing = workflow["jobs"]["publish"]
    assert publishing["permissions"] == {"id-token": "write"}
    assert workflow["jobs"][publishing["needs"]]["needs"] == "version"
    secrets = [path.name for path in WORKFLOWS if "secrets." in path.read_text(encoding="utf-8")]
    assert secrets == []


def test_pre_commit_runs_the_ruff_of_the_requirements() -> None:
    hooks = {repository["repo"]: repository for repository in loaded(PROJECT / ".pre-commit-config.yaml")["repos"]}
    ruff = hooks["https://github.com/astral-sh/ruff-pre-commit"]
    requirements = (PROJECT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    assert f"ruff=={ruff['rev'].removeprefix('v')}" in requirements.splitlines()
    assert [hook["id"] for hook in ruff["hooks"]] == ["ruff-check", "ruff-format"]
    assert [hook["entry"] for hook in hooks["local"]["hooks"]] == ["make check"]


def test_dependabot_watches_files_that_exist() -> None:
    watched = {update["package-ecosystem"]: update for update in loaded(GITHUB / "dependabot.yml")["updates"]}
    assert set(watched) == {"pip", "github-actions", "docker"}
    for folder in watched["pip"]["directories"]:
        assert list((PROJECT / folder.strip("/")).glob("*.txt")), folder
    assert (PROJECT / watched["docker"]["directory"].strip("/") / "Dockerfile").is_file()


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_what_is_needed(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(names) == len(set(names))
    assert any(field.get("validations", {}).get("required") for field in fields)
    for field in fields:
        assert field["attributes"]["label"], names


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
def test_names_disagreement(monkeypatch: pytest.MonkeyPatch, citation: Release, changelog: Release, names: str) -> None:
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
