"""What a training, its parts, a search for settings and an ablation are called on the pages, and what each is doing."""

from pydantic import ValidationError

from jobs.status import State, Status
from training.ablations.experiment import AblationExperiment
from training.runs.ablations import UNTRAINED, Ablation
from training.runs.runs import Phase, Plan, Run
from training.runs.searches import Search
from training.settings.halving import SHARES
from views.ui.words import word


def run_name(plan: Plan) -> str:
    """Return the words for a training, a trial, a search for settings, or an ablation."""
    if plan.trial and not plan.trial.whole:
        return word("settings.trial", number=plan.trial.number, count=plan.trial.count)
    if plan.ablation:
        return word("ablation.name" if is_varied(plan) else "ablation.name_helps", name=plan.name)
    return word("settings.name", name=plan.name) if plan.minutes else plan.name


def experiment_of(plan: Plan) -> AblationExperiment | None:
    """Return what an ablation was asked; None where it cannot be read."""
    try:
        return AblationExperiment.model_validate(plan.ablation)
    except ValidationError:
        return None


def is_varied(plan: Plan) -> bool:
    """Whether an ablation varies anything: else it asks what pre-training is worth."""
    experiment = experiment_of(plan)
    return experiment is None or bool(experiment.vary)


def phase_words(run: Run, status: Status) -> str:
    """Return what it is doing."""
    if isinstance(run, Search):
        return stage_words(status)
    if isinstance(run, Ablation):
        return variant_stage_words(run.plan(), status)
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


def variant_stage_words(plan: Plan, status: Status) -> str:
    """Return what an ablation is doing, and with which of its variants."""
    if status.state is State.STOPPING:
        return word("ablation.stopping")
    stage, _, number = status.phase.partition("_")
    if not number:
        return word(f"ablation.stage_{stage or 'loading'}")
    doing = word(f"ablation.stage_{stage}")
    if number == str(UNTRAINED):
        return word("ablation.at_untrained", doing=doing)
    if not is_varied(plan):
        return word("ablation.at_trained", doing=doing)
    experiment = experiment_of(plan)
    count = max(experiment.changes) if experiment else number
    return word("ablation.at_variant", number=number, count=count, doing=doing)
