"""Environments that hold the project and the closure of its extras, linked from the installed packages: no network."""

import csv
import sys
import venv
from collections import defaultdict
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT_NAME = "mrc-workbench"


def requirements_of(package: Distribution, extras: frozenset[str]) -> list[Requirement]:
    """Return what a package requires on this machine with some of its extras."""
    declared = [Requirement(line) for line in package.requires or ()]
    selected_extras = ("", *sorted(extras))
    return [
        requirement
        for requirement in declared
        if not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in selected_extras)
    ]


def closure(project: Distribution, extras: frozenset[str]) -> dict[str, Distribution]:
    """Return all packages that installing the project with these extras brings, by canonical name.

    Raises `PackageNotFoundError` for one that is not installed here.
    """
    packages: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = [(project, extras)]
    while pending:
        package, package_extras = pending.pop()
        for requirement in requirements_of(package, package_extras):
            name = canonicalize_name(requirement.name)
            requirement_extras = frozenset(requirement.extras)
            if (name, requirement_extras) in seen:
                continue
            seen.add((name, requirement_extras))
            required = project if name == PROJECT_NAME else distribution(name)
            if required is not project:
                packages[name] = required
            pending.append((required, requirement_extras))
    return packages


def environment_with(folder: Path, site: Path, *extras: str) -> Path:
    """Make an environment in `folder` that holds the wheel unpacked in `site` and its closure; returns its Python.

    Skips the test if a package of the closure is not installed here.
    """
    (metadata,) = site.glob("*.dist-info")
    try:
        packages = closure(Distribution.at(metadata), frozenset(extras))
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    venv.create(folder, symlinks=True)
    packages_folder = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for path in site.iterdir():
        (packages_folder / path.name).symlink_to(path)
    for package in packages.values():
        _link(package, packages_folder)
    return folder / "bin" / "python"


def _link(package: Distribution, target: Path) -> None:
    """Link a package's folders with their compiled files; link files one by one in folders that packages share."""
    owners = _owners()
    linked = dict[str, None]()
    for path in _paths(package):
        top = path.partition("/")[0]
        if top not in ("..", "") and not path.endswith(".pth"):
            linked[path if len(owners[top]) > 1 else top] = None
    for path in linked:
        source = Path(str(package.locate_file(path)))
        link = target / path
        if not link.is_symlink() and source.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)


@cache
def _owners() -> dict[str, set[str]]:
    """Return the installed packages that have files in each folder at the top."""
    owners = defaultdict[str, set[str]](set)
    for package in distributions():
        name = package.name  # parsed anew each time
        for path in _paths(package):
            owners[path.partition("/")[0]].add(name)
    return owners


def _paths(package: Distribution) -> list[str]:
    """Return the paths of a package's files. `package.files` looks up each of them on the disk."""
    record = package.read_text("RECORD")
    if record is None:
        return [str(file) for file in package.files or ()]
    return [row[0] for row in csv.reader(record.splitlines()) if row]
