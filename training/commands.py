"""What the commands share, a plan and a job followed to its end, and the sweeps: `find-settings` and `ablate`."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.validators import mutually_exclusive

from mrc_workbench.data.commands import AsJson, Command, commands_of, takes
from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.pairs.store import find as find_pairs
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find as find_questions
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import limits, user, workspace
from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_as
from mrc_workbench.retrieval.evaluation.measures import Measure
from mrc_workbench.training.options.texts import LANGUAGE_MODEL
from mrc_workbench.training.recipe import ranking_kinds, recipe_of, usual_base
from mrc_workbench.training.runs.jobs import (
    DEFAULTS,
    QUEUE,
    UNTRAINED,
    Ablation,
    CompositeRun,
    Findings,
    Table,
    Tried,
    Variant,
    create_ablation,
    create_search,
    find_job,
    job_at,
)
from mrc_workbench.training.runs.runs import Plan, Run, create_rounds, new_plan, run_in
from mrc_workbench.training.sweeps.variants import AblationExperiment


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanWords:
    """What every training is told besides the options of its kind."""

    data: Annotated[str, Parameter(help="a file, or a name of the catalog or the workspace")]
    name: Annotated[str, Parameter(help="name of the run")] = ""
    test_share: Annotated[float, Parameter(help="share of the articles, or pairs, kept for the test")] = 0.2
    validation_share: Annotated[float, Parameter(help="share to measure on")] = 0.1
    split_seed: Annotated[int, Parameter(help="seed of the split")] = 0


def options_of(kind: str) -> Callable[[Command], Command]:
    """Let a command's `**chosen` be every option of a kind of training, with the defaults that suit the starter."""
    suited = recipe_of(kind).options.suited_to()
    return takes(type(suited), suited=suited)


def planned(kind: str, words: PlanWords, chosen: dict[str, Any]) -> Plan:
    """Return the plan of what was given; options that were not suit the base."""
    recipe = recipe_of(kind)
    found, made = recipe.family.find(words.data), recipe.options
    if judges := chosen.get("judged_on"):
        chosen = chosen | {"judged_on": placed(judges)}
    suited = made.suited_to(chosen.get("base", usual_base(kind)))
    objective = chosen.get("objective", suited.objective)
    changes = made.settings_for(objective) | chosen
    if changes.get("lora_rank"):
        changes = {"frozen_layers": 0} | changes  # adapters leave every weight as it is
    options = replace(suited, **changes)
    recipe.family.check(found, options)
    data = (placed(words.data), found.name, found.fingerprint)
    shares = SplitOptions(words.validation_share, words.test_share, words.split_seed)
    return new_plan(kind, words.name or kind, data, shares, options)


def placed(reference: str) -> str:
    """A file by its path from the root: who carries the plan out may stand elsewhere."""
    return str(Path(reference).resolve()) if Path(reference).is_file() else reference


def known_job(reference: str) -> Run:
    """Return the training or search with this id in the workspace, or in this folder. Raises `ValueError`: none."""
    run = find_job(reference)
    if run is None and (elsewhere := run_in(Path(reference))):
        run = job_at(elsewhere.folder)
    if run is None:
        raise ValueError(f"there is no run {reference!r}; `mrc train list` lists the runs")
    return run


def followed_rounds(runs: Sequence[Run]) -> int:
    """Train one after the other in this process; returns the exit status. Where one does not end well, so do all."""
    for number, run in enumerate(runs, start=1):
        tell(f"run folder: {run.folder}")
        status = followed(run)
        if run.status().state is not State.DONE:
            for later in runs[number:]:
                later.stop()  # out of the line; `resume` puts it back
            return status
    return 0


def followed(run: Run) -> int:
    """Train in this process and print what came out; returns the exit status."""
    from mrc_workbench.training.train import train

    with stopping_on_signals(run) as heard, reporting_progress_of(run):
        ended = train(run)
    if ended.state is not State.DONE:
        return _not_done(run, ended, heard)
    for name, figures in run.scores().items():
        if name in ("before", "after", "interpolated", "bm25", "unigram"):
            tell(f"{name:>12}  " + "  ".join(f"{measure} {value:.4f}" for measure, value in figures.items()))
    tell(f"model: {run.model_folder}")
    return 0


def _run_or_queue(whole: CompositeRun, name: str, work: Callable[[], Status], *, queue: bool) -> int | None:
    """Put what is made of trainings in line, or do its work here; returns the exit status, None where it is done."""
    if queue:
        QUEUE.start_worker()
        tell(whole.id)
        return 0
    tell(f"{name}: {whole.id}", error=True)
    # what trainers print is no part of the answer
    with stopping_on_signals(whole) as heard, reporting_progress_of(whole), redirect_stdout(sys.stderr):
        ended = work()
    return None if ended.state is State.DONE else _not_done(whole, ended, heard)


def _not_done(run: Run, ended: Status, heard: Sequence[int]) -> int:
    """Say how a run ended that was stopped or failed; returns the exit status."""
    resumed = f"`mrc train resume {run.id if run.folder.parent == workspace() / 'runs' else run.folder}` continues"
    if ended.state is State.STOPPED:
        tell(f"Stopped. The last checkpoint is kept: {resumed} from it.", error=True)
        return 128 + signal.SIGINT if signal.SIGINT in heard else 0
    if ended.code == "interrupted":
        tell(f"Stopped at once. Checkpoints written before are kept: {resumed}.", error=True)
        return 128 + signal.SIGINT
    tell(f"error: {ended.message}", error=True)
    return 1


