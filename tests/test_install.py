"""The wheel holds what the app needs, works from an empty folder, and an extra brings all that its rooms import."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mrc_workbench.data.problems import EXTRAS
from mrc_workbench.data.workspace import PROJECT
from tests.environments import environment_with
from tests.programs import free_port, wait_for

pytestmark = pytest.mark.slow
PythonOf = Callable[[str], Path]  # the Python of an environment with these extras
RUN = "import json, sys; from mrc_workbench.__main__ import main; sys.exit(any(map(main, json.loads(sys.argv[1]))))"
DECOYS = ("data", "models", "retrieval", "training", "labs", "workbench", "jobs", "text", "views", "serving")
# scripts: what a folder that was taken away runs, and what Streamlit runs for every visitor
SCRIPTS = ("mrc_workbench.retrieval.export.scripts.", "mrc_workbench.workbench.frame")
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
DETACHED = """
import sys, time
from pathlib import Path
from mrc_workbench.data.jobs import processes
from mrc_workbench.data.store import find
from mrc_workbench.retrieval.comparison.experiment import read_experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob
processes.FORKS = FORKED and processes.FORKS
experiment = read_experiment(Path("experiment.toml"))
job = ComparisonJob.of(experiment, find(experiment.data).fingerprint)
job.start(experiment)
while not job.done:
    if job.is_unfinished:
        sys.exit(job.log(lines=50))
    time.sleep(0.1)
"""
# Imports all modules, then the libraries named, and prints the extra that each module needs which fails to import
MISSING = """
import json, os, pkgutil, sys
from importlib import import_module
os.environ["MRC_FORK_SERVER"] = "none"  # the app would start one
import mrc_workbench
from mrc_workbench.data.problems import as_missing_extra
needed = {}
for module in pkgutil.walk_packages(mrc_workbench.__path__, "mrc_workbench."):
    if module.name.startswith("mrc_workbench.app") or module.name.startswith(SCRIPTS[0]):
        continue
    try:
        import_module(module.name)
    except ImportError as error:
        details = getattr(as_missing_extra(error), "details", {})
        needed[module.name.removeprefix("mrc_workbench.")] = details.get("extra")
for library in sys.argv[1:]:
    import_module(library)
print(json.dumps(needed))
"""
# modules that can be imported with only this extra
SERVED = {
    "": ("data", "retrieval", "labs", "models.encoders", "workbench.cli"),
    "app": ("workbench.views", "workbench.frame", "labs.embeddings.pages", "labs.language.pages", "labs.reading.pages"),
    "models": ("data", "models", "retrieval", "labs"),
    "train": ("training",),
    "serve": ("workbench.serving",),
    "llm": ("models.llm",),
}
LLM_CLIENT = "models.llm_connection"  # the only module of `models` that needs the extra `llm`
ALL_EXTRAS = "app,train,serve,llm,onnx,milvus"
# where modules may need an extra as they are imported; everything else imports with the core
NEEDED_BY = {
    "app": ("workbench.views", "workbench.frame", "labs.embeddings.pages", "labs.language.pages", "labs.reading.pages"),
    "models": ("models.", "training."),
    "train": ("training.",),
    "serve": ("workbench.serving",),
    "llm": ("models.llm",),
}
EXPERIMENT = 'data = "sample"\nks = [1, 5]\n[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel, built here, is all that is installed."""
    built = tmp_path_factory.mktemp("built")
    site = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(build, cwd=PROJECT, check=True, timeout=120)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.fixture
def environment(site: Path, tmp_path: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "MRC_WORKSPACE"}
    return variables | {"PYTHONPATH": str(site), "HOME": str(tmp_path)}


def run_python(
    *words: str, folder: Path, environment: dict[str, str], python: str = sys.executable
) -> CompletedProcess[str]:
    options = {"cwd": folder, "env": environment, "timeout": 300}
    return subprocess.run([python, *words], check=False, capture_output=True, text=True, **options)


