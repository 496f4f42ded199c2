"""Commands of labs that declare none, and the commands that run the jobs of all labs, looked up by name."""

from typing import Any

from mrc_workbench.data.commands import study_commands
from mrc_workbench.labs import labs

_JOB = "run_"


def __getattr__(name: str) -> Any:
    """Return the commands of the lab `name`, or for `run_NAME` the command that runs a job of the lab NAME."""
    by_name = {lab.name: lab for lab in labs()}
    if name in by_name:
        return study_commands(by_name[name].load_study())
    lab = by_name.get(name.removeprefix(_JOB))
    if not lab or not name.startswith(_JOB):
        raise AttributeError(name)
    return lab.load_study().run_folder
