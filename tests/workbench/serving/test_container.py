"""The Dockerfile and the compose example of the guide fit the command that they start."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.workbench.cli import all_commands
from mrc_workbench.workbench.serving.app import METHODS

GUIDE = PROJECT / "docs" / "guides" / "serving.md"


def stages(text: str) -> dict[str, list[str]]:
    """Return the instructions of each stage, by its name."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found: dict[str, list[str]] = {}
    name = ""
    for line in joined.splitlines():
        if start := re.fullmatch(r"FROM (\S+) AS (\w+)", line):
            name = start[2]
            found[name] = [f"FROM {start[1]}"]
        elif line and not line.startswith("#"):
            found[name].append(line)
    return found


@pytest.fixture
def dockerfile() -> dict[str, list[str]]:
    return stages((PROJECT / "Dockerfile").read_text(encoding="utf-8"))


def of(instructions: list[str], name: str) -> str:
    (found,) = [line.partition(" ")[2] for line in instructions if line.startswith(f"{name} ")]
    return found


def test_the_app_is_the_last_stage_and_every_stage_follows_the_base(dockerfile: dict[str, list[str]]) -> None:
    assert list(dockerfile) == ["base", "serve", "app"]
    assert [of(dockerfile[name], "FROM") for name in ("serve", "app")] == ["base", "base"]
    assert "USER mrc" in dockerfile["base"]
    copied = [line.split()[1:-1] for line in dockerfile["base"] if line.startswith("COPY ")]
    assert all(Path(PROJECT, name).exists() for names in copied for name in names)


def test_the_server_s_stage_starts_a_command_and_probes_a_path_of_its_own(dockerfile: dict[str, list[str]]) -> None:
    stage = dockerfile["serve"]
    assert json.loads(of(stage, "ENTRYPOINT")) == ["python", "-m", "mrc_workbench", "serve"]
    words = json.loads(of(stage, "CMD"))
    assert serves(words) == of(stage, "EXPOSE")
    options, _, probe = of(stage, "HEALTHCHECK").partition(" CMD ")
    assert "--start-period" in options
    program = json.loads(probe)
    compile(program[-1], "HEALTHCHECK", "exec")
    (address,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", program[-1])
    assert address == (of(stage, "EXPOSE"), "/readyz")
    assert address[1] in METHODS


def serves(words: list[str]) -> str:
    """Return the port that the words of `mrc serve` name; they are its options."""
    _, bound, _ = all_commands().parse_args(["serve", *words], exit_on_error=False, print_error=False)
    assert bound.kwargs["host"] == "0.0.0.0"  # noqa: S104
    return str(bound.kwargs["port"])


def test_the_compose_example_builds_the_server_s_stage(dockerfile: dict[str, list[str]]) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    compose: dict[str, Any] = yaml.safe_load(block)
    (service,) = compose["services"].values()
    assert service["build"]["target"] in dockerfile
    port = serves(service["command"])
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    (volume,) = service["volumes"]
    assert volume.partition(":")[0] in compose["volumes"]
    assert f"VOLUME {volume.partition(':')[2]}" in dockerfile["base"]
    assert "MRC_SERVE_KEY" in service["environment"]


def test_the_commands_of_the_guide_name_a_stage_that_exists(dockerfile: dict[str, list[str]]) -> None:
    built = [
        shlex.split(line) for line in GUIDE.read_text(encoding="utf-8").splitlines() if line.startswith("docker build")
    ]
    assert built
    for words in built:
        assert words[words.index("--target") + 1] in dockerfile