def mrc(environment: dict[str, str], folder: Path, *commands: Sequence[str]) -> list[str]:
    """Run commands in one process until one fails; returns the lines that they print."""
    done = run_python("-c", RUN, json.dumps(commands), folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def write_decoys(folder: Path) -> None:
    for name in DECOYS:
        (folder / f"{name}.py").write_text("raise ImportError('a decoy was imported')", encoding="utf-8")


def test_the_wheel_holds_every_file_of_the_rooms(site: Path) -> None:
    rooms = [path.name for path in (site / "mrc_workbench").iterdir() if path.is_dir() and path.name != ".streamlit"]
    assert set(rooms) == {"api", "data", "models", "retrieval", "training", "labs", "workbench"}
    assert [path.name for path in site.iterdir() if not path.name.endswith(".dist-info")] == ["mrc_workbench"]
    names = {path.name for path in (site / "mrc_workbench").iterdir()}
    assert {"__init__.py", "__main__.py", "app.py", "py.typed"} <= names
    for room in rooms:
        installed = [path for path in (site / "mrc_workbench" / room).rglob("*") if path.is_file()]
        parent = PROJECT / "mrc_workbench" if room == "api" else PROJECT
        here = [path for path in (parent / room).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        expected = sorted(path.relative_to(parent) for path in here)
        assert sorted(path.relative_to(site / "mrc_workbench") for path in installed) == expected


@pytest.mark.parametrize("forks", [True, False], ids=["fork server", "fresh process"])
def test_a_detached_job_starts_beside_decoys(environment: dict[str, str], tmp_path: Path, forks: bool) -> None:
    """Job processes start in the folder that holds the package, where no module hides its names."""
    write_decoys(tmp_path)
    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    done = run_python("-c", DETACHED.replace("FORKED", str(forks)), folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    (scores,) = (tmp_path / "workspace" / "comparisons").glob("*/scores.json")
    assert "words" in scores.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def python_with(site: Path, tmp_path_factory: pytest.TempPathFactory) -> PythonOf:
    """Return the Python of an environment that holds only the wheel and the requirements of an extra."""

    @cache
    def python_of(extra: str) -> Path:
        return environment_with(tmp_path_factory.mktemp(extra or "core") / "env", site, *filter(None, extra.split(",")))

    return python_of


def run_in(python: Path, folder: Path, *words: str) -> CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name not in ("MRC_WORKSPACE", "PYTHONPATH")}
    return run_python(*words, folder=folder, environment=variables | {"HOME": str(folder)}, python=str(python))


def test_core_reads_compares_and_tests_without_extras(python_with: PythonOf, tmp_path: Path) -> None:
    done = run_in(python_with(""), tmp_path, str(PROJECT / "benchmarks" / "core_scenario.py"), str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]).keys() == {"import", "write", "read", "compare", "api"}


def libraries_of(extra: str) -> list[str]:
    """Return the installed libraries that an extra brings."""
    return sorted(module for module, owner in EXTRAS.items() if extra == owner and find_spec(module))


@pytest.mark.parametrize(("extra", "serves"), SERVED.items(), ids=[extra or "core" for extra in SERVED])
def test_modules_and_libraries_import_with_the_closure_of_their_extra(
    python_with: PythonOf, tmp_path: Path, extra: str, serves: tuple[str, ...]
) -> None:
    libraries = libraries_of(extra)
    assert libraries or not extra
    done = run_in(python_with(extra), tmp_path, "-c", MISSING.replace("SCRIPTS", repr(SCRIPTS)), *libraries)
    assert done.returncode == 0, done.stderr[-3000:]
    needed = json.loads(done.stdout)  # the extra that each module which cannot be imported needs
    unserved = [name for name in needed if name.startswith(serves) and name != LLM_CLIENT]
    assert [name for name in unserved if extra == "app" or ".pages" not in name] == []
    assert extra not in needed.values()
    if not extra:
        assert set(needed.values()) == {"app", "models", "train", "serve", "llm"}
    for name, missing in needed.items():
        assert name.startswith(NEEDED_BY[missing]), (name, missing)


@pytest.mark.parametrize("extra", ["onnx", "milvus", "ray"])
def test_an_extra_brings_its_libraries(python_with: PythonOf, tmp_path: Path, extra: str) -> None:
    libraries = libraries_of(extra)
    assert libraries or extra == "ray"
    done = run_in(python_with(extra), tmp_path, "-c", "; ".join(f"import {module}" for module in libraries))
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_module_imports_with_all_extras_beside_decoys(python_with: PythonOf, tmp_path: Path) -> None:
    write_decoys(tmp_path)
    program = EVERY_MODULE.replace("SCRIPTS", repr(SCRIPTS)).replace("DECOYS", repr(DECOYS))
    done = run_in(python_with(ALL_EXTRAS), tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr[-3000:]
    bare, ours = done.stdout.splitlines()
    assert bare == ""
    assert {f"mrc_workbench.{name}" for name in ("data.store", "labs.reading", "workbench.cli")} <= {*ours.split()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("app",), "error: `mrc app` needs streamlit: pip install 'mrc-workbench[app]'"),
        (("serve", "experiment.toml"), "error: `mrc serve` needs uvicorn: pip install 'mrc-workbench[serve]'"),
        (
            ("train", "bi-encoder", "--data", "sample"),
            "error: `mrc train` needs accelerate: pip install 'mrc-workbench[train]'",
        ),
    ],
    ids=["app", "serve", "train"],
)
def test_commands_name_missing_extra(python_with: PythonOf, tmp_path: Path, words: Sequence[str], message: str) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    done = run_in(python_with(""), tmp_path, "-m", "mrc_workbench", *words)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, message)
    assert not (tmp_path / "workspace" / "runs").exists()


