"""Labs: studies besides the comparison of retrievers. Each folder here with a `lab.toml` is a lab.

`lab.toml` describes the lab without importing it, see `Lab`. `study.py` defines `STUDY`, from which the lab's page,
commands, tables, stored results and reports are made; `words.en.toml` and `words.ko.toml` hold its texts. Delete the
folder, and the lab is gone.
"""

import logging
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrc_workbench.data.studies import Study

logger = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent
# names of commands, pages, addresses and folders of the workspace
TAKEN_NAMES = """
ablate added app cache compare comparisons completion data datasets delete dictionaries downloads encode export
generated import inspect internal list milvus pairs rename report runs sample search serve show sweep takeaways
texts train tune users
"""


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

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or not self.name.isascii():
            raise ValueError(f"a lab's folder has a name of letters, digits and _, not {self.name!r}")
        if taken := {self.name, self.page_name} & {*TAKEN_NAMES.split()}:
            raise ValueError(f"{taken.pop()!r} is the name of a command, a page or a folder: choose another")
        if wrong := [field.name for field in fields(self) if type(getattr(self, field.name)) is not field.type]:
            raise TypeError(f"a wrong type: {', '.join(wrong)}")

    @property
    def address(self) -> str:
        return self.page_name or self.name

    @property
    def folder(self) -> Path:
        return _FOLDER / self.name

    def module(self, name: str) -> str:
        return f"{__name__}.{self.name}.{name}"

    def target(self, name: str) -> str:
        """Return a `module:attribute` of the lab as seen from the import root."""
        return f"labs.{self.name}.{name}"

    def load_study(self) -> "Study[Any, Any]":
        """Import the lab and return its study. Raises `ValueError` if its name is not the folder's."""
        module, _, attribute = self.study.partition(":")
        study: Study[Any, Any] = getattr(import_module(self.module(module)), attribute)
        if study.name != self.name:
            raise ValueError(f"the study of {self.folder} is named {study.name!r}: name it {self.name!r}")
        return study


@cache
def labs() -> tuple[LabDefinition, ...]:
    """Return the labs in the order of their pages, without those whose `lab.toml` is damaged."""
    definitions: dict[str, LabDefinition] = {}
    for file in sorted(_FOLDER.glob("*/lab.toml")):
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            definition = LabDefinition(name=file.parent.name, **content)
            if definition.address in definitions:
                raise ValueError(f"{definition.address!r} is the page of another lab")
            definitions[definition.address] = definition
        except (OSError, TypeError, ValueError) as error:
            logger.warning("%s is left out: %s", file, error)
    return tuple(sorted(definitions.values(), key=lambda lab: (lab.order, lab.name)))


def __getattr__(name: str) -> Any:
    """Return the commands of a lab that declares none, `commands_NAME`, and the command of its jobs, `run_NAME`."""
    for lab in labs():
        if name == f"commands_{lab.name}":
            from mrc_workbench.data.commands import study_commands

            return study_commands(lab.load_study())
        if name == f"run_{lab.name}":
            return lab.load_study().run_folder
    raise AttributeError(name)
