"""The background thread of a training that loads its questions."""

import os
from pathlib import Path

import pytest

from mrc_workbench.models.packaged import DEFAULT
from tests.training.worlds import run_python

pytestmark = [pytest.mark.slow, pytest.mark.packaged]

LIBRARIES = {"torch", "transformers", "sentence_transformers"}
PROGRAM = f"""
import sys
from mrc_workbench.training.train import _write_base_in_background
_write_base_in_background({DEFAULT.reference!r}).join()
print(sorted({LIBRARIES} & set(sys.modules)))
"""


def test_writes_packaged_base_without_importing_transformers(tmp_path: Path) -> None:
    """Two concurrent first imports of transformers raise `ImportError`."""
    done = run_python("-c", PROGRAM, environment=os.environ | {"MRC_WORKSPACE": str(tmp_path)})
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert [*tmp_path.rglob("model.safetensors")]
