"""No test touches the user's workspace, the user's model cache or the network."""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from itertools import count
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from hypothesis import settings

from tests.depth import DEEP

PROGRAM = sys.modules["__main__"]
TESTS = Path(__file__).parent
# What `make durations` writes: the seconds of each file, by which the longest start first, and the slow tests
DURATIONS = TESTS / "durations.json"
PAGE_FOLDERS = [f"labs/{lab}/pages/" for lab in ("embeddings", "language", "reading")]
SLOW_FOLDERS = ("browser/", "workbench/views/", *PAGE_FOLDERS)  # they start browsers and draw pages
SLOW_SECONDS = 0.1
HEAVY_MODULES = ("torch", "streamlit")
MAX_EXAMPLES = 25  # of a Hypothesis test; a deep run goes through as many as each test declares
_seconds: defaultdict[str, list[float]] = defaultdict(list)
_modules_frozen = 0
_tests = count()


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
    settings.load_profile("untimed")
    # Set before any test module is imported: libraries read these when they are imported
    model_cache = tempfile.TemporaryDirectory()
    config.add_cleanup(model_cache.cleanup)
    os.environ.pop("HF_HUB_OFFLINE", None)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker:  # workers share one model cache, because the fork server serves both
        os.environ["HF_HOME"] = model_cache.name
    os.environ["MRC_LOCK"] = str(Path(model_cache.name, "training.lock"))  # tests do not wait for the user's trainings
    # Only the contract tests use a Milvus server
    if "MILVUS_URI" in os.environ:
        os.environ["TESTED_MILVUS_URI"] = os.environ.pop("MILVUS_URI")
    os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nothing listens there
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # Workers share the cores: threads that spin while others compute are many times slower than a single thread
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or config.getoption("numprocesses", None) or 1)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, min(4, (os.cpu_count() or 1) // workers))))
    distributes = bool(config.getoption("numprocesses", None)) and not is_worker
    if distributes and config.option.markexpr:
        return  # the process that distributes tests needs no other import
    from mrc_workbench.data.jobs.processes import FORKS, import_heavy_libraries, start_fork_server
    from mrc_workbench.data.terminal import let_idle_threads_sleep, quiet

    # jobs are forked only from a server with the same settings of libraries as the commands that start them
    quiet()
    let_idle_threads_sleep()
    if distributes and FORKS:  # one process imports the libraries for the jobs of all workers, during collection
        start_fork_server()
        import_heavy_libraries()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip slow files and folders unread: most of them import torch or Streamlit, which takes seconds."""
    if "not slow" not in config.option.markexpr:
        return None
    if collection_path.is_dir():
        return collection_path in {TESTS / folder for folder in SLOW_FOLDERS} or None
    if not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return bool(re.search(r"^pytestmark = [^@]*?pytest\.mark\.slow\b", text, re.MULTILINE)) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collection: it would search everything that is imported, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    recorded = json.loads(DURATIONS.read_text(encoding="utf-8"))
    slow_tests = set(recorded["slow_tests"])
    for item in items:
        name = _name_of(item.nodeid)
        if name in slow_tests or name.startswith(SLOW_FOLDERS):
            item.add_marker("slow")
        if not DEEP:
            _limit_examples(item)
    slow_files = {_file_of(item.nodeid) for item in items if item.get_closest_marker("slow")}
    # A slow file without a recorded time starts first: at the end it could keep one core busy while the other is idle
    seconds = dict.fromkeys(slow_files, float("inf")) | recorded["files"]
    items.sort(key=lambda item: -seconds.get(_file_of(item.nodeid), 0.0))


def _limit_examples(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    declared = getattr(test, "_hypothesis_internal_use_settings", None)
    if declared and declared.max_examples > MAX_EXAMPLES:
        test._hypothesis_internal_use_settings = settings(declared, max_examples=MAX_EXAMPLES)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid].append(report.duration)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not os.environ.get("MRC_DURATIONS") or "PYTEST_XDIST_WORKER" in os.environ:
        return
    files = defaultdict[str, float](float)
    tests = defaultdict[str, list[float]](list)
    for nodeid, phases in _seconds.items():
        files[_file_of(nodeid)] += sum(phases)
        tests[_name_of(nodeid)].append(sum(phases))
    longest_first = sorted(files, key=lambda file: -files[file])
    # The median of a parametrized test's cases: the first one may only have been the first to import a library
    slow_tests = {name for name, cases in tests.items() if median_low(cases) > SLOW_SECONDS}
    recorded = {
        "files": {file: round(files[file], 1) for file in longest_first if files[file] >= 1},
        "slow_tests": sorted(name for name in slow_tests if not name.startswith(SLOW_FOLDERS)),
    }
    DURATIONS.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


def _name_of(nodeid: str) -> str:
    """Return file and function of a test, without its parameters."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


@pytest.fixture(scope="session", autouse=True)
def _workspace_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set the workspace of fixtures that outlive a test."""
    os.environ["MRC_WORKSPACE"] = str(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="session", autouse=True)
def _libraries_of_jobs_are_imported() -> None:
    """Wait for the fork server, which imports only while no job runs: the first jobs would import for themselves."""
    if os.environ.get("MRC_FORK_SERVER"):
        from tests.programs import wait_for_fork_server

        wait_for_fork_server()


@pytest.fixture(scope="session", autouse=True)
def _package_metadata_is_parsed_once() -> Iterator[None]:
    """Cache the metadata of installed packages: every training and comparison records a dozen versions."""
    parse = metadata.Distribution.metadata.fget
    parsed: dict[Any, Any] = {}

    def cached(package: Any) -> Any:
        path = str(getattr(package, "_path", ""))
        if not path.startswith(sys.prefix):  # a test wrote it, and may write it again
            return parse(package)
        if path not in parsed:
            parsed[path] = parse(package)
        return parsed[path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata.Distribution, "metadata", property(cached))
        yield


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for the test. The fixture of pytest lists the folders of all earlier tests, which are thousands."""
    folder = tmp_path_factory.getbasetemp() / f"test-{next(_tests)}"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _isolation(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test its workspace, and replace slow or machine-dependent parts.

    - `os.fsync` does nothing: tests kill processes, not machines.
    - Files are read in this process, by the same code; `tests/data/test_subprocess_reader.py` tests the processes.
    - Models start from the starter, except in tests marked `packaged`.
    - `__main__` stays pytest: Streamlit replaces it, and `multiprocessing` would run the page in new processes.
    """
    from mrc_workbench.data import files, subprocess_reader
    from mrc_workbench.models.packaged import PackagedBase

    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(subprocess_reader, "start_process", subprocess_reader.run_request)
    monkeypatch.setattr(subprocess_reader, "preload_server", lambda: None)
    files.warn_once.cache_clear()
    if not request.node.get_closest_marker("packaged"):
        monkeypatch.setattr(PackagedBase, "path", None)
    _freeze_modules()
    sys.modules["__main__"] = PROGRAM  # a fixture of the module may have drawn a page
    yield
    sys.modules["__main__"] = PROGRAM


def _freeze_modules() -> None:
    """Keep the garbage collector from searching imported modules: pages and trainings collect whenever they end."""
    global _modules_frozen  # noqa: PLW0603 - of this process
    if len(sys.modules) > _modules_frozen + 50:
        gc.collect()
        gc.freeze()
        _modules_frozen = len(sys.modules)


@pytest.fixture(autouse=True)
def _quick_tests_are_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test of `make quick` that starts Python or is the first to import a heavy library."""
    if request.node.get_closest_marker("slow"):
        yield
        return
    start = subprocess.Popen.__init__
    programs = []
    missing = [module for module in HEAVY_MODULES if module not in sys.modules]

    def record(self: Any, args: Any, *more: Any, **named: Any) -> None:
        programs.append(args[0] if isinstance(args, list | tuple) else args)
        start(self, args, *more, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", record)
    yield
    assert sys.executable not in programs, "it starts Python: mark it slow"
    assert [module for module in missing if module in sys.modules] == [], "it imports a heavy library: mark it slow"
