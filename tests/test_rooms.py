"""One ordered rule says which room may import which, and opening the app imports no torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from data.workspace import PROJECT

# A room imports only rooms before it. So do the parts of the larger rooms, a line each: what stands in one line may not
# import another of that line. A part is a folder or a file of the room.
ROOMS = (
    "data",
    "text",
    "chat",
    "questions",
    "jobs",
    "models",
    "embeddings",
    "language",
    "retrieval",
    "reading",
    "training",
    "views",
    "workbench",
    "app",
)
PARTS = {
    "data": (
        ("workspace", "failure", "terminal", "texts", "script"),
        ("seal", "limits"),
        ("problems", "cache", "passages", "csv_export"),
        ("passage_file", "collection"),
        ("records", "files"),
        ("question_file", "rows", "split", "remarks", "judgements", "made"),
        ("read", "audit"),
        ("apart", "catalog"),
        ("store",),
        ("pairs",),
        ("__main__",),
    ),
    "embeddings": (
        ("problems", "bootstrap", "distinct", "encoder", "density", "wrong", "published", "trajectory"),
        ("sts", "geometry", "probe"),
        ("similarity", "neighbours", "map"),
        ("results",),
        ("evaluate", "cost", "store"),
        ("requests",),
        ("tasks", "job"),
        ("__main__",),
    ),
    "language": (
        ("problems",),
        ("text_file",),
        ("texts",),
        ("corpus",),
        ("tokenizers",),
        ("masking",),
        ("inside",),
        ("texts_command", "run_command"),
        ("__main__",),
    ),
    "retrieval": (
        ("rankings",),
        ("asking", "lexical", "dense", "multistage", "trec"),
        ("milvus", "evaluation", "explain"),
        ("comparison",),
        ("analysis",),
        ("report",),
        ("preparation",),
        ("__main__",),
    ),
    "reading": (
        ("problems", "rules", "question_words", "answer_kinds"),
        ("predictions", "scores", "labels"),
        ("slices",),
        ("extractive", "readings", "experiment"),
        ("depth", "generation"),
        ("evaluate",),
        ("results",),
        ("store", "job"),
        ("score_command", "evaluate_command", "run_command"),
        ("__main__",),
    ),
    "training": (
        ("problems", "options"),
        ("engine",),
        ("family",),
        ("rankers", "sentences"),
        ("language", "readers"),
        ("recipe",),
        ("runs",),
        ("train",),
        ("trial", "fitting"),
        ("estimate",),
        ("settings", "ablations", "rehearse"),
        ("command_line",),
        ("find_settings", "ablate"),
        ("__main__",),
    ),
    "views": (
        ("words", "choices"),
        ("uploads",),
        ("navigation", "data_words"),
        (
            "resources",
            "problem_words",
            "model_words",
            "run_words",
            "tables",
            "charts",
            "highlight",
            "job",
            "damaged",
            "scrolling",
            "access",
            "uploading",
        ),
        ("hits", "reasons", "method_words", "side_by_side", "gate"),
        ("state",),
        ("tabs",),
        ("sidebar", "texts"),
        ("runs",),
        ("compare", "data", "embeddings", "language", "search", "train"),
        ("reading",),
    ),
}
NEVER = {
    "data": {"torch", "streamlit", "sentence_transformers", "transformers", "faiss", "bm25s", "pymilvus"},
    "text": {"torch", "streamlit", "sentence_transformers", "transformers", "faiss", "bm25s", "pymilvus"},
    "chat": {"torch", "streamlit", "sentence_transformers", "transformers", "faiss", "bm25s", "pymilvus"},
    "questions": {"torch", "streamlit", "sentence_transformers", "transformers", "faiss", "bm25s", "pymilvus"},
    "jobs": {"torch", "streamlit", "sentence_transformers", "transformers", "faiss", "bm25s", "pymilvus"},
    "models": {"streamlit", "faiss", "bm25s", "pymilvus"},
    "embeddings": {"questions", "streamlit", "bm25s", "pymilvus"},
    "language": {"embeddings", "questions", "streamlit", "faiss", "bm25s", "pymilvus"},
    "retrieval": {"embeddings", "language", "streamlit", "bm25s"},
    "reading": {"embeddings", "language", "streamlit", "faiss", "bm25s", "pymilvus"},
    "training": {"streamlit", "bm25s"},
    "views": {"torch", "faiss", "bm25s", "sentence_transformers", "transformers", "pymilvus"},
    "workbench": {"torch", "faiss", "bm25s", "sentence_transformers", "transformers", "pymilvus"},
    "app": {"torch", "faiss", "bm25s", "sentence_transformers", "transformers", "pymilvus"},
}
HEAVY = {"openai", "torch", "sentence_transformers", "transformers", "datasets", "pymilvus", "milvus_lite", "grpc"}
# files that are themselves imported inside functions only
LOADED_LATE = {
    "models/inference.py",
    "models/readers/masked_network.py",
    "models/readers/span_network.py",
    "models/starter.py",
    "training/engine/batches.py",
    "training/engine/trainers.py",
    "training/engine/trainers.py",
    "training/engine/passes.py",
    "training/engine/passes.py",
    "training/engine/trainers.py",
    "training/rankers/distillation.py",
    "training/runs/progress.py",
    "training/sweeps/watch.py",
    "training/sweeps/watch.py",
}


def files(room: str) -> list[Path]:
    place = PROJECT / room
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for room in ROOMS for path in files(room)}


def imports(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Yield every module imported: `from views import words` is `views.words`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else node.module for name in inside)


def heads(path: Path, *, top_level_only: bool = False) -> set[str]:
    return {name.split(".")[0] for name in imports(path, top_level_only=top_level_only)}


def test_every_folder_of_tests_is_named_as_what_it_tests() -> None:
    tests = Path(__file__).parent
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    folders -= {Path(), Path("browser"), Path("hostile")}
    assert [str(folder) for folder in sorted(folders) if not (PROJECT / folder).is_dir()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_before_it(room: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    for path in files(room):
        assert heads(path) & set(ROOMS) <= allowed, path
        assert not heads(path) & NEVER[room], path


@pytest.mark.parametrize("room", PARTS)
def test_a_part_of_a_room_imports_only_the_parts_before_it(room: str) -> None:
    place = {part: row for row, parts in enumerate(PARTS[room]) for part in parts}
    wrong = []
    for path in files(room):
        here = module_of(path).split(".")[1:]
        for name in imports(path):
            head, *rest = name.split(".")
            if head == room and here and rest and rest[0] != here[0] and place[rest[0]] >= place[here[0]]:
                wrong.append(f"{path.relative_to(PROJECT)} imports {name}")
    assert wrong == []


def test_no_module_imports_itself_by_a_detour() -> None:
    wanted = {name: {other for other in imports(path) if other in MODULES} for name, path in MODULES.items()}
    while free := [name for name, others in wanted.items() if not others & wanted.keys()]:
        for name in free:
            del wanted[name]
    assert sorted(wanted) == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in ("data", "reading", "views", "app")])
def test_heavy_libraries_are_imported_inside_functions(room: str) -> None:
    for path in files(room):
        if path.relative_to(PROJECT).as_posix() not in LOADED_LATE:
            assert not heads(path, top_level_only=True) & HEAVY, path


def imported_by(modules: Sequence[str]) -> set[str]:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_importing_every_page_imports_no_torch() -> None:
    every = imported_by([module_of(path) for path in files("views")])
    assert "altair" in every
    assert not every & {"torch", "faiss", "sentence_transformers", "transformers", "datasets", "pymilvus"}


@pytest.mark.slow
def test_opening_the_app_imports_the_first_page_and_no_library_that_it_does_not_draw_with() -> None:
    first = imported_by(["views.sidebar", "views.compare.page"])
    assert "pandas" in first
    assert not first & {"altair", "openpyxl", "views.train.page", "views.compare.why.view"}
