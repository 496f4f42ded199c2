"""pyproject.toml declares what the code imports; the requirements files pin versions that it allows."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mrc_workbench.data import problems
from mrc_workbench.data.problems import EXTRAS, MissingExtraError, as_missing_extra, raise_missing_extra
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models.files import ModelError, hub_revision, loading
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from tests.doubles import small_set

USED_BY_SEVERAL = {"starlette": ("app", "serve"), "scikit-learn": ("models", "llm")}
FILES = {  # the extras whose versions each file pins; "" is the core
    "requirements.txt": ("", "app", "models", "train", "serve", "llm"),
    "requirements/onnx.txt": ("onnx",),
    "requirements/milvus.txt": ("milvus",),
    "requirements/ray.txt": ("ray",),
    "requirements/docs.txt": ("docs",),
    "requirements/dev.txt": ("dev",),
}
# imported, and part of another library
BROUGHT_ALONG = {"pydantic_core": "pydantic", "httpx2": "openai", "rich": "cyclopts"}
# an exported folder has its own requirements
OTHERS_CODE = ("retrieval/export/scripts/",)


@cache
def declared() -> dict[str, dict[str, Requirement]]:
    """Requirements by extra ("" is the core) and canonical name; extras that include others are left out."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {
            canonicalize_name(requirement.name): requirement
            for requirement in map(Requirement, lines)
            if requirement.name != project["name"]
        }
        for extra, lines in groups.items()
    }


def included(extra: str) -> set[str]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = map(Requirement, project["optional-dependencies"][extra])
    return {included_extra for line in lines if line.name == project["name"] for included_extra in line.extras}


def pins(file: str) -> dict[str, Requirement]:
    lines = (PROJECT / file).read_text(encoding="utf-8").splitlines()
    read = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in read}


@pytest.mark.parametrize("file", FILES)
def test_pins_satisfy_the_declared_ranges(file: str) -> None:
    allowed: dict[str, Requirement] = {}
    for extra in FILES[file]:
        allowed |= declared()[extra]
    pinned = pins(file)
    assert pinned.keys() == allowed.keys()
    for name, pin in pinned.items():
        (version,) = pin.specifier
        assert version.operator == "=="
        assert allowed[name].specifier.contains(version.version), (pin, allowed[name])
        assert (pin.extras, str(pin.marker)) == (allowed[name].extras, str(allowed[name].marker))


def test_every_requirement_belongs_to_the_core_or_a_single_extra() -> None:
    owners: dict[str, list[str]] = {}
    for extra, requirements in declared().items():
        for name in requirements:
            owners.setdefault(name, []).append(extra)
    assert {name: tuple(extras) for name, extras in owners.items() if len(extras) > 1} == USED_BY_SEVERAL
    for name, extras in USED_BY_SEVERAL.items():
        assert len({str(declared()[extra][name]) for extra in extras}) == 1


def test_all_is_the_union_of_the_extras() -> None:
    assert included("all") == declared().keys() - {"", "all", "docs", "dev"}
    assert not declared()["all"]


