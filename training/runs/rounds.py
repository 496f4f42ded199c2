"""A training in rounds: each goes on from the model of the one before, which finds its hard negatives.

That is the simple form of Xiong et al. 2021 (ANCE): the negatives are those that the model itself takes for right,
mined anew each round. A round is a run of its own, in line behind the one before: it stops and resumes, is measured
before and after and tells what it was made of as every run does, and the first of them may be the best.
"""

from dataclasses import replace
from pathlib import Path

from training.options.bi_encoder import BiEncoderObjective, BiEncoderOptions
from training.options.common import TrainingOptions
from training.options.questions import NegativesFrom
from training.runs.runs import Plan, Run, create_run

_NEGATIVES = 4  # a question, where the training before took none


def rounds_of(options: TrainingOptions) -> int:
    """How many rounds these options ask for."""
    return options.rounds if isinstance(options, BiEncoderOptions) else 1


def create_rounds(plan: Plan, folder: Path | None = None, *, attended: bool = False) -> list[Run]:
    """Make the runs of a plan as `create_run` does, the first round first; several are folders of `folder`."""
    rounds = rounds_of(plan.options)
    if rounds == 1 or not isinstance(plan.options, BiEncoderOptions):
        return [create_run(plan, folder, attended=attended)]
    runs: list[Run] = []
    for number in range(1, rounds + 1):
        options = plan.options
        if runs:
            options = mined_by(str(runs[-1].folder.resolve()) if folder else runs[-1].id, options)
        one = replace(plan, name=f"{plan.name} · {number}/{rounds}", options=options, round=number)
        runs.append(create_run(one, folder and folder / f"round-{number}", attended=attended))
    return runs


def mined_by(model: str, options: BiEncoderOptions) -> BiEncoderOptions:
    """Return options that go on from a model which finds the hard negatives, by itself or, as before, with BM25."""
    searched = NegativesFrom.HYBRID if options.negatives_from is NegativesFrom.HYBRID else NegativesFrom.DENSE
    gist, mega = (options.objective is one for one in (BiEncoderObjective.GIST, BiEncoderObjective.MEGA_BATCH_MARGIN))
    return replace(
        options,
        base=model,
        objective=BiEncoderObjective.MULTIPLE_NEGATIVES if mega else options.objective,
        guide=options.guide or options.base if gist else options.guide,  # the judge stays the same
        negatives=options.negatives or _NEGATIVES,
        negatives_from=searched,
        negatives_model=model,
    )
