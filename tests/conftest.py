"""No test touches the user's workspace, the user's model cache or the network."""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from mrc_workbench.data import apart
from mrc_workbench.data.jobs.processes import FORKS, read_on, start_fork_server
from mrc_workbench.data.terminal import quiet
from mrc_workbench.models.packaged import PackagedBase

PROGRAM = sys.modules["__main__"]
# seconds by file, which `make durations` writes: the longest are begun first, or a core would stand idle at the end
DURATIONS = Path(__file__).with_name("durations.json")
_seconds: Counter[str] = Counter()
_modules_frozen = 0
_tests = count()


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
    settings.load_profile("untimed")
    # before any test module is imported: the libraries read these once
    model_cache = tempfile.TemporaryDirectory()
    config.add_cleanup(model_cache.cleanup)
    os.environ.pop("HF_HUB_OFFLINE", None)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker:  # workers share it, or no process could be forked for both
        os.environ["HF_HOME"] = model_cache.name
    os.environ["MRC_LOCK"] = str(Path(model_cache.name, "training.lock"))  # the user's own trainings are not waited for
    # the contract is tested on a server where there is one, and nothing else uses it
    if "MILVUS_URI" in os.environ:
        os.environ["TESTED_MILVUS_URI"] = os.environ.pop("MILVUS_URI")
    quiet()  # as commands are: the libraries that the fork server has read serve them, too
    os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nobody answers here
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # threads that spin while others hold the cores are many times slower than one: test processes share the cores
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or config.getoption("numprocesses", None) or 1)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, min(4, (os.cpu_count() or 1) // workers))))
    if FORKS and config.getoption("numprocesses", None) and not is_worker and not config.option.markexpr:
        # all workers' jobs have the libraries of one process, read while the tests are collected
        start_fork_server()
        read_on()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread that is slow as a whole: to read torch, which most of these do, takes seconds."""
    if "not slow" not in config.option.markexpr or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return bool(re.search(r"^pytestmark = [^@]*?pytest\.mark\.slow\b", text, re.MULTILINE)) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = json.loads(DURATIONS.read_text(encoding="utf-8"))
    slow = {_file_of(item.nodeid) for item in items if item.get_closest_marker("slow")}
    # nobody knows how long a file takes that was added or renamed since: one of slow tests must not be begun last
    seconds = dict.fromkeys(slow, float("inf")) | known
    items.sort(key=lambda item: -seconds.get(_file_of(item.nodeid), 0.0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[_file_of(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("MRC_DURATIONS") and "PYTEST_XDIST_WORKER" not in os.environ:
        told = {file: round(seconds, 1) for file, seconds in _seconds.most_common() if seconds >= 1}
        DURATIONS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


@pytest.fixture(scope="session", autouse=True)
def _workspace_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For fixtures that live longer than a test."""
    os.environ["MRC_WORKSPACE"] = str(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="session", autouse=True)
def _libraries_are_read_for_all_jobs() -> None:
    """The fork server reads while no job works: among jobs that follow each other, each would read them for itself."""
    if os.environ.get("MRC_FORK_SERVER"):
        from tests.programs import have_libraries_read

        have_libraries_read()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own. That of pytest looks through those of all tests before, thousands of them."""
    folder = tmp_path_factory.getbasetemp() / f"test-{next(_tests)}"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _workspace_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path / "workspace"))


@pytest.fixture(autouse=True)
def _nobody_pulls_the_plug(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written may reach the disk when it likes: processes are killed here, and the machine goes on."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def _libraries_are_no_garbage() -> None:
    """Every drawing of a page, and every training, ends with a look for garbage through all that was ever read."""
    global _modules_frozen  # noqa: PLW0603 - of this process
    if len(sys.modules) > _modules_frozen + 50:
        gc.collect()
        gc.freeze()
        _modules_frozen = len(sys.modules)


@pytest.fixture(autouse=True)
def _the_program_stays_what_it_was() -> Iterator[None]:
    """Streamlit puts a page in its place, and a process that `multiprocessing` starts would run that page first."""
    sys.modules["__main__"] = PROGRAM  # a fixture of the module may have drawn a page
    yield
    sys.modules["__main__"] = PROGRAM


@pytest.fixture(autouse=True)
def _nobody_shipped_a_base(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests start from the starter, made in no time; those marked `packaged` from what a person starts from."""
    if not request.node.get_closest_marker("packaged"):
        monkeypatch.setattr(PackagedBase, "path", None)


@pytest.fixture(autouse=True)
def _files_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same code, without a process of its own; `tests/data/test_apart.py` has the processes."""
    monkeypatch.setattr(apart, "started", apart.carry_out)
    monkeypatch.setattr(apart, "make_ready", lambda: None)


@pytest.fixture(autouse=True)
def _what_takes_seconds_is_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`make quick` is for all that is not marked slow: a test that starts Python, or is the first to need torch, is."""
    if request.node.get_closest_marker("slow"):
        yield
        return
    start, programs, had_torch = subprocess.Popen.__init__, [], "torch" in sys.modules

    def noted(self: Any, args: Any, *more: Any, **named: Any) -> None:
        programs.append(args[0] if isinstance(args, list | tuple) else args)
        start(self, args, *more, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    yield
    assert sys.executable not in programs, "it starts Python: mark it slow"
    assert had_torch or "torch" not in sys.modules, "it needs torch: mark it slow"
