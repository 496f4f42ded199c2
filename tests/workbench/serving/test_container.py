"""The Dockerfile and the compose example of the guide match the commands that they start."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.workbench.cli import all_commands
from mrc_workbench.workbench.serving.app import METHODS
from tests.programs import free_port, wait_for
from tests.workbench.serving.test_command import EXPERIMENT

GUIDE = PROJECT / "docs" / "guides" / "serving.md"


def stages(text: str) -> dict[str, list[str]]:
    """Return the instructions by stage."""
    joined = re.sub(r"\\\n\s*", " ", text)
    instructions_by_stage: dict[str, list[str]] = {}
    name = ""
    for line in joined.splitlines():
        if start := re.fullmatch(r"FROM (\S+) AS (\w+)", line):
            name = start[2]
            instructions_by_stage[name] = [f"FROM {start[1]}"]
        elif line and not line.startswith("#"):
            instructions_by_stage[name].append(line)
    return instructions_by_stage


@pytest.fixture
def dockerfile() -> dict[str, list[str]]:
    return stages((PROJECT / "Dockerfile").read_text(encoding="utf-8"))


def instruction(instructions: list[str], name: str) -> str:
    (value,) = [line.partition(" ")[2] for line in instructions if line.startswith(f"{name} ")]
    return value


def test_app_is_last_stage_and_all_stages_extend_base(dockerfile: dict[str, list[str]]) -> None:
    assert list(dockerfile) == ["base", "serve", "app"]
    assert [instruction(dockerfile[name], "FROM") for name in ("serve", "app")] == ["base", "base"]
    assert "USER mrc" in dockerfile["base"]
    copied = [line.split()[1:-1] for line in dockerfile["base"] if line.startswith("COPY ")]
    assert all(Path(PROJECT, name).exists() for names in copied for name in names)


def test_server_stage_starts_command_with_its_own_probe(dockerfile: dict[str, list[str]]) -> None:
    stage = dockerfile["serve"]
    assert json.loads(instruction(stage, "ENTRYPOINT")) == ["mrc", "serve"]
    words = json.loads(instruction(stage, "CMD"))
    assert serves(words) == instruction(stage, "EXPOSE")
    options, _, probe = instruction(stage, "HEALTHCHECK").partition(" CMD ")
    assert "--start-period" in options
    program = json.loads(probe)
    compile(program[-1], "HEALTHCHECK", "exec")
    (address,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", program[-1])
    assert address == (instruction(stage, "EXPOSE"), "/readyz")
    assert address[1] in METHODS


def serves(words: list[str]) -> str:
    """Parse the options of `mrc serve`; returns the port."""
    _, bound, _ = all_commands().parse_args(["serve", *words], exit_on_error=False, print_error=False)
    assert bound.kwargs["host"] == "0.0.0.0"  # noqa: S104
    return str(bound.kwargs["port"])


def test_compose_example_builds_server_stage(dockerfile: dict[str, list[str]]) -> None:
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


def test_guide_commands_name_existing_stages(dockerfile: dict[str, list[str]]) -> None:
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    built = [shlex.split(line) for line in lines if line.startswith("docker build")]
    assert built
    assert {words[words.index("--target") + 1] for words in built} <= {*dockerfile}


def ignored_by_docker(path: Path, patterns: list[str]) -> bool:
    """Whether a pattern of .dockerignore matches a path relative to the project."""
    names = {pattern: path.name if pattern.startswith("**/") else path.as_posix() for pattern in patterns}
    return any(fnmatchcase(name, pattern.removeprefix("**/")) for pattern, name in names.items())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the image: `app` has the files of `COPY . .`, and `usr/bin` the installed command."""
    root = tmp_path_factory.mktemp("image")
    lines = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.strip("/") for line in lines if line and not line.startswith("#")]

    def ignored(folder: str, names: list[str]) -> set[str]:
        relative = Path(folder).relative_to(PROJECT)
        return {name for name in names if ignored_by_docker(relative / name, patterns)}

    shutil.copytree(PROJECT, root / "app", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-build-isolation"]
    install = [*pip, "--no-deps", "--prefix", str(root / "usr"), "--editable", str(root / "app")]
    subprocess.run(install, check=True, timeout=120)
    (links,) = (root / "usr").rglob("*.pth")
    assert links.read_text(encoding="utf-8").split() == [str(root / "app")]
    return root


def environment(image: Path, workspace: Path, instructions: list[str]) -> dict[str, str]:
    """Return the environment of the stage with paths of this machine."""
    words = [word for line in instructions if line.startswith("ENV ") for word in line.split()[1:]]
    variables = dict(word.split("=", 1) for word in words)
    variables |= {"MRC_WORKSPACE": str(workspace), "NUMBA_CACHE_DIR": str(workspace / ".numba")}
    path = os.pathsep.join([str(image / "usr/bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | variables | {"PATH": path, "PYTHONPATH": str(image / "app"), "MRC_SERVE_KEY": "k" * 32}


def run_health_check(command: list[str], probe: str, port: str, image: Path, variables: Mapping[str, str]) -> None:
    """Run the command of a stage at a free port until its health check succeeds."""
    free = str(free_port())
    words = [word.replace(port, free) for word in command]
    program = json.loads(probe.partition(" CMD ")[2])
    with (image / "log").open("w") as log:
        process = subprocess.Popen(words, cwd=image / "app", env=variables, stdout=log, stderr=log)
        try:
            (address,) = re.findall(r"http://[\w.:/]+", program[-1])
            wait_for(address.replace(port, free))
            healthy = [sys.executable, *program[1:-1], program[-1].replace(port, free)]
            assert subprocess.run(healthy, check=False).returncode == 0
        finally:
            process.terminate()
            process.wait(timeout=30)


def test_build_context_excludes_unneeded_files() -> None:
    patterns = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    unneeded = {".git", "tests", "data/__pycache__", ".mypy_cache", ".streamlit/secrets.toml", "workspace"}
    needed = {"app.py", "README.md", "data", "mrc_workbench", ".streamlit", ".streamlit/config.toml", "requirements"}
    assert {path for path in unneeded | needed if ignored_by_docker(Path(path), patterns)} == unneeded


@pytest.mark.slow
def test_server_command_becomes_healthy_in_image(dockerfile: dict[str, list[str]], image: Path, tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    stage = dockerfile["serve"]
    command = json.loads(instruction(stage, "ENTRYPOINT")) + json.loads(instruction(stage, "CMD"))
    command = [word.replace("/workspace", str(tmp_path)).replace("0.0.0.0", "127.0.0.1") for word in command]  # noqa: S104
    variables = environment(image, tmp_path, dockerfile["base"] + stage)
    run_health_check(command, instruction(stage, "HEALTHCHECK"), instruction(stage, "EXPOSE"), image, variables)


@pytest.mark.slow
def test_app_command_becomes_healthy_in_image(dockerfile: dict[str, list[str]], image: Path, tmp_path: Path) -> None:
    stage = dockerfile["app"]
    variables = environment(image, tmp_path, dockerfile["base"] + stage)
    port = instruction(stage, "EXPOSE")
    variables["STREAMLIT_SERVER_ADDRESS"] = "127.0.0.1"
    command = [*json.loads(instruction(stage, "CMD")), "--server.port", port]
    assert variables["STREAMLIT_SERVER_PORT"] == port
    run_health_check(command, instruction(stage, "HEALTHCHECK"), port, image, variables)
