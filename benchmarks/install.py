"""Measure the size and time of `pip install` for the core and each extra: `python -m benchmarks install`.

The wheel is built and installed into empty environments, which needs a package registry. `core_scenario.py` runs in the
environment of the core.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from time import perf_counter

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mrc_workbench.data.workspace import PROJECT

_MEGABYTE = 1e6
_SCENARIO = Path(__file__).with_name("core_scenario.py")
_EXTRAS = ("app", "models", "train", "serve", "llm", "onnx", "milvus", "ray")


def install() -> list[str]:
    """Return a Markdown table: packages and megabytes of the core and each extra, and the seconds of the core."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = _build_wheel(Path(folder))
        python, seconds = _install_wheel(Path(folder) / "core", wheel, "")
        steps = _run_scenario(python, Path(folder) / "scenario")
        rows = [_row("", python)]
        for extra in _EXTRAS:
            environment = Path(folder) / extra
            rows.append(_row(extra, _install_wheel(environment, wheel, extra)[0]))
            shutil.rmtree(environment)  # the GPU libraries of torch take gigabytes
    return ["| `pip install` | packages | MB on disk |", "|---|---:|---:|", *rows, "", _timing(seconds, steps)]


def _row(extra: str, python: Path) -> str:
    site = _site_packages(python)
    count = len(list(distributions(path=[str(site)])))
    name = f"mrc-workbench[{extra}]" if extra else "mrc-workbench"
    return f"| `{name}` | {count} | {_folder_bytes(site) / _MEGABYTE:,.0f} |"


def _timing(seconds: float, steps: dict[str, float]) -> str:
    read = f"reading six files takes {steps['read']:.1f} s"
    compare = f"a first comparison with its report {steps['compare']:.1f} s"
    return f"The core installs in {seconds:.0f} s. In a fresh process, {read} and {compare}."


def core_packages() -> list[str]:
    """Return a Markdown table: megabytes of each requirement of the core, without and with its own requirements."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [canonicalize_name(Requirement(line).name) for line in project["dependencies"]]
    installed: dict[str, Distribution] = {canonicalize_name(package.name): package for package in distributions()}
    sizes: dict[str, float] = {name: _package_bytes(package) / _MEGABYTE for name, package in installed.items()}
    lines = ["| package | MB | MB with requirements |", "|---|---:|---:|"]
    for name in sorted(names, key=lambda name: -sizes[name]):
        total = sum(sizes[package] for package in _closure([name], installed))
        lines.append(f"| {name} | {sizes[name]:,.1f} | {total:,.1f} |")
    total = sum(sizes[package] for package in _closure(names, installed))
    return [*lines, f"| all | | {total:,.1f} |"]


def _build_wheel(folder: Path) -> Path:
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(PROJECT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def _install_wheel(folder: Path, wheel: Path, extra: str) -> tuple[Path, float]:
    """Install the wheel into an empty environment without pip's cache; returns its Python and the seconds."""
    venv.create(folder)
    python = folder / "bin" / "python"
    start = perf_counter()
    _pip("--python", str(python), "install", "--no-cache-dir", f"{wheel}[{extra}]" if extra else str(wheel))
    return python, perf_counter() - start


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def _site_packages(python: Path) -> Path:
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    return site


def _run_scenario(python: Path, folder: Path) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if name not in ("MRC_WORKSPACE", "PYTHONPATH")}
    command = [str(python), str(_SCENARIO), str(folder)]
    completed = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    steps: dict[str, float] = json.loads(completed.stdout.splitlines()[-1])
    return steps


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _package_bytes(package: Distribution) -> int:
    files = (Path(str(package.locate_file(file))) for file in package.files or ())
    return sum(path.stat().st_size for path in files if path.is_file())


def _closure(names: Sequence[str], installed: dict[str, Distribution]) -> set[str]:
    """Return these packages and all their requirements on this machine, without extras."""
    required: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in required or name not in installed:
            continue
        required.add(name)
        requirements = map(Requirement, installed[name].requires or ())
        pending += [
            canonicalize_name(requirement.name)
            for requirement in requirements
            if not requirement.marker or requirement.marker.evaluate({"extra": ""})
        ]
    return required
