"""`mrc train`, `mrc sweep` and `mrc ablate`: train a model, search its settings, or vary a language model."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.validators import mutually_exclusive

from mrc_workbench.data.commands import AsJson, commands_of
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.jobs.processes import hold_freed_memory
from mrc_workbench.data.pairs.store import find as find_pairs
from mrc_workbench.data.store import find as find_questions
from mrc_workbench.data.terminal import tell
from mrc_workbench.data.workspace import limits, user
from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_as
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.jobs import (
    DEFAULTS,
    QUEUE,
    UNTRAINED,
    Ablation,
    Estimate,
    Findings,
    Rehearsal,
    RehearsalTask,
    Table,
    Tried,
    Variant,
    create_ablation,
    create_search,
)
from mrc_workbench.training.recipes import RECIPES, ranking_kinds, recipe_of
from mrc_workbench.training.run_commands import (
    PlanWords,
    followed_rounds,
    options_of,
    planned,
    run_folder,
    run_or_queue,
)
from mrc_workbench.training.runs import Plan, absolute, create_rounds, new_plan, rounds_of
from mrc_workbench.training.text_options import LANGUAGE_MODEL

_action = partial(Parameter, negative="", group=Group("Other actions", validator=mutually_exclusive))
Queued = Annotated[bool, _action(help="only add it to the queue, and print its id")]


def _training_of(kind: str) -> Callable[..., int]:
    @options_of(kind)
    def train(
        *,
        words: PlanWords,
        out: Annotated[Path | None, Parameter(help="run folder; the model is in its folder model/")] = None,
        fit: Annotated[
            bool, Parameter(negative="", help="estimate first, and change options until memory suffices")
        ] = False,
        queue: Queued = False,
        estimate: Annotated[bool, _action(help="only estimate time and memory, from a few steps")] = False,
        negatives_file: Annotated[Path | None, _action(help="only write the hard negatives to this file")] = None,
        **chosen: Any,
    ) -> int:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if int(os.environ.get("RANK", "0")) > 0 and out:
            return run_folder(out)
        if processes > 1 and not out:
            raise ValueError("several processes need --out: a new folder that all of them see")
        plan = planned(kind, words, chosen)
        if processes > 1 and rounds_of(plan.options) > 1:
            raise ValueError(
                "several processes take one round at a time: --base and --negatives-model name the one before"
            )
        if negatives_file:
            return _write_negatives(plan, negatives_file)
        if estimate:
            from mrc_workbench.training import estimate as estimating  # imports torch

            hold_freed_memory()  # as a training does
            tell(json.dumps(asdict(estimating.estimate(plan)), indent=2))
            return 0
        runs = create_rounds(_fitted(plan) if fit else plan, out, attended=not queue)
        if queue:
            QUEUE.start_worker()
            tell("\n".join(run.id for run in runs))
            return 0
        return followed_rounds(runs)

    return train


def _write_negatives(plan: Plan, path: Path) -> int:
    from mrc_workbench.training.train import mined

    table, questions = mined(plan)
    if path.suffix == ".csv":
        path.write_bytes(csv_bytes(table))
    else:
        table.to_json(path, orient="records", lines=True, force_ascii=False)
    tell(f"{len(table)} negatives of {table['question_id'].nunique()} of {questions} questions: {path}")
    return 0


def _fitted(plan: Plan) -> Plan:
    """Change the plan until its memory suffices. Raises `ValueError` if no change does."""
    from mrc_workbench.training.estimate import REASONS

    for _ in REASONS:
        estimate = _estimated(plan)
        gigabytes = f"{estimate.memory / 1e9:.1f} of {estimate.memory_available / 1e9:.1f} GB"
        if estimate.fits:
            tell(f"about {estimate.seconds / 60:.0f} minutes, {gigabytes} of memory")
            return plan
        if not estimate.instead:
            break
        tell(f"does not fit: {gigabytes} of memory")
        for name, value in estimate.instead.items():
            tell(f"  {name}: {getattr(plan.options, name)} -> {value}: {REASONS[name]}")
        plan = replace(plan, options=replace(plan.options, **estimate.instead))
    raise ValueError(f"{gigabytes} of memory, and no change was found that makes it fit: take a smaller base")


def _estimated(plan: Plan) -> Estimate:
    """Estimate in a process of its own, which frees its memory at its end."""
    rehearsal = Rehearsal.of(plan, RehearsalTask.ESTIMATE)
    rehearsal.start(plan)
    try:
        while rehearsal.running:
            time.sleep(0.2)
    except KeyboardInterrupt:
        rehearsal.end()
        raise
    if not rehearsal.done:
        raise ValueError(rehearsal.problem()[1])
    return rehearsal.estimate()


def _search_of(kind: str) -> Callable[..., int]:
    @options_of(kind)
    def find(
        *,
        words: PlanWords,
        minutes: Annotated[float, Parameter(help="time limit in minutes")] = 10.0,
        as_json: AsJson = False,
        queue: Queued = False,
        train: Annotated[bool, _action(help="train with the selected setting")] = False,
        **chosen: Any,
    ) -> int:
        if not 0 < minutes <= 1440:
            raise ValueError(f"minutes must be above 0 and 1440 at most, not {minutes:g}")
        plan = planned(kind, words, chosen)
        from mrc_workbench.training.search import find_settings  # imports torch

        search = create_search(plan, minutes, attended=not queue)
        status = run_or_queue(search, "search", partial(find_settings, search), queue=queue)
        if status is not None:
            return status
        if (found := search.found) is None:
            raise ValueError(f"{search.result} cannot be read")
        options = replace(plan.options, **found.changes)
        content = {"search": search.id, **asdict(found), "options": asdict(options)}
        tell(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _as_table(found))
        return followed_rounds(create_rounds(replace(plan, options=options), attended=True)) if train else 0

    return find


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _as_table(findings: Findings) -> str:
    measure = Measure.parse(findings.measure).long
    head = ("", "setting", "epochs", "steps", measure, "95%", "difference", "95%", "p", "loss")
    lines = _aligned([head, *(_row(one, chosen=one.number == findings.chosen) for one in findings.tried)])
    lines.append(
        f"on {findings.questions:,} validation questions, where the untrained base has {findings.untrained:.4f}"
    )
    lines += [f"setting {number} ended with an error: see its log" for number in findings.failed]
    if findings.untried:
        lines.append(f"too little time for settings {', '.join(map(str, findings.untried))}")
    if findings.chosen != DEFAULTS:
        lines.append(f"setting {findings.chosen} is better than the defaults")
    elif findings.best == DEFAULTS:
        lines.append("nothing tried is better than the defaults: they stay")
    else:
        lines.append(f"setting {findings.best} came to most but cannot be told apart from the defaults: they stay")
    return "\n".join(lines)


def _row(one: Tried, *, chosen: bool) -> tuple[str, ...]:
    changed = ", ".join(f"{name} {value}" for name, value in one.changed.items()) or "defaults"
    length = (f"{one.epochs:.2f}", f"{one.steps:,}")
    value = (f"{one.value:.4f}", f"{one.low:.4f} to {one.high:.4f}")
    interval = f"{one.difference_low:+.4f} to {one.difference_high:+.4f}"
    difference = (f"{one.difference:+.4f}", interval, f"{one.p_family:.4f}")
    if one.number == DEFAULTS:
        difference = ("", "", "")
    loss = "" if one.loss is None else f"{one.loss:.4f}"
    return ("*" if chosen else "", f"{one.number} {changed}", *length, *value, *difference, loss)


def ablate(
    experiment: Annotated[Path, Parameter(help="experiment file (TOML)")],
    /,
    *,
    name: Annotated[str, Parameter(help="name of the ablation")] = "",
    as_json: AsJson = False,
    queue: Annotated[bool, Parameter(negative="", help="only add it to the queue, and print its id")] = False,
) -> int:
    """Vary one option of a language model at a time.

    Trains each variant, and compares them.
    """
    ablation = planned_ablation(read_as(AblationExperiment, experiment), name or experiment.stem, attended=not queue)
    from mrc_workbench.training.ablation import ablate as execute  # imports torch

    status = run_or_queue(ablation, "ablation", partial(execute, ablation), queue=queue)
    if status is not None:
        return status
    if (table := ablation.table) is None:
        raise ValueError(f"{ablation.result} cannot be read")
    content = {"ablation": ablation.id, **asdict(table)}
    tell(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _as_text(table))
    return 0


def planned_ablation(experiment: AblationExperiment, name: str, *, attended: bool = False) -> Ablation:
    """Check an experiment and queue its ablation. Raises `Failure` if anything in it is wrong."""
    experiment.check()
    places = ("text", "questions", "sentences")
    for place in places:
        reference = getattr(experiment, place)
        is_a_path = os.sep in reference or os.path.isfile(reference)  # noqa: PTH113 - a name may be too long
        if is_a_path and user() and not limits().paths:
            raise ExperimentError(f"{place}: files of the server are not open to users: name a set")
    family = recipe_of(LANGUAGE_MODEL).family
    text = family.find(experiment.text)
    for number in experiment.changes:
        family.check(text, experiment.learning(number))
    data = (absolute(experiment.text), text.name, text.fingerprint)
    plan = new_plan(LANGUAGE_MODEL, name, data, experiment.shares, experiment.learning(1))
    if experiment.questions:
        find_questions(experiment.questions)
    if experiment.sentences:
        find_pairs(experiment.sentences)
    where = {place: absolute(getattr(experiment, place)) for place in places}
    content = experiment.model_copy(update=where).model_dump(mode="json")
    return create_ablation(plan, content, attended=attended)


def _as_text(table: Table) -> str:
    measures = table.measures
    rows = [(called(one), *(_cell(one, measure) for measure in measures)) for one in table.variants]
    lines = _aligned([("variant", *measures), *rows])
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


def __getattr__(name: str) -> App:
    """Return the commands of `mrc train` or `mrc sweep`, made when they are used: one for each kind of training."""
    if name == "train_commands":
        about = "Train a model.\n\nDefaults are those of the starter; other bases have their own."
        commands = commands_of("train", about)
        for kind, recipe in RECIPES.items():
            commands.command(_training_of(kind), name=kind, help=f"Train {recipe.named or kind}.")
        return commands
    if name == "sweep_commands":
        commands = commands_of("sweep", "Search settings of a training.\n\nTries a few on validation questions.")
        for kind in ranking_kinds():
            commands.command(_search_of(kind), name=kind, help=f"Search settings for a {kind}.")
        return commands
    raise AttributeError(name)
