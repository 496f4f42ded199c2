"""The plan of a training, as the command line and the Python API make it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.training.recipe import recipe_of, usual_base
from mrc_workbench.training.runs.runs import Plan, new_plan


def plan_training(kind: str, reference: str, name: str, shares: SplitOptions, chosen: Mapping[str, Any]) -> Plan:
    """Return the plan of a training of this kind on the data that `reference` names.

    `chosen` are options of the kind by name; the others get the values that suit the base. Raises `DataError`, and
    `OptionError` where the options do not fit the data.
    """
    recipe = recipe_of(kind)
    found, options = recipe.family.find(reference), recipe.options
    if judges := chosen.get("judged_on"):
        chosen = {**chosen, "judged_on": absolute(judges)}
    suited = options.suited_to(chosen.get("base", usual_base(kind)))
    objective = chosen.get("objective", suited.objective)
    changes = options.settings_for(objective) | {**chosen}
    if changes.get("lora_rank"):
        changes = {"frozen_layers": 0} | changes  # adapters leave every weight as it is
    planned = replace(suited, **changes)
    recipe.family.check(found, planned)
    data = (absolute(reference), found.name, found.fingerprint)
    return new_plan(kind, name or kind, data, shares, planned)


def absolute(reference: str) -> str:
    """Return a file by its absolute path, since a worker may run elsewhere; any other reference as it is."""
    return str(Path(reference).resolve()) if Path(reference).is_file() else reference
