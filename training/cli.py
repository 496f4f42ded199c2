"""`mrc train KIND`: train a model, here or in the queue, or estimate the training."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.validators import mutually_exclusive

from mrc_workbench.data.commands import commands_of
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.terminal import tell
from mrc_workbench.training.commands import PlanWords, followed_rounds, options_of, planned
from mrc_workbench.training.jobs import QUEUE, Estimate, Rehearsal, RehearsalTask
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.run_commands import run_folder
from mrc_workbench.training.runs import Plan, create_rounds, rounds_of

_A_MODEL = {
    "bi-encoder": "a bi-encoder for dense retrieval",
    "cross-encoder": "a cross-encoder for reranking",
    "late-interaction": "a late-interaction model (ColBERT)",
    "sparse-encoder": "a sparse encoder (SPLADE)",
    "sentences": "a sentence encoder on sentence pairs",
    "sentence-cross-encoder": "a cross-encoder on sentence pairs",
    "reader": "a reader that finds answers in passages",
    "language-model": "a language model on text",
}


def _commands() -> App:
    about = "Train a model.\n\nDefaults are those of the starter; other bases have their own."
    commands = commands_of("train", about)
    for kind in RECIPES:
        commands.command(_training_of(kind), name=kind, help=f"Train {_A_MODEL.get(kind, kind)}.")
    return commands


def _training_of(kind: str) -> Callable[..., int]:
    other = Group("Other actions", validator=mutually_exclusive)

    def only(text: str) -> Parameter:
        return Parameter(negative="", help=text, group=other)

    @options_of(kind)
    def train(
        *,
        words: PlanWords,
        out: Annotated[Path | None, Parameter(help="run folder; the model is in its folder model/")] = None,
        fit: Annotated[
            bool, Parameter(negative="", help="estimate first, and change options until memory suffices")
        ] = False,
        queue: Annotated[bool, only("only add it to the queue, and print its id")] = False,
        estimate: Annotated[bool, only("only estimate time and memory, from a few steps")] = False,
        negatives_file: Annotated[Path | None, only("only write the hard negatives to this file")] = None,
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
            return _print_estimate(plan)
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
    """Change the plan until its memory suffices, each change tried before the next. Raises `ValueError`: none does."""
    from mrc_workbench.training.estimate import REASONS

    for _ in REASONS:
        found = _estimated(plan)
        gigabytes = f"{found.memory / 1e9:.1f} of {found.memory_available / 1e9:.1f} GB"
        if found.fits:
            tell(f"about {found.seconds / 60:.0f} minutes, {gigabytes} of memory")
            return plan
        if not found.instead:
            break
        tell(f"does not fit: {gigabytes} of memory")
        for name, value in found.instead.items():
            tell(f"  {name}: {getattr(plan.options, name)} -> {value}: {REASONS[name]}")
        plan = replace(plan, options=replace(plan.options, **found.instead))
    raise ValueError(f"{gigabytes} of memory, and no change was found that makes it fit: take a smaller base")


def _estimated(plan: Plan) -> Estimate:
    """Ask a process of its own: what it held while it tried is given back."""
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


def _print_estimate(plan: Plan) -> int:
    from mrc_workbench.data.jobs.processes import hold_freed_memory
    from mrc_workbench.training.estimate import estimate

    hold_freed_memory()  # as a training does
    tell(json.dumps(asdict(estimate(plan)), indent=2))
    return 0


def __getattr__(name: str) -> App:
    """Make `commands` when they are used: other users of this module do without the options of every kind."""
    if name == "commands":
        return _commands()
    raise AttributeError(name)
