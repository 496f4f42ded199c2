"""`python -m training ablate FILE`: variants of a language model's training, and the table of what they came to."""

import json
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from data.commands import AsJson
from data.limits import limits
from data.pairs.store import find as find_pairs
from data.store import find as find_questions
from data.terminal import tell
from data.workspace import user
from retrieval.comparison.experiment import ExperimentError, read_as
from training.command_line import carried_out_whole, placed
from training.options.language_model import LANGUAGE_MODEL
from training.recipe import recipe_of
from training.runs.runs import Plan, new_plan
from training.runs.sweeps import UNTRAINED, Ablation, Table, Variant, create_ablation
from training.sweeps.variants import AblationExperiment


def ablate(
    experiment: Annotated[Path, Parameter(help="file (TOML) that says what is learned from, varied and asked")],
    /,
    *,
    name: Annotated[str, Parameter(help="name of the ablation")] = "",
    as_json: AsJson = False,
    queue: Annotated[bool, Parameter(negative="", help="only put it in line, and print its id")] = False,
) -> int:
    """Vary one thing of a language model's training at a time, and compare."""
    from training.sweeps.ablation import ablate as carry

    ablation = planned_ablation(read_as(AblationExperiment, experiment), name or experiment.stem, attended=not queue)
    status = carried_out_whole(ablation, "ablation", partial(carry, ablation), queue=queue)
    if status is not None:
        return status
    if (table := ablation.table) is None:
        raise ValueError(f"{ablation.result} cannot be read")
    told = {"ablation": ablation.id, **asdict(table)}
    tell(json.dumps(told, ensure_ascii=False, indent=2) if as_json else _as_text(table))
    return 0


def planned_ablation(experiment: AblationExperiment, name: str, *, attended: bool = False) -> Ablation:
    """Check an experiment and make the folder of its ablation, which stands in line at once.

    Raises `ExperimentError`, `OptionError`, `DataError` and `LanguageError` where anything in it cannot be.
    """
    experiment.check()
    for place in ("text", "questions", "sentences"):
        _require_open(place, getattr(experiment, place))
    plan = _plan(experiment, name)
    if experiment.questions:
        find_questions(experiment.questions)
    if experiment.sentences:
        find_pairs(experiment.sentences)
    where = {name: placed(getattr(experiment, name)) for name in ("text", "questions", "sentences")}
    told = experiment.model_copy(update=where).model_dump(mode="json")
    return create_ablation(plan, told, attended=attended)


def _require_open(place: str, reference: str) -> None:
    """Raise `ExperimentError` where a user, who may name sets alone, names a file of the server."""
    is_a_path = os.sep in reference or os.path.isfile(reference)  # noqa: PTH113 - a name may be too long
    if is_a_path and user() and not limits().paths:
        raise ExperimentError(f"{place}: files of the server are not open to users: name a set")


def _plan(experiment: AblationExperiment, name: str) -> Plan:
    family = recipe_of(LANGUAGE_MODEL).family
    text = family.find(experiment.text)
    for number in experiment.changes:
        family.check(text, experiment.learning(number))
    data = (placed(experiment.text), text.name, text.fingerprint)
    return new_plan(LANGUAGE_MODEL, name, data, experiment.shares, experiment.learning(1))


def _as_text(table: Table) -> str:
    measures = table.measures
    rows = [("variant", *measures)]
    rows += [(called(one), *(_cell(one, measure) for measure in measures)) for one in table.variants]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"{called(one)}: {one.message}" for one in table.variants if one.code]
    if any(not one.alike for one in table.variants):
        lines.append(
            "(o) other tokens are hidden there: perplexity and guesses cannot be compared with the first row's"
        )
    return "\n".join([*lines, f"{table.questions:,} test questions, {table.pairs:,} pairs; in brackets: 95%"])


def called(variant: Variant) -> str:
    """Return what a variant is called: the options that it changes."""
    if variant.number == UNTRAINED:
        return "without pre-training"
    return ", ".join(f"{name} {value}" for name, value in variant.changed.items()) or "as written"


def _cell(variant: Variant, measure: str) -> str:
    figure = (variant.figures or {}).get(measure)
    if figure is None:
        return "-"
    digits = 1 if measure == "perplexity" else 4
    other = "" if variant.alike or measure not in ("perplexity", "masked_accuracy") else " (o)"
    return f"{figure.value:.{digits}f} [{figure.low:.{digits}f}, {figure.high:.{digits}f}]{other}"
