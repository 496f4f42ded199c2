"""Rules that import-linter cannot check: tests mirror the modules they test, and heavy libraries are imported late.

`pyproject.toml` has the contracts between packages; `make check` checks them.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import PROJECT

ROOMS = ("data", "models", "retrieval", "training", "labs", "workbench")
HEAVY = {"openai", "torch", "sentence_transformers", "transformers", "datasets", "pymilvus", "milvus_lite", "grpc"}
MOST_FILES = 16


def module_of(path: Path) -> str:
    """Return the name that a file of the project is imported by."""
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join((*(("mrc_workbench",) if parts[0] in ROOMS else ()), *parts)).removesuffix(".__init__")


CODE_FOLDERS = (*ROOMS, "mrc_workbench", "benchmarks")
FILES = [PROJECT / "app.py", *(file for room in CODE_FOLDERS for file in (PROJECT / room).rglob("*.py"))]
MODULES = {module_of(path): path for path in FILES}


@cache
def imports_while_read(module: str) -> set[str]:
    """The imports of a file outside functions: `from data import cache` is `data.cache`."""
    imported = set()
    for node in ast.parse(MODULES[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = (f"{node.module}.{alias.name}" for alias in node.names)
            imported |= {name if name in MODULES else node.module for name in inside}
    return imported


def test_every_folder_of_tests_is_named_as_what_it_tests() -> None:
    tests = Path(__file__).parent
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    folders -= {Path(), Path("browser"), Path("hostile")}
    assert [str(folder) for folder in sorted(folders) if not (PROJECT / folder).is_dir()] == []


def test_no_folder_is_too_full() -> None:
    folders = [path.parent for path in FILES if path.parent != PROJECT]
    counts = {folder.relative_to(PROJECT): folders.count(folder) for folder in set(folders)}
    assert {str(folder): count for folder, count in counts.items() if count > MOST_FILES + 1} == {}  # and __init__.py


@pytest.mark.parametrize(
    "door",
    [
        name
        for name in MODULES
        if name.startswith("mrc_workbench.workbench.views.") or name in ("app", "mrc_workbench.workbench.frame")
    ],
)
def test_no_page_reads_heavy_libraries_before_it_needs_them(door: str) -> None:
    assert heavy_imports_of(door) == {}


@pytest.mark.parametrize("door", [name for name in MODULES if name.endswith((".__main__", ".cli"))])
def test_no_command_reads_heavy_libraries_before_it_knows_what_to_do(door: str) -> None:
    assert heavy_imports_of(door) == {}


def heavy_imports_of(door: str) -> dict[str, set[str]]:
    """Modules that are read when `door` is, with the heavy libraries that they read then."""
    seen = {door}
    pending = [door]
    heavy_imports = {}
    while pending:
        names = imports_while_read(module := pending.pop())
        if heavy := {name.split(".")[0] for name in names} & HEAVY:
            heavy_imports[module] = heavy
        new = {name for name in names if name in MODULES} - seen
        seen |= new
        pending += new
    return heavy_imports


@pytest.mark.slow
def test_opening_the_app_imports_the_first_page_and_no_library_that_it_does_not_draw_with() -> None:
    pages = "mrc_workbench.workbench.views"
    program = f"import sys, {pages}.sidebar, {pages}.compare.page; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    first = set(done.stdout.split())
    assert "pandas" in first
    assert not first & {"altair", "openpyxl", f"{pages}.train.page", f"{pages}.compare.why"}