def test_the_architecture_names_the_extra_of_every_library() -> None:
    rows: dict[str, set[str]] = {}
    for line in (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and set(cells[1].split(", ")) <= {"core", *declared()}:
            extras = {"" if extra == "core" else extra for extra in cells[1].split(", ")}
            rows |= {canonicalize_name(name): extras for name in cells[0].split(", ")}
    owners: dict[str, set[str]] = {}
    for extra, requirements in declared().items():
        for name in requirements:
            owners.setdefault(name, set()).add(extra)
    assert rows == owners


def test_every_library_that_the_code_imports_is_declared() -> None:
    distributions = packages_distributions()
    by_module = {
        module: {canonicalize_name(name) for name in names} | {canonicalize_name(BROUGHT_ALONG.get(module, ""))}
        for module, names in distributions.items()
    }
    core = declared()[""].keys()
    missing = []
    for path, module in imports():
        owners = by_module.get(module, set())
        extra = EXTRAS.get(module, "")
        known = declared()[extra].keys() if extra else core
        if not owners & set(known):
            missing.append((path, module, extra))
    assert not missing


def test_libraries_of_extras_are_known_by_their_modules() -> None:
    distributions = packages_distributions()
    for module, extra in EXTRAS.items():
        names = {canonicalize_name(name) for name in distributions.get(module, ())}
        if names and module not in BROUGHT_ALONG:
            assert names & declared()[extra].keys(), module
    named = {canonicalize_name(name) for module in EXTRAS for name in distributions.get(module, ())}
    optional = {name for extra in included("all") for name in declared()[extra]}
    installed = {canonicalize_name(name) for names in distributions.values() for name in names}
    assert optional & installed <= named


def imports() -> Iterator[tuple[str, str]]:
    """Yield every import of a library in the rooms: the file and the top-level module."""
    for room in ("data", "models", "retrieval", "training", "labs", "workbench", "mrc_workbench"):
        for path in sorted((PROJECT / room).rglob("*.py")):
            name = path.relative_to(PROJECT).as_posix()
            if not name.startswith(OTHERS_CODE):
                yield from ((name, module) for module in _imported_modules(path))


def _imported_modules(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    return modules - sys.stdlib_module_names - {"mrc_workbench", "__future__"}


def failed_import(module: str) -> ModuleNotFoundError:
    try:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    except ModuleNotFoundError as error:
        return error


@pytest.mark.parametrize(("module", "extra"), [("torch.nn", "models"), ("datasets", "train"), ("pymilvus", "milvus")])
def test_a_failed_import_names_its_extra(module: str, extra: str) -> None:
    error = as_missing_extra(failed_import(module))
    assert isinstance(error, MissingExtraError)
    library = module.partition(".")[0]
    assert str(error) == f"this needs {library}: pip install 'mrc-workbench[{extra}]'"
    assert error.details == {"module": library, "extra": extra}
    assert as_missing_extra(error) is error


def test_training_names_its_own_extra() -> None:
    scope = {"__name__": "mrc_workbench.training.train", "failed_import": failed_import}
    exec("def train(): raise failed_import('torch')", scope)  # noqa: S102 - a frame of that module
    with pytest.raises(ModuleNotFoundError) as caught:
        scope["train"]()  # type: ignore[operator]
    assert "mrc-workbench[train]" in str(as_missing_extra(caught.value))


def test_other_errors_stay_as_they_are() -> None:
    for error in (failed_import("no_such_library"), ImportError("broken"), ValueError("torch")):
        assert as_missing_extra(error) is error
        with pytest.raises(type(error)), raise_missing_extra():
            raise error


def test_a_cause_names_the_extra() -> None:
    """A library that imports a command raises its import error."""
    error = ImportError("cannot import the command")
    error.__cause__ = failed_import("fastapi")
    message = r"^serving needs fastapi: pip install 'mrc-workbench\[serve\]'$"
    with pytest.raises(MissingExtraError, match=message), raise_missing_extra("serving"):
        raise error


def test_require_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    problems.require_library("streamlit")
    monkeypatch.setattr("mrc_workbench.data.problems.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="`mrc app` needs streamlit"):
        problems.require_library("streamlit", "`mrc app`")


def test_a_model_that_misses_a_library_names_its_extra() -> None:
    with pytest.raises(MissingExtraError, match="needs transformers"), loading("a/model"):
        raise failed_import("transformers")
    with pytest.raises(ModelError, match="cannot be loaded"), loading("a/model"):
        raise failed_import("no_such_library")


def test_a_hub_model_names_the_extra_and_costs_no_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.problems.find_spec", lambda _: None)
    message = r"the hub model 'a/model' needs huggingface_hub: pip install 'mrc-workbench\[models\]'"
    with pytest.raises(MissingExtraError, match=message):
        hub_revision("a/model")
    resolved = DenseSpec(name="d", model="a/model").resolved_values(RetrieverContext(small_set()))
    assert resolved["model"] == {"reference": "a/model", "error": problems.MISSING_EXTRA}
