"""The wheel holds what the app needs, works from an empty folder, and an extra brings all that its rooms import."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
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
# the extra that each module needs which fails to import, all imported modules, the status of a dense comparison
Imports = tuple[dict[str, str], list[str], int]
RUN = "import json, sys; from mrc_workbench.__main__ import main; sys.exit(any(map(main, json.loads(sys.argv[1]))))"
DECOYS = ("data", "models", "retrieval", "training", "labs", "workbench", "jobs", "text", "views", "serving")
# scripts: what a folder that was taken away runs, and the page of `streamlit run`
SCRIPTS = ("mrc_workbench.retrieval.export.scripts.", "mrc_workbench.app")
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
# Imports all modules with the core; then, for each extra, its libraries and all modules in a fork that finds the
# packages of its closure, and with `models` a comparison. Prints the extra, the extra that each failed module needs,
# all imported modules and the status of the comparison.
MISSING = """
import gc, json, os, pkgutil, sys
from contextlib import redirect_stdout
from importlib import import_module
gc.disable()
os.environ["MRC_FORK_SERVER"] = "none"  # the app would start one
import mrc_workbench
from mrc_workbench.__main__ import main
from mrc_workbench.data.problems import as_missing_extra

def import_modules():
    needed = {}
    for module in pkgutil.walk_packages(mrc_workbench.__path__, "mrc_workbench."):
        if module.name.startswith(SCRIPTS):
            continue
        try:
            import_module(module.name)
        except ImportError as error:
            details = getattr(as_missing_extra(error), "details", {})
            needed[module.name.removeprefix("mrc_workbench.")] = details.get("extra")
    return needed

environments = json.loads(sys.argv[1])
print(json.dumps(["", import_modules(), [*sys.modules], -1]), flush=True)
for extra, (packages, libraries) in environments.items():
    if os.fork():
        os.wait()
        continue
    sys.path.append(packages)
    for library in libraries:
        import_module(library)
    imported = (import_modules(), [*sys.modules])
    with redirect_stdout(sys.stderr):
        status = main(["compare", "experiment.toml"]) if extra == "models" else -1
    print(json.dumps([extra, *imported, status]), flush=True)
    os._exit(0)  # libraries take seconds to end
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
DENSE = '[[retriever]]\nname = "vectors"\nkind = "dense"\nmodel = "starter"\n'


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


@pytest.fixture(scope="module")
def imports(python_with: PythonOf, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Imports]:
    """The imports with the closure of each extra whose packages are installed, beside decoys."""
    environments = dict[str, tuple[str, list[str]]]()
    for extra in (*filter(None, SERVED), ALL_EXTRAS):
        with suppress(pytest.skip.Exception):
            (packages,) = python_with(extra).parents[1].glob("lib/*/site-packages")
            environments[extra] = (str(packages), libraries_of(extra) or ["mrc_workbench.app"])
    folder = tmp_path_factory.mktemp("decoys")
    write_decoys(folder)
    (folder / "experiment.toml").write_text(EXPERIMENT + DENSE, encoding="utf-8")
    program = MISSING.replace("SCRIPTS", repr(SCRIPTS))
    done = run_in(python_with(""), folder, "-c", program, json.dumps(environments))
    printed = {extra: tuple(imports) for extra, *imports in map(json.loads, done.stdout.splitlines())}
    assert printed.keys() == {"", *environments}, done.stderr[-3000:]
    return printed


@pytest.mark.parametrize(("extra", "serves"), SERVED.items(), ids=[extra or "core" for extra in SERVED])
def test_modules_and_libraries_import_with_the_closure_of_their_extra(
    python_with: PythonOf, imports: dict[str, Imports], extra: str, serves: tuple[str, ...]
) -> None:
    assert libraries_of(extra) or not extra
    assert python_with(extra)  # or the test is skipped
    needed, modules, _ = imports[extra]
    assert not {*DECOYS} & {name.partition(".")[0] for name in modules}
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


def test_every_module_imports_with_all_extras_beside_decoys(python_with: PythonOf, imports: dict[str, Imports]) -> None:
    assert python_with(ALL_EXTRAS)  # or the test is skipped
    needed, modules, _ = imports[ALL_EXTRAS]
    assert needed == {}
    assert not {*DECOYS} & {name.partition(".")[0] for name in modules}
    ours = ("data.store", "labs.reading", "workbench.cli", "workbench.frame", "app")
    assert {f"mrc_workbench.{name}" for name in ours} <= {*modules}


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


def test_a_comparison_names_the_extra_of_a_failed_retriever(
    python_with: PythonOf, imports: dict[str, Imports], tmp_path: Path
) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT + DENSE, encoding="utf-8")
    done = run_in(python_with(""), tmp_path, "-m", "mrc_workbench", "compare", "experiment.toml")
    assert done.returncode == 1, done.stderr
    assert "needs sentence_transformers: pip install 'mrc-workbench[models]'" in done.stdout + done.stderr
    assert "No module named" not in done.stdout + done.stderr
    assert python_with("models")  # or the rest is skipped
    assert imports["models"][2] == 0


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
