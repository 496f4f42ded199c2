"""The wheel holds what the app needs, works from an empty folder, and brings one top-level name."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import PROJECT
from tests.programs import free_port, wait_for

pytestmark = pytest.mark.slow
RUN = "import sys; from mrc_workbench.__main__ import main; sys.exit(main())"
DECOYS = ("data", "models", "retrieval", "training", "labs", "workbench", "jobs", "text", "views", "serving")
# scripts: what a folder that was taken away runs, and what Streamlit runs for every visitor
SCRIPTS = ("mrc_workbench.retrieval.takeaway.scripts.", "mrc_workbench.workbench.frame")
EVERY_MODULE = """
import pkgutil, sys
from importlib import import_module
import mrc_workbench
for module in pkgutil.walk_packages(mrc_workbench.__path__, "mrc_workbench."):
    if not module.name.startswith(SCRIPTS):
        import_module(module.name)
print(*(name for name in sys.modules if name.partition(".")[0] in DECOYS))
print(*(name for name in sys.modules if name.startswith("mrc_workbench.")))
"""
EXPERIMENT = 'data = "sample"\nks = [1, 5]\n[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel, built here, is all that is installed."""
    built, site = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built), str(PROJECT)]
    subprocess.run(build, check=True, timeout=120)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.fixture
def environment(site: Path, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "MRC_WORKSPACE"}
    return kept | {"PYTHONPATH": str(site), "HOME": str(tmp_path)}


def mrc(environment: dict[str, str], folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", RUN, *words]
    asked = {"cwd": folder, "env": environment, "timeout": 120}
    return subprocess.run(command, check=False, capture_output=True, text=True, **asked)


def test_the_wheel_holds_every_file_of_the_rooms(site: Path) -> None:
    rooms = [path.name for path in (site / "mrc_workbench").iterdir() if path.is_dir() and path.name != ".streamlit"]
    assert set(rooms) == {"data", "models", "retrieval", "training", "labs", "workbench"}
    assert [path.name for path in site.iterdir() if not path.name.endswith(".dist-info")] == ["mrc_workbench"]
    assert {"__init__.py", "__main__.py", "app.py", "py.typed"} <= {
        path.name for path in (site / "mrc_workbench").iterdir()
    }
    for room in rooms:
        installed = [path for path in (site / "mrc_workbench" / room).rglob("*") if path.is_file()]
        here = [path for path in (PROJECT / room).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert sorted(path.relative_to(site / "mrc_workbench") for path in installed) == sorted(
            path.relative_to(PROJECT) for path in here
        )


def test_every_module_is_imported_from_the_wheel_beside_decoys(environment: dict[str, str], tmp_path: Path) -> None:
    for name in DECOYS:
        (tmp_path / f"{name}.py").write_text("raise ImportError('a decoy was imported')", encoding="utf-8")
    program = EVERY_MODULE.replace("SCRIPTS", repr(SCRIPTS)).replace("DECOYS", repr(DECOYS))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    bare, ours = done.stdout.splitlines()
    assert bare == ""
    assert {f"mrc_workbench.{name}" for name in ("data.store", "labs.reading.cli", "workbench.cli")} <= set(
        ours.split()
    )


def test_a_job_starts_beside_decoys(environment: dict[str, str], tmp_path: Path) -> None:
    """Processes begin in the folder that holds the package, where nothing hides its names."""
    for name in DECOYS:
        (tmp_path / f"{name}.py").write_text("raise ImportError('a decoy was imported')", encoding="utf-8")
    listed = mrc(environment, tmp_path, "data", "inspect", "sample", "--json")
    assert listed.returncode == 0, listed.stderr


def test_a_comparison_from_an_empty_folder(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    assert "Run an experiment file" in mrc(environment, folder, "--help").stdout
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    done = mrc(environment, folder, "compare", "experiment.toml", "--out", "result")
    assert done.returncode == 0, done.stderr
    words, stored = done.stdout.splitlines()[-2:]
    assert words.split()[0] == "words"
    key = stored.removeprefix("stored as ")
    assert key in mrc(environment, folder, "list").stdout
    export = ("export", key, "words", "--to", "opensearch", "--out", "taken")
    taken = mrc(environment, folder, *export)
    assert taken.returncode == 0, taken.stderr
    assert (folder / "taken" / "engine.py").is_file()
    assert (folder / "result" / "report.html").is_file()
    kept = mrc(environment, folder, "data", "import", str(PROJECT / "data/sample/korean.json"))
    assert kept.returncode == 0, kept.stderr
    assert (folder / "workspace").is_dir()  # what a person makes stays where they work


def test_the_app_from_an_empty_folder(environment: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    options = ("--server.port", str(port), "--server.headless", "true")
    command = [sys.executable, "-c", RUN, "app", "--", *options]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://localhost:{port}/_stcore/health")
        finally:
            process.terminate()
            process.wait(timeout=30)