def test_a_comparison_names_the_extra_of_a_failed_retriever(python_with: PythonOf, tmp_path: Path) -> None:
    dense = '[[retriever]]\nname = "vectors"\nkind = "dense"\nmodel = "starter"\n'
    (tmp_path / "experiment.toml").write_text(EXPERIMENT + dense, encoding="utf-8")
    done = run_in(python_with(""), tmp_path, "-m", "mrc_workbench", "compare", "experiment.toml")
    assert done.returncode == 1, done.stderr
    assert "needs sentence_transformers: pip install 'mrc-workbench[models]'" in done.stdout + done.stderr
    assert "No module named" not in done.stdout + done.stderr
    done = run_in(python_with("models"), tmp_path, "-m", "mrc_workbench", "compare", "experiment.toml")
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_comparison_from_an_empty_folder(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    sample = str(PROJECT / "data/sample/korean.json")
    compare = ["compare", "experiment.toml", "--out", "result"]
    lines = mrc(environment, folder, ["--help"], compare, ["list"], ["data", "import", sample])
    stored = next(row for row, line in enumerate(lines) if line.startswith("stored as "))
    assert lines[stored - 1].split()[0] == "words"
    assert any("Run an experiment file" in line for line in lines)
    assert (folder / "result" / "report.html").is_file()
    key = lines[stored].removeprefix("stored as ")
    assert any(key in line for line in lines[stored + 1 :])
    mrc(environment, folder, ["export", key, "words", "--to", "opensearch", "--out", "taken"])
    assert (folder / "taken" / "engine.py").is_file()
    assert (folder / "workspace").is_dir()  # what a person makes stays where they work


def test_the_app_from_an_empty_folder(environment: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    options = ("--server.port", str(port), "--server.headless", "true")
    command = [sys.executable, "-c", RUN, json.dumps([["app", "--", *options]])]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://localhost:{port}/_stcore/health")
        finally:
            process.terminate()
            process.wait(timeout=30)
