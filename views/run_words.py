"""What a training, a trial and a search for settings are called on the pages, and what each is doing."""

from jobs.status import State, Status
from training.runs.runs import Phase, Plan, Run
from training.runs.searches import Search
from training.settings.halving import SHARES
from views.words import word


def run_name(plan: Plan) -> str:
    """Return the words for a training, a trial, or a search for settings."""
    if plan.trial:
        return word("settings.trial", number=plan.trial.number, count=plan.trial.count)
    return word("settings.name", name=plan.name) if plan.minutes else plan.name


def phase_words(run: Run, status: Status) -> str:
    """Return what it is doing."""
    if isinstance(run, Search):
        return stage_words(status)
    return word(f"phase.{status.phase or Phase.LOADING}")


def stage_words(status: Status) -> str:
    """Return what a search for settings is doing."""
    if status.state is State.STOPPING:
        return word("settings.stopping")
    stage, _, number = status.phase.partition("_")
    if not number:
        return word(f"settings.stage_{stage or 'loading'}")
    values = {"round": number, "rounds": len(SHARES), "number": status.step, "count": status.total_steps}
    return word("settings.stage_trying", **values)
