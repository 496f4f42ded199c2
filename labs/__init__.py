"""Labs: studies besides the comparison of retrievers. Each folder here with a `lab.toml` is a lab.

`lab.toml` describes the lab without importing it, see `Lab`. `study.py` defines `STUDY`, from which the lab's page,
commands, tables, stored results and reports are made; `words.en.toml` and `words.ko.toml` hold its texts. Delete the
folder, and the lab is gone.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrc_workbench.data.studies import Study

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class LabDefinition:
    """The content of `lab.toml`. Modules are named from the lab's folder.

    `page` is a module with `draw()`, and `commands` a `module:attribute`; if empty, `study` provides the page and the
    commands. `page_name` is the page's name in addresses. Pages `in_menu` share one menu.
    """

    name: str
    summary: str
    icon: str = "science"
    page: str = ""
    page_name: str = ""
    commands: str = ""
    study: str = "study:STUDY"
    in_menu: bool = True
    order: int = 100

    @property
    def folder(self) -> Path:
        return _FOLDER / self.name

    def module(self, name: str) -> str:
        return f"{__name__}.{self.name}.{name}"

    def target(self, name: str) -> str:
        """Return a `module:attribute` of the lab as seen from the import root."""
        return f"labs.{self.name}.{name}"

    def load_study(self) -> "Study[Any, Any]":
        """Import the lab and return its study."""
        module, _, attribute = self.study.partition(":")
        study: Study[Any, Any] = getattr(import_module(self.module(module)), attribute)
        return study


@cache
def labs() -> tuple[LabDefinition, ...]:
    """Return the labs in the order of their pages."""
    definitions = []
    for file in _FOLDER.glob("*/lab.toml"):
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        definitions.append(LabDefinition(name=file.parent.name, **content))
    return tuple(sorted(definitions, key=lambda lab: (lab.order, lab.name)))


def __getattr__(name: str) -> Any:
    """Return the commands of a lab that declares none, `commands_NAME`, and the command of its jobs, `run_NAME`."""
    for lab in labs():
        if name == f"commands_{lab.name}":
            from mrc_workbench.data.commands import study_commands

            return study_commands(lab.load_study())
        if name == f"run_{lab.name}":
            return lab.load_study().run_folder
    raise AttributeError(name)
