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

from mrc_workbench.data.commands import AsJson, command_group
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.jobs.processes import hold_freed_memory
from mrc_workbench.data.pairs.store import find as find_pairs
from mrc_workbench.data.store import find as find_questions
from mrc_workbench.data.terminal import print_line
from mrc_workbench.data.workspace import limits, user
from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_experiment_as
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.training import jobs, run_commands
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.recipes import RECIPES, get_recipe, ranking_kinds
from mrc_workbench.training.runs import TrainingPlan, absolute_reference, count_rounds, create_rounds, new_plan
from mrc_workbench.training.text_options import LANGUAGE_MODEL

_action = partial(Parameter, negative="", group=Group("Other actions", validator=mutually_exclusive))
Queued = Annotated[bool, _action(help="only add it to the queue, and print its id")]


def _train_command(kind: str) -> Callable[..., int]:
    @run_commands.takes_options(kind)
    def train(
        *,
        plan_options: run_commands.PlanOptions,
        out: Annotated[Path | None, Parameter(help="run folder; the model is in its folder model/")] = None,
        fit: Annotated[bool, Parameter(negative="", help="change options until memory suffices")] = False,
        queue: Queued = False,
        estimate: Annotated[bool, _action(help="only estimate time and memory, from a few steps")] = False,
        negatives_file: Annotated[Path | None, _action(help="only write the hard negatives to this file")] = None,
        **selected_options: Any,
    ) -> int:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if int(os.environ.get("RANK", "0")) > 0 and out:
            return run_commands.run_folder(out)
        if processes > 1 and not out:
            raise ValueError("several processes need --out: a new folder that all of them see")
        plan = run_commands.make_plan(kind, plan_options, selected_options)
        if processes > 1 and count_rounds(plan.options) > 1:
            raise ValueError("several processes train one round at a time: --base and --negatives-model name the last")
        if negatives_file:
            return _write_negatives(plan, negatives_file)
        if estimate:
            from mrc_workbench.training import estimate as estimating  # imports torch

            hold_freed_memory()  # as a training does
            print_line(json.dumps(asdict(estimating.estimate(plan)), indent=2))
            return 0
        runs = create_rounds(_fit_to_memory(plan) if fit else plan, out, attended=not queue)
        if queue:
            jobs.QUEUE.start_worker()
            print_line("\n".join(run.id for run in runs))
            return 0
        return run_commands.train_rounds(runs)

    return train


def _write_negatives(plan: TrainingPlan, path: Path) -> int:
    from mrc_workbench.training.train import mine_plan_negatives

    table, questions = mine_plan_negatives(plan)
    if path.suffix == ".csv":
        path.write_bytes(csv_bytes(table))
    else:
        table.to_json(path, orient="records", lines=True, force_ascii=False)
    print_line(f"{len(table)} negatives of {table['question_id'].nunique()} of {questions} questions: {path}")
    return 0


def _fit_to_memory(plan: TrainingPlan) -> TrainingPlan:
    """Change the plan until its memory suffices. Raises `ValueError` if no change does."""
    from mrc_workbench.training.estimate import REASONS

    for _ in REASONS:
        estimate = _estimate_in_subprocess(plan)
        gigabytes = f"{estimate.memory / 1e9:.1f} of {estimate.memory_available / 1e9:.1f} GB"
        if estimate.fits:
            print_line(f"about {estimate.seconds / 60:.0f} minutes, {gigabytes} of memory")
            return plan
        if not estimate.suggested_options:
            break
        print_line(f"does not fit: {gigabytes} of memory")
        for name, value in estimate.suggested_options.items():
            print_line(f"  {name}: {getattr(plan.options, name)} -> {value}: {REASONS[name]}")
        plan = replace(plan, options=replace(plan.options, **estimate.suggested_options))
    raise ValueError(f"{gigabytes} of memory, and no change of options makes it fit: use a smaller base")


def _estimate_in_subprocess(plan: TrainingPlan) -> jobs.Estimate:
    """Estimate in a subprocess, which frees its memory at its end."""
    dry_run = jobs.DryRunJob.for_plan(plan, jobs.DryRunTask.ESTIMATE)
    dry_run.start(plan)
    try:
        while dry_run.running:
            time.sleep(0.2)
    except KeyboardInterrupt:
        dry_run.kill()
        raise
    if not dry_run.done:
        raise ValueError(dry_run.problem()[1])
    return dry_run.estimate()


def _sweep_command(kind: str) -> Callable[..., int]:
    @run_commands.takes_options(kind)
    def find(
        *,
        plan_options: run_commands.PlanOptions,
        minutes: Annotated[float, Parameter(help="time limit in minutes")] = 10.0,
        as_json: AsJson = False,
        queue: Queued = False,
        train: Annotated[bool, _action(help="train with the selected setting")] = False,
        **selected_options: Any,
    ) -> int:
        if not 0 < minutes <= 1440:
            raise ValueError(f"minutes must be above 0 and 1440 at most, not {minutes:g}")
        plan = run_commands.make_plan(kind, plan_options, selected_options)
        from mrc_workbench.training.search import search_settings  # imports torch

        search = jobs.create_search(plan, minutes, attended=not queue)
        status = run_commands.run_or_queue(search, "search", partial(search_settings, search), queue=queue)
        if status is not None:
            return status
        if (outcome := search.outcome) is None:
            raise ValueError(f"{search.result} cannot be read")
        options = replace(plan.options, **outcome.changes)
        content = {"search": search.id, **asdict(outcome), "options": asdict(options)}
        print_line(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _format_search(outcome))
        return run_commands.train_rounds(create_rounds(replace(plan, options=options), attended=True)) if train else 0

    return find