@contextmanager
def reporting_progress_of(run: Run) -> Iterator[None]:
    """Report the progress that a run writes into its folder, while this process carries it out."""
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(1.0):
            status = run.status()
            step = f", step {status.step:,} of {status.total_steps:,}" if status.total_steps else ""
            report_progress(
                f"{status.phase or status.state.value}{step}".replace("_", " "), status.share, is_total=False
            )

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        end_progress_line()


@contextmanager
def stopping_on_signals(run: Run) -> Iterator[list[int]]:
    """Asked to end, a training ends after its step, with a checkpoint; asked again, at once.

    Yields the signals that were heard.
    """
    heard: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        heard.append(number)
        run.ask_to_stop()
        end_progress_line()
        tell("Stopping after this step, with a checkpoint. Press Ctrl-C again to stop at once.", error=True)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find_settings_commands() -> App:
    """Return the commands that find settings, one a kind of training that ranks passages."""
    commands = commands_of("find-settings", "Try a few settings on validation questions, and compare them.")
    for kind in ranking_kinds():
        commands.command(_command_of(kind), name=kind, help=f"Find settings for a {kind}.")
    return commands


def _command_of(kind: str) -> Callable[..., int]:
    instead = Group("Instead", validator=mutually_exclusive)

    @options_of(kind)
    def find(
        *,
        words: PlanWords,
        minutes: Annotated[float, Parameter(help="time it may take, in minutes")] = 10.0,
        as_json: AsJson = False,
        queue: Annotated[
            bool, Parameter(negative="", help="only put it in line, and print its id", group=instead)
        ] = False,
        train: Annotated[
            bool, Parameter(negative="", help="go on with a whole training, with what was chosen", group=instead)
        ] = False,
        **chosen: Any,
    ) -> int:
        from mrc_workbench.training.sweeps.search import find_settings

        if not 0 < minutes <= 1440:
            raise ValueError(f"minutes must be above 0 and 1440 at most, not {minutes:g}")
        plan = planned(kind, words, chosen)
        search = create_search(plan, minutes, attended=not queue)
        status = _run_or_queue(search, "search", partial(find_settings, search), queue=queue)
        if status is not None:
            return status
        if (found := search.found) is None:
            raise ValueError(f"{search.result} cannot be read")
        options = replace(plan.options, **found.changes)
        told = {"search": search.id, **asdict(found), "options": asdict(options)}
        tell(json.dumps(told, ensure_ascii=False, indent=2) if as_json else _as_table(found))
        return followed_rounds(create_rounds(replace(plan, options=options), attended=True)) if train else 0

    return find


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _as_table(found: Findings) -> str:
    measure = Measure.parse(found.measure).long
    head = ("", "setting", "epochs", "steps", measure, "95%", "difference", "95%", "p", "loss")
    lines = _aligned([head, *(_row(one, chosen=one.number == found.chosen) for one in found.tried)])
    lines.append(f"on {found.questions:,} validation questions, where the untrained base has {found.untrained:.4f}")
    lines += [f"setting {number} ended with an error: see its log" for number in found.failed]
    if found.untried:
        lines.append(f"too little time for settings {', '.join(map(str, found.untried))}")
    return "\n".join([*lines, _sentence(found)])


def _row(one: Tried, *, chosen: bool) -> tuple[str, ...]:
    changed = ", ".join(f"{name} {value}" for name, value in one.changed.items())
    first = one.number == DEFAULTS
    return (
        "*" if chosen else "",
        f"{one.number} {'defaults' if first else changed}",
        f"{one.epochs:.2f}",
        f"{one.steps:,}",
        f"{one.value:.4f}",
        f"{one.low:.4f} to {one.high:.4f}",
        "" if first else f"{one.difference:+.4f}",
        "" if first else f"{one.difference_low:+.4f} to {one.difference_high:+.4f}",
        "" if first else f"{one.p_family:.4f}",
        "" if one.loss is None else f"{one.loss:.4f}",
    )


def _sentence(found: Findings) -> str:
    if found.chosen != DEFAULTS:
        return f"setting {found.chosen} is better than the defaults"
    if found.best == DEFAULTS:
        return "nothing tried is better than the defaults: they stay"
    return f"setting {found.best} came to most but cannot be told apart from the defaults: they stay"


def ablate(
    experiment: Annotated[Path, Parameter(help="file (TOML) that says what is learned from, varied and asked")],
    /,
    *,
    name: Annotated[str, Parameter(help="name of the ablation")] = "",
    as_json: AsJson = False,
    queue: Annotated[bool, Parameter(negative="", help="only put it in line, and print its id")] = False,
) -> int:
    """Vary one thing of a language model's training at a time, and compare."""
    from mrc_workbench.training.sweeps.ablation import ablate as execute

    ablation = planned_ablation(read_as(AblationExperiment, experiment), name or experiment.stem, attended=not queue)
    status = _run_or_queue(ablation, "ablation", partial(execute, ablation), queue=queue)
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
    data = (placed(experiment.text), text.name, text.fingerprint)
    plan = new_plan(LANGUAGE_MODEL, name, data, experiment.shares, experiment.learning(1))
    if experiment.questions:
        find_questions(experiment.questions)
    if experiment.sentences:
        find_pairs(experiment.sentences)
    where = {place: placed(getattr(experiment, place)) for place in places}
    told = experiment.model_copy(update=where).model_dump(mode="json")
    return create_ablation(plan, told, attended=attended)


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
