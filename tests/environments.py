"""Environments that hold the project and the closure of its extras, linked from the installed packages: no network."""

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
    chosen = ("", *sorted(extras))
    return [one for one in declared if not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in chosen)]


def closure(project: Distribution, extras: frozenset[str]) -> dict[str, Distribution]:
    """Return all packages that installing the project with these extras brings, by canonical name.

    Raises `PackageNotFoundError` for one that is not installed here.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(project, extras)]
    while waiting:
        package, wanted = waiting.pop()
        for requirement in requirements_of(package, wanted):
            name, more = canonicalize_name(requirement.name), frozenset(requirement.extras)
            if (name, more) in seen:
                continue
            seen.add((name, more))
            required = project if name == PROJECT_NAME else distribution(name)
            if required is not project:
                found[name] = required
            waiting.append((required, more))
    return found


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
    """Link a package's folders, with what was compiled in them; files one by one in folders that packages share."""
    owners = _owners()
    for file in package.files or ():
        if file.parts[0] in ("..", "/") or file.suffix == ".pth":
            continue
        shared = len(owners[file.parts[0]]) > 1
        linked = Path(file) if shared else Path(file.parts[0])
        link = target / linked
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(str(package.locate_file(linked))))


@cache
def _owners() -> dict[str, set[str]]:
    """Return the installed packages that have files in each folder at the top."""
    owners = defaultdict[str, set[str]](set)
    for package in distributions():
        for file in package.files or ():
            owners[file.parts[0]].add(package.name)
    return owners
