"""The names and the import time of `mrc_workbench`, and progress bars."""

import doctest
import inspect
import json
import logging
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import mrc_workbench as mrc
from mrc_workbench.api.values import progress_bar
from mrc_workbench.data.workspace import IMPORT_ROOT
from tests.release import PROJECT

MODULES = [f"mrc_workbench.api.{path.stem}" for path in sorted(Path(mrc.__file__).parent.glob("api/[a-z]*.py"))]
HEAVY = ("numpy", "pandas", "torch", "streamlit", "transformers", "altair")


def test_exports_at_most_fifteen_names_and_each_has_a_docstring() -> None:
    assert len(mrc.__all__) <= 15
    assert sorted(mrc.__all__) == mrc.__all__
    for name in mrc.__all__:
        assert inspect.getdoc(getattr(mrc, name)), name
        assert name in dir(mrc)


def test_lists_only_public_names() -> None:
    assert [name for name in dir(mrc) if not name.startswith("__")] == mrc.__all__
    assert {"__version__", "__doc__", "__path__"} <= set(dir(mrc))


def test_version_matches_project() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    assert mrc.__version__ == project["project"]["version"]


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'comparr'"):
        mrc.comparr  # noqa: B018


def test_package_is_marked_as_typed() -> None:
    assert Path(mrc.__file__).with_name("py.typed").is_file()


@pytest.mark.slow
def test_import_loads_no_library_and_bm25_neither_torch_nor_streamlit(tmp_path: Path) -> None:
    code = f"""
import json, sys
import mrc_workbench as mrc
first = [name for name in {HEAVY!r} if name in sys.modules]
mrc.compare("sample", "bm25", progress=False).differences()
print(json.dumps([first, [name for name in ("torch", "streamlit") if name in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=IMPORT_ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []]
    assert not done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_pass(module: str) -> None:
    outcome = doctest.testmod(import_module(module))
    assert outcome.failed == 0


def test_public_functions_have_examples() -> None:
    functions = [name for name in mrc.__all__ if inspect.isfunction(getattr(mrc, name)) and name != "train"]
    assert all(">>> " in (inspect.getdoc(getattr(mrc, name)) or "") for name in functions)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_shows_progress_bar_only_in_terminal(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr("tqdm.std.tqdm.mininterval", 0, raising=False)
    with progress_bar("Comparing") as report:
        report("BM25", 0.5)
        report("", 1.0)
    output = capsys.readouterr().err
    assert "Comparing" in output if is_terminal else output == ""


def test_silences_libraries_temporarily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRANSFORMERS_VERBOSITY", raising=False)
    logger = logging.getLogger("transformers")
    before = logger.level
    with progress_bar("Comparing", enabled=False):
        assert os.environ["TRANSFORMERS_VERBOSITY"] == "error"
        assert logger.level == logging.ERROR
    assert "TRANSFORMERS_VERBOSITY" not in os.environ
    assert logger.level == before
