"""The rooms import only what they may, and opening the app imports no torch."""

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("data", "retrieval", "training", "views")
MAY_IMPORT = {
    "data": {"data"},
    "retrieval": {"data", "retrieval"},
    "training": {"data", "retrieval", "training"},
    "views": set(ROOMS),
    "app.py": {"views"},
}
NEVER = {
    "data": {"torch", "streamlit", "sentence_transformers", "transformers", "faiss", "bm25s", "pymilvus"},
    "retrieval": {"streamlit"},
    "training": {"streamlit"},
    "views": {"torch", "faiss", "bm25s", "sentence_transformers", "transformers", "pymilvus"},
    "app.py": {"torch", "faiss", "bm25s", "pymilvus"},
}
HEAVY = {"torch", "sentence_transformers", "transformers", "datasets", "pymilvus", "milvus_lite", "grpc"}
# files that are themselves imported inside functions only
LOADED_LATE = {
    "retrieval/inference.py",
    "retrieval/pair_tokens.py",
    "retrieval/starter/bi_encoder.py",
    "retrieval/starter/cross_encoder.py",
    "training/batches.py",
    "training/progress.py",
    "training/tokens.py",
    "training/trainers.py",
}


def files(room: str) -> list[Path]:
    place = ROOT / room
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_imports_only_the_rooms_below_it(room: str) -> None:
    for path in files(room):
        heads = {name.split(".")[0] for name in imports(path)}
        assert heads & set(ROOMS) <= MAY_IMPORT[room], path
        assert not heads & NEVER[room], path


@pytest.mark.parametrize("room", ["retrieval", "training"])
def test_heavy_libraries_are_imported_inside_functions(room: str) -> None:
    for path in files(room):
        if str(path.relative_to(ROOT)) not in LOADED_LATE:
            heads = {name.split(".")[0] for name in imports(path, top_level_only=True)}
            assert not heads & HEAVY, path


def imported_by(modules: Sequence[str]) -> set[str]:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_every_page_imports_no_torch() -> None:
    every = imported_by([f"views.{path.stem}" for path in files("views") if path.stem != "__init__"])
    assert "altair" in every
    assert not every & {"torch", "faiss", "sentence_transformers", "transformers", "datasets", "pymilvus"}


def test_opening_the_app_imports_the_first_page_and_no_library_that_it_does_not_draw_with() -> None:
    first = imported_by(["views.sidebar", "views.compare_page"])
    assert "pandas" in first
    assert not first & {"altair", "openpyxl", "views.train_page", "views.compare_why"}