def _align_columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _format_search(outcome: jobs.SettingsSearchResult) -> str:
    measure = Measure.parse(outcome.measure).long_name
    head = ("", "setting", "epochs", "steps", measure, "95%", "difference", "95%", "p", "loss")
    rows = [_format_trial(trial, is_selected=trial.number == outcome.selected) for trial in outcome.trials]
    lines = _align_columns([head, *rows])
    lines.append(f"on {outcome.questions:,} validation questions; the untrained base has {outcome.untrained:.4f}")
    lines += [f"setting {number} failed: see its log" for number in outcome.failed]
    if outcome.skipped:
        lines.append(f"too little time for settings {', '.join(map(str, outcome.skipped))}")
    if outcome.selected != jobs.DEFAULTS:
        lines.append(f"setting {outcome.selected} is better than the defaults")
    elif outcome.best == jobs.DEFAULTS:
        lines.append("no setting is better than the defaults, which stay selected")
    else:
        lines.append(f"setting {outcome.best} has the highest score, but is not significantly better than the defaults")
    return "\n".join(lines)


def _format_trial(trial: jobs.TrialResult, *, is_selected: bool) -> tuple[str, ...]:
    changed = ", ".join(f"{name} {value}" for name, value in trial.changed_options.items()) or "defaults"
    length = (f"{trial.epochs:.2f}", f"{trial.steps:,}")
    value = (f"{trial.value:.4f}", f"{trial.low:.4f} to {trial.high:.4f}")
    interval = f"{trial.difference_low:+.4f} to {trial.difference_high:+.4f}"
    difference = (f"{trial.difference:+.4f}", interval, f"{trial.p_family:.4f}")
    if trial.number == jobs.DEFAULTS:
        difference = ("", "", "")
    loss = "" if trial.loss is None else f"{trial.loss:.4f}"
    return ("*" if is_selected else "", f"{trial.number} {changed}", *length, *value, *difference, loss)


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
    spec = read_experiment_as(AblationExperiment, experiment)
    ablation = plan_ablation(spec, name or experiment.stem, attended=not queue)
    from mrc_workbench.training.ablation import run_ablation as execute  # imports torch

    status = run_commands.run_or_queue(ablation, "ablation", partial(execute, ablation), queue=queue)
    if status is not None:
        return status
    if (table := ablation.table) is None:
        raise ValueError(f"{ablation.result} cannot be read")
    content = {"ablation": ablation.id, **asdict(table)}
    print_line(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _format_ablation(table))
    return 0


def plan_ablation(experiment: AblationExperiment, name: str, *, attended: bool = False) -> jobs.Ablation:
    """Check an experiment and queue its ablation. Raises `Failure` if anything in it is wrong."""
    experiment.check()
    set_fields = ("text", "questions", "sentences")
    for set_field in set_fields:
        reference = getattr(experiment, set_field)
        is_path = os.sep in reference or os.path.isfile(reference)  # noqa: PTH113 - a name may be too long
        if is_path and user() and not limits().paths:
            raise ExperimentError(f"{set_field}: files of the server are not open to users: name a set")
    family = get_recipe(LANGUAGE_MODEL).family
    text = family.find(experiment.text)
    for number in experiment.changes:
        family.check(text, experiment.language_model_options(number))
    data = (absolute_reference(experiment.text), text.name, text.fingerprint)
    plan = new_plan(LANGUAGE_MODEL, name, data, experiment.split_options, experiment.language_model_options(1))
    if experiment.questions:
        find_questions(experiment.questions)
    if experiment.sentences:
        find_pairs(experiment.sentences)
    absolute_paths = {set_field: absolute_reference(getattr(experiment, set_field)) for set_field in set_fields}
    content = experiment.model_copy(update=absolute_paths).model_dump(mode="json")
    return jobs.create_ablation(plan, content, attended=attended)


def _format_ablation(table: jobs.AblationTable) -> str:
    measures = table.measures
    rows = [(variant_name(row), *(_format_interval(row, measure) for measure in measures)) for row in table.variants]
    lines = _align_columns([("variant", *measures), *rows])
    lines += [f"{variant_name(variant)}: {variant.message}" for variant in table.variants if variant.code]
    if any(not variant.is_comparable for variant in table.variants):
        lines.append("(o) other tokens are masked: perplexity and accuracy are not comparable with the first row")
    return "\n".join([*lines, f"{table.questions:,} test questions, {table.pairs:,} pairs; in brackets: 95%"])


def variant_name(variant: jobs.Variant) -> str:
    """Return the name of a variant: the options that it changes."""
    if variant.number == jobs.UNTRAINED:
        return "without pre-training"
    return ", ".join(f"{name} {value}" for name, value in variant.changed_options.items()) or "as written"


def _format_interval(variant: jobs.Variant, measure: str) -> str:
    interval = (variant.metrics or {}).get(measure)
    if interval is None:
        return "-"
    digits = 1 if measure == "perplexity" else 4
    marker = "" if variant.is_comparable or measure not in ("perplexity", "masked_accuracy") else " (o)"
    return f"{interval.value:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]{marker}"


def __getattr__(name: str) -> App:
    """Create the commands of `mrc train` or `mrc sweep` on first use: one for each kind of training."""
    if name == "train_commands":
        about = "Train a model.\n\nDefaults are those of the starter; other bases have their own."
        commands = command_group("train", about)
        for kind, recipe in RECIPES.items():
            commands.command(_train_command(kind), name=kind, help=f"Train {recipe.description or kind}.")
        return commands
    if name == "sweep_commands":
        commands = command_group("sweep", "Search settings of a training.\n\nTries a few on validation questions.")
        for kind in ranking_kinds():
            commands.command(_sweep_command(kind), name=kind, help=f"Search settings for a {kind}.")
        return commands
    raise AttributeError(name)
