"""Trainings that fail, and the codes of their errors; the background thread that writes a packaged base."""

import errno
import json
import os
import time
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find, remove
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.runs import Phase, Run, create_run, new_plan
from mrc_workbench.training.train import describe_error, train
from tests.training.worlds import create_planned_run, misleading_set, run_python

pytestmark = pytest.mark.slow

ROWS = "title,question,context,answer\n" + "".join(
    f"article {n},where is {n}?,place {n} is here {n},here {n}\n" for n in range(20)
)


def failed(run: Run) -> Status:
    ended = train(run)
    status = run.status()
    assert ended.state is status.state is State.FAILED
    assert (status.code, status.message) == (ended.code, ended.message)
    assert status.message
    assert status.pid == this_process()[0]
    assert run.scores() == {}
    assert not run.model_folder.exists()
    assert run.plan().name == "test"
    return status


@pytest.mark.parametrize("kind", ranking_kinds())
@pytest.mark.parametrize("base", ["/no/such/folder", "models/of/nobody", "한글 모델"])
def test_reports_missing_base(kind: str, base: str) -> None:
    status = failed(create_planned_run(kind, misleading_set(), base=base))
    assert status.code == "model_not_found"
    assert base in status.message


def test_reports_base_folder_without_model(tmp_path: Path) -> None:
    assert failed(create_planned_run(BI_ENCODER, misleading_set(), base=str(tmp_path))).code == "model_not_found"


@pytest.mark.parametrize("kind", ranking_kinds())
def test_reports_base_folder_without_safetensors(kind: str, tmp_path: Path) -> None:
    about = {"model_type": "bert", "hidden_size": 32, "architectures": ["BertForMaskedLM"]}
    (tmp_path / "config.json").write_text(json.dumps(about))
    (tmp_path / "pytorch_model.bin").write_bytes(b"weights as a pickle: never read")
    status = failed(create_planned_run(kind, misleading_set(), base=str(tmp_path)))
    assert status.code == "pickled"
    assert "safetensors" in status.message


@pytest.mark.parametrize(("kind", "base"), [(BI_ENCODER, DEFAULT_BI_ENCODER), (CROSS_ENCODER, DEFAULT_CROSS_ENCODER)])
def test_reports_unreachable_hub(kind: str, base: str) -> None:
    began = time.monotonic()
    status = failed(create_planned_run(kind, misleading_set(), base=base))  # tests/conftest.py sets an unreachable hub
    assert status.code == "hub_unreachable"
    assert base in status.message
    assert "use a starter or a local folder" in status.message
    assert time.monotonic() - began < 15


def planned_on(file: Path) -> Run:
    question_set = find(str(file))
    data = (str(file), question_set.name, question_set.fingerprint)
    return create_run(new_plan(BI_ENCODER, "test", data, SplitOptions(), BiEncoderOptions(epochs=1.0)))


def test_rejects_changed_data(tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text(ROWS)
    run = planned_on(file)
    file.write_text(ROWS + "article 99,where is 99?,place 99 is here 99,here 99\n")
    status = failed(run)
    assert (status.code, status.message) == ("data_changed", "questions has changed since this training was planned")


def test_reports_deleted_data(tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text(ROWS)
    run = planned_on(file)
    file.unlink()
    assert failed(run).code == "data"
    run_with_data = create_planned_run(CROSS_ENCODER, misleading_set())
    remove(run_with_data.plan().data)
    assert failed(run_with_data).code == "data"


def test_rejects_too_few_questions() -> None:
    status = failed(create_planned_run(CROSS_ENCODER, misleading_set(), SplitOptions(0.0, 0.2)))
    assert status.code == "too_few"
    assert status.message.startswith("16 training and 0 validation questions are too few")


def test_rejects_folder_without_run(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"run\.json"):
        train(Run(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "disk"),
        (RuntimeError("Error while serializing: I/O error: File too large (os error 27)"), "disk"),
        (OSError(errno.EFBIG, "File too large"), "disk"),
        (Exception("File too large (os error 27)"), "disk"),
        (OSError("nothing to do with a disk"), "unexpected"),
        (FileNotFoundError(errno.ENOENT, "no such file"), "unexpected"),
        (MemoryError(), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "memory"),
        (ModelError("model_not_found", "no such model", model="x"), "model_not_found"),
        (TrainingError("too_few", "too few"), "too_few"),
        (OptionError("pooling", "starter", "pooling must be base"), "option"),
        (DataError.from_code(ProblemCode.UNKNOWN_SET, reference="x", known="y"), "data"),
        (KeyboardInterrupt(), "interrupted"),
        (ZeroDivisionError("x"), "unexpected"),
    ],
)
def test_maps_errors_to_codes(error: BaseException, code: str) -> None:
    error_code, message = describe_error(error)
    assert error_code == code
    assert message
    assert message.startswith("the disk is full") is (code == "disk")


def test_failure_stores_phase() -> None:
    run = create_planned_run(CROSS_ENCODER, misleading_set(), base="/no/such/folder")
    assert failed(run).phase == Phase.LOADING
    assert isinstance(run.plan().options, CrossEncoderOptions)


LIBRARIES = {"torch", "transformers", "sentence_transformers"}
PROGRAM = f"""
import sys
from mrc_workbench.training.train import _write_base_in_background
_write_base_in_background({DEFAULT.reference!r}).join()
print(sorted({LIBRARIES} & set(sys.modules)))
"""


@pytest.mark.packaged
def test_writes_packaged_base_without_importing_transformers(tmp_path: Path) -> None:
    """Two concurrent first imports of transformers raise `ImportError`."""
    done = run_python("-c", PROGRAM, environment=os.environ | {"MRC_WORKSPACE": str(tmp_path)})
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert [*tmp_path.rglob("model.safetensors")]
