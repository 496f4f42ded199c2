"""`python -m training find-settings KIND`: a search for settings, its table, and a training with what came out."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.validators import mutually_exclusive

from data.commands import AsJson, commands_of
from data.terminal import tell
from retrieval.evaluation.measures import Measure
from training.command_line import PlanWords, carried_out_whole, followed_rounds, options_of, planned
from training.recipe import ranking_kinds
from training.runs.runs import Plan, create_rounds
from training.runs.sweeps import DEFAULTS, Findings, Search, Tried, create_search


def find_settings_commands() -> App:
    """Return the commands that find settings, one a kind of training that ranks passages."""
    commands = commands_of("find-settings", "Try a few settings on validation questions, and tell which do.")
    for kind in ranking_kinds():
        commands.command(_command_of(kind), name=kind, help=f"of a {kind}")
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
        from training.sweeps.search import find_settings

        if not 0 < minutes <= 1440:
            raise ValueError(f"minutes must be above 0 and 1440 at most, not {minutes:g}")
        plan = planned(kind, words, chosen)
        search = create_search(plan, minutes, attended=not queue)
        status = carried_out_whole(search, "search", partial(find_settings, search), queue=queue)
        if status is not None:
            return status
        if (found := search.found) is None:
            raise ValueError(f"{search.result} cannot be read")
        tell(_as_json(search, found) if as_json else _as_table(found))
        return _trained(plan, found) if train else 0

    return find


def _trained(plan: Plan, found: Findings) -> int:
    return followed_rounds(create_rounds(replace(plan, options=replace(plan.options, **found.changes)), attended=True))


def _as_json(search: Search, found: Findings) -> str:
    chosen = asdict(replace(search.plan().options, **found.changes))
    return json.dumps({"search": search.id, **asdict(found), "options": chosen}, ensure_ascii=False, indent=2)


def _as_table(found: Findings) -> str:
    measure = Measure.parse(found.measure).long
    head = ("", "setting", "epochs", "steps", measure, "95%", "difference", "95%", "p", "loss")
    rows: list[tuple[str, ...]] = [head]
    rows += [_row(one, chosen=one.number == found.chosen) for one in found.tried]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
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
