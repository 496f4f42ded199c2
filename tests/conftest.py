"""No test touches the user's workspace, the user's model cache or the network."""

import os
import tempfile
from pathlib import Path

import pytest

# what waits for other processes, longest first: begun last, one core would stand idle at the end
LONG = (
    "browser/test_journey.py",
    "training/runs/test_queue.py",
    "training/test_resume.py",
    "browser/test_trainings.py",
    "training/test_several_processes.py",
    "browser/test_drill_down.py",
    "browser/test_first_visit.py",
    "training/rankers/test_losses.py",
    "training/test_korquad.py",
    "training/test_hub.py",
    "training/test_estimate.py",
    "training/test_command.py",
    "retrieval/test_command.py",
    "retrieval/test_korquad.py",
    "retrieval/dense/test_encode.py",
    "models/test_sources.py",
    "test_hub.py",
)


def pytest_configure(config: pytest.Config) -> None:
    # before any test module is imported: the libraries read these once
    model_cache = tempfile.TemporaryDirectory()
    config.add_cleanup(model_cache.cleanup)
    os.environ.pop("HF_HUB_OFFLINE", None)
    os.environ["HF_HOME"] = model_cache.name
    os.environ["MRC_LOCK"] = str(Path(model_cache.name, "training.lock"))  # the user's own trainings are not waited for
    # the contract is tested on a server where there is one, and nothing else uses it
    if "MILVUS_URI" in os.environ:
        os.environ["TESTED_MILVUS_URI"] = os.environ.pop("MILVUS_URI")
    os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nobody answers here
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # threads that wait for each other's cores are slower than one: test processes share the cores between them
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, min(4, (os.cpu_count() or 1) // workers))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def _workspace_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For fixtures that live longer than a test."""
    os.environ["MRC_WORKSPACE"] = str(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(autouse=True)
def _workspace_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path / "workspace"))
